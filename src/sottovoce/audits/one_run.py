"""Many canaries and one trade-off curve as the null: bounds tighter than those of a single (epsilon, delta).

Two tests, for two situations that must not be mixed up:

- ``curve_p_value``: many canaries in one run. The release may tie them to each other in any way that the claim allows.
- ``independent_p_value``: every canary had a trial of its own, with its own coin and fresh noise; or the release is
  known to treat canaries independently. It uses the order statistics of the certainty of guesses, and is tighter. For
  canaries of one run it is **not** valid: a release that at times leaks about all of them together, within its claim,
  is refuted too often (docs/proofs/audits.md has the numbers, the tests the release).

Guarantee   If every canary's inclusion has a trade-off curve of at least ``curve``, whatever the other canaries' coins
            show, the p-value is at most alpha with probability alpha at most, for every alpha. A bound exceeds the
            truth with probability ``alpha`` at most.
Assumes     Coins are fair and independent; the number of guesses was fixed beforehand, by whatever rule canaries are
            picked for guessing; and what is said above.
Sources     Mahloujifar, Melis and Chaudhuri (2025, arXiv:2410.22235) for the recursion; Xiang et al. (2025,
            arXiv:2509.08704) for order statistics; specification 10.5. Proof beside the code: docs/proofs/audits.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np

from sottovoce.audits.bounds import ALPHA, least_level
from sottovoce.audits.roc import FloatArray
from sottovoce.audits.tradeoff import TradeOff
from sottovoce.errors import ParameterError
from sottovoce.parameters import Number
from sottovoce.privacy.accounting.gaussian_dp import epsilon_of_mu

_LEVEL: Final = Number(0, 1, above_least=True, below_most=True)
_STEPS: Final = 32
_LARGEST_MU: Final = 64.0
QUANTILES: Final[FloatArray] = np.concatenate(
    [np.linspace(0, 1, 4001)[:-1], 1 - np.geomspace(2.5e-4, 1e-9, 61)[1:], [1.0]]
)
"""Ends of the parts over which the order statistic is integrated; each part counts with its worse end."""


def curve_p_value(canaries: int, guesses: int, correct: int, curve: TradeOff) -> float:
    """The chance of so many right guesses about canaries of one run, at most, under a trade-off curve.

    Args:
        canaries: m, each included by its own fair coin.
        guesses: r, on how many of them the attack guessed.
        correct: v, how many of the guesses were right.
        curve: Of the inclusion of one canary.

    Raises:
        ParameterError: The counts do not fit each other.

    Example:
        >>> round(curve_p_value(1000, 100, 80, TradeOff.of_mu(0.4)), 4)
        0.0886
    """
    _counted(canaries, guesses, correct)
    return least_level(lambda alpha: curve_refuted(canaries, guesses, correct, curve, alpha))


def curve_refuted(canaries: int, guesses: int, correct: int, curve: TradeOff, alpha: float = ALPHA) -> bool:
    """Whether so many right guesses about canaries of one run have chance below ``alpha`` under a curve.

    Let R_k and H_k be the shares of canaries guessed rightly and wrongly, in runs with k or more right guesses. Every
    curve has H_(k-1) >= f(1 - R_k); were the chance alpha, the shares would add to more than r / m.

    Example:
        >>> curve_refuted(1000, 100, 80, TradeOff.of_mu(0.3)), curve_refuted(1000, 100, 80, TradeOff.of_mu(0.4))
        (True, False)
    """
    _counted(canaries, guesses, correct)
    right = _LEVEL.read("alpha", alpha) * correct / canaries
    wrong = alpha * (guesses - correct) / canaries
    everything = guesses / canaries
    for k in range(correct, 0, -1):
        more = float(curve.fnr(1 - right)) - wrong
        if more <= 0:
            return False  # neither share can change any more
        wrong += more
        right += more * (k - 1) / (guesses - k + 1)
        if right + wrong > everything:
            return True
    return False


def independent_p_value(trials: int, guesses: int, correct: int, curve: TradeOff) -> float:
    """The chance of so many right guesses about independent trials, at most, under a trade-off curve.

    The attack guesses on the trials that it is surest of. The r surest of m are, given how sure the next one is,
    independent draws from those that are surer; how sure that is has a Beta law.

    Args:
        trials: m, each with its own fair coin and its own noise.
        guesses: r, on how many of them the attack guessed.
        correct: v, how many of the guesses were right.
        curve: Of one trial.

    Raises:
        ParameterError: The counts do not fit each other.

    Example:
        >>> round(independent_p_value(1000, 100, 74, TradeOff.of_mu(0.3)), 4)
        0.0368
    """
    from scipy.stats import binom

    _counted(trials, guesses, correct)
    if guesses == trials:
        return float(binom.sf(correct - 1, trials, float(curve.confident(np.array(1.0)))))
    chances = binom.sf(correct - 1, guesses, curve.confident(_surer(trials, guesses)))
    return min(1.0, float(chances @ np.diff(QUANTILES)))


@lru_cache(maxsize=64)
def _surer(trials: int, guesses: int) -> FloatArray:
    """The share of trials that are surer than the surest one left out, by quantile, each part's least."""
    from scipy.stats import beta

    return np.asarray(np.clip(1 - beta.ppf(QUANTILES[1:], trials - guesses, guesses + 1), 0.0, 1.0))


