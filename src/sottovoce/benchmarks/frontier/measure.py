"""What a total budget is worth: accuracy against the number of questions, every method at the same total price.

    sotto bench run frontier --results FOLDER
    python -m sottovoce.benchmarks.frontier.page --results FOLDER --out docs/results

Per-answer methods have, for 1, 10, 100 and 1,000 questions, the largest epsilon an answer that a ledger of the total
budget affords; the better of its two currencies counts. Fitters pay the total once and answer any number of questions.
Zero-shot, the full context and logistic regression on the same embeddings, both without privacy, stand beside them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.benchmarks.frontier.kept import (
    BUNDLED,
    DELTA,
    NAME,
    NO_POOL,
    QUESTIONS,
    REGRESSION,
    SOURCE,
    TITLE,
    quoted,
)
from sottovoce.benchmarks.frontier.page import section
from sottovoce.benchmarks.frontier.rows import Drawn, Pool, drawn_from, world_of
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.datasets import OWN, UNKNOWN, Episode
from sottovoce.benchmarks.harness.experiment import ALREADY_NAMED, Bench, Experiment, Key, Measurements, Piece, Settings
from sottovoce.benchmarks.harness.quick_fits import SHORTCUTS, PublicSums, shortcuts
from sottovoce.errors import ParameterError
from sottovoce.methods.base import Price, Selecting
from sottovoce.methods.fitting.fitter import FitPlan, FitSetting, Fitter, PublicInputs, make_fitter, registered_fitters
from sottovoce.methods.fitting.support import LinearSupport, Support
from sottovoce.methods.fitting.writing import ModelWriter
from sottovoce.methods.poe import PoE
from sottovoce.methods.prior_poe import PriorPoE
from sottovoce.methods.rnm import RNM
from sottovoce.models.base import FloatArray
from sottovoce.models.registry import load_stepper
from sottovoce.parameters import OneOf, options_of
from sottovoce.planner.advise import affordable_epsilon
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.unit import Adjacency, Assignment, change_type
from sottovoce.randomness import SeededRandomness
from sottovoce.tasks import Query

PER_ANSWER: Final[Mapping[str, Selecting]] = {e.POE: PoE(), e.PRIOR_POE: PriorPoE(), e.VOTES: RNM()}
ALL: Final = "all"
"""Stands for every method that answers this question, and for zero-shot and the references beside them."""
INVERSE_PENALTY: Final = 10.0
"""C of logistic regression without privacy, chosen on subj, sarcasm and tickets."""


@final
@dataclass(frozen=True, eq=False)
class Answering:
    """What a support says to an episode's questions.

    Attributes:
        evidence: Nats for each label, shape (questions, labels), up to a constant of the question.
        prior_weight: Power of the model's answer without any example.
    """

    evidence: FloatArray
    prior_weight: float


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Every method and reference of one world, one kind of names, one seed."""
    drawn = drawn_from(bench, piece.task, piece.seed)
    episode = drawn.episodes[piece.names]
    public = e.ask_public(drawn.world.model, episode)
    fitters, everything = fitters_of(bench.settings.methods), ALL in bench.settings.methods
    yield Key(piece.task, piece.names, e.ZERO_SHOT), e.right(e.best_laws(public), episode.truth)
    counts = [count for count in bench.settings.records if count <= len(episode.records)]
    for records in counts if everything else ():
        whole = e.ask(drawn.world.model, episode, [range(records)])[:, 0]
        yield Key(piece.task, piece.names, e.FULL, records=records), e.right(e.best_laws(whole), episode.truth)
        right = _right_by_regression(drawn, records, episode.truth)
        yield Key(piece.task, piece.names, REGRESSION, records=records), right
    experts = _Experts(drawn.world.model, episode, public)
    if everything:
        yield from _per_answer(bench, piece, episode, experts, counts)
    with shortcuts():
        yield from _paid_once(bench, piece, drawn, episode, public, experts, counts, fitters)


# Per-answer methods


@final
@dataclass(eq=False)
class _Experts:
    """What experts with one record each say; the first n of them are those of n records."""

    model: Any
    episode: Episode
    public: FloatArray
    _kept: dict[Any, tuple[FloatArray, FloatArray]] = field(default_factory=dict)

    def said(self, queries: Sequence[Query], count: int) -> tuple[FloatArray, FloatArray]:
        """Log-probabilities, shapes (questions, count, labels) and, without any record, (questions, labels)."""
        key = tuple(json.dumps(dict(query), sort_keys=True) for query in queries)
        if key not in self._kept:
            asked = replace(self.episode, questions=queries)
            groups = [[index] for index in range(len(self.episode.records))]
            self._kept[key] = e.ask(self.model, asked, groups), e.ask_public(self.model, asked)
        said, public = self._kept[key]
        return said[:, :count], public


