"""Few-shot generation: noise of the stated size on the mean, and amplification only where it holds, and only once."""

from __future__ import annotations

import math

import numpy as np
import pytest

from decoding_worlds import ADJACENCIES, law_of, plan_of, step_of
from sottovoce.errors import AssignmentError, ParameterError
from sottovoce.methods.base import Price
from sottovoce.methods.tang import Tang
from sottovoce.privacy.accountant import RdpAccountant
from sottovoce.privacy.events import ApproximateDP, PoissonSampledDpEvent, SampledWithoutReplacementDpEvent
from sottovoce.privacy.unit import DROP, SWAP
from sottovoce.randomness import SeededRandomness

AR, RO = ADJACENCIES
NOISES = [Tang(sigma=0.1), Tang(noise="exponential", scale=0.1), Tang(noise="em", rate=9.0)]


def priced(decoder, adjacency, price=None, **more):
    more = {"tokens": 20, "experts": 10, **more}
    return decoder.plan(price, adjacency=adjacency, change=SWAP, **more)


def test_a_token_costs_what_the_specification_says():
    # 5.8: mu = sqrt(2)/(M sigma), pure 2/(M b), eta = 2 lambda/M for a swap.
    gaussian, exponential, em = (plan_of(decoder, RO, experts=10).token_event for decoder in NOISES)
    assert gaussian.rho == pytest.approx((math.sqrt(2) / (10 * 0.1)) ** 2 / 2)
    assert exponential.epsilon == pytest.approx(2 / (10 * 0.1))
    assert em.eta == pytest.approx(2 * 9 / 10)
    # A vanished row under a noisy argmax: sqrt(1 - 1/K) in place of sqrt(2); one width in place of two.
    gaussian, exponential, em = (plan_of(decoder, AR, experts=10).token_event for decoder in NOISES)
    assert gaussian.rho == pytest.approx((1 - 1 / 100) / (10 * 0.1) ** 2 / 2, rel=1e-4)
    assert (exponential.epsilon, em.eta) == (pytest.approx(1.0), pytest.approx(0.9))


@pytest.mark.parametrize("adjacency", ADJACENCIES, ids=lambda a: a.value)
def test_the_noise_on_the_mean_has_the_stated_deviation(monkeypatch, adjacency):
    # Two candidates, the mean .1 apart: the first is largest with probability Phi(.1 / (sqrt(2) sigma)).
    from scipy.stats import norm

    monkeypatch.setattr("sottovoce.methods.tang.BITS", 7)  # a coarse grid, whose law can be summed up
    rows = [tuple(np.log((0.55, 0.45)))] * 3
    law = law_of(plan_of(Tang(sigma=0.2, top_k=2), adjacency, experts=3), (0.0, 0.0), rows)
    assert law[0] == pytest.approx(norm.cdf(0.1 / (math.sqrt(2) * 0.2)), abs=0.01)
    assert abs(law[0] - norm.cdf(0.1 / (math.sqrt(2) * 0.4))) > 0.05


def test_exponential_noise_is_on_distributions_divided_by_their_best():
    # By hand, two candidates at means 1 and 1/2 (three experts, M = 3), noise of scale b: the second one wins when its
    # noise leads by half a unit: exp(-.5 / b) / 2.
    rows = [(math.log(2), 0.0)] * 3
    law = law_of(plan_of(Tang(noise="exponential", scale=0.4, top_k=2), RO), (0.0, 0.0), rows)
    assert law[1] == pytest.approx(math.exp(-0.5 / 0.4) / 2, abs=1e-4)


def test_em_weights_are_exp_of_rate_times_the_mean():
    rows = [tuple(np.log((0.7, 0.3)))] * 2  # and a third of M = 3 that is absent
    law = law_of(plan_of(Tang(noise="em", rate=5.0, top_k=2), RO), (0.0, 0.0), rows)
    assert math.log(law[0] / law[1]) == pytest.approx(5 * 2 * 0.4 / 3, rel=1e-3)


@pytest.mark.parametrize("decoder", NOISES, ids=str)
def test_only_the_likeliest_public_tokens_are_chosen(decoder):
    small = Tang(**{**{f: getattr(decoder, f) for f in ("noise", "sigma", "scale", "rate")}, "top_k": 2})
    plan = plan_of(small, AR, tokens=40)
    chooser = plan.decoder.start(plan, SeededRandomness(1), ends=())
    rows = [(0.0, 60.0, 0.0, 0.0)] * 3
    assert {chooser.next(step_of((5.0, 0.0, 4.0, 4.5), rows)) for _ in range(40)} == {0, 3}


