"""Runs experiments: piece by piece, each kept when it is done, so that an interrupted run goes on where it stopped."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from sottovoce.benchmarks.harness.checkpoint import CHECKPOINT, installed_checkpoint
from sottovoce.benchmarks.harness.datasets import DATASETS, default_data
from sottovoce.benchmarks.harness.experiment import (
    Bench,
    Cell,
    Experiment,
    Key,
    Piece,
    Result,
    Settings,
    hash_of_result,
    is_result_of,
)
from sottovoce.benchmarks.harness.hardware import describe
from sottovoce.benchmarks.harness.parallel import Done, measured, run_in_parallel
from sottovoce.benchmarks.harness.score_cache import ScoreCache, StoredScorer
from sottovoce.errors import InputError, ParameterError
from sottovoce.files.outputs import refuse_existing, refuse_protected
from sottovoce.files.partial import PartialFile, is_torn, rows_of
from sottovoce.models.base import LabelScorer
from sottovoce.models.registry import load_scorer
from sottovoce.parameters import Number, OneOf
from sottovoce.store import home
from sottovoce.terminal import losing, progress, say

MODULES: Final = {
    "poetry-table1": "poetry.table1",
    "poetry-table2": "poetry.table2",
    "poetry-table3": "poetry.table3",
    "poetry-table4": "poetry.table4",
    "poetry-soft-hard": "poetry.soft_hard",
    "poetry-records": "poetry.records",
    "poetry-clip": "poetry.clip",
    "poetry-groups": "poetry.groups",
    "poetry-epsilon": "poetry.epsilon",
    "poetry-time": "poetry.time",
    "prior-choice": "poetry.prior_choice",
    "prior-poe": "poetry.prior_poe",
    "plan-grid": "studies.plan_grid",
    "frontier": "frontier.measure",
    "real-checkpoint": "studies.real_checkpoint",
    "checkpoint-fits": "studies.checkpoint_fits",
    "prism-kshot": "prism.kshot",
    "prism-records": "prism.records",
    "prism-knobs": "prism.ablations",
    "prism-slots": "prism.slots",
    "prism-structured": "prism.structured",
    "prism-extraction": "prism.extraction",
    "prism-membership": "prism.membership",
    "answers-methods": "public_data.table",
    "answers-shots": "public_data.shots",
    "answers-time": "public_data.time",
    "answers-pools": "public_data.pools",
    "answers-accounting": "public_data.accounting",
    "answers-repeat": "public_data.repeat",
    "answers-documents": "public_data.documents",
    "contextleak-methods": "contextleak.methods",
    "contextleak-grid": "contextleak.grid",
    "contextleak-defences": "contextleak.defences",
    "contextleak-utility": "contextleak.utility",
    "contextleak-esa": "contextleak.esa",
    "contextleak-wordings": "contextleak.wordings",
    "contextleak-copying": "contextleak.copying",
    "contextleak-snapshots": "contextleak.snapshots",
}
"""Experiments that this runner runs: name to module."""


TIMED: Final = ("poetry-time", "answers-time")
MOST_JOBS: Final = 64
_HEAD: Final = '{"experiment": "'
_PIECE: Final = '{"piece": {"'
"""How the first line of a partial file begins, and every other."""
_REPLACES: Final = "replaces"
"""In the first line: which result of other settings was there when ``--restart`` was said."""


def load_experiment(name: str) -> Experiment:
    """Loads an experiment by name.

    Raises:
        ParameterError: There is none.
    """
    OneOf(tuple(MODULES)).read("experiment", name)
    experiment: Experiment = import_module(f"sottovoce.benchmarks.{MODULES[name]}").EXPERIMENT
    return experiment


def open_model(spec: str, store: ScoreCache) -> LabelScorer:
    """Opens a model for public rows: embeddings are kept in the store, of questions too."""
    if spec == "embedded":
        from sottovoce.models.embedded.label_scorer import EmbeddedScorer

        return EmbeddedScorer(store=store, questions=store)
    if spec == "embedded-image":
        return load_scorer(spec, store=store)
    return load_scorer(installed_checkpoint() if spec == CHECKPOINT else spec)


def run(
    experiment: Experiment,
    settings: Settings,
    *,
    results: Path,
    cache: Path,
    data: Path | None = None,
    restart: bool = False,
    jobs: int = 1,
) -> Path:
    """Runs an experiment to its end, going on behind what an interrupted run left.

    Args:
        experiment: What to run.
        settings: With which choices.
        results: Folder of the result file.
        cache: Folder of the kept model scores.
        data: Folder of the benchmark rows.
        restart: Throw away what an interrupted run left, and replace a result with other settings.
        jobs: Processes that measure pieces side by side.

    Returns:
        The result file.

    Raises:
        InputError: An interrupted run had other settings, rows are missing, or something else is in a file's place.
    """
    Number(1, MOST_JOBS, whole=True, strict=True).read("jobs", jobs)
    file = results / f"{experiment.name}{_suffix(settings.model)}{_suffix(settings.writer or 'embedded')}.json"
    refuse_protected(file)
    refuse_existing(file, lambda old: is_result_of(old, experiment.name))
    other = hash_of_result(file) if file.exists() and not is_result_of(file, experiment.name, settings) else None
    partial_file = file.with_suffix(".partial")
    if other is not None and not restart and _replaced_by(partial_file, experiment, settings) != other:
        raise InputError(
            f"{file} is a result with other settings. Name another folder (--results), move it away, or pass "
            f"--restart, which replaces it and throws away what is in {partial_file.name}."
        )
    pieces = experiment.pieces(settings)
    with (
        closing(ScoreCache(cache / "scores.db")) as store,
        closing(_Diary(partial_file, experiment, settings, other if restart else None, restart=restart)) as diary,
    ):
        bench = open_bench(settings, store, data or default_data())
        for task in settings.tasks:
            if task in DATASETS:  # others are read by their experiment
                bench.world(task)
        waiting = [piece for piece in pieces if piece not in diary.done]
        done: Iterable[Done]
        if jobs == 1 or len(waiting) < 2:
            done = (measured(experiment.measure, bench, piece) for piece in waiting)
        else:
            again = partial(open_bench, settings, cache / "scores.db", data or default_data())
            done = run_in_parallel(experiment.measure, again, waiting, min(jobs, len(waiting)))
        _work(experiment.name, done, diary, len(pieces) - len(waiting), len(pieces))
        before, started = (bench.scorer.asked, bench.scorer.found), time.perf_counter()
        extra = experiment.whole(bench, pieces) if experiment.whole else {}
        scored, cached = (bench.scorer.asked - before[0], bench.scorer.found - before[1])
        seconds = diary.seconds + time.perf_counter() - started
        scores = {"asked": diary.asked + scored, "found": diary.found + cached}
        result = Result(experiment.name, settings, diary.cells(pieces), describe(), round(seconds, 1), scores, extra)
        result.write(file, replaces=diary.replaces)
        diary.remove()
    return file


def open_bench(settings: Settings, store: ScoreCache | Path, data: Path) -> Bench:
    """Everything that an experiment measures with."""
    store = ScoreCache(store) if isinstance(store, Path) else store
    return Bench(settings, StoredScorer(open_model(settings.model, store), store), data)


def _work(name: str, pieces: Iterable[Done], diary: _Diary, before: int, total: int) -> None:
    with progress() as bar:
        doing = bar.add_task(name, total=total, completed=before, rate="")
        for done in pieces:
            diary.add(done)
            bar.update(doing, advance=1)


class _Diary:
    """What was done so far, a line a piece; the first line says of what, and which result of other settings it is to
    replace, by its hash: ``--restart`` was said for that one.
    """

    def __init__(
        self, file: Path, experiment: Experiment, settings: Settings, replaces: str | None, *, restart: bool
    ) -> None:
        self.file, self.done, self.replaces = file, dict[Piece, dict[Key, float]](), replaces
        self.seconds, self.asked, self.found = 0.0, 0, 0
        head = _head_of(experiment, settings)
        file.parent.mkdir(parents=True, exist_ok=True)
        self._partial = PartialFile(file, fresh=not os.path.lexists(file))
        try:
            kept = self._read(head, restart=restart)
            self._partial.keep(kept)
            if not kept:
                self._append({**head, **({_REPLACES: replaces} if replaces else {})})
        except BaseException:
            self.close()
            raise

    def _read(self, head: dict[str, Any], *, restart: bool) -> bytes:
        """Takes up what an interrupted run of these settings left, and returns the whole lines that say so."""
        content = self._partial.read()
        first, end, _ = content.partition(b"\n")
        if not (_is_head(first) or (not end and is_torn(first, _HEAD))):
            raise InputError(f"{self.file.name} is not of an interrupted run. Move it away.")
        if restart:
            return b""
        rows, torn = rows_of(content, self._damaged)
        own = bool(rows) and _without_replaced(rows[0]) == head
        if len(rows) > 1 and not own:
            raise InputError(
                f"{self.file.name} holds an interrupted run with other settings. Run with those, or throw it away with "
                "--restart."
            )
        for number, entry in enumerate(rows[1:], 2):
            try:
                self._note(entry)
            except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
                raise self._damaged(number) from None
        if rows and torn and not is_torn(torn, _PIECE):
            raise self._damaged(len(rows) + 1)
        if not own:
            return b""
        self.replaces = rows[0].get(_REPLACES)
        return content[: len(content) - len(torn)]

    def _damaged(self, number: int) -> InputError:
        return InputError(
            f"{self.file.name}, line {number}: not a whole piece of an interrupted run. Delete the line, and that "
            "piece is measured again; or throw all of them away with --restart."
        )

    def remove(self) -> None:
        """Throws away what is in the result file by now."""
        if not self._partial.remove() and self._partial.is_at(self.file):
            say(f"{self.file} cannot be removed, and is in the result. Remove it.")

    def close(self) -> None:
        """Lets another process go on with the run."""
        self._partial.close()

    def _append(self, entry: dict[str, Any]) -> None:
        self._partial.append((json.dumps(entry) + "\n").encode("utf-8"))

    def add(self, done: Done) -> None:
        entry = {
            "piece": asdict(done.piece),
            "numbers": [[asdict(key), _shortened(value)] for key, value in done.numbers],
            "seconds": done.seconds,
            "asked": done.asked,
            "found": done.found,
        }
        self._append(entry)
        self._note(entry)

    def cells(self, pieces: Sequence[Piece]) -> list[Cell]:
        """One cell for every key, its values by seed."""
        values_by_key: dict[Key, list[float]] = {}
        for piece in pieces:
            for key, value in self.done[piece].items():
                values_by_key.setdefault(key, []).append(value)
        return [Cell(key, tuple(values)) for key, values in values_by_key.items()]

    def _note(self, entry: dict[str, Any]) -> None:
        self.done[Piece(**entry["piece"])] = {Key(**key): float(value) for key, value in entry["numbers"]}
        self.seconds += entry["seconds"]
        self.asked, self.found = self.asked + entry["asked"], self.found + entry["found"]


def _shortened(value: float) -> float:
    """Three decimals; three digits of a number below 1, such as the probability of a rare label."""
    return round(float(value), 3) if abs(value) >= 1 else float(f"{value:.3g}")


def _head_of(experiment: Experiment, settings: Settings) -> dict[str, Any]:
    head: dict[str, Any] = json.loads(json.dumps({"experiment": experiment.name, "settings": asdict(settings)}))
    return head


def _replaced_by(file: Path, experiment: Experiment, settings: Settings) -> str | None:
    """The hash of the result that an interrupted run of these very settings was begun to replace, if there is one."""
    try:
        with file.open("rb") as stream:
            line = stream.readline()
    except OSError:
        return None
    head = json.loads(line) if _is_head(line) else {}
    return head.get(_REPLACES) if _without_replaced(head) == _head_of(experiment, settings) else None


def _is_head(line: bytes) -> bool:
    try:
        head = json.loads(line)
    except (ValueError, RecursionError):
        return False
    if not isinstance(head, dict) or not isinstance(head.get(_REPLACES, ""), str):
        return False
    return _without_replaced(head).keys() == {"experiment", "settings"}


def _without_replaced(head: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in head.items() if name != _REPLACES}


def _suffix(model: str) -> str:
    if model.startswith("embedded"):
        return ""
    return "-" + "".join(c if c.isalnum() else "-" for c in model.rpartition("/")[2] or model).strip("-")


def parser_of(name: str) -> argparse.ArgumentParser:
    """The options of every experiment."""
    parser = argparse.ArgumentParser(prog=f"sotto bench run {name}")
    parser.add_argument("--model", help="embedded, hf:NAME_OR_PATH, embedded-image, vision:NAME_OR_PATH")
    parser.add_argument(
        "--writer",
        help="another model that writes [--model]; for long answers also batched:NAME, batched-bf16:NAME",
    )
    parser.add_argument("--seeds", type=int, help="draws of records, questions and names")
    parser.add_argument("--queries", type=int, help="questions a seed")
    parser.add_argument("--adjacency", dest="adjacencies", nargs="+", help="add-remove, replace-one")
    parser.add_argument("--epsilon", dest="epsilons", type=float, nargs="+", help="of one answer")
    parser.add_argument("--records", type=int, nargs="+", help="numbers of private records")
    parser.add_argument("--groups", type=int, nargs="+", help="records an expert")
    parser.add_argument("--clip", dest="clips", type=float, nargs="+", help="clips, where they are varied")
    parser.add_argument("--shots", type=int, nargs="+", help="demonstrations in a prompt, where they are varied")
    parser.add_argument("--experts", type=int, nargs="+", help="numbers of experts that write a long answer")
    parser.add_argument("--draws", type=int, nargs=1, help="how often the noise of a long answer is drawn")
    parser.add_argument("--methods", nargs="+", help="which methods, where an experiment can measure some alone")
    parser.add_argument("--tasks", nargs="+", help="which worlds")
    parser.add_argument("--names", nargs="+", choices=["own", "made up"], help="kinds of label names")
    parser.add_argument("--data", type=Path, help="folder of the benchmark rows")
    parser.add_argument("--results", type=Path, default=Path("bench-results"), help="folder of the result files")
    parser.add_argument("--cache", type=Path, help="folder of kept model scores [your data folder]")
    parser.add_argument("--jobs", type=int, default=1, help="processes that measure side by side")
    parser.add_argument("--quick", action="store_true", help="a small grid, where the experiment has one")
    again = "throw away what an interrupted run left, and replace a result with other settings"
    parser.add_argument("--restart", action="store_true", help=again)
    return parser


def main(name: str, argv: Sequence[str]) -> None:
    """Runs one experiment and prints its tables, or all of one paper for its name, such as ``poetry``."""
    from sottovoce.benchmarks.harness.tables import text_tables

    arguments = vars(parser_of(name).parse_args(list(argv)))
    places = {place: arguments.pop(place) for place in ("data", "results", "cache", "restart", "jobs")}
    places["cache"], quick = places["cache"] or home() / "benchmarks", arguments.pop("quick")
    for each in _named(name):
        experiment = load_experiment(each)
        if quick and experiment.quick is None:
            raise ParameterError("--quick", each, "left out: the experiment has no small grid")
        defaults = experiment.quick if quick and experiment.quick else experiment.settings
        settings = defaults.changed(**_suited(experiment, arguments, alone=name not in PAPERS))
        alone = each in TIMED  # a time is measured on a quiet machine, as far as this run goes
        file = run(experiment, settings, **{**places, "jobs": 1} if alone else places)
        with losing(f"{file} is written."):
            print(text_tables(experiment.section(Result.read(file))))
        say(f"Written: {file}")


PAPERS: Final[Mapping[str, tuple[str, ...]]] = {
    "poetry": ("poetry", "prior"),
    "prism": ("prism",),
    "answers": ("answers",),
    "contextleak": ("contextleak",),
}
"""How the names begin of what is run for the name of a paper; prior x PoE is our upgrade of Private PoEtry."""


def _named(name: str) -> Iterator[str]:
    yield from (each for each in MODULES if each.startswith(PAPERS[name])) if name in PAPERS else [name]


def _suited(experiment: Experiment, arguments: dict[str, Any], *, alone: bool) -> dict[str, Any]:
    """In a run of all experiments, only what every one of them has; a model of texts cannot read images."""
    if alone:
        return arguments
    kept = {name: arguments[name] for name in ("seeds", "queries", "adjacencies", "epsilons", "writer")}
    if experiment.name == "poetry-time":  # each price is timed anew, and in-memory ledgers hold epsilon 1000
        kept |= {"epsilons": None, "adjacencies": None}
    return kept | ({} if "image" in experiment.settings.model else {"model": arguments["model"]})
