"""Two laws of one output, without sampling error: what a pair of neighbours gives away, and whether the proof holds.

Guarantee   ``Pair`` works with natural logs. What it reports bounds epsilon from below for the pair's adjacency: a
            float that underflowed is no outcome of one world alone (``mechanisms.base.log_law``). ``excess_over``
            names what an event does not allow, or ``None``.
Assumes     Both laws list the same outcomes in the same order, and are the whole truth about what is released.
Sources     specification 10.7, T17.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, Protocol, Self, final

import numpy as np

from sottovoce.audits.roc import FloatArray, Roc, roc_of_laws
from sottovoce.audits.tradeoff import TradeOff
from sottovoce.errors import ParameterError
from sottovoce.mechanisms.base import log_law
from sottovoce.privacy.accounting.gaussian_dp import deltas_of_mu
from sottovoce.privacy.events import DpEvent, describe
from sottovoce.privacy.numbers import rounded_down, rounded_up
from sottovoce.privacy.unit import Adjacency
from sottovoce.testing.claims import claim_of, excess

EPSILONS: Final = tuple(step / 4 for step in range(33))
"""Where the delta curve is reported, in nats."""
MOST_OUTCOMES: Final = 1 << 20
_STEPS: Final = 60
_LARGEST: Final = 60.0
_SLACK: Final = 1e-6
"""Of a rate that comes from a quadrature."""


class Leak(Protocol):
    """What a pair of worlds gives away."""

    @property
    def max_loss(self) -> float:
        """Largest absolute log-ratio of any outcome's probabilities; infinite where one is possible in one world."""

    @property
    def total_variation(self) -> float:
        """Largest difference of any event's probabilities."""

    @property
    def kl(self) -> float:
        """The larger Kullback-Leibler divergence of the two directions."""

    def delta(self, epsilons: FloatArray) -> FloatArray:
        """The larger delta of the two directions, of the same shape."""

    def excess_over(self, event: DpEvent, adjacency: Adjacency) -> str | None:
        """What the event does not allow of this pair, in words; ``None`` where it allows everything."""


@final
@dataclass(frozen=True, eq=False)
class Pair:
    """Two laws over finitely many outcomes.

    Attributes:
        log_p: Natural logs of the first law, shape (outcomes,).
        log_q: Of the second.

    Raises:
        ParameterError: They are of different lengths, or one does not add to 1 within 1e-6.

    Example:
        >>> pair = Pair.of([0.75, 0.25], [0.5, 0.5])
        >>> round(pair.max_loss, 4), round(pair.total_variation, 4), round(pair.accuracy, 4)
        (0.6931, 0.25, 0.625)
    """

    log_p: FloatArray = field(repr=False)
    log_q: FloatArray = field(repr=False)

    def __post_init__(self) -> None:
        if np.shape(self.log_p) != np.shape(self.log_q) or np.ndim(self.log_p) != 1:
            raise ParameterError("log_q", np.shape(self.log_q), f"of the first law's shape {np.shape(self.log_p)}")
        for name, law in (("log_p", self.log_p), ("log_q", self.log_q)):
            if not abs(float(np.exp(law).sum()) - 1) <= _SLACK:
                raise ParameterError(name, "another sum", "probabilities that add to 1, within 1e-6")

    @classmethod
    def of(
        cls, p: Sequence[Fraction] | Sequence[float] | FloatArray, q: Sequence[Fraction] | Sequence[float] | FloatArray
    ) -> Self:
        """From probabilities, by ``log_law``.

        Fractions keep their logs however small they are, and one of 0 is impossible. A float below ``LEAST`` may have
        underflowed: it is raised to ``LEAST``, in both worlds alike, so that no loss grows by it.
        """
        return cls(log_law(p), log_law(q))

    @classmethod
    def of_tables(cls, p: Mapping[Any, Any], q: Mapping[Any, Any]) -> Self:
        """From tables of outcomes; one that is missing from a table is impossible there."""
        outcomes = list(dict.fromkeys([*p, *q]))
        return cls.of([p.get(o, Fraction(0)) for o in outcomes], [q.get(o, Fraction(0)) for o in outcomes])

    def and_then(self, other: Pair) -> Pair:
        """The pair of two independent outputs, one of each.

        Raises:
            ParameterError: There are more than 2**20 outcomes together.
        """
        if self.log_p.size * other.log_p.size > MOST_OUTCOMES:
            raise ParameterError("outcomes", self.log_p.size * other.log_p.size, f"at most {MOST_OUTCOMES:,}")
        return Pair(np.add.outer(self.log_p, other.log_p).ravel(), np.add.outer(self.log_q, other.log_q).ravel())

    @property
    def losses(self) -> FloatArray:
        """log p / q of every outcome; 0 where neither world has it."""
        with np.errstate(invalid="ignore"):
            return np.where(np.isneginf(self.log_p) & np.isneginf(self.log_q), 0.0, self.log_p - self.log_q)

    @property
    def max_loss(self) -> float:
        return float(np.abs(self.losses).max())

    @property
    def total_variation(self) -> float:
        return float(self.delta(np.zeros(1))[0])

    @property
    def accuracy(self) -> float:
        """The best accuracy of a guess between the two, equally likely."""
        return (1 + self.total_variation) / 2

    @property
    def kl(self) -> float:
        losses = self.losses
        with np.errstate(invalid="ignore"):
            forward = np.where(np.isneginf(self.log_p), 0.0, np.exp(self.log_p) * losses).sum()
            backward = np.where(np.isneginf(self.log_q), 0.0, np.exp(self.log_q) * -losses).sum()
        return max(0.0, float(forward), float(backward))

    def delta(self, epsilons: FloatArray) -> FloatArray:
        at = np.minimum(np.asarray(epsilons, dtype=np.float64), sys.float_info.max)[:, None]  # losses may be infinite
        losses = self.losses
        forward = (np.exp(self.log_p) * -np.expm1(np.minimum(at - losses, 0.0))).sum(axis=1)
        backward = (np.exp(self.log_q) * -np.expm1(np.minimum(at + losses, 0.0))).sum(axis=1)
        return np.asarray(np.maximum(forward, backward))

    def roc(self) -> Roc:
        """The exact curve of the best attack: "present" is the first law."""
        return roc_of_laws(self.losses, np.exp(self.log_p), np.exp(self.log_q))

    def excess_over(self, event: DpEvent, adjacency: Adjacency) -> str | None:
        claim = claim_of(event, adjacency)
        if claim is None:
            return None
        laws = np.array([self.log_p, self.log_q])
        if breach := excess(claim, laws, [(0, 1)]):
            return f"{describe(event)} does not hold: {breach.words}"
        roc = self.roc()
        least = TradeOff.of_event(event, adjacency).fnr(np.clip(roc.false_positive_rates, 0.0, 1.0))
        below = least - (1 - roc.true_positive_rates)
        if float(below.max()) <= _SLACK:
            return None
        worst = int(below.argmax())
        return (
            f"{describe(event)} does not hold: an attack misses {rounded_up(1 - roc.true_positive_rates[worst], 6)} "
            f"where it errs on {rounded_up(roc.false_positive_rates[worst], 6)}, and must miss "
            f"{rounded_down(least[worst], 6)}"
        )