SAMPLED = {"fresh": "batch", "sampling_rate": 0.1}


def test_one_sample_for_a_batch_is_amplified_once_and_charged_as_one_point():
    # Section 7: one Poisson sample at q = .1 reused for 50 tokens at eta = .1: .2003; amplified by token, .1270, wrong.
    decoder = Tang(noise="em", rate=0.1 * 10 / 2, **SAMPLED)
    plan = priced(decoder, AR, tokens=50, delta=1e-5)
    (event,) = decoder.alternatives(plan.setting)
    assert isinstance(event, PoissonSampledDpEvent)
    assert plan.report.epsilon == pytest.approx(0.2003, rel=0.03)
    assert plan.event == ApproximateDP(plan.report.epsilon, 1e-5)
    by_token = priced(Tang(noise="em", rate=0.5, fresh="token", sampling_rate=0.1), AR, tokens=50, delta=1e-5)
    assert by_token.report.epsilon < 0.13 < plan.report.epsilon


def test_a_price_settles_the_noise_under_a_sample():
    for noise in ("em", "gaussian"):
        decoder = Tang(noise=noise, fresh="batch", sample=100, population=1_000)
        plan = priced(decoder, RO, Price(1.0, 1e-5), bounds=["amplified"])
        assert 0.999 < plan.report.epsilon <= 1.0
        assert isinstance(
            decoder.__class__.alternatives(plan.decoder, plan.setting)[0], SampledWithoutReplacementDpEvent
        )
        fixed = priced(Tang(noise=noise), RO, Price(1.0, 1e-5))
        dial = "rate" if noise == "em" else "sigma"
        gain = getattr(plan.decoder, dial) / getattr(fixed.decoder, dial)
        assert gain > 2 if noise == "em" else gain < 0.5


@pytest.mark.parametrize(
    ("options", "adjacency", "error"),
    [
        ({"fresh": "batch", "sample": 10, "population": 100}, AR, AssignmentError),  # without replacement: RO alone
        ({"fresh": "batch", "sampling_rate": 0.1, "labels_public": False}, RO, ParameterError),
    ],
)
def test_a_sampling_without_a_rule_for_the_adjacency_is_refused(options, adjacency, error):
    more = {name: options.pop(name) for name in ("labels_public",) if name in options}
    with pytest.raises(error):
        priced(Tang(noise="em", rate=1.0, **options), adjacency, **more)


def test_a_drop_cannot_be_amplified_where_prompts_are_read_anew():
    with pytest.raises(AssignmentError, match="drop"):
        Tang(noise="em", rate=1.0, **SAMPLED).plan(None, tokens=3, experts=3, adjacency=AR, change=DROP)


@pytest.mark.parametrize(
    "options",
    [
        {"sampling_rate": 0.1},
        {"fresh": "batch"},
        {"fresh": "batch", "sample": 10},
        {"fresh": "batch", "sampling_rate": 0.1, "population": 100},
        {"fresh": "token", "sampling_rate": 0.1},  # integer Gaussian noise: no bound is known
        {"fresh": "always", "sampling_rate": 0.1},
        {"noise": "em", "sigma": 1.0},
        {"noise": "laplace"},
        {"top_k": 1},
    ],
)
def test_numbers_that_do_not_belong_together_are_refused(options):
    with pytest.raises(ParameterError):
        Tang(**options)


def test_an_amplified_plan_gives_nothing_back():
    plan = priced(Tang(noise="em", rate=1.0, **SAMPLED), AR, tokens=1)
    chooser = plan.decoder.start(plan, SeededRandomness(1), ends=())
    chooser.next(step_of((0.0, 0.0), [(0.0, 1.0)]))
    with pytest.raises(ParameterError, match="as a whole"):
        _ = chooser.spent


def test_the_report_of_a_sample_is_that_of_its_event():
    plan = priced(Tang(noise="em", rate=1.0, **SAMPLED), AR)
    said = RdpAccountant(AR).compose(plan.decoder.alternatives(plan.setting)[0])
    assert plan.report.epsilon == said.report(1e-6, ["pure", "amplified", "PLD"]).epsilon
