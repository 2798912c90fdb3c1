"""Certificates of fits: everything holds as it was made, and every fact that is changed is noticed by a check."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import fields, replace
from fractions import Fraction
from types import SimpleNamespace

import pytest

from fits import QUESTIONS
from fitting.worlds_of_fits import RHO, fitting, records
from sottovoce.errors import InputError, ParameterError
from sottovoce.files.checkpoint import Checkpoint
from sottovoce.fitting.certificate import FORMAT, FitCertificate, statement_of
from sottovoce.methods.fitting.fitter import FitSetting, make_fitter, registered_fitters
from sottovoce.models.base import Isolation, weakest
from sottovoce.models.fake import FakeScorer
from sottovoce.parameters import Root, WorkedOut, limits_of
from sottovoce.privacy.checks import canonical
from sottovoce.privacy.event_json import event_to_json
from sottovoce.privacy.events import ApproximateDP, GaussianDpEvent
from sottovoce.privacy.ledger.history import SEEDED_NOTE
from sottovoce.privacy.ledger.ledger import Account
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.release import figures_of

FIGURES, EVENT, CHARGE, WORDS, REQUEST, NOISE, APART, SUPPORT, CHARGED, PRICE, LEFT, DATA = range(12)
"""The checks, in order."""


@pytest.fixture(scope="module")
def made():
    one = fitting(ledger=":memory:")
    return one.run().certificate, one.ledger


def holds(certificate, made, **given):
    known = {"ledger": made[1], "records": records(), **given}
    return [check.holds for check in certificate.checks(made[0].content_sha256, known["ledger"], known["records"])]


def test_everything_holds_with_ledger_and_records(made):
    assert holds(made[0], made) == [True] * 12


def test_what_cannot_be_looked_at_is_said(made):
    assert holds(made[0], made, ledger=None) == [True] * 8 + [None] * 4
    assert holds(made[0], made, records=None) == [True] * 11 + [None]


EXACT = [
    (name, option)
    for name, method in sorted(registered_fitters().items())
    for option, (limit, _) in limits_of(method).items()
    if getattr(limit, "exact", False)
]


@pytest.mark.parametrize(("name", "option"), EXACT)
def test_a_parameter_given_as_an_exact_number_is_the_nearest_float(name, option):
    for value in (Fraction(1, 3), Root(Fraction(1, 9))):
        made = getattr(make_fitter(name, **{option: value}), option)
        assert (type(made), made) == (float, 1 / 3)
    with pytest.raises(ParameterError, match=option):
        make_fitter(name, **{option: WorkedOut(10**12)})


def test_a_parameter_given_as_a_fraction_is_certified_as_the_float_that_was_used():
    one = fitting(method=make_fitter("dp-logistic", clip=Fraction(4, 3)))
    fitted = one.run()
    assert json.loads(json.dumps(dict(fitted.certificate.parameters)))["clip"] == 4 / 3
    assert fitted.to_bytes()
    assert holds(fitted.certificate, (fitted.certificate, one.ledger)) == [True] * 12


@pytest.mark.parametrize("adjacency", list(Adjacency), ids=lambda a: a.value)
@pytest.mark.parametrize("budget", [None, RHO], ids=["epsilons", "rho"])
def test_everything_holds_under_every_relation_and_with_both_kinds_of_ledger(adjacency, budget):
    one = fitting(adjacency=adjacency, budget=budget)
    made = one.run().certificate, one.ledger
    assert holds(made[0], made) == [True] * 12
    assert f"{adjacency.value} adjacency" in made[0].statement
    assert made[0].units == (None if adjacency is Adjacency.ADD_REMOVE else 40)


QUIET = GaussianDpEvent(0.5)
CHANGED = {
    "statement": (lambda c: c.statement.replace("at most", "about"), WORDS),
    "method": (lambda c: "oracle", EVENT),
    "parameters": (lambda c: {**c.parameters, "sigma": c.parameters["sigma"] / 2}, EVENT),
    "adjacency": (lambda c: "zero-out", FIGURES),
    "unit": (lambda c: "group", PRICE),
    "change": (lambda c: "drop", FIGURES),
    "epsilon": (lambda c: c.epsilon / 2, FIGURES),
    "delta": (lambda c: c.delta / 1000, FIGURES),
    "event": (lambda c: event_to_json(QUIET), FIGURES),
    "charge": (lambda c: event_to_json(ApproximateDP(c.epsilon / 2, c.delta)), CHARGE),
    "labels": (lambda c: [*c.labels, "another"], REQUEST),
    "dimension": (lambda c: c.dimension + 1, REQUEST),
    "units": (lambda c: c.units + 1, REQUEST),
    "candidates": (lambda c: 3, REQUEST),
    "content_sha256": (lambda c: c.content_sha256[::-1], SUPPORT),
    "model": (lambda c: "oracle", PRICE),
    "embedding": (lambda c: "0" * 64, REQUEST),
    "isolation": (lambda c: Isolation.NOT_VERIFIED.value, APART),
    "seeded": (lambda c: True, NOISE),
    "data": (lambda c: "0" * 64, DATA),
    "ledger": (lambda c: "0" * 16 + "-1", CHARGED),
    "version": (lambda c: "0.0", REQUEST),
    "asked": (lambda c: {**c.asked, "public_texts": "0" * 64}, PRICE),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_fact_that_is_changed_is_noticed_by_the_check_that_is_for_it(name, made):
    change, check = CHANGED[name]
    forged = replace(made[0], **{name: change(made[0])})
    assert holds(forged, made)[check] is False


def test_every_fact_is_changed_here():
    assert CHANGED.keys() == {field.name for field in fields(FitCertificate)} - {"format"}


@pytest.mark.parametrize("name", [name for name in CHANGED if name not in ("ledger", "data", "content_sha256")])
def test_no_fact_can_be_changed_together_with_the_request_that_it_came_from(name, made):
    certificate = made[0]
    changed = CHANGED[name][0](certificate)
    asked = certificate.asked if name == "asked" else {**certificate.asked, name: changed}
    forged = replace(certificate, **{name: changed, "asked": asked if name != "asked" else changed})
    assert False in holds(forged, made)


def test_a_forger_who_changes_the_figure_and_all_that_says_it_is_found_by_the_ledger(made):
    cheap = fitting(epsilon=2.0).run().certificate
    forged = replace(cheap, ledger=made[0].ledger, content_sha256=made[0].content_sha256, data=made[0].data)
    found = holds(forged, made)
    assert found[:PRICE] == [True] * PRICE
    assert found[PRICE] is False


def test_another_support_that_left_is_not_this_one(made):
    other = fitting().run()
    found = [check.holds for check in made[0].checks(other.content_sha256, made[1], records())]
    assert found[SUPPORT] is False
    forged = replace(made[0], content_sha256=other.content_sha256)
    found = [check.holds for check in forged.checks(other.content_sha256, made[1], records())]
    assert found[SUPPORT] is True
    assert found[LEFT] is False


def test_other_records_are_not_those_that_were_charged(made):
    assert holds(made[0], made, records=records(41))[DATA] is False


def test_another_ledger_does_not_know_the_charge(made):
    other = fitting()
    other.run()
    found = holds(made[0], made, ledger=other.ledger)
    assert found[CHARGED] is False
    assert found[PRICE] is False
    assert found[LEFT] is False


def test_a_parameter_that_is_left_open_is_noticed(made):
    forged = replace(made[0], parameters={**made[0].parameters, "sigma": None})
    assert holds(forged, made)[EVENT] is False


@pytest.mark.parametrize("event", [{}, {"event": "oracle"}, {"event": "GaussianDpEvent", "noise_multiplier": "x"}])
def test_an_event_that_cannot_be_read_is_noticed_and_raises_nothing(event, made):
    assert holds(replace(made[0], event=event), made)[FIGURES] is False
    assert holds(replace(made[0], charge=event), made)[CHARGE] is False


def nested(depth):
    event = {"event": "BoundedRange", "eta": 0.1}
    for _ in range(depth):
        event = {"event": "WithFailure", "inner": event, "delta": 1e-9, "exclusive": False}
    return event


def sampled(kinds):  # few parts, and each takes long to price
    inner = {"event": "GaussianDpEvent", "noise_multiplier": 1.0}
    parts = [{"event": "PoissonSampledDpEvent", "sampling_probability": 0.01 + i * 1e-4, "inner": inner}
             for i in range(kinds)]  # fmt: skip
    return {
        "event": "ComposedDpEvent",
        "events": [{"event": "SelfComposedDpEvent", "inner": part, "count": 133_000} for part in parts],
    }


@pytest.mark.parametrize(
    "event",
    [{"event": "ComposedDpEvent", "events": [{"event": "BoundedRange", "eta": i} for i in range(2_000)]},
     sampled(15), nested(17), nested(400), {"event": "SelfComposedDpEvent", "inner": 7, "count": 1},
     {"event": "ApproximateDP", "epsilon": nested(3), "delta": []}],
    ids=["many", "dear", "deep", "deeper", "no event", "no point"],
)  # fmt: skip
def test_no_event_is_priced_but_that_of_the_parameters(event, made, monkeypatch):
    priced = []
    price = FitSetting.cost
    monkeypatch.setattr(FitSetting, "cost", lambda *given: priced.append(given[1]) or price(*given))
    with pytest.raises(InputError, match=r"follows from the event: (another event than|it cannot be read)"):
        replace(made[0], event=event).require_sound("a file")
    assert holds(replace(made[0], event=event), made)[EVENT : CHARGE + 1] == [False, False]
    assert holds(replace(made[0], charge=event), made)[CHARGE] is False
    assert {canonical(event_to_json(one)) for one in priced} <= {canonical(made[0].event)}


def test_seeded_noise_has_no_guarantee_and_says_so():
    one = fitting(records(synthetic=True), randomness=SeededRandomness(1))
    fitted = one.run()
    certificate = fitted.certificate
    assert "NO privacy guarantee" in certificate.statement
    assert (figures_of(certificate)["epsilon"], "no privacy guarantee" in repr(fitted)) == (None, True)
    assert SEEDED_NOTE in certificate.note
    found = holds(certificate, (certificate, one.ledger), records=records(synthetic=True))
    assert found == [True] * 5 + [False] + [True] * 6


def test_a_model_that_was_not_seen_to_keep_records_apart_has_no_guarantee_and_says_so():
    one = fitting(model=FakeScorer(isolation=Isolation.NOT_VERIFIED))
    certificate = one.run().certificate
    assert "no formal guarantee" in certificate.statement
    adjacency = certificate.adjacency
    assert figures_of(certificate) == {"epsilon": None, "delta": None, "adjacency": adjacency}
    assert holds(certificate, (certificate, one.ledger))[APART] is False


def test_an_embedder_that_is_seen_to_mix_records_is_counted_in_the_ledger():
    class SeenToMix(FakeScorer):
        def embed_records(self, task, records):
            self.isolation = Isolation.NOT_VERIFIED
            return super().embed_records(task, records)

    one = fitting(model=SeenToMix())
    certificate = one.run().certificate
    assert "no formal guarantee" in certificate.statement
    (balance,) = one.ledger.balances()
    assert (balance.unverified, one.ledger.verify()) == (1, [])
    found = holds(certificate, (certificate, one.ledger))
    assert [number for number, held in enumerate(found) if not held] == [APART]
    said = str(certificate.asked["isolation"])  # as it was asked for, which the ledger says was not so
    forged = replace(certificate, isolation=said, statement=certificate.statement.partition(";")[0])
    assert holds(forged, (forged, one.ledger))[LEFT] is False


@pytest.mark.parametrize("behind", ["rehearsed", "read"])
def test_what_a_model_settles_as_it_runs_is_certified_as_it_was_charged(behind):
    class Settles(FakeScorer):
        def embed_questions(self, task, queries):
            self.isolation = to if behind == "rehearsed" else self.isolation
            return super().embed_questions(task, queries)

        def embed_records(self, task, records):
            self.isolation = to
            return super().embed_records(task, records)

    for at, to in itertools.product(Isolation, repeat=2):
        data = records(synthetic=True)
        one = fitting(data, model=Settles(isolation=at))
        certificate = one.run().certificate
        charged = to if behind == "rehearsed" else at
        assert certificate.asked["isolation"] == charged.value
        assert certificate.isolation == weakest([charged, to]).value
        found = holds(certificate, (certificate, one.ledger), records=data)
        assert [held for number, held in enumerate(found) if number != APART] == [True] * 11
        (balance,) = one.ledger.balances()
        assert (balance.unverified, one.ledger.verify()) == (not found[APART], [])


@pytest.mark.cases(16)
def test_a_fit_that_goes_on_with_models_that_say_less_is_certified_with_less(tmp_path, monkeypatch):
    for number, (at, then) in enumerate(itertools.product(Isolation, repeat=2)):
        data, out = records(synthetic=True), tmp_path / f"{number}.sotto"
        where = {"ledger": str(tmp_path / f"{number}.db")}
        one = fitting(data, model=FakeScorer(isolation=at), **where)
        noted = {**one.terms, "isolation": at.value} if number % 2 else one.terms  # as an earlier build did
        folder = Checkpoint(out, noted, one.new_run_state(), resume=False, endings=[".sotto"])
        with monkeypatch.context() as stopped:
            stopped.setattr(Account, "begin", without_memory)
            with pytest.raises(MemoryError):
                one.run(folder)
        folder.close()
        other = fitting(data, model=FakeScorer(isolation=then), **where)
        folder = Checkpoint(out, other.terms, other.new_run_state(), resume=True, endings=[".sotto"])
        certificate = other.run(folder).certificate
        folder.close()
        assert (certificate.asked["isolation"], certificate.isolation) == (at.value, weakest([at, then]).value)
        found = holds(certificate, (certificate, other.ledger), records=data)
        assert [held for number, held in enumerate(found) if number != APART] == [True] * 11
        for changed in set(Isolation) - {weakest([at, then])}:
            forged = stating(certificate, changed)
            assert holds(forged, (forged, other.ledger))[LEFT] is False, changed
        other.require_own(SimpleNamespace(certificate=certificate), "a file")
    assert sum(one.unverified for one in other.ledger.balances()) == 1


def without_memory(account, ids):
    raise MemoryError


def stating(certificate, isolation):
    """The same certificate with another isolation, in all its words."""
    c = certificate
    words = statement_of(Adjacency(c.adjacency), c.unit, c.epsilon, c.delta, c.method, isolation, seeded=c.seeded)
    return replace(c, isolation=isolation.value, statement=words)


@pytest.mark.parametrize("method", ["class-means", "label-public"])
def test_the_weaker_of_two_models_is_certified(method):
    for embedder, model in itertools.product(Isolation, repeat=2):
        pool = {"pool": list(QUESTIONS)} if method == "label-public" else {}
        one = fitting(
            records(synthetic=True),
            method=method,
            model=FakeScorer(isolation=model),
            embedder=FakeScorer(isolation=embedder),
            budget=None,
            **pool,
        )
        both = [embedder, *([model] if method == "label-public" else [])]
        assert one.run().certificate.isolation == weakest(both).value


def test_a_release_that_an_earlier_build_noted_is_held_against_what_was_asked(made, monkeypatch):
    noted = Account.mark_released

    def earlier(account, ids, content=None, *, isolated=True):
        parts = {name: text.split(" ") for name, text in (content or {}).items()}
        noted(account, ids, {name: f"{saved} {of}" for name, (saved, _, of) in parts.items()}, isolated=isolated)

    monkeypatch.setattr(Account, "mark_released", earlier)
    for isolation in Isolation:
        one = fitting(records(synthetic=True), model=FakeScorer(isolation=isolation))
        certificate = one.run().certificate
        assert holds(certificate, (certificate, one.ledger))[LEFT] is True
        for changed in set(Isolation) - {isolation}:
            forged = stating(certificate, changed)
            assert holds(forged, (forged, one.ledger))[LEFT] is False


# As it is read


def read(made, **changed):
    return FitCertificate.from_dict({**json.loads(json.dumps(made[0].as_dict)), **changed}, "a file")


def test_what_is_written_is_read_back(made):
    assert read(made) == replace(made[0], labels=list(made[0].labels))


MAPPINGS = [field.name for field in fields(FitCertificate) if field.type == "Mapping[str, Any]"]


@pytest.mark.cases(60)
@pytest.mark.parametrize("name", [field.name for field in fields(FitCertificate)])
@pytest.mark.parametrize("value", [[1], {"a": 1}, -1, 1e300, math.nan, 1 << 70, ["\ud800", 3]], ids=repr)
def test_a_field_of_another_kind_is_refused_by_name(name, value, made):
    if name in MAPPINGS and isinstance(value, dict):
        assert False in holds(read(made, **{name: value}), made)
        return
    with pytest.raises(InputError, match=f"{name}|no certificate that can be read"):
        read(made, **{name: value})


def test_a_newer_certificate_asks_for_a_newer_version(made):
    with pytest.raises(InputError, match=r"reads 1\. Update sottovoce"):
        read(made, format=FORMAT + 1)


@pytest.mark.parametrize("content", [None, [], "text", 7, {}, {"statement": "x"}])
def test_what_is_no_certificate_is_refused(content):
    with pytest.raises(InputError, match="a file"):
        FitCertificate.from_dict(content, "a file")


def test_a_field_too_many_is_refused(made):
    with pytest.raises(InputError, match="no certificate that can be read"):
        read(made, another=1)
