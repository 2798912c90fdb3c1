"""Peak memory of a fit at 10,000 to 1,000,000 rows, and rows a second on one core, on two and by Ray.

    sotto bench run fit-size [--out FILE.json]

Memory: a whole ``fit`` with class means over rows of twelve made-up words in Parquet, in a process of its own, ledger
and certificate included. Embeddings of 384 numbers are made up from a table, so that a million rows take minutes.
``one sum`` adds each block up as it comes (replace-one); ``vectors kept`` is a fit whose second sum depends on the
first draw (add-remove with public texts); ``rows held`` reads all rows into memory first, as data frames are.

Speed: the embedded model reads such rows and adds them up; loading it is not counted, and no embedding is kept. Ray is
left out where it is not installed. All sums must be equal in every bit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from sottovoce.benchmarks.harness.hardware import describe
from sottovoce.errors import MissingExtraError, ModelError, ParameterError
from sottovoce.experts.blocks import BlockReader
from sottovoce.experts.encoded import EncodedRecords
from sottovoce.experts.ray_engine import RayEngine
from sottovoce.experts.unit_sums import ClassSums
from sottovoce.files.outputs import unused, write_new
from sottovoce.fitting.fit import Fitting
from sottovoce.models.base import Context, FloatArray, Isolation, PreparedContexts
from sottovoce.models.embedded.label_scorer import EmbeddedScorer
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.readers import read_private
from sottovoce.tasks import Query, Task

ROWS: Final = (10_000, 100_000, 1_000_000)
SPEED_ROWS: Final = 1_000
WAYS: Final = ("one sum", "vectors kept", "rows held")
LABELS: Final = ("dax", "blicket", "wug", "fep")
DIMENSION: Final = 384
WORDS: Final = 12
_VOCABULARY: Final = 5_000
_TABLE: Final = 4_096
_GROUP: Final = 10_000
TASK: Final = Task(labels=LABELS)
PUBLIC: Final = ({"text": "Is this still the same?"},)
Row = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, prints tables, and writes one JSON file if asked."""
    parser = argparse.ArgumentParser(prog="sotto bench run fit-size", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=unused, help="JSON file to write")
    parser.add_argument("--rows", type=int, nargs="*", default=list(ROWS), help="for memory")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="of fitting, for memory")
    parser.add_argument("--speed-rows", type=int, default=SPEED_ROWS, help="0: no speed")
    args = parser.parse_args(argv)
    if min([*args.rows, 100]) < 100 or args.speed_rows < 0:
        raise ParameterError("rows", args.rows, "100 or more each")
    if find_spec("pyarrow") is None:
        raise MissingExtraError("pyarrow", "data")
    report: Row = {
        "machine": {**describe(), "ray": version("ray") if find_spec("ray") else None},
        "settings": {"words": WORDS, "dimension": DIMENSION, "labels": len(LABELS)},
        "memory": [_alone("memory", rows=rows, way=way) for rows in args.rows for way in args.ways],
        "speed": list(_speeds(args.speed_rows)) if args.speed_rows else [],
    }
    if len({row["sums"] for row in report["speed"]}) > 1:
        raise ModelError("The sums of the engines differ.")
    print(as_text(report))
    if args.out:
        write_new(args.out, json.dumps(report, indent=1) + "\n")
    return 0


def as_text(report: Row) -> str:
    """The rows as plain tables."""
    lines = [f"{'memory':<14} {'rows':>9} {'peak, MiB':>10} {'seconds':>8}"]
    lines += [
        f"{row['way']:<14} {row['rows']:>9,} {row['peak_mib']:>10,} {row['seconds']:>8.1f}" for row in report["memory"]
    ]
    lines += [f"{'speed':<14} {'cores':>9} {'rows/s':>10}"]
    lines += [f"{row['engine']:<14} {row['cores']:>9} {row['rows_a_second']:>10.1f}" for row in report["speed"]]
    return "\n".join(lines)


def _speeds(rows: int) -> Iterator[Row]:
    engines = ["local", *(["ray"] if find_spec("ray") else [])]
    for engine in engines:
        for cores in range(1, min(2, os.cpu_count() or 1) + 1):
            yield _alone("speed", rows=rows, engine=engine, cores=cores)


