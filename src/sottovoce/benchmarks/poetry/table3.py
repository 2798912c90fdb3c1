"""Private PoEtry, Table 3: pictures with made-up names, from characters that the image model never saw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.accuracy import SHORT, difference, measure_accuracy, said_of, series
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Key, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.results import Figure, ReportSection, Table
from sottovoce.intervals import proportion
from sottovoce.methods.pbs import PbS
from sottovoce.methods.poe import PoE

POE_4 = "PoE, clip 4"
"""The clip that was best on training characters."""

METHODS = (e.POE, POE_4, e.VOTES, e.VOTES_PF, e.VOTES_GAUSSIAN, e.PBS)
TRIALS = "drawn"


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Every method; the number of questions is kept, for intervals of drawn answers."""
    methods = {name: PoE(clip=4) if name == POE_4 else e.SELECTING[name] for name in METHODS if name != e.PBS}
    yield from measure_accuracy(bench, piece, methods=methods, pbs=PbS())
    questions = len(bench.world(piece.task).episode(piece.seed, bench.settings.queries, piece.names).questions)
    yield Key(piece.task, piece.names, "questions", TRIALS), questions


def section(result: Result) -> ReportSection:
    """One table for each adjacency and epsilon, and accuracy by number of records."""
    tables = [_references(result)]
    for adjacency in result.settings.adjacencies:
        for epsilon in result.settings.epsilons:
            tables.append(_released(result, adjacency, epsilon))
    return ReportSection(
        result.experiment,
        EXPERIMENT.title,
        EXPERIMENT.source,
        _reading(result),
        tables,
        _figures(result),
        [(name, _protocol(result) if name == "Protocol" else text) for name, text in about(result)],
    )


def _protocol(result: Result) -> str:
    """With the questions that there were: an episode may have fewer than were asked for."""
    questions = _at(result, "questions", quantity=TRIALS)
    count = f"{questions.mean:g}" if questions else f"up to {result.settings.queries}"
    return f"{result.settings.seeds} seeds x {count} questions; standard errors over seeds, Clopper-Pearson in brackets"


def _at(result: Result, method: str, **key: Any) -> Any:
    return result.cell(task=result.settings.tasks[0], names=result.settings.names[0], method=method, **key)


def _interval(result: Result, cell: Any) -> str:
    """The mean, its error over seeds, and the Clopper-Pearson interval as if each question were answered once.

    The expected number of right answers is rounded once, over all seeds: rounded seed by seed, 30 questions each, the
    interval could lie beside its mean.
    """
    questions = _at(result, "questions", quantity=TRIALS)
    if cell is None or questions is None:
        return str(cell or "")
    trials = round(sum(questions.values))
    right = sum(v / 100 * n for v, n in zip(cell.values, questions.values, strict=True))
    interval = proportion(round(right), trials)
    return f"{cell} ({100 * interval.low:.1f} to {100 * interval.high:.1f})"


def _references(result: Result) -> Table:
    rows = []
    for records in result.settings.records:
        for group in (g for g in result.settings.groups if g <= records):
            cells = [
                _at(result, e.ZERO_SHOT),
                _at(result, e.FULL, records=records),
                _at(result, e.SOFT, records=records, group=group),
                _at(result, e.HARD, records=records, group=group),
            ]
            rows.append((str(records), str(group), *(_interval(result, cell) for cell in cells)))
    return Table(
        "Percent right without noise, five names (chance 20)",
        ("records", "pairs an expert", *e.REFERENCES),
        rows,
        "Mean over seeds, its standard error over seeds, and in brackets the 95 % Clopper-Pearson interval of as many "
        "answers as there were questions, each drawn once and all independent. They are not: questions of one seed "
        "share their records, and nothing was drawn, since every answer counts with its probability. So the brackets "
        "are what the paper prints and no claim about other records; for that, take two standard errors. Neither "
        "covers other characters: all seeds draw from the same ones.",
    )


def _released(result: Result, adjacency: str, epsilon: float) -> Table:
    rows = []
    for records in result.settings.records:
        for group in (g for g in result.settings.groups if g <= records):
            at = {"records": records, "adjacency": adjacency, "epsilon": epsilon}
            cells = [_at(result, m, **at, group=1 if m == e.PBS else group) for m in METHODS]
            rows.append((str(records), str(group), *(_interval(result, cell) for cell in cells)))
    return Table(
        f"Percent right at epsilon {epsilon:g} an answer, {adjacency}",
        ("records", "pairs an expert", *(SHORT.get(m, m) for m in METHODS)),
        rows,
        "PbS has no groups; its figure is repeated.",
    )


def _figures(result: Result) -> list[Figure]:
    figures = []
    x: Sequence[float] = result.settings.records
    for adjacency in result.settings.adjacencies:
        epsilon = result.settings.epsilons[-1]
        lines = [
            series(e.FULL, x, [_at(result, e.FULL, records=n) for n in x]),
            series(e.SOFT, x, [_at(result, e.SOFT, records=n) for n in x]),
            series(e.HARD, x, [_at(result, e.HARD, records=n) for n in x]),
        ]
        for group in result.settings.groups:
            for method in (e.POE, e.VOTES):
                at = {"adjacency": adjacency, "epsilon": epsilon, "group": group}
                name = method if group == 1 else f"{method}, {group} pairs an expert"
                lines.append(series(name, x, [_at(result, method, records=n, **at) for n in x]))
        figures.append(
            Figure(
                f"records-{adjacency}",
                f"Pictures with made-up names, epsilon {epsilon:g} an answer, {adjacency}",
                "private pairs of picture and name",
                "right answers, percent",
                lines,
                note="Two standard errors over seeds. Characters and drawers were never seen in training.",
            )
        )
    return figures


def _reading(result: Result) -> list[str]:
    lines = []
    for adjacency in result.settings.adjacencies:
        for epsilon in result.settings.epsilons:
            leads = []
            for records in result.settings.records:
                at = {"records": records, "adjacency": adjacency, "epsilon": epsilon}
                mine = _at(result, e.POE, **at)
                votes = [_at(result, m, **at) for m in (e.VOTES, e.VOTES_PF, e.VOTES_GAUSSIAN)]
                best = max((cell for cell in votes if cell), key=lambda cell: cell.mean, default=None)
                leads.append(f"{said_of(difference(mine, best))} at {records} records")
            lines.append(
                f"{adjacency}, epsilon {epsilon:g}: PoE over the votes that did best here, a pair an expert: "
                f"{', '.join(leads)}."
            )
    return lines


EXPERIMENT = Experiment(
    name="poetry-table3",
    title="Pictures with made-up names: does it carry over to images?",
    source="Private PoEtry, Table 3 (Omniglot characters in place of ImageNet classes)",
    settings=Settings(
        model="embedded-image",
        seeds=84,
        tasks=("pseudonames",),
        names=("own",),
        records=(4, 8, 20),
        groups=(1, 2, 4),
        epsilons=(1.0, 4.0, 8.0),
    ),
    measure=measure,
    section=section,
)
