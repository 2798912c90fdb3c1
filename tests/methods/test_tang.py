"""Few-shot generation: noise of the stated size on the mean, and amplification only where it holds, and only once."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from decoding_worlds import ADJACENCIES, law_of, plan_of, random_worlds, step_of
from sottovoce.errors import AssignmentError, ParameterError
from sottovoce.methods.base import Price
from sottovoce.methods.tang import Tang
from sottovoce.privacy.accounting.accountant import RdpAccountant
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
    chooser = plan.decoder.start(plan, SeededRandomness(1), eos_tokens=())
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
        calibrated_parameter = "rate" if noise == "em" else "sigma"
        gain = getattr(plan.decoder, calibrated_parameter) / getattr(fixed.decoder, calibrated_parameter)
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
    chooser = plan.decoder.start(plan, SeededRandomness(1), eos_tokens=())
    chooser.next(step_of((0.0, 0.0), [(0.0, 1.0)]))
    with pytest.raises(ParameterError, match="as a whole"):
        _ = chooser.spent


def test_the_report_of_a_sample_is_that_of_its_event():
    plan = priced(Tang(noise="em", rate=1.0, **SAMPLED), AR)
    said = RdpAccountant(AR).compose(plan.decoder.alternatives(plan.setting)[0])
    assert plan.report.epsilon == said.report(1e-6, ["pure", "amplified", "PLD"]).epsilon


COINS = {"fresh": "token", "sampling_rate": 0.3}


def mixture(plan, public, rows) -> np.ndarray:
    """The law of one token over every sample there is: exact, from the law for each subset of the experts."""
    rate, law = plan.decoder.sampling_rate, np.zeros(len(public))
    known = {name: getattr(plan.decoder, name) for name in ("noise", "scale", "rate", "top_k")}
    fixed = plan_of(Tang(**known), AR, experts=int(rate * plan.setting.experts))
    for drawn in itertools.product((False, True), repeat=len(rows)):
        chance = math.prod(rate if one else 1 - rate for one in drawn)
        law += chance * law_of(fixed, public, [row for row, one in zip(rows, drawn, strict=True) if one])
    return law


def delta_at(p, q, epsilon) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def broken_by(event, deltas, pairs) -> bool:
    """Whether a hockey-stick divergence of some pair of laws, either way, exceeds what the event promises."""
    for delta in deltas:
        epsilon = RdpAccountant(AR).compose(event).report(delta, Tang(noise="em", **COINS).bounds).epsilon
        for p, q in pairs:
            for one, other in ((p, q), (q, p)):
                if np.maximum(one - math.exp(epsilon) * other, 0).sum() > delta * (1 + 1e-6) + 1e-12:
                    return True
    return False


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "decoder", [Tang(noise="em", rate=6.0, **COINS), Tang(noise="exponential", scale=0.3, **COINS)]
)
def test_a_token_of_a_fresh_sample_costs_no_less_than_its_exact_loss(decoder):
    # Laws over all samples of up to five experts, exactly; at a charge for half of the coins' chance it is found out.
    plan = decoder.plan(None, tokens=1, experts=10, adjacency=AR, change=DROP)
    (charged,) = decoder.alternatives(plan.setting)
    assert charged.event.sampling_probability == 0.3
    pairs = [
        tuple(mixture(plan, world.public, rows) for rows in world.neighbours(AR))
        for world in random_worlds(60, seed=5, most_experts=4)
    ]
    assert not broken_by(charged.event, (1e-9, 0.01, 0.05), pairs)
    assert broken_by(PoissonSampledDpEvent(0.15, charged.event.event), (1e-9, 0.01, 0.05), pairs)


def test_the_divisor_is_the_expected_size_of_a_sample():
    plan = Tang(noise="em", rate=6.0, **COINS).plan(None, tokens=1, experts=10, adjacency=AR, change=DROP)
    assert plan.token_event.eta == pytest.approx(6.0 / 3)
    assert Tang(noise="em", rate=6.0, **COINS).plan(
        None, tokens=1, experts=2, adjacency=AR, change=DROP
    ).token_event.eta == pytest.approx(6.0)


@pytest.mark.slow
def test_every_expert_tosses_a_fresh_coin_at_every_token():
    # One expert that is sure of token 1 against a public list that is even; at rate 1/2 the expert has a say in half of
    # the tokens, each time anew: two in a row with .25, not .5. 2,000 pairs; false alarm below 1e-6 (5 deviations).
    decoder = Tang(noise="em", rate=40.0, top_k=2, fresh="token", sampling_rate=0.5)
    plan = decoder.plan(None, tokens=2, experts=2, adjacency=AR, change=DROP)
    sure = [(0.0, 60.0)]
    pairs = np.zeros((2, 2))
    randomness = SeededRandomness(3)
    for _ in range(2_000):
        chooser = plan.decoder.start(plan, randomness, eos_tokens=())
        first, second = (chooser.next(step_of((0.0, 0.0), sure)) for _ in range(2))
        pairs[first, second] += 1
    # Token 1 with 1/2 + 1/4 = .75: .5625 for two, and .0625 for none; a coin for both would give .625 and .125.
    assert pairs[1, 1] / 2_000 == pytest.approx(0.5625, abs=5 * math.sqrt(0.5625 * 0.4375 / 2_000))
    assert pairs[0, 0] / 2_000 == pytest.approx(0.0625, abs=5 * math.sqrt(0.0625 * 0.9375 / 2_000))


def test_a_sample_that_nobody_draws_is_not_written_with():
    plan = priced(Tang(noise="em", rate=40.0, top_k=2, fresh="token", sampling_rate=0.5), AR, experts=1, tokens=30)
    with pytest.raises(ParameterError, match="priced alone"):
        plan.decoder.start(plan, SeededRandomness(1), eos_tokens=())


def test_there_is_no_single_law_of_a_sampled_token():
    plan = Tang(noise="em", rate=6.0, **COINS).plan(None, tokens=1, experts=10, adjacency=AR, change=DROP)
    with pytest.raises(ParameterError, match="mixture"):
        law_of(plan, (0.0, 0.0), [(0.0, 1.0)])
