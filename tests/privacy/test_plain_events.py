"""NumPy numbers cost what Python's cost: an event is rebuilt from its numbers before anything is priced."""

from __future__ import annotations

import json

import attr
import numpy as np
import pytest

from sottovoce.errors import ParameterError
from sottovoce.experts.clipping import BestIsOne, Probabilities
from sottovoce.methods.base import Price
from sottovoce.methods.decoding.plan import Setting
from sottovoce.methods.poe import PoE
from sottovoce.parameters import Number, OneOf, Root, Share, Tiny, WorkedOut
from sottovoce.privacy.accounting.accountant import RdpAccountant, cost_of
from sottovoce.privacy.accounting.groups import scaled_to_group
from sottovoce.privacy.event_json import event_to_json
from sottovoce.privacy.events import (
    ApproximateDP,
    BoundedRange,
    ComposedDpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    PureDP,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    WithFailure,
    ZCDpEvent,
)
from sottovoce.privacy.ledger.filter import price
from sottovoce.privacy.plain_events import plain
from sottovoce.privacy.unit import DROP, Adjacency
from sottovoce.synthesis.config import SynthesisConfig

I8, F16 = np.int8, np.float16
EVENTS = [
    BoundedRange(F16(1e-4)),
    BoundedRange(I8(16)),
    PureDP(I8(16)),
    ZCDpEvent(F16(1e-7)),
    GaussianDpEvent(F16(300)),
    GaussianDpEvent(I8(16)),
    ApproximateDP(F16(0.5), F16(1e-7)),
    WithFailure(BoundedRange(I8(16)), F16(1e-7)),
    SelfComposedDpEvent(SelfComposedDpEvent(BoundedRange(0.1), I8(100)), I8(100)),
    ComposedDpEvent([BoundedRange(F16(1e-4)), SelfComposedDpEvent(PureDP(I8(16)), I8(100))]),
]
SAMPLED = [
    PoissonSampledDpEvent(F16(1e-3), GaussianDpEvent(I8(2))),
    SampledWithoutReplacementDpEvent(I8(100), I8(50), PureDP(F16(0.5))),
]


def with_python_numbers(value):
    """The same event, made without the code under test."""
    if attr.has(type(value)):
        return type(value)(*(with_python_numbers(getattr(value, a.name)) for a in attr.fields(type(value))))
    if isinstance(value, list):
        return [with_python_numbers(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value


@pytest.mark.parametrize("event", EVENTS + SAMPLED, ids=str)
def test_the_accountant_prices_what_it_read(event):
    adjacency = Adjacency.ADD_REMOVE if isinstance(event, PoissonSampledDpEvent) else Adjacency.REPLACE_ONE
    reports = [RdpAccountant(adjacency).compose(e).report(1e-6) for e in (event, with_python_numbers(event))]
    assert reports[0] == reports[1]
    assert reports[0].epsilon > 0


@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_the_filter_charges_what_it_read_and_writes_it_down(event):
    same = with_python_numbers(event)
    assert cost_of(event) == cost_of(same)
    assert price(event, "rho") == price(same, "rho")
    assert json.dumps(event_to_json(event)) == json.dumps(event_to_json(same))


@pytest.mark.parametrize("parts", [map(PureDP, [1.0]), (PureDP(1.0) for _ in "a"), "ab", 5, None], ids=range(5))
def test_the_parts_of_a_composition_are_a_list(parts):
    # An iterator has its parts once: whoever looks at them first leaves nothing to be priced.
    event = ComposedDpEvent(parts)
    for use in (
        lambda: price(event, "rho"),
        lambda: cost_of(event),
        lambda: RdpAccountant(Adjacency.ADD_REMOVE).compose(event),
        lambda: scaled_to_group(event, 2),
        lambda: event_to_json(event),
        lambda: price(SelfComposedDpEvent(event, 3), "rho"),
    ):
        with pytest.raises(ParameterError, match=r"ComposedDpEvent\.events is .*a list or a tuple"):
            use()


def test_a_composition_holds_the_parts_that_were_read():
    parts = [PureDP(1.0), PureDP(2.0)]
    read = plain(ComposedDpEvent(parts))
    parts.clear()
    assert read.events == (PureDP(1.0), PureDP(2.0))


def test_a_group_is_scaled_from_what_was_read():
    assert repr(scaled_to_group(SelfComposedDpEvent(BoundedRange(I8(16)), I8(100)), 16)) == repr(
        SelfComposedDpEvent(BoundedRange(256.0), 100)
    )


@pytest.mark.parametrize("value", [np.True_, True, np.nan, "0.5", -1.0], ids=repr)
def test_what_is_no_number_is_no_parameter_of_an_event(value):
    for event in (BoundedRange(value), SelfComposedDpEvent(PureDP(0.1), value), WithFailure(PureDP(0.1), value)):
        with pytest.raises(ParameterError):
            plain(event)
        with pytest.raises(ParameterError):
            price(event, "rho")


def test_plans_hold_the_sizes_that_were_read():
    setting = Setting(I8(100), I8(60), I8(20), Adjacency.ADD_REMOVE, DROP)
    order = SynthesisConfig(per_label=I8(60), tokens=I8(64), texts_per_batch=I8(30), experts=I8(20))
    method = PoE(clip=F16(100), prior_weight=I8(2))
    sizes = (setting.tokens, setting.texts, setting.experts, order.per_label, order.tokens, order.texts_per_batch)
    assert {type(size) for size in (*sizes, order.experts)} == {int}
    assert (type(method.clip), type(method.prior_weight)) == (float, int)


def test_a_switch_is_no_number():
    for value in (np.True_, np.array(True)):
        with pytest.raises(ParameterError, match="epsilon"):
            Price(value)
    assert Price(np.float64(0.5)).epsilon == Price("0.5").epsilon == 0.5


@pytest.mark.parametrize(("kind", "value"), [(Tiny, 7), (Share, WorkedOut(3) / 2)], ids=["tiny", "share"])
def test_a_fraction_is_held_to_the_limit_unless_it_was_worked_out(kind, value):
    (limit,) = kind.__metadata__
    with pytest.raises(ParameterError, match="x is"):
        limit.read("x", value)
    assert limit.read("x", WorkedOut(value)) == value
    assert Number(1, 2, exact=True).read("x", Root(WorkedOut(10**20))) == Root(WorkedOut(10**20))


@pytest.mark.parametrize("value", [np.array(["soft", "loud"]), ["soft"], None, np.True_, {"soft"}], ids=repr)
def test_what_is_no_text_is_no_word(value):
    with pytest.raises(ParameterError, match=r"noise is .*one of soft, loud"):
        OneOf(("soft", "loud")).read("noise", value)
    assert type(OneOf(("soft", "loud")).read("noise", np.str_("soft"))) is str


@pytest.mark.parametrize(("bits", "temperature"), [(0, 1.0), (25, 1.0), (20.0, 1.0), (20, 0.0), (20, -1.0)])
def test_a_grid_on_probabilities_has_limits(bits, temperature):
    with pytest.raises(ParameterError, match=r"grid_bits|temperature"):
        Probabilities(bits, temperature=temperature)
    with pytest.raises(ParameterError, match="grid_bits"):
        BestIsOne(25)
