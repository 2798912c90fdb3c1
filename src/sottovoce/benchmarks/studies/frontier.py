"""What a total budget is worth: accuracy against the number of questions, every method at the same total price.

    sotto bench run frontier --results FOLDER
    python -m sottovoce.benchmarks.studies.frontier_page --results FOLDER --out docs/results

Per-answer methods have, for 1, 10, 100 and 1,000 questions, the largest epsilon an answer that a ledger of the total
budget affords; the better of its two currencies counts. Fitters pay the total once and answer any number of questions.
Zero-shot, the full context and logistic regression on the same embeddings, both without privacy, stand beside them.

A world's training rows are split once: some stand for a public pool of the same kind, and records are drawn from the
rest by seed. Other pools are rows of two other worlds, and the texts that ship with the package.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.datasets import OWN, UNKNOWN, Dataset, Episode
from sottovoce.benchmarks.harness.experiment import ALREADY_NAMED, Bench, Experiment, Key, Measurements, Piece, Settings
from sottovoce.benchmarks.harness.quick_fits import SHORTCUTS, PublicSums, shortcuts
from sottovoce.benchmarks.harness.runner import open_model
from sottovoce.benchmarks.studies.frontier_page import (
    ANOTHER_KIND,
    BUNDLED,
    DELTA,
    NO_POOL,
    QUESTIONS,
    REGRESSION,
    SAME_KIND,
    quoted,
    section,
)
from sottovoce.data.bundled import public_pool
from sottovoce.errors import ParameterError
from sottovoce.methods.base import Price, Selecting
from sottovoce.methods.fitting.fitter import FitPlan, FitSetting, Fitter, PublicInputs, make_fitter, registered_fitters
from sottovoce.methods.fitting.support import LinearSupport, Support
from sottovoce.methods.poe import PoE
from sottovoce.methods.prior_poe import PriorPoE
from sottovoce.methods.rnm import RNM
from sottovoce.models.base import FloatArray
from sottovoce.parameters import options_of
from sottovoce.planner.advise import affordable_epsilon
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.unit import Adjacency, Assignment, change_type
from sottovoce.randomness import SeededRandomness
from sottovoce.tasks import Example, Query, Task

IMAGE_MODEL: Final = "embedded-image"
POOL_ROWS: Final = 1000
"""Rows of a world that stand for a pool of the same kind, or a fifth of them where there are fewer."""
FOREIGN_ROWS: Final = 500
"""Rows of each of two other worlds in a pool of another kind."""
FOREIGN: Final[Mapping[str, tuple[str, ...]]] = {
    "agnews": ("dbpedia", "trec"),
    "dbpedia": ("agnews", "trec"),
    "trec": ("agnews", "dbpedia"),
    "subj": ("sarcasm", "tickets"),
    "sarcasm": ("subj", "tickets"),
    "tickets": ("subj", "sarcasm"),
    "pseudonames": ("photographs",),
    "photographs": ("pseudonames",),
}
"""Whose rows are a pool of another kind."""
PER_ANSWER: Final[Mapping[str, Selecting]] = {e.POE: PoE(), e.PRIOR_POE: PriorPoE(), e.VOTES: RNM()}
INVERSE_PENALTY: Final = 10.0
"""C of logistic regression without privacy, chosen on subj, sarcasm and tickets."""


@final
@dataclass(frozen=True, eq=False)
class Pool:
    """Public texts and their vectors."""

    texts: Sequence[Query]
    vectors: FloatArray


@final
@dataclass(frozen=True, eq=False)
class World:
    """A world with its rows split, and the model that reads it."""

    dataset: Dataset
    model: Any
    spare: Sequence[Example]

    @property
    def task(self) -> Task:
        return self.dataset.task


@final
@dataclass(eq=False)
class Drawn:
    """One seed's records and questions, with what does not depend on the names of the labels."""

    world: World
    seed: int
    questions: int
    most: int
    pools: Mapping[str, Pool]
    kept: dict[Key, Answering | None] = field(default_factory=dict)

    @cached_property
    def episodes(self) -> Mapping[str, Episode]:
        """By the kind of label names."""
        dataset = self.world.dataset
        return {names: dataset.episode(self.seed, self.questions, names, self.most) for names in (OWN, UNKNOWN)}

    @cached_property
    def vectors(self) -> FloatArray:
        rows = self.episodes[OWN].records
        return np.asarray(self.world.model.embed_records(self.world.task, [example.fields for example in rows]))

    @cached_property
    def labels(self) -> NDArray[np.intp]:
        return np.array([example.label for example in self.episodes[OWN].records], dtype=np.intp)

    @cached_property
    def asked(self) -> FloatArray:
        return np.asarray(self.world.model.embed_questions(self.world.task, self.episodes[OWN].questions))

    def right_by_regression(self, records: int, truth: NDArray[np.intp]) -> float:
        """Percent right by logistic regression without privacy."""
        key = Key(self.world.dataset.name, "", REGRESSION, records=records)
        if key not in self.kept:
            labels = len(self.world.task.labels)
            scores = _regression(self.vectors[:records], self.labels[:records], self.asked, labels)
            self.kept[key] = Answering(scores, 0.0)
        answering = self.kept[key]
        return e.right(e.best_laws(answering.evidence), truth) if answering else math.nan


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
    drawn = _drawn(bench, piece.task, piece.seed)
    episode = drawn.episodes[piece.names]
    public = e.ask_public(drawn.world.model, episode)
    yield Key(piece.task, piece.names, e.ZERO_SHOT), e.right(e.best_laws(public), episode.truth)
    counts = [count for count in bench.settings.records if count <= len(episode.records)]
    for records in counts:
        whole = e.ask(drawn.world.model, episode, [range(records)])[:, 0]
        yield Key(piece.task, piece.names, e.FULL, records=records), e.right(e.best_laws(whole), episode.truth)
        right = drawn.right_by_regression(records, episode.truth)
        yield Key(piece.task, piece.names, REGRESSION, records=records), right
    experts = _Experts(drawn.world.model, episode, public)
    yield from _per_answer(bench, piece, episode, experts, counts)
    with shortcuts():
        yield from _paid_once(bench, piece, drawn, episode, public, experts, counts)


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
    counts: Sequence[int],
) -> Measurements:  # fmt: skip
    for name, kind in registered_fitters().items():
        for pool in _pools_for(kind, drawn.pools):
            for adjacency in bench.adjacencies:
                for epsilon in bench.settings.epsilons:
                    for records in counts:
                        key = Key(
                            piece.task, piece.names, name, "right", records, 1, adjacency.value, epsilon, pool
                        )  # fmt: skip
                        answering = _answering(key, drawn, episode, experts)
                        if answering is not None:
                            scores = answering.prior_weight * public + answering.evidence
                            yield key, e.right(e.best_laws(scores), episode.truth)


