"""What an event promises of two laws, and when two laws exceed it: values worked by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sottovoce.mechanisms.base import log_law
from sottovoce.methods.poe import PoE
from sottovoce.privacy.events import (
    ApproximateDP,
    BoundedRange,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PureDP,
    SelfComposedDpEvent,
    WithFailure,
    ZCDpEvent,
)
from sottovoce.privacy.unit import Adjacency
from sottovoce.testing import label_worlds as worlds
from sottovoce.testing.claims import claim_of, excess

AR = Adjacency.ADD_REMOVE


def found(event, *laws):
    return excess(claim_of(event, AR), np.array([log_law(law) for law in laws]))


def response(loss: float) -> tuple[list[float], list[float]]:
    """Randomised response with log-ratios of plus and minus ``loss``."""
    p = math.exp(loss) / (1 + math.exp(loss))
    return [p, 1 - p], [1 - p, p]


def test_randomised_response_exceeds_what_is_below_its_loss_and_nothing_above():
    assert found(PureDP(1.0), *response(1.0)) is None
    assert found(PureDP(0.9), *response(1.0)).amount == pytest.approx(0.1)


def test_a_bounded_range_is_as_wide_as_both_losses_together():
    # Losses of plus and minus 1/2: pure at 1/2, and of range 1.
    assert found(BoundedRange(1.0), *response(0.5)) is None
    over = found(BoundedRange(0.9), *response(0.5))
    assert over.amount == pytest.approx(0.1)
    assert "wide" in over.words


def test_an_outcome_that_is_impossible_in_one_world_alone_exceeds_every_pure_claim():
    half = Fraction(1, 2)
    for laws in ([[1, Fraction(0)], [half, half]], [[half, half], [1, Fraction(0)]]):
        assert found(PureDP(50.0), *laws).amount == math.inf
    for laws in ([[1.0, 0.0], [0.5, 0.5]], [[0.5, 0.5], [1.0, 0.0]]):  # in floats: below what they can tell
        assert found(PureDP(50.0), *laws).amount > 400
    assert found(PureDP(0.1), [1.0, 0.0], [1.0, 0.0]) is None


def test_what_underflows_is_no_proof_and_what_does_not_is_one():
    tiny, gone = math.exp(-450), 0.0  # the second is exp(-800), which floats do not hold
    assert found(PureDP(20.0), [1.0, tiny], [1.0, gone]) is None
    assert found(ZCDpEvent(20.0), [1.0, tiny], [1.0, gone]) is None
    assert found(PureDP(20.0), [1.0, 1e-100], [1.0, gone]).amount > 200


def test_a_point_holds_in_both_directions():
    # p has an outcome of probability 0.2 that q has not; q has none that p has not: only one direction needs a delta.
    p, q = [0.2, 0.4, 0.4], [0.0, 0.5, 0.5]
    assert found(ApproximateDP(0.3, 0.21), p, q) is None
    for laws in ((p, q), (q, p)):
        assert found(ApproximateDP(0.3, 0.19), *laws).amount == pytest.approx(0.01)


def test_zcdp_is_compared_at_renyi_orders():
    # Randomised response at loss 1 has order 1 divergence tanh(1/2) = 0.4621, which is its rho (T7).
    assert found(ZCDpEvent(0.4622), *response(1.0)) is None
    assert found(ZCDpEvent(0.46), *response(1.0)).amount > 0.001


def test_one_repetition_is_the_event_itself_and_two_add_up():
    assert claim_of(SelfComposedDpEvent(BoundedRange(1.0), 1), AR) == claim_of(BoundedRange(1.0), AR)
    assert claim_of(SelfComposedDpEvent(PureDP(1.0), 2), AR).pure == pytest.approx(2)
    assert claim_of(WithFailure(PureDP(1.0), 1e-3), AR).pure == math.inf


def test_nothing_is_promised_by_what_is_not_private_and_all_by_what_reads_nothing():
    assert claim_of(NonPrivateDpEvent(), AR) is None
    assert found(NoOpDpEvent(), [0.5, 0.5], [0.5, 0.5]) is None
    assert found(NoOpDpEvent(), [0.5, 0.5], [0.499, 0.501]) is not None


def test_fractions_below_floating_point_are_compared():
    tiny = Fraction(1, 10**400)
    assert found(PureDP(1.0), [1 - tiny, tiny], [1 - 2 * tiny, 2 * tiny]) is None
    assert found(PureDP(0.5), [1 - tiny, tiny], [1 - 2 * tiny, 2 * tiny]).amount == pytest.approx(math.log(2) - 0.5)


@pytest.mark.parametrize("change", worlds.CHANGES, ids=str)
def test_worlds_nearly_use_up_the_price_so_that_they_are_no_easy_ones(change):
    # The widest range that product of experts has in the worlds is within a hundredth of its eta.
    from sottovoce.methods.base import Price

    widest = 0.0
    for group, pairs in worlds.groups_of_neighbours(2, change, 2):
        laws = [log_law(PoE(2.0).law(worlds.outputs(rows, 2, change), Price(1.0))) for rows in group]
        widest = max(widest, *(float(np.ptp(laws[i] - laws[j])) for i, j in pairs))
    assert 0.99 < widest <= 1 + 1e-9
