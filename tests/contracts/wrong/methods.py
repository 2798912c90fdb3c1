"""Methods with one mistake each, as somebody could write them. None is registered."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from enum import IntEnum
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from sottovoce.errors import AssignmentError, ParameterError
from sottovoce.experts.label_scores import ExpertOutputs, normalized, on_grid
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.gaussian import GaussianVector
from sottovoce.mechanisms.laplace import Laplace
from sottovoce.mechanisms.noisy_max import GaussianNoisyMax
from sottovoce.mechanisms.propose_test_release import ProposeTestRelease
from sottovoce.methods.base import Method, Price, Reads, Selecting, Subsampling
from sottovoce.methods.pbs import PbS
from sottovoce.methods.poe import PoE, ProductOfExperts
from sottovoce.parameters import Number, Positive
from sottovoce.privacy.accounting.renyi import rho_of_budget
from sottovoce.privacy.aggregates import Counts, Scores, VectorSum
from sottovoce.privacy.events import (
    ApproximateDP,
    BoundedRange,
    ComposedDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PureDP,
)
from sottovoce.privacy.unit import Adjacency


class Way(IntEnum):
    """Choices that are numbers."""

    FIRST = 1
    LAST = 4


WIDTH = 2048
"""Two nats on the grid."""


class _Poe(Selecting):
    """A product of experts with a clip of two nats."""

    name, summary, source = "wrong", "a mistake", "none"

    def mechanism(self, price):
        return Exponential(price.epsilon)

    def scores(self, experts):
        return experts.clipped_sum(2.0)


def clamped(experts: ExpertOutputs) -> np.ndarray:
    """Every expert's clamped row on the grid, shape (experts, labels)."""
    return on_grid(normalized(experts._rows, "labels"), WIDTH)


def scores_like(experts: ExpertOutputs, values) -> Scores:
    """These values with the right sensitivity."""
    right = experts.clipped_sum(2.0)
    return Scores(values, sensitivity=right.sensitivity, adjacency=right.adjacency)


@dataclass(frozen=True)
class HalvedSensitivity(_Poe):
    """States one width where a replaced expert moves two."""

    def scores(self, experts):
        right = experts.clipped_sum(2.0)
        return Scores(right.values, sensitivity=WIDTH, adjacency=right.adjacency)


