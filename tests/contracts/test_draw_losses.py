"""Which of many pairs of worlds are priced: those that lose most."""

from __future__ import annotations

import pytest

from sottovoce.mechanisms.propose_test_release import ProposeTestRelease
from sottovoce.mechanisms.top_k import OneShotTopK
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.events import (
    ApproximateDP,
    BoundedRange,
    ComposedDpEvent,
    GaussianDpEvent,
    PureDP,
    SelfComposedDpEvent,
    WithFailure,
    ZCDpEvent,
)
from sottovoce.privacy.unit import Adjacency
from sottovoce.testing.draw_losses import Losses

SET = ProposeTestRelease(300.0, 1e-8, 1).event
OTHER_SET = ProposeTestRelease(200.0, 1e-8, 2).event
COMPANION = BoundedRange(2.0)


def losses(*pairs):
    found = Losses(Adjacency.ADD_REMOVE)
    for number, parts in enumerate(pairs):
        found.add(parts, f"pair {number}")
    return found


@pytest.mark.parametrize("first", [True, False])
def test_the_costliest_of_many_pairs_with_sets_is_priced_wherever_it_stands(first):
    """Sets and companions: every pair loses more than another in one of both, and one has a companion too many."""
    usual = [(*[SET] * (40 - number), *[COMPANION] * (number % 3)) for number in range(36)]
    costly = [SET, *[COMPANION] * 4]
    pairs = [costly, *usual] if first else [*usual, costly]
    all_sets = WithFailure(ZCDpEvent(41 * SET.event.rho), 41 * SET.delta)  # no part of it is a set's own
    charged = ComposedDpEvent([all_sets, SelfComposedDpEvent(COMPANION, 2)])
    assert losses(*usual).exceed(charged, 1e-6) is None
    problem, world = losses(*pairs).exceed(charged, 1e-6)
    assert "costs epsilon" in problem
    assert world == f"pair {0 if first else len(usual)}"


def test_pairs_with_other_sets_are_both_priced():
    """Neither loses less than the other because the loss of a set is behind a failure."""
    pairs = [[SET, COMPANION, COMPANION, COMPANION], [OTHER_SET, COMPANION, COMPANION, COMPANION]]
    charged = ComposedDpEvent([SET, SelfComposedDpEvent(COMPANION, 2)])
    for order in (pairs, pairs[::-1]):
        assert losses(*order).exceed(charged, 1e-6) is not None
    assert losses([SET, COMPANION, COMPANION], [SET]).exceed(charged, 1e-6) is None


def test_what_loses_most_as_a_pure_event_or_fails_most_often_is_priced():
    """Pairs of fewer and larger losses have more rho; each exceeds its charge at another delta."""
    few = [[PureDP(0.5 + number / 100), PureDP(3.0 - number / 100)] for number in range(24)]
    assert losses(*few).exceed(PureDP(4.0), 1e-6) is None
    _, world = losses(*few, [PureDP(0.5)] * 9).exceed(PureDP(4.0), 1e-6)
    assert world == "pair 24"
    likely = [WithFailure(ZCDpEvent(2.0 - number / 100), 1e-7 * (1 + number / 100)) for number in range(24)]
    charged = WithFailure(SelfComposedDpEvent(ZCDpEvent(1.0), 2), 2e-7)
    assert losses(*[[part] for part in likely]).exceed(charged, 1e-6) is None
    _, world = losses(*[[part] for part in likely], [WithFailure(ZCDpEvent(0.01), 2e-6)]).exceed(charged, 1e-6)
    assert world == "pair 24"


def test_compositions_are_not_ordered_by_their_size():
    """Neither of two is left out for the other: of one rho, or of less rho and a higher price."""
    halves, quarters = SelfComposedDpEvent(ZCDpEvent(0.5), 2), SelfComposedDpEvent(ZCDpEvent(0.25), 4)
    assert losses([halves], [quarters]).exceed(ZCDpEvent(0.01), 1e-6) is not None
    one, several = OneShotTopK(0.5, 1).event, OneShotTopK(1.5, 9).event
    _, world = losses([one], [several]).exceed(several, 1e-6)
    assert world == "pair 0"
    listed = ComposedDpEvent([PureDP(1.0), ComposedDpEvent([BoundedRange(2.0), SET])])
    assert losses([listed]).exceed(ComposedDpEvent([PureDP(1.0), BoundedRange(2.0)]), 1e-9) is not None
    assert losses([listed]).exceed(listed, 1e-6) is None