def _per_answer(bench: Bench, piece: Piece, episode: Episode, experts: _Experts, counts: Sequence[int]) -> Measurements:
    said, public = experts.said(episode.questions, len(episode.records))
    for name, method in PER_ANSWER.items():
        for records in counts:
            for adjacency in bench.adjacencies:
                outputs = e.Answers(said[:, :records], public, e.change_of(1, adjacency), adjacency).outputs()
                quick = e.QuickLaws(method, outputs)
                for epsilon in bench.settings.epsilons:
                    for questions in QUESTIONS:
                        price = price_of_one(method, adjacency, epsilon, questions)
                        if price is not None:
                            key = Key(
                                piece.task, piece.names, name, "right", records, 1, adjacency.value, epsilon,
                                f"{questions} questions",
                            )  # fmt: skip
                            yield key, e.right(quick.at(Price(price)), episode.truth)


@lru_cache(maxsize=1024)
def price_of_one(method: Selecting, adjacency: Adjacency, epsilon: float, questions: int) -> float | None:
    """The largest epsilon of an answer that the total affords for so many, by the better currency; ``None`` if none."""

    def event(price: float) -> Any:
        return method.event(Price(price), adjacency)

    budgets = (Budget(epsilon, DELTA), Budget.once(epsilon, DELTA))
    prices = [price for budget in budgets if (price := affordable_epsilon(budget, questions, event)) is not None]
    return max(prices, default=None)


# Fitters


def _paid_once(
    bench: Bench, piece: Piece, drawn: Drawn, episode: Episode, public: FloatArray, experts: _Experts,
    counts: Sequence[int], fitters: Mapping[str, type[Fitter]],
) -> Measurements:  # fmt: skip
    for name, kind in fitters.items():
        if kind.writes and episode.task.image:
            continue
        writer = ModelWriter(episode.task, stepper_of(bench.settings.writer)) if kind.writes else None
        for pool in _pools_for(kind, drawn.pools):
            for adjacency in bench.adjacencies:
                for epsilon in bench.settings.epsilons:
                    for records in counts:
                        key = Key(
                            piece.task, piece.names, name, "right", records, 1, adjacency.value, epsilon, pool
                        )  # fmt: skip
                        answering = _answering(key, drawn, episode, experts, writer)
                        if answering is not None:
                            scores = answering.prior_weight * public + answering.evidence
                            yield key, e.right(e.best_laws(scores), episode.truth)


def measured_fitters() -> dict[str, type[Fitter]]:
    """Every registered fitter but those that have a model write: one of their fits takes minutes, and this grid has
    ten thousand. They are measured where they are named, such as ``--methods evolve choice --records 240 --epsilon 4``.
    """
    return {name: kind for name, kind in registered_fitters().items() if not kind.writes}


@lru_cache(maxsize=2)
def stepper_of(writer: str) -> Any:
    """The model that writes, as behind ``--writer``: the embedded one unless said otherwise."""
    return load_stepper(writer or "embedded")


def fitters_of(methods: Sequence[str]) -> dict[str, type[Fitter]]:
    """The fitters that are named; for ``all``, those of ``measured_fitters``.

    Raises:
        ParameterError: One of them is none.
    """
    known = registered_fitters()
    for name in methods:
        if name != ALL:
            OneOf((ALL, *known)).read("methods", name)
    usual = measured_fitters() if ALL in methods else {}
    return {name: kind for name, kind in known.items() if name in usual or name in methods}


def _pools_for(kind: type[Fitter], pools: Mapping[str, Pool]) -> list[str]:
    if kind.pool == "unused":
        return [NO_POOL]
    without = [NO_POOL] if kind.pool == "optional" and BUNDLED not in pools else []
    return [*without, *pools]


def _answering(
    key: Key, drawn: Drawn, episode: Episode, experts: _Experts, writer: ModelWriter | None
) -> Answering | None:
    """What a fit says. One that never asks a model what labels' names mean is drawn once, for both kinds of names."""
    if key not in drawn.known:
        drawn.known |= _fitted(key, drawn, episode, experts, writer)
    answering: Answering | None = drawn.known[key]
    return answering


