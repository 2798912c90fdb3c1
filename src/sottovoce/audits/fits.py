"""Membership audits of fits: what a released support tells of canaries, as a lower bound on epsilon.

Many made-up records, canaries, are private or not by fair coins of their own; one fit runs on those that are; its
release gives every canary a score. The attack guesses on the most certain of them, and its successes refute every
epsilon that is too small for them. Canaries of different runs count together: a coin is in one run, so that all runs
together tell no more of it than that run.

Under ``replace-one`` the coin chooses between two records, under ``zero-out`` between a record and a blank one, and the
number of units is the same whatever it shows. Everything is made up: an audit of real records costs what a fit does.

Guarantee   If a fit is (epsilon, delta)-private, the bound exceeds epsilon with probability ``alpha`` at most, over
            coins and noise. A bound below epsilon proves nothing: attacks may be weak, and bounds on one run are loose.
Assumes     How many canaries are guessed on, and by which score, was chosen beforehand, not by looking at these runs
            (specification 10.8). ``draws`` and the noise are independent.
Sources     specification 10.5; Steinke, Nasr and Jagielski (2023, arXiv:2305.08846).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Final, Protocol, cast, final

import numpy as np

from sottovoce.audits.bounds import ALPHA, epsilon_of_one_run
from sottovoce.audits.roc import BoolArray, Draws, FloatArray
from sottovoce.errors import ParameterError
from sottovoce.experts.ensemble import Ensemble
from sottovoce.experts.label_scores import ExpertOutputs
from sottovoce.experts.partition import Partition
from sottovoce.experts.reading import bare_scores
from sottovoce.experts.unit_sums import Block, SumRule
from sottovoce.methods.base import Price
from sottovoce.methods.fitting.fitter import FitPlan, FitSetting, Fitter, PublicInputs
from sottovoce.methods.fitting.support import DemonstrationSupport, LinearSupport
from sottovoce.models.fake import FakeScorer
from sottovoce.parameters import COUNT, Number
from sottovoce.privacy.aggregates import IntArray
from sottovoce.privacy.unit import Adjacency, Assignment, change_type
from sottovoce.randomness import Randomness
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import Query, Task

RUNS: Final = Number(1, 100_000, whole=True, strict=True)
"""How many fits, each of which has a coin for every canary."""
_BYSTANDERS: Final = tuple(
    Row(2 + label, {"text": "another", "label": f"l{label}", "group": f"b{label}"}) for label in range(2)
)


class Attack(Protocol):
    """A fit on made-up units, and a score for every canary from what it releases."""

    @property
    def plan(self) -> FitPlan:
        """What the fit costs, and the method that draws."""

    @property
    def canaries(self) -> int:
        """Coins of one run."""

    def scores(self, included: BoolArray, randomness: Randomness) -> FloatArray:
        """How surely each canary is private, from the release alone, shape (canaries,).

        Args:
            included: What the coins show, shape (canaries,).
            randomness: Of the fit's noise.
        """


@final
@dataclass(frozen=True)
class AuditedFit:
    """What an audit found.

    Attributes:
        method: Name of the fitter.
        adjacency: The relation.
        epsilon: What the fit claims.
        delta: What it claims it at.
        runs: Fits.
        canaries: Coins of all runs.
        guesses: How many were guessed on.
        correct: How many guesses were right.
        lower_bound: Every smaller epsilon is refuted at ``delta``, with confidence 1 - ``alpha``.
        alpha: Chance of a bound above the truth.
    """

    method: str
    adjacency: str
    epsilon: float
    delta: float
    runs: int
    canaries: int
    guesses: int
    correct: int
    lower_bound: float
    alpha: float

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted."""
        return self.lower_bound > self.epsilon

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "refuted": self.refuted}


def audit_fit(
    attack: Attack,
    runs: int,
    draws: Draws,
    randomness: Randomness,
    *,
    guesses: int,
    alpha: float = ALPHA,
) -> AuditedFit:
    """Runs a fit many times and bounds its epsilon from below.

    Args:
        attack: The fit and its canaries.
        runs: How many fits.
        draws: A seeded generator, for the coins.
        randomness: Of the fits' noise.
        guesses: On how many canaries of all runs is guessed: those whose scores are furthest from their mean, by the
            side on which they are.
        alpha: Chance of a bound above the truth.

    Raises:
        ParameterError: A number is out of range.
    """
    coins = np.asarray(draws.random((RUNS.read("runs", runs), attack.canaries)) < 0.5)
    scores = np.stack([attack.scores(included, randomness) for included in coins])
    apart = (scores - scores.mean()).ravel()
    surest = np.abs(apart).argsort(kind="stable")[::-1][: Number(1, coins.size, whole=True).read("guesses", guesses)]
    correct, plan = int(((apart > 0) == coins.ravel())[surest].sum()), attack.plan
    delta = plan.report.delta
    return AuditedFit(
        plan.fitter.name,
        plan.setting.adjacency.value,
        plan.epsilon,
        delta,
        runs,
        coins.size,
        guesses,
        correct,
        epsilon_of_one_run(coins.size, guesses, correct, delta, alpha),
        alpha,
    )


