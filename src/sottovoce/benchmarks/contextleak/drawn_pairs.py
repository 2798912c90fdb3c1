"""Two worlds for every method without an exact law: what it releases is drawn, and an attacker learns to tell them.

The worlds are small and made to differ: the neighbour whose sums are furthest away. Some releases of each train the
attacker: how likely each release is in either world where there are few of them, else a direction in the released
numbers; and they set the threshold. The bound is counted on releases that come after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

import numpy as np

from sottovoce.audits.bounds import ALPHA, Rates, epsilon_of_rates
from sottovoce.audits.exact.answers import AnswerWorld
from sottovoce.audits.exact.fits import Units
from sottovoce.audits.roc import FloatArray
from sottovoce.benchmarks.contextleak.pairs import CANDIDATES, UNITS, UnitSums, expected, fit_setting
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.experts.sampling import ExpertSampling
from sottovoce.experts.unit_sums import ClassSums
from sottovoce.methods.answering.answerer import AnswerSetting, PublicSide, make_answerer
from sottovoce.methods.answering.sga import SGA
from sottovoce.methods.base import Price
from sottovoce.methods.dp_logistic import DpLogistic
from sottovoce.methods.evolve import Evolve
from sottovoce.methods.fitting.fitter import FitPlan, PublicInputs
from sottovoce.methods.fitting.support import DemonstrationSupport, LinearSupport
from sottovoce.models.base import WritingRequest
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import Randomness
from sottovoce.tasks import Task

PLACES: Final = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
"""Vectors of three public answers."""
MANY: Final = 1000
"""Experts with which groups are found at any price here."""
TRAINING: Final = 4
"""Every so many releases that are counted, one trains the attacker."""
_LEAST_VARIANCE: Final = 1e-9
_MOST_TRIED: Final = 50
"""Thresholds."""
Released = Hashable | FloatArray


@final
@dataclass(frozen=True, eq=False)
class DrawnPair:
    """Two neighbouring worlds, of which nothing but draws is known.

    Attributes:
        delta: Of the claim.
        draws: For each world one release: an array of numbers, or one of few different things.
    """

    delta: float
    draws: tuple[Callable[[], Released], Callable[[], Released]] = field(repr=False)

    @property
    def exact(self) -> None:
        """There is no law."""

    def bound(self, runs: int, alpha: float = ALPHA) -> float:
        """The lower bound that so many releases of each world show, after others have trained the attacker."""
        few = max(2, runs // TRAINING)
        seen, others = ([draw() for _ in range(few)] for draw in self.draws)
        score = _direction(seen, others) if isinstance(seen[0], np.ndarray) else _likelihoods(seen, others)
        one, other = (np.array([score(release) for release in world]) for world in (seen, others))
        rates_at = {t: (float((other >= t).mean()), float((one < t).mean())) for t in _thresholds(one, other)}
        threshold = max(rates_at, key=lambda t: expected(rates_at[t], runs, self.delta))
        present, absent = (np.array([score(draw()) for _ in range(runs)]) for draw in self.draws)
        rates = Rates(int((absent >= threshold).sum()), runs, int((present < threshold).sum()), runs)
        return epsilon_of_rates(rates, self.delta, alpha)


def dp_logistic_pairs(epsilon: float, adjacency: Adjacency, randomness: Randomness) -> DrawnPair:
    """Of the classifier after all noisy gradients of four unit vectors; no label's name counts beside them."""
    plan = DpLogistic(prior_weight=0.0).plan(Price(epsilon, e.DELTA), fit_setting(adjacency, labels=2))

    def released(units: Units) -> FloatArray:
        support = _fitted(plan, units, np.empty((0, UNITS.vectors.shape[1])), randomness)
        assert isinstance(support, LinearSupport)
        return np.concatenate([support.weights.ravel(), support.offset])

    return _pair(adjacency, released)


def evolve_pairs(epsilon: float, adjacency: Adjacency, randomness: Randomness) -> DrawnPair:
    """Of one public text for each of two labels after two rounds, between which no text is varied."""
    setting = fit_setting(adjacency, labels=2, candidates=len(CANDIDATES))
    plan = Evolve(rounds=2, variations=0, k=1).plan(Price(epsilon, e.DELTA), setting)

    def released(units: Units) -> Hashable:
        support = _fitted(plan, units, CANDIDATES, randomness)
        assert isinstance(support, DemonstrationSupport)
        return tuple((example.label, example.fields["text"]) for example in support.examples)

    return _pair(adjacency, released)


