"""Known-broken mechanisms: flawed releases break their claims, sound twins keep them, and audits tell them apart."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.audits.broken import known_mechanisms, p_value
from sottovoce.audits.roc import roc_of

NAMES = list(known_mechanisms())
DRAWS, BAND = 100_000, 0.0125


def test_every_flaw_that_was_asked_for_is_here():
    assert len(NAMES) >= 10
    assert {
        "no-noise", "half-noise", "seed-reuse", "unclipped", "true-counts", "factor-one-under-replace-one",
        "universe-from-private-words", "coreset-without-noise", "order-from-ptr", "esa-one-partition",
        "classical-gaussian",
    } <= set(NAMES)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_flawed_release_breaks_its_curve_and_the_sound_one_keeps_it(name):
    """False alarm: of 49,000 runs a side, rates are within .0125 at all thresholds at once but for a chance of 2e-6."""
    mechanism = known_mechanisms()[name]
    excess = {}
    for flawed in (True, False):
        draws = np.random.default_rng([7, flawed])
        present = draws.random(DRAWS) < 0.5
        curve = roc_of((mechanism.flawed if flawed else mechanism.sound)(present, draws), present)
        wrong, missed = curve.false_positive_rates + BAND, 1 - curve.true_positive_rates + BAND
        excess[flawed] = float((mechanism.claim.fnr(np.minimum(wrong, 1.0)) - missed).max())
    assert excess[False] <= 0
    assert excess[True] > 0


@pytest.mark.cases(5)
@pytest.mark.parametrize("name", NAMES)
def test_an_audit_flags_the_flawed_release_and_not_the_sound_one(name):
    """False alarm: a sound release is refuted at 99 % with chance .01 at most; the power is in docs/results."""
    mechanism = known_mechanisms()[name]
    assert p_value(mechanism, np.random.default_rng(11), flawed=True) <= 0.01
    assert p_value(mechanism, np.random.default_rng(12), flawed=False) > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_of_a_hundred_audits_ninety_five_flag_and_one_is_false(name):
    mechanism = known_mechanisms()[name]
    flagged, false = (
        sum(
            p_value(mechanism, np.random.default_rng([seed, 100 + flawed]), flawed=flawed) <= 0.01
            for seed in range(100)
        )
        for flawed in (True, False)
    )
    assert flagged >= 95
    assert false <= 1
