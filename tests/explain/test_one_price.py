"""What ``sotto account`` explains and what a ledger is charged, over the registries: one event, not two that agree."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest

from contracts.wrong.methods import WorksOutItsClip
from sottovoce.errors import AssignmentError, NonPrivateError, ParameterError
from sottovoce.experts.label_scores import GRID_BITS, ExpertOutputs
from sottovoce.explain import Setting, explain, options_of_kind, registered_cost_models, registered_subjects
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.methods.answering.answerer import registered_answerers
from sottovoce.methods.base import (
    _METHODS,
    Price,
    Selecting,
    Subsampling,
    make_method,
    register_method,
    registered_methods,
)
from sottovoce.methods.decoding.decoder import registered_decoders
from sottovoce.methods.fitting.fitter import registered_fitters
from sottovoce.methods.poe import PoE, ProductOfExperts
from sottovoce.parameters import options_of
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.accounting.composition import merge
from sottovoce.privacy.events import ApproximateDP, BoundedRange, NoOpDpEvent, describe
from sottovoce.privacy.step_costs import GaussianStep
from sottovoce.privacy.unit import DROP, SWAP, Adjacency, Assignment, change_type

PRICES = [Price(0.3, 1e-6), Price(1.0, 1e-7), Price(math.pi, 1e-9)]
ADJACENCIES = list(Adjacency)
PRIVATE = {name: cls for name, cls in registered_methods().items() if cls.private}
OTHERS = {name: cls for name, cls in registered_methods().items() if not cls.private}


def variants(cls):
    """The class at its defaults, and with every word that an option of a few words may be."""
    yield {}
    for option in options_of(cls).values():
        if option.limit.startswith("one of "):
            for word in option.limit.removeprefix("one of ").split(", "):
                yield {option.name: word}


METHODS = [(name, more) for name, cls in PRIVATE.items() for more in variants(cls)]
DECODERS = [(name, more) for name, cls in registered_decoders().items() for more in variants(cls)]


def priced_alike(name, more, price, adjacency):
    """The explained charge and the ledger's."""
    setting = Setting(epsilon=price.epsilon, delta=price.delta, adjacency=adjacency.value)
    if make_method(name, **more).step is None:
        setting = Setting(delta=price.delta, adjacency=adjacency.value)
    return explain(name, more, setting).side(adjacency).charge, make_method(name, **more).event(price, adjacency)


@pytest.mark.cases(6)
@pytest.mark.parametrize("adjacency", ADJACENCIES, ids=lambda a: a.value)
@pytest.mark.parametrize(("name", "more"), METHODS, ids=str)
def test_an_answer_is_explained_as_it_is_charged(name, more, adjacency):
    if issubclass(PRIVATE[name], Subsampling) and adjacency is Adjacency.ZERO_OUT:
        with pytest.raises(AssignmentError):
            make_method(name, **more).event(PRICES[0], adjacency)
        return
    for price in PRICES[: 1 if issubclass(PRIVATE[name], Subsampling) else None]:
        explained, charged = priced_alike(name, more, price, adjacency)
        assert explained == charged
        assert (charged == NoOpDpEvent()) is (PRIVATE[name].step is None)


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE], ids=lambda a: a.value)
def test_the_price_holds_whatever_the_slots(adjacency):
    # Grouped experts turn a drop into a swap: the noise grows, the charge does not.
    for placing in ({"units_per_expert": 4}, {"slots_per_unit": 3}, {"units_per_expert": 2, "assignment": "content"}):
        setting = Setting(epsilon=0.7, adjacency=adjacency.value, **placing)
        charge = explain("poe", {"clip": 1.7}, setting).side(adjacency).charge
        assert charge == PoE(1.7).event(Price(0.7), adjacency)


@pytest.mark.slow
def test_the_noise_that_is_explained_is_the_noise_that_is_drawn():
    price, method = Price(1.0, 1e-6), make_method("pbs", subsamples=20)
    for adjacency in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE):
        side = explain("pbs", {"subsamples": 20}, Setting(epsilon=1, delta=1e-6, adjacency=adjacency.value))
        multiplier = method.noise_multiplier(price, adjacency)
        assert side.parameters["sigma"] == pytest.approx(math.sqrt(2) * multiplier, rel=1e-15)
        assert f"noise_multiplier={multiplier})" in side.side(adjacency).events[0]
        assert side.side(adjacency).report.epsilon <= 1