def clustered_pairs(name: str) -> Callable[[float, Adjacency, Randomness], DrawnPair]:
    """Of noisy groups of answers: two groups, and one expert of the first is in the second one or says nothing."""

    def pairs(epsilon: float, adjacency: Adjacency, randomness: Randomness) -> DrawnPair:
        price = Price(epsilon, e.DELTA)
        many = _answer_setting(adjacency, MANY)
        experts = 2 * SGA(axes=2).calibrated(price, many).fewest_experts(many)
        plan = make_answerer(name, axes=2).plan(price, _answer_setting(adjacency, experts))
        half = experts // 2
        vectors, said = np.repeat(PLACES[[0, -1]], half, axis=0), ["a"] * half + ["c"] * half
        worlds = [AnswerWorld(tuple(said), vectors)]
        swaps = adjacency is Adjacency.REPLACE_ONE
        changed = np.concatenate([PLACES[-1:] if swaps else np.full((1, 2), np.nan), vectors[1:]])
        worlds.append(AnswerWorld(("c" if swaps else None, *said[1:]), changed))
        public = PublicSide(_no_request, None, tuple("abc"), PLACES)

        def released(world: AnswerWorld) -> FloatArray:
            values = plan.answerer.draw(plan.setting, world.outputs(plan), public, randomness).values
            sizes = np.zeros(len(PLACES))
            for answer, size in zip(values["answers"], values["sizes"], strict=False):
                sizes["abc".index(answer)] += size
            return sizes

        return DrawnPair(e.DELTA, (lambda: released(worlds[0]), lambda: released(worlds[1])))

    return pairs


def _pair(adjacency: Adjacency, released: Callable[[Units], Released]) -> DrawnPair:
    """Of the neighbour whose sums by label are furthest away."""
    rule = ClassSums(2, UNITS.vectors.shape[1], 1)
    own = rule.add_up(UNITS.block())
    _, other = max(
        UNITS.neighbours(adjacency), key=lambda one: float(((rule.add_up(one[1].block()) - own) ** 2.0).sum())
    )
    return DrawnPair(e.DELTA, (lambda: released(UNITS), lambda: released(other)))


def _fitted(plan: FitPlan, units: Units, vectors: FloatArray, randomness: Randomness) -> Any:
    task, model = Task(labels=["one", "two"], name="pairs"), FakeScorer()
    pool = [{"text": str(place)} for place in range(len(vectors))]
    public = PublicInputs(task, model, model, pool, vectors, lambda queries: np.zeros((len(queries), 2)))
    return plan.fitter.fit(plan, UnitSums(units), public, randomness)


def _answer_setting(adjacency: Adjacency, experts: int) -> AnswerSetting:
    units = experts if adjacency.size_is_public else None
    return AnswerSetting(
        adjacency, sampling=ExpertSampling(experts=experts), units=units, dimension=2, candidates=len(PLACES)
    )


def _no_request(shots: Sequence[tuple[str, str]], hint: str) -> WritingRequest:
    raise AssertionError("what is drawn asks no writer")


def _likelihoods(seen: Sequence[Any], others: Sequence[Any]) -> Callable[[Any], float]:
    """The log of how much oftener a release came from the first world."""
    one, other = Counter(seen), Counter(others)
    return lambda release: float(np.log((one[release] + 0.5) / (other[release] + 0.5)))


def _thresholds(one: FloatArray, other: FloatArray) -> list[float]:
    """Between two scores that occur; some of them where there are many."""
    scores = np.unique(np.concatenate([one, other]))
    between = (scores[1:] + scores[:-1]) / 2 if len(scores) > 1 else scores
    return [float(t) for t in between[np.linspace(0, len(between) - 1, min(len(between), _MOST_TRIED)).astype(int)]]


def _direction(seen: Sequence[Any], others: Sequence[Any]) -> Callable[[Any], float]:
    """Along the line between the means of both worlds, each number over its variance."""
    one, other = np.array(seen), np.array(others)
    variances = np.maximum((one.var(axis=0) + other.var(axis=0)) / 2, _LEAST_VARIANCE)
    weights = (one.mean(axis=0) - other.mean(axis=0)) / variances
    return lambda release: float(release @ weights)
