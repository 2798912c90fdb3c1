"""Answers from documents by embedding-space aggregation: how good, and what they give away, against epsilon.

    sotto bench run answers-documents --writer NAME --data FOLDER --results FOLDER

A record is a receipt with one question about it. Every record has an expert of its own and every expert answers, so
that nothing amplifies. What an answer gives away is exact: the epsilon, at the price's delta, of the noisy mean for two
concrete sets of receipts. Two kinds of neighbours are looked at: a receipt is replaced by another one of the set, for
questions about other receipts; and by a planted one whose answer is a code, for the question about it. The answer is
the public candidate nearest to the noisy mean, and gives away no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from sottovoce.audits.exact.pair import exact_epsilon
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Key, Measurements, Piece, Result, Settings
from sottovoce.benchmarks.harness.results import Figure, ReportSection, Series, Table
from sottovoce.benchmarks.public_data.episode import ADJACENCY, DELTA, Episode, Size
from sottovoce.benchmarks.public_data.leakage import furthest_pair
from sottovoce.benchmarks.public_data.scoring import MAIN, SCORES, cell_of, estimate, measured_with, scored, shown
from sottovoce.benchmarks.public_data.table import CONSENSUS, FULL, MEAN, ONE, SHOTS, ZERO, chosen_pairs
from sottovoce.benchmarks.public_data.worlds import IN, RECEIPTS, Pair, world_of
from sottovoce.benchmarks.public_data.writers import KeptWriter, embedder_of, writer_of
from sottovoce.experts.written import WrittenOutputs
from sottovoce.methods.answering.answerer import AnswerPlan, make_answerer

SIZE: Final = Size(pool=32, public=8, public_shots=1, context=3, fresh=False)
ESA: Final = make_answerer("esa")
REPLACED, PLANTED = "a receipt replaced by another", "a receipt replaced by a planted one"
LEAKS: Final = (REPLACED, PLANTED)


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Scores and exact leakage of one question, for every price."""
    settings = bench.settings
    experts = settings.experts[0]
    size = replace(SIZE, records=experts, experts=experts)
    world = world_of(bench.data, piece.task)
    writer = KeptWriter(writer_of(settings.writer))
    pools = {IN: world.pool(IN, size.pool)}
    episode = Episode(world, piece.seed, size, writer, embedder_of(settings.model), pools)
    asked = episode.questions(settings.queries)
    episode.ask([question for question, _ in asked])
    for key, answers in writer.together(lambda: list(_answers(episode, asked, settings.epsilons))):
        yield from scored(key, answers, asked, episode.embedder)
    code, question = planted(piece.seed)
    own = replace(_key(episode), method=ESA.name, adjacency=ADJACENCY.value)
    for epsilon in settings.epsilons:
        plans = [episode.plan(ESA, episode.side(text, IN), epsilon) for text, _ in asked]
        among = [_worst_replaced(episode, plan, text) for plan, (text, _) in zip(plans, asked, strict=True)]
        yield replace(own, quantity=REPLACED, epsilon=epsilon), max(among)
        yield replace(own, quantity=PLANTED, epsilon=epsilon), _worst_planted(episode, plans[0], (question, code))


def _key(episode: Episode) -> Key:
    return Key(episode.world.name, "own", "", records=episode.size.records)


def _answers(episode: Episode, asked: Sequence[Pair], epsilons: Sequence[float]) -> Iterator[tuple[Key, Sequence[str]]]:
    key = _key(episode)
    for name, pool in ((ZERO, ""), (SHOTS, IN), (CONSENSUS, IN), (FULL, ""), (MEAN, IN)):
        texts = [episode.answer(make_answerer(name), question, pool, None) for question, _ in asked]
        yield replace(key, method=name, records=0 if name in (ZERO, SHOTS, CONSENSUS) else key.records), texts
    for epsilon in epsilons:
        its = replace(key, adjacency=ADJACENCY.value, epsilon=epsilon)
        yield replace(its, method=ESA.name), [episode.answer(ESA, question, IN, epsilon) for question, _ in asked]
        chosen = chosen_pairs(episode, IN, epsilon)
        yield replace(its, method=ONE), [episode.after(question, chosen) for question, _ in asked]


def planted(seed: int) -> Pair:
    """A code, and a short receipt with a question whose answer is the code."""
    code = np.random.default_rng([seed, 3]).bytes(6).hex()
    return code, f"RECEIPT {code} TOTAL 10.00\nQuestion: What is the number of this receipt?"


def _worst_replaced(episode: Episode, plan: AnswerPlan, question: str) -> float:
    outputs = episode.outputs(question)
    return _worst(plan, outputs, outputs)


def _worst_planted(episode: Episode, plan: AnswerPlan, pair: Pair) -> float:
    question, _ = pair
    with_it = replace(episode, world=replace(episode.world, train=[pair]), size=_ONE_EXPERT, _outputs={})
    return _worst(plan, episode.outputs(question), with_it.outputs(question))


