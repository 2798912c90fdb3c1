"""Plans and choosers: what a batch is charged under either adjacency, and what a text may and may not do."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from contracts.wrong.decoders import MoreForSeveralTexts, SquaredDivisor
from decoding_worlds import ADJACENCIES, change_of, step_of
from sottovoce.errors import OpaqueError, ParameterError
from sottovoce.methods.amin import Amin
from sottovoce.methods.base import Price
from sottovoce.methods.decoding.decoder import Part, Setting, make_decoder, registered_decoders
from sottovoce.methods.invisible_ink import InvisibleInk
from sottovoce.methods.poe_decoding import PoEDecoding
from sottovoce.methods.prism import PRISM
from sottovoce.methods.tang import Tang
from sottovoce.models.fake import FakeStepper
from sottovoce.models.stepper import Group, Prompt, Step
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.accounting.event_cost import cost_of
from sottovoce.privacy.events import BoundedRange, SelfComposedDpEvent, WithFailure, ZCDpEvent
from sottovoce.privacy.step_costs import Sensitivity, StepCost
from sottovoce.privacy.unit import DROP, SWAP, Adjacency
from sottovoce.randomness import SeededRandomness

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
OPEN = [PRISM(), InvisibleInk(), InvisibleInk(clip=1.0, temperature=None), PoEDecoding(), Amin(threshold_scale=4.0)]
OPEN += [Amin(private_tokens=9), Tang(), Tang(noise="em"), Tang(noise="exponential")]
every_open_decoder = pytest.mark.parametrize("decoder", OPEN, ids=str)
every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES, ids=lambda a: a.value)


def planned(decoder, adjacency, price=None, **more):
    more = {"tokens": 40, "texts": 2, "experts": 30, **more}
    return decoder.plan(price, adjacency=adjacency, change=change_of(adjacency), **more)


@pytest.mark.cases(6)
@every_open_decoder
@every_adjacency
def test_a_plan_fits_its_price_and_nothing_slightly_dearer_does(decoder, adjacency):
    price = Price(3.0, 1e-5)
    plan = planned(decoder, adjacency, price)
    (calibrated_parameter,) = (name for name in plan.decoder.calibrated_parameters if getattr(decoder, name) is None)
    again = RdpAccountant(adjacency).compose(plan.event).report(1e-5, ["RDP", "zCDP", "pure"])
    assert again.epsilon == plan.report.epsilon <= price.epsilon
    value = getattr(plan.decoder, calibrated_parameter)
    dearer = {
        **plan.parameters,
        calibrated_parameter: value
        * (1 + 1e-4 if plan.decoder.calibrated_parameters[calibrated_parameter] else 1 - 1e-4),
    }
    with pytest.raises(ParameterError, match="epsilon"):
        planned(type(decoder)(**dearer), adjacency, price)
    assert value == float(f"{value:.6g}")


@every_open_decoder
def test_a_replaced_record_costs_more_noise_than_an_added_one(decoder):
    price = Price(3.0, 1e-5)
    added, replaced = (planned(decoder, adjacency, price).parameters for adjacency in ADJACENCIES)
    for name, costs_more in decoder.calibrated_parameters.items():
        if getattr(decoder, name) is None:
            ratio = added[name] / replaced[name] if costs_more else replaced[name] / added[name]
            if getattr(decoder, "threshold_scale", None) is None:
                assert ratio == pytest.approx(2 if "gaussian" not in str(decoder) else math.sqrt(2), rel=0.02)
            else:  # the tests' noise is fixed, and their cost doubles too
                assert ratio > 2


def test_more_tokens_or_texts_leave_less_for_each():
    etas = [planned(PRISM(), AR, Price(1.0, 1e-6), tokens=n).eta for n in (10, 40, 160)]
    assert etas[0] > etas[1] > etas[2]
    assert planned(PRISM(), AR, Price(1.0, 1e-6), tokens=20, texts=4).eta == planned(PRISM(), AR, Price(1.0, 1e-6)).eta


def test_disjoint_batches_cost_as_one_and_a_move_between_them_as_two_changes():
    # Specification 5.10: T = 100, eta = .0384 a token, delta 1e-5: .760 added, 1.618 replaced, 1.108 moved (zCDP).
    decoder, more = PRISM(10.0, 10 / (255 * 0.0384)), {"experts": 255, "tokens": 100, "texts": 1, "delta": 1e-5}
    added = planned(decoder, AR, bounds=["zCDP"], **more)
    replaced = planned(decoder, RO, bounds=["zCDP"], **more)
    moved = Setting(100, 1, 255, RO, SWAP, labels_public=False, joins=DROP)
    across = RdpAccountant(RO).compose(decoder.alternatives(moved)[1]).report(1e-5, ["zCDP"]).epsilon
    assert [round(x, 3) for x in (added.report.epsilon, replaced.report.epsilon, across)] == [0.76, 1.618, 1.108]
    # The dearer of the two is charged: the swap, where a unit has an expert to itself.
    private = planned(decoder, RO, bounds=["zCDP"], labels_public=False, joins=DROP, **more)
    assert private.event == replaced.event
    assert private.report.epsilon == replaced.report.epsilon


def test_with_private_labels_and_grouped_experts_both_batches_are_charged():
    plan = planned(PRISM(10.0, 1.0), RO, labels_public=False)
    assert cost_of(plan.event).rho == pytest.approx(2 * cost_of(planned(PRISM(10.0, 1.0), RO).event).rho)
    assert "move between" in plan.sentence


def test_a_drop_under_replace_one_is_refused():
    with pytest.raises(ParameterError, match="a swap"):
        PRISM().plan(Price(1.0, 1e-6), tokens=3, experts=3, adjacency=RO, change=DROP)


def test_parameters_that_cost_more_than_the_price_are_refused_with_their_cost():
    with pytest.raises(ParameterError, match="at least 7"):
        planned(PRISM(10.0, 0.131), AR, Price(1.0, 1e-5), experts=255, tokens=100, texts=1)


def test_an_open_parameter_needs_a_price_and_two_are_too_many():
    with pytest.raises(ParameterError, match="temperature"):
        planned(PRISM(), AR)
    with pytest.raises(ParameterError, match="clip and temperature"):
        planned(InvisibleInk(None, None), AR, Price(1.0, 1e-6))
    with pytest.raises(ParameterError, match="threshold_scale"):
        planned(Amin(), AR)


def test_a_zcdp_ledger_can_have_a_plan_that_fits_it():
    from sottovoce.privacy.accounting.accountant import rho_of_budget

    plan = planned(PRISM(), AR, Price(1.0, 1e-6), bounds=["zCDP"])
    assert 0.999 < cost_of(plan.event).rho / rho_of_budget(1.0, 1e-6) <= 1


def test_the_sentence_names_adjacency_unit_eta_and_size():
    said = planned(InvisibleInk(), AR, Price(2.0, 1e-6), unit="patient").sentence
    for words in ("add-remove", "patient", "eta 0.0", "2 x 40 tokens", "30 experts", "drop", "invisible-ink"):
        assert words in said


def test_every_decoder_of_the_folder_is_registered_and_made_by_name():
    assert "prism" in registered_decoders()
    assert make_decoder("prism", clip=3) == PRISM(clip=3.0)
    for name, cls in registered_decoders().items():
        assert cls.name == name
        assert cls.private
        assert cls.summary
        assert cls.source
    with pytest.raises(ParameterError, match="one of amin, invisible-ink"):
        make_decoder("beam-search")
    with pytest.raises(ParameterError, match="no such option"):
        make_decoder("prism", beams=4)


def undecided(prompt, text):
    """Either letter and the end, nearly alike."""
    return [1.0, 0.8, 0.9, -math.inf]


def write(decoder, adjacency=AR, tokens=12, inside=("abab", "abab", None), seed=1, function=undecided):
    """A text over a, b and the end, from a fake model; with no function it goes on as its prompt does."""
    stepper = FakeStepper(function, pieces=["a", "b"])
    plan = decoder.plan(None, tokens=tokens, experts=3, adjacency=adjacency, change=change_of(adjacency))
    chooser = plan.decoder.start(
        plan, SeededRandomness(seed), eos_tokens=stepper.eos_tokens, forbidden_tokens=stepper.forbidden_tokens
    )
    experts = [None if text is None else Prompt("a", text, "a") for text in inside]
    read = stepper.read([Group(Prompt("a", "", "a"), experts)], max_private_tokens=8, tokens=tokens)
    decoding, token, found = read.write([0], tokens), None, []
    while not chooser.over:
        (step,) = decoding.step({0: token})
        token = chooser.next(step)
        found.append(token)
    return found, chooser, plan


FIXED = [
    PRISM(10.0, 0.5),
    InvisibleInk(2.0, 0.5),
    PoEDecoding(5.0, 1.0),
    Amin(10.0, 0.5, threshold_scale=0.1),
    Tang(sigma=0.1),
    Tang(noise="em", rate=9.0),
    Tang(noise="exponential", scale=0.1),
]


@pytest.mark.cases(4)
@pytest.mark.parametrize("decoder", FIXED, ids=str)
@every_adjacency
def test_a_text_ends_by_its_end_token_or_its_length_and_holds_no_control_token(decoder, adjacency):
    lengths = set()
    for seed in range(6):
        tokens, chooser, plan = write(decoder, adjacency, seed=seed)
        assert set(tokens[:-1]) <= {0, 1}
        assert tokens[-1] in {0, 1, 2}
        assert len(tokens) == chooser.length == (12 if tokens[-1] != 2 else len(tokens))
        lengths.add(len(tokens))
        assert cost_of(chooser.spent).rho <= cost_of(plan.event).rho * (1 + 1e-12)
    assert len(lengths) > 1


def test_an_ended_text_spends_its_own_tokens_and_no_further_ones_are_chosen():
    tokens, chooser, plan = next(
        found for seed in range(9) if len((found := write(PRISM(10.0, 0.5), seed=seed))[0]) < 12
    )
    assert chooser.spent == SelfComposedDpEvent(plan.token_event, len(tokens))
    with pytest.raises(ParameterError, match="over"):
        chooser.next(step_of((0.0, 0.0, 0.0, 0.0), []))


def test_an_interrupted_text_counts_as_spent_in_full():
    decoder = PRISM(10.0, 0.5)
    plan = decoder.plan(None, tokens=9, experts=3, adjacency=AR, change=DROP)
    chooser = decoder.start(plan, SeededRandomness(1), eos_tokens=(9,))
    chooser.next(step_of((0.0, 0.0), [(1.0, 0.0)]))
    with pytest.raises(ParameterError, match="in full"):
        _ = chooser.spent


def test_a_step_that_fails_is_counted_before_it_is_read():
    def blocks():
        raise RuntimeError("the device is gone")
        yield

    plan = PRISM(10.0, 0.5).plan(None, tokens=1, experts=3, adjacency=AR, change=DROP)
    chooser = plan.decoder.start(plan, SeededRandomness(1), eos_tokens=())
    step = step_of((0.0, 0.0), [])
    step.blocks = blocks()
    with pytest.raises(RuntimeError):
        chooser.next(step)
    assert chooser.over
    assert chooser.length == 1


@pytest.mark.parametrize("decoder", FIXED, ids=str)
def test_a_public_rule_bounds_what_may_be_chosen(decoder):
    plan = decoder.plan(None, tokens=30, experts=3, adjacency=AR, change=DROP)
    chooser = plan.decoder.start(plan, SeededRandomness(2), eos_tokens=(), forbidden_tokens=(3,))
    rows = [(0.0, 9.0, 0.0, 9.0)] * 3
    chosen = {chooser.next(step_of((0.0, 5.0, 0.0, 9.0), rows), allowed=[0, 2, 3]) for _ in range(30)}
    assert chosen == {0, 2}
    chooser = plan.decoder.start(plan, SeededRandomness(2), eos_tokens=())
    assert chooser.next(step_of((0.0, 5.0), [(0.0, 9.0)]), allowed=torch.tensor([0])) == 0


# The law of Gaussian noise takes long on a fine grid.
@pytest.mark.parametrize("decoder", [d for d in FIXED if getattr(d, "sigma", None) is None], ids=str)
def test_rows_of_half_precision_and_from_inference_are_read(decoder):
    plan = decoder.plan(None, tokens=2, experts=3, adjacency=AR, change=DROP)
    laws = []
    with torch.inference_mode():
        rows = torch.tensor([[0.0, 4.0, 1.0, math.nan], [-2.0, 0.5, 8.0, 0.0]])
    for kind in (torch.float32, torch.bfloat16):
        step = Step(0, rows[1].to(kind), iter([rows.to(kind)]))
        laws.append(plan.decoder.start(plan, SeededRandomness(2), eos_tokens=()).law(step))
    assert laws[0].tolist() == laws[1].tolist()  # these numbers are exact in both


def test_experts_bring_what_they_hold_into_the_text():
    # 'b' after 'a' twenty times out of twenty: with little noise the text alternates.
    tokens, _, _ = write(InvisibleInk(60.0, 0.05, top_k=None), inside=("abab", "ababab", "abababab"), function=None)
    assert tokens[:6] == [1, 0, 1, 0, 1, 0]


def test_a_chooser_shows_and_keeps_nothing_private():
    _, chooser, _ = write(Amin(10.0, 0.5, threshold_scale=0.1))
    assert repr(chooser).startswith("AminSampler(amin, ")
    with pytest.raises(OpaqueError):
        pickle.dumps(chooser)


def test_a_chooser_of_another_method_refuses_the_plan():
    plan = planned(PRISM(10.0, 1.0), AR)
    with pytest.raises(ParameterError, match="amin"):
        Amin(10.0, 1.0, threshold_scale=1.0).start(plan, SeededRandomness(1), eos_tokens=())


def test_the_token_event_is_its_steps():
    assert planned(PRISM(10.0, 1.02), AR, experts=255).token_event == BoundedRange(10 / (255 * 1.02))
    assert np.isclose(planned(PRISM(10.0, 1.02), RO, experts=255).eta, 20 / (255 * 1.02))


def test_a_decoder_that_draws_at_more_than_its_charge_gets_no_plan():
    with pytest.raises(AssertionError, match=r"is charged \[BoundedRange.* and draws from mechanisms that cost"):
        planned(SquaredDivisor(), RO, Price(2.0, 1e-3), experts=10)
    assert planned(SquaredDivisor(), RO, Price(2.0, 1e-3), experts=2).eta


def test_a_decoder_whose_texts_cost_more_together_gets_no_plan():
    with pytest.raises(AssertionError, match=r"2 texts of wrong cost .* and each by itself"):
        planned(MoreForSeveralTexts(), AR, Price(2.0, 1e-3))
    assert planned(MoreForSeveralTexts(), AR, Price(2.0, 1e-3), texts=1).eta


@dataclass(frozen=True)
class FailsOnce(PRISM):
    """A step beside its tokens may fail, and costs what it costs whatever the change."""

    def parts(self, setting):
        return [*super().parts(setting), Part(Failing())]

    def mechanisms(self, plan):
        return [*super().mechanisms(plan), SimpleNamespace(event=Failing().event(plan.setting.change))]


@dataclass(frozen=True)
class Failing(StepCost):
    name, source, law, family = "failing", "none", "none", "zCDP that can fail"

    def sensitivity(self, change):
        return Sensitivity(1, "one")

    def event(self, change):
        return WithFailure(ZCDpEvent(1e-6), 1e-7)


def test_a_charge_covers_every_alternative_in_every_currency_of_a_ledger():
    setting = Setting(16, 2, 40, RO, SWAP, False, DROP)
    inside, in_each = map(cost_of, FailsOnce(10.0, 1.0).alternatives(setting))
    assert inside.rho > in_each.rho
    assert inside.delta < in_each.delta
    charged = cost_of(FailsOnce(10.0, 1.0).event(setting))
    assert charged.rho >= inside.rho
    assert charged.delta >= in_each.delta
    assert PRISM(10.0, 1.0).event(setting) == PRISM(10.0, 1.0).alternatives(setting)[0]
    plan = planned(FailsOnce(10.0, 1.0), RO, labels_public=False, joins=DROP)
    alone = RdpAccountant(RO).compose(plan.event).report(1e-6, ["RDP", "zCDP", "pure"])
    assert plan.report.epsilon == alone.epsilon


@dataclass(frozen=True)
class OneEvent(PRISM):
    """Right: all tokens of all texts are one event, whose figure adds up."""

    def alternatives(self, setting):
        return [ZCDpEvent(cost_of(event).rho) for event in super().alternatives(setting)]


def test_a_decoder_may_state_its_batch_as_one_event():
    plans = [planned(OneEvent(10.0, 1.0), AR, texts=texts) for texts in (1, 3)]
    assert math.isclose(plans[1].event.rho, 3 * plans[0].event.rho)
