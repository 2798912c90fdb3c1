"""Power and ceilings: sums beside simulated audits and beside every outcome, and what cannot be found at all."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import beta, binom

from sottovoce.audits import power as powers
from sottovoce.audits.bounds import Rates, epsilon_of_one_run, epsilon_of_rates, refutes
from sottovoce.audits.exact.labels import LabelWorld, label_pair
from sottovoce.audits.game.play import Claim
from sottovoce.audits.one_run import curve_refuted, independent_p_value
from sottovoce.audits.power import (
    EVERYTHING,
    POWERS,
    attained,
    ceiling_of_one_run,
    ceiling_of_rates,
    forecast,
    leaking,
    leaks_of,
    power_of_one_run,
    power_of_rates,
    runs_needed,
    with_less_noise,
)
from sottovoce.audits.tradeoff import TradeOff
from sottovoce.errors import AssignmentError, ParameterError
from sottovoce.experts.label_scores import ExpertOutputs
from sottovoce.methods.base import Price, Reads, make_method, registered_methods
from sottovoce.methods.pbs import sampled_event
from sottovoce.methods.rnm import NOISES as NOISES_OF_VOTES
from sottovoce.privacy.accounting.gaussian_dp import epsilon_of_mu
from sottovoce.privacy.events import (
    ApproximateDP,
    BoundedRange,
    ComposedDpEvent,
    GaussianDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    PureDP,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    WithFailure,
    ZCDpEvent,
)
from sottovoce.privacy.unit import SWAP, Adjacency

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
ONE, TWO = TradeOff.of_points([(1.0, 0.0)]), TradeOff.of_points([(2.0, 0.0)])


def every_outcome(runs: int, claim: TradeOff, fpr: float, fnr: float, alpha: float) -> float:
    counts = range(runs + 1)
    fp, fn = binom.pmf(counts, runs, fpr), binom.pmf(counts, runs, fnr)
    return sum(float(fp[i] * fn[j]) for i in counts for j in counts if refutes(Rates(i, runs, j, runs), claim, alpha))


@pytest.mark.cases(1)
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_the_power_of_rates_is_the_sum_over_every_outcome(alpha):
    found = power_of_rates(24, 24, ONE, TWO, alpha)
    x = found.false_positive_rate
    assert found.power == pytest.approx(every_outcome(24, ONE, x, float(TWO.fnr(x)), alpha), abs=1e-7)
    # It is the best of the thresholds that are tried, among them the middle of the curve.
    middle = 1 - TWO.accuracy
    assert found.power >= every_outcome(24, ONE, middle, middle, alpha) - 1e-7


@pytest.mark.slow
def test_a_release_within_its_claim_is_caught_no_more_often_than_the_level():
    for claim in (ONE, TradeOff.of_mu(1.0), TradeOff.of_event(BoundedRange(2.0), AR)):
        assert power_of_rates(200, 200, claim, claim).power <= 0.05
        assert power_of_one_run(500, 100, claim, claim).power <= 0.05
        assert power_of_one_run(500, 100, claim, claim, independent=True).power <= 0.05


@pytest.mark.slow
def test_the_power_of_one_run_by_simulation():
    """False alarm: the estimate from 4,000 draws is within 4 standard errors, .032, with chance 1 - 6e-5."""
    claim, truth, draws = TradeOff.of_mu(0.5), TradeOff.of_mu(1.2), np.random.default_rng(4)
    counts = []
    for _ in range(4000):
        present = draws.random(150) < 0.5
        apart = 1.2 * (present - 0.5) + draws.standard_normal(150)
        surest = np.abs(apart).argsort()[::-1][:30]
        counts.append(int(((apart > 0) == present)[surest].sum()))
    by_curve = {v: curve_refuted(150, 30, v, claim) for v in set(counts)}
    by_order = {v: independent_p_value(150, 30, v, claim) <= 0.05 for v in set(counts)}
    for refuted, independent in ((by_curve, False), (by_order, True)):
        stated = power_of_one_run(150, 30, claim, truth, independent=independent).power
        assert sum(refuted[v] for v in counts) / 4000 == pytest.approx(stated, abs=0.032)
    least = next(v for v in range(151) if independent_p_value(150, 150, v, claim) <= 0.05)
    whole = power_of_one_run(150, 150, claim, truth, independent=True).power
    assert whole == pytest.approx(binom.sf(least - 1, 150, truth.accuracy))
    assert power_of_one_run(3, 1, claim, truth).power == 0


@pytest.mark.slow
def test_the_number_of_runs_is_enough_and_half_of_it_is_not():
    for power in POWERS:
        runs = runs_needed(ONE, TWO, power)
        assert power_of_rates(runs, runs, ONE, TWO).power >= power
        assert power_of_rates(runs // 2, runs // 2, ONE, TWO).power < power


def test_what_leaks_everything_is_caught_by_few_runs_and_what_leaks_nothing_by_none():
    assert runs_needed(ONE, EVERYTHING, 0.95) == 12
    assert epsilon_of_rates(Rates(0, 12, 0, 12)) > 1 > epsilon_of_rates(Rates(0, 11, 0, 11))
    assert runs_needed(ONE, ONE, 0.5, most=2000) is None


def test_leaks_are_those_of_a_larger_budget():
    assert leaking(BoundedRange(0.5), AR, 2.0).fnr(0.1) == TradeOff.of_event(BoundedRange(1.0), AR).fnr(0.1)
    gaussian = leaking(GaussianDpEvent(2.0), AR, 2.0, 1e-5)
    assert epsilon_of_mu(gaussian.mu, 1e-5) == pytest.approx(2 * epsilon_of_mu(0.5, 1e-5), rel=1e-6)
    composed = ComposedDpEvent([PoissonSampledDpEvent(0.5, GaussianDpEvent(4.0)), WithFailure(PureDP(0.1), 1e-9)])
    assert (
        f"{with_less_noise(composed, 2.0)}"
        == f"{ComposedDpEvent([PoissonSampledDpEvent(0.5, GaussianDpEvent(2.0)), WithFailure(PureDP(0.2), 1e-9)])}"
    )
    for event, delta in ((NoOpDpEvent(), 0.0), (ZCDpEvent(0.1), 0.0)):
        with pytest.raises(ParameterError, match="event"):
            leaking(event, AR, 2.0, delta)
    with pytest.raises(ParameterError, match="factor"):
        leaking(PureDP(1.0), AR, 1.0)


NOISES = [("rnm", {"noise": noise}) for noise in NOISES_OF_VOTES]
FEW = {"pbs": {"subsamples": 3, "sampling_probability": 0.4}}
PRIVATE = [
    (name, FEW.get(name, {}))
    for name, cls in registered_methods().items()
    if cls.private and cls.reads is not Reads.NOTHING
]


@pytest.mark.slow
@pytest.mark.parametrize("answers", [1, 5])
@pytest.mark.parametrize(("name", "options"), [*PRIVATE, *NOISES], ids=lambda value: f"{value}")
def test_the_stated_power_is_not_above_that_of_any_attack_on_the_method_at_twice_the_price(name, options, answers):
    # The best attack on the method's own event at twice the epsilon: no stated power may be above its power.
    method = make_method(name, **options)
    delta = 1e-6 if method.can_fail or options.get("noise") == "gaussian" else 0.0
    once, twice = (SelfComposedDpEvent(method.noise_event(Price(e, delta), RO), answers) for e in (1.0, 2.0))
    stated = leaking(once, RO, 2.0, delta * answers)
    truth, rates = TradeOff.of_event(twice, RO), np.linspace(0.0, 1.0, 101)
    assert (stated.fnr(rates) >= truth.fnr(rates) - 1e-9).all()
    if name == "rnm" and answers == 1:
        claim = TradeOff.of_event(once, RO)
        assert power_of_rates(60, 60, claim, stated).power <= power_of_rates(60, 60, claim, truth).power + 1e-9


def test_gaussian_votes_of_twice_the_epsilon_are_hardly_found_by_few_answers():
    # The curve of one (epsilon, delta) pair has a power of 99.9 % here: that is the easiest release to find.
    event = make_method("rnm", noise="gaussian").event(Price(1.0, 1e-6), RO)
    claim = TradeOff.of_event(event, RO)
    assert power_of_rates(60, 60, claim, leaking(event, RO, 2.0, 1e-6)).power < 0.05


def test_of_what_is_charged_as_one_pair_no_power_against_a_smaller_leak_is_stated():
    assert [*leaks_of(ApproximateDP(1.0, 1e-6), RO, 1e-6)] == ["everything"]


@pytest.mark.cases(1)
@pytest.mark.parametrize("adjacency", [RO, AR])
def test_the_label_of_samples_is_the_method_s_own_on_two_data_sets_that_exist(adjacency):
    # Worked out from the method's law, sample by sample: 1 of 2 labels, 3 prompts, every coin of the record.
    method = make_method("pbs", **FEW["pbs"])
    price = Price(4.0, 1e-6)
    event = method.noise_event(price, adjacency)
    assert event == sampled_event(0.4, 3, method.noise_multiplier(price, adjacency), adjacency)
    error = 1 - attained(event, adjacency).accuracy

    def chance(lean: float, sure: float) -> float:
        """Of the second label, where a prompt says ``lean`` without the record and ``sure`` with it."""
        total = 0.0
        for coins in itertools.product((True, False), repeat=3):
            said = [(1 + (sure if coin else lean)) / 2 for coin in coins]
            rows = np.log(np.maximum([[1 - p, p] for p in said], 1e-300))
            weight = math.prod(0.4 if coin else 0.6 for coin in coins)
            total += weight * float(method.law(ExpertOutputs(rows, SWAP, adjacency), price)[1])
        return total

    if adjacency is RO:
        assert (1 - chance(0.0, 1.0), chance(0.0, -1.0)) == pytest.approx((error, error), abs=1e-6)
    else:
        worst = min(max(1 - chance(lean, 1.0), chance(lean, lean)) for lean in np.linspace(-0.9, 0.0, 31))
        assert error == pytest.approx(worst, abs=5e-3)


def votes_of(first: int, second: int) -> LabelWorld:
    rows = np.full((first + second, 2), -5.0)
    rows[:first, 0] = rows[first:, 1] = -0.1
    return LabelWorld(rows, np.zeros(2))


@pytest.mark.parametrize("noise", NOISES_OF_VOTES)
def test_the_stated_power_is_that_of_an_attack_on_votes_by_their_exact_laws(noise):
    # Not of a curve that only bounds what votes show: that of Renyi divergences would be found with 96 % here.
    method, runs, level = make_method("rnm", noise=noise), 1000, 0.05 / 3
    delta = 1e-6 if noise == "gaussian" else 0.0
    event = method.event(Price(1.0, delta), RO)
    claim = TradeOff.of_event(event, RO)
    limits = beta.ppf(1 - level / 2, np.arange(runs) + 1, runs - np.arange(runs))
    refuted = limits < claim.fnr(limits)[:, None]
    found = []
    for votes in range(1, 5):
        law = label_pair(method, votes_of(votes, 4 - votes), votes_of(votes - 1, 5 - votes), Price(2.0, delta), RO)
        present, absent = np.exp(law.log_p[0]), np.exp(law.log_q[0])
        chances = (binom.pmf(np.arange(runs), runs, rate) for rate in (absent, 1 - present))
        one, other = chances
        found.append(float(one @ refuted @ other))
    stated = power_of_rates(runs, runs, claim, leaks_of(event, RO, delta)["2 times the epsilon"], level).power
    assert stated <= max(found) + 0.02


@pytest.mark.parametrize(
    ("event", "same"),
    [
        (SelfComposedDpEvent(ZCDpEvent(0.02), 4), GaussianDpEvent(2.5)),
        (ComposedDpEvent([ZCDpEvent(0.5), GaussianDpEvent(1.0), ZCDpEvent(0.0)]), GaussianDpEvent(0.5**0.5)),
        (SelfComposedDpEvent(BoundedRange(0.5), 9), SelfComposedDpEvent(PureDP(0.25), 9)),
        (
            SampledWithoutReplacementDpEvent(100, 10, ZCDpEvent(0.5)),
            PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0)),
        ),
    ],
)
def test_a_leak_and_a_ceiling_have_the_curve_of_a_release_that_exists(event, same):
    rates = np.linspace(0.0, 1.0, 51)
    assert attained(event, RO).fnr(rates) == pytest.approx(TradeOff.of_event(same, AR).fnr(rates), abs=1e-9)
    assert (attained(event, RO).fnr(rates) >= TradeOff.of_event(event, RO).fnr(rates) - 1e-9).all()


def test_a_sample_that_is_not_valid_for_the_adjacency_has_no_curve():
    with pytest.raises(AssignmentError):
        attained(SampledWithoutReplacementDpEvent(100, 10, ZCDpEvent(0.5)), AR)


def test_gaussian_votes_whose_proof_is_tight_show_no_more_than_gaussian_noise():
    claim = Claim.of(4.0, 1e-6, RO, ZCDpEvent(0.5))
    assert claim.attained.mu == pytest.approx(1.0)
    assert Claim.of(4.0, 1e-6, RO).attained.accuracy > claim.attained.accuracy
    on_curve = [ceiling_of_rates(100, 100, of, 1e-6).on_curve for of in (claim.attained, claim.curve)]
    assert 0 < on_curve[0] < on_curve[1]


@pytest.mark.slow
def test_a_forecast_says_what_each_leak_takes():
    rows = forecast(PureDP(1.0), AR, 50, 50)
    assert [row.leak for row in rows] == ["2 times the epsilon", "4 times the epsilon", "everything"]
    assert rows[0].power < rows[1].power <= rows[2].power == pytest.approx(1.0)
    assert rows[0].as_dict()["runs"] == {"0.5": 30, "0.8": 47, "0.95": 66}


@pytest.mark.slow
def test_the_ceiling_by_simulation():
    """False alarm: the median of 2,000 bounds lies between the 45th and the 55th percentile with chance 1 - 1e-5."""
    ceiling, draws = ceiling_of_rates(100, 100, TWO), np.random.default_rng(6)
    middle = 1 - TWO.accuracy
    assert ceiling.perfect == pytest.approx(epsilon_of_rates(Rates(0, 100, 0, 100)))
    counts = draws.binomial(100, middle, (2000, 2))
    bounds = np.array([epsilon_of_rates(Rates(int(fp), 100, int(fn), 100)) for fp, fn in counts])
    assert np.quantile(bounds, 0.45) <= ceiling.on_curve + 1e-9  # of all thresholds the best
    assert (bounds > ceiling.on_curve_most).mean() < 0.08
    assert 0 < ceiling.on_curve < 2 < ceiling.perfect
    assert set(ceiling.as_dict()) == {"perfect", "on_curve", "on_curve_most"}


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.3])
@pytest.mark.parametrize(
    ("absent", "present"), [(1, 1), (4, 9), (60, 60), pytest.param(200, 31, marks=pytest.mark.slow)]
)
def test_the_ceiling_is_that_of_every_pair_of_counts(absent, present, delta):
    for curve in (TWO, TradeOff.of_mu(0.4), TradeOff.of_points([(0.0, 0.0)]), EVERYTHING):
        best = (0.0, 0.0)
        for fpr, fnr in powers._operating_points(curve):
            counts = [powers._window(runs, rate) for runs, rate in ((absent, fpr), (present, fnr))]
            a, b = (
                np.where(count < runs, beta.ppf(0.975, count + 1, np.maximum(runs - count, 1)), 1.0)
                for count, runs in zip(counts, (absent, present), strict=True)
            )
            with np.errstate(divide="ignore", invalid="ignore"):
                both = np.log((1 - delta - b) / a[:, None]), np.log((1 - delta - a)[:, None] / b)
            bounds = np.maximum(0.0, np.fmax(*(np.nan_to_num(bound, nan=0.0) for bound in both))).ravel()
            chances = np.outer(binom.pmf(counts[0], absent, fpr), binom.pmf(counts[1], present, fnr)).ravel()
            order = bounds.argsort()
            reached = np.cumsum(chances[order]) / chances.sum()
            best = max(best, tuple(bounds[order][np.searchsorted(reached, share)] for share in (0.5, 0.95)))
        ceiling = ceiling_of_rates(absent, present, curve, delta)
        assert (ceiling.on_curve, ceiling.on_curve_most) == pytest.approx(best, abs=1e-12)


@pytest.mark.slow
def test_the_ceiling_of_a_million_runs_takes_no_room_for_every_pair_of_counts():
    ceiling = ceiling_of_rates(10**6, 10**6, TradeOff.of_points([(1.0, 0.0)]))
    assert 0.99 < ceiling.on_curve < ceiling.on_curve_most < 1


def test_more_runs_than_can_be_looked_at_are_refused_by_name():
    for runs in (0, 10**7 + 1, 10**30):
        with pytest.raises(ParameterError, match=r"absent is .* a whole number from 1 to 10,000,000"):
            ceiling_of_rates(runs, 5, TWO)
        with pytest.raises(ParameterError, match=r"present is .* a whole number from 1 to 10,000,000"):
            power_of_rates(5, runs, TWO, TWO)


def test_the_ceiling_of_one_run():
    ceiling = ceiling_of_one_run(1000, 100, TradeOff.of_mu(0.5), 1e-5)
    assert ceiling.perfect == pytest.approx(3.465376, abs=1e-6)
    assert ceiling.on_curve == pytest.approx(epsilon_of_one_run(1000, 100, 74, 1e-5))
    whole = ceiling_of_one_run(100, 100, TradeOff.of_points([(math.log(9), 0.0)]))
    assert whole.on_curve == pytest.approx(epsilon_of_one_run(100, 100, 90))
