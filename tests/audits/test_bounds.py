"""Audit bounds: the specification's numbers (O23), and P8, their coverage, by exact sums over every outcome."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from sottovoce.audits.bounds import (
    Rates,
    accuracy_cap,
    accuracy_cap_of_mu,
    epsilon_of_accuracy,
    epsilon_of_one_run,
    epsilon_of_rates,
    mu_of_rates,
)
from sottovoce.errors import ParameterError
from sottovoce.intervals import upper_limit


@pytest.mark.parametrize(("epsilon", "cap"), [(1, 0.73106), (2, 0.88080), (4, 0.98201), (8, 0.99966)])
def test_caps_of_pure_privacy(epsilon, cap):
    assert accuracy_cap(epsilon) == pytest.approx(cap, abs=5e-6)


def test_caps_of_the_gaussian_are_lower_than_those_of_its_epsilon():
    for epsilon, mu, cap in ((1, 0.2681, 0.5533), (2, 0.5016, 0.5990), (4, 0.9249, 0.6781), (8, 1.6660, 0.7976)):
        assert accuracy_cap_of_mu(mu) == pytest.approx(cap, abs=1e-4)
        assert accuracy_cap_of_mu(mu) < accuracy_cap(epsilon, 1e-5)


@pytest.mark.parametrize(
    ("counts", "delta", "expected"),
    [
        ((0, 500, 0, 500), 0.0, 4.905594),
        ((5, 500, 250, 500), 0.0, 2.977575),
        ((3, 200, 120, 200), 0.0, 2.0377),
        ((3, 200, 120, 200), 1e-5, 2.0377),
        ((3, 200, 120, 200), 0.05, 1.8743),
    ],
)
def test_o23_rates(counts, delta, expected):
    assert epsilon_of_rates(Rates(*counts), delta) == pytest.approx(expected, abs=5e-5)


def test_o23_gaussian_audit():
    assert mu_of_rates(Rates(5, 500, 250, 500)) == pytest.approx(1.879757, abs=1e-6)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ((100, 100, 90, 0.0), 1.630823),
        ((100, 100, 90, 1e-5), 1.630358),
        ((1000, 100, 100, 1e-5), 3.465376),
        ((1000, 1000, 700, 1e-5), 0.731740),
    ],
)
def test_o23_one_run(run, expected):
    assert epsilon_of_one_run(*run) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("accuracy", "bounds"),
    [
        (0.666, (0.341, 0.507, 0.578)),
        (0.75, (0.702, 0.904, 0.977)),
        (0.885, (1.469, 1.777, 1.875)),
        (0.968, (2.502, 2.920, 3.109)),
    ],
)
def test_accuracies_become_bounds_only_with_the_number_of_runs(accuracy, bounds):
    for runs, bound in zip((100, 400, 1000), bounds, strict=True):
        assert epsilon_of_accuracy(round(accuracy * runs), runs) == pytest.approx(bound, abs=1e-3)
        assert bound < math.log(accuracy / (1 - accuracy))


def miscoverage(bound, truth: float, false_positive: float, false_negative: float, runs: int = 60) -> float:
    """The exact chance that the bound exceeds the truth, with the secret's coin among the sums."""
    total = 0.0
    for absent, weight in enumerate(binom.pmf(np.arange(runs + 1), runs, 0.5)):
        if weight < 1e-6 or absent in (0, runs):
            total += weight
            continue
        present = runs - absent
        fp = binom.pmf(np.arange(absent + 1), absent, false_positive)
        fn = binom.pmf(np.arange(present + 1), present, false_negative)
        for i in np.flatnonzero(fp > 1e-9):
            worst = next((j for j in range(present + 1) if bound(Rates(int(i), absent, j, present)) <= truth), None)
            total += weight * fp[i] * (fn.sum() if worst is None else fn[:worst].sum())
    return total


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_p8_the_bound_on_randomised_response_is_too_high_at_most_one_time_in_twenty(epsilon):
    wrong = 1 / (1 + math.exp(epsilon))
    assert miscoverage(epsilon_of_rates, epsilon, wrong, wrong) <= 0.05
    # A point estimate in the bound's place fails: it is too high about every other time.
    assert miscoverage(_log_odds, epsilon, wrong, wrong) > 0.3


@pytest.mark.cases(1)
@pytest.mark.parametrize("mu", [0.5, 1.0])
def test_p8_the_gaussian_bound_keeps_its_confidence(mu):
    false_positive, false_negative = norm.sf(mu / 2), norm.cdf(-mu / 2)
    assert miscoverage(mu_of_rates, mu, false_positive, false_negative) <= 0.05


def test_p8_an_attack_on_nothing_raises_a_false_alarm_at_most_one_time_in_twenty():
    assert miscoverage(epsilon_of_rates, 0.0, 0.5, 0.5) <= 0.05
    wins = np.arange(101)
    alarms = [v for v in wins if epsilon_of_one_run(100, 100, int(v)) > 0]
    assert binom.pmf(alarms, 100, 0.5).sum() <= 0.05
    # At twice the level the same rule would be wrong more often than claimed.
    loose = [v for v in wins if epsilon_of_one_run(100, 100, int(v), alpha=0.2) > 0]
    assert binom.pmf(loose, 100, 0.5).sum() > 0.05


def test_p8_one_run_on_randomised_response_keeps_its_confidence():
    right = 1 / (1 + math.exp(-1.0))
    above = [v for v in range(101) if epsilon_of_one_run(100, 100, v) > 1.0]
    assert 0 < binom.pmf(above, 100, right).sum() <= 0.05


def test_the_miscoverage_of_an_ordinary_audit_is_far_below_its_level():
    # Specification 10.3 reports 0.0067 at nominal 0.05 for 400 runs; with 60 it is as conservative.
    wrong = 1 / (1 + math.exp(1.0))
    assert miscoverage(epsilon_of_rates, 1.0, wrong, wrong) < 0.02


@pytest.mark.parametrize("counts", [(-1, 10, 0, 10), (11, 10, 0, 10), (0, 0, 0, 10), (0, 10, 11, 10)])
def test_counts_that_cannot_be_are_refused(counts):
    with pytest.raises(ParameterError, match="from 0 to its number of runs"):
        Rates(*counts)


def test_levels_and_guesses_that_cannot_be_are_refused():
    with pytest.raises(ParameterError, match="alpha"):
        epsilon_of_rates(Rates(0, 10, 0, 10), alpha=0)
    with pytest.raises(ParameterError, match="guesses"):
        epsilon_of_one_run(10, 11, 5)
    with pytest.raises(ParameterError, match="correct"):
        epsilon_of_accuracy(11, 10)


def test_an_upper_limit_covers_by_its_own_definition():
    # The chance of 3 or fewer in 200 at the limit is alpha: the definition, not the beta quantile.
    assert binom.cdf(3, 200, upper_limit(3, 200, 0.025)) == pytest.approx(0.025, abs=1e-9)


def _log_odds(rates: Rates) -> float:
    right = rates.absent - rates.false_positives + rates.present - rates.false_negatives
    runs = rates.absent + rates.present
    return math.inf if right == runs else math.log(max(right, 1) / (runs - right))
