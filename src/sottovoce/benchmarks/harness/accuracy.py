"""Accuracies of all methods and references on one piece of an experiment, and how they are shown."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.datasets import Episode
from sottovoce.benchmarks.harness.experiment import Bench, Cell, Key, Measurements, Piece, Result
from sottovoce.benchmarks.harness.results import Series, Table
from sottovoce.errors import ParameterError
from sottovoce.experts.label_scores import sanitized
from sottovoce.methods.base import Price, Selecting
from sottovoce.methods.pbs import PbS
from sottovoce.models.base import FloatArray

BoolArray = NDArray[np.bool_]

SHORT: Final = {
    e.VOTES: "votes, exp.",
    e.VOTES_PF: "votes, PF",
    e.VOTES_GAUSSIAN: "votes, Gaussian",
}
"""Names for narrow columns."""


def measure_accuracy(
    bench: Bench,
    piece: Piece,
    *,
    methods: Mapping[str, Selecting] = e.SELECTING,
    pbs: PbS | None = None,
    options: Mapping[str, str] | None = None,
) -> Measurements:
    """Percent right for every number of records, group, adjacency and epsilon of the settings.

    Args:
        methods: Those that choose from the scores of fixed experts, by name.
        pbs: Prediction by subsampling, where it takes part.
        options: For some methods the ``option`` of their key.
    """
    settings = bench.settings
    episode = bench.world(piece.task).episode(piece.seed, settings.queries, piece.names)
    public = e.ask_public(bench.scorer, episode)
    yield _key(piece, e.ZERO_SHOT), e.right(e.best_laws(public), episode.truth)
    for records in settings.records:
        if records > len(episode.records):
            continue
        yield from _references(bench, piece, episode, records)
        for group in settings.groups:
            if group <= records:
                yield from _released(bench, piece, episode, public, records, group, methods, options or {})
        if pbs:
            yield from _by_subsampling(bench, piece, episode, records, pbs)


def _references(bench: Bench, piece: Piece, episode: Episode, records: int) -> Measurements:
    whole = e.ask(bench.scorer, episode, [range(records)])
    yield _key(piece, e.FULL, records), e.right(e.best_laws(whole[:, 0]), episode.truth)
    for group in bench.settings.groups:
        if group <= records:
            groups = [range(start, min(start + group, records)) for start in range(0, records, group)]
            expert_scores = e.ask(bench.scorer, episode, groups)
            for name, scores in ((e.SOFT, soft(expert_scores)), (e.HARD, hard(expert_scores))):
                yield _key(piece, name, records, group=group), e.right(e.best_laws(scores), episode.truth)


def soft(scores: FloatArray) -> FloatArray:
    """Summed log-probabilities of the experts that could be read, shape (questions, labels)."""
    return np.asarray(np.nansum(np.maximum(_sanitized(scores), -1e6), axis=1))


def hard(scores: FloatArray) -> FloatArray:
    """Votes, shape (questions, labels)."""
    scores = _sanitized(scores)
    valid = readable(scores)
    best = np.where(valid, np.nan_to_num(scores, nan=-np.inf).argmax(axis=2), -1)
    return np.stack([(best == label).sum(axis=1) for label in range(scores.shape[2])], axis=1).astype(float)


def readable(scores: FloatArray) -> BoolArray:
    """Which experts say anything, shape (questions, experts)."""
    return np.asarray(~np.isnan(_sanitized(scores)).all(axis=2))


def _sanitized(scores: FloatArray) -> FloatArray:
    """As the methods see it: an expert without a finite best label says nothing."""
    return sanitized(scores.reshape(-1, scores.shape[2])).reshape(scores.shape)


def _released(
    bench: Bench,
    piece: Piece,
    episode: Episode,
    public: FloatArray,
    records: int,
    group: int,
    methods: Mapping[str, Selecting],
    options: Mapping[str, str],
) -> Measurements:
    for adjacency in bench.adjacencies:
        expert_scores = e.ask(bench.scorer, episode, e.grouped(records, group, adjacency, piece.seed))
        outputs = e.Answers(expert_scores, public, e.change_of(group, adjacency), adjacency).outputs()
        for name, method in methods.items():
            quick = e.QuickLaws(method, outputs)
            for epsilon in bench.settings.epsilons:
                law = quick.at(Price(epsilon, e.DELTA))
                key = _key(piece, name, records, group, adjacency.value, epsilon, (options or {}).get(name, ""))
                yield key, e.right(law, episode.truth)


def _by_subsampling(bench: Bench, piece: Piece, episode: Episode, records: int, pbs: PbS) -> Measurements:
    sample_scores = e.ask_samples(bench.scorer, episode, records, pbs, piece.seed)
    for adjacency in bench.adjacencies:
        for epsilon in bench.settings.epsilons:
            law = e.pbs_laws(pbs, sample_scores, Price(epsilon, e.DELTA), adjacency)
            yield _key(piece, e.PBS, records, 1, adjacency.value, epsilon), e.right(law, episode.truth)


def _key(
    piece: Piece,
    method: str,
    records: int = 0,
    group: int = 1,
    adjacency: str | None = None,
    epsilon: float | None = None,
    option: str = "",
) -> Key:
    return Key(piece.task, piece.names, method, "right", records, group, adjacency, epsilon, option)


# How accuracies are shown


def kinds(result: Result) -> list[tuple[str, str]]:
    """The worlds and kinds of names of a result, in order."""
    return list(dict.fromkeys((cell.key.task, cell.key.names) for cell in result.cells))


def accuracy_tables(result: Result, methods: Sequence[str]) -> Iterator[Table]:
    """One table for each adjacency and epsilon: references, then released answers."""
    heads = ("task", "label names", "records", *e.REFERENCES, *(SHORT.get(m, m) for m in methods))
    for adjacency in result.settings.adjacencies:
        for epsilon in result.settings.epsilons:
            rows = []
            for task, names in kinds(result):
                for records in result.settings.records:
                    cells = [_reference(result, task, names, m, records) for m in e.REFERENCES]
                    cells += [
                        result.cell(
                            task=task, names=names, method=m, records=records, adjacency=adjacency, epsilon=epsilon
                        )
                        for m in methods
                    ]
                    if any(cells[1:]):
                        rows.append((task, names, str(records), *(str(cell) if cell else "" for cell in cells)))
            yield Table(
                f"Percent right at epsilon {epsilon:g} an answer, {adjacency}",
                heads,
                rows,
                "Mean and standard error over seeds. Zero-shot reads nothing and is free; full context, soft sum and "
                "hard votes have no guarantee. All methods at the same epsilon and adjacency.",
            )


def _reference(result: Result, task: str, names: str, method: str, records: int) -> Cell | None:
    return result.cell(task=task, names=names, method=method, records=0 if method == e.ZERO_SHOT else records)


def difference(cell: Cell | None, other: Cell | None) -> tuple[float, float]:
    """Mean and standard error of the difference, seed by seed; NaN where a cell is missing.

    The error is that of other seeds: other records and questions, drawn from the same rows by the same rule.

    Raises:
        ParameterError: The cells hold another number of seeds each, so that there are no pairs.
    """
    if cell is None or other is None:
        return math.nan, math.nan
    if len(cell.values) != len(other.values):
        raise ParameterError("seeds", (len(cell.values), len(other.values)), "the same in both cells")
    gaps = np.subtract(cell.values, other.values)
    return float(gaps.mean()), float(gaps.std(ddof=1) / math.sqrt(len(gaps))) if len(gaps) > 1 else math.nan


def said_of(gap: tuple[float, float]) -> str:
    """A difference with its standard error, in points."""
    return f"{gap[0]:+.1f} ± {gap[1]:.1f}" if not math.isnan(gap[0]) else "not measured"


def series(name: str, x: Sequence[float], cells: Sequence[Cell | None]) -> Series:
    """A line of means with two standard errors either way; cells that are missing are left out."""
    measured = [(at, cell) for at, cell in zip(x, cells, strict=True) if cell]
    means = [cell.mean for _, cell in measured]
    errors = [0.0 if math.isnan(cell.standard_error) else 2 * cell.standard_error for _, cell in measured]
    low = [mean - error for mean, error in zip(means, errors, strict=True)]
    high = [mean + error for mean, error in zip(means, errors, strict=True)]
    return Series(name, [at for at, _ in measured], means, low, high, reference=name in e.REFERENCES)


def flat(name: str, x: Sequence[float], cell: Cell | None) -> Series:
    """A level that does not change along the axis, such as zero-shot."""
    return series(name, [x[0], x[-1]], [cell, cell])
