"""Embedding-space aggregation by examples an expert, number of experts and reruns: what it gives away, how good it is.

    sotto bench run contextleak-esa --writer NAME --data FOLDER --results FOLDER

Every record is used, so that nothing amplifies. What an answer gives away is exact: the epsilon, at the price's delta,
of the noisy mean for two concrete sets of records. The answer is the public candidate nearest to it, and gives away no
more. In one pair an expert says what another one says, in the other one its records are a planted one, whose answer is
a code, and the question is its own. Reruns ask the same question again. They share one price, or each of them pays it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final
from zlib import crc32

import numpy as np

from sottovoce.audits.exact.pair import GaussianPair, exact_epsilon
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Key, Measurements, Piece, Result, Settings
from sottovoce.benchmarks.harness.results import Figure, ReportSection, Series, Table
from sottovoce.benchmarks.public_data.episode import ADJACENCY, DELTA, Episode, Size
from sottovoce.benchmarks.public_data.leakage import furthest_pair
from sottovoce.benchmarks.public_data.scoring import MAIN, cell_of, difference, measured_with, scored, shown
from sottovoce.benchmarks.public_data.table import MEAN, ZERO
from sottovoce.benchmarks.public_data.worlds import IN, world_of
from sottovoce.benchmarks.public_data.writers import KeptWriter, embedder_of, writer_of
from sottovoce.methods.answering.answerer import AnswerPlan, make_answerer
from sottovoce.methods.answering.esa import ESA as EmbeddingMeans
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.randomness import SeededRandomness

ESA: Final = "esa"
RERUNS: Final = (1, 4, 16)
REPLACED, PLANTED, CHARGED = "exact, replaced", "exact, planted", "charged"
ONE_OF, MOST_COMMON = "one of them", "the most common"
_SIZE: Final = Size(pool=32, public=8, public_shots=1, fresh=False)


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Every size of one seed."""
    settings = bench.settings
    world, embedder = world_of(bench.data, piece.task), embedder_of(settings.model)
    writer = KeptWriter(writer_of(settings.writer))
    for experts in settings.experts:
        for shots in settings.shots:
            size = replace(_SIZE, records=experts * shots, experts=experts, shots=shots)
            episode = Episode(world, piece.seed, size, writer, embedder, {IN: world.pool(IN, _SIZE.pool)})
            yield from _of_size(episode, settings)


def _of_size(episode: Episode, settings: Settings) -> Measurements:
    size, asked = episode.size, episode.questions(settings.queries)
    sides = [episode.side(question, IN) for question, _ in asked]
    said = [episode.outputs(question) for question, _ in asked]
    base = Key(episode.world.name, "own", "", records=size.records, group=size.shots)
    for name in (ZERO, MEAN):
        answers = [episode.answer(make_answerer(name), question, IN, None) for question, _ in asked]
        yield from _score(replace(base, method=name), answers, episode, asked)
    code = np.random.default_rng([episode.seed, 3]).bytes(6).hex()
    question = f"What is the code of case {code}?"
    few = replace(size, records=size.shots, experts=1)
    pairs = [(question, code), *episode.world.train[: size.shots - 1]]
    with_it = replace(episode, world=replace(episode.world, train=pairs), size=few, _outputs={})
    for epsilon in settings.epsilons:
        key = replace(base, method=ESA, adjacency=ADJACENCY.value, epsilon=epsilon)
        plans = [episode.plan(make_answerer(ESA), side, epsilon) for side in sides]
        replaced = max(furthest_pair(plan, one, one).mu for plan, one in zip(plans, said, strict=True))
        planted = furthest_pair(plans[0], episode.outputs(question), with_it.outputs(question)).mu
        for reruns in RERUNS:
            again = replace(key, option=f"{reruns} reruns")
            for name, mu in ((REPLACED, replaced), (PLANTED, planted)):
                yield replace(again, quantity=name), exact_epsilon(GaussianPair(mu * math.sqrt(reruns)), DELTA)
            charged = RdpAccountant(ADJACENCY).compose(plans[0].event, reruns).report(DELTA).epsilon
            yield replace(again, quantity=CHARGED), charged
            drawn = [
                _shared(plan, one, side, reruns, f"{episode.seed} {size} {epsilon} {text}")
                for plan, one, side, (text, _) in zip(plans, said, sides, asked, strict=True)
            ]
            rounds = [answers[place] for place in range(reruns) for answers in drawn]
            yield from _score(replace(again, method=f"{ESA}, {ONE_OF}"), rounds, episode, asked)
            common = [Counter(answers).most_common(1)[0][0] for answers in drawn]
            yield from _score(replace(again, method=f"{ESA}, {MOST_COMMON}"), common, episode, asked)


