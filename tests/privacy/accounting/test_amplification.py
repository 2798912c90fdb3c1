"""Amplification by sampling: the table, and every bound against enumeration of all samples of small data sets."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sottovoce.errors import AssignmentError, ParameterError
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.accounting.adaptive_composition import optimal_profile
from sottovoce.privacy.accounting.amplification import RULES, Sampling, SharedSample, point_of
from sottovoce.privacy.accounting.bounded_range import rdp_of_bounded_range
from sottovoce.privacy.accounting.composition import require_adjacency
from sottovoce.privacy.accounting.profiles import epsilon_of_plan, profile_of
from sottovoce.privacy.accounting.renyi import epsilon_of_rdp
from sottovoce.privacy.accounting.subsampled_profiles import amplified_profile, epsilon_of_sampled, symmetric
from sottovoce.privacy.events import (
    ApproximateDP,
    BoundedRange,
    ComposedDpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    PureDP,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    WithFailure,
    ZCDpEvent,
    describe,
)
from sottovoce.privacy.unit import DROP, SWAP, TWO_SWAP, Adjacency
from worlds import hockey_stick, losses

AR, RO, ZO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT
EPSILONS = (-0.5, -0.05, 0.0, 0.05, 0.2, 0.5, 1.0)


def selection(votes, rate=1.0, prior=(0.0, 0.0)):
    """The exponential mechanism on counts of votes for 0 and 1, with a public prior in nats."""
    weights = np.exp([rate * votes.count(y) + prior[y] for y in (0, 1)])
    return weights / weights.sum()


def poisson_law(records, q, release):
    """Summed over all subsets."""
    total = 0.0
    for chosen in itertools.product((False, True), repeat=len(records)):
        weight = math.prod(q if one else 1 - q for one in chosen)
        total = total + weight * release([r for r, one in zip(records, chosen, strict=True) if one])
    return total


def subset_law(records, m, release):
    """Averaged over all subsets of m positions."""
    return np.mean([release([records[i] for i in s]) for s in itertools.combinations(range(len(records)), m)], axis=0)


def exceeds(profile, p, q):
    """By how much the worse direction of a pair exceeds a profile, at most."""
    most = profile(np.array(EPSILONS))
    found = [max(hockey_stick(p, q, e), hockey_stick(q, p, e)) for e in EPSILONS]
    return float((np.array(found) - most).max())


def test_p5_poisson_over_all_subsets():
    for q, rate in ((0.2, 1.0), (0.6, 2.0)):
        sampled = PoissonSampledDpEvent(q, BoundedRange(rate))
        profile, gap = profile_of(sampled, AR), []
        for records in itertools.product((0, 1), repeat=4):
            for prior in ((0, 0), (0, 3), (0, -3)):
                with_one = poisson_law(records, q, lambda s, r=rate, b=prior: selection(s, r, b))
                without = poisson_law(records[:-1], q, lambda s, r=rate, b=prior: selection(s, r, b))
                gap.append(exceeds(profile, with_one, without))
                assert np.abs(losses(with_one, without)).max() <= epsilon_of_sampled(rate, q) + 1e-12
        assert max(gap) <= 1e-12
        halved = profile_of(PoissonSampledDpEvent(q / 2, BoundedRange(rate)), AR)
        assert exceeds(halved, with_one, without) > 1e-4  # half the rate would be caught


def test_p5_poisson_under_replacement_with_the_swap_profile():
    q, rate = 0.3, 1.0
    profile = profile_of(PoissonSampledDpEvent(q, BoundedRange(2 * rate)), RO)
    drop = profile_of(PoissonSampledDpEvent(q, BoundedRange(rate)), RO)
    gaps, careless = [], []
    for others in itertools.product((0, 1), repeat=3):
        for prior in ((0, 0), (0, 2), (0, -2)):
            laws = [poisson_law([*others, x], q, lambda s, b=prior: selection(s, rate, b)) for x in (0, 1)]
            gaps.append(exceeds(profile, *laws))
            careless.append(exceeds(drop, *laws))
    assert max(gaps) <= 1e-12
    assert max(careless) > 1e-4  # the profile of presence alone does not cover replacement


def test_p5_without_replacement_over_all_subsets():
    n, m, rate = 5, 2, 1.0
    event = SampledWithoutReplacementDpEvent(n, m, BoundedRange(2 * rate))
    profile, gaps, careless = profile_of(event, RO), [], []
    drop = profile_of(SampledWithoutReplacementDpEvent(n, m, BoundedRange(rate)), RO)
    for others in itertools.product((0, 1), repeat=n - 1):
        for prior in ((0, 0), (0, 2), (0, -2)):
            laws = [subset_law([*others, x], m, lambda s, b=prior: selection(s, rate, b)) for x in (0, 1)]
            gaps.append(exceeds(profile, *laws))
            careless.append(exceeds(drop, *laws))
    assert max(gaps) <= 1e-12
    assert max(careless) > 1e-4


def test_p5_a_shared_sample_is_covered_by_amplifying_once_and_not_by_amplifying_each_part():
    q, rate, parts = 0.1, 1.0, 3
    prior = (0.0, -6.0)  # a vote for 1 multiplies its chance by almost e

    def together(sample):
        one = selection(sample, rate, prior)
        return np.array([math.prod(one[y] for y in ys) for ys in itertools.product((0, 1), repeat=parts)])

    laws = [poisson_law(records, q, together) for records in ((0, 1), (0,))]
    once = PoissonSampledDpEvent(q, SelfComposedDpEvent(BoundedRange(rate), parts))
    assert exceeds(profile_of(once, AR), *laws) <= 1e-12
    worst = np.abs(losses(*laws)).max()
    assert worst <= epsilon_of_sampled(parts * rate, q)
    assert worst > parts * epsilon_of_sampled(rate, q) + 0.1


def categorical_law(records, q, slots=2):
    """Every record picks a slot or none; a slot says whether it holds x; an empty one is null."""
    total = np.zeros(2)
    for drawn in itertools.product((None, *range(slots)), repeat=len(records)):
        members = [[r for r, slot in zip(records, drawn, strict=True) if slot == s] for s in range(slots)]
        votes = [int("x" in one) for one in members if one]
        total += math.prod(1 - q if slot is None else q / slots for slot in drawn) * selection(votes)
    return total


def test_o24_grouped_experts_need_the_swap_loss():
    exact = np.abs(losses(categorical_law("aaaaaaax", 0.4), categorical_law("aaaaaaa", 0.4))).max()
    assert exact == pytest.approx(0.582471, abs=1e-6)
    swap = SharedSample(Sampling.CATEGORICAL, AR, change=SWAP, grouped=True, rate=0.4)
    swap.release(BoundedRange(2.0))
    bound = RdpAccountant(AR).compose(swap.amplified()).report(0.0).epsilon
    assert bound == pytest.approx(1.268530, abs=1e-6)
    assert epsilon_of_sampled(1.0, 0.4) == pytest.approx(0.523137, abs=1e-6)
    assert epsilon_of_sampled(1.0, 0.4) < exact < bound
    with pytest.raises(AssignmentError, match="re-evaluated"):
        SharedSample(Sampling.CATEGORICAL, AR, change=DROP, grouped=True, rate=0.4)


def test_the_table_of_section_7():
    # Written out again by hand: which adjacencies a sampling has, and whether a drop will do as its base.
    expected = {
        (Sampling.POISSON, AR): True,
        (Sampling.POISSON, RO): False,
        (Sampling.WITHOUT_REPLACEMENT, RO): False,
        (Sampling.CATEGORICAL, AR): False,
        (Sampling.CATEGORICAL, RO): False,
    }
    assert {key: rule.drop for key, rule in RULES.items()} == expected
    for sampling, adjacency in itertools.product(Sampling, (AR, RO, ZO)):
        numbers = {"size": 2, "population": 9} if sampling is Sampling.WITHOUT_REPLACEMENT else {"rate": 0.1}
        if (sampling, adjacency) not in expected:
            with pytest.raises(AssignmentError, match=adjacency.value):
                SharedSample(sampling, adjacency, change=SWAP, grouped=False, **numbers)
            continue
        for change in (SWAP, TWO_SWAP):
            sample = SharedSample(sampling, adjacency, change=change, grouped=True, **numbers)
            sample.release(PureDP(1.0))
            require_adjacency(sample.amplified(), adjacency)  # the accountant takes what the table allows
        if expected[sampling, adjacency]:
            SharedSample(sampling, adjacency, change=DROP, grouped=False, **numbers)
        else:
            with pytest.raises(AssignmentError, match="swap"):
                SharedSample(sampling, adjacency, change=DROP, grouped=False, **numbers)
        with pytest.raises(AssignmentError, match="swap"):
            SharedSample(sampling, adjacency, change=DROP, grouped=True, **numbers)


def test_a_shared_sample_composes_first_and_amplifies_once():
    sample = SharedSample(Sampling.WITHOUT_REPLACEMENT, RO, change=SWAP, grouped=True, size=400, population=2600)
    sample.release(PureDP(1.0), count=3)
    sample.release(BoundedRange(5.0))
    event = sample.amplified()
    assert isinstance(event, SampledWithoutReplacementDpEvent)
    assert describe(event.event) == "3 x PureDP(epsilon=1.0) + BoundedRange(eta=5.0)"
    assert RdpAccountant(RO).compose(event).report(0.0).epsilon == pytest.approx(6.1300, abs=1e-4)
    assert sample.amplified() is event
    with pytest.raises(ParameterError, match="draw another one"):
        sample.release(PureDP(1.0))
    other = SharedSample(Sampling.POISSON, RO, change=SWAP, grouped=True, rate=0.5)
    for wrong, words in ((event, "sample already"), (NonPrivateDpEvent(), "private"), (PureDP(-1.0), "epsilon")):
        with pytest.raises(ParameterError, match=words):
            other.release(wrong)


def test_a_release_costs_what_it_was_when_it_was_noted():
    def sample():
        return SharedSample(Sampling.POISSON, AR, change=SWAP, grouped=True, rate=0.5)

    for made in (ComposedDpEvent, lambda its: WithFailure(SelfComposedDpEvent(ComposedDpEvent(its), 2), 1e-7)):
        kept, emptied = sample(), sample()
        kept.release(made([BoundedRange(1.0)] * 5))
        parts = [BoundedRange(1.0)] * 5
        emptied.release(made(parts))
        parts.clear()
        assert emptied.amplified() == kept.amplified()
        assert point_of(emptied.amplified(), 1e-6, AR).epsilon > 2
    with pytest.raises(ParameterError, match=r"ComposedDpEvent\.events is 'generator'"):
        sample().release(ComposedDpEvent(BoundedRange(1.0) for _ in range(50)))


def test_numbers_of_a_sample_are_checked():
    for numbers in ({}, {"rate": 0.0}, {"rate": 1.5}, {"rate": math.nan}):
        with pytest.raises(ParameterError, match="rate"):
            SharedSample(Sampling.POISSON, AR, change=SWAP, grouped=True, **numbers)
    for numbers, name in (
        ({"size": 3}, "population"),
        ({"size": 4, "population": 3}, "size"),
        ({"population": 3}, "size"),
    ):
        with pytest.raises(ParameterError, match=name):
            SharedSample(Sampling.WITHOUT_REPLACEMENT, RO, change=SWAP, grouped=True, **numbers)


def test_o16_and_its_neighbours():
    for base, amplified in ((8, 6.1300), (3, 1.3702), (1, 0.2346)):
        assert epsilon_of_sampled(base, 400 / 2600) == pytest.approx(amplified, abs=6e-5)
    assert epsilon_of_sampled(900.0, 0.5) == pytest.approx(900 + math.log(0.5))  # no overflow
    assert epsilon_of_sampled(math.inf, 0.5) == math.inf


def test_section_7_fifty_tokens_from_one_poisson_sample():
    event = PoissonSampledDpEvent(0.1, SelfComposedDpEvent(BoundedRange(0.1), 50))
    # The printed .2003 is T6 on a grid of 60, amplified once.
    knots, deltas = optimal_profile(0.1, 50, reach=4.0, grid=60)
    amplified = amplified_profile(symmetric(lambda e: np.interp(e, knots, deltas)), 0.1)
    e = np.linspace(0, 1, 20_001)
    assert e[np.argmax(amplified(e) <= 1e-5)] == pytest.approx(0.2003, abs=2e-4)
    # A finer grid is a little closer, and the point a ledger is charged is that one.
    point = point_of(event, 1e-5, AR)
    assert point == ApproximateDP(pytest.approx(0.1975, abs=1e-3), 1e-5)
    assert 0.190 < epsilon_of_plan([event], 1e-5, AR) < 0.2003
    # Amplifying every token would have promised this.
    wrong = epsilon_of_rdp(50 * rdp_of_bounded_range(epsilon_of_sampled(0.1, 0.1)), 1e-5)
    assert wrong == pytest.approx(0.1270, abs=1e-4)


def test_a_point_is_one_of_the_profile_and_is_charged_with_its_delta():
    q, delta = 0.1, 1e-6
    for base in (BoundedRange(1.0), PureDP(0.5), GaussianDpEvent(2.0)):
        event = PoissonSampledDpEvent(q, base)
        point = point_of(event, delta, AR)
        found = float(profile_of(event, AR)(np.array([point.epsilon]))[0])
        assert found <= delta
        assert float(profile_of(event, AR)(np.array([point.epsilon * 0.999]))[0]) > delta
        report = RdpAccountant(AR).compose(point).report(delta)
        assert (report.epsilon, report.bound) == (point.epsilon, "pure")
    # zCDP has no profile, but it has points: epsilon at delta / q, amplified.
    base = RdpAccountant(AR).compose(ZCDpEvent(0.5)).report(delta / q).epsilon
    assert point_of(PoissonSampledDpEvent(q, ZCDpEvent(0.5)), delta, AR).epsilon == pytest.approx(
        epsilon_of_sampled(base, q), rel=1e-6
    )
    assert point_of(PoissonSampledDpEvent(1e-7, ZCDpEvent(0.5)), delta, AR).epsilon == 0
    with pytest.raises(ParameterError, match="delta"):
        point_of(PureDP(1.0), 0.0, AR)
    with pytest.raises(ParameterError, match="finite epsilon"):
        point_of(NonPrivateDpEvent(), 1e-6, AR)
    with pytest.raises(AssignmentError):
        point_of(SampledWithoutReplacementDpEvent(9, 3, PureDP(1.0)), 1e-6, AR)