def _pools_for(kind: type[Fitter], pools: Mapping[str, Pool]) -> list[str]:
    if kind.pool == "unused":
        return [NO_POOL]
    without = [NO_POOL] if kind.pool == "optional" and BUNDLED not in pools else []
    return [*without, *pools]


def _answering(key: Key, drawn: Drawn, episode: Episode, experts: _Experts) -> Answering | None:
    """What a fit says. One that never asks the model for labels is drawn once, for both kinds of names."""
    if key not in drawn.kept:
        drawn.kept |= _fitted(key, drawn, episode, experts)
    return drawn.kept[key]


def _fitted(key: Key, drawn: Drawn, episode: Episode, experts: _Experts) -> dict[Key, Answering | None]:
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
    inputs = PublicInputs(episode.task, watched, model, pool.texts, pool.vectors, log_prior)
    found: dict[Key, Answering | None] = {}
    for names in (key.names, OWN, UNKNOWN):
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


def _regression(vectors: FloatArray, labels: NDArray[np.intp], questions: FloatArray, count: int) -> FloatArray:
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


# Rows


@lru_cache(maxsize=16)
def _world(bench: Bench, task: str) -> World:
    dataset = bench.world(task)
    if dataset.task.image:
        return World(dataset, _image_model(bench), ())
    order = np.random.default_rng(0).permutation(len(dataset.train)).tolist()
    kept = len(order) - min(POOL_ROWS, len(order) // 5)
    drawn = min(kept, max(bench.settings.records))  # no more rows are embedded than the largest number of records
    records, spare = (dataset.train.taken(part) for part in (order[:drawn], order[kept:]))
    return World(replace(dataset, train=records), bench.scorer.scorer, spare)


@lru_cache(maxsize=2)
def _image_model(bench: Bench) -> Any:
    return open_model(IMAGE_MODEL, bench.scorer.store)


@lru_cache(maxsize=1)
def _drawn(bench: Bench, task: str, seed: int) -> Drawn:
    world = _world(bench, task)
    return Drawn(world, seed, bench.settings.queries, max(bench.settings.records), dict(_pools(bench, world, seed)))


def _pools(bench: Bench, world: World, seed: int) -> Iterator[tuple[str, Pool]]:
    name, image = world.dataset.name, world.task.image
    if image:
        yield SAME_KIND, _embedded(world, _other_classes(world.dataset, seed))
    else:
        yield SAME_KIND, _kept_pool(bench, name, SAME_KIND)
    if name in FOREIGN:
        yield ANOTHER_KIND, _kept_pool(bench, name, ANOTHER_KIND)
    if not image:
        yield BUNDLED, _kept_pool(bench, "", BUNDLED)


@lru_cache(maxsize=32)
def _kept_pool(bench: Bench, name: str, kind: str) -> Pool:
    """Pools that no seed changes."""
    if kind == BUNDLED:
        world = _world(bench, bench.settings.tasks[0])
        return _embedded(world, [{"text": str(row.values["text"])} for row in public_pool()])
    world = _world(bench, name)
    if kind == SAME_KIND:
        return _embedded(world, [example.fields for example in world.spare])
    field_of = world.task.image or world.task.fields[0]
    texts = []
    for other in (_world(bench, foreign) for foreign in FOREIGN[name]):
        rows = other.spare or [other.dataset.train[i] for i in range(0, len(other.dataset.train), 2)]
        own = other.task.image or other.task.fields[0]
        texts += [{field_of: example.fields[own]} for example in rows[:FOREIGN_ROWS]]
    return _embedded(world, texts)


def _other_classes(dataset: Dataset, seed: int) -> list[Query]:
    """Pictures of classes that an episode has not: those that ``Dataset.episode`` leaves out."""
    chosen = np.random.default_rng(1000 + seed).permutation(1 + max(example.label for example in dataset.train))
    shown = set(chosen[: dataset.classes].tolist())
    return [example.fields for example in dataset.train if example.label not in shown]


def _embedded(world: World, texts: Sequence[Query]) -> Pool:
    once = list({json.dumps(dict(text), sort_keys=True): text for text in texts}.values())
    return Pool(once, np.asarray(world.model.embed_questions(world.task, once)))


def whole(bench: Bench, pieces: Sequence[Piece]) -> dict[str, Any]:
    """What a reader of the result must know besides: pools, prices, shortcuts, and results of other experiments."""
    pools = {
        task: {kind: len(pool.texts) for kind, pool in _drawn(bench, task, 0).pools.items()}
        for task in dict.fromkeys(piece.task for piece in pieces)
    }
    labels = {task: len(_world(bench, task).task.labels) for task in pools}
    return {"delta": DELTA, "shortcuts": SHORTCUTS, "labels": labels, "pools": pools, "quoted": quoted()}


EXPERIMENT: Final = Experiment(
    name="frontier",
    title="What is a total budget worth, by the number of questions?",
    source="our own, behind sotto plan and --method auto",
    settings=Settings(
        seeds=5,
        queries=300,
        tasks=("agnews", "dbpedia", "trec", "subj", "sarcasm", "tickets", "pseudonames"),
        records=(25, 60, 240, 960, 2000, 5000),
        epsilons=(1.0, 4.0, 8.0),
    ),
    quick=Settings(
        seeds=2,
        queries=100,
        tasks=("trec", "tickets"),
        records=(60, 240),
        epsilons=(4.0,),
        adjacencies=("replace-one",),
    ),
    measure=measure,
    section=section,
    whole=whole,
)