def _worst(plan: AnswerPlan, outputs: WrittenOutputs, others: WrittenOutputs) -> float:
    return exact_epsilon(furthest_pair(plan, outputs, others), DELTA)


_ONE_EXPERT: Final = replace(SIZE, records=1, experts=1)


def section(result: Result) -> ReportSection:
    """A table, utility against epsilon and leakage against epsilon."""
    (task,), epsilons = result.settings.tasks, result.settings.epsilons
    rows = []
    for name, price in (
        (ZERO, "free"),
        (SHOTS, "free"),
        (CONSENSUS, "free"),
        (FULL, "no guarantee"),
        (MEAN, "no guarantee"),
    ):
        rows.append([name, price, *(shown(cell_of(result, task, name, score)) for score in SCORES), "-", "-"])
    for name in (ESA.name, ONE):
        for epsilon in epsilons:
            scores = [shown(cell_of(result, task, name, score, epsilon=epsilon)) for score in SCORES]
            leaks = [_largest(result, name, leak, epsilon) for leak in LEAKS]
            rows.append([name, f"{epsilon:g}", *scores, *leaks])
    table = Table(f"Answers from {task}", ("method", "epsilon", *SCORES, *LEAKS), rows, _note(result))
    beyond = sum(value > epsilon for epsilon in epsilons for leak in LEAKS for value in _leaks(result, leak, epsilon))
    count = sum(len(_leaks(result, leak, epsilon)) for epsilon in epsilons for leak in LEAKS)
    reading = [f"{task}: {beyond} of {count} exact leakages are above epsilon."]
    return ReportSection(
        EXPERIMENT.name, EXPERIMENT.title, EXPERIMENT.source, reading, [table],
        [_utility(result, task), _leakage(result, task)], measured_with(result),
    )  # fmt: skip


def _leaks(result: Result, leak: str, epsilon: float) -> Sequence[float]:
    cell = cell_of(result, result.settings.tasks[0], ESA.name, leak, epsilon=epsilon)
    return () if cell is None else cell.values


def _largest(result: Result, method: str, leak: str, epsilon: float) -> str:
    values = _leaks(result, leak, epsilon)
    return f"{max(values):.2f}" if method == ESA.name and values else "-"


def _note(result: Result) -> str:
    experts = result.settings.experts[0]
    return (
        f"0 to 100, mean and 95 % interval over {result.settings.seeds} seeds of {result.settings.queries} questions. "
        f"{experts} receipts, one an expert, the same for all questions; {SIZE.pool} public ones, {SIZE.public} "
        f"candidates; {SIZE.context} receipts in full context; {SIZE.tokens} tokens. Epsilon of one answer, and of one "
        f"choice for all answers, at delta {DELTA:g}, {ADJACENCY.value}. The last columns: largest exact epsilon, at "
        "that delta, of the noisy mean over all questions and receipts. A planted receipt's answer is a code, and the "
        "question is its own."
    )


def _utility(result: Result, task: str) -> Figure:
    epsilons = result.settings.epsilons
    lines = []
    for name in (ESA.name, ONE):
        spans = [estimate(cell_of(result, task, name, epsilon=epsilon)) for epsilon in epsilons]
        known = [(epsilon, span) for epsilon, span in zip(epsilons, spans, strict=True) if span]
        values, low, high = ([getattr(span, end) for _, span in known] for end in ("value", "low", "high"))
        lines.append(Series(name, [epsilon for epsilon, _ in known], values, low, high))
    for name in (ZERO, SHOTS, CONSENSUS, FULL):
        cell = cell_of(result, task, name)
        if cell is not None:
            lines.append(Series(name, list(epsilons), [cell.mean] * len(epsilons), reference=True))
    return Figure("documents-utility", f"ROUGE-L of answers, {task}", "epsilon", MAIN, lines, log_x=True)


def _leakage(result: Result, task: str) -> Figure:
    epsilons = result.settings.epsilons
    largest = {leak: [max(_leaks(result, leak, epsilon), default=0.0) for epsilon in epsilons] for leak in LEAKS}
    lines = [Series(leak, list(epsilons), values) for leak, values in largest.items()]
    lines.append(Series("proof", list(epsilons), list(epsilons), reference=True))
    title = f"Exact leakage of ESA, {task}"
    return Figure("documents-leakage", title, "claimed epsilon", "epsilon shown", lines, log_x=True, log_y=True)


EXPERIMENT: Final = Experiment(
    name="answers-documents",
    title="Answers from documents: quality and leakage of ESA by epsilon",
    source="ContextLeak, its figure of ESA on document questions, with receipts in place of its documents",
    settings=Settings(
        model="embedded", writer="embedded-lm", seeds=12, queries=1, tasks=(RECEIPTS,), names=("own",), records=(32,),
        experts=(32,), epsilons=(1.0, 2.0, 4.0, 8.0), adjacencies=(ADJACENCY.value,),
    ),
    measure=measure,
    section=section,
)  # fmt: skip