def _fitted(
    key: Key, drawn: Drawn, episode: Episode, experts: _Experts, writer: ModelWriter | None
) -> dict[Key, Answering | None]:
    """Plans and fits; ``None`` where the method refuses the setting.

    Where the labels' names mean nothing a method that can leaves the model's own answer out, as its user would.
    """
    model, records, adjacency = drawn.world.model, key.records, Adjacency.parse(str(key.adjacency))
    pool = drawn.pools.get(key.option, Pool([], np.empty((0, model.dimension))))
    change = change_type(Assignment.OWN_SLOT, adjacency)
    setting = FitSetting(
        labels=len(episode.task.labels), dimension=model.dimension,
        units=records if adjacency.size_is_public else None,
        adjacency=adjacency, change=change, candidates=len(pool.texts),
    )  # fmt: skip
    watched = _Watched(model)

    def said(queries: Sequence[Query]) -> tuple[FloatArray, FloatArray]:
        watched.asked = True
        return experts.said(queries, records)

    def log_prior(queries: Sequence[Query]) -> FloatArray:
        watched.asked = True
        return e.ask_public(model, replace(episode, questions=queries))

    private = PublicSums(drawn.vectors[:records], drawn.labels[:records], change, adjacency, said)
    inputs = PublicInputs(episode.task, watched, model, pool.texts, pool.vectors, log_prior, writer)
    found: dict[Key, Answering | None] = {}
    for names in (key.names, OWN, UNKNOWN) if writer is None else (key.names,):  # its prompts have the labels' names
        if not watched.asked and (own := replace(key, names=names)) not in found:
            plan = _plan(key.method, names == UNKNOWN or key.task in ALREADY_NAMED, float(key.epsilon or 0), setting)
            if plan is not None:
                support = plan.fitter.fit(plan, private, inputs, SeededRandomness(_seed_of(key, drawn.seed)))
                found[own] = _said_by(support, drawn, episode)
            else:
                found[own] = None
    return found


class _Watched:
    """A model that notes whether it was asked for labels."""

    def __init__(self, model: Any) -> None:
        self._model, self.asked = model, False

    def __getattr__(self, name: str) -> Any:
        self.asked = True
        return getattr(self._model, name)


@lru_cache(maxsize=4096)
def _plan(name: str, names_mean_nothing: bool, epsilon: float, setting: FitSetting) -> FitPlan | None:
    without = names_mean_nothing and "prior_weight" in options_of(registered_fitters()[name])
    try:
        fitter = make_fitter(name, **({"prior_weight": 0.0} if without else {}))
        return fitter.plan(Price(epsilon, DELTA), setting)
    except ParameterError:
        return None


def _said_by(support: Support, drawn: Drawn, episode: Episode) -> Answering:
    classifier = support if isinstance(support, LinearSupport) else support.classifier
    if classifier is not None:
        flat = np.zeros((len(drawn.asked), len(episode.task.labels)))
        return Answering(classifier.log_probabilities(drawn.asked, flat), classifier.prior_weight)
    prepared = drawn.world.model.prepare(episode.task, [support.examples])  # type: ignore[union-attr]
    return Answering(np.asarray(prepared.score(episode.questions)[:, 0]), 0.0)


def _seed_of(key: Key, seed: int) -> int:
    """Of a fit's noise: its own for every cell and seed, whatever the labels are called."""
    text = f"{key.task}|{key.method}|{key.option}|{key.records}|{key.adjacency}|{key.epsilon}|{seed}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _right_by_regression(drawn: Drawn, records: int, truth: NDArray[np.intp]) -> float:
    """Percent right by logistic regression without privacy."""
    if (REGRESSION, records) not in drawn.known:
        labels = len(drawn.world.task.labels)
        scores = regression(drawn.vectors[:records], drawn.labels[:records], drawn.asked, labels)
        drawn.known[REGRESSION, records] = scores
    return e.right(e.best_laws(drawn.known[REGRESSION, records]), truth)


def regression(vectors: FloatArray, labels: NDArray[np.intp], questions: FloatArray, count: int) -> FloatArray:
    """Log-odds by scikit-learn, shape (questions, labels); a label without a record is never best."""
    from sklearn.linear_model import LogisticRegression

    scores = np.full((len(questions), count), -np.inf)
    found = np.unique(labels)
    if len(found) == 1:
        scores[:, found] = 0.0
        return scores
    model = LogisticRegression(C=INVERSE_PENALTY, max_iter=300).fit(vectors, labels)
    scores[:, found] = model.predict_log_proba(questions)
    return scores


def whole(bench: Bench, pieces: Sequence[Piece]) -> dict[str, Any]:
    """What a reader of the result must know besides: pools, prices, shortcuts, and results of other experiments."""
    pools = {
        task: {kind: len(pool.texts) for kind, pool in drawn_from(bench, task, 0).pools.items()}
        for task in dict.fromkeys(piece.task for piece in pieces)
    }
    labels = {task: len(world_of(bench, task).task.labels) for task in pools}
    return {"delta": DELTA, "shortcuts": SHORTCUTS, "labels": labels, "pools": pools, "quoted": quoted()}


EXPERIMENT: Final = Experiment(
    name=NAME,
    title=TITLE,
    source=SOURCE,
    settings=Settings(
        seeds=5,
        queries=300,
        tasks=("agnews", "dbpedia", "trec", "subj", "sarcasm", "tickets", "pseudonames"),
        records=(25, 60, 240, 960, 2000, 5000),
        epsilons=(1.0, 4.0, 8.0),
        methods=(ALL,),
    ),
    quick=Settings(
        seeds=2,
        queries=100,
        tasks=("trec", "tickets"),
        records=(60, 240),
        epsilons=(4.0,),
        adjacencies=("replace-one",),
        methods=(ALL,),
    ),
    measure=measure,
    section=section,
    whole=whole,
)
