"""Long answers by every method: scores with public pairs of the same source, of another source, and without any.

Beside the private methods stand the writer alone, the writer after public pairs, the public answer most like the
others, private pairs in one prompt without privacy, the mean without noise, and pairs that one private choice picked,
at the price of one answer and at that of ten: both serve any number of questions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, cast
from zlib import crc32

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
from sottovoce.benchmarks.harness.quick_fits import PublicSums
from sottovoce.benchmarks.harness.results import ReportSection, Table
from sottovoce.benchmarks.public_data.batched import EMBEDDED
from sottovoce.benchmarks.public_data.comparisons import (
    LEVEL,
    POWER,
    STATED,
    Comparison,
    best_by_halves,
    compared,
    corrected,
    values_of,
)
from sottovoce.benchmarks.public_data.episode import ADJACENCY, DELTA, LOOSE, Episode, Size, cannot, vectors_of
from sottovoce.benchmarks.public_data.scoring import (
    COSINE,
    MAIN,
    SCORES,
    cell_of,
    measured_values,
    measured_with,
    scored,
    shown,
)
from sottovoce.benchmarks.public_data.worlds import IN, OUT, Pair, world_of
from sottovoce.benchmarks.public_data.writers import KeptWriter, embedder_of, writer_of
from sottovoce.intervals import Estimate
from sottovoce.methods.answering.answerer import Answerer, make_answerer
from sottovoce.methods.answering.pairs import pairs_of, pairs_task
from sottovoce.methods.base import Price
from sottovoce.methods.choice import Choice
from sottovoce.methods.fitting.fitter import FitSetting, PublicInputs
from sottovoce.methods.fitting.support import DemonstrationSupport
from sottovoce.models.base import Embedder, FloatArray
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.unit import SWAP
from sottovoce.randomness import SeededRandomness
from sottovoce.tasks import Query

SIZE: Final = Size()
ZERO, SHOTS, FULL, MEAN = "zero-shot", "public-shots", "full-context", "nearest-to-mean"
CONSENSUS: Final = "public-consensus"
ONE, ALL = "one choice, price of one answer", "one choice, price of 10 answers"
SHORT: Final = 3
"""Private pairs in the one prompt of full context, for a writer that reads 512 tokens."""
ANSWERS: Final = 10
"""The choice at the higher price costs as much as so many single answers."""
PRIVATE: Final[Mapping[str, Answerer]] = {
    "esa": make_answerer("esa"),
    "ksa": make_answerer("ksa"),
    "sga top-1": make_answerer("sga"),
    "sga top-k": make_answerer("sga", show="top-k"),
}
NOTHING: Final = "no public pairs"
POOLS: Final = (NOTHING, IN, OUT)


def episode_of(bench: Bench, piece: Piece, size: Size) -> Episode:
    """A seed with the pools of both sources."""
    world = world_of(bench.data, piece.task)
    pools: dict[str, Sequence[Pair]] = {kind: world.pool(kind, size.pool) for kind in (IN, OUT)}
    writer = KeptWriter(writer_of(bench.settings.writer))
    return Episode(world, piece.seed, size, writer, embedder_of(bench.settings.model), pools)


def sized(settings: Settings, size: Size) -> Size:
    """The size with the numbers that settings choose; the model that ships reads few pairs at once."""
    if settings.writer.endswith(EMBEDDED):
        size = replace(size, context=min(size.context, SHORT))
    return replace(size, records=settings.records[0], experts=settings.experts[0], shots=(settings.shots or (1,))[0])


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Scores of one world and one seed, means over the draws of each question."""
    settings = bench.settings
    episode = episode_of(bench, piece, sized(settings, SIZE))
    asked = episode.questions(settings.queries)
    episode.ask([question for question, _ in asked])
    draws = settings.draws[0]
    for key, answers in episode.writer.together(lambda: list(_answers(episode, asked, settings.epsilons, draws))):
        yield from scored(key, answers, asked, episode.embedder)


def _answers(
    episode: Episode, asked: Sequence[Pair], epsilons: Sequence[float], draws: int
) -> Iterator[tuple[Key, list[str] | None]]:
    own = Key(episode.world.name, "own", ZERO)
    private = replace(own, records=episode.size.records, group=episode.size.shots)
    yield own, [episode.answer(make_answerer(ZERO), question, "", None) for question, _ in asked]
    yield (
        replace(private, method=FULL, records=episode.size.context),
        [episode.answer(make_answerer(FULL), question, "", None) for question, _ in asked],
    )
    for pool in (IN, OUT):
        key = replace(own, method=SHOTS, option=pool)
        yield key, [episode.answer(make_answerer(SHOTS), question, pool, None) for question, _ in asked]
        key = replace(key, method=CONSENSUS)
        yield key, [episode.answer(make_answerer(CONSENSUS), question, pool, None) for question, _ in asked]
        key = replace(private, method=MEAN, option=pool)
        yield key, [episode.answer(make_answerer(MEAN), question, pool, None) for question, _ in asked]
    for epsilon in (*epsilons, None):
        at = replace(private, adjacency=ADJACENCY.value, epsilon=epsilon)
        for pool in POOLS:
            for name, method in PRIVATE.items():
                if pool == NOTHING and "pool" in method.needs:
                    continue
                key = replace(at, method=name, option=pool)
                if any(cannot(method, episode, question, pool, epsilon) for question, _ in asked):
                    yield key, None
                    continue
                yield (
                    key,
                    [
                        episode.answer(method, question, pool, epsilon, draw)
                        for draw in range(draws)
                        for question, _ in asked
                    ],
                )
        prices = {ONE: epsilon, ALL: ANSWERS * epsilon} if epsilon else {ONE: LOOSE}
        for name, price in prices.items():
            chosen = [chosen_pairs(episode, IN, price, draw) for draw in range(draws)]
            texts = [episode.after(question, shots) for shots in chosen for question, _ in asked]
            yield replace(at, method=name, option=IN), texts


