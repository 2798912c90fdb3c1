"""Exact leakage beside an estimate from redrawn noise, and two published flaws: where either is beyond the claim.

    sotto bench run contextleak-snapshots

The estimator is SnapAudit's as far as its abstract states it: clean outputs once, 10^5 redraws of the noise, rates with
an empirical Bernstein correction (Maurer and Pontil 2009), a conversion through Gaussian DP. The exact law needs none
of these. The pair is the worst one of each release: two worlds whose sums differ by the whole sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from sottovoce.audits.bounds import ALPHA
from sottovoce.audits.exact.pair import GaussianPair, Pair, exact_epsilon
from sottovoce.audits.roc import BoolArray, FloatArray
from sottovoce.benchmarks.contextleak.grid import smaller
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Key, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.results import ReportSection, Table
from sottovoce.privacy.accounting.gaussian_dp import epsilon_of_mu, mu_of_budget

EXACT, ESTIMATE = "exact", "estimate"
REDRAWS: Final = 100_000
SOUND, CLASSICAL, ONE_PARTITION, RESPONSE = (
    "Gaussian noise, calibrated to the claim",
    "Gaussian noise of sqrt(2 ln(1.25 / delta)) / epsilon",
    "embeddings with one partition, sensitivity of a vanished one",
    "labels: randomised response",
)


def classical_mu(epsilon: float, delta: float) -> float:
    """Distance of two worlds under the classical calibration, which is proved for an epsilon below 1 alone."""
    return epsilon / math.sqrt(2 * math.log(1.25 / delta))


RELEASES: Final[Mapping[str, Callable[[float], float]]] = {
    SOUND: lambda epsilon: mu_of_budget(epsilon, e.DELTA),
    CLASSICAL: lambda epsilon: classical_mu(epsilon, e.DELTA),
    ONE_PARTITION: lambda epsilon: 2 * mu_of_budget(epsilon, e.DELTA),
}
"""Releases of noisy numbers: the claimed epsilon to the distance of both worlds, in deviations."""


def bernstein(hits: BoolArray) -> float:
    """An upper limit of a rate at half the level.

    Example:
        >>> bernstein(np.zeros(101, dtype=bool)).__round__(4)
        0.1022
    """
    n, log = len(hits), math.log(2 / (ALPHA / 2))
    deviation = math.sqrt(2 * float(hits.var(ddof=1)) * log / n)
    return min(1.0, float(hits.mean()) + deviation + 7 * log / (3 * (n - 1)))


def estimated_epsilon(false_positives: BoolArray, false_negatives: BoolArray, delta: float) -> float:
    """Epsilon of the Gaussian release that would show such rates at least, one entry a redraw."""
    from scipy.special import ndtri

    mu = -float(ndtri(bernstein(false_positives))) - float(ndtri(bernstein(false_negatives)))
    return epsilon_of_mu(mu, delta) if mu > 0 else 0.0


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Every release at every price; the noise is drawn from the piece's seed."""
    draws = np.random.default_rng(piece.seed)
    for epsilon in bench.settings.epsilons:
        key = Key(piece.task, piece.names, "", epsilon=epsilon)
        for name, mu_of in RELEASES.items():
            mu = mu_of(epsilon)
            noise: FloatArray = draws.standard_normal((2, REDRAWS))
            yield replace(key, method=name, quantity=EXACT), exact_epsilon(GaussianPair(mu), e.DELTA)
            found = estimated_epsilon(noise[0] >= mu / 2, noise[1] < -mu / 2, e.DELTA)
            yield replace(key, method=name, quantity=ESTIMATE), found
        odds = 1 / (1 + math.exp(epsilon))
        coins = draws.random((2, REDRAWS)) < odds
        pair = Pair.of([1 - odds, odds], [odds, 1 - odds])
        yield replace(key, method=RESPONSE, quantity=EXACT), exact_epsilon(pair, e.DELTA)
        yield replace(key, method=RESPONSE, quantity=ESTIMATE), estimated_epsilon(coins[0], coins[1], e.DELTA)


def section(result: Result) -> ReportSection:
    """One table, and where either figure is beyond the claim."""
    rows = []
    for name in (*RELEASES, RESPONSE):
        for epsilon in result.settings.epsilons:
            exact, found = (_values(result, name, epsilon, quantity) for quantity in (EXACT, ESTIMATE))
            beyond = "yes" if exact > epsilon * 1.001 else "no"
            rows.append((name, f"{epsilon:g}", f"{exact:.3f}", f"{found:.3f}", beyond))
    columns = ("release", "claimed epsilon", "exact", "estimate", "exact beyond the claim")
    note = (
        f"delta {e.DELTA:g}. Estimate: the largest over draws of {REDRAWS:,} redraws of each world, each with 95 % "
        "confidence if the release is Gaussian. Of labels the conversion through Gaussian DP is an extrapolation "
        "(specification 10.4): it says more than the labels give away."
    )
    run = [(what, value) for what, value in about(result) if what not in ("Model", "Model asked")]
    tables = [Table("Exact leakage and an estimate of it", columns, rows, note)]
    return ReportSection(
        result.experiment, EXPERIMENT.title, EXPERIMENT.source, _reading(result), tables, [], run
    )  # fmt: skip


def _values(result: Result, name: str, epsilon: float, quantity: str) -> float:
    cell = next(c for c in result.cells if (c.key.method, c.key.epsilon, c.key.quantity) == (name, epsilon, quantity))
    return max(cell.values)


def _reading(result: Result) -> list[str]:
    epsilons = result.settings.epsilons
    pairs = [tuple(_values(result, n, x, q) for q in (EXACT, ESTIMATE)) for n in RELEASES for x in epsilons]
    above = sum(found > exact for exact, found in pairs)
    least = min(found / exact for exact, found in pairs)
    flawed = {name: [x for x in epsilons if _values(result, name, x, EXACT) > x * 1.001] for name in RELEASES}
    seen = all(_values(result, name, x, ESTIMATE) > x for name, found in flawed.items() for x in found)
    words = {name: ", ".join(f"{x:g}" for x in found) or "none" for name, found in flawed.items()}
    over = max(_values(result, RESPONSE, x, ESTIMATE) / _values(result, RESPONSE, x, EXACT) for x in epsilons)
    return [
        f"Where noisy numbers are released the estimate exceeds the exact leakage in {above} of {len(pairs)} settings, "
        f"and reaches {100 * least:.0f} % of it at least. The exact figure takes no redraw.",
        f"Claimed epsilons that the exact leakage exceeds: {words[CLASSICAL]} of the classical noise, and "
        f"{words[ONE_PARTITION]} of embeddings with one partition; {words[SOUND]} of noise that is calibrated to the "
        f"claim. The estimate finds {'all' if seen else 'not all'} of them.",
        f"Of labels the estimate is up to {over:.1f} times what they give away. Here lower bounds of labels are drawn "
        "from rates, without that conversion.",
    ]


SETTINGS: Final = Settings(
    seeds=3, queries=1, names=("own",), tasks=("tickets",), epsilons=(1.0, 4.0, 8.0, 10.0, 20.0), adjacencies=(),
    records=(),
)  # fmt: skip
EXPERIMENT: Final = Experiment(
    name="contextleak-snapshots",
    title="Is an estimate from redrawn noise as good as the exact law?",
    source="SnapAudit: its estimator, and the two flaws that it reports",
    settings=SETTINGS,
    measure=measure,
    section=section,
    quick=smaller(SETTINGS),
)
