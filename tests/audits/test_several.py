"""Several attacks: Holm's numbers by hand, and the chance of any false refutation."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.audits.several import holm, level_of_each
from sottovoce.errors import ParameterError


def test_holm_by_hand():
    # .01 x 4, then .02 x 3 = .06, then .02 x 2 is less, so .06 stays; .5 x 1.
    assert holm({"a": 0.01, "b": 0.5, "c": 0.02, "d": 0.02}) == pytest.approx(
        {"a": 0.04, "b": 0.5, "c": 0.06, "d": 0.06}
    )
    assert holm({"only": 0.2}) == {"only": 0.2}
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}


def test_any_of_several_true_claims_is_refuted_within_the_level():
    """False alarm: 5 of 8 claims are true; more than 140 of 2,000 at level .05 has chance below 1e-4."""
    draws, wrong, plain = np.random.default_rng(5), 0, 0
    for _ in range(2000):
        p_values = {f"true {i}": float(p) for i, p in enumerate(draws.random(5))}
        p_values |= {f"broken {i}": 1e-6 for i in range(3)}
        adjusted = holm(p_values)
        wrong += any(adjusted[name] <= 0.05 for name in p_values if name.startswith("true"))
        plain += any(p_values[name] <= 0.05 for name in p_values if name.startswith("true"))
        assert all(adjusted[f"broken {i}"] <= 0.05 for i in range(3))
    assert wrong <= 140
    assert plain > 300  # without the correction


def test_what_is_no_p_value_is_refused():
    with pytest.raises(ParameterError, match="attacks"):
        holm({})
    with pytest.raises(ParameterError, match="p-value of a"):
        holm({"a": 1.2})
    assert level_of_each(0.05, 5) == pytest.approx(0.01)
    with pytest.raises(ParameterError, match="attacks"):
        level_of_each(0.05, 0)
    with pytest.raises(ParameterError, match="attacks"):
        level_of_each(0.05, 10**400)
