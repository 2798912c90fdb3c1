"""What an attack's successes prove: lower bounds on epsilon and mu with a stated confidence, and the caps they face.

Guarantee   If a mechanism is (epsilon, delta)-DP (or mu-GDP) under the relation that the audit tested, the bound
            exceeds epsilon (or mu) with probability at most ``alpha`` over the audit's own coins.
Assumes     Threshold, attack and canary were chosen on data disjoint from the certifying runs (specification 10.8), and
            the runs are independent.
Sources     specification 10.1 to 10.5; Nasr et al. (2023) for the GDP audit; Steinke, Nasr and Jagielski (2023) for
            many canaries in one run; Massart (1990) for the band. Proof beside the code: docs/proofs/audits.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from sottovoce.audits.roc import FloatArray
from sottovoce.audits.tradeoff import TradeOff
from sottovoce.errors import ParameterError
from sottovoce.intervals import lower_limit, upper_limit
from sottovoce.parameters import Number

ALPHA = 0.05
_STEPS = 60
_LEAST_P = 1e-300
_LEVEL = Number(0, 1, above_least=True, below_most=True)


@final
@dataclass(frozen=True)
class Rates:
    """What the certifying runs counted.

    Attributes:
        false_positives: Guesses "present" where the secret was absent.
        absent: Runs in which it was absent.
        false_negatives: Guesses "absent" where it was present.
        present: Runs in which it was present.

    Raises:
        ParameterError: A count is negative or above its number of runs.
    """

    false_positives: int
    absent: int
    false_negatives: int
    present: int

    def __post_init__(self) -> None:
        for name, count, runs in (
            ("false_positives", self.false_positives, self.absent),
            ("false_negatives", self.false_negatives, self.present),
        ):
            if not 0 <= count <= runs or runs < 1:
                raise ParameterError(name, count, f"from 0 to its number of runs ({runs}), which is 1 or more")

    def limits(self, alpha: float = ALPHA) -> tuple[float, float]:
        """Upper limits of the two error rates that hold together with probability 1 - alpha."""
        return (
            upper_limit(self.false_positives, self.absent, _LEVEL.read("alpha", alpha) / 2),
            upper_limit(self.false_negatives, self.present, alpha / 2),
        )


def accuracy_cap(epsilon: float, delta: float = 0.0) -> float:
    """The best accuracy of any guess between two equally likely worlds under (epsilon, delta)-DP.

    The cap of one pair; ``TradeOff.accuracy`` has that of a whole curve (specification 10.1).

    Example:
        >>> round(accuracy_cap(1.0), 5)
        0.73106
    """
    return (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon))


def accuracy_cap_of_mu(mu: float) -> float:
    """The best accuracy under mu-GDP: Phi(mu / 2).

    ``TradeOff.accuracy`` has the cap of any curve (specification 10.1).

    Example:
        >>> round(accuracy_cap_of_mu(0.2681), 4)
        0.5533
    """
    return 0.5 * math.erfc(-mu / 2 / math.sqrt(2))


def epsilon_of_rates(rates: Rates, delta: float = 0.0, alpha: float = ALPHA) -> float:
    """The largest epsilon that the rates refute at ``delta``: the default certificate (specification 10.3).

    Example:
        >>> round(epsilon_of_rates(Rates(3, 200, 120, 200)), 4)
        2.0377
    """
    a, b = rates.limits(alpha)
    epsilons = [math.log(hit / miss) for hit, miss in ((1 - delta - b, a), (1 - delta - a, b)) if hit > 0]
    return max(0.0, *epsilons) if epsilons else 0.0


def mu_of_rates(rates: Rates, alpha: float = ALPHA) -> float:
    """The largest mu that the rates refute; a statement about mu-GDP, not about epsilon (specification 10.4).

    Example:
        >>> round(mu_of_rates(Rates(5, 500, 250, 500)), 6)
        1.879757
    """
    from scipy.stats import norm

    a, b = rates.limits(alpha)
    return max(0.0, float(norm.isf(a) - norm.ppf(b))) if a < 1 and b < 1 else 0.0


def epsilon_of_accuracy(correct: int, runs: int, delta: float = 0.0, alpha: float = ALPHA) -> float:
    """The largest epsilon that an accuracy over independent runs with balanced secrets refutes.

    For guesses that were counted without saying which were false positives (specification 10.2).

    Example:
        >>> round(epsilon_of_accuracy(305, 400, delta=0.05), 4)
        0.8972
    """
    if not 0 <= correct <= runs or runs < 1:
        raise ParameterError("correct", correct, f"from 0 to the number of runs ({runs}), which is 1 or more")
    limit = lower_limit(correct, runs, _LEVEL.read("alpha", alpha))
    return max(0.0, math.log((limit - delta) / (1 - limit))) if delta < limit < 1 else 0.0


def refutes(rates: Rates, curve: TradeOff, alpha: float = ALPHA) -> bool:
    """Whether the rates refute a trade-off curve: the claim's own, tighter than any single (epsilon, delta) of it.

    With probability 1 - alpha both limits hold, and then FNR <= b while FNR >= f(FPR) >= f(a).

    Example:
        A Gaussian release that claims mu .5 and has mu 2.

        >>> refutes(Rates(31, 200, 32, 200), TradeOff.of_mu(0.5))
        True
    """
    a, b = rates.limits(alpha)
    return float(curve.fnr(a)) > b


def p_value_of_rates(rates: Rates, curve: TradeOff) -> float:
    """The least level at which the rates refute a curve; 1 where no level does.

    Example:
        >>> round(p_value_of_rates(Rates(3, 200, 120, 200), TradeOff.of_points([(1.0, 0.0)])), 6)
        1e-05
    """
    return least_level(lambda alpha: refutes(rates, curve, alpha))


def least_level(refuted: Callable[[float], bool]) -> float:
    """The least level at which a test refutes, rounded up; 1 where none below it does.

    Args:
        refuted: Whether the test refutes at a level. Larger levels refute more.
    """
    low, high = math.log(_LEAST_P), math.log(1 - 1e-12)
    if not refuted(math.exp(high)):
        return 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if refuted(math.exp(middle)) else (middle, high)
    return math.exp(high)


def epsilon_of_band(absent: FloatArray, present: FloatArray, delta: float = 0.0, alpha: float = ALPHA) -> float:
    """The largest epsilon that scores refute at any threshold at once: no threshold has to be fixed beforehand.

    The Dvoretzky-Kiefer-Wolfowitz band with Massart's constant holds at every threshold together, each side with
    probability alpha / 2. It is wide where rates are small: a threshold fixed on other canaries, with
    ``epsilon_of_rates``, refutes more.

    Args:
        absent: Scores where the secret was absent, higher for "present".
        present: Scores where it was present.
        delta: Of the claim.
        alpha: Chance of a bound above the truth.

    Raises:
        ParameterError: A score is NaN, or one side has none.

    Example:
        >>> scores = np.arange(1000) / 1000
        >>> round(epsilon_of_band(scores, scores + 0.9), 4)
        2.9935
    """
    sides = []
    for name, scores in (("absent", absent), ("present", present)):
        values = np.sort(np.asarray(scores, dtype=np.float64).ravel())
        if not values.size or np.isnan(values).any():
            raise ParameterError(name, f"{values.size} scores", "1 or more, none of them NaN")
        sides.append(values)
    out, inside = sides
    half = _LEVEL.read("alpha", alpha) / 2
    thresholds = np.unique(np.concatenate([out, inside]))
    false_positives = 1 - np.searchsorted(out, thresholds, side="left") / out.size
    false_negatives = np.searchsorted(inside, thresholds, side="left") / inside.size
    a = np.minimum(1.0, false_positives + math.sqrt(-math.log(half) / (2 * out.size)))
    b = np.minimum(1.0, false_negatives + math.sqrt(-math.log(half) / (2 * inside.size)))
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.concatenate([np.log((1 - delta - b) / a), np.log((1 - delta - a) / b)])
    return max(0.0, float(np.nan_to_num(found, nan=0.0, neginf=0.0).max()))


def epsilon_of_one_run(canaries: int, guesses: int, correct: int, delta: float = 0.0, alpha: float = ALPHA) -> float:
    """The largest epsilon that one run with many independently included canaries refutes (specification 10.5).

    Args:
        canaries: m, each included by its own fair coin.
        guesses: r, on how many of them the attack guessed.
        correct: v, how many of the guesses were right.
        delta: Of the claim.
        alpha: Chance of a bound above the truth.

    Example:
        >>> round(epsilon_of_one_run(100, 100, 90), 6)
        1.630823
    """
    if not 0 <= correct <= guesses <= canaries or guesses < 1:
        raise ParameterError("correct", correct, "correct <= guesses <= canaries, at least one guess")
    low, high = 0.0, 50.0
    if _one_run_p_value(low, canaries, guesses, correct, delta) > _LEVEL.read("alpha", alpha):
        return 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        refuted = _one_run_p_value(middle, canaries, guesses, correct, delta) <= alpha
        low, high = (middle, high) if refuted else (low, middle)
    return low


def _one_run_p_value(epsilon: float, canaries: int, guesses: int, correct: int, delta: float) -> float:
    from scipy.stats import binom

    right = 1 / (1 + math.exp(-epsilon))
    p_value = float(binom.sf(correct - 1, guesses, right))
    if delta and correct:
        window = np.cumsum(binom.pmf(np.arange(correct - 1, -1, -1), guesses, right))
        p_value += 2 * canaries * delta * float(np.max(window / np.arange(1, correct + 1)))
    return min(1.0, p_value)
