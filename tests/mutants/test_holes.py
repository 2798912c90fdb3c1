"""What a planted bug got past the other tests by, and no longer does."""

from __future__ import annotations

import math
import secrets
from fractions import Fraction

import pytest

from sottovoce.experts.embeddings import keyword_counts
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.accounting.amplification import Sampling, SharedSample
from sottovoce.privacy.accounting.calibration import calibrate
from sottovoce.privacy.claims import reached_delta
from sottovoce.privacy.events import BoundedRange, PoissonSampledDpEvent, PureDP
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.unit import SWAP, Adjacency
from sottovoce.randomness import SystemRandomness

AR = Adjacency.ADD_REMOVE


def test_three_releases_from_one_poisson_sample_are_amplified_together():
    sample = SharedSample(Sampling.POISSON, AR, change=SWAP, grouped=True, rate=0.1)
    for eta in (1.0, 0.5, 1.5):
        sample.release(BoundedRange(eta))
    together, each = (RdpAccountant(AR) for _ in range(2))
    for eta in (1.0, 0.5, 1.5):
        each.compose(PoissonSampledDpEvent(0.1, BoundedRange(eta)))
    # Whether the record is in the sample is decided once: with odds of 1 in 10 all three losses come together.
    assert together.compose(sample.amplified()).report(0.0).epsilon == pytest.approx(math.log1p(0.1 * math.expm1(3)))
    assert each.report(0.0).epsilon < 0.55


@pytest.mark.cases(2)
@pytest.mark.parametrize(("eta", "steps"), [(0.5, 4000), (1.0, 4000), (3.0, 1000)])
def test_where_the_recursion_takes_too_long_the_report_is_still_above_what_independent_steps_reach(eta, steps):
    delta = 1e-6
    report = RdpAccountant(AR).compose(BoundedRange(eta), steps).report(delta)
    assert "optimal" not in report.bounds
    assert reached_delta(report.epsilon, eta, steps) <= delta
    # PRISM's formula would be the least figure here, and a run over two candidates refutes it.
    stated = eta * math.sqrt(2 * steps * -math.log(delta))
    assert stated < report.epsilon
    assert reached_delta(stated, eta, steps) > 1000 * delta


@pytest.mark.parametrize("digits", [2, 3, 6])
def test_a_parameter_just_past_its_target_is_not_near_enough(digits):
    for target in (0.13, 0.77, 0.951, 1.99, 6.543, 6.997, 9.1):
        found = calibrate(PureDP, target, 0.0, AR, 7, digits=digits)
        # The pure total is exact: as written in decimal, seven times the parameter and no more than the target.
        assert 7 * exact(found.parameter) <= exact(target)
        assert 7 * (exact(found.parameter) + one_in_the_last_digit(found.parameter, digits)) > exact(target)


def one_in_the_last_digit(value: float, digits: int) -> Fraction:
    return Fraction(10) ** (math.floor(math.log10(value)) - digits + 1)


@pytest.mark.parametrize("responses", [[[0, 1, 0, 0]], [[0, 0, 0, 0]], [[1, 0, 0, 1], [0, 0, 0, 1]]])
def test_every_public_keyword_has_a_count_whether_or_not_a_response_holds_it(responses):
    found = keyword_counts(responses, 2, SWAP, Adjacency.REPLACE_ONE)
    assert found.values.tolist() == [sum(column) for column in zip(*responses, strict=True)]


@pytest.mark.parametrize("bound", [3, 192, 3 * 2**61, 3 * 2**200], ids=["3", "192", "65 bits", "202 bits"])
def test_a_third_of_all_draws_lies_in_the_first_third(bound):
    # Of 4,000 draws, within six standard deviations: false alarm below 1e-8 for all bounds.
    def off(below):
        return abs(sum(below(bound) < bound // 3 for _ in range(4_000)) - 4_000 / 3) / math.sqrt(4_000 * 2 / 9)

    assert off(SystemRandomness().below) < 6
    # The remainder of as many random bits puts half of them there.
    assert off(lambda n: secrets.randbits(n.bit_length()) % n) > 12