def _score(key: Key, answers: Sequence[str], episode: Episode, asked: Sequence[Any]) -> Iterator[tuple[Key, float]]:
    yield from ((own, value) for own, value in scored(key, answers, asked, episode.embedder) if own.quantity == MAIN)


def _shared(plan: AnswerPlan, outputs: Any, side: Any, reruns: int, words: str) -> list[str]:
    """Answers that share one price: each with the square root of their number times the noise."""
    answerer: Any = plan.answerer
    own: EmbeddingMeans = replace(answerer, sigma=answerer.sigma * math.sqrt(reruns))
    noise = SeededRandomness(crc32(f"{words} {reruns}".encode()))
    return [own.finish(own.draw(plan.setting, outputs, side, noise), side) for _ in range(reruns)]


def section(result: Result) -> ReportSection:
    """Sizes, reruns, and leakage over epsilon and over reruns."""
    tables = [table for task in result.settings.tasks for table in (_sizes(result, task), _reruns(result, task))]
    figures = [
        figure for task in result.settings.tasks for figure in (_by_epsilon(result, task), _by_reruns(result, task))
    ]
    return ReportSection(
        result.experiment, EXPERIMENT.title, EXPERIMENT.source, _reading(result), tables, figures,
        [("Writer", result.settings.writer), *measured_with(result)],
    )  # fmt: skip


def _places(result: Result) -> list[tuple[int, int]]:
    """Records and examples an expert."""
    return [(experts * shots, shots) for experts in result.settings.experts for shots in result.settings.shots]


def _largest(
    result: Result, task: str, quantity: str, place: tuple[int, int], epsilon: float, reruns: int = 1
) -> float:
    cell = cell_of(
        result, task, ESA, quantity, records=place[0], group=place[1], epsilon=epsilon, option=f"{reruns} reruns"
    )
    return max(cell.values) if cell else math.nan


def _quality(result: Result, task: str, method: str, place: tuple[int, int], **about: Any) -> str:
    return shown(cell_of(result, task, method, records=place[0], group=place[1], **about))


