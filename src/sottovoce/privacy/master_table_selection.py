"""Rows of the master table that choose one candidate, or a few, from summed utilities.

Guarantee   See each row; specification 5.1, 5.2, 5.5.
Assumes     Candidates, clip constants and rates are public. One expert's output has the width the row names.
Sources     Durfee and Rogers (2019) for bounded range; McKenna and Sheldon (2020) for permute-and-flip; Gillenwater et
            al. (2022) for joint top-k; specification 4 for the factors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from sottovoce.privacy.checked import Positive, Whole
from sottovoce.privacy.events import BoundedRange, DpEvent, ZCDpEvent
from sottovoce.privacy.master_table import PureRow, SelectionRow, Sensitivity, is_drop, row
from sottovoce.privacy.unit import ChangeType


@final
@row("bounded-range", law="one step whose loss lies in an interval of length eta", source="specification T1")
@dataclass(frozen=True)
class Step(SelectionRow):
    """One generic step whose eta is already that of the change, whatever the change is.

    Attributes:
        eta: Bounded range of the step.

    Example:
        >>> from sottovoce.privacy.unit import DROP, SWAP
        >>> Step(0.1).event(DROP) == Step(0.1).event(SWAP) == BoundedRange(0.1)
        True
    """

    eta: Positive

    @property
    def eta_per_width(self) -> float:
        return self.eta

    def event(self, change: ChangeType) -> BoundedRange:
        return BoundedRange(self.eta)

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(self.eta, "range of the change of the log-weights")


@final
@row("poe", law="weights exp(rate * sum of log-probabilities clamped to [-clip, 0])", source="specification 5.1")
@dataclass(frozen=True)
class ProductOfExperts(SelectionRow):
    """A label or token of a product of experts.

    Attributes:
        clip: C, in nats: an expert's width.
        rate: lambda, the weight of one nat.

    Example:
        >>> from sottovoce.privacy.unit import DROP
        >>> ProductOfExperts(clip=3, rate=0.5).event(DROP)
        BoundedRange(eta=1.5)
    """

    clip: Positive
    rate: Positive

    @property
    def eta_per_width(self) -> float:
        return self.rate * self.clip

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(self.clip * change.widths, "range of the change of the summed log-probabilities")


class _Votes:
    """Votes are one-hot: an expert's width is one vote."""

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(change.widths, "range of the change of the vote counts")


@final
@row("votes-exponential", law="weights exp(rate * votes)", source="specification 5.2")
@dataclass(frozen=True)
class VotesExponential(_Votes, SelectionRow):
    """Votes chosen by the exponential mechanism, which is Gumbel noise.

    Attributes:
        rate: lambda, the weight of one vote.
    """

    rate: Positive

    @property
    def eta_per_width(self) -> float:
        return self.rate


@final
@row(
    "votes-permute-and-flip",
    law="permute-and-flip, which is exponential noise of scale 1/rate on every count",
    source="McKenna and Sheldon (2020); specification 5.2",
)
@dataclass(frozen=True)
class VotesPermuteAndFlip(_Votes, PureRow):
    """Votes chosen by permute-and-flip: pure DP, but its loss may be wider than epsilon, so it composes worse.

    Attributes:
        rate: lambda, the weight of one vote.
    """

    rate: Positive

    @property
    def epsilon_per_width(self) -> float:
        return self.rate


@final
@row("votes-laplace", law="Laplace noise of the given scale on every count, then the largest", source="spec. 5.2, T7")
@dataclass(frozen=True)
class VotesLaplace(_Votes, PureRow):
    """Votes with Laplace noise. The vector's zCDP parameter composes better than its pure epsilon.

    Attributes:
        scale: b, in votes.

    Example:
        >>> from sottovoce.privacy.unit import DROP
        >>> round(VotesLaplace(scale=1).other_event(DROP).rho, 4)
        0.3679
    """

    scale: Positive

    @property
    def epsilon_per_width(self) -> float:
        return 1 / self.scale

    def other_event(self, change: ChangeType) -> DpEvent:
        one = 1 / self.scale
        rho = _laplace_rho(one) * (1 if is_drop(change) else 2)
        return ZCDpEvent(rho * change.rows**2)


def _laplace_rho(epsilon: float) -> float:
    # Below 1e-4 the closed form cancels; half of epsilon squared is an upper bound.
    return epsilon + math.expm1(-epsilon) if epsilon > 1e-4 else epsilon * epsilon / 2


@final
@row("keywords-joint", law="one ordered top-k list with weight exp(rate * u), u = -max of count gaps", source="5.5.1")
@dataclass(frozen=True)
class KeywordsJoint(SelectionRow):
    """The joint exponential mechanism over whole lists. Its utility is not monotone: a drop moves it both ways.

    Attributes:
        rate: lambda, the weight of one count.
    """

    rate: Positive

    @property
    def eta_per_width(self) -> float:
        return 2 * self.rate

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(2 * change.widths, "range of the change of the lists' utilities")


@final
@row("keywords-top-k", law="Gumbel noise of scale 1/rate on the counts, the k largest in order", source="spec. 5.5.2")
@dataclass(frozen=True)
class KeywordsTopK(SelectionRow):
    """One-shot top-k: k steps, each of bounded range. Never one step of k times the range.

    Attributes:
        rate: lambda, the weight of one count.
        keywords: k, how many are released.
    """

    rate: Positive
    keywords: Whole

    @property
    def eta_per_width(self) -> float:
        return self.rate

    @property
    def steps(self) -> int:
        return self.keywords

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        return Sensitivity(change.widths, "range of the change of the keyword counts")
