"""Private PoEtry, Table 1: text classification by every method at one price."""

from __future__ import annotations

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.accuracy import accuracy_tables, difference, kinds, measure_accuracy, said_of
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.results import Figure, ReportSection, Series, Table
from sottovoce.methods.pbs import PbS

METHODS = (*e.SELECTING, e.PBS)
RIVALS = (e.VOTES_GAUSSIAN, e.VOTES, e.VOTES_PF, e.PBS, e.ZERO_SHOT)


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Every method and reference."""
    return measure_accuracy(bench, piece, pbs=PbS())


def section(result: Result) -> ReportSection:
    """The tables, the gains of PoE over its rivals, and bars at the last epsilon."""
    tables = [*accuracy_tables(result, METHODS), *gains(result, e.POE), *gains(result, e.PRIOR_POE)]
    return ReportSection(
        result.experiment, EXPERIMENT.title, EXPERIMENT.source, reading(result), tables, _bars(result), about(result)
    )


def gains(result: Result, method: str) -> list[Table]:
    """How many points a method is ahead of each rival, seed by seed."""
    tables = []
    for adjacency in result.settings.adjacencies:
        for epsilon in result.settings.epsilons:
            rows = []
            for task, names in kinds(result):
                for records in result.settings.records:
                    of = {"task": task, "names": names}
                    at = {**of, "records": records, "adjacency": adjacency, "epsilon": epsilon}
                    mine = result.cell(**at, method=method)
                    gaps = [difference(mine, result.cell(**(of if r == e.ZERO_SHOT else at), method=r)) for r in RIVALS]
                    if mine:
                        rows.append((task, names, str(records), *map(said_of, gaps)))
            tables.append(
                Table(
                    f"{method} ahead by, in points, at epsilon {epsilon:g}, {adjacency}",
                    ("task", "label names", "records", *(f"over {r}" for r in RIVALS)),
                    rows,
                    "Differences seed by seed, with their standard error; two errors tell one cell, not the best of "
                    "many. Other rows of DBpedia were among those that the embedded model, prior x PoE and PbS were "
                    "set on.",
                )
            )
    return tables


def reading(result: Result) -> list[str]:
    """Leads of PoE by number of records, and cells won and lost at two standard errors."""
    lines = []
    for adjacency in result.settings.adjacencies:
        for epsilon in result.settings.epsilons:
            for records in result.settings.records:
                at = {"records": records, "adjacency": adjacency, "epsilon": epsilon}
                leads, gaps = [], list[float]()
                for rival in (e.VOTES_GAUSSIAN, "the best votes", e.PBS, e.ZERO_SHOT):
                    ahead, behind, gaps = _count(result, e.POE, rival, at)
                    if gaps:
                        leads.append(f"{rival} {sum(gaps) / len(gaps):+.0f} ({ahead} ahead, {behind} behind)")
                if leads:
                    lines.append(
                        f"{adjacency}, epsilon {epsilon:g}, {records} records: PoE's lead in points, averaged over "
                        f"{len(gaps)} cells, and cells ahead or behind by two errors: {'; '.join(leads)}."
                    )
    return lines


def _count(result: Result, method: str, rival: str, at: dict[str, object]) -> tuple[int, int, list[float]]:
    ahead = behind = 0
    gaps = []
    for task, names in kinds(result):
        mine = result.cell(task=task, names=names, method=method, **at)
        rivals = (e.VOTES, e.VOTES_PF, e.VOTES_GAUSSIAN) if rival == "the best votes" else (rival,)
        cells = [result.cell(task=task, names=names, method=r, **({} if r == e.ZERO_SHOT else at)) for r in rivals]
        measured = [cell for cell in cells if cell]
        if not mine or not measured:
            continue
        gap, error = difference(mine, max(measured, key=lambda cell: cell.mean))
        gaps.append(gap)
        ahead, behind = ahead + (gap > 2 * error), behind + (gap < -2 * error)
    return ahead, behind, gaps


def _bars(result: Result) -> list[Figure]:
    figures = []
    epsilon = result.settings.epsilons[-1]
    for adjacency in result.settings.adjacencies:
        for records in result.settings.records:
            places = [f"{task}, {names}" for task, names in kinds(result)]
            bars = []
            for method in (*e.REFERENCES, *METHODS):
                released = method not in e.REFERENCES
                at = {"adjacency": adjacency, "epsilon": epsilon} if released else {}
                cells = [
                    result.cell(task=t, names=n, method=method, records=0 if method == e.ZERO_SHOT else records, **at)
                    for t, n in kinds(result)
                ]
                placed = [(place, cell) for place, cell in zip(places, cells, strict=True) if cell]
                errors = [2 * (cell.standard_error if len(cell.values) > 1 else 0.0) for _, cell in placed]
                means = [cell.mean for _, cell in placed]
                bars.append(
                    Series(
                        method,
                        [place for place, _ in placed],
                        means,
                        [m - s for m, s in zip(means, errors, strict=True)],
                        [m + s for m, s in zip(means, errors, strict=True)],
                        reference=not released,
                    )
                )
            figures.append(
                Figure(
                    f"bars-{records}-{adjacency}",
                    f"{records} records, epsilon {epsilon:g} an answer, {adjacency}",
                    "task and label names",
                    "right answers, percent",
                    bars,
                    kind="bars",
                    note="Whiskers are two standard errors over seeds. Grey: no guarantee, or nothing read.",
                )
            )
    return figures


EXPERIMENT = Experiment(
    name="poetry-table1",
    title="Text classification: which method at the same price?",
    source="Private PoEtry, Table 1",
    settings=Settings(tasks=("agnews", "dbpedia", "trec"), records=(4, 8, 25), epsilons=(1.0, 4.0, 8.0)),
    measure=measure,
    section=section,
)