def _sizes(result: Result, task: str) -> Table:
    rows = []
    for place in _places(result):
        for epsilon in result.settings.epsilons:
            exact = [f"{_largest(result, task, name, place, epsilon):.2f}" for name in (REPLACED, PLANTED)]
            own = _quality(result, task, f"{ESA}, {ONE_OF}", place, epsilon=epsilon, option="1 reruns")
            free = [_quality(result, task, name, place) for name in (MEAN, ZERO)]
            rows.append((str(place[0] // place[1]), str(place[1]), f"{epsilon:g}", *exact, own, *free))
    columns = ("experts", "examples each", "epsilon", REPLACED, PLANTED, "ROUGE-L", "without noise", "zero-shot")
    note = (
        f"One answer, {ADJACENCY.value}, delta {DELTA:g}. Exact: the largest epsilon of the noisy mean over questions "
        "and draws of questions. ROUGE-L from 0 to 100, mean and 95 % interval over seeds. Without noise has no "
        "guarantee; zero-shot reads no record and is free."
    )
    return Table(f"Leakage and quality by size, {task}", columns, rows, note)


def _reruns(result: Result, task: str) -> Table:
    place = max(_places(result))
    rows = []
    for epsilon in result.settings.epsilons:
        for reruns in RERUNS:
            quality = [
                _quality(result, task, f"{ESA}, {name}", place, epsilon=epsilon, option=f"{reruns} reruns")
                for name in (ONE_OF, MOST_COMMON)
            ]
            told = [_largest(result, task, name, place, epsilon, reruns) for name in (REPLACED, PLANTED, CHARGED)]
            rows.append((f"{epsilon:g}", str(reruns), *quality, *(f"{value:.2f}" for value in told)))
    columns = (
        "epsilon", "reruns", f"sharing it: {ONE_OF}", f"sharing it: {MOST_COMMON}",
        f"each pays it: {REPLACED}", f"each pays it: {PLANTED}", f"each pays it: {CHARGED}",
    )  # fmt: skip
    note = (
        f"{place[0] // place[1]} experts of {place[1]} examples. Reruns that share a price have the square root of "
        "their number times the noise, and give away together what one answer gives away. Where each pays, the exact "
        f"epsilon of all noisy means together, and what is charged for all of them, at delta {DELTA:g}. Quality is "
        "ROUGE-L, mean and 95 % interval over seeds."
    )
    return Table(f"Reruns, {task}", columns, rows, note)


def _reading(result: Result) -> list[str]:
    lines = []
    for task in result.settings.tasks:
        every = [
            (name, place, epsilon, reruns)
            for name in (REPLACED, PLANTED)
            for place in _places(result)
            for epsilon in result.settings.epsilons
            for reruns in RERUNS
        ]
        beyond = sum(
            _largest(result, task, name, place, epsilon, reruns)
            > _largest(result, task, CHARGED, place, epsilon, reruns) * 1.001
            for name, place, epsilon, reruns in every
        )
        place, least = max(_places(result)), result.settings.epsilons[0]
        one, many = (_largest(result, task, PLANTED, place, least, reruns) for reruns in (RERUNS[0], RERUNS[-1]))
        few = min(_places(result))
        lines += [
            f"{task}: {beyond} of {len(every)} exact leakages are above what is charged.",
            f"{task}: at epsilon {least:g} with {place[0] // place[1]} experts a planted record shows "
            f"{one:.2f} in one answer and {many:.2f} in {RERUNS[-1]} that each pay. With "
            f"{few[0] // few[1]} experts it is {_largest(result, task, PLANTED, few, least):.2f} in one answer. "
            "The noise is set for the largest change of one expert's answer, whatever their number.",
            _against_zero_shot(result, task),
        ]
    return lines


def _against_zero_shot(result: Result, task: str) -> str:
    signs = []
    for place in _places(result):
        for epsilon in result.settings.epsilons:
            about: dict[str, Any] = {"records": place[0], "group": place[1]}
            own = cell_of(result, task, f"{ESA}, {ONE_OF}", **about, epsilon=epsilon, option="1 reruns")
            found = difference(own, cell_of(result, task, ZERO, **about))
            signs.append(0 if found is None else found.sign)
    return (
        f"{task}: of {len(signs)} settings {signs.count(1)} answer better than zero-shot and {signs.count(-1)} worse, "
        "each by a 95 % interval of the difference. A small writer's answers are poor with and without records: such "
        "figures of quality say little of a larger one. Exact leakage is that of the vectors, and needs no good writer."
    )


def _by_epsilon(result: Result, task: str) -> Figure:
    epsilons = result.settings.epsilons
    lines = [
        Series(
            f"{place[0] // place[1]} x {place[1]}, {words}",
            epsilons,
            [_largest(result, task, name, place, x) for x in epsilons],
        )
        for place in _places(result)
        for name, words in ((REPLACED, "replaced"), (PLANTED, "planted"))
    ]
    lines.append(Series("proof", epsilons, epsilons, reference=True))
    title = f"Exact leakage of ESA: experts x examples each, {task}"
    return Figure("epsilon", title, "claimed epsilon", "epsilon shown", lines, log_x=True, log_y=True)


def _by_reruns(result: Result, task: str) -> Figure:
    place, epsilons = max(_places(result)), result.settings.epsilons
    lines = []
    for epsilon in (epsilons[0], epsilons[-1]):
        for name, words in ((PLANTED, "planted, exact"), (CHARGED, "charged")):
            values = [_largest(result, task, name, place, epsilon, reruns) for reruns in RERUNS]
            lines.append(Series(f"epsilon {epsilon:g}, {words}", RERUNS, values, reference=name == CHARGED))
    title = f"Leakage of reruns that each pay the price, {task}"
    return Figure("reruns", title, "reruns", "epsilon of all together", lines, log_x=True, log_y=True)


SETTINGS: Final = Settings(
    writer="embedded-lm", seeds=3, queries=2, tasks=("samsum",), names=("own",), records=(), experts=(8, 32),
    shots=(1, 4), epsilons=(1.0, 2.0, 4.0, 8.0), adjacencies=(ADJACENCY.value,),
)  # fmt: skip
EXPERIMENT: Final = Experiment(
    name="contextleak-esa",
    title="ESA: examples an expert, number of experts, reruns",
    source="ContextLeak, leakage and utility of ESA against epsilon, exemplars, ensemble size and reruns",
    settings=SETTINGS,
    measure=measure,
    section=section,
    quick=replace(SETTINGS, seeds=1, queries=1, experts=(4,), shots=(1, 2), epsilons=(4.0,)),
)
