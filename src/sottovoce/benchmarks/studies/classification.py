"""Every classification method on the same public rows, by the session that users take: priced, drawn and released.

    sotto bench run classification --task agnews --private train.jsonl.gz --queries test.jsonl.gz --out FILE.json

For published or invented rows only: the references answer without noise, and no ledger outlasts the run. Rows that a
ledger was opened for are refused, unless their owner allows it with ``--allow-non-private``. The first
``--records`` rows play the private ones, the first ``--limit`` rows are asked. Each run has an in-memory ledger of its
own; accuracies are those of the drawn answers, with Clopper-Pearson intervals. Model scores are kept between runs, so
that a sweep does not ask the model twice.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, final

from sottovoce.benchmarks.harness.hardware import describe
from sottovoce.benchmarks.harness.public_rows import CONSENT, answered_from, public_records
from sottovoce.files.outputs import unused, write_new
from sottovoce.intervals import proportion
from sottovoce.methods.base import make_method
from sottovoce.models.base import Context, FloatArray, LabelScorer, PreparedContexts
from sottovoce.models.registry import load_scorer
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.records.readers import read_public
from sottovoce.records.sealed import PrivateRecords, PublicRecords
from sottovoce.session import PrivateICL
from sottovoce.tasks import Query, Task, load_task

PRIVATE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("poe", {}),
    ("rnm", {"noise": "exponential"}),
    ("rnm", {"noise": "permute_and_flip"}),
    ("rnm", {"noise": "gaussian"}),
)
REFERENCES = ("zero-shot", "soft", "hard", "full-context")
COLUMNS = ("method", "adjacency", "epsilon", "accuracy", "low", "high")


@final
class Remembering:
    """A model that keeps its scores by prompt, for benchmarks on public rows alone."""

    def __init__(self, scorer: LabelScorer) -> None:
        self._scorer, self.name, self.isolation = scorer, scorer.name, scorer.isolation
        self._known: dict[str, FloatArray] = {}

    def prepare(self, task: Task, contexts: Sequence[Context]) -> PreparedContexts:
        return _RememberingContexts(self, task, contexts)

    def scores(self, task: Task, contexts: Sequence[Context], queries: Sequence[Query]) -> FloatArray:
        """Scores from memory, or from the model once."""
        prompts = [[task.render_example(example) for example in context] for context in contexts]
        key = hashlib.sha256(json.dumps([list(task.labels), prompts, list(map(dict, queries))]).encode()).hexdigest()
        if key not in self._known:
            prepared = self._scorer.prepare(task, contexts)
            self._known[key] = prepared.score(queries)
            prepared.close()
        return self._known[key]


class _RememberingContexts:
    def __init__(self, owner: Remembering, task: Task, contexts: Sequence[Context]) -> None:
        self._owner, self._task, self._contexts = owner, task, contexts

    def score(self, queries: Sequence[Query]) -> FloatArray:
        return self._owner.scores(self._task, self._contexts, queries)

    def close(self) -> None:
        pass


def measure(
    records: PrivateRecords, queries: PublicRecords, task: Task, model: LabelScorer, epsilons: Sequence[float]
) -> list[dict[str, Any]]:
    """Runs every method at every epsilon under both adjacencies, and the references.

    Returns:
        One row each with the keys of ``COLUMNS``, and ``options`` and ``seconds``.
    """
    rows = [_run(records, queries, task, model, name, {}, "replace-one", None) for name in REFERENCES]
    for adjacency, epsilon, (name, options) in product(("add-remove", "replace-one"), epsilons, PRIVATE):
        rows.append(_run(records, queries, task, model, name, options, adjacency, epsilon))
    return rows


def _run(
    records: PrivateRecords,
    queries: PublicRecords,
    task: Task,
    model: LabelScorer,
    name: str,
    options: dict[str, Any],
    adjacency: str,
    epsilon: float | None,
) -> dict[str, Any]:
    icl = PrivateICL(
        records=records,
        task=task,
        method=make_method(name, **options),
        model=model,
        adjacency=adjacency,
        budget=Budget(1000, 1e-6 if options.get("noise") == "gaussian" else 0.0),
        ledger=":memory:",
        allow_non_private=True,
    )
    started = time.perf_counter()
    questions = [task.query_of(row, queries.source) for row in queries]
    answers = [release.value for release in icl.classify(questions, epsilon=epsilon or 1.0)]
    truth = [task.labels[task.label_of(row, queries.source)] for row in queries]
    right = proportion(sum(a == t for a, t in zip(answers, truth, strict=True)), len(truth))
    return {
        "method": name + (f" ({options['noise']})" if options else ""),
        "adjacency": adjacency if epsilon else None,
        "epsilon": epsilon,
        "accuracy": right.value,
        "low": right.low,
        "high": right.high,
        "options": options,
        "seconds": round(time.perf_counter() - started, 3),
    }


def _known_too(file: Path, most: int) -> PublicRecords:
    """The first rows of a file, whoever's they are."""
    return read_public(file).first(most)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the experiment and prints a table."""
    parser = argparse.ArgumentParser(prog="sotto bench run classification", description=__doc__)
    parser.add_argument("--task", required=True, help="a built-in task, or a .toml file")
    parser.add_argument("--private", required=True, type=Path)
    parser.add_argument("--queries", required=True, type=Path)
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--records", type=int, default=25)
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--out", type=unused)
    parser.add_argument(
        CONSENT,
        action="store_true",
        help="the owner's consent to answer without noise, and without a charge, from rows that have a ledger",
    )
    options = parser.parse_args(argv)
    task = load_task(options.task)
    read = _known_too if options.allow_non_private else public_records
    private, queries = read(options.private, options.records), read(options.queries, options.limit)
    records = PrivateRecords(private, source=private.source, unit="record", synthetic=True, whole=private.whole)
    if not options.allow_non_private:
        answered_from(records, str(options.private))
    rows = measure(records, queries, task, Remembering(load_scorer(options.model)), options.epsilon)
    print(f"{task.name}, {options.model}, {options.records} records, {options.limit} questions")
    for row in rows:
        price = f"{row['adjacency']:>12} epsilon {row['epsilon']:g}" if row["epsilon"] else f"{'no guarantee':>22}"
        price = f"{'nothing read':>22}" if row["method"] == "zero-shot" else price
        shares = [100 * row[name] for name in ("accuracy", "low", "high")]
        print(f"{row['method']:<24} {price:<24} {shares[0]:5.1f} %  ({shares[1]:.1f} to {shares[2]:.1f})")
    if options.out:
        about = {"task": task.name, "model": options.model, "records": options.records, "questions": options.limit}
        write_new(options.out, json.dumps({**about, "machine": describe(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
