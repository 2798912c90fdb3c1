"""Time of an answer by the number of experts, asked for the first time and asked again with their answers kept.

Answers that are kept share one partition: asked again, for another method or at another price, the experts cost
nothing, but no fresh sample amplifies what is released (specification 11, item 16). The price of that stands beside it.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Key, Measurements, Piece, Result, Settings
from sottovoce.benchmarks.harness.results import Figure, ReportSection, Series, Table
from sottovoce.benchmarks.public_data.episode import ADJACENCY, DELTA, Episode
from sottovoce.benchmarks.public_data.scoring import cell_of, measured_with, shown
from sottovoce.benchmarks.public_data.table import SIZE, episode_of, sized
from sottovoce.benchmarks.public_data.worlds import IN
from sottovoce.methods.answering.answerer import make_answerer
from sottovoce.methods.base import Price

FIRST, AGAIN = "first time", "kept answers"
SECONDS, BUSY, WRITTEN, NOISE = "seconds", "processor seconds", "texts written", "deviation of the noise"


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Seconds of one answer by ESA, for every number of experts."""
    settings = bench.settings
    size = replace(sized(settings, SIZE), fresh=False)
    for experts in settings.experts:
        kept = episode_of(bench, piece, replace(size, experts=experts))
        fresh = replace(kept.size, fresh=True)
        (asked,) = kept.questions(1)
        kept.side(asked[0], IN)
        key = Key(piece.task, piece.names, FIRST, records=size.records, group=experts)
        for method in (FIRST, AGAIN):
            texts, started, busy = kept.writer.asked, time.perf_counter(), time.process_time()
            kept._outputs.clear()
            kept._drawn.clear()
            kept.answer(make_answerer("esa"), asked[0], IN, settings.epsilons[0])
            yield replace(key, method=method, quantity=SECONDS), time.perf_counter() - started
            yield replace(key, method=method, quantity=BUSY), time.process_time() - busy
            yield replace(key, method=method, quantity=WRITTEN), float(kept.writer.asked - texts)
        for method, each in ((FIRST, fresh), (AGAIN, kept.size)):
            yield replace(key, method=method, quantity=NOISE), _noise(replace(kept, size=each), asked[0], settings)


def _noise(episode: Episode, question: str, settings: Settings) -> float:
    """Deviation of ESA's noise at the price, on the mean of the embeddings."""
    plan = episode.plan(make_answerer("esa"), episode.side(question, IN), settings.epsilons[0])
    return float(plan.parameters["sigma"])


def section(result: Result) -> ReportSection:
    """One table and one figure by world."""
    tables, figures = [], []
    price = Price(result.settings.epsilons[0], DELTA)
    for task in result.settings.tasks:
        rows = [
            [f"{experts}", method, *(_shown(result, task, method, experts, q) for q in (SECONDS, BUSY, WRITTEN, NOISE))]
            for experts in result.settings.experts
            for method in (FIRST, AGAIN)
        ]
        note = (
            f"One answer by ESA at epsilon {price.epsilon:g}, delta {price.delta:g}, {ADJACENCY.value}. First time: a "
            "fresh sample amplifies. Kept answers: the partition's experts wrote before, and nothing amplifies. Mean "
            "over seeds with its 95 % interval."
        )
        tables.append(
            Table(f"Time of an answer, {task}", ("experts", "asked", SECONDS, BUSY, WRITTEN, NOISE), rows, note)
        )
        lines = [_line(result, task, method) for method in (FIRST, AGAIN)]
        figures.append(Figure(f"time-{task}", f"Time of an answer, {task}", "experts", "seconds", lines))
    return ReportSection(
        EXPERIMENT.name, EXPERIMENT.title, EXPERIMENT.source, [], tables, figures, measured_with(result)
    )


def _shown(result: Result, task: str, method: str, experts: int, quantity: str) -> str:
    cell = cell_of(result, task, method, quantity, group=experts)
    return "-" if cell is None else f"{cell.mean:.4f}" if quantity == NOISE else shown(cell)


def _line(result: Result, task: str, method: str) -> Series:
    cells = [(experts, cell_of(result, task, method, SECONDS, group=experts)) for experts in result.settings.experts]
    return Series(method, [float(n) for n, cell in cells if cell], [cell.mean for _, cell in cells if cell])


EXPERIMENT: Final = Experiment(
    name="answers-time",
    title="What does an answer take, by the number of experts?",
    source="Public-data-assisted ICL, its ensemble sizes and its cache; specification 11, item 16",
    settings=Settings(
        model="embedded", writer="embedded-lm", seeds=3, queries=1, tasks=("medquad",), names=("own",),
        records=(1000,), experts=(8, 16, 32, 64), shots=(1,), epsilons=(3.0,), adjacencies=(ADJACENCY.value,),
    ),
    measure=measure,
    section=section,
)  # fmt: skip
