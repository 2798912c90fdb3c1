"""What an audit can find: its ceiling at its sample size, and how surely it catches a release that leaks too much.

Guarantee   Powers are exact binomial sums, or lower bounds on them, for a release on the stated curve and the best
            threshold for it. The curve of a leak is one that a release has, never one that none reaches. An audit of
            a release that leaks in a way its attack does not see has none of this power.
Assumes     Independent runs, and for canaries of one run that the release treats them independently. The threshold is
            the best one, as if a large selecting half had found it.
Sources     specification 10.1 to 10.5, 10.8.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Final, final

import attr
import numpy as np

from sottovoce.audits.bounds import ALPHA, Rates, epsilon_of_one_run, epsilon_of_rates
from sottovoce.audits.one_run import QUANTILES, curve_refuted, independent_p_value
from sottovoce.audits.roc import FloatArray
from sottovoce.audits.sampled_labels import label_of_samples
from sottovoce.audits.tradeoff import TradeOff
from sottovoce.errors import ParameterError
from sottovoce.parameters import Number
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.accounting.composition import rate_of_sample, require_adjacency
from sottovoce.privacy.events import (
    BoundedRange,
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    PureDP,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    WithFailure,
    ZCDpEvent,
)
from sottovoce.privacy.numbers import rounded_up
from sottovoce.privacy.unit import Adjacency

FACTORS: Final = (2, 4)
WHOLE: Final = "everything"
POWERS: Final = (0.5, 0.8, 0.95)
MOST_RUNS: Final = 1_000_000
"""Runs of each world beyond which none are looked for."""
_COUNT: Final = Number(1, 10 * MOST_RUNS, whole=True, strict=True)
_LEVEL: Final = Number(0, 1, above_least=True, below_most=True)
_FACTOR: Final = Number(1, 1000, above_least=True)
_RATES: Final[FloatArray] = np.unique(
    np.concatenate([np.geomspace(1e-6, 0.3, 40), np.linspace(0.02, 0.5, 25), [0.0]]).round(9)
)
"""False positive rates that are tried; the mirror image of a curve gives the others."""
_SHARES: Final = (0.5, 0.95)
"""Of audits: every other one, and all but one of twenty."""
_DEVIATIONS: Final = 6.0
_COARSE: Final = 4
"""Every fourth threshold is tried first, then those around the best."""
_NARROW: Final = 1e-6


def leaking(event: DpEvent, adjacency: Adjacency, factor: float, delta: float = 0.0) -> TradeOff | None:
    """The curve of a release with less noise, which spends ``factor`` times the event's epsilon at ``delta``.

    It is one that a release has: see ``attained``.

    Every selection, pure release and noise inside the event has one parameter more, by the same share; samples, counts
    and probabilities of failures stay as they are. A selection or pure release by itself has its own parameter times
    the factor.

    Returns:
        The curve; ``None`` where the event does not say what noise there is, such as a single (epsilon, delta) pair.
        The easiest release of that price to find is no measure of how surely another is found.

    Raises:
        ParameterError: The event costs nothing, or no finite epsilon.

    Example:
        >>> round(leaking(PureDP(1.0), Adjacency.REPLACE_ONE, 2.0).accuracy, 4)
        0.8808
        >>> from sottovoce.privacy.events import ApproximateDP
        >>> leaking(ApproximateDP(1.0, 1e-6), Adjacency.REPLACE_ONE, 2.0, 1e-6) is None
        True
    """
    factor = _FACTOR.read("factor", factor)
    if with_less_noise(event, factor) is None:
        return None
    epsilon = _epsilon_of(event, adjacency, delta)
    if not 0 < epsilon < math.inf:
        cost = f"one of epsilon {rounded_up(epsilon)} at delta {rounded_up(delta)}"
        raise ParameterError("event", cost, "of an epsilon above 0, finite")
    by = factor
    if delta and not isinstance(event, BoundedRange | PureDP):
        by = _largest(lambda tried: _epsilon_of(with_less_noise(event, tried), adjacency, delta) <= factor * epsilon)
    return attained(with_less_noise(event, by), adjacency)


def attained(event: DpEvent, adjacency: Adjacency) -> TradeOff:
    """The curve of a release that exists and costs an event: what can leak as much, where a claim says what is not
    exceeded.

    The curve that an event allows (``TradeOff.of_event``) may be that of no release: none has the curve that follows
    from Renyi divergences, and none composed of selections that of the best selection for every threshold. Here zCDP is
    Gaussian noise of its rho, a selection of bounded range eta among others is a randomised response of eta / 2, and a
    sample is told by whether the record is in it. Of several samples with Gaussian noise only the label of their sum is
    released (``label_of_samples``). The rest is as it stands.

    Raises:
        ParameterError: As for ``TradeOff.of_event``.
        AssignmentError: A sampled event is not valid for the adjacency.

    Example:
        >>> allowed, found = (of(ZCDpEvent(0.02), Adjacency.REPLACE_ONE) for of in (TradeOff.of_event, attained))
        >>> round(allowed.accuracy, 3), round(found.accuracy, 3)
        (0.559, 0.54)
    """
    if isinstance(event, BoundedRange):  # by itself: for every threshold there is a selection on the curve
        return TradeOff.of_event(event, adjacency)
    return TradeOff.of_event(_existing(event, adjacency), Adjacency.ADD_REMOVE)


def _existing(event: Any, adjacency: Adjacency) -> Any:
    """An event whose curve a release has, at the price of the given one or below."""
    match event:
        case BoundedRange():
            return PureDP(event.eta / 2)
        case ZCDpEvent():
            return GaussianDpEvent(1 / math.sqrt(2 * event.rho)) if event.rho > 0 else NoOpDpEvent()
        case ComposedDpEvent():
            return ComposedDpEvent([_existing(part, adjacency) for part in event.events])
        case PoissonSampledDpEvent() | SampledWithoutReplacementDpEvent():
            require_adjacency(event, adjacency)
            return PoissonSampledDpEvent(rate_of_sample(event), _existing(event.event, adjacency))
        case SelfComposedDpEvent(event=PoissonSampledDpEvent(event=GaussianDpEvent()) as sample):
            require_adjacency(sample, adjacency)
            noise = sample.event.noise_multiplier
            return label_of_samples(sample.sampling_probability, noise, event.count, adjacency)
        case WithFailure() | SelfComposedDpEvent():
            return attr.evolve(event, event=_existing(event.event, adjacency))
    return event


def with_less_noise(event: Any, by: float) -> Any:
    """An event whose selections have ``by`` times their parameter, and whose noise is divided by it.

    ``None`` where a part of it does not say what noise it has.

    Example:
        >>> with_less_noise(SelfComposedDpEvent(ZCDpEvent(0.5), 3), 2.0)
        SelfComposedDpEvent(event=ZCDpEvent(rho=2.0, xi=0.0), count=3)
    """
    match event:
        case NoOpDpEvent():
            return event
        case BoundedRange():
            return BoundedRange(event.eta * by)
        case PureDP():
            return PureDP(event.epsilon * by)
        case GaussianDpEvent():
            return GaussianDpEvent(event.noise_multiplier / by)
        case ZCDpEvent():
            return attr.evolve(event, rho=event.rho * by**2)
        case ComposedDpEvent():
            parts = [with_less_noise(part, by) for part in event.events]
            return None if None in parts else ComposedDpEvent(parts)
        case WithFailure() | SelfComposedDpEvent() | PoissonSampledDpEvent() | SampledWithoutReplacementDpEvent():
            inner = with_less_noise(event.event, by)
            return None if inner is None else attr.evolve(event, event=inner)
    return None


def _epsilon_of(event: DpEvent, adjacency: Adjacency, delta: float) -> float:
    return float(RdpAccountant(adjacency).compose(event).report(delta).epsilon)


def _largest(fits: Callable[[float], bool]) -> float:
    """The largest number above 1 that fits, found by doubling and halving, within one part in a million, from below."""
    low, high = 1.0, 2.0
    while fits(high):
        low, high = high, 2 * high
    while high > low * (1 + _NARROW):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


EVERYTHING: Final = TradeOff.of_points([(0.0, 1.0)])
"""The curve of a release that gives the secret away: no false positives and no false negatives."""


def leaks_of(event: DpEvent | None, adjacency: Adjacency, delta: float = 0.0) -> dict[str, TradeOff]:
    """Curves of releases that leak twice, four times and all of what an event costs, by how much.

    Where nobody knows what a release with less noise would look like (``leaking``), or there is no event, only the
    release that gives everything away is left: no power against a smaller leak can be stated.

    Example:
        >>> [*leaks_of(PureDP(1.0), Adjacency.REPLACE_ONE)], [*leaks_of(None, Adjacency.REPLACE_ONE)]
        (['2 times the epsilon', '4 times the epsilon', 'everything'], ['everything'])
    """
    found: dict[str, TradeOff] = {}
    for factor in FACTORS if event is not None else ():
        curve = leaking(event, adjacency, factor, delta)
        if curve is not None:
            found[f"{factor} times the epsilon"] = curve
    return {**found, WHOLE: EVERYTHING}


@final
@dataclass(frozen=True)
class Power:
    """How surely an audit catches a release.

    Attributes:
        power: Chance that the claim is refuted.
        false_positive_rate: Of the best threshold; 0 where guesses on the surest canaries were counted.
    """

    power: float
    false_positive_rate: float


def power_of_rates(absent: int, present: int, claim: TradeOff, truth: TradeOff, alpha: float = ALPHA) -> Power:
    """The chance that rates refute a claim's curve, for a release on another curve; an exact sum.

    Args:
        absent: Runs without the secret.
        present: Runs with it.
        claim: The curve that is tested.
        truth: The curve of the release.
        alpha: Level of the test.

    Example:
        >>> claim, truth = TradeOff.of_points([(1.0, 0.0)]), TradeOff.of_points([(2.0, 0.0)])
        >>> round(power_of_rates(50, 50, claim, truth).power, 3)
        0.86
    """
    from scipy.special import betaincinv
    from scipy.stats import binom

    absent, present = _COUNT.read("absent", absent), _COUNT.read("present", present)
    half = _LEVEL.read("alpha", alpha) / 2

    def chance(fpr: float, fnr: float) -> float:
        positives = _window(absent, fpr)
        limits = np.where(
            positives < absent, betaincinv(positives + 1, np.maximum(absent - positives, 1), 1 - half), 1.0
        )
        most = binom.ppf(half, present, claim.fnr(limits)) - 1  # misses whose upper limit is below the curve
        caught = np.where(most >= 0, binom.cdf(most, present, fnr), 0.0)
        return float(binom.pmf(positives, absent, fpr) @ caught)

    points = _operating_points(truth, mirrored=absent != present)
    found = {at: chance(*points[at]) for at in range(0, len(points), _COARSE)}
    near = max(found, key=lambda at: found[at])
    around = range(max(0, near - _COARSE + 1), min(len(points), near + _COARSE))
    found |= {at: chance(*points[at]) for at in around if at not in found}
    best = max(found, key=lambda at: found[at])
    return Power(found[best], points[best][0])


def power_of_one_run(
    canaries: int,
    guesses: int,
    claim: TradeOff,
    truth: TradeOff,
    alpha: float = ALPHA,
    *,
    independent: bool = False,
) -> Power:
    """The chance that guesses on the surest canaries refute a claim's curve, at least.

    Args:
        canaries: Coins.
        guesses: On how many canaries is guessed.
        claim: The curve that is tested.
        truth: The curve of the release, which treats canaries independently.
        alpha: Level of the test.
        independent: Whether every canary has a trial of its own, so that the tighter test holds.

    Example:
        >>> round(power_of_one_run(1000, 100, TradeOff.of_mu(0.2), TradeOff.of_mu(0.8)).power, 2)
        1.0
    """
    from scipy.stats import beta, binom

    _LEVEL.read("alpha", alpha)

    def refuted(correct: int) -> bool:
        if independent:
            return independent_p_value(canaries, guesses, correct, claim) <= alpha
        return curve_refuted(canaries, guesses, correct, claim, alpha)

    if not refuted(guesses):
        return Power(0.0, 0.0)
    low, least = 0, guesses
    while low < least:
        middle = (low + least) // 2
        low, least = (low, middle) if refuted(middle) else (middle + 1, least)
    if guesses == canaries:
        return Power(float(binom.sf(least - 1, guesses, truth.accuracy)), 0.0)
    surer = np.clip(1 - beta.ppf(QUANTILES[:-1], canaries - guesses, guesses + 1), 0.0, 1.0)
    chances = binom.sf(least - 1, guesses, truth.confident(surer))
    return Power(float(chances @ np.diff(QUANTILES)), 0.0)


def runs_needed(
    claim: TradeOff, truth: TradeOff, power: float, alpha: float = ALPHA, most: int = MOST_RUNS
) -> int | None:
    """Runs of each world with which rates catch a release with this chance; ``None`` where ``most`` are too few.

    The chance is worked out for the number given. It rises in steps with dips between them, so that somewhat fewer
    runs can do as well.

    Example:
        >>> claim, truth = TradeOff.of_points([(1.0, 0.0)]), TradeOff.of_points([(2.0, 0.0)])
        >>> [runs_needed(claim, truth, power) for power in POWERS]
        [30, 47, 66]
    """
    power = _LEVEL.read("power", power)
    points = np.array(_operating_points(truth))
    if power > alpha and (claim.fnr(points[:, 0]) <= points[:, 1]).all():
        return None  # no attack on the release is beyond the claim

    def enough(runs: int) -> bool:
        return _power_of_as_many(runs, claim, truth, alpha) >= power

    return least_runs(enough, most)


@lru_cache(maxsize=1024)
def _power_of_as_many(runs: int, claim: TradeOff, truth: TradeOff, alpha: float) -> float:
    return power_of_rates(runs, runs, claim, truth, alpha).power


def least_runs(enough: Callable[[int], bool], most: int = MOST_RUNS) -> int | None:
    """A number of runs that is enough, found by doubling and halving; ``None`` where ``most`` are not."""
    high = 1
    while not enough(high):
        if high >= most:
            return None
        high = min(2 * high, most)
    low = high // 2
    while high - low > max(1, high // 256):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@final
@dataclass(frozen=True)
class Ceiling:
    """The largest bounds that an audit of this size can report.

    Attributes:
        perfect: If its attack never erred.
        on_curve: If the release sits exactly on its curve: what the audit reports in every other run.
        on_curve_most: The same in one run of twenty, by chance.
    """

    perfect: float
    on_curve: float
    on_curve_most: float

    def as_dict(self) -> dict[str, float]:
        """For JSON."""
        return asdict(self)


def ceiling_of_rates(absent: int, present: int, curve: TradeOff, delta: float = 0.0, alpha: float = ALPHA) -> Ceiling:
    """What an audit by rates can report at most (``epsilon_of_rates``), at the threshold that is best for the curve.

    Example:
        >>> ceiling = ceiling_of_rates(500, 500, TradeOff.of_points([(2.0, 0.0)]))
        >>> round(ceiling.perfect, 4), round(ceiling.on_curve, 2), round(ceiling.on_curve_most, 2)
        (4.9056, 1.78, 1.95)
    """
    from scipy.special import betaincinv
    from scipy.stats import binom

    absent, present = _COUNT.read("absent", absent), _COUNT.read("present", present)
    perfect = epsilon_of_rates(Rates(0, absent, 0, present), delta, alpha)
    half = alpha / 2
    best = (0.0, 0.0)
    for fpr, fnr in _operating_points(curve):
        positives, negatives = _window(absent, fpr), _window(present, fnr)
        a, b = (
            np.where(count < runs, betaincinv(count + 1, np.maximum(runs - count, 1), 1 - half), 1.0)
            for count, runs in ((positives, absent), (negatives, present))
        )
        chances = (binom.pmf(positives, absent, fpr), binom.pmf(negatives, present, fnr))
        share = _share_below(1 - delta, a, b, *(chance / chance.sum() for chance in chances))
        if best[0] and share(np.nextafter(best[0], 0.0)) >= _SHARES[0]:
            continue  # half of the bounds are smaller
        largest = 1 - math.log(min(a[0], b[0]))
        best = max(best, (_least(share, _SHARES[0], largest), _least(share, _SHARES[1], largest)))
    return Ceiling(perfect, *best)


def ceiling_of_one_run(
    canaries: int, guesses: int, curve: TradeOff, delta: float = 0.0, alpha: float = ALPHA
) -> Ceiling:
    """What ``epsilon_of_one_run`` can report at most, if the release treats canaries independently.

    Example:
        >>> ceiling = ceiling_of_one_run(1000, 100, TradeOff.of_mu(0.5), 1e-5)
        >>> round(ceiling.perfect, 4), round(ceiling.on_curve, 2)
        (3.4654, 0.65)
    """
    from scipy.stats import beta, binom

    perfect = epsilon_of_one_run(canaries, guesses, guesses, delta, alpha)
    if guesses == canaries:
        counts = [float(binom.ppf(share, guesses, curve.accuracy)) for share in (0.5, 0.95)]
    else:
        surer = np.clip(1 - beta.ppf(QUANTILES[1:], canaries - guesses, guesses + 1), 0.0, 1.0)
        right, weight = curve.confident(surer)[:, None], np.diff(QUANTILES)
        cumulated = weight @ binom.cdf(np.arange(guesses + 1), guesses, right)
        counts = [float(np.searchsorted(cumulated, share)) for share in (0.5, 0.95)]
    middle, high = (epsilon_of_one_run(canaries, guesses, min(int(n), guesses), delta, alpha) for n in counts)
    return Ceiling(perfect, middle, high)


def _share_below(
    most: float, fpr: FloatArray, fnr: FloatArray, of_fpr: FloatArray, of_fnr: FloatArray
) -> Callable[[float], float]:
    """The chance of a bound of at most so much, from upper limits of two rates that are independent.

    The bound falls as a limit rises, so that it need not be worked out for every pair of them.

    Args:
        most: 1 less delta.
        fpr: Limits of one rate, rising.
        fnr: Limits of the other rate, rising.
        of_fpr: Chance of each.
        of_fnr: Chance of each.
    """
    from_there = np.append(np.cumsum(of_fnr[::-1])[::-1], 0.0)

    def share(bound: float) -> float:
        least = np.maximum(most - fpr * math.exp(bound), (most - fpr) * math.exp(-bound))
        return float(of_fpr @ from_there[np.searchsorted(fnr, least)])

    return share


def _least(share: Callable[[float], float], enough: float, largest: float) -> float:
    """The least bound, 0 or more, with this chance of one of at most as much; ``largest`` has it."""
    if share(0.0) >= enough:
        return 0.0
    low, high = 0.0, largest
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if share(middle) >= enough else (middle, high)
    return high


@final
@dataclass(frozen=True)
class Forecast:
    """What an audit of a size would find, and what size it would take.

    Attributes:
        leak: Such as "2 times the epsilon".
        power: Chance that the planned audit refutes the claim.
        runs: Runs of each world for each of ``POWERS``; ``None`` where more than ``MOST_RUNS``.
    """

    leak: str
    power: float
    runs: dict[float, int | None]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"leak": self.leak, "power": self.power, "runs": {f"{power}": n for power, n in self.runs.items()}}


def forecast(
    event: DpEvent, adjacency: Adjacency, absent: int, present: int, delta: float = 0.0, alpha: float = ALPHA
) -> list[Forecast]:
    """The power of an audit by rates against releases that leak twice, four times and all of what is claimed.

    Those of ``leaks_of``.

    Example:
        >>> [(row.leak, round(row.power, 2)) for row in forecast(PureDP(1.0), Adjacency.REPLACE_ONE, 30, 30)]
        [('2 times the epsilon', 0.52), ('4 times the epsilon', 1.0), ('everything', 1.0)]
    """
    claim = TradeOff.of_event(event, adjacency)
    return [
        Forecast(
            leak,
            power_of_rates(absent, present, claim, truth, alpha).power,
            {power: runs_needed(claim, truth, power, alpha) for power in POWERS},
        )
        for leak, truth in leaks_of(event, adjacency, delta).items()
    ]


def _operating_points(curve: TradeOff, *, mirrored: bool = True) -> list[tuple[float, float]]:
    """Error rates of attacks on a curve, in order: on one side of its middle, and their mirror images if asked.

    With as many runs of each world the mirror image of a threshold is as good as it is.
    """
    missed = curve.fnr(_RATES)
    below = missed + 1e-12 >= _RATES
    pairs = [*zip(_RATES[below].tolist(), missed[below].tolist(), strict=True)]
    middle = 1 - curve.accuracy
    pairs.append((middle, middle))
    images = [(fnr, fpr) for fpr, fnr in reversed(pairs) if fpr != fnr]
    return [*pairs, *(images if mirrored else [])]


def _window(runs: int, rate: float) -> FloatArray:
    """The counts that are likely, as floats; those left out together have a chance below 1e-8."""
    spread = _DEVIATIONS * math.sqrt(runs * rate * (1 - rate)) + 12
    low, high = max(0, math.floor(runs * rate - spread)), min(runs, math.ceil(runs * rate + spread))
    return np.arange(low, high + 1, dtype=np.float64)
