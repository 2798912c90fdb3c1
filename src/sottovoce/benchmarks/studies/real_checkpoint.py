"""The papers' claims on a published checkpoint, with and without contextual calibration, and what fits reach beside it.

    sotto bench run real-checkpoint

Every prompt is calibrated by itself: from its scores are taken its own mean scores of questions without content. So an
expert's scores stay a function of that expert's record, and the sensitivity of every method stays what it is.

A fit on the built-in encoder pays once: the price of one answer, or what all answers of an episode cost together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import numpy as np

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.accuracy import difference, hard, said_of, soft
from sottovoce.benchmarks.harness.checkpoint import CHECKPOINT
from sottovoce.benchmarks.harness.datasets import OWN, Episode
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Key, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.quick_fits import SHORTCUTS, PublicSums, shortcuts
from sottovoce.benchmarks.harness.results import ReportSection, Table
from sottovoce.benchmarks.harness.runner import open_model
from sottovoce.data.bundled import pool_vectors, public_pool
from sottovoce.errors import ParameterError
from sottovoce.experts.label_scores import calibrated
from sottovoce.methods.base import Price
from sottovoce.methods.fitting.fitter import FitSetting, PublicInputs, make_fitter
from sottovoce.methods.poe import PoE
from sottovoce.models.base import FloatArray
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.parameters import MAX_EPSILON
from sottovoce.privacy.unit import Adjacency, Assignment, change_type
from sottovoce.randomness import SeededRandomness
from sottovoce.tasks import CONTENT_FREE

AS_IS, CALIBRATED = "as is", "calibrated"
CONSTANT, ONE_EXAMPLE, REPEATS = "one label always", "one example", "repeats"
"""The best constant answer; an expert alone; how often an expert answers its own example's label."""
PRIORS: Final = "even answers"
"""How even the model's answers without any record are: the share of its commonest one, in percent."""
FITTERS: Final = ("class-means", "dp-logistic")
ONE_ANSWER, ALL_ANSWERS = "the price of one answer", "the price of all answers"


def measure(bench: Bench, piece: Piece) -> Measurements:
    """References, released answers and fits of one draw, for the first of the numbers of records."""
    episode = bench.world(piece.task).episode(piece.seed, bench.settings.queries, piece.names)
    asked = replace(episode, questions=[*episode.questions, *episode.task.content_free_queries()])
    labels = len(episode.task.labels)
    public = e.ask_public(bench.scorer, asked)[:, None]
    share = 100 * np.bincount(episode.truth, minlength=labels).max() / len(episode.truth)
    yield Key(piece.task, piece.names, CONSTANT), float(share)
    for records in bench.settings.records:
        whole = e.ask(bench.scorer, asked, [range(records)])
        experts = e.ask(bench.scorer, asked, [[index] for index in range(records)])
        for option, adjusted in ((AS_IS, _without_empty), (CALIBRATED, _calibrated)):
            scores = adjusted(public), adjusted(whole), adjusted(experts)
            yield from _references(piece, episode, records, option, *scores)
            yield from _released(bench, piece, episode, records, option, scores[0][:, 0], scores[2])
        yield from _fits(bench, piece, episode, records)


def _calibrated(scores: FloatArray) -> FloatArray:
    return calibrated(scores, len(CONTENT_FREE))


def _without_empty(scores: FloatArray) -> FloatArray:
    return scores[: -len(CONTENT_FREE)]


def _references(
    piece: Piece, episode: Episode, records: int, option: str, public: FloatArray, whole: FloatArray,
    experts: FloatArray,
) -> Measurements:  # fmt: skip
    def key(method: str, quantity: str = "right") -> Key:
        return Key(piece.task, piece.names, method, quantity, records, option=option)

    laws = {
        e.ZERO_SHOT: e.best_laws(public[:, 0]),
        e.FULL: e.best_laws(whole[:, 0]),
        e.SOFT: e.best_laws(soft(experts)),
        e.HARD: e.best_laws(hard(experts)),
    }
    for method, law in laws.items():
        yield key(method), e.right(law, episode.truth)
    yield key(e.ZERO_SHOT, PRIORS), 100 * float(laws[e.ZERO_SHOT].mean(axis=0).max())
    each = e.best_laws(experts)
    own = np.array([example.label for example in episode.records[:records]])
    yield key(ONE_EXAMPLE), 100 * float(each[np.arange(len(each)), :, episode.truth].mean())
    yield key(ONE_EXAMPLE, REPEATS), 100 * float(each[:, np.arange(records), own].mean())