def chosen_pairs(episode: Episode, pool: str, epsilon: float, draw: int = 0) -> Sequence[Pair]:
    """Public pairs that one private choice picks by their likeness to all private pairs, drawn anew for every question
    and draw."""
    known = (pool, epsilon, draw)
    if known not in episode.chosen:
        episode.chosen[known] = _chosen_pairs(episode, pool, epsilon, draw)
    return episode.chosen[known]


def _chosen_pairs(episode: Episode, pool: str, epsilon: float, draw: int) -> Sequence[Pair]:
    world, size = episode.world, episode.size
    task, pairs = pairs_task(world.task), episode.pools[pool]
    rows = [{world.task.fields[0]: shown, world.task.output_field: given} for shown, given in pairs]
    own = [{world.task.fields[0]: a, world.task.output_field: b} for a, b in world.private(size.records)]
    texts = [task.text_of(row) for row in (*rows, *own)]
    vectors = _vectors_of_all(cast(Hashable, episode.embedder), tuple(texts))
    setting = FitSetting(len(task.labels), vectors.shape[1], size.records, ADJACENCY, SWAP, candidates=len(pairs))
    fitter = Choice(k=size.public_shots)
    plan = fitter.plan(Price(epsilon, DELTA), setting)
    private = PublicSums(vectors[len(pairs) :], np.zeros(len(own), dtype=np.int64), SWAP, ADJACENCY, _unasked)
    public = PublicInputs(task, FakeScorer(), episode.embedder, rows, vectors[: len(pairs)], _unasked)
    words = f"{world.name} {episode.seed} {pool} {epsilon}" + f" {draw}" * bool(draw)
    randomness = SeededRandomness(crc32(words.encode()))
    support = plan.fitter.fit(plan, private, public, randomness)
    assert isinstance(support, DemonstrationSupport)
    return pairs_of(world.task, support.examples)


@lru_cache(maxsize=4)
def _vectors_of_all(embedder: Embedder, texts: Sequence[str]) -> FloatArray:
    """Vectors of the same pairs, which every question's choice is made from."""
    return vectors_of(embedder, texts)


def _unasked(queries: Sequence[Query]) -> Any:
    raise TypeError("a choice of pairs asks no model")


def section(result: Result) -> ReportSection:
    """Tables by world, and the questions that they answer."""
    tables, reading = [], []
    for task in result.settings.tasks:
        tables.append(
            Table(
                f"Scores of answers, {task}",
                ("method", "epsilon", "public pairs", *SCORES),
                _rows(result, task),
                _note(result),
            )
        )
        made = comparisons(result, task)
        if not made:
            continue
        adjusted = corrected(made)
        rows = [_compared_row(each, p) for each, p in zip(made, adjusted, strict=True)]
        tables.append(Table(f"Comparisons, {task}", COMPARED, rows, COMPARISONS_NOTE))
        alone, after = sum(each.p_value < LEVEL for each in made), sum(p < LEVEL for p in adjusted)
        reading.append(
            f"{task}: {len(made)} comparisons; {alone} are beyond 0 one by one (1 in 20 is expected where nothing is), "
            f"{after} after Holm's correction."
        )
        reading += [
            f"{task}, epsilon {_price(each.epsilon)}: {each.asked} {'Yes' if each.found.value > 0 else 'No'}: "
            f"{signed(each.found)} points of {each.score}, p {chance(p)} after correction."
            for each, p in zip(made, adjusted, strict=True)
            if p < LEVEL
        ]
    return ReportSection(
        EXPERIMENT.name, EXPERIMENT.title, EXPERIMENT.source, reading, tables, [], measured_with(result)
    )


COMPARED: Final = (
    "question", "epsilon", "score", "questions", "difference (95 %)", "p (Holm)", f"questions for {STATED:g} points",
)  # fmt: skip
COMPARISONS_NOTE: Final = (
    "Paired differences in points, question by question, Student's interval of each by itself; p by Holm over all of "
    f"this table. The last column: questions that would show {STATED:g} points with probability {POWER:g}, one "
    "comparison by itself, by the spread seen here. The best private method is chosen for each half of the questions "
    "by the other."
)


