"""Figures that are printed are on the safe side of the figures that they stand for."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.errors import ParameterError
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.numbers import exact, factor_up, float_above, float_below, rounded_down, rounded_up
from sottovoce.privacy.unit import Adjacency

DIGITS = st.integers(1, 15)
NUMBERS = st.one_of(
    st.floats(min_value=0, max_value=1e30, allow_subnormal=False),
    st.fractions(min_value=0, max_value=10**9),
    st.decimals(min_value=0, max_value=100, places=3).map(float),
)


def written(value: float | Fraction) -> Fraction:
    return value if isinstance(value, Fraction) else exact(value)


def unit_in_the_last_place(value: Fraction, digits: int) -> Fraction:
    """The step between decimals of so many digits around ``value``."""
    power = 0
    while value >= Fraction(10) ** (power + 1):
        power += 1
    while value < Fraction(10) ** power:
        power -= 1
    return Fraction(10) ** (power - digits + 1)


@given(value=NUMBERS, digits=DIGITS)
def test_a_printed_bound_is_on_its_safe_side_and_less_than_one_step_away(value, digits):
    above, below = (Fraction(Decimal(f(value, digits))) for f in (rounded_up, rounded_down))
    true = written(value)
    assert below <= true <= above
    if true:
        step = unit_in_the_last_place(true, digits)
        assert above - true < step
        assert true - below < step


@given(value=st.floats(min_value=1e-300, max_value=1e300, allow_subnormal=False), digits=DIGITS)
def test_a_printed_bound_read_again_is_no_better_as_a_float(value, digits):
    assert float(rounded_down(value, digits)) <= value <= float(rounded_up(value, digits))


def test_a_bound_of_few_digits_is_printed_as_it_was_written():
    # 0.1 and 0.7 are not binary fractions; a person who asked for 0.1 is not told 0.1001.
    for value in (0.1, 0.7, 1.649, 20.0, 1e-6, 0.0, 12350.0):
        assert float(rounded_up(value)) == float(rounded_down(value)) == value
    assert [rounded_up(math.inf), rounded_down(math.inf), rounded_up(1.7976931348623157e308)] == ["inf"] * 3
    with pytest.raises(ParameterError, match="digits"):
        rounded_up(1.0, 16)


@given(epsilon=st.floats(min_value=0, max_value=99.99))
def test_a_factor_is_at_least_the_exponential_and_less_than_one_step_above(epsilon):
    shown = mpmath.mpf(factor_up(epsilon)) if epsilon else mpmath.mpf(1)
    with mpmath.workprec(400):
        true = mpmath.exp(mpmath.mpf(repr(epsilon)))
        shown = mpmath.mpf(factor_up(epsilon))
        assert true <= shown <= true * (1 + mpmath.mpf(10) ** -3)


@pytest.mark.parametrize("epsilon", [1, 0.5, 0.1, 2, 3, 0.25, 4])
def test_the_factor_of_a_usual_epsilon_is_not_below_it(epsilon):
    assert float(factor_up(epsilon)) > math.exp(epsilon)


def test_rounding_to_the_nearest_would_promise_too_much():
    # The planted mistake: of 200 epsilons about half have a factor that four digits round down.
    low = sum(float(f"{math.exp(k / 50):.4g}") < math.exp(k / 50) for k in range(1, 201))
    assert low > 60


def test_a_large_epsilon_is_left_in_the_exponent_and_still_rounded_up():
    assert factor_up(100.0) == "exp(100)"
    assert factor_up(123.4567891) == "exp(123.457)"
    assert factor_up(123.4561) == "exp(123.457)"


@given(value=st.fractions(min_value=0, max_value=10**6))
def test_floats_beside_a_fraction_are_on_their_side(value):
    assert exact(float_below(value)) <= value <= exact(float_above(value))
    assert float_above(value) <= math.nextafter(float(value), math.inf)
    assert float_below(value) >= math.nextafter(float(value), -math.inf)


def test_a_printed_report_is_not_below_its_bound():
    for steps in range(1, 60, 4):
        report = RdpAccountant(Adjacency.REPLACE_ONE).compose(BoundedRange(0.1), steps).report(1.00001e-5, ("RDP",))
        _, epsilon, _, _, delta, *_ = str(report).split()
        assert float(epsilon) >= report.epsilon
        assert float(delta.rstrip(",")) >= report.delta


@pytest.mark.parametrize("digits", [1, 4, 15])
def test_what_no_float_reaches_is_printed_on_its_safe_side(digits):
    tiny, large = Fraction(1, 10**400), Fraction(10**400)
    assert (rounded_up(tiny, digits), rounded_down(tiny, digits)) == ("5e-324", "0")
    assert rounded_up(large, digits) == "inf"
    assert Fraction(rounded_down(large, digits)) <= large
    assert (float_above(tiny), float_below(tiny)) == (5e-324, 0.0)
    for sign in (1, -1):
        assert float_below(sign * large) <= sign * large <= float_above(sign * large)


@given(st.fractions(Fraction(1, 10**330), Fraction(1, 10**307)), st.integers(1, 15))
def test_a_printed_bound_is_on_its_safe_side_where_floats_lose_their_digits(value, digits):
    assert Fraction(rounded_down(value, digits)) <= value <= Fraction(rounded_up(value, digits))


def test_no_bound_is_printed_as_minus_zero():
    tiny = Fraction(1, 10**400)
    assert (rounded_up(-tiny), rounded_down(tiny), rounded_up(-0.0)) == ("0", "0", "0")