def _alone(what: str, **settings: Any) -> Row:
    """One measurement in a process of its own, which leaves nothing behind."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", "from sottovoce.benchmarks.speed.fit_size import measure; measure()"],
            input=json.dumps({"what": what, "folder": folder, **settings}),
            env={**os.environ, "SOTTOVOCE_HOME": str(Path(folder) / "home")},
            stdout=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise ModelError(f"The measurement of {what} with {settings} failed.")
    return {**settings, **json.loads(done.stdout.splitlines()[-1])}


def measure() -> None:
    """Reads settings from stdin and prints what they give: what one process of the benchmark does."""
    settings = json.loads(sys.stdin.read())
    what, folder = settings.pop("what"), Path(settings.pop("folder"))
    file = folder / "rows.parquet"
    subprocess.run(
        [sys.executable, "-c", f"from sottovoce.benchmarks.speed.fit_size import write; write({str(file)!r}, "
         f"{settings['rows']})"], check=True,
    )  # fmt: skip
    print(json.dumps(_memory(file, **settings) if what == "memory" else _speed(file, **settings)))


def write(file: str, rows: int) -> None:
    """Writes rows of made-up words and labels, the same ones each time."""
    import pyarrow as pa
    from pyarrow import parquet

    random = np.random.default_rng(14)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(word) for word in letters[random.integers(0, 26, (_VOCABULARY, 5))]]
    with parquet.ParquetWriter(file, pa.schema([("text", pa.string()), ("label", pa.string())])) as out:
        for start in range(0, rows, _GROUP):
            count = min(_GROUP, rows - start)
            texts = [
                " ".join(words[i] for i in row) for row in random.integers(0, _VOCABULARY, (count, WORDS)).tolist()
            ]
            labels = [LABELS[i] for i in random.integers(0, len(LABELS), count)]
            out.write_table(pa.table({"text": texts, "label": labels}))


def _memory(file: Path, rows: int, way: str) -> Row:
    """A whole fit over made-up embeddings."""
    started = time.perf_counter()
    pool = [f"public text {i}" for i in range(200)] if way == "vectors kept" else []
    fitting = Fitting(
        read_private(file, stream=way != "rows held"), TASK, epsilon=4, model=MadeUp(), pool=pool,
        adjacency=Adjacency.ADD_REMOVE if pool else Adjacency.REPLACE_ONE, ledger=str(file.with_name("rows.db")),
    )  # fmt: skip
    fitting.run()
    return {"peak_mib": _peak_mib(), "seconds": round(time.perf_counter() - started, 1)}


def _speed(file: Path, rows: int, engine: str, cores: int) -> Row:
    """Rows a second of the embedded model; their sums go to a hash."""
    if engine == "local" and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])
    by = RayEngine(cores) if engine == "ray" else None
    model = EmbeddedScorer(store=False)
    rules, reader = [ClassSums(len(LABELS), DIMENSION)], BlockReader(model, TASK, PUBLIC)
    if by is not None:
        by.start(reader, rules)
    records = EncodedRecords(read_private(file, stream=True), TASK, model, Adjacency.REPLACE_ONE)
    started = time.perf_counter()
    try:
        records.read(reader, None, rules, by)
    finally:
        if by is not None:
            by.close()
    seconds = time.perf_counter() - started
    digest = hashlib.sha256(records.sum_of(rules[0]).tobytes()).hexdigest()
    return {"seconds": round(seconds, 2), "rows_a_second": round(rows / seconds, 1), "sums": digest}


def _peak_mib() -> int:
    """Most memory that this process had at once."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) >> 10
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> (20 if sys.platform == "darwin" else 10)


@final
class MadeUp:
    """Embeds a text as a row of a table that its checksum picks, and likes no label more than others."""

    name = "made up"
    isolation = Isolation.BY_CONSTRUCTION
    dimension = DIMENSION
    embedding = hashlib.sha256(b"made up").hexdigest()

    def __init__(self) -> None:
        table = np.random.default_rng(1).normal(size=(_TABLE, DIMENSION))
        self._table = (table / np.linalg.norm(table, axis=1, keepdims=True)).astype(np.float32)

    def embed_records(self, task: Task, records: Sequence[Query]) -> FloatArray:
        return self.embed_questions(task, records)

    def embed_questions(self, task: Task, queries: Sequence[Query]) -> FloatArray:
        places = [zlib.crc32(task.text_of(query).encode()) % _TABLE for query in queries]
        return np.asarray(self._table[np.array(places, dtype=np.intp)], dtype=np.float64)

    def prepare(self, task: Task, contexts: Sequence[Context]) -> PreparedContexts:
        return FakeScorer().prepare(task, contexts)