@final
@dataclass(frozen=True)
class VectorAttack:
    """Canaries that are unit vectors at right angles, of labels in turn, against a classifier over vectors.

    A canary's score is the evidence that the released classifier gives its vector for its label; with ``margin`` less
    the mean of that for the other labels, for methods whose records move every label's weights.

    Attributes:
        plan: As for every attack.
        margin: As above.
    """

    plan: FitPlan
    margin: bool = False

    @classmethod
    def on(
        cls,
        fitter: Fitter,
        price: Price,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
        *,
        canaries: int = 200,
        labels: int = 2,
        margin: bool = False,
        adds_epsilons: bool = True,
    ) -> VectorAttack:
        """An attack on a fitter that gives a ``LinearSupport``, at a price.

        ``adds_epsilons`` as of the ledger that pays (``FitSetting``).

        Raises:
            ParameterError: The fitter is of another kind, or the price suits no parameter of it.
        """
        if fitter.gives is not LinearSupport:
            raise ParameterError("fitter", fitter.name, "one that gives a classifier, such as class-means")
        return cls(
            fitter.plan(price, _setting(adjacency, labels, canaries, canaries, adds_epsilons=adds_epsilons)), margin
        )

    @property
    def canaries(self) -> int:
        """As many as coordinates."""
        return self.plan.setting.dimension

    def scores(self, included: BoolArray, randomness: Randomness) -> FloatArray:
        setting, vectors = self.plan.setting, np.eye(self.canaries)
        labels = np.arange(self.canaries) % setting.labels
        told = np.ones(self.canaries, dtype=bool)
        if setting.adjacency is Adjacency.ADD_REMOVE:
            told = included
        else:
            blank = np.nan if setting.adjacency is Adjacency.ZERO_OUT else -vectors
            vectors = np.where(included[:, None], vectors, blank)
        block = Block(vectors[told], labels[told].tolist(), list(range(int(told.sum()))))
        public = _public((), np.empty((0, 0)))
        support = cast(LinearSupport, self.plan.fitter.fit(self.plan, _Blocks(block), public, randomness))
        evidence = (support.weights + support.offset[:, None]) / np.sqrt(1 + support.spread) + support.bias[:, None]
        own: FloatArray = evidence[labels, np.arange(self.canaries)]
        if not self.margin:
            return own
        return np.asarray(own - (evidence.sum(axis=0) - own) / (setting.labels - 1))


