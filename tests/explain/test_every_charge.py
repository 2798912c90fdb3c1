"""What ``sotto account`` prints for fits, long answers and methods of one's own is what a ledger is charged."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar

import pytest

from sottovoce.cli import run
from sottovoce.errors import NonPrivateError, ParameterError
from sottovoce.experts.sampling import ExpertSampling
from sottovoce.explain import Setting, explain, registered_cost_models, registered_subjects
from sottovoce.fitting.fit import Fitting
from sottovoce.methods.answering.answerer import AnswerSetting, make_answerer, registered_answerers
from sottovoce.methods.base import _METHODS, Method, Price, Reads, make_method, register_method, registered_methods
from sottovoce.methods.decoding.decoder import Decoder, registered_decoders
from sottovoce.methods.fitting.fitter import FitSetting, make_fitter, registered_fitters
from sottovoce.methods.poe import ProductOfExperts
from sottovoce.methods.prism import PRISM
from sottovoce.models.fake import FakeScorer
from sottovoce.parameters import options_of
from sottovoce.privacy.events import (
    ApproximateDP,
    BoundedRange,
    ComposedDpEvent,
    DpEvent,
    NoOpDpEvent,
    PureDP,
    SelfComposedDpEvent,
    describe,
)
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.unit import Adjacency, Assignment, change_type
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import Task

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
PRICES = [Price(0.8, 1e-6), Price(3.3, 1e-8)]
CURRENCIES = ["epsilon", "rho"]


def printed(capsys, name, price, adjacency, *more):
    """What the command says that a ledger is charged."""
    asked = ["--epsilon", repr(price.epsilon), "--delta", repr(price.delta), "--adjacency", adjacency.value]
    code = run(["account", name, *asked, "--json", *map(str, more)])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return json.loads(out)[adjacency.value]["charged"]


def variants(cls):
    """No options, and every word that an option of a few words may be."""
    yield {}
    for option in options_of(cls).values():
        for word in option.limit.removeprefix("one of ").split(", ") if option.limit.startswith("one of ") else ():
            yield {option.name: word}


# Fits


@pytest.mark.cases(3)
@pytest.mark.parametrize("currency", CURRENCIES)
@pytest.mark.parametrize("adjacency", list(Adjacency), ids=lambda adjacency: adjacency.value)
@pytest.mark.parametrize("name", registered_fitters())
def test_a_fit_is_explained_as_it_is_charged(capsys, name, adjacency, currency):
    cls = registered_fitters()[name]
    candidates = 4 if cls.pool == "required" else 0
    at = FitSetting(
        labels=4,
        dimension=16,
        units=250 if adjacency.size_is_public else None,
        adjacency=adjacency,
        change=change_type(Assignment.OWN_SLOT, adjacency),
        candidates=candidates,
        adds_epsilons=currency == "epsilon",
    )
    numbers = {"labels": 4, "units": 250, "dimension": 16, "currency": currency}
    numbers |= {"candidates": candidates} if candidates else {}
    for price in PRICES:
        plan = make_fitter(name).plan(price, at)
        side = explain(
            name, numbers, Setting(epsilon=price.epsilon, delta=price.delta, adjacency=adjacency.value, queries=1000)
        ).side(adjacency)
        assert side.charge == plan.charge
        assert side.report.epsilon <= plan.report.epsilon * (1 + 1e-9), "a thousand answers cost what the fit does"
    flags = [word for option, value in numbers.items() for word in (f"--{option}", value)]
    assert printed(capsys, name, price, adjacency, *flags) == describe(plan.charge)


@pytest.mark.parametrize("name", [name for name, cls in registered_fitters().items() if not cls.writes])
def test_a_fit_of_records_is_charged_what_was_explained(name, tmp_path):
    records = PrivateRecords([Row(i, {"text": f"note {i}", "label": "ab"[i % 2]}) for i in range(40)], source="notes")
    pool = None if registered_fitters()[name].pool == "unused" else [f"public text {i}" for i in range(6)]
    for budget, currency in ((None, "epsilon"), (Budget(8, 1e-6), "rho")):
        fitting = Fitting(
            records, Task(labels=["a", "b"]), epsilon=4, delta=1e-6, method=name, model=FakeScorer(), pool=pool,
            budget=budget, ledger=str(tmp_path / f"{currency}.db"),
        )  # fmt: skip
        numbers = {"labels": 2, "units": 40, "dimension": fitting.embedder.dimension, "candidates": len(pool or [])}
        numbers = {option: value for option, value in numbers.items() if value}
        explained = explain(name, {**numbers, "currency": currency}, Setting(epsilon=4, delta=1e-6))
        assert explained.side(RO).charge == fitting.plan.charge
        own = {name: value for name, value in fitting.plan.parameters.items() if value is not None}
        assert {name: explained.parameters[name] for name in own} == own


def test_a_fit_is_said_to_be_paid_once(capsys):
    words = ["--labels", "4", "--units", "250", "--epsilon", "2", "--queries", "1000"]
    assert run(["account", "class-means", *words]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "a ledger is charged, once, and all answers from the fit are free: ApproximateDP(epsilon=2.0" in out
    side = explain("class-means", {"labels": 4, "units": 250, "sigma": 50}, Setting(epsilon=2)).side(RO)
    plan = make_fitter("class-means", sigma=50.0).plan(
        Price(2.0, 1e-6), FitSetting(4, 384, 250, RO, change_type(Assignment.OWN_SLOT, RO))
    )
    assert side.charge == plan.charge, "noise beside a price is what a fit takes, too"
    assert plan.epsilon < 2


# Long answers


ANSWERS = [(name, more) for name, cls in registered_answerers().items() if cls.private for more in variants(cls)]


@pytest.mark.cases(1)
@pytest.mark.parametrize("currency", CURRENCIES)
@pytest.mark.parametrize("adjacency", list(Adjacency), ids=lambda adjacency: adjacency.value)
@pytest.mark.parametrize(("name", "more"), ANSWERS, ids=str)
def test_a_long_answer_is_explained_as_it_is_charged(capsys, name, more, adjacency, currency):
    if name in registered_methods():
        return  # what reads nothing is free under one name
    at = AnswerSetting(
        adjacency,
        ExpertSampling(1, 900),
        900 if adjacency.size_is_public else None,
        dimension=16,
        candidates=40,
        keywords=90,
        adds_epsilons=currency == "epsilon",
    )
    numbers = {"experts": 900, "units": 900, "dimension": 16, "candidates": 40, "public_keywords": 90}
    for price in PRICES:
        plan = make_answerer(name, **more).plan(price, at)
        options = {**more, **numbers, "currency": currency}
        setting = Setting(epsilon=price.epsilon, delta=price.delta, adjacency=adjacency.value)
        side = explain(name, options, setting).side(adjacency)
        assert side.charge == plan.charge
        assert side.report.epsilon <= plan.report.epsilon * (1 + 1e-9)
        words = [word for option, value in options.items() for word in ("-o", f"{option}={value}")]
        assert printed(capsys, name, price, adjacency, *words) == describe(plan.charge)


def test_what_a_paper_calls_otherwise_is_explained_as_it_is_charged():
    at = AnswerSetting(RO, ExpertSampling(), 100, keywords=90, adds_epsilons=False)
    plan = make_answerer("ksa", selection="one-shot", k=5).plan(Price(1.0, 1e-6), at)
    for options in ({"release": "top-k", "keywords": 5}, {"selection": "one-shot", "k": 5}):
        side = explain("ksa", options, Setting(epsilon=1.0)).side(RO)
        assert side.charge == plan.charge
        assert side.figures["eta"] == pytest.approx(0.19746, abs=1e-5)
    for drawn_by_nobody in ({"sampler": "continuous", "experts": 9}, {"experts": 9}):
        placed = {} if "sampler" in drawn_by_nobody else {"assignment": "content"}
        assert explain("esa", drawn_by_nobody, Setting(epsilon=1.0, **placed)).side(RO).charge is None
    assert explain("rnm", {"noise": "gaussian", "candidates": 3}, Setting(epsilon=1.0)).side(RO).charge is None


@pytest.mark.parametrize("sampling", ["without-replacement", "categorical"])
def test_a_sample_is_explained_as_it_is_charged(sampling):
    rate = 0.2 if sampling == "categorical" else None
    at = AnswerSetting(
        RO, ExpertSampling(4, 30, sampling, rate), 1000, dimension=16, candidates=40, adds_epsilons=False
    )
    plan = make_answerer("esa").plan(Price(1.0, 1e-6), at)
    options = {"experts": 30, "units": 1000, "sampling": sampling, "dimension": 16, "candidates": 40}
    options |= {"sampling_probability": rate} if rate else {}
    explained = explain("esa", options, Setting(epsilon=1.0, units_per_expert=4))
    assert explained.side(RO).charge == plan.charge
    assert explained.parameters["sigma"] == plan.answerer.sigma
    assert explained.side(RO).report.epsilon <= 1 + 1e-9
    assert explained.side(AR).refused
    assert explained.side(RO).change == "swap: a fresh sample for every answer"


@pytest.mark.parametrize("delta", [None, 1e-7])
def test_a_sampled_answer_that_needs_no_delta_is_explained_without_one_unless_it_is_named(delta):
    at = AnswerSetting(RO, ExpertSampling(1, 20, "without-replacement"), 130, keywords=90, candidates=6)
    plan = make_answerer("ksa", selection="one-shot", k=5).plan(Price(2.0, delta or 0.0), at)
    options = {"experts": 20, "units": 130, "sampling": "without-replacement", "currency": "epsilon"}
    options |= {"selection": "one-shot", "k": 5}
    explained = explain("ksa", options, Setting(epsilon=2.0, answer_delta=delta))
    assert explained.side(RO).charge == plan.charge == (ApproximateDP(2.0, delta) if delta else PureDP(2.0))
    assert explained.parameters["rate"] == plan.answerer.rate


def test_noise_that_is_given_alone_is_charged_what_it_costs():
    side = explain("esa", {"experts": 100, "sigma": 0.05, "currency": "epsilon"}).side(RO)
    assert side.charge == ApproximateDP(side.report.epsilon, 1e-6)
    assert explain("ksa", {"selection": "joint", "rate": 0.25}).side(RO).charge == BoundedRange(1.0)


# Methods of one's own


@pytest.fixture
def registered():
    """Registers a method for one test."""
    names = []

    def add(name, cls):
        names.append(name)
        return register_method(name, summary="a method of one's own", source="here")(cls)

    yield add
    for name in names:
        _METHODS._known.pop(name, None)


@dataclass(frozen=True)
class Own(Method):
    """Selects nothing by a mechanism of the library, and names no step."""

    loudness: int = 3

    def event(self, price, adjacency):
        return PureDP(price.epsilon)

    def choose(self, experts, price, randomness):
        raise NotImplementedError


def test_a_method_without_a_step_is_explained_by_its_own_event(registered, capsys):
    registered("own", Own)
    for price in PRICES:
        for adjacency in Adjacency:
            charged = make_method("own").event(price, adjacency)
            assert printed(capsys, "own", price, adjacency) == describe(charged)
            setting = Setting(epsilon=price.epsilon, delta=price.delta, adjacency=adjacency.value, queries=10)
            explained = explain("own", {"loudness": 4}, setting)
            assert explained.side(adjacency).report.bounds["pure"] == pytest.approx(10 * price.epsilon)
            assert explained.parameters == {"loudness": 4}
            other = RO if adjacency is AR else AR
            assert explained.side(other).report is None
            assert f"ask with --adjacency {other.value}" in explained.side(other).refused
    with pytest.raises(ParameterError, match="epsilon is missing"):
        explain("own", {}, Setting(queries=1000))
    with pytest.raises(ParameterError, match="tokens"):
        explain("own", {"tokens": 3}, Setting(epsilon=1))


@dataclass(frozen=True)
class Costlier(Own):
    """Names a step that costs less than it is charged."""

    step: ClassVar[type] = ProductOfExperts
    clip: float = 2.0

    def event(self, price, adjacency):
        return SelfComposedDpEvent(PureDP(price.epsilon), 2)

    def noise_event(self, price, adjacency):
        return BoundedRange(price.epsilon)


def test_a_step_that_is_not_what_is_charged_explains_nothing(registered):
    registered("costlier", Costlier)
    side = explain("costlier", {}, Setting(epsilon=1)).side(RO)
    assert side.charge == SelfComposedDpEvent(PureDP(1.0), 2)
    assert side.report.bounds["pure"] == pytest.approx(2)
    for noise in ({"rate": 0.1}, {"tokens": 2}):
        with pytest.raises(ParameterError, match="charged by its own event"):
            explain("costlier", noise, Setting(epsilon=1))


@dataclass(frozen=True)
class Later(Own):
    """Names the step that it is charged at one price alone."""

    step: ClassVar[type] = ProductOfExperts
    clip: float = 2.0

    def event(self, price, adjacency):
        return BoundedRange(price.epsilon if price.epsilon == 1 else 3 * price.epsilon)


def test_a_step_that_parts_from_the_charge_at_some_prices_explains_nothing(registered):
    registered("later", Later)
    for epsilon, charged in ((1, 1.0), (2, 6.0)):
        assert explain("later", {}, Setting(epsilon=epsilon)).side(RO).charge == BoundedRange(charged)
        for noise in ({"rate": 0.25}, {"tokens": 2}):
            with pytest.raises(ParameterError, match="charged by its own event"):
                explain("later", noise, Setting(epsilon=epsilon))


class Unknown(DpEvent):
    """An event that no accountant was taught."""


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (NoOpDpEvent(), "charges nothing"),
        (ComposedDpEvent([]), "charges nothing"),
        (PureDP(0.0), "charges nothing"),
        (SelfComposedDpEvent(BoundedRange(0.0), 3), "charges nothing"),
        (Unknown(), "knows"),
    ],
)
def test_what_cannot_be_priced_is_refused_and_is_never_0(registered, event, told):
    class Free(Own):
        """Reads records and says that it costs nothing, or what nobody understands."""

        def event(self, price, adjacency):
            return event

    registered("free", dataclass(frozen=True)(Free))
    with pytest.raises(ParameterError, match=told):
        explain("free", {}, Setting(epsilon=1))


def test_a_decoder_with_an_event_of_its_own_is_priced_by_it(monkeypatch):
    size = {"experts": 50, "temperature": 1.0, "tokens": 4}
    before = explain("prism", size).side(RO).report.epsilon
    monkeypatch.setattr(PRISM, "event", lambda self, setting: SelfComposedDpEvent(Decoder.event(self, setting), 2))
    side = explain("prism", size).side(RO)
    assert isinstance(side.charge, SelfComposedDpEvent)
    assert side.report.epsilon > 1.3 * before


def test_no_charge_is_stated_for_the_noise_of_a_decoder_that_no_run_has():
    size = {"experts": 50, "tokens": 4}
    priced = explain("prism", size, Setting(epsilon=1.0)).side(RO)
    assert priced.charge is None
    assert priced.report.epsilon == pytest.approx(1)
    assert explain("prism", {**size, "temperature": 1.0}).side(RO).charge is not None


# All of them


NUMBERS = {
    **{name: {"labels": 3, "units": 200, "candidates": 4} for name in registered_fitters()},
    **{name: {"experts": 900} for name in registered_answerers()},
    **{name: {"experts": 100, "tokens": 2} for name in registered_decoders()},
    **{name: {} for name in registered_methods()},
    "pbs": {"subsamples": 2},
    "amin": {"experts": 100, "tokens": 2, "private_tokens": 2, "threshold_scale": 0.3},
}
"""For every entry of the registries the public numbers that it needs; those of cost models are in ``test_explain``."""


@pytest.mark.cases(12)
@pytest.mark.parametrize("name", NUMBERS)
def test_every_private_entry_has_a_price_and_every_other_is_refused_in_words(name):
    kind = registered_subjects()[name]
    if not getattr(kind, "private", True):
        with pytest.raises(NonPrivateError, match="no privacy guarantee"):
            explain(name, NUMBERS[name], Setting(epsilon=2))
        return
    free = getattr(kind, "reads", None) is Reads.NOTHING
    side = explain(name, {} if free else NUMBERS[name], Setting(epsilon=None if free else 2.0)).side(RO)
    assert (side.report.epsilon == 0) is free
    assert (side.charge == NoOpDpEvent()) is free
    assert (side.charge is None) is issubclass(kind, Decoder)


def test_the_registries_have_no_other_entry():
    assert {*NUMBERS, *registered_cost_models()} == set(registered_subjects())


def test_an_option_of_a_long_answer_has_the_name_that_the_command_gives_it():
    setting, sample = Setting(epsilon=1), {"sampling": "categorical", "sampling_probability": 0.1, "experts": 10}
    assert explain("esa", sample, setting).side(RO).charge is not None
    with pytest.raises(ParameterError, match=r"absent: esa has experts, .*sampling_probability.*sigma"):
        explain("esa", {**sample, "sampling_rat": 0.1}, setting)


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({"keywords": 3, "k": 3}, "^k is 3; it must be absent where keywords is given: it is another name of it"),
        ({"release": "joint", "selection": "joint"}, "^selection is 'joint'; .*absent where release is given"),
        (
            {"release": "histogram", "words": 3, "k": 4},
            "absent: a release of ksa that no answer draws has release, .*words",
        ),
    ],
)
def test_an_option_that_is_given_twice_or_elsewhere_is_not_denied(options, limit):
    with pytest.raises(ParameterError, match=limit):
        explain("ksa", options, Setting(epsilon=1))
