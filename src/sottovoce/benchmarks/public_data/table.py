"""Long answers by every method: scores with public pairs of the same source, of another source, and without any.

Beside the private methods stand the writer alone, the writer after public pairs, private pairs in one prompt without
privacy, the mean without noise, and pairs that one private choice picked, at the price of one answer and at that of
ten: both serve any number of questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
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
from sottovoce.benchmarks.public_data.episode import ADJACENCY, DELTA, LOOSE, Episode, Size, cannot, vectors_of
from sottovoce.benchmarks.public_data.scoring import (
    MAIN,
    SCORES,
    cell_of,
    difference,
    measured_with,
    scored,
    shown,
    verdict,
)
from sottovoce.benchmarks.public_data.worlds import IN, OUT, Pair, world_of
from sottovoce.benchmarks.public_data.writers import KeptWriter, embedder_of, writer_of
from sottovoce.methods.answering.answerer import Answerer, make_answerer
from sottovoce.methods.answering.pairs import pairs_of, pairs_task
from sottovoce.methods.base import Price
from sottovoce.methods.choice import Choice
from sottovoce.methods.fitting.fitter import FitSetting, PublicInputs
from sottovoce.methods.fitting.support import DemonstrationSupport
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.unit import SWAP
from sottovoce.randomness import SeededRandomness
from sottovoce.tasks import Query

SIZE: Final = Size()
ZERO, SHOTS, FULL, MEAN = "zero-shot", "public-shots", "full-context", "nearest-to-mean"
ONE, ALL = "one choice, price of one answer", "one choice, price of 10 answers"
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
    """The size with the numbers that settings choose."""
    return replace(size, records=settings.records[0], experts=settings.experts[0], shots=(settings.shots or (1,))[0])


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Scores of one world and one seed."""
    settings = bench.settings
    episode = episode_of(bench, piece, sized(settings, SIZE))
    asked = episode.questions(settings.queries)
    episode.ask([question for question, _ in asked])
    for key, answers in episode.writer.together(lambda: list(_answers(episode, asked, settings.epsilons))):
        yield from scored(key, answers, asked, episode.embedder)


def _answers(episode: Episode, asked: Sequence[Pair], epsilons: Sequence[float]) -> Iterator[tuple[Key, list[str]]]:
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
        key = replace(private, method=MEAN, option=pool)
        yield key, [episode.answer(make_answerer(MEAN), question, pool, None) for question, _ in asked]
    for epsilon in (*epsilons, None):
        at = replace(private, adjacency=ADJACENCY.value, epsilon=epsilon)
        for pool in POOLS:
            for name, method in PRIVATE.items():
                if pool == NOTHING and "pool" in method.needs:
                    continue
                if any(cannot(method, episode, question, pool, epsilon) for question, _ in asked):
                    continue
                key = replace(at, method=name, option=pool)
                yield key, [episode.answer(method, question, pool, epsilon) for question, _ in asked]
        for pool in (IN, OUT):
            prices = {ONE: epsilon, ALL: ANSWERS * epsilon} if epsilon else {ONE: LOOSE}
            for name, price in prices.items():
                shots = chosen_pairs(episode, pool, price)
                yield replace(at, method=name, option=pool), [episode.after(question, shots) for question, _ in asked]


def chosen_pairs(episode: Episode, pool: str, epsilon: float) -> Sequence[Pair]:
    """Public pairs that one private choice picks by their likeness to all private pairs."""
    world, size = episode.world, episode.size
    task, pairs = pairs_task(world.task), episode.pools[pool]
    rows = [{world.task.fields[0]: shown, world.task.output_field: given} for shown, given in pairs]
    own = [{world.task.fields[0]: a, world.task.output_field: b} for a, b in world.private(size.records)]
    texts = [task.text_of(row) for row in (*rows, *own)]
    vectors = vectors_of(episode.embedder, texts)
    setting = FitSetting(len(task.labels), vectors.shape[1], size.records, ADJACENCY, SWAP, candidates=len(pairs))
    fitter = Choice(k=size.public_shots)
    plan = fitter.plan(Price(epsilon, DELTA), setting)
    private = PublicSums(vectors[len(pairs) :], np.zeros(len(own), dtype=np.int64), SWAP, ADJACENCY, _unasked)
    public = PublicInputs(task, FakeScorer(), episode.embedder, rows, vectors[: len(pairs)], _unasked)
    randomness = SeededRandomness(crc32(f"{world.name} {episode.seed} {pool} {epsilon}".encode()))
    support = plan.fitter.fit(plan, private, public, randomness)
    assert isinstance(support, DemonstrationSupport)
    return pairs_of(world.task, support.examples)


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
        reading += [f"{task}: {line}" for line in questions(result, task)]
    reading.append(
        f"{len(reading)} comparisons at 95 %, not corrected for their number: one in twenty is beyond 0 where nothing "
        "is. The best private answer is chosen by the numbers that it is compared by, in its favour."
    )
    return ReportSection(
        EXPERIMENT.name, EXPERIMENT.title, EXPERIMENT.source, reading, tables, [], measured_with(result)
    )


