"""The filter: every family at its own price, rounded up; caps rounded down; nothing without a price admitted."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.gaussian import GaussianVector
from sottovoce.mechanisms.noisy_max import GaussianNoisyMax
from sottovoce.methods.rnm import RNM
from sottovoce.privacy.accounting.accountant import rdp_of_bounded_range, rdp_of_pure, rho_of_budget
from sottovoce.privacy.accounting.event_cost import cost_of
from sottovoce.privacy.events import (
    ApproximateDP,
    BoundedRange,
    ComposedDpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    PureDP,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    WithFailure,
    ZCDpEvent,
)
from sottovoce.privacy.ledger.budget import Budget, amount_of
from sottovoce.privacy.ledger.filter import FAILURE_SCALE, SCALE, Cap, Cost, Currency, first_exceeded_cap, price
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.session import PrivateICL
from sottovoce.tasks import Task

CURRENCIES = ["epsilon", "rho", "rdp at alpha 1.5", "rdp at alpha 16", "rdp at alpha 5000"]
ETAS = [1e-5, 1e-3, 0.00999, 0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 30.0]


# Prices against other ways to the same number


@pytest.mark.parametrize(("eta", "rho"), [(0.5, 0.03114209), (1, 0.12330156), (2, 0.47447465), (4, 1.66984963)])
def test_selections_cost_what_the_specification_says(eta, rho):
    assert price(BoundedRange(float(eta)), "rho").loss / SCALE == pytest.approx(rho, abs=1e-8)


@pytest.mark.parametrize("eta", [eta for eta in ETAS if eta >= 0.1])
def test_a_selection_costs_at_least_every_divergence_of_the_worst_laws(eta):
    # The extremal two-point laws of specification T2; a slow search over their place.
    places = np.linspace(0, eta, 20_001)[1:-1]
    p = -np.expm1(places - eta) / -math.expm1(-eta)
    cost = price(BoundedRange(eta), "rho").loss / SCALE
    divergence = p * places + (1 - p) * (places - eta)
    assert cost * (1 - 1e-5) <= divergence.max() <= cost * (1 + 1e-12)
    for alpha in (1.5, 16.0, 5000.0):
        moments = np.logaddexp(np.log(p) + (alpha - 1) * places, np.log1p(-p) + (alpha - 1) * (places - eta))
        renyi = (moments / (alpha - 1)).max()
        cost = price(BoundedRange(eta), f"rdp at alpha {alpha}").loss / SCALE
        assert cost * (1 - 1e-4) <= renyi <= cost * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", ETAS)
@pytest.mark.parametrize("alpha", [1.5, 16.0, 5000.0])
def test_a_pure_release_costs_the_divergence_of_randomised_response(epsilon, alpha):
    with mpmath.workprec(300):
        e, a = mpmath.mpf(epsilon), mpmath.mpf(alpha)
        p, q = 1 / (1 + mpmath.exp(-e)), mpmath.exp(-e) / (1 + mpmath.exp(-e))
        true = mpmath.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)
    cost = price(PureDP(epsilon), f"rdp at alpha {alpha}").loss
    assert float(true) * SCALE * (1 - 1e-12) <= cost
    assert cost <= float(true) * SCALE * (1 + 1e-9) + 1


@pytest.mark.parametrize("value", ETAS)
def test_prices_agree_with_the_accountants(value):
    for event in (BoundedRange(value), PureDP(value), ZCDpEvent(value), GaussianDpEvent(value)):
        assert price(event, "rho").loss / SCALE == pytest.approx(cost_of(event).rho, rel=2e-9, abs=1e-15)
    for alpha in (16.0, 5000.0):
        for event, rdp in ((BoundedRange(value), rdp_of_bounded_range), (PureDP(value), rdp_of_pure)):
            known = float(rdp(value, np.array([alpha]))[0])
            assert price(event, f"rdp at alpha {alpha}").loss / SCALE == pytest.approx(known, rel=1e-3, abs=1e-14)
    mu = 1 / value
    assert price(GaussianDpEvent(value), "rdp at alpha 16").loss / SCALE == pytest.approx(16 * mu * mu / 2)


@given(st.floats(1e-9, 900.0), st.sampled_from(["rho", "rdp at alpha 3", "rdp at alpha 64"]))
@settings(max_examples=150, deadline=None)
def test_charges_are_rounded_up_and_by_less_than_they_matter(eta, currency):
    alpha = Currency.parse(currency).alpha
    with mpmath.workprec(400):
        e = mpmath.mpf(repr(eta))
        if alpha is None:
            x = e / mpmath.expm1(e)
            true = x - 1 - mpmath.log(x)
        else:
            a = mpmath.mpf(alpha)
            m = mpmath.exp(-(a - 1) * e)
            k = (1 - m) / (1 - mpmath.exp(-e))
            s = min(max((a - 1) * (k + m) * mpmath.exp(e) / (a * k), 1), mpmath.exp(e))
            true = mpmath.log(s) + mpmath.log((k + m) - k * mpmath.exp(-e) * s) / (a - 1)
        floor = int(mpmath.floor(true * SCALE))
    charged = amount_of(BoundedRange(eta), currency)
    assert floor <= charged
    slack = 10**5 if alpha is None and eta < 0.01 else 10**6  # a quadratic bound stands in where parameters are small
    assert charged <= floor + 2 + floor // (slack if eta < 0.01 else 10**30)


def test_exact_families_are_exact():
    assert price(BoundedRange(0.1), "epsilon") == Cost(SCALE // 10)
    assert price(ZCDpEvent(0.05), "rho") == Cost(SCALE // 20)
    assert price(ZCDpEvent(0.05), "rdp at alpha 16") == Cost(16 * SCALE // 20)
    assert price(GaussianDpEvent(2.0), "rho") == Cost(SCALE // 8)
    assert price(NoOpDpEvent(), "rho") == Cost()
    third = price(GaussianDpEvent(math.sqrt(3)), "rho").loss
    assert Fraction(third, SCALE) >= 1 / (2 * Fraction(repr(math.sqrt(3))) ** 2) > Fraction(third - 1, SCALE)


# Failures


def test_a_point_is_charged_as_pure_and_its_delta_apart():
    point = price(ApproximateDP(0.5, 3e-9), "rho")
    assert point == Cost(price(PureDP(0.5), "rho").loss, 3 * FAILURE_SCALE // 10**9)
    assert price(ApproximateDP(0.5, 0.0), "epsilon") == price(PureDP(0.5), "epsilon")
    assert price(ApproximateDP(0.5, 1e-30), "rho").failure == 1


def test_failures_of_nested_releases_add_up_even_where_one_excludes_the_other():
    inner = WithFailure(BoundedRange(0.2), 1e-9, exclusive=True)
    one = price(WithFailure(inner, 2e-9), "rho")
    assert one == Cost(price(BoundedRange(0.2), "rho").loss, 3 * 10**9)
    assert price(SelfComposedDpEvent(inner, 7), "rho") == price(inner, "rho") * 7
    both = ComposedDpEvent([inner, ApproximateDP(0.1, 5e-9)])
    assert price(both, "rho") == price(inner, "rho") + price(ApproximateDP(0.1, 5e-9), "rho")


def test_a_sum_of_epsilons_has_no_price_for_noise_that_is_never_pure():
    for event in (GaussianDpEvent(1.0), ZCDpEvent(0.1), WithFailure(ZCDpEvent(0.1), 1e-9)):
        with pytest.raises(ParameterError, match="delta is 0"):
            price(event, "epsilon")


# Basic composition: all of delta for failures


def test_a_budget_whose_delta_is_all_for_failures_adds_epsilons_and_deltas():
    budget = Budget.once(4.0, 1e-6)
    assert budget == Budget.parse("4,1e-6,failure=1e-6")
    assert budget.currency == "epsilon"
    assert budget.caps == Cost(4 * SCALE, 10**12)
    assert price(ApproximateDP(4.0, 1e-6), "epsilon") == budget.caps
    assert price(BoundedRange(1.5), "epsilon") + price(ApproximateDP(2.5, 1e-6), "epsilon") == budget.caps


@pytest.mark.parametrize("nearly", [9.99999999999e-7, 1e-6 * (1 - 1e-12)])
def test_a_share_just_below_delta_leaves_something_to_convert_or_is_refused(nearly):
    if 1e-6 - nearly >= 1e-15:
        assert Budget(4.0, 1e-6, nearly).currency == "rho"
    else:
        with pytest.raises(ParameterError, match="or equal to it"):
            Budget(4.0, 1e-6, nearly)


# Refusals


@pytest.mark.parametrize("currency", CURRENCIES[1:4])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0, -1e-300, True, None, "0.1", 10**400, 1j])
def test_numbers_that_are_no_parameters_are_refused(currency, bad):
    for event in (
        BoundedRange(bad), PureDP(bad), ApproximateDP(bad, 0.0), ApproximateDP(0.1, bad), WithFailure(PureDP(0.1), bad),
        ZCDpEvent(bad), GaussianDpEvent(bad), SelfComposedDpEvent(PureDP(0.1), bad), ComposedDpEvent([PureDP(bad)]),
    ):  # fmt: skip
        if isinstance(event, SelfComposedDpEvent) and bad == 10**400:
            continue
        with pytest.raises(ParameterError):
            price(event, currency)


@pytest.mark.parametrize("currency", CURRENCIES)
def test_what_has_no_price_is_refused(currency):
    for event in (NonPrivateDpEvent(), ZCDpEvent(0.1, 0.1), GaussianDpEvent(0.0), "PureDP", None, PureDP):
        with pytest.raises(ParameterError):
            price(event, currency)
    with pytest.raises(ParameterError):
        price(ApproximateDP(0.1, 1.5), currency)


@pytest.mark.parametrize("currency", CURRENCIES)
def test_a_sampled_release_is_told_to_fix_one_point_of_its_profile(currency):
    for event in (
        PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0)),
        SampledWithoutReplacementDpEvent(100, 10, PureDP(0.1)),
        ComposedDpEvent([PureDP(0.1), PoissonSampledDpEvent(0.1, PureDP(1.0))]),
    ):
        with pytest.raises(ParameterError, match="fix one point of the profile"):
            price(event, currency)


def test_events_nested_without_end_are_refused():
    event = PureDP(0.1)
    for _ in range(5000):
        event = SelfComposedDpEvent(event, 1)
    with pytest.raises(ParameterError, match="nested"):
        price(event, "rho")


# Caps


def test_a_cap_at_one_order_is_what_the_conversion_admits_and_not_a_unit_more():
    for alpha in (4.0, 16.0, 300.0):
        for delta, failure in ((1e-6, 0.0), (1e-6, 4e-7), (1e-3, 1e-9)):
            budget = Budget(8, delta, failure, alpha)
            with mpmath.workprec(300):
                a, slack = mpmath.mpf(alpha), mpmath.mpf(repr(delta)) - mpmath.mpf(repr(failure))

                def epsilon(units, a=a, slack=slack):
                    rdp = mpmath.mpf(units) / SCALE
                    return rdp + mpmath.log(1 - 1 / a) - (mpmath.log(slack) + mpmath.log(a)) / (a - 1)

                assert epsilon(budget.cap) <= 8 < epsilon(budget.cap + 1)


def test_a_share_for_failures_leaves_the_cap_of_the_rest_of_delta():
    budget = Budget(8, 1e-6, 4e-7)
    assert budget.failure_cap == 4 * FAILURE_SCALE // 10**7
    assert budget.cap / SCALE == pytest.approx(rho_of_budget(8.0, 6e-7), rel=1e-12)
    assert budget.cap < Budget(8, 1e-6).cap


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-9), (3.0, 1e-5), (8.0, 1e-6), (50.0, 0.01)])
def test_noise_for_a_whole_budget_fits_in_it(epsilon, delta):
    cap = Budget(epsilon, delta).cap
    for made in (GaussianVector, GaussianNoisyMax):
        charged = price(made.for_budget(epsilon, delta).event, "rho").loss
        assert cap * (1 - 1e-12) - 2 <= charged <= cap
    assert price(ZCDpEvent(rho_of_budget(epsilon, delta)), "rho").loss > cap  # as it was


def test_one_answer_by_gaussian_votes_is_paid_from_a_budget_of_its_price(tmp_path):
    rows = [Row(line, {"text": f"note {line}", "label": "ab"[line % 2]}) for line in range(1, 13)]
    icl = PrivateICL(
        records=PrivateRecords(rows, source="notes"),
        task=Task(labels=["a", "b"]),
        method=RNM(noise="gaussian"),
        model="fake",
        budget=Budget(1.0, 1e-6),
        ledger=str(tmp_path / "t.db"),
    )
    assert icl.ask("which?", epsilon=1.0, delta=1e-6).value in ("a", "b")


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("8", Budget(8)),
        ("8,1e-6", Budget(8, 1e-6)),
        ("8, 1e-6 , failure = 5e-7", Budget(8, 1e-6, 5e-7)),
        ("8,1e-6,alpha=16", Budget(8, 1e-6, alpha=16)),
        ("8,1e-6,alpha=16,failure=5e-7", Budget(8, 1e-6, 5e-7, 16.0)),
    ],
)
def test_a_budget_is_read_and_shown(text, budget):
    assert Budget.parse(text) == budget
    assert eval(repr(budget), {"Budget": Budget}) == budget


@pytest.mark.parametrize(
    "text",
    [
        "8,1e-6,failure=1e-6,alpha=16", "8,1e-6,failure=2e-6", "8,failure=1e-7", "8,1e-6,failure=-1e-7",
        "8,1e-6,failure=nan", "8,1e-6,failure=", "8,1e-6,failure=1e-7,failure=2e-7", "8,1e-6,beta=1", "8,alpha=16",
        "8,1e-6,alpha=1",
        "8,1e-6,alpha=nan", "8,1e-6,alpha=inf", "8,1e-6,alpha=", "8,alpha=16,1e-6", "1,1e-6,alpha=2", "=8", "alpha=16",
    ],
)  # fmt: skip
def test_a_budget_that_is_no_budget_is_refused(text):
    with pytest.raises(ParameterError, match="budget"):
        Budget.parse(text)


def test_currencies_are_written_and_read_back():
    for text in CURRENCIES:
        assert str(Currency.parse(text)) == text
    for text in ("", "mu", "rdp", "rho at alpha 16"):
        with pytest.raises(ParameterError):
            Currency.parse(text)


# Admission


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_whatever_is_asked_next_after_whatever_was_admitted_no_cap_is_passed(data):
    """Prices chosen from what happened so far, against a sum of true charges in fractions."""
    budget = data.draw(st.sampled_from([Budget(2), Budget(3, 1e-6), Budget(3, 1e-6, 3e-7), Budget(9, 1e-6, alpha=16)]))
    level = Cap("data set", "data", budget.caps, Cost())
    true_loss = true_failure = Fraction(0)
    for step in range(20):
        left = max(level.left.loss / SCALE, 1e-6)
        eta = min(data.draw(st.floats(1e-6, 2.0)) * (1 if step % 2 else left), 5.0)
        event = BoundedRange(max(eta, 1e-6))
        failure = data.draw(st.sampled_from([0.0, 1e-8, 1e-7, 3.33e-8])) if budget.delta else 0.0
        asked = price(WithFailure(event, failure), budget.currency)
        if first_exceeded_cap([level], asked) is not None:
            continue
        level = Cap(level.kind, level.name, level.cap, level.spent + asked)
        true_loss += _true(event.eta, budget)
        true_failure += Fraction(failure)
    assert true_loss <= Fraction(budget.cap, SCALE)
    assert true_failure <= Fraction(budget.failure_delta)


def _true(eta, budget):
    """A lower bound on the true charge, so that a charge rounded down would be found."""
    if budget.delta == 0:
        return Fraction(repr(eta))
    with mpmath.workprec(300):
        e = mpmath.mpf(repr(eta))
        if budget.alpha is None:
            x = e / mpmath.expm1(e)
            rho = x - 1 - mpmath.log(x)
        else:
            t = mpmath.log((mpmath.exp(e) - 1) / e) if e > 1e-3 else e / 2
            p = (1 - mpmath.exp(t - e)) / (1 - mpmath.exp(-e))
            a = mpmath.mpf(budget.alpha)
            rho = mpmath.log(p * mpmath.exp((a - 1) * t) + (1 - p) * mpmath.exp((a - 1) * (t - e))) / (a - 1)
        return Fraction(int(mpmath.floor(rho * 2**200)), 2**200)


def test_a_cap_is_filled_to_its_last_unit_and_no_further():
    level = Cap("data set", "data", Cost(10, 3), Cost(7, 1))
    assert level.admits(Cost(3, 2))
    assert not level.admits(Cost(4, 0))
    assert not level.admits(Cost(0, 3))
    assert first_exceeded_cap([level], Cost(3, 2)) is None
    assert Cost(3, 0).times_in(Cost(10, 0)) == 3
    assert Cost(3, 2).times_in(Cost(10, 3)) == 1
    assert Cost().times_in(Cost(10, 3)) is None


@pytest.mark.parametrize("text", ["8,1e-6", "8,1e-6,failure=5e-7", "8,1e-6,alpha=16", "4", "4,1e-6,failure=1e-6"])
def test_what_is_used_is_never_below_what_the_charges_amount_to_and_the_whole_cap_is_the_whole_budget(text):
    budget = Budget.parse(text)
    used = [budget.epsilon_of(budget.cap * part // 10) for part in range(11)]
    assert used == sorted(used)
    assert used[0] == 0
    assert budget.epsilon * 0.999 < used[-1] <= budget.epsilon
    # A quarter of a budget in rho is half of it in epsilon for small rho, and never less than a quarter.
    assert all(value >= budget.epsilon * part / 10 * (1 - 1e-12) for part, value in enumerate(used))
