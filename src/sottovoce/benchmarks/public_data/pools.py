"""What public data has to be: how many of its pairs are wrong, from where they are, a coreset of them, or new ones.

A wrong pair is a public question with the answer of another one. A coreset of public pairs reads nothing private and is
free (specification 5.7.2 a): k-means over their vectors, the nearest pair of each middle. The coreset of private
answers by k-means, as published, stands beside it without any guarantee (specification 11, item 14). ``augment`` writes
further answers around private groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from sottovoce.benchmarks.harness.experiment import (
    Bench,
    Cell,
    Experiment,
    Key,
    Measurements,
    Piece,
    Result,
    Settings,
)
from sottovoce.benchmarks.harness.results import ReportSection, Table
from sottovoce.benchmarks.public_data.episode import ADJACENCY, Episode, cannot, vectors_of
from sottovoce.benchmarks.public_data.scoring import SCORES, cell_of, difference, measured_with, scored, shown, verdict
from sottovoce.benchmarks.public_data.table import PRIVATE, SHOTS, SIZE, episode_of, sized
from sottovoce.benchmarks.public_data.worlds import IN, OUT, Pair
from sottovoce.methods.answering.answerer import make_answerer
from sottovoce.methods.answering.references import k_means

CORESET, SUBSET = "public coreset of 16", "random 16"
WRONG: Final = {f"{share:.0%} wrong".replace("%", " %"): share for share in (0.25, 0.5, 1.0)}
PRIVATE_CORESET, AUGMENT = "coreset", "augment"
METHODS: Final = {**PRIVATE, AUGMENT: make_answerer(AUGMENT)}
KEPT: Final = 16


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Scores of one world and one seed, for every kind of pool."""
    settings = bench.settings
    episode = episode_of(bench, piece, sized(settings, SIZE))
    episode.pools |= pools_of(episode)
    asked = episode.questions(settings.queries)
    episode.ask([question for question, _ in asked])
    for key, answers in episode.writer.together(lambda: list(_answers(episode, asked, settings.epsilons))):
        yield from scored(key, answers, asked, episode.embedder)


def _answers(episode: Episode, asked: Sequence[Pair], epsilons: Sequence[float]) -> Iterator[tuple[Key, list[str]]]:
    key = Key(episode.world.name, "own", PRIVATE_CORESET, records=episode.size.records, group=episode.size.shots)
    yield key, [episode.answer(make_answerer(PRIVATE_CORESET), question, IN, None) for question, _ in asked]
    for pool in episode.pools:
        free = replace(key, method=SHOTS, records=0, group=1, option=pool)
        yield free, [episode.answer(make_answerer(SHOTS), question, pool, None) for question, _ in asked]
        for epsilon in epsilons:
            for name, method in METHODS.items():
                if name == AUGMENT and pool not in (IN, OUT):
                    continue
                if any(cannot(method, episode, question, pool, epsilon) for question, _ in asked):
                    continue
                its = replace(key, method=name, option=pool, adjacency=ADJACENCY.value, epsilon=epsilon)
                yield its, [episode.answer(method, question, pool, epsilon) for question, _ in asked]


def pools_of(episode: Episode) -> dict[str, Sequence[Pair]]:
    """Pools made of the public pairs of the same source."""
    pairs, draws = episode.pools[IN], np.random.default_rng([episode.seed, 2])
    made: dict[str, Sequence[Pair]] = {name: with_wrong(pairs, share, draws) for name, share in WRONG.items()}
    kept = min(KEPT, len(pairs))
    made[SUBSET] = [pairs[place] for place in sorted(draws.permutation(len(pairs))[:kept])]
    vectors = vectors_of(episode.embedder, [" ".join(pair) for pair in pairs])
    near, middles = k_means(vectors, kept, 10)
    chosen = [int(np.argmin(((vectors - middle) ** 2).sum(axis=1))) for middle in middles[np.unique(near)]]
    made[CORESET] = [pairs[place] for place in dict.fromkeys(chosen)]
    return made


def with_wrong(pairs: Sequence[Pair], share: float, draws: np.random.Generator) -> Sequence[Pair]:
    """The pairs, so many of them with the answer of the next such one."""
    chosen = sorted(draws.permutation(len(pairs))[: round(share * len(pairs))])
    answers = dict(zip(chosen, [*chosen[1:], *chosen[:1]], strict=True))
    return [(shown, pairs[answers.get(place, place)][1]) for place, (shown, _) in enumerate(pairs)]


def section(result: Result) -> ReportSection:
    """One table by world."""
    tables, reading = [], []
    for task in result.settings.tasks:
        keys = list(dict.fromkeys(replace(c.key, quantity="") for c in result.cells if c.key.task == task))
        rows = [
            [key.method, _price(key), key.option, *(shown(_cell(result, key, score)) for score in SCORES)]
            for key in keys
        ]
        tables.append(Table(f"Scores of answers, {task}", ("method", "epsilon", "public pairs", *SCORES), rows, NOTE))
        for epsilon in result.settings.epsilons:
            for name in PRIVATE:
                cells = {
                    pool: cell_of(result, task, name, option=pool, epsilon=epsilon)
                    for pool in (IN, OUT, *WRONG, CORESET, SUBSET)
                }
                lines = [
                    verdict(
                        f"Does {name} lose where all public answers are wrong?",
                        difference(cells[IN], cells[list(WRONG)[-1]]),
                    ),
                    verdict(
                        f"Is a coreset better than as many random pairs for {name}?",
                        difference(cells[CORESET], cells[SUBSET]),
                    ),
                ]
                reading += [f"{task}, epsilon {epsilon:g}: {line}" for line in lines]
            augmented, plain = (
                cell_of(result, task, name, option=IN, epsilon=epsilon) for name in (AUGMENT, "sga top-k")
            )
            line = verdict("Does public data written around private groups help?", difference(augmented, plain))
            reading.append(f"{task}, epsilon {epsilon:g}: {line}")
    return ReportSection(
        EXPERIMENT.name, EXPERIMENT.title, EXPERIMENT.source, reading, tables, [], measured_with(result)
    )


def _price(key: Key) -> str:
    if key.method == PRIVATE_CORESET:
        return "no guarantee"
    return "free" if key.epsilon is None else f"{key.epsilon:g}"


def _cell(result: Result, key: Key, quantity: str) -> Cell | None:
    return next((cell for cell in result.cells if cell.key == replace(key, quantity=quantity)), None)


NOTE: Final = (
    "0 to 100, mean and 95 % interval over seeds. Wrong pairs are public questions with answers of others. The coreset "
    "of private answers has no guarantee; that of public pairs is free."
)

EXPERIMENT = Experiment(
    name="answers-pools",
    title="What has public data to be?",
    source="Public-data-assisted ICL, its noisy public data and its coresets",
    settings=Settings(
        model="embedded", writer="embedded-lm", seeds=8, queries=1, tasks=("medquad",), names=("own",),
        records=(1000,), experts=(40,), shots=(1,), epsilons=(3.0,), adjacencies=(ADJACENCY.value,),
    ),
    measure=measure,
    section=section,
)  # fmt: skip