def _rows(result: Result, task: str) -> list[list[str]]:
    rows = []
    for key in dict.fromkeys(replace(cell.key, quantity=MAIN) for cell in result.cells if cell.key.task == task):
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
        f"noise and samples are drawn afresh, the {size.records} private pairs are the same. {size.experts} experts of "
        f"{size.shots}, {size.pool} public pairs, {size.tokens} tokens. Epsilon of one answer at delta {DELTA:g}, "
        f"{ADJACENCY.value}, a fresh sample for every answer. A method that is refused at a price has no row. "
        "METEOR without its synonym stage."
    )


def questions(result: Result, task: str) -> list[str]:
    """What the paper claims and what is asked beside it, as paired differences of ROUGE-L at every price."""

    def cell(method: str, epsilon: float | None = None, pool: str = "") -> Cell | None:
        adjacency = ADJACENCY.value if method in (*PRIVATE, ONE, ALL) else None
        return cell_of(result, task, method, option=pool, epsilon=epsilon, adjacency=adjacency)

    lines = []
    for epsilon in result.settings.epsilons:
        best = _best(result, task, epsilon)
        sga, ksa = cell("sga top-k", epsilon, IN), cell("ksa", epsilon, IN)
        asked = [
            ("Does SGA beat KSA?", difference(sga, ksa)),
            ("Does public data help KSA?", difference(ksa, cell("ksa", epsilon, NOTHING))),
            ("Does SGA with public data beat KSA without?", difference(sga, cell("ksa", epsilon, NOTHING))),
            (
                "Does public data of another source help KSA?",
                difference(cell("ksa", epsilon, OUT), cell("ksa", epsilon, NOTHING)),
            ),
            ("Is the other source as good for SGA as the same one?", difference(cell("sga top-k", epsilon, OUT), sga)),
            ("Does top-k beat top-1?", difference(sga, cell("sga top-1", epsilon, IN))),
            ("Does the best private answer beat the writer alone?", difference(best, cell(ZERO))),
            ("Does it beat free public pairs?", difference(best, cell(SHOTS, pool=IN))),
            ("Does it beat one private choice at the price of one answer?", difference(best, cell(ONE, epsilon, IN))),
        ]
        lines += [f"epsilon {epsilon:g}: {verdict(question, found)}" for question, found in asked]
    return lines


def _best(result: Result, task: str, epsilon: float) -> Cell | None:
    """The private method with the highest mean: chosen by the numbers that it is then compared by, in its favour."""
    cells = [cell_of(result, task, name, option=IN, epsilon=epsilon) for name in PRIVATE]
    return max((cell for cell in cells if cell), key=lambda cell: cell.mean, default=None)


EXPERIMENT = Experiment(
    name="answers-methods",
    title="Which private method writes the best long answers, and is it worth its price?",
    source="Public-data-assisted ICL, Tables 1 and 2 and its pools",
    settings=Settings(
        model="embedded", writer="embedded-lm", seeds=12, queries=1, tasks=("samsum", "medquad", "chatdoctor"),
        names=("own",), records=(1000,), experts=(40,), shots=(1,), epsilons=(1.0, 3.0, 8.0),
        adjacencies=(ADJACENCY.value,),
    ),
    measure=measure,
    section=section,
)  # fmt: skip