def _released(
    bench: Bench, piece: Piece, episode: Episode, records: int, option: str, public: FloatArray, experts: FloatArray
) -> Measurements:
    for adjacency in bench.adjacencies:
        outputs = e.Answers(experts, public, e.change_of(1, adjacency), adjacency).outputs()
        for name, method in e.SELECTING.items():
            quick = e.QuickLaws(method, outputs)
            for epsilon in bench.settings.epsilons:
                law = quick.at(Price(epsilon, e.DELTA))
                key = Key(piece.task, piece.names, name, "right", records, 1, adjacency.value, epsilon, option)
                yield key, e.right(law, episode.truth)


# Fits on the built-in encoder


@lru_cache(maxsize=1)
def _encoder(bench: Bench) -> Any:
    return open_model("embedded", bench.scorer.store)


@lru_cache(maxsize=64)
def total_price(epsilon: float, answers: int, adjacency: Adjacency) -> float:
    """What so many answers of PoE (or of votes by the exponential mechanism) cost together, at ``DELTA``."""
    event = PoE().event(Price(epsilon), adjacency)
    return min(MAX_EPSILON, RdpAccountant(adjacency).compose(event, answers).report(e.DELTA).epsilon)


def _fits(bench: Bench, piece: Piece, episode: Episode, records: int) -> Measurements:
    model, task = _encoder(bench), episode.task
    shown = episode.records[:records]
    vectors = np.asarray(model.embed_records(task, [example.fields for example in shown]))
    labels = np.array([example.label for example in shown], dtype=np.intp)
    asked = np.asarray(model.embed_questions(task, episode.questions))
    pool = [{task.fields[0]: str(row.values["text"])} for row in public_pool()]
    kept = pool_vectors(model.embedding, [task.text_of(text) for text in pool])
    inputs = PublicInputs(
        task, model, model, pool, model.embed_questions(task, pool) if kept is None else kept,
        lambda queries: e.ask_public(model, replace(episode, questions=queries)),
    )  # fmt: skip
    public = e.ask_public(model, episode)
    for adjacency in bench.adjacencies:
        change = change_type(Assignment.OWN_SLOT, adjacency)
        private = PublicSums(vectors, labels, change, adjacency, _unasked)
        setting = FitSetting(
            labels=len(task.labels), dimension=model.dimension, units=records if adjacency.size_is_public else None,
            adjacency=adjacency, change=change, candidates=len(pool),
        )  # fmt: skip
        for epsilon in bench.settings.epsilons:
            total = total_price(epsilon, len(episode.questions), adjacency)
            for name in FITTERS:
                for option, price in ((ONE_ANSWER, epsilon), (ALL_ANSWERS, total)):
                    key = Key(piece.task, piece.names, name, "right", records, 1, adjacency.value, epsilon, option)
                    try:
                        plan = make_fitter(name).plan(Price(price, e.DELTA), setting)
                    except ParameterError:
                        continue
                    with shortcuts():
                        support = plan.fitter.fit(plan, private, inputs, SeededRandomness(_seed_of(key, piece.seed)))
                        evidence = support.log_probabilities(asked, np.zeros_like(public))  # type: ignore[union-attr]
                    scores = support.prior_weight * public + evidence  # type: ignore[union-attr]
                    yield key, e.right(e.best_laws(scores), episode.truth)


def _unasked(queries: Sequence[Any]) -> tuple[FloatArray, FloatArray]:
    raise AssertionError("these fitters ask no expert")


def _seed_of(key: Key, seed: int) -> int:
    text = f"{key.task}|{key.method}|{key.option}|{key.records}|{key.adjacency}|{key.epsilon}|{seed}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


# How it is shown


def section(result: Result) -> ReportSection:
    """References, released answers and fits, and the papers' claims as differences seed by seed."""
    tables = [*_reference_tables(result), *_released_tables(result), *_fit_tables(result), *_claims(result)]
    return ReportSection(
        result.experiment, EXPERIMENT.title, EXPERIMENT.source, reading(result), tables, [], about(result)
    )


def _reference_tables(result: Result) -> Iterator[Table]:
    heads = ("task", "scores", CONSTANT, e.ZERO_SHOT, "its commonest answer", ONE_EXAMPLE, "repeats its label")
    rows = []
    for task, names, records in _places(result):
        at: dict[str, Any] = {"task": task, "names": names}
        for option in (AS_IS, CALIBRATED):
            here = {**at, "records": records, "option": option}
            cells = [
                result.cell(**at, method=CONSTANT),
                result.cell(**here, method=e.ZERO_SHOT),
                result.cell(**here, method=e.ZERO_SHOT, quantity=PRIORS),
                result.cell(**here, method=ONE_EXAMPLE),
                result.cell(**here, method=ONE_EXAMPLE, quantity=REPEATS),
                *(result.cell(**here, method=method) for method in (e.FULL, e.SOFT, e.HARD)),
            ]
            rows.append((task, option, *(str(cell) if cell else "" for cell in cells)))
    yield Table(
        "Without privacy: percent right",
        (*heads, e.FULL, e.SOFT, e.HARD),
        rows,
        "Mean and standard error over seeds. 'Its commonest answer': the share of questions that the model answers "
        "alike without any record. 'Repeats its label': how often an expert answers its own example's label.",
    )