@pytest.mark.parametrize("change", [DROP, SWAP], ids=lambda change: change.name)
@pytest.mark.parametrize(
    ("name", "more"), [pair for pair in METHODS if issubclass(PRIVATE[pair[0]], Selecting)], ids=str
)
def test_the_sensitivity_that_is_explained_is_that_of_the_scores(name, more, change):
    method, rows = make_method(name, **more), np.log([[0.5, 0.3, 0.2]] * 4)
    experts = ExpertOutputs(rows, change, Adjacency.ADD_REMOVE, public=rows[0])
    scores, one = method.scores(experts), method.step_at(Price(1.0, 1e-6), change, Adjacency.ADD_REMOVE)
    if scores.squared_l2 is not None and isinstance(one, GaussianStep):
        assert one.sensitivity(change).value ** 2 == pytest.approx(float(scores.squared_l2))
    else:
        sensitivity = one.sensitivity(change)
        grid = 1 if "vote" in sensitivity.words else 1 << GRID_BITS
        assert sensitivity.value == pytest.approx(scores.sensitivity / grid, rel=1e-3)


@pytest.mark.cases(2)
@pytest.mark.parametrize("labels_public", [True, False], ids=["public labels", "private labels"])
@pytest.mark.parametrize("adjacency", ADJACENCIES, ids=lambda a: a.value)
@pytest.mark.parametrize(("name", "more"), DECODERS, ids=str)
def test_a_batch_of_texts_is_explained_as_it_is_charged(name, more, adjacency, labels_public):
    if more.get("fresh", "never") != "never":
        return  # below: such a sample needs numbers of its own
    cls, change = registered_decoders()[name], change_type(Assignment.OWN_SLOT, adjacency)
    for tokens, texts, experts in ((1, 1, 5), (12, 3, 40)):
        size = {"tokens": tokens, "texts": texts, "experts": experts, "labels_public": labels_public}
        plan = cls(**more).plan(
            Price(3.0, 1e-6), adjacency=adjacency, change=change, joins=DROP, bounds=["zCDP"], **size
        )
        calibrated = {option: value for option, value in plan.parameters.items() if value is not None}
        explained = explain(name, {**calibrated, **size}, Setting(delta=1e-6, adjacency=adjacency.value))
        assert explained.side(adjacency).charge == plan.event
        if labels_public:  # the steps that are told are those that are charged
            told = sorted(f"{count} x {describe(event)}" for event, count in merge([plan.event]).items())
            assert sorted(explained.side(adjacency).events) == told
        report = RdpAccountant(adjacency).compose(plan.event).report(1e-6)
        assert explained.side(adjacency).report.epsilon <= report.epsilon * (1 + 1e-12)


def test_a_unit_that_changes_batches_is_priced_where_labels_are_private():
    # Where experts hold several units, leaving one batch for another re-evaluates an expert in each of them.
    options, setting = {"experts": 50, "temperature": 1.0, "tokens": 3}, Setting(units_per_expert=4)
    inside, moved = (
        explain("prism", {**options, "labels_public": public}, setting).side(Adjacency.REPLACE_ONE)
        for public in (True, False)
    )
    both = registered_decoders()["prism"](temperature=1.0).plan(
        None, tokens=3, experts=50, adjacency=Adjacency.REPLACE_ONE, change=SWAP, labels_public=False, joins=SWAP
    )
    assert moved.charge == both.event
    assert moved.report.epsilon > inside.report.epsilon


def test_a_fresh_sample_for_every_token_is_charged_as_one_point():
    tang = registered_decoders()["tang"](noise="em", rate=8.0, fresh="token", sampling_rate=0.25)
    size = {"tokens": 4, "experts": 40}
    plan = tang.plan(None, adjacency=Adjacency.ADD_REMOVE, change=DROP, delta=1e-6, **size)
    options = {option: value for option, value in plan.parameters.items() if value is not None}
    side = explain("tang", {**options, **size}, Setting(delta=1e-6)).side(Adjacency.ADD_REMOVE)
    assert side.charge == plan.event
    assert isinstance(plan.event, ApproximateDP)
    assert side.report.epsilon <= plan.event.epsilon


@pytest.mark.parametrize("name", OTHERS)
def test_a_method_without_a_guarantee_is_refused_in_words(name):
    with pytest.raises(NonPrivateError, match=f"'{name}' has no privacy guarantee"):
        explain(name, {})


def test_every_registered_name_is_known_to_account():
    registries = (
        registered_methods,
        registered_answerers,
        registered_fitters,
        registered_decoders,
        registered_cost_models,
    )
    assert set(registered_subjects()) == {name for registry in registries for name in registry()}
    assert {"esa", "ksa", "dpm", "exponential"} <= set(registered_cost_models())
    assert {"prior-poe", "poe-decoding", "zero-shot", "demonstrations"} <= set(registered_subjects())