@final
@dataclass(frozen=True)
class GaussianPair:
    """Two normal laws of the same covariance: what a Gaussian release is, before it is rounded.

    Attributes:
        mu: Distance of the means, in deviations.

    Example:
        >>> round(GaussianPair(1.0).total_variation, 4), GaussianPair(1.0).kl
        (0.3829, 0.5)
    """

    mu: float

    @property
    def max_loss(self) -> float:
        return math.inf if self.mu else 0.0

    @property
    def total_variation(self) -> float:
        return math.erf(self.mu / 2 / math.sqrt(2))

    @property
    def accuracy(self) -> float:
        """The best accuracy of a guess between the two, equally likely."""
        return (1 + self.total_variation) / 2

    @property
    def kl(self) -> float:
        return self.mu**2 / 2

    def delta(self, epsilons: FloatArray) -> FloatArray:
        return deltas_of_mu(np.asarray(epsilons, dtype=np.float64), self.mu)

    def excess_over(self, event: DpEvent, adjacency: Adjacency) -> str | None:
        allowed = TradeOff.of_event(event, adjacency)
        rates = np.linspace(0.0, 1.0, 2001)
        below = allowed.fnr(rates) - TradeOff.of_mu(self.mu).fnr(rates)
        if float(below.max()) <= _SLACK:
            return None
        at = float(rates[int(below.argmax())])
        mu, rate = rounded_up(self.mu, 6), rounded_up(at, 6)
        return f"{describe(event)} does not hold: mu {mu} misses too little at a false positive rate of {rate}"


def exact_epsilon(leak: Leak, delta: float) -> float:
    """The least epsilon at which a pair is within delta: its largest loss where delta is 0.

    Example:
        >>> round(exact_epsilon(Pair.of([0.75, 0.25], [0.5, 0.5]), 0.0), 4)
        0.6931
        >>> exact_epsilon(Pair.of([0.75, 0.25], [0.5, 0.5]), 0.25)
        0.0
    """
    if delta == 0:
        return leak.max_loss
    if float(leak.delta(np.zeros(1))[0]) <= delta:
        return 0.0
    low, high = 0.0, min(_LARGEST, leak.max_loss)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if float(leak.delta(np.array([middle]))[0]) > delta else (low, middle)
    return high


def as_dict(leak: Leak, epsilons: Sequence[float] = EPSILONS) -> dict[str, Any]:
    """What a pair gives away, ready for JSON; an infinite loss is ``None``."""
    deltas = leak.delta(np.array(epsilons))
    return {
        "max_loss": leak.max_loss if math.isfinite(leak.max_loss) else None,
        "total_variation": leak.total_variation,
        "accuracy": (1 + leak.total_variation) / 2,
        "kl": leak.kl if math.isfinite(leak.kl) else None,
        "delta": {f"{epsilon}": float(delta) for epsilon, delta in zip(epsilons, deltas, strict=True)},
    }