@dataclass(frozen=True)
class LessNoiseWhereThePublicRowIsSure(_Poe):
    """States a quarter of the width where the model is sure without any record."""

    def scores(self, experts):
        right = experts.clipped_sum(2.0)
        low, top = np.sort(experts.public)[-2:]
        width = -(-right.sensitivity // 4) if top - low > 3.2 else right.sensitivity
        return Scores(right.values, sensitivity=width, adjacency=right.adjacency)


@dataclass(frozen=True)
class TwiceAsMuchWhereThePublicRowIsFlat(_Poe):
    """Counts every expert twice where the model has no opinion, and states the width of one."""

    def scores(self, experts):
        right = experts.clipped_sum(2.0)
        return scores_like(experts, right.values * (2 if np.ptp(experts.public) == 0 else 1))


def is_sure(experts: ExpertOutputs) -> bool:
    """Whether the model leads by more than 3.2 nats without any record."""
    low, top = np.sort(experts.public)[-2:]
    return top - low > 3.2


@dataclass(frozen=True)
class HeardTogetherWhereSure(_Poe):
    """Where the model is sure, the sum counts as often as experts were heard, with the width of one."""

    def scores(self, experts):
        heard = int((~np.isnan(experts._rows).all(axis=1)).sum())
        return scores_like(experts, clamped(experts).sum(axis=0) * (max(1, heard) if is_sure(experts) else 1))


@dataclass(frozen=True)
class CentredWhereSure(_Poe):
    """Where the model is sure, experts are compared with their mean."""

    def scores(self, experts):
        values = clamped(experts)
        if not is_sure(experts) or not len(values):
            return experts.clipped_sum(2.0)
        return scores_like(experts, (values - values.mean(axis=0).astype(np.int64)).sum(axis=0))


@dataclass(frozen=True)
class PriorOfTwoWhereSure(_Poe):
    """Where the model is sure, what experts say on average is the prior, from two experts on."""

    def scores(self, experts):
        return experts.clipped_sum(2.0)

    def log_prior(self, experts):
        values = clamped(experts)
        follows = is_sure(experts) and len(values) > 1 and experts.change.rows == 1
        return values.mean(axis=0) / 1024 if follows else experts.log_prior()


@dataclass(frozen=True)
class DoubleVotesWhereSure(Selecting):
    """Where the model is sure, a vote counts twice, within its range and not within its norm."""

    name, summary, source = "wrong", "a mistake", "none"

    def mechanism(self, price):
        return GaussianNoisyMax.for_budget(price.epsilon, price.delta)

    def scores(self, experts):
        right = experts.votes()
        values = right.values * (2 if is_sure(experts) else 1)
        return Scores(values, sensitivity=2 * right.sensitivity, adjacency=right.adjacency, squared_l2=right.squared_l2)


@dataclass(frozen=True)
class NormOfOneStep(_Poe):
    """States a norm that its scores exceed; its mechanism reads the range alone."""

    def scores(self, experts):
        right = experts.clipped_sum(2.0)
        return Scores(right.values, sensitivity=right.sensitivity, adjacency=right.adjacency, squared_l2=1)


@dataclass(frozen=True)
class TwiceForTwoRecords(_Poe):
    """Where the model leads by 20 nats, states half of what two records on one expert may move."""

    def scores(self, experts):
        right, most = experts.clipped_sum(2.0), np.ptp(experts.public)
        width = right.sensitivity // 2 if experts.change.rows == 2 and most == 20 else right.sensitivity
        return Scores(right.values, sensitivity=width, adjacency=right.adjacency)


@dataclass(frozen=True)
class LessNoiseForTheThirdOfFive(_Poe):
    """Where the model is sure of the third of five labels, states half of the width."""

    def scores(self, experts):
        right = experts.clipped_sum(2.0)
        third = experts.labels == 5 and is_sure(experts) and int(np.argmax(experts.public)) == 2
        width = right.sensitivity // 2 if third else right.sensitivity
        return Scores(right.values, sensitivity=width, adjacency=right.adjacency)


@dataclass(frozen=True)
class RemembersWhereSure(_Poe):
    """Where the model is sure, the second question is told the first one's scores."""

    kept: list = field(default_factory=list, compare=False, repr=False)

    def scores(self, experts):
        if not is_sure(experts):
            return experts.clipped_sum(2.0)
        self.kept.append(experts.clipped_sum(2.0))
        return self.kept[-1] if len(self.kept) % 2 else self.kept[-2]


@dataclass(frozen=True)
class NarrowerWhereSure(_Poe):
    """Right: clips at half where the model is sure, and states the width of that."""

    def scores(self, experts):
        return experts.clipped_sum(1.0 if is_sure(experts) else 2.0)


@dataclass(frozen=True)
class ClipOfTheLead(_Poe):
    """Right: clips at the public lead, from 1 to 4 nats, and states the width of that."""

    def scores(self, experts):
        low, top = np.sort(experts.log_prior())[-2:]
        return experts.clipped_sum(float(min(4.0, max(1.0, round(top - low, 2)))))


@dataclass(frozen=True)
class HeavyApprovals(_Poe):
    """Right: labels that experts find likely, each of so many steps that floats round their squares up."""

    weight: ClassVar[int] = int(1.1 * 2**32)

    def scores(self, experts):
        likely = np.nan_to_num(normalized(experts._rows, "labels"), nan=-99.0, neginf=-99.0) > -1.7
        change, weight = experts.change, self.weight
        return Scores(
            likely.astype(np.int64).sum(axis=0) * weight,
            sensitivity=change.widths * weight,
            adjacency=experts.votes().adjacency,
            squared_l2=change.rows**2 * experts.labels * weight**2,
        )


@dataclass(frozen=True)
class ForgottenDelta(Method):
    """Votes with Gaussian noise, which needs a delta, charged as if it needed none."""

    name, summary, source = "wrong", "a mistake", "none"

    def event(self, price, adjacency):
        self.noise(price)
        return PureDP(price.epsilon)

    def noise(self, price):
        return GaussianVector.for_budget(0.9 * price.epsilon, price.delta)

    def choose(self, experts, price, randomness):
        votes = experts.votes()
        vector = VectorSum(votes.values, squared_l2=votes.squared_l2, adjacency=votes.adjacency)
        return int(np.argmax(self.noise(price).release(vector, randomness).steps))


@dataclass(frozen=True)
class QuietWhereSure(Method):
    """Votes with noise, except where the model is sure; its law is that of noise."""

    name, summary, source = "wrong", "a mistake", "none"

    def event(self, price, adjacency):
        return PoE().event(price, adjacency)

    def law(self, experts, price):
        return PoE().law(experts, price)

    def choose(self, experts, price, randomness):
        if is_sure(experts):
            return int(np.argmax(experts.clipped_sum(2.0).values))
        return PoE().choose(experts, price, randomness)


@dataclass(frozen=True)
class HalvedVariance(Selecting):
    """Gaussian votes whose noise is for one count that moves, where two do."""

    name, summary, source = "wrong", "a mistake", "none"

    def mechanism(self, price):
        return GaussianNoisyMax.for_budget(price.epsilon, price.delta)

    def scores(self, experts):
        right = experts.votes()
        return Scores(right.values, sensitivity=right.sensitivity, adjacency=right.adjacency, squared_l2=1)


@dataclass(frozen=True)
class TwiceThePrice(_Poe):
    """Spends twice what it was given, and says so in its event."""

    def mechanism(self, price):
        return Exponential(2 * price.epsilon)


@dataclass
class RemembersScores(_Poe):
    """Adds the scores of the question before."""

    _past: dict = field(default_factory=dict, repr=False, compare=False)

    def scores(self, experts):
        right = experts.clipped_sum(2.0)
        past = self._past.get(experts.labels)
        self._past[experts.labels] = right.values
        return scores_like(experts, right.values + (0 if past is None else past))


class RemembersAnswers(Method):
    """Keeps its answers for all its instances, and gives the last one again at every fortieth question."""

    name, summary, source = "wrong", "a mistake", "none"
    told: ClassVar[list[int]] = []

    def event(self, price, adjacency):
        return BoundedRange(price.epsilon)

    def law(self, experts, price):
        return PoE(2.0).law(experts, price)

    def choose(self, experts, price, randomness):
        self.told.append(PoE(2.0).choose(experts, price, randomness))
        return min(self.told[-40:]) if len(self.told) % 8 == 0 else self.told[-1]


@dataclass(frozen=True)
class LastWhereNobodySpeaks(Method):
    """Gives its last answer once more where no expert says anything."""

    name, summary, source = "wrong", "a mistake", "none"
    told: ClassVar[list[int]] = [0]

    def event(self, price, adjacency):
        return PureDP(price.epsilon)

    def choose(self, experts, price, randomness):
        drawn = Exponential(price.epsilon).select(experts.votes(), randomness)
        if experts.votes().values.any():
            self.told[0] = int(drawn)
        return self.told[0]


@dataclass(frozen=True)
class FirstOfASet(Method):
    """Right: of two labels that a test lets pass the first; one by the exponential mechanism where it does not."""

    name, summary, source = "wrong", "a mistake", "none"

    def parts(self, price):
        rho = rho_of_budget(price.epsilon / 2, price.delta / 2) if price.delta else 0.0
        if not 1e-5 < rho < 100:
            raise ParameterError("epsilon", price.epsilon, "one of the usual ones, with a delta")
        return ProposeTestRelease((0.5 / rho) ** 0.5, price.delta / 4, 2), Exponential(price.epsilon / 4)

    def event(self, price, adjacency):
        return ComposedDpEvent([part.event for part in self.parts(price)])

    def choose(self, experts, price, randomness):
        proposed, alone = self.parts(price)
        votes = experts.votes()
        if experts.labels > proposed.k and (found := proposed.release(votes, randomness)):
            return int(self.of(found, votes, alone, randomness))
        return int(alone.select(votes, randomness))

    def of(self, found, votes, alone, randomness):
        return found[0]


@dataclass(frozen=True)
class BetterOfASet(FirstOfASet):
    """Of the labels that passed the one with more votes."""

    def of(self, found, votes, alone, randomness):
        return max(found, key=lambda label: int(votes.values[label]))


@dataclass(frozen=True)
class SecondDrawOfASet(FirstOfASet):
    """One of the labels that passed by a draw eight times as sharp as the one that is charged."""

    def of(self, found, votes, alone, randomness):
        among = Scores(votes.values[list(found)], sensitivity=votes.sensitivity, adjacency=votes.adjacency)
        return found[Exponential(8 * alone.epsilon).select(among, randomness)]


@dataclass(frozen=True)
class KeepsSumsOfAQuestion(_Poe):
    """Keeps the sums of a question in its module, by what is public of it."""

    def scores(self, experts):
        key = (experts.labels, experts.change, experts._adjacency, experts.public.tobytes())
        return KEPT.setdefault(key, super().scores(experts))


KEPT: dict = {}


@dataclass(frozen=True)
class KeepsTheFirstSums(_Poe):
    """Keeps the sums of the first question in its class, whatever the others are."""

    kept: ClassVar[dict] = {}

    def scores(self, experts):
        key = (experts.labels, experts.change, experts._adjacency)
        return self.kept.setdefault(key, super().scores(experts))


class KeepsTwoLabels(_Poe):
    """Questions of two labels have a road of their own, and the sums of the first one; all others are right."""

    kept: ClassVar[dict[str, int]] = {}

    def scores(self, experts):
        right = super().scores(experts)
        if experts.labels > 2:
            return right
        lead = self.kept.setdefault("lead", int(right.values[1] - right.values[0]))
        return scores_like(experts, [0, lead])


class KeepsItsRate(Method):
    """What a price allows is kept by its epsilon, whatever its delta is."""

    name, summary, source = "wrong", "a mistake", "none"
    kept: ClassVar[dict[float, float]] = {}

    def rate(self, price):
        return float(np.sqrt(8 * rho_of_budget(price.epsilon, price.delta)))

    def event(self, price, adjacency):
        if not price.delta:
            raise ParameterError("delta", price.delta, "above 0")
        return BoundedRange(self.rate(price))

    def law(self, experts, price):
        return Exponential(self.kept.setdefault(price.epsilon, self.rate(price))).law(experts.clipped_sum(2.0))

    def choose(self, experts, price, randomness):
        rate = self.kept.setdefault(price.epsilon, self.rate(price))
        return Exponential(rate).select(experts.clipped_sum(2.0), randomness)


class KeepsARateForSwaps(KeepsItsRate):
    """So it is under replace-one; elsewhere a rate is kept by the whole price."""

    kept: ClassVar[dict[object, float]] = {}

    def law(self, experts, price):
        return self.mechanism(experts, price).law(experts.clipped_sum(2.0))

    def choose(self, experts, price, randomness):
        return self.mechanism(experts, price).select(experts.clipped_sum(2.0), randomness)

    def mechanism(self, experts, price):
        key = price.epsilon if self.forgets(experts) else price
        return Exponential(self.kept.setdefault(key, self.rate(price)))

    def forgets(self, experts):
        return experts.votes().adjacency is Adjacency.REPLACE_ONE


@dataclass(frozen=True)
class KeepsARateOfAChoice(KeepsARateForSwaps):
    """So it is with one choice of an option; with the other one a rate is kept by the whole price."""

    kept: ClassVar[dict[object, float]] = {}
    pace: Literal["usual", "quick"] = "usual"

    def forgets(self, experts):
        return self.pace == "quick"


@dataclass(frozen=True)
class KeepsItsClip(_Poe):
    """The bound of its scores is kept by the adjacency and the change, whatever the clip of the next method is."""

    kept: ClassVar[dict[object, int]] = {}
    clip: Positive = 2.0

    def scores(self, experts):
        right = experts.clipped_sum(self.clip)
        bound = self.kept.setdefault((right.adjacency, experts.change), right.sensitivity)
        return Scores(right.values, sensitivity=bound, adjacency=right.adjacency)


@dataclass(frozen=True)
class KeepsTheFirstMade(_Poe):
    """So is it as an instance is made, before any question."""

    kept: ClassVar[dict[str, float]] = {}
    clip: Positive = 2.0

    def __post_init__(self):
        self.kept.setdefault("clip", self.clip)

    def scores(self, experts):
        right = experts.clipped_sum(self.clip)
        bound = experts.clipped_sum(self.kept["clip"]).sensitivity
        return Scores(right.values, sensitivity=bound, adjacency=right.adjacency)


@dataclass(frozen=True)
class KeepsItsOptionalClip(_Poe):
    """So is it where a clip is given; without one experts vote."""

    kept: ClassVar[dict[object, int]] = {}
    clip: Positive | None = None

    def scores(self, experts):
        if self.clip is None:
            return experts.votes()
        right = experts.clipped_sum(self.clip)
        bound = self.kept.setdefault((right.adjacency, experts.change), right.sensitivity)
        return Scores(right.values, sensitivity=bound, adjacency=right.adjacency)


class KeepsItsFirstClip(_Poe):
    """So is it, without fields; the clip is the first of a tuple, and one above 3 is refused with the records."""

    kept: ClassVar[dict[object, int]] = {}

    def __init__(self, clips=(Fraction(2), 1.0)):
        self.clips = clips

    def scores(self, experts):
        if self.clips[0] > 3:
            raise ParameterError("clips", self.clips, "at most 3")
        right = experts.clipped_sum(float(self.clips[0]))
        bound = self.kept.setdefault((right.adjacency, experts.change), right.sensitivity)
        return Scores(right.values, sensitivity=bound, adjacency=right.adjacency)


@dataclass(frozen=True)
class TopOfMany(_Poe):
    """Right: its options refuse other numbers by errors of Python's own, and two are choices."""

    k: int = 3
    of: int = 4
    share: float = 0.75
    size: Literal[1, 3] = 1
    way: Way = Way.FIRST

    def __post_init__(self):
        assert 0 < self.share < 1
        if not 1 <= self.k <= self.of:
            raise ValueError("k must be from 1 to the number of all")
        if not (self.way.name and {1: "a", 3: "b"}[self.size]):
            raise RuntimeError("it has neither")


@dataclass(frozen=True)
class HoldsAnArray(_Poe):
    """Right: an option is an array, which is not equal to another one by one word."""

    clips: np.ndarray = field(default_factory=lambda: np.array([1.0, 2.0]))

    def scores(self, experts):
        return experts.clipped_sum(float(self.clips.max()))


class KeepsALargeRate(KeepsItsRate):
    """The same, and takes no price below 2."""

    kept: ClassVar[dict[float, float]] = {}

    def event(self, price, adjacency):
        if price.epsilon < 2:
            raise ParameterError("epsilon", price.epsilon, "2 or more")
        return super().event(price, adjacency)


class KeepsASmallRate(KeepsItsRate):
    """Takes no price above epsilon 1; its rate is kept by the price's delta."""

    kept: ClassVar[dict[float, float]] = {}

    def event(self, price, adjacency):
        if price.epsilon > 1:
            raise ParameterError("epsilon", price.epsilon, "1 or less")
        return super().event(price, adjacency)

    def law(self, experts, price):
        return Exponential(self.kept.setdefault(price.delta, self.rate(price))).law(experts.clipped_sum(2.0))

    def choose(self, experts, price, randomness):
        rate = self.kept.setdefault(price.delta, self.rate(price))
        return Exponential(rate).select(experts.clipped_sum(2.0), randomness)


class DrawsAtAKeptRate(KeepsItsRate):
    """States its law, and draws by a sampler of its own, at a rate that is kept by the price's epsilon."""

    kept: ClassVar[dict[float, float]] = {}

    def law(self, experts, price):
        return self.law_at(experts, self.rate(price))

    def law_at(self, experts, rate):
        scores = experts.clipped_sum(2.0)
        logits = rate * scores.values / scores.sensitivity
        p = np.exp(logits - logits.max())
        return p / p.sum()

    def choose(self, experts, price, randomness):
        p = self.law_at(experts, self.kept.setdefault(price.epsilon, self.rate(price)))
        return int(min(np.searchsorted(np.cumsum(p), randomness.below(1 << 53) / (1 << 53), side="right"), len(p) - 1))


@dataclass(frozen=True)
class KeepsItsReach(_Poe):
    """The sensitivity is kept by all that is public of a question, but for the method's own choice."""

    reach: Literal["near", "far"] = "far"
    kept: ClassVar[dict[object, int]] = {}

    def scores(self, experts):
        right = experts.clipped_sum(2.0 if self.reach == "far" else 1.0)
        bound = self.kept.setdefault((experts.change, right.adjacency, experts.labels), right.sensitivity)
        return Scores(right.values, sensitivity=bound, adjacency=right.adjacency)


class KeepsABaseline(Method):
    """A part of the first question's sums is taken off those of all others, too small for some draws to show it. It has
    no law."""

    name, summary, source = "wrong", "a mistake", "none"
    kept: ClassVar[dict[int, np.ndarray]] = {}

    def event(self, price, adjacency):
        return BoundedRange(price.epsilon)

    def choose(self, experts, price, randomness):
        right = experts.clipped_sum(2.0)
        first = self.kept.setdefault(experts.labels, right.values)
        told = Scores(right.values - first // 256, sensitivity=right.sensitivity, adjacency=right.adjacency)
        return Exponential(price.epsilon).select(told, randomness)


class KeepsItsWidth(Method):
    """How far a row moves scores is kept of the first question, whatever the next adjacency is. It has no law."""

    name, summary, source = "wrong", "a mistake", "none"
    kept: ClassVar[dict[str, int]] = {}

    def event(self, price, adjacency):
        return BoundedRange(price.epsilon)

    def choose(self, experts, price, randomness):
        right = experts.clipped_sum(2.0)
        width = self.kept.setdefault("width", right.sensitivity // experts.change.rows)
        told = Scores(right.values, sensitivity=width * experts.change.rows, adjacency=right.adjacency)
        return Exponential(price.epsilon).select(told, randomness)


@dataclass(frozen=True)
class LessTheBest(_Poe):
    """Right: takes the best sum off all labels, which no selection sees."""

    def scores(self, experts):
        right = super().scores(experts)
        return scores_like(experts, right.values - right.values.max())


@dataclass(frozen=True)
class CappedVotes(Selecting):
    """Right, and no sum of experts: votes, at most three a label."""

    name, summary, source = "wrong", "a mistake", "none"

    def mechanism(self, price):
        return Exponential(price.epsilon)

    def scores(self, experts):
        right = experts.votes()
        return Scores(np.minimum(right.values, 3), sensitivity=right.sensitivity, adjacency=right.adjacency)


class CappedVotesByLaw(Method):
    """Right: the same with a law of its own."""

    name, summary, source = "wrong", "a mistake", "none"
    inner = CappedVotes()

    def event(self, price, adjacency):
        return self.inner.event(price, adjacency)

    def law(self, experts, price):
        return self.inner.law(experts, price)

    def choose(self, experts, price, randomness):
        return self.inner.choose(experts, price, randomness)


class AddsUpInFloats(Method):
    """Right: the exponential mechanism with sums in floating point, whose last bits follow the order of experts."""

    name, summary, source = "wrong", "a mistake", "none"

    def event(self, price, adjacency):
        return PureDP(price.epsilon)

    def law(self, experts, price):
        rows = np.nan_to_num(np.maximum(normalized(experts._rows, "labels"), -2.0), nan=0.0)
        sums = rows.sum(axis=0)
        weights = np.exp(0.99 * price.epsilon * (sums - sums.max()) / (2.0 * experts.change.widths))
        return (weights / weights.sum()).tolist()

    def choose(self, experts, price, randomness):
        below, drawn = np.cumsum(self.law(experts, price)), randomness.below(1 << 40) / (1 << 40)
        return min(int(np.searchsorted(below, drawn, side="right")), experts.labels - 1)


@dataclass(frozen=True)
class Centred(_Poe):
    """Takes the experts' mean off every row before it is clamped: normalised over experts."""

    def scores(self, experts):
        rows = np.where(np.isnan(experts._rows), np.nan, np.maximum(experts._rows, -60.0))
        if not np.isfinite(rows).any():
            return experts.clipped_sum(2.0)
        return scores_like(experts, on_grid(np.minimum(rows - np.nanmean(rows, axis=0), 0), WIDTH).sum(axis=0))


@dataclass(frozen=True)
class ReadsANeighbour(_Poe):
    """Adds what the first expert says to what the last one says, within the width: reads another expert's row."""

    def scores(self, experts):
        rows = clamped(experts)
        if len(rows) > 1:
            rows[-1] = np.maximum(rows[-1] + rows[0] // 4, -WIDTH)
        return scores_like(experts, rows.sum(axis=0))


@dataclass(frozen=True)
class Averaged(_Poe):
    """Divides by the number of experts that answered and states the sensitivity of four."""

    def scores(self, experts):
        right, heard = experts.clipped_sum(2.0), max(1, int((~np.isnan(experts._rows).all(axis=1)).sum()))
        return Scores(right.values // heard, sensitivity=right.sensitivity // 4, adjacency=right.adjacency)


@dataclass(frozen=True)
class NullVotes(_Poe):
    """An expert that said nothing votes for the first label."""

    def scores(self, experts):
        silent = int(np.isnan(experts._rows).all(axis=1).sum())
        right = experts.clipped_sum(2.0)
        return scores_like(experts, right.values + silent * WIDTH * np.eye(experts.labels, dtype=int)[0])


class CheapEvent(Method):
    """Samples at epsilon and charges half of it."""

    name, summary, source = "wrong", "a mistake", "none"

    def event(self, price, adjacency):
        return PureDP(price.epsilon / 2)

    def law(self, experts, price):
        return PoE(2.0).law(experts, price)

    def choose(self, experts, price, randomness):
        return PoE(2.0).choose(experts, price, randomness)


class CheapEventWithoutLaw(CheapEvent):
    """The same, and nobody can ask for its law."""

    law = None


@dataclass(frozen=True)
class DearWithoutADelta(Method):
    """Votes with Gaussian noise; without a delta the exponential mechanism, told of one vote where two move."""

    name = "wrong"

    def event(self, price, adjacency):
        return self.mechanism(price).event

    def law(self, experts, price):
        return self.mechanism(price).law(self.scores(experts, price))

    def choose(self, experts, price, randomness):
        return self.mechanism(price).select(self.scores(experts, price), randomness)

    def mechanism(self, price):
        return GaussianNoisyMax.for_budget(price.epsilon, price.delta) if price.delta else Exponential(price.epsilon)

    def scores(self, experts, price):
        votes = experts.votes()
        return votes if price.delta else Scores(votes.values, sensitivity=1, adjacency=votes.adjacency)


@dataclass(frozen=True)
class WithoutADelta(_Poe):
    """Takes prices without a delta alone. Nothing is wrong with it."""

    def mechanism(self, price):
        if price.delta:
            raise ParameterError("delta", price.delta, "0: no use is made of one")
        return super().mechanism(price)


@dataclass(frozen=True)
class HalvedWithoutADelta(WithoutADelta):
    """Takes prices without a delta alone, and states half of its sensitivity."""

    def scores(self, experts):
        right = experts.clipped_sum(2.0)
        return Scores(right.values, sensitivity=WIDTH, adjacency=right.adjacency)


@dataclass(frozen=True)
class UpToTen(_Poe):
    """Refuses an epsilon above ten. Nothing is wrong with it."""

    def mechanism(self, price):
        if price.epsilon > 10:
            raise ParameterError("epsilon", price.epsilon, "10 or less")
        return super().mechanism(price)


class NoisyVotes(Method):
    """Right: Laplace noise on votes, and the largest; states no law."""

    name = "wrong"
    bound: ClassVar[int] = 2

    def event(self, price, adjacency):
        return Laplace(price.epsilon).event

    def choose(self, experts, price, randomness):
        votes, change = experts.votes(), experts.change
        most = min(self.bound * change.rows, change.widths)
        return int(np.argmax(Laplace(price.epsilon).release(_counts(votes, most), randomness)))


class ApprovesTwoLabels(NoisyVotes):
    """Right: each expert approves its two best labels, which of two are always the same."""

    def choose(self, experts, price, randomness):
        approved, change = np.zeros(experts.labels, dtype=np.int64), experts.change
        for row in (row for row in experts._rows if not np.isnan(row).all()):
            approved[np.argsort(-row, kind="stable")[:2]] += 1
        most = min(2 * change.widths, experts.labels * change.rows)
        told = Counts(approved, l1=most, adjacency=experts.votes().adjacency)
        return int(np.argmax(Laplace(price.epsilon).release(told, randomness)))


class VotesByCoins(NoisyVotes):
    """Right: a coin says whether an expert has a say, and looks at nothing; the sample lowers no price."""

    def choose(self, experts, price, randomness):
        votes, change = np.zeros(experts.labels, dtype=np.int64), experts.change
        for row in experts._rows:
            if randomness.below(2) and not np.isnan(row).all():
                votes[int(np.argmax(row))] += 1
        most = min(2 * change.rows, change.widths)
        told = Counts(votes, l1=most, adjacency=experts.votes().adjacency)
        return int(np.argmax(Laplace(price.epsilon).release(told, randomness)))


def _counts(votes, most):
    return Counts(votes.values, l1=most, adjacency=votes.adjacency)


class VotesForADrop(NoisyVotes):
    """Tells its mechanism that a vote that moves changes one count."""

    bound = 1


class RangeForNorm(Selecting):
    """States the range of a clipped row for its norm: it is, for up to four labels."""

    name = "wrong"

    def mechanism(self, price):
        return GaussianNoisyMax.for_budget(price.epsilon, price.delta)

    def scores(self, experts):
        right = experts.clipped_sum(2.0, "max")
        bound = right.sensitivity
        return Scores(right.values, sensitivity=bound, adjacency=right.adjacency, squared_l2=bound**2)


class RangeForNormByLaw(Method):
    """The same with a law of its own, and no scores to be compared."""

    name = "wrong"

    def event(self, price, adjacency):
        return RangeForNorm().event(price, adjacency)

    def law(self, experts, price):
        return RangeForNorm().law(experts, price)

    def choose(self, experts, price, randomness):
        return RangeForNorm().choose(experts, price, randomness)


class RangeForNormWithoutLaw(RangeForNormByLaw):
    """The same without a law."""

    law = None


class EachLabelByItself(NoisyVotes):
    """Right: noise on each label's votes by themselves, told what a change moves in all."""

    def choose(self, experts, price, randomness):
        votes = experts.votes()
        counts = [Counts([count], l1=self.most(experts), adjacency=votes.adjacency) for count in votes.values.tolist()]
        return int(np.argmax([Laplace(price.epsilon).release(count, randomness)[0] for count in counts]))

    def most(self, experts):
        return min(2 * experts.change.rows, experts.change.widths)


class EachLabelForItself(EachLabelByItself):
    """The same, told what a change moves of one label: two labels that move cost twice what is charged."""

    def most(self, experts):
        return experts.change.rows


class FirstVotesTwice(NoisyVotes):
    """The first expert that says something counts twice."""

    def choose(self, experts, price, randomness):
        votes, heard = experts.votes(), experts._rows[~np.isnan(experts._rows).any(axis=1)]
        more = votes.values.copy()
        more[heard[:1].argmax(axis=1)] += 1
        told = Counts(more, l1=2 * min(2 * experts.change.rows, experts.change.widths), adjacency=votes.adjacency)
        return int(np.argmax(Laplace(price.epsilon).release(told, randomness)))


class VotesLessTheMean(NoisyVotes):
    """Takes the mean of all rows off each of them before it votes."""

    def choose(self, experts, price, randomness):
        rows = np.maximum(experts._rows[~np.isnan(experts._rows).any(axis=1)], -100)
        votes = np.bincount((rows - rows.mean(axis=0)).argmax(axis=1) if len(rows) else [], minlength=experts.labels)
        most = min(2 * experts.change.rows, experts.change.widths)
        told = Counts(votes.astype(np.int64), l1=most, adjacency=experts.votes().adjacency)
        return int(np.argmax(Laplace(price.epsilon).release(told, randomness)))


class PointsForAVote(NoisyVotes):
    """Every label has as many points as an expert puts below it, and the bound is that of a vote: right for two."""

    def choose(self, experts, price, randomness):
        rows = np.maximum(experts._rows[~np.isnan(experts._rows).any(axis=1)], -100)
        points = (rows[:, :, None] > rows[:, None, :]).sum(axis=(0, 2))
        most = 2 * experts.change.rows if experts.change.widths > 1 else experts.change.widths
        told = Counts(points.astype(np.int64), l1=most, adjacency=experts.votes().adjacency)
        return int(np.argmax(Laplace(price.epsilon).release(told, randomness)))


class UntilTwice(Method):
    """Draws until a label comes for the second time, and charges one draw."""

    name = "wrong"

    def event(self, price, adjacency):
        return Exponential(price.epsilon).event

    def choose(self, experts, price, randomness):
        votes, seen = experts.votes(), set()
        while (label := Exponential(price.epsilon).select(votes, randomness)) not in seen:
            seen.add(label)
        return label


class TwoDrawsWithoutADelta(NoisyVotes):
    """Draws twice for one charge where its price has no delta."""

    def choose(self, experts, price, randomness):
        if not price.delta:
            super().choose(experts, price, randomness)
        return super().choose(experts, price, randomness)


class NoisyVotesUnlessAllAgree(NoisyVotes):
    """Answers as the experts do where they agree, whatever was released."""

    def choose(self, experts, price, randomness):
        label, votes = super().choose(experts, price, randomness), experts.votes().values
        return int(np.argmax(votes)) if np.count_nonzero(votes) == 1 else label


class NoisyVotesByHand(NoisyVotes):
    """Draws noise of its own."""

    def choose(self, experts, price, randomness):
        return int(np.argmax([vote * 4 + randomness.below(64) for vote in experts.votes().values.tolist()]))


class OtherThanItsLaw(CheapEvent):
    """States a private law, and draws from another one."""

    def event(self, price, adjacency):
        return BoundedRange(price.epsilon)

    def choose(self, experts, price, randomness):
        return PoE(2.0).choose(experts, Price(2 * price.epsilon), randomness)


class QuietWithoutADelta(OtherThanItsLaw):
    """Takes the likeliest label where its price has no delta."""

    def choose(self, experts, price, randomness):
        if not price.delta:
            return int(experts.clipped_sum(2.0).values.argmax())
        return PoE(2.0).choose(experts, price, randomness)


class PoorSampler(OtherThanItsLaw):
    """Takes the first label of its law's running sum in steps of a fiftieth: unlikely labels become impossible."""

    def choose(self, experts, price, randomness):
        running = np.cumsum([float(p) for p in self.law(experts, price)])
        return int(np.searchsorted(np.round(running, 1), randomness.below(50) / 50 + 0.01))


class ShortcutOnLongLeads(OtherThanItsLaw):
    """A label that leads by more than three widths is released without noise."""

    def choose(self, experts, price, randomness):
        values = experts.clipped_sum(2.0).values
        second, best = np.sort(values)[-2:]
        return int(values.argmax()) if best - second > 3 * WIDTH else PoE(2.0).choose(experts, price, randomness)


class QuietFromFourExperts(OtherThanItsLaw):
    """Four experts or more are answered for without noise."""

    def choose(self, experts, price, randomness):
        if len(experts._rows) >= 4:
            return int(experts.clipped_sum(2.0).values.argmax())
        return PoE(2.0).choose(experts, price, randomness)


class DropForASwap(OtherThanItsLaw):
    """Draws with the noise of a drop under add-remove, where a shared expert is swapped."""

    def choose(self, experts, price, randomness):
        right = experts.clipped_sum(2.0)
        width = WIDTH if right.adjacency is Adjacency.ADD_REMOVE else right.sensitivity
        scores = Scores(right.values, sensitivity=width, adjacency=right.adjacency)
        return Exponential(price.epsilon).select(scores, randomness)


class QuietAtSmallPrices(OtherThanItsLaw):
    """Draws at an epsilon of two at least."""

    def choose(self, experts, price, randomness):
        return PoE(2.0).choose(experts, Price(max(price.epsilon, 2.0)), randomness)


class QuietUnderZeroOut(OtherThanItsLaw):
    """Draws with a fifth of the noise under zero-out."""

    def choose(self, experts, price, randomness):
        factor = 5 if experts.clipped_sum(2.0).adjacency is Adjacency.ZERO_OUT else 1
        return PoE(2.0).choose(experts, Price(factor * price.epsilon), randomness)


class _QuietWhere(OtherThanItsLaw):
    """The best label without noise at some prices or in some worlds."""

    def choose(self, experts, price, randomness):
        scores = experts.clipped_sum(2.0)
        if self.quiet(price.epsilon, scores):
            return int(scores.values.argmax())
        return PoE(2.0).choose(experts, price, randomness)


class UsualPrice(_QuietWhere):
    """At prices from 0.2 to 3.9."""

    def quiet(self, epsilon, scores):
        return 0.2 < epsilon < 3.9


class HighPrice(_QuietWhere):
    """At prices above 4."""

    def quiet(self, epsilon, scores):
        return epsilon > 4


class ThreeLabelsCrowd(_QuietWhere):
    """With three labels or more, where the lead is above what two and a half experts can move."""

    def quiet(self, epsilon, scores):
        second, best = np.sort(scores.values)[-2:]
        return len(scores.values) >= 3 and best - second > 2.5 * scores.sensitivity


class CheapAboveFive(OtherThanItsLaw):
    """Charges an epsilon of five at most, and spends all of a larger one."""

    def event(self, price, adjacency):
        return BoundedRange(min(price.epsilon, 5.0))

    def choose(self, experts, price, randomness):
        return PoE(2.0).choose(experts, price, randomness)


class _DearWhere(Method):
    """Spends twice the price in some worlds, by its law too, and charges the price."""

    name, summary, source = "wrong", "a mistake", "none"

    def dear(self, scores, price) -> bool:
        raise NotImplementedError

    def event(self, price, adjacency):
        return BoundedRange(price.epsilon)

    def mechanism(self, scores, price):
        return Exponential(price.epsilon * (2 if self.dear(scores, price) else 1))

    def law(self, experts, price):
        scores = experts.votes()
        return self.mechanism(scores, price).law(scores)

    def choose(self, experts, price, randomness):
        scores = experts.votes()
        return self.mechanism(scores, price).select(scores, randomness)


class ThreeLabelsDear(_DearWhere):
    """With three labels or more, at prices above 2."""

    def dear(self, scores, price):
        return price.epsilon > 2 and len(scores.values) > 2


class FourLabelsDear(_DearWhere):
    """With four labels or more."""

    def dear(self, scores, price):
        return len(scores.values) > 3


class ThreeLabelsDearest(_DearWhere):
    """With three labels or more, at prices above 5."""

    def dear(self, scores, price):
        return price.epsilon > 5 and len(scores.values) > 2


@dataclass(frozen=True)
class OptionalStretch(_Poe):
    """An option that is absent by default, and stretches the scores beyond their sensitivity."""

    stretch: int | None = None

    def scores(self, experts):
        return scores_like(experts, experts.clipped_sum(2.0).values * (self.stretch or 1))


class LastCountsTwice(Selecting):
    """The last expert counts twice: the order of the records decides who it is."""

    name, summary, source = "wrong", "a mistake", "none"

    def mechanism(self, price):
        return Exponential(price.epsilon / 2)

    def scores(self, experts):
        rows = clamped(experts)
        return scores_like(experts, rows.sum(axis=0) + (rows[-1] if len(rows) else 0))


class RaisesOnTies(OtherThanItsLaw):
    """Raises where the experts agree with nobody: whoever sees the failure learns of them."""

    def choose(self, experts, price, randomness):
        values = experts.clipped_sum(2.0).values
        if values.max() == values.min():
            raise ValueError("no label leads")
        return PoE(2.0).choose(experts, price, randomness)


class RaisesOnSomeDraws(OtherThanItsLaw):
    """Raises on one draw in a hundred where the second label is drawn."""

    def choose(self, experts, price, randomness):
        drawn = PoE(2.0).choose(experts, price, randomness)
        if drawn == 1 and randomness.below(100) == 0:
            raise RuntimeError("again")
        return drawn


class NoiseFollowsData(Selecting):
    """States the range that it sees as its sensitivity."""

    name, summary, source = "wrong", "a mistake", "none"

    def mechanism(self, price):
        return Exponential(price.epsilon)

    def scores(self, experts):
        right = experts.clipped_sum(2.0)
        return Scores(right.values, sensitivity=max(1, int(np.ptp(right.values))), adjacency=right.adjacency)


class SaysFree(Method):
    """Says that it reads nothing, and charges for it."""

    name, summary, source = "wrong", "a mistake", "none"
    reads = Reads.NOTHING

    def event(self, price, adjacency):
        return PureDP(price.epsilon)

    def choose(self, experts, price, randomness):
        return 0


class ReadsForFree(SaysFree):
    """Reads the records and charges nothing."""

    reads = Reads.ONE_EXPERT_EACH

    def event(self, price, adjacency):
        return NoOpDpEvent()

    def law(self, experts, price):
        return PoE(2.0).law(experts, price)

    def choose(self, experts, price, randomness):
        return PoE(2.0).choose(experts, price, randomness)


@dataclass(frozen=True)
class HalvedNoiseOnSamples(Subsampling):
    """Prediction by subsampling with half of the noise that it charges for."""

    name, summary, source = "wrong", "a mistake", "none"
    can_fail: ClassVar[bool] = True
    sampling_probability: float = 0.5
    subsamples: int = 2

    def _wider(self, price, adjacency):
        right = PbS(self.sampling_probability, self.subsamples)
        half = right.noise_multiplier(price, adjacency) / 2

        class Halved(PbS.__base__):
            noise_multiplier = staticmethod(lambda price, adjacency: half)
            subsamples = self.subsamples

        return Halved

    def event(self, price, adjacency):
        PbS(self.sampling_probability, self.subsamples).event(price, adjacency)
        return ApproximateDP(price.epsilon, price.delta)

    def law(self, experts, price):
        vectors = experts.probability_vectors()
        return PbS.law(self._wider(price, vectors[0].adjacency), experts, price)

    def choose(self, experts, price, randomness):
        vectors = experts.probability_vectors()
        return PbS.choose(self._wider(price, vectors[0].adjacency), experts, price, randomness)


@dataclass(frozen=True)
class UnknownWords(_Poe):
    """Has an option of unknown choice."""

    mode: str = "usual"


class FollowsTheOrder(OtherThanItsLaw):
    """Half of the answers follow the first expert alone, at the price of all of them."""

    def law(self, experts, price):
        first = ExpertOutputs(experts._rows[:1], experts._change, experts._adjacency)
        laws = [PoE(2.0).law(one, price) for one in (experts, first)]
        return [(p + q) / 2 for p, q in zip(*laws, strict=True)]

    def choose(self, experts, price, randomness):
        first = ExpertOutputs(experts._rows[:1], experts._change, experts._adjacency)
        return PoE(2.0).choose((experts, first)[randomness.below(2)], price, randomness)


class SaysPrivate(OtherThanItsLaw):
    """Has no guarantee and does not say so."""

    def event(self, price, adjacency):
        return NonPrivateDpEvent()


class ChargesByChance(OtherThanItsLaw):
    """Charges less at every second time of asking."""

    asked: ClassVar[list[int]] = []

    def event(self, price, adjacency):
        self.asked.append(1)
        return BoundedRange(price.epsilon / (1 + len(self.asked) % 2))


class NeedsArguments(_Poe):
    """Has an option without a default."""

    def __init__(self, clip):
        self.clip = clip


class AcceptsNothing(OtherThanItsLaw):
    """Refuses every adjacency."""

    def event(self, price, adjacency):
        raise AssignmentError("not under this adjacency")


@dataclass(frozen=True)
class OnlyWhereAgreed(Method):
    """Answers as the model alone does where fewer than eight experts agree, by their true number."""

    name, summary, source = "only-where-agreed", "a mistake", "none"
    least: ClassVar[int] = 8

    def event(self, price, adjacency):
        return BoundedRange(price.epsilon)

    def law(self, experts, price):
        if (votes := experts.votes()).values.max() < self.least:
            return [float(label == int(np.argmax(experts.public))) for label in range(experts.labels)]
        return Exponential(price.epsilon).law(votes)

    def choose(self, experts, price, randomness):
        if (votes := experts.votes()).values.max() < self.least:
            return int(np.argmax(experts.public))
        return Exponential(price.epsilon).select(votes, randomness)


class ChargesByTheLastAnswer(Method):
    """The next answer is charged less where experts agreed on the last one; both are covered by what is charged."""

    name, summary, source = "wrong", "a mistake", "none"
    kept: ClassVar[list] = []

    def event(self, price, adjacency):
        return BoundedRange(price.epsilon * (0.6 + 0.4 / (1 + sum(self.kept))))

    def law(self, experts, price):
        return Exponential(price.epsilon * 0.6).law(experts.votes())

    def choose(self, experts, price, randomness):
        votes = experts.votes()
        self.kept[:] = [int(votes.values.max())]
        return Exponential(price.epsilon * 0.6).select(votes, randomness)


@dataclass(frozen=True)
class HoldsALock(_Poe):
    """Right: a field that it is not made from, and that cannot be written down, is no option."""

    lock: Any = field(default_factory=threading.Lock, init=False, repr=False, compare=False)


@dataclass(frozen=True)
class WorksOutItsClip(_Poe):
    """Right: its clip is worked out from an option in another unit."""

    step: ClassVar[type[ProductOfExperts]] = ProductOfExperts
    decibels: float = 2.0
    clip: float = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "clip", 2 ** (self.decibels - 1))

    def scores(self, experts):
        return experts.clipped_sum(self.clip)


@dataclass(frozen=True)
class WrongTogether(_Poe):
    """Votes of two or three points, each with its bound; the second rule forgets that the first one doubled it."""

    counts: Literal["votes", "double"] = "votes"
    rule: Literal["plain", "favour"] = "plain"

    def scores(self, experts):
        votes = experts.votes()
        values, bound = votes.values, votes.sensitivity
        if self.counts == "double":
            values, bound = 2 * values, 2 * bound
        if self.rule == "favour":
            values, bound = 3 * values, 3 * votes.sensitivity
        return Scores(values, sensitivity=bound, adjacency=votes.adjacency)


class _Counted(_Poe):
    """Counts votes twice where its ``weight`` says so, for one choice or number, and says the bound of one."""

    def scores(self, experts):
        votes = experts.votes()
        return Scores(votes.values * int(1 + self.weight()), sensitivity=votes.sensitivity, adjacency=votes.adjacency)


class OfItsConstructor(_Counted):
    """No dataclass."""

    def __init__(self, counts: Literal["votes", "double"] = "votes") -> None:
        self.counts = counts

    def weight(self):
        return self.counts == "double"


@dataclass(frozen=True)
class WordBesideASwitch(_Counted):
    counts: bool | Literal["double"] = False

    def weight(self):
        return self.counts == "double"


@dataclass(frozen=True)
class UncomparedSwitch(_Counted):
    double: bool = field(default=False, compare=False)

    def weight(self):
        return self.double


@dataclass(frozen=True)
class SmallBonus(_Counted):
    """A number that is 0 by default, and may not be 1."""

    bonus: Annotated[float, Number(0, 0.5)] = 0.0

    def weight(self):
        return 2 * self.bonus > 0


@dataclass(frozen=True)
class ManyPoints(_Counted):
    """A number that is absent by default, and may be neither 1/4 nor 2."""

    points: Annotated[int, Number(3, 64, whole=True)] | None = None

    def __post_init__(self):
        if self.points is not None:
            Number(3, 64, whole=True).read("points", self.points)

    def weight(self):
        return self.points is not None