def test_nothing_read_costs_nothing():
    for name in ("zero-shot", "demonstrations"):
        for side in explain(name, {}, Setting(queries=1000)).sides:
            assert (side.charge, side.report.epsilon) == (NoOpDpEvent(), 0.0)


# A method of one's own, and mistakes in one.


@pytest.fixture
def registered():
    """Registers a method for one test."""
    names = []

    def add(name, cls):
        names.append(name)
        return register_method(name, summary="loud", source="here")(cls)

    yield add
    for name in names:
        _METHODS._known.pop(name, None)


@dataclass(frozen=True)
class Loud(PoE.__base__):
    """A product of experts with an option that nothing else has."""

    step: ClassVar[type] = ProductOfExperts
    clip: float = 2.0
    loudness: int = 3

    def mechanism(self, price):
        return Exponential(price.epsilon)

    def scores(self, experts):
        return experts.clipped_sum(self.clip)


def test_a_new_option_is_one_line_in_one_file(registered, capsys):
    from sottovoce.cli import run
    from sottovoce.cli.account import _flags

    registered("loud", Loud)
    _flags.cache_clear()
    assert run(["methods"]) == 0
    assert "options: clip=2.0; loudness=3" in capsys.readouterr().out
    for words in (["--loudness", "5"], ["-o", "loudness=5"]):
        assert run(["account", "loud", "--epsilon", "1", "--json", *words]) == 0
        assert '"loudness": 5' in capsys.readouterr().out
    assert run(["account", "loud", "--epsilon", "1", "-o", "loudness=much"]) == 2
    assert "-o loudness is 'much'; it must be a whole number" in capsys.readouterr().err
    assert "loudness" in options_of_kind(Loud)
    for price, adjacency in itertools.product(PRICES, ADJACENCIES):
        explained, charged = priced_alike("loud", {"loudness": 4}, price, adjacency)
        assert explained == charged
    _flags.cache_clear()


@pytest.mark.parametrize("adjacency", ADJACENCIES, ids=lambda a: a.value)
def test_a_parameter_that_a_method_works_out_is_explained_and_charged(registered, adjacency):
    registered("works-it-out", WorksOutItsClip)
    for price in PRICES:
        for decibels in (2, 3):
            explained, charged = priced_alike("works-it-out", {"decibels": decibels}, price, adjacency)
            assert explained == charged == BoundedRange(price.epsilon)
    with pytest.raises(ParameterError, match="clip"):
        make_method("works-it-out", clip=3)


@dataclass(frozen=True)
class _Cheap(Loud):
    """Draws at the price asked, and is charged half of it."""

    def step_at(self, price, change, adjacency):
        return super().step_at(Price(price.epsilon / 2, price.delta), change, adjacency)


@dataclass(frozen=True)
class _Careless(Loud):
    """Is charged the price asked, and draws with half the noise."""

    def mechanism(self, price):
        return Exponential(2 * price.epsilon)


@pytest.mark.parametrize("cls", [_Cheap, _Careless])
def test_a_method_whose_charge_and_draw_differ_is_never_charged(cls):
    with pytest.raises(AssertionError, match="draws from a mechanism that costs"):
        cls.event(make(cls), Price(1.0), Adjacency.REPLACE_ONE)


def make(cls):
    cls.name = cls.__name__
    return cls()


def test_a_method_that_selects_must_say_what_it_releases(registered):
    @dataclass(frozen=True)
    class Silent(Loud):
        step: ClassVar[None] = None

    with pytest.raises(ParameterError, match="'step'"):
        registered("silent", Silent)


def test_a_method_has_no_field_of_its_own_for_the_noise_of_its_step(registered):
    @dataclass(frozen=True)
    class Rated(Loud):
        rate: float = field(init=False, default=1.0)

    with pytest.raises(ParameterError, match="method is 'rated'; it must be one without a field 'rate' of its own"):
        registered("rated", Rated)


def test_a_step_that_a_price_set_has_that_price_to_the_last_bit():
    for epsilon, clip, change in itertools.product((0.1, 1 / 3, math.e, 1e-6, 999.9), (0.7, 2.3, 1000), (DROP, SWAP)):
        assert ProductOfExperts.at(epsilon, 0.0, change, clip=clip).event(change).eta == epsilon


def test_several_tokens_are_so_many_answers():
    one = explain("poe", {"rate": 0.1}, Setting(queries=6)).side(Adjacency.REPLACE_ONE).report
    six = explain("poe", {"rate": 0.1, "tokens": 6}).side(Adjacency.REPLACE_ONE)
    assert one == six.report
    assert six.charge is None  # no method here answers so