@final
@dataclass(frozen=True)
class TextAttack:
    """Canaries of every label that are like one public text and no other, against a choice of texts.

    A canary's score is 1 where its text was drawn for its label. Under ``replace-one`` the coin chooses between two
    texts that it may be like, and the second one counts -1.

    Attributes:
        plan: As for every attack.
    """

    plan: FitPlan

    @classmethod
    def on(
        cls,
        fitter: Fitter,
        price: Price,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
        *,
        texts: int = 20,
        labels: int = 4,
        adds_epsilons: bool = True,
    ) -> TextAttack:
        """An attack on a fitter that draws public texts for every label, at a price.

        Args:
            fitter: The fitter.
            price: Of a fit.
            adjacency: The relation.
            texts: Public texts; an even number.
            labels: How many.
            adds_epsilons: As of the ledger that pays (``FitSetting``).

        Raises:
            ParameterError: The fitter is of another kind, or the price suits no parameter of it.
        """
        if "k" not in fitter.options:
            raise ParameterError("fitter", fitter.name, "one that draws texts for every label, such as choice")
        swaps = adjacency is Adjacency.REPLACE_ONE
        units = labels * (texts // 2 if swaps else texts)
        return cls(fitter.plan(price, _setting(adjacency, labels, texts, units, texts, adds_epsilons=adds_epsilons)))

    @property
    def canaries(self) -> int:
        """One for each label and text; for each two texts where the coin chooses between two."""
        return self.plan.setting.labels * self._each

    @property
    def drawn(self) -> int:
        """Texts that one run draws."""
        return self.plan.setting.labels * int(self.plan.parameters["k"])

    def scores(self, included: BoolArray, randomness: Randomness) -> FloatArray:
        setting = self.plan.setting
        texts, labels = np.arange(self.canaries) % self._each, np.arange(self.canaries) // self._each
        vectors = np.eye(setting.candidates)[texts]
        told = np.ones(self.canaries, dtype=bool)
        if setting.adjacency is Adjacency.ADD_REMOVE:
            told = included
        else:
            swapped = np.eye(setting.candidates)[texts + self._each] if self._swaps else np.nan
            vectors = np.where(included[:, None], vectors, swapped)
        block = Block(vectors[told], labels[told].tolist(), list(range(int(told.sum()))))
        pool = [{"text": str(text)} for text in range(setting.candidates)]
        public = _public(pool, np.eye(setting.candidates))
        found = np.zeros(self.canaries)
        for label, text in _demonstrations(self.plan.fitter.fit(self.plan, _Blocks(block), public, randomness)):
            side, place = divmod(int(text), self._each)
            found[label * self._each + place] += -1 if side else 1
        return found

    @property
    def _swaps(self) -> bool:
        return self.plan.setting.adjacency is Adjacency.REPLACE_ONE

    @property
    def _each(self) -> int:
        """Canaries of one label."""
        return self.plan.setting.candidates // 2 if self._swaps else self.plan.setting.candidates


@final
@dataclass(frozen=True)
class LabelAttack:
    """One canary a run, whose expert wants its own label for every text, against private labels of public texts.

    Its score is how many texts got its label. Beside it stand two records, of each label one.

    Attributes:
        plan: As for every attack.
    """

    plan: FitPlan

    @classmethod
    def on(
        cls,
        fitter: Fitter,
        price: Price,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
        *,
        texts: int = 1,
        adds_epsilons: bool = True,
    ) -> LabelAttack:
        """An attack on a fitter that asks experts about public texts, at a price.

        ``adds_epsilons`` as of the ledger that pays (``FitSetting``).

        Raises:
            ParameterError: The fitter is of another kind, or the price suits no parameter of it.
        """
        if not fitter.asks_experts:
            raise ParameterError("fitter", fitter.name, "one that asks experts, such as label-public")
        return cls(
            fitter.plan(price, _setting(adjacency, 2, texts, 1 + len(_BYSTANDERS), texts, adds_epsilons=adds_epsilons))
        )

    @property
    def canaries(self) -> int:
        """One."""
        return 1

    def scores(self, included: BoolArray, randomness: Randomness) -> FloatArray:
        setting = self.plan.setting
        pool = [{"text": str(text)} for text in range(setting.candidates)]
        told = {"text": "a canary", "label": "l1", "group": "c"}
        other: dict[Adjacency, list[Row]] = {
            Adjacency.ADD_REMOVE: [],
            Adjacency.REPLACE_ONE: [Row(1, {**told, "label": "l0"})],
            Adjacency.ZERO_OUT: [Row(1, {"group": "c"})],
        }
        rows = [*_BYSTANDERS, *([Row(1, told)] if included[0] else other[setting.adjacency])]
        experts = _Experts(rows, self._task, setting.adjacency)
        drawn = _demonstrations(
            self.plan.fitter.fit(self.plan, experts, _public(pool, np.eye(len(pool)), self._task), randomness)
        )
        return np.array([float(sum(label for label, _ in drawn))])

    @cached_property
    def _task(self) -> Task:
        return _task(2)


def with_fitter(attack: Any, **parameters: Any) -> Any:
    """The same attack on a method whose parameters are not those that it claims its price for.

    An audit that does not notice it would notice nothing.

    Args:
        attack: One of this module.
        parameters: Of the fitter, such as half of its ``sigma``.
    """
    return replace(attack, plan=replace(attack.plan, fitter=replace(attack.plan.fitter, **parameters)))


class _Blocks:
    """A private side that was embedded already."""

    def __init__(self, block: Block) -> None:
        self._block = block

    def sum_of(self, rule: SumRule) -> IntArray:
        return rule.add_up(self._block)

    def ask(self, queries: Sequence[Query]) -> Sequence[ExpertOutputs]:
        raise TypeError("no expert is asked in this audit")


class _Experts:
    """A private side of records that a model reads, which likes the labels of its demonstrations."""

    def __init__(self, rows: Sequence[Row], task: Task, adjacency: Adjacency) -> None:
        self._rows, self._task, self._adjacency = rows, task, adjacency

    def sum_of(self, rule: SumRule) -> IntArray:
        raise TypeError("nothing is embedded in this audit")

    def ask(self, queries: Sequence[Query]) -> Sequence[ExpertOutputs]:
        records, model = PrivateRecords(self._rows, source="canaries", unit="group", synthetic=True), FakeScorer()
        records = records.with_public_size() if self._adjacency.size_is_public else records
        ensemble = Ensemble(records, self._task, model, Partition(), self._adjacency)
        try:
            return ensemble.ask(queries, bare_scores(model, self._task, queries))
        finally:
            ensemble.close()


def _setting(
    adjacency: Adjacency, labels: int, dimension: int, units: int, candidates: int = 0, *, adds_epsilons: bool
) -> FitSetting:
    return FitSetting(
        labels=COUNT.read("labels", labels),
        dimension=COUNT.read("dimension", dimension),
        units=units if adjacency.size_is_public else None,
        adjacency=adjacency,
        change=change_type(Assignment.OWN_SLOT, adjacency),
        candidates=candidates,
        adds_epsilons=adds_epsilons,
    )


def _task(labels: int) -> Task:
    return Task(labels=[f"l{label}" for label in range(labels)], name="audit")


def _public(pool: Sequence[Query], vectors: FloatArray, task: Task | None = None) -> PublicInputs:
    task, model = task or _task(2), FakeScorer()
    return PublicInputs(task, model, model, pool, vectors, lambda queries: bare_scores(model, task, queries))


def _demonstrations(support: Any) -> list[tuple[int, str]]:
    """The labels and texts that were released."""
    return [(example.label, example.fields["text"]) for example in cast(DemonstrationSupport, support).examples]
