"""The repeat attack on long answers: full context, the mean without noise, and the private methods.

A private set is drawn afresh for every run; the asker asks for all that stands before the question and scores members
and others by how much of them came back, with as many others as members and with four times as many. What an answer
costs caps the area of any attack on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np

from sottovoce.audits.repeat import BALANCED, EVERYTHING, ONE_TO_FOUR, repeat_attack
from sottovoce.audits.roc import caps
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Key, Measurements, Piece, Result, Settings
from sottovoce.benchmarks.harness.results import ReportSection, Table
from sottovoce.benchmarks.public_data.batched import EMBEDDED
from sottovoce.benchmarks.public_data.episode import ADJACENCY, DELTA, Episode, Size, cannot
from sottovoce.benchmarks.public_data.scoring import cell_of, measured_with
from sottovoce.benchmarks.public_data.table import FULL, MEAN, PRIVATE, SIZE, episode_of, sized
from sottovoce.benchmarks.public_data.worlds import IN, Pair
from sottovoce.benchmarks.public_data.writers import KeptWriter, writer_of
from sottovoce.methods.answering.answerer import Answerer, make_answerer
from sottovoce.methods.base import Reads
from sottovoce.privacy.numbers import rounded_up

AREA, LOW, HIGH = "area", "low", "high"
SCORED: Final = 4
RATIOS: Final = {"1:1": BALANCED, "1:4": ONE_TO_FOUR}
REPLICATES: Final = 400
"""Members that are scored in a run; resamples of an interval."""
TOKENS: Final = {True: 128, False: 512}
"""Most tokens of a text here, for the writer that ships and others: an answer that is cut after a sentence could not
repeat the examples if it would."""


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Areas of one world; a seed is one attack of so many runs as there are ``queries``."""
    settings = bench.settings
    for name, method, epsilon in systems(settings.epsilons):
        for option, ratio in RATIOS.items():
            found = attack(bench, piece, method, epsilon, ratio)
            if found is None:
                continue
            private = method.private
            key = Key(piece.task, piece.names, name, option=option, epsilon=epsilon,
                      adjacency=ADJACENCY.value if private else None)  # fmt: skip
            for quantity, value in zip((AREA, LOW, HIGH), found, strict=True):
                yield replace(key, quantity=quantity), value


def systems(epsilons: Sequence[float]) -> list[tuple[str, Answerer, float | None]]:
    """What is attacked."""
    private = [(name, method, epsilon) for epsilon in epsilons for name, method in PRIVATE.items()]
    return [(FULL, make_answerer(FULL), None), (MEAN, make_answerer(MEAN), None), *private]


def attack(
    bench: Bench, piece: Piece, method: Answerer, epsilon: float | None, ratio: int
) -> tuple[float, float, float] | None:
    """Area and interval of an attack on a method; ``None`` where the method is refused at its price."""
    size = replace(sized(bench.settings, SIZE), tokens=tokens_of(bench.settings))
    if method.reads is Reads.EVERYTHING:
        size = replace(size, experts=1, shots=size.context)
    context = size.experts * size.shots
    size = replace(size, records=context, context=context, fresh=False)
    base = replace(episode_of(bench, piece, size), writer=_kept(bench.settings.writer))
    question = EVERYTHING.wording
    if epsilon is not None and cannot(method, base, question, IN, epsilon):
        return None
    candidates = base.world.private(context + SCORED * max(RATIOS.values()))
    runs = iter(range(bench.settings.queries))

    def answer(records: Sequence[Pair], asked: str) -> str:
        return _drawn(base, records, next(runs)).answer(method, asked, IN, epsilon)

    found = repeat_attack(
        answer,
        candidates,
        np.random.default_rng([piece.seed, ratio]),
        context=context,
        runs=bench.settings.queries,
        scored=min(SCORED, context),
        ratio=ratio,
        replicates=REPLICATES,
    )
    return found.auroc.value, found.auroc.low, found.auroc.high


def tokens_of(settings: Settings) -> int:
    """Most tokens of a text."""
    return TOKENS[settings.writer.endswith(EMBEDDED)]


@lru_cache(maxsize=1)
def _kept(spec: str) -> KeptWriter:
    """One writer for all systems: they are attacked over the same private sets, whose experts write once."""
    return KeptWriter(writer_of(spec))


def _drawn(base: Episode, records: Sequence[Pair], run: int) -> Episode:
    """The same models and public pairs over other private pairs, with coins of its own."""
    world = replace(base.world, train=records)
    return replace(base, world=world, seed=base.seed * 100_000 + run, _outputs={}, _drawn={})


def section(result: Result) -> ReportSection:
    """One table by world."""
    tables, reading = [], []
    for task in result.settings.tasks:
        rows = []
        for name, _, epsilon in systems(result.settings.epsilons):
            for option in RATIOS:
                cells = [
                    cell_of(result, task, name, quantity, option=option, epsilon=epsilon)
                    for quantity in (AREA, LOW, HIGH)
                ]
                if any(cell is None for cell in cells):
                    continue
                area, low, high = (cell.mean for cell in cells if cell)
                cap = "1" if epsilon is None else rounded_up(caps(epsilon, DELTA, 0.01).auroc)
                rows.append(
                    [
                        name,
                        "no guarantee" if epsilon is None else f"{epsilon:g}",
                        option,
                        f"{area:.3f} ({low:.3f} to {high:.3f})",
                        cap,
                    ]
                )
                if option == "1:1":
                    said = "finds members" if low > 0.5 else "does not find members"
                    at = "" if epsilon is None else f" at epsilon {epsilon:g}"
                    reading.append(
                        f"{task}: the attack on {name}{at} {said}: area {area:.2f} ({low:.2f} to {high:.2f})."
                    )
        tables.append(
            Table(
                f"Repeat attack, {task}",
                ("system", "epsilon", "members to others", "area (95 %)", "cap"),
                rows,
                _note(result),
            )
        )
    return ReportSection(
        EXPERIMENT.name, EXPERIMENT.title, EXPERIMENT.source, reading, tables, [], measured_with(result)
    )


def _note(result: Result) -> str:
    size: Size = sized(result.settings, SIZE)
    return (
        f"Area under the curve with a conservative 95 % interval over {result.settings.queries} runs and their "
        f"candidates. {EVERYTHING.wording!r}; {size.context} private pairs in full context, else "
        f"{size.experts * size.shots}; one answer a run of at most {tokens_of(result.settings)} tokens, delta "
        f"{DELTA:g}, {ADJACENCY.value}. The cap is that of any attack on one answer."
    )


EXPERIMENT = Experiment(
    name="answers-repeat",
    title="Does an answer repeat the private pairs?",
    source="Public-data-assisted ICL, its membership attack",
    settings=Settings(
        model="embedded", writer="embedded-lm", seeds=1, queries=30, tasks=("medquad",), names=("own",),
        records=(1000,), experts=(40,), shots=(1,), epsilons=(1.0, 3.0, 8.0), adjacencies=(ADJACENCY.value,),
    ),
    measure=measure,
    section=section,
)  # fmt: skip