@pytest.mark.parametrize("kind", [PureDP, BoundedRange])
@pytest.mark.parametrize("number", [6, 9, 12])
def test_each_of_many_unequal_losses_may_be_within_a_part_of_its_own(kind, number):
    """An accountant's figure for them is above the event's: it knows the tightest composition of few kinds alone."""
    charged = [SelfComposedDpEvent(kind(0.5), number), SelfComposedDpEvent(PureDP(0.25), 2)]
    within = [*(kind(0.5 - number / 1000) for number in range(number)), PureDP(0.25), PureDP(0.2)]
    assert losses(within).exceed(ComposedDpEvent(charged), 1e-6) is None
    assert losses([*within, PureDP(0.25)]).exceed(ComposedDpEvent(charged), 1e-6) is not None
    assert losses([*within, PureDP(0.3)]).exceed(ComposedDpEvent(charged), 1e-6) is not None
    assert losses([*within[:-2], PureDP(0.5), PureDP(0.25)]).exceed(ComposedDpEvent(charged), 1e-6) is not None


def test_noise_and_failures_of_many_unequal_losses_are_held_against_those_of_the_event():
    noise, failing = GaussianDpEvent(2.0), WithFailure(PureDP(0.5), 1e-7)
    charged = ComposedDpEvent([SelfComposedDpEvent(noise, 4), SelfComposedDpEvent(failing, 12)])
    unequal = [WithFailure(PureDP(0.5 - number / 1000), 1e-7) for number in range(12)]
    within = [GaussianDpEvent(8.0), GaussianDpEvent(1.01), *unequal]
    assert losses(within).exceed(charged, 2e-6) is None
    assert losses([*within, GaussianDpEvent(2.0)]).exceed(charged, 2e-6) is not None
    assert losses([*within, failing]).exceed(charged, 2e-6) is not None
    assert losses([*within[:-1], WithFailure(PureDP(0.48), 2e-7)]).exceed(charged, 1.25e-6) is not None
    either = WithFailure(PureDP(1.0), 0.05, exclusive=True)
    assert losses([either]).exceed(either, 0.05) is None
    assert losses([PureDP(1.0)]).exceed(either, 0.05) is None
    assert losses([WithFailure(PureDP(1.0), 0.05)]).exceed(either, 0.05) is not None


@pytest.mark.parametrize("number", [3, 12, 24])
@pytest.mark.parametrize("spread", [0.01, 0.5])
def test_unequal_selections_may_be_charged_in_any_honest_form(number, spread):
    """A failure may stand around one selection, around all, or around a point of a profile."""
    selections = [BoundedRange(0.2 * (1 - spread * at / number)) for at in range(number)]
    equal = SelfComposedDpEvent(BoundedRange(0.2), number)
    point = RdpAccountant(Adjacency.ADD_REMOVE).compose(equal).report(1e-6).epsilon
    for charged in (
        equal,
        SelfComposedDpEvent(PureDP(0.2), number),
        BoundedRange(0.2 * number),
        ZCDpEvent(number * 0.2**2 / 8),
        WithFailure(equal, 1e-7),
        SelfComposedDpEvent(WithFailure(BoundedRange(0.2), 1e-8), number),
        SelfComposedDpEvent(ApproximateDP(0.2, 1e-9), number),
        WithFailure(PureDP(point), 1e-6),
    ):
        assert losses(selections).exceed(charged, 1e-6) is None


@pytest.mark.parametrize("multiplier", [0.0, 1e-160])
def test_no_noise_at_all_is_priced(multiplier):
    none = GaussianDpEvent(multiplier)
    assert losses([none]).exceed(GaussianDpEvent(1.0), 1e-6) is not None
    assert losses([none]).exceed(none, 1e-6) is None


@pytest.mark.parametrize("parts", [list, tuple])
def test_a_composition_may_stand_in_a_list_wherever_it_stands(parts):
    """Lists cannot be hashed, and losses of pairs are told apart by their hashes."""
    both = ComposedDpEvent(parts([PureDP(0.5), BoundedRange(0.5)]))
    for event in (both, SelfComposedDpEvent(both, 2), WithFailure(both, 1e-7)):
        assert losses([event]).exceed(event, 1e-6) is None
        assert losses([event, event]).exceed(event, 1e-6) is not None
