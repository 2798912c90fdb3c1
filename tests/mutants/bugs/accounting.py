"""Planted in the accountant: conversions, compositions, failures, sampling, groups, calibration."""

from __future__ import annotations

from mutants.mutant import Mutant

ACCOUNTANT = ("tests/privacy/accounting/test_accountant.py",)
OPTIMAL = ("tests/privacy/accounting/test_adaptive_composition.py",)
PROFILES = ("tests/privacy/accounting/test_profiles.py",)
AMPLIFICATION = ("tests/privacy/accounting/test_amplification.py",)
SAMPLED = (
    "tests/privacy/accounting/test_accountant.py::test_sampled_events_are_held_to_the_adjacency_of_their_sampling",
)
GROUPS = ("tests/privacy/accounting/test_groups.py",)
CALIBRATION = ("tests/privacy/accounting/test_calibration.py",)
HOLES = ("tests/mutants/test_holes.py",)
GOLDEN = ("tests/privacy/accounting/test_golden.py",)

MUTANTS = [
    Mutant(
        "numbers-read-and-thrown-away",
        "numbers of an event are checked and priced as they were, and an 8-bit count overflows",
        "privacy/plain_events.py",
        "values[name] = limit.read(",
        "limit.read(",
        ("tests/privacy/test_plain_events.py",),
    ),
    Mutant(
        "conversion-without-its-term",
        "the conversion of Renyi divergences forgets the orders' own term: figures are not those that are printed",
        "privacy/accounting/renyi.py",
        "rdp + np.log1p(-1 / alphas) - (math.log(delta) + np.log(alphas)) / (alphas - 1)",
        "rdp - math.log(delta) / (alphas - 1)",
        ACCOUNTANT,
    ),
    Mutant(
        "conversion-at-the-wrong-order",
        "the logarithm of delta is divided by the order, not by the order less one",
        "privacy/accounting/renyi.py",
        "(math.log(delta) + np.log(alphas)) / (alphas - 1)",
        "(math.log(delta) + np.log(alphas)) / alphas",
        ACCOUNTANT,
    ),
    Mutant(
        "pure-at-an-eighth",
        "a pure release is charged epsilon squared over eight, which holds for bounded range alone",
        "privacy/accounting/renyi.py",
        "return epsilon * math.tanh(epsilon / 2) if epsilon >= 0 else math.nan",
        "return epsilon * epsilon / 8 if epsilon >= 0 else math.nan",
        ACCOUNTANT,
    ),
    Mutant(
        "rho-without-square",
        "Gaussian noise is charged one over twice its multiplier, not over twice the square",
        "privacy/accounting/event_cost.py",
        "return mu * mu / 2",
        "return mu / 2",
        GOLDEN,
    ),
    Mutant(
        "failure-not-charged",
        "the probability of a failure is left out of a ledger's charge",
        "privacy/accounting/event_cost.py",
        "return EventCost(inner.rho, inner.epsilon, inner.delta + event.delta)",
        "return inner",
        ("tests/privacy/accounting/test_accountant.py", "tests/mechanisms/test_stability_histogram.py"),
    ),
    Mutant(
        "failure-delta-forgotten",
        "all of delta goes into the conversion although failures have used a part of it",
        "privacy/accounting/composition.py",
        "return float(left) * (1 - 1e-15)",
        "return delta",
        ACCOUNTANT,
    ),
    Mutant(
        "exclusive-max-in-a-composition",
        "the larger of two deltas, which holds for a single release, is taken for several",
        "privacy/accounting/composition.py",
        "failure += count * (exact(event.delta) + inner.failure)",
        "failure = max(failure, exact(event.delta) + inner.failure)",
        ACCOUNTANT,
    ),
    Mutant(
        "exclusive-for-equal-releases",
        "many releases of one kind are taken for a single one that excludes its failure",
        "privacy/accounting/composition.py",
        "if left < 0 or self.exclusive or self.failure == 0:",
        "if left < 0 or self.steps >= 1:",
        ACCOUNTANT,
    ),
    Mutant(
        "off-by-one-t",
        "the recursion makes one step too few",
        "privacy/accounting/adaptive_composition.py",
        "for _ in range(steps):",
        "for _ in range(steps - 1):",
        OPTIMAL,
    ),
    Mutant(
        "t6-lower-grid",
        "the lower side of the interval is reported as the bound",
        "privacy/accounting/adaptive_composition.py",
        "_, above = optimal_profile(eta, steps, reach, grid)",
        "_, above = optimal_profile(eta, steps, reach, grid, upper=False)",
        OPTIMAL,
    ),
    Mutant(
        "rest-of-the-losses-dropped",
        "of many composed releases those past a multiple of the block are lost",
        "privacy/accounting/loss_distribution.py",
        "return bulk.plus(self.times(rest, delta)) if rest and bulk.floor <= delta else bulk",
        "return bulk",
        PROFILES,
    ),
    Mutant(
        "one-direction-only",
        "under Poisson sampling only the cheaper direction of a change is priced",
        "privacy/accounting/profiles.py",
        'directions = ["remove", "add"] if any(pair.add is not pair.remove for pair, _ in pairs) else ["remove"]',
        'directions = ["add"]',
        PROFILES,
    ),
    Mutant(
        "prism-formula-as-a-bound",
        "steps are composed by PRISM's stated formula, which drops the term that makes it true",
        "privacy/accounting/accountant.py",
        "return optimal_bound(event.eta, steps, delta, grid) if grid else None",
        "return event.eta * math.sqrt(2 * steps * -math.log(delta))",
        ACCOUNTANT,
    ),
    Mutant(
        "prism-formula-where-recursion-takes-long",
        "the formula with the dropped term stands in where the recursion is left out",
        "privacy/accounting/accountant.py",
        "return optimal_bound(event.eta, steps, delta, grid) if grid else None",
        "return optimal_bound(event.eta, steps, delta, grid) if grid else "
        "event.eta * math.sqrt(2 * steps * -math.log(delta))",
        HOLES,
    ),
    Mutant(
        "zcdp-conversion-without-rho",
        "a total of rho is converted to 2 sqrt(rho ln(1/delta)), without rho itself",
        "privacy/accounting/accountant.py",
        "return epsilon_of_rho(rho, delta) if math.isfinite(rho) else math.inf",
        "return 2 * math.sqrt(-rho * math.log(delta)) if math.isfinite(rho) else math.inf",
        ACCOUNTANT,
    ),
    Mutant(
        "steps-of-one-kind-counted-once",
        "equal releases are added to Renyi divergences once, however often they occur",
        "privacy/accounting/accountant.py",
        "total += count * _rdp_of(event)",
        "total += _rdp_of(event)",
        ACCOUNTANT,
    ),
    Mutant(
        "per-part-amplification",
        "every release from one sample is amplified by itself",
        "privacy/accounting/amplification.py",
        "self._event = PoissonSampledDpEvent(self._rate, base)",
        "self._event = ComposedDpEvent([PoissonSampledDpEvent(self._rate, part) for part in self._parts])",
        HOLES,
    ),
    Mutant(
        "poisson-under-fixed-size",
        "a sample of fixed size is priced as independent coins",
        "privacy/accounting/amplification.py",
        "self._event = SampledWithoutReplacementDpEvent(self._population, self._size, base)",
        "self._event = PoissonSampledDpEvent((self._size or 0) / (self._population or 1), base)",
        AMPLIFICATION,
    ),
    Mutant(
        "fixed-size-under-add-remove",
        "a sample of fixed size is amplified where the number of records is private",
        "privacy/accounting/composition.py",
        "SampledWithoutReplacementDpEvent: (Adjacency.REPLACE_ONE,),",
        "SampledWithoutReplacementDpEvent: (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE),",
        SAMPLED,
    ),
    Mutant(
        "drop-base-amplified",
        "a base release that holds for a vanished record is amplified where a present one re-evaluates its prompt",
        "privacy/accounting/amplification.py",
        "if is_drop(change) and (grouped or not rule.drop):",
        "if is_drop(change) and grouped and not rule.drop:",
        AMPLIFICATION,
    ),
    Mutant(
        "sampled-again",
        "a release that is a sample already is amplified a second time",
        "privacy/accounting/amplification.py",
        "if holds_sample(event):",
        "if holds_sample(event) and count > 1:",
        AMPLIFICATION,
    ),
    Mutant(
        "k-for-k-squared",
        "a group of k units costs k times rho",
        "privacy/accounting/groups.py",
        "return ZCDpEvent(_times(units**2, event.rho))",
        "return ZCDpEvent(_times(units, event.rho))",
        GROUPS,
    ),
    Mutant(
        "root-k-for-k",
        "a group of k units moves Gaussian noise by the root of k",
        "privacy/accounting/groups.py",
        "return GaussianDpEvent(_shared(event.noise_multiplier, units))",
        "return GaussianDpEvent(event.noise_multiplier / math.sqrt(units))",
        GROUPS,
    ),
    Mutant(
        "group-delta-times-k",
        "a group's delta is k times one unit's, without its powers of e",
        "privacy/accounting/groups.py",
        "return _times(units, epsilon), min(1.0, delta * factor * (1 + FLOAT_MARGIN if units > 1 else 1))",
        "return _times(units, epsilon), min(1.0, delta * units)",
        GROUPS,
    ),
    Mutant(
        "calibrated-to-the-wrong-side",
        "a parameter that is rounded past the target is taken, for being so near",
        "privacy/accounting/calibration.py",
        "if (final := report(parameter)).epsilon <= epsilon:",
        "if (final := report(parameter)).epsilon <= epsilon * (1 + 10.0**-digits):",
        HOLES,
    ),
    Mutant(
        "delta-of-the-base-not-divided",
        "the base of a sampled release gets delta times the rate, where it has delta over the rate to spend",
        "privacy/accounting/calibration.py",
        "delta / rate * (1 - FLOAT_MARGIN)",
        "delta * rate * (1 - FLOAT_MARGIN)",
        CALIBRATION,
    ),
]
