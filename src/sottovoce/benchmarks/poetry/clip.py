"""Private PoEtry, the clip: small ones waste the expert's opinion, large ones the noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.accuracy import kinds, measure_accuracy
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Key, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.results import ReportSection
from sottovoce.benchmarks.harness.sweeps import sweep_figures, sweep_tables
from sottovoce.methods.base import Selecting
from sottovoce.methods.poe import PoE
from sottovoce.methods.prior_poe import PriorPoE

FAMILIES: Mapping[str, type[PoE] | type[PriorPoE]] = {e.POE: PoE, e.PRIOR_POE: PriorPoE}


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Both products at every clip; references once."""
    methods: dict[str, Selecting] = {
        f"{name}|{clip:g}": family(clip=clip) for name, family in FAMILIES.items() for clip in bench.settings.clips
    }
    for key, value in measure_accuracy(bench, piece, methods=methods):
        yield _named(key), value


def _named(key: Key) -> Key:
    name, _, clip = key.method.partition("|")
    return replace(key, method=name, option=f"clip {clip}") if clip else key


def section(result: Result) -> ReportSection:
    """Lines over the clip for each epsilon, and the best clip by cell."""
    x = result.settings.clips
    tables, figures, lines = [], [], []
    for records in result.settings.records:
        for epsilon in result.settings.epsilons:
            fixed = {"epsilon": epsilon, "records": records}
            figures += sweep_figures(
                result, f"epsilon-{epsilon:g}-records-{records}", x, "clip, nats", tuple(FAMILIES), _place, fixed,
                log_x=True,
            )  # fmt: skip
            title = f"{records} records, epsilon {epsilon:g} an answer"
            tables += sweep_tables(result, "C =", x, tuple(FAMILIES), _place, fixed, title)
            for adjacency in result.settings.adjacencies:
                for task, names in kinds(result):
                    at = {"task": task, "names": names, "adjacency": adjacency, **fixed}
                    optima = ", ".join(_best(result, method, at) for method in FAMILIES)
                    lines.append(f"{adjacency}, {task} ({names} names), epsilon {epsilon:g}: {optima}.")
    return ReportSection(result.experiment, EXPERIMENT.title, EXPERIMENT.source, lines, tables, figures, about(result))


def _best(result: Result, method: str, at: dict[str, object]) -> str:
    means = {clip: _mean(result, method, clip, at) for clip in result.settings.clips}
    clip = max(means, key=means.__getitem__)
    usual = FAMILIES[method]().clip
    best = f"{method} best at C = {clip:g} with {means[clip]:.1f}"
    return f"{best}, at the default {usual:g} {means.get(usual, math.nan):.1f}"


def _mean(result: Result, method: str, clip: float, at: dict[str, object]) -> float:
    cell = result.cell(method=method, **_place(clip), **at)
    return cell.mean if cell else math.nan


def _place(clip: float) -> dict[str, str]:
    return {"option": f"clip {clip:g}"}


EXPERIMENT = Experiment(
    name="poetry-clip",
    title="Which clip?",
    source="Private PoEtry, clip sweep",
    settings=Settings(
        tasks=("agnews", "trec"), records=(25,), epsilons=(1.0, 4.0), clips=(0.25, 0.5, 1.0, 1.5, 2.3, 3.0, 5.0, 10.0)
    ),
    measure=measure,
    section=section,
)