def _released_tables(result: Result) -> Iterator[Table]:
    heads = ("task", "scores", "epsilon an answer", *e.SELECTING)
    for adjacency in result.settings.adjacencies:
        rows = []
        for task, names, records in _places(result):
            for option in (AS_IS, CALIBRATED):
                for epsilon in result.settings.epsilons:
                    cells = [
                        result.cell(
                            task=task, names=names, method=method, records=records, adjacency=adjacency,
                            epsilon=epsilon, option=option,
                        )
                        for method in e.SELECTING
                    ]  # fmt: skip
                    rows.append((task, option, f"{epsilon:g}", *(str(cell) if cell else "" for cell in cells)))
        yield Table(f"Released answers, {adjacency}: percent right", heads, rows, "Each answer pays the epsilon.")


def _fit_tables(result: Result) -> Iterator[Table]:
    heads = ("task", "epsilon an answer", "all of them", *(f"{name}, {at}" for name in FITTERS for at in _PRICES))
    for adjacency in result.settings.adjacencies:
        rows = []
        for task, names, records in _places(result):
            for epsilon in result.settings.epsilons:
                total = total_price(epsilon, result.settings.queries, Adjacency.parse(adjacency))
                cells = [
                    result.cell(
                        task=task, names=names, method=name, records=records, adjacency=adjacency, epsilon=epsilon,
                        option=option,
                    )
                    for name in FITTERS
                    for option in (ONE_ANSWER, ALL_ANSWERS)
                ]  # fmt: skip
                shown = (str(cell) if cell else "" for cell in cells)
                rows.append((task, f"{epsilon:g}", f"{total:.1f}", *shown))
        yield Table(
            f"Fits on the built-in encoder, {adjacency}: percent right",
            heads,
            rows,
            f"A fit pays once and answers any number of questions. 'One': the price of one answer. 'All': what all "
            f"{result.settings.queries} answers of PoE cost together, at delta {e.DELTA:g}. {SHORTCUTS}",
        )


_PRICES: Final = ("one", "all")
RIVALS: Final = (e.VOTES_GAUSSIAN, e.VOTES, e.PRIOR_POE)


def _claims(result: Result) -> Iterator[Table]:
    for adjacency in result.settings.adjacencies:
        rows = []
        for task, names, records in _places(result):
            for option in (AS_IS, CALIBRATED):
                free = {"task": task, "names": names, "records": records, "option": option}
                for epsilon in result.settings.epsilons:
                    at: dict[str, Any] = {**free, "adjacency": adjacency, "epsilon": epsilon}
                    mine = result.cell(**at, method=e.POE)
                    gaps = [difference(mine, result.cell(**at, method=rival)) for rival in RIVALS]
                    gaps += [difference(mine, result.cell(**free, method=m)) for m in (e.ZERO_SHOT, e.FULL)]
                    rows.append((task, option, f"{epsilon:g}", *map(said_of, gaps)))
        yield Table(
            f"PoE ahead by, in points, {adjacency}",
            ("task", "scores", "epsilon an answer", *(f"over {rival}" for rival in (*RIVALS, e.ZERO_SHOT, e.FULL))),
            rows,
            "Differences seed by seed, with their standard error.",
        )


def reading(result: Result) -> list[str]:
    """What calibration does to each reference, seed by seed."""
    lines = []
    for task, names, records in _places(result):
        at: dict[str, Any] = {"task": task, "names": names, "records": records}
        gains = []
        for method in e.REFERENCES:
            gap = difference(
                result.cell(**at, method=method, option=CALIBRATED), result.cell(**at, method=method, option=AS_IS)
            )
            gains.append(f"{method} {said_of(gap)}")
        lines.append(f"{task}: calibration adds, in points: {', '.join(gains)}.")
    return lines


def _places(result: Result) -> list[tuple[str, str, int]]:
    places = [(c.key.task, c.key.names, c.key.records) for c in result.cells if c.key.method == e.FULL]
    return list(dict.fromkeys(places))


EXPERIMENT: Final = Experiment(
    name="real-checkpoint",
    title="A published checkpoint of 135 million parameters: do the papers' claims hold on it?",
    source="Private PoEtry, Table 1; Zhao et al. (2021) for calibration",
    settings=Settings(
        model=CHECKPOINT,
        seeds=5,
        tasks=("trec", "agnews", "subj"),
        names=(OWN,),
        records=(25,),
        epsilons=(1.0, 4.0, 8.0),
    ),
    measure=measure,
    section=section,
)