def mu_of_one_run(canaries: int, guesses: int, correct: int, alpha: float = ALPHA) -> float:
    """The largest mu that one run refutes; a statement about mu-GDP.

    Example:
        >>> round(mu_of_one_run(1000, 100, 74), 4)
        0.2515
    """
    return largest_refuted(lambda mu: curve_refuted(canaries, guesses, correct, TradeOff.of_mu(mu), alpha))


def mu_of_independent(trials: int, guesses: int, correct: int, alpha: float = ALPHA) -> float:
    """The largest mu that independent trials refute; a statement about mu-GDP.

    Example:
        >>> round(mu_of_independent(1000, 100, 74), 4)
        0.3146
    """
    _LEVEL.read("alpha", alpha)
    return largest_refuted(lambda mu: independent_p_value(trials, guesses, correct, TradeOff.of_mu(mu)) <= alpha)


def epsilon_of_gaussian_run(canaries: int, guesses: int, correct: int, delta: float, alpha: float = ALPHA) -> float:
    """The epsilon at ``delta`` of the largest mu that one run refutes: an extrapolation unless the noise is Gaussian.

    Example:
        >>> round(epsilon_of_gaussian_run(1000, 100, 74, 1e-5), 3)
        0.932
    """
    return epsilon_of_mu(mu_of_one_run(canaries, guesses, correct, alpha), delta)


def epsilon_of_gaussian_trials(trials: int, guesses: int, correct: int, delta: float, alpha: float = ALPHA) -> float:
    """The same of independent trials.

    Example:
        >>> round(epsilon_of_gaussian_trials(1000, 100, 74, 1e-5), 3)
        1.193
    """
    return epsilon_of_mu(mu_of_independent(trials, guesses, correct, alpha), delta)


def largest_refuted(refuted: Callable[[float], bool], most: float = _LARGEST_MU) -> float:
    """The largest parameter of a family of curves that a test refutes, rounded down; 0 where it refutes none.

    Args:
        refuted: Whether a parameter is refuted. Larger ones claim less, and are refuted less.
        most: Largest parameter that is tried.
    """
    low, high = 0.0, most
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def points_of_pure(epsilon: float, delta: float = 0.0) -> TradeOff:
    """The curve of one (epsilon, delta), for ``largest_refuted``."""
    if not math.isfinite(epsilon):
        raise ParameterError("epsilon", epsilon, "finite")
    return TradeOff.of_points([(epsilon, delta)])


def _counted(canaries: int, guesses: int, correct: int) -> None:
    if not 0 <= correct <= guesses <= canaries or guesses < 1:
        raise ParameterError("correct", correct, "correct <= guesses <= canaries, at least one guess")