def _compared_row(each: Comparison, p: float) -> list[str]:
    count, needed = len(each.differences), f"{each.needed():,}"
    return [each.asked, _price(each.epsilon), each.score, str(count), signed(each.found), chance(p), needed]


def _rows(result: Result, task: str) -> list[list[str]]:
    rows = []
    measured = (cell for cell in result.cells if cell.key.task == task and measured_values(cell))
    for key in dict.fromkeys(replace(cell.key, quantity=MAIN) for cell in measured):
        cells = [_cell(result, replace(key, quantity=score)) for score in SCORES]
        free = key.adjacency is None
        price = "no guarantee" if key.method in (FULL, MEAN) else "free" if free else _price(key.epsilon)
        rows.append([key.method, price, key.option, *map(shown, cells)])
    return rows


def _cell(result: Result, key: Key) -> Cell | None:
    return next((cell for cell in result.cells if cell.key == key), None)


def _price(epsilon: float | None) -> str:
    return f"none ({LOOSE:g})" if epsilon is None else f"{epsilon:g}"


def _note(result: Result) -> str:
    size = sized(result.settings, SIZE)
    return (
        f"0 to 100, mean and 95 % interval over {result.settings.seeds} seeds of {result.settings.queries} questions; "
        f"a private answer's score is the mean of {_draws(result)}. Samples are drawn afresh, the {size.records} "
        f"private pairs are the same. {size.experts} experts of {size.shots}, {size.context} pairs in full context, "
        f"{size.pool} public pairs, {size.public} public answers after {size.public_shots} each, {size.tokens} tokens. "
        f"Epsilon of one answer at delta {DELTA:g}, {ADJACENCY.value}, a fresh sample for every answer. A method that "
        "is refused at a price has no row. METEOR without its synonym stage."
    )


def _draws(result: Result) -> str:
    count = (result.settings.draws or (1,))[0]
    return "one draw" if count == 1 else f"{count} draws over the same experts"


def comparisons(result: Result, task: str) -> list[Comparison]:
    """What the paper claims and what is asked beside it, at every price and by two scores."""
    made = [
        _comparison(result, task, epsilon, score, asked)
        for score in (MAIN, COSINE)
        for epsilon in (*result.settings.epsilons, None)
        for asked in ASKED
    ]
    return [found for found in made if found is not None]


BEST: Final = "best"
ASKED: Final[Mapping[str, tuple[tuple[str, str], tuple[str, str]]]] = {
    "Does SGA beat KSA?": (("sga top-k", IN), ("ksa", IN)),
    "Does public data help KSA?": (("ksa", IN), ("ksa", NOTHING)),
    "Does SGA with public data beat KSA without?": (("sga top-k", IN), ("ksa", NOTHING)),
    "Does public data of another source help KSA?": (("ksa", OUT), ("ksa", NOTHING)),
    "Is the other source better for SGA than the same one?": (("sga top-k", OUT), ("sga top-k", IN)),
    "Does top-k beat top-1?": (("sga top-k", IN), ("sga top-1", IN)),
    "Does the best private answer beat the writer alone?": ((BEST, IN), (ZERO, "")),
    "Does it beat free public pairs?": ((BEST, IN), (SHOTS, IN)),
    "Does it beat the consensus of public answers, which is free?": ((BEST, IN), (CONSENSUS, IN)),
    "Does it beat one private choice at the price of one answer?": ((BEST, IN), (ONE, IN)),
}
"""Question to the method, and its public pairs, that is asked about, and to those that it is compared with."""


def _comparison(result: Result, task: str, epsilon: float | None, score: str, asked: str) -> Comparison | None:
    first, second = (_values(result, task, epsilon, score, *each) for each in ASKED[asked])
    return compared(asked, epsilon, score, first, second)


def _values(result: Result, task: str, epsilon: float | None, score: str, method: str, pool: str) -> Sequence[float]:
    """Values by question; the best private method's, chosen by the other half of the questions, for ``BEST``."""
    if method == BEST:
        return best_by_halves({name: _values(result, task, epsilon, score, name, pool) for name in PRIVATE})
    priced = method in (*PRIVATE, ONE, ALL)
    about = {"epsilon": epsilon, "adjacency": ADJACENCY.value} if priced else {"epsilon": None, "adjacency": None}
    return values_of(cell_of(result, task, method, score, option=pool, **about), result.settings.seeds)


def signed(found: Estimate) -> str:
    """A difference with its interval."""
    return f"{found.value:+.1f} ({found.low:+.1f} to {found.high:+.1f})"


def chance(p: float) -> str:
    """A p-value."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


EXPERIMENT = Experiment(
    name="answers-methods",
    title="Which private method writes the best long answers, and is it worth its price?",
    source="Public-data-assisted ICL, Tables 1 and 2 and its pools",
    settings=Settings(
        model="embedded", writer="embedded-lm", seeds=12, queries=1, tasks=("samsum", "medquad", "chatdoctor"),
        names=("own",), records=(1000,), experts=(40,), shots=(1,), epsilons=(1.0, 3.0, 8.0),
        adjacencies=(ADJACENCY.value,), draws=(2,),
    ),
    measure=measure,
    section=section,
)  # fmt: skip
