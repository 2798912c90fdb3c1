"""Private PoEtry, the analysis of soft and hard predictions: what is lost when experts only vote."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.accuracy import difference, hard, kinds, readable, series, soft
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Key, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.results import Figure, ReportSection, Series, Table
from sottovoce.experts.label_scores import sanitized
from sottovoce.models.base import FloatArray

WAYS = ("full context", "soft", "hard", "one expert")
NOTE = (
    "Mean and standard error over seeds. Soft is the geometric mean of the experts, which gets no sharper with more of "
    "them; a plain product would, so its size says less than its ranks. Hard is the share of votes. Nothing here is "
    "private or released."
)
TARGET, INFINITY, RANK = "probability of the right label", "largest probability", "probability by rank"


def measure(bench: Bench, piece: Piece) -> Measurements:
    """For each way to combine the experts: probability of the truth, largest probability, probability by rank."""
    episode = bench.world(piece.task).episode(piece.seed, bench.settings.queries, piece.names)
    for records in bench.settings.records:
        alone = e.ask(bench.scorer, episode, [[i] for i in range(records)])
        whole = e.ask(bench.scorer, episode, [range(records)])[:, 0]
        votes, voters = hard(alone), readable(alone).sum(axis=1, keepdims=True)
        predictions = {
            "full context": shares(whole),
            # The mean of log-probabilities: the geometric mean of the experts, the product of experts at weight 1/n.
            "soft": shares(soft(alone) / np.maximum(voters, 1)),
            "hard": np.where(voters, votes / np.maximum(voters, 1), 1 / votes.shape[1]),
            "one expert": shares(alone[:, 0]),
        }
        for way, share in predictions.items():
            key = Key(piece.task, piece.names, way, TARGET, records)
            yield key, float(share[np.arange(len(share)), episode.truth].mean())
            yield replace(key, quantity=INFINITY), float(share.max(axis=1).mean())
            for rank, value in enumerate(-np.sort(-share, axis=1).mean(axis=0), 1):
                yield replace(key, quantity=RANK, option=str(rank)), float(value)


def shares(log_weights: FloatArray) -> FloatArray:
    """Probabilities from log-weights, row by row; all alike where a prompt could not be read."""
    known = sanitized(log_weights)
    known = np.where(np.isnan(known).all(axis=1, keepdims=True), 0.0, known)
    weights = np.exp(known - known.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def section(result: Result) -> ReportSection:
    """Tables of both numbers, and rank against probability."""
    tables = [_table(result, TARGET), _table(result, INFINITY)]
    lines = []
    for records in result.settings.records:
        gaps = []
        for task, names in kinds(result):
            at = {"task": task, "names": names, "records": records, "quantity": TARGET}
            gaps.append(difference(result.cell(**at, method="soft"), result.cell(**at, method="hard")))
        ahead = sum(gap > 2 * error for gap, error in gaps)
        behind = sum(gap < -2 * error for gap, error in gaps)
        lines.append(
            f"With {records} records the right label has more weight under soft than under hard predictions in {ahead} "
            f"of {len(gaps)} cells, and less in {behind}; differences in probability: "
            f"{', '.join(f'{t} ({n}) {gap:+.2f}' for (t, n), (gap, _) in zip(kinds(result), gaps, strict=True))}."
        )
    return ReportSection(
        result.experiment, EXPERIMENT.title, EXPERIMENT.source, lines, tables, _figures(result), about(result)
    )


def _table(result: Result, quantity: str) -> Table:
    rows = []
    for task, names in kinds(result):
        for records in result.settings.records:
            cells = [result.cell(task=task, names=names, method=w, records=records, quantity=quantity) for w in WAYS]
            means = [f"{c.mean:.3f} ± {c.standard_error:.3f}" if c else "" for c in cells]
            rows.append((task, names, str(records), *means))
    title = "Mean probability of the right label" if quantity == TARGET else "Mean infinity norm of the prediction"
    return Table(title, ("task", "label names", "records", *WAYS), rows, NOTE)


def _figures(result: Result) -> list[Figure]:
    figures = []
    records = result.settings.records[-1]
    for task, names in kinds(result):
        lines = []
        for way in WAYS:
            ranks = [
                (int(c.key.option), c.mean)
                for c in result.cells
                if (c.key.task, c.key.names, c.key.method, c.key.records, c.key.quantity)
                == (task, names, way, records, RANK)
            ]
            lines.append(Series(way, [float(rank) for rank, _ in ranks], [max(mean, 1e-6) for _, mean in ranks]))
        figures.append(
            Figure(
                f"ranks-{task}-{'own' if names == 'own' else 'made-up'}",
                f"{task}, {names} names, {records} records: probability by rank",
                "rank of the label",
                "mean probability",
                lines,
                log_y=True,
            )
        )
    for task, names in kinds(result):
        x = result.settings.records
        figures.append(
            Figure(
                f"target-{task}-{'own' if names == 'own' else 'made-up'}",
                f"{task}, {names} names: weight of the right label",
                "private records",
                "mean probability of the right label",
                [
                    series(w, x, [result.cell(task=task, names=names, method=w, records=n, quantity=TARGET) for n in x])
                    for w in WAYS
                ],
            )
        )
    return figures


EXPERIMENT = Experiment(
    name="poetry-soft-hard",
    title="Soft against hard predictions: what voting throws away",
    source="Private PoEtry, analysis of soft and hard predictions (likelihood at the target, infinity norm, ranks)",
    settings=Settings(tasks=("agnews", "dbpedia", "trec"), records=(4, 8, 25)),
    measure=measure,
    section=section,
)
