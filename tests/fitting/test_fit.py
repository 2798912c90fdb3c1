"""Fits from end to end: the order of charge, read and draw, what is refused before it; and nothing private shows."""

from __future__ import annotations

import logging
import tracemalloc

import numpy as np
import pytest

from contracts.wrong.fitters import AsksUnsaid
from fitting.worlds_of_fits import RHO, ROOMY, TASK, WORDS, asked, fit, fitting, kinds, records, rows
from hunting import hunt, hunt_error, hunt_files, marker, search
from sottovoce.data.bundled import public_pool
from sottovoce.errors import BudgetExhaustedError, InputError, ModelError, SottoError
from sottovoce.experts.encoded import EncodedRecords
from sottovoce.experts.ensemble import Ensemble
from sottovoce.files.checkpoint import Checkpoint
from sottovoce.fitting.fit import Fitting, _Private
from sottovoce.fitting.fitted import Fitted
from sottovoce.methods.class_means import ClassMeans
from sottovoce.models.fake import FakeScorer, one_shot, words_hashed
from sottovoce.privacy.events import ApproximateDP
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Account, Ledger
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import Task

every_relation = pytest.mark.parametrize("adjacency", list(Adjacency), ids=lambda a: a.value)
QUESTIONS = [f"{text} once more" for text in WORDS.values()]


@pytest.mark.cases(3)
@every_relation
@pytest.mark.parametrize("budget", [None, RHO], ids=["epsilons", "rho"])
def test_a_fit_answers_what_its_records_say_and_is_charged_once(adjacency, budget):
    one = fitting(records(600), adjacency=adjacency, budget=budget, epsilon=4.0)
    fitted = one.run()
    assert fitted.predict(QUESTIONS) == list(WORDS)
    assert kinds(one.ledger) == ["reserve", "draw", "release"]
    assert fitted.certificate.epsilon <= 4.0
    with pytest.raises(BudgetExhaustedError):
        one.affords()


def test_one_fit_can_have_all_of_its_budget_and_a_second_none(tmp_path):
    place = str(tmp_path / "notes.db")
    first, model = fitting(ledger=place), FakeScorer()
    first.run()
    second = fitting(ledger=place, model=model)
    for refused in (second.affords, second.run):
        with pytest.raises(BudgetExhaustedError):
            refused()
    assert model.contexts_read == 0
    assert kinds(Ledger(place)) == ["reserve", "draw", "release"]


def test_a_second_run_of_the_same_fit_is_charged_again(tmp_path):
    one = fitting(ledger=str(tmp_path / "notes.db"), budget=ROOMY)
    first, second = one.run(), one.run()
    assert first.certificate.ledger != second.certificate.ledger
    assert first.content_sha256 != second.content_sha256
    assert kinds(one.ledger) == ["reserve", "draw", "release"] * 2


def test_the_order_is_rehearse_charge_read_begin_draw_save_note(tmp_path, monkeypatch):
    seen = []

    def watch(owner, name):
        real = getattr(owner, name)

        def noted(*given, **named):
            seen.append(name)
            return real(*given, **named)

        monkeypatch.setattr(owner, name, noted)

    for owner, name in (
        (Fitting, "_rehearsed"), (Account, "reserve"), (EncodedRecords, "read"), (Checkpoint, "make_room"),
        (Account, "begin"), (EncodedRecords, "sum_of"), (ClassMeans, "fit"), (EncodedRecords, "close"),
        (Checkpoint, "save_bytes"), (Account, "mark_released"), (Checkpoint, "_write"),
    ):  # fmt: skip
        watch(owner, name)
    fit(out=tmp_path / "a.sotto", ledger=str(tmp_path / "a.db"))
    assert seen == ["_rehearsed", "reserve", "read", "make_room", "begin", "fit", "sum_of", "close", "save_bytes",
                    "mark_released", "_write"]  # fmt: skip


def test_the_charge_is_one_point_of_the_profile_or_the_event():
    by_epsilons, by_rho = fitting().plan, fitting(records(end=" others"), budget=RHO).plan
    assert by_epsilons.charge == ApproximateDP(by_epsilons.epsilon, 1e-6)
    assert by_rho.charge == by_rho.event
    assert by_rho.report.bound == "zCDP", "a ledger that adds rho keeps no other bound"
    assert by_rho.fitter.sigma > by_epsilons.fitter.sigma


# Worlds


def test_units_are_groups_where_records_have_them():
    one = fitting(records(40, group=lambda i: f"g{i // 4}"))
    fitted = one.run()
    assert one.units == 10 == fitted.certificate.units
    assert "unit 'group'" in fitted.statement


def test_a_blank_unit_counts_under_zero_out():
    data = PrivateRecords([*rows(10), Row(11, {"id": "x"})], source="notes")
    fitted = fit(data, adjacency="zero-out")
    assert fitted.certificate.units == 11


@every_relation
@pytest.mark.parametrize("count", [1, 2])
def test_two_records_are_fitted_too_and_answer_as_the_model_does_without_them(count, adjacency):
    quiet = {"randomness": SeededRandomness(3), "epsilon": 0.5}
    fitted = fit(records(count, synthetic=True), adjacency=adjacency, **quiet)
    answers = np.exp(fitted.log_probabilities(QUESTIONS))
    assert answers.sum(axis=1) == pytest.approx(1)
    assert answers == pytest.approx(np.full((2, 2), 0.5), abs=0.35)


def test_a_label_without_a_record_is_in_the_answer_and_is_not_told_of():
    task = Task(labels=[*WORDS, "nobody's"])
    one = fitting(task=task)
    fitted = one.run()
    assert fitted.support.weights.shape[0] == 3
    assert np.isfinite(fitted.log_probabilities(QUESTIONS)).all()
    assert fitted.certificate.labels == list(task.labels)


@pytest.mark.slow
def test_ten_thousand_labels_are_fitted_in_little_memory():
    many_labels(10_000, 100 << 20)


@pytest.mark.slow
def test_a_thousand_labels_are_fitted_in_little_memory():
    many_labels(1_000, 20 << 20)


def many_labels(count: int, most_bytes: int) -> None:
    task = Task(labels=[f"l{i}" for i in range(count)])
    data = PrivateRecords([Row(i, {"text": f"text {i}", "label": f"l{i}"}) for i in range(1, 30)], source="notes")
    tracemalloc.start()
    fitted = fit(data, task, model=FakeScorer(vectors=lambda text: [1.0] if len(text) % 2 else [-1.0]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert fitted.support.weights.shape == (count, 1)
    assert peak < most_bytes
    assert Fitted.from_bytes(fitted.to_bytes(), "a file").content_sha256 == fitted.content_sha256


def test_labels_whose_file_would_be_too_large_are_refused_before_a_ledger_is_opened(tmp_path):
    model = FakeScorer(vectors=lambda text: [0.0] * 4_096)
    with pytest.raises(InputError, match=r"size of the fitted file is .* it must be at most 268,435,456 bytes"):
        fitting(
            task=Task(labels=[*WORDS, *(f"l{i}" for i in range(9_000))]), model=model, ledger=str(tmp_path / "a.db")
        )
    assert list(tmp_path.iterdir()) == []
    assert model.contexts_read == 0


# Refusals

REFUSED = {
    "no such method": {"method": "oracle"},
    "no epsilon": {"epsilon": 0.0},
    "no delta": {"delta": 0.0},
    "a delta above one": {"delta": 2.0},
    "a model that embeds nothing": {"model": object()},
    "seeded noise for real records": {"randomness": SeededRandomness(1)},
    "settings that cost more": {"method": ClassMeans(sigma=0.1)},
    "a relation that is none": {"adjacency": "replace-two"},
    "an image task's model": {"embedder": "oracle"},
    "no list of public texts": {"pool": 7},
    "a public text that is none": {"pool": [3]},
    "an empty public text": {"pool": [""]},
    "a budget that is none": {"budget": 8},
}


@pytest.mark.parametrize("how", REFUSED.values(), ids=REFUSED)
def test_what_is_not_usable_is_refused_before_anything_is_read_or_charged(how, tmp_path):
    model, place = FakeScorer(), tmp_path / "notes.db"
    with pytest.raises(SottoError) as refused:
        fit(**{"model": model, "ledger": str(place), "out": tmp_path / "a.sotto", **how})
    assert model.contexts_read == 0
    assert not place.exists() or kinds(Ledger(str(place))) == []
    assert not (tmp_path / "a.sotto").exists()
    assert not (tmp_path / "a.sotto.partial").exists()
    assert not any(text in str(refused.value) for text in WORDS.values())


@pytest.mark.parametrize("name", ["a.jsonl", "a", ""])
def test_an_output_of_another_kind_is_refused_before_anything_is_charged(name, tmp_path):
    place, model = tmp_path / "notes.db", FakeScorer()
    with pytest.raises(InputError, match=r"\.sotto|folder"):
        fit(out=tmp_path / name, ledger=str(place), model=model)
    assert kinds(Ledger(str(place))) == []
    assert model.contexts_read == 0


def test_public_texts_that_are_private_records_are_refused(tmp_path):
    place = str(tmp_path / "notes.db")
    data = records()
    with pytest.raises(SottoError, match="public texts") as refused:
        fitting(data, ledger=place, pool=["something else", *(row.values["text"] for row in rows())]).affords()
    assert not any(text in str(refused.value) for text in WORDS.values())
    assert list(tmp_path.iterdir()) == [], "no budget was settled"
    honest = fitting(data, ledger=place, pool=["something else", "and more"], budget=Budget(8.0, 1e-6), epsilon=2.0)
    honest.run()
    assert kinds(Ledger(place)) == ["reserve", "draw", "release"]
    with pytest.raises(InputError, match="private records, such as those of the data set"):
        fitting(data, ledger=place, pool=[row.values["text"] for row in rows()])


def test_a_pool_that_is_in_part_private_is_compared_with_the_records_that_are_fitted(tmp_path):
    """Nobody knows these records yet: a tenth of the pool may be theirs by chance, and half of it is not."""
    strangers = [f"a text that anybody may read, number {i}" for i in range(60)]
    theirs = [row.values["text"] for row in rows()][:10]
    assert fitting(ledger=str(tmp_path / "a.db"), pool=[*strangers, *theirs]).balance.answers == 0
    with pytest.raises(InputError, match="no budget was opened"):
        fitting(records(end=" others"), ledger=":memory:", pool=[f"{text} others" for text in theirs * 2]).affords()
    synthetic = records(end=" made up", synthetic=True)
    assert fitting(synthetic, ledger=":memory:", pool=[f"{text} made up" for text in theirs]).balance.answers == 0


def test_texts_that_ship_are_public_whoever_has_them(tmp_path):
    shipped = [str(row.values["text"]) for row in public_pool()][:60]
    theirs = [Row(line, {"text": text, "label": TASK.labels[0]}) for line, text in enumerate(shipped, 1)]
    data = PrivateRecords(theirs, source="memory")
    assert fitting(data, ledger=str(tmp_path / "a.db")).balance.answers == 0
    with pytest.raises(InputError, match="most of these rows are private records"):
        fitting(data, ledger=str(tmp_path / "a.db"), pool=shipped)


def test_a_price_that_is_looked_at_settles_no_budget(tmp_path):
    place = str(tmp_path / "notes.db")
    assert fitting(ledger=place, epsilon=1.0).plan.epsilon == 1.0
    with pytest.raises(InputError, match="must end in"):
        fit(ledger=place, epsilon=2.0, out=tmp_path / "a.txt")
    assert fit(ledger=place, epsilon=8.0).certificate.epsilon == 8.0
    assert kinds(Ledger(place)) == ["reserve", "draw", "release"]


def test_experts_are_asked_before_the_draw_begins(tmp_path, monkeypatch):
    place, out = str(tmp_path / "notes.db"), tmp_path / "a.sotto"
    asked_of = Ensemble.ask
    how = {"ledger": place, "out": out, "method": "label-public", "pool": list(WORDS.values()), "budget": ROOMY}

    def short_of_memory(ensemble, *given):
        raise ModelError("short of memory", retryable=True)

    monkeypatch.setattr(Ensemble, "ask", short_of_memory)
    with pytest.raises(ModelError):
        fit(**how)
    assert kinds(Ledger(place)) == ["reserve"]
    monkeypatch.setattr(Ensemble, "ask", asked_of)
    assert fit(**how, resume=True).method == "label-public"
    assert kinds(Ledger(place)) == ["reserve", "draw", "release"]


def test_a_fitter_that_asks_experts_and_does_not_say_so_is_refused_before_anything_is_charged(tmp_path):
    place = str(tmp_path / "notes.db")
    how = {"ledger": place, "pool": list(WORDS.values()), "budget": ROOMY}
    with pytest.raises(AssertionError, match="asks-unsaid asks experts and does not say so"):
        fitting(method=AsksUnsaid(), **how).run()
    assert kinds(Ledger(place)) == []


def test_resuming_without_a_file_is_refused():
    with pytest.raises(InputError, match="given with 'out'"):
        fit(resume=True)


# Models that fail


def failing(when, error):
    """A model that fails on texts of which ``when`` is true."""

    def vectors(text):
        if when(text):
            raise error
        return words_hashed(text)

    model = FakeScorer()
    model.vectors = vectors
    return model


def test_a_model_that_fails_on_every_text_fails_before_the_charge(tmp_path):
    place = str(tmp_path / "notes.db")
    with pytest.raises(ModelError, match=r"failed on public texts \(ValueError\)\. Nothing was charged"):
        fit(model=failing(lambda text: True, ValueError("weights")), ledger=place)
    blind = FakeScorer()
    blind.vectors = lambda text: [float("nan")] * 16
    with pytest.raises(ModelError, match=r"not finite for a public text\. Nothing was charged"):
        fit(model=blind, ledger=place)
    assert kinds(Ledger(place)) == []


class FailsFrom(FakeScorer):
    """Embeds no more from some call on."""

    def __init__(self, call, error):
        super().__init__()
        self._left, self._error = call, error

    def _one_less(self):
        self._left -= 1
        if self._left < 0:
            raise self._error

    def embed_questions(self, task, queries):
        self._one_less()
        return super().embed_questions(task, queries)

    def embed_records(self, task, records):
        self._one_less()
        return super().embed_records(task, records)


@pytest.mark.parametrize("method", ["class-means", "choice"])
@pytest.mark.parametrize("error", [RuntimeError("out of memory"), ModelError("the server is gone", retryable=True)])
def test_a_model_that_fails_behind_the_charge_failed_while_it_read_and_says_what_stands(tmp_path, method, error):
    told = []
    pool = [f"{text} to anybody {i}" for text in WORDS.values() for i in range(4)]
    for call in range(8):
        place = str(tmp_path / f"{call}.db")
        data = records(end=f" {method} {type(error).__name__} {call}")
        said = error_of(lambda data=data, call=call, place=place: fit(
            data, model=FailsFrom(call, error), method=method, pool=pool, ledger=place
        ))  # fmt: skip
        if said is not None:
            told.append(("reserve" in kinds(Ledger(place)), "What was charged stands" in said))
    assert set(told) == {(False, False), (True, True)}


class Restless(FakeScorer):
    """Embeds in other bits: the first time alone, or each time."""

    def __init__(self, times):
        super().__init__()
        self._times, self._asked = times, 0

    def embed_questions(self, task, queries):
        self._asked += 1
        found = super().embed_questions(task, queries)
        return found + self._asked * 1e-12 if self._asked <= self._times else found


def test_a_model_that_answers_otherwise_each_time_is_refused_before_the_charge_and_one_that_settles_is_not(tmp_path):
    place = str(tmp_path / "notes.db")
    with pytest.raises(ModelError, match=r"in other bits where it was asked once more\. Nothing was charged"):
        fit(model=Restless(10**6), pool=[], ledger=place)
    assert kinds(Ledger(place)) == []
    fit(model=Restless(1), pool=[], ledger=place)
    assert kinds(Ledger(place)) == ["reserve", "draw", "release"]


def error_of(work):
    """What a model's failure says; ``None`` where there is none."""
    try:
        work()
    except ModelError as failed:
        return str(failed)
    return None


@pytest.mark.parametrize("fails", [lambda: [float("nan")] * len(WORDS), lambda: 1 / 0])
def test_a_question_for_experts_that_the_bare_model_cannot_read_fails_before_the_charge(tmp_path, fails):
    pool = [*WORDS.values(), "a text that is too long"]

    def scores(task, context, query):
        return fails() if query["text"] == pool[-1] else one_shot(task, context, query)

    place = str(tmp_path / "notes.db")
    with pytest.raises(ModelError, match=r"public text.* Nothing was charged"):
        fit(model=FakeScorer(scores), method="label-public", pool=pool, ledger=place)
    assert kinds(Ledger(place)) == []


def test_a_model_that_fails_on_the_records_leaves_the_charge_and_the_run_goes_on_later(tmp_path):
    place, out, secret = str(tmp_path / "notes.db"), tmp_path / "a.sotto", marker()
    model = failing(lambda text: "card 7" in text, MemoryError(secret))
    error = hunt_error(lambda: fit(model=model, ledger=place, out=out), [secret])
    assert isinstance(error, ModelError)
    assert "What was charged stands" in str(error)
    assert kinds(Ledger(place)) == ["reserve"]
    assert fit(ledger=place, out=out, resume=True).method == "class-means"
    assert kinds(Ledger(place)) == ["reserve", "draw", "release"]


def test_a_record_that_the_model_cannot_read_is_told_to_nobody(tmp_path):
    model = failing(lambda text: "card 7" in text, ValueError("private"))
    one = fitting(model=model, ledger=str(tmp_path / "notes.db"))
    fitted = one.run()
    assert fitted.certificate.units == 40
    assert kinds(one.ledger) == ["reserve", "draw", "release"]


# Nothing private shows


@every_relation
def test_no_private_text_shows_in_what_a_fit_is_and_leaves(adjacency, tmp_path, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    secret, group = marker(), marker("GROUP")
    data = PrivateRecords(
        [Row(i, {"text": f"{secret} {i}", "label": "fraud", "group": f"{group}{i % 9}"}) for i in range(1, 38)],
        source="notes",
    )
    one = fitting(data, adjacency=adjacency, ledger=str(tmp_path / "notes.db"))
    told: list[int] = []
    fitted = one.run(on_units=told.append)
    assert sum(told) == 9
    private = _Private(one, (), np.empty((0, 2)))
    hunt(private, [secret, group])
    for face in (repr(one), repr(fitted), repr(one.plan), str(fitted.certificate), fitted.statement, repr(one.terms)):
        search(face, [secret, group], "a face of a fit")
    search(fitted.to_bytes(), [secret, group], "the file")
    search(repr(one.ledger.history()), [secret, group], "the history")
    search(caplog.text + "".join(capfd.readouterr()), [secret, group], "the log")
    hunt_files(tmp_path, [secret, group])


def test_the_number_of_units_is_not_in_a_file_where_it_is_private():
    fitted = fit(records(137), adjacency="add-remove")
    assert fitted.certificate.units is None
    assert fitted.certificate.asked["units"] is None


def test_an_in_memory_fit_and_one_with_a_file_have_the_same_certificate_but_for_their_run(tmp_path):
    one = fit(out=tmp_path / "a.sotto", ledger=str(tmp_path / "a.db"), budget=ROOMY)
    other = Fitting(records(), TASK, **asked(ledger=str(tmp_path / "a.db"))).run()
    own = ("ledger", "data", "asked", "content_sha256")
    first, second = ({k: v for k, v in it.certificate.as_dict.items() if k not in own} for it in (one, other))
    assert first == second
    assert Budget.once(4.0, 1e-6) != ROOMY


@pytest.mark.parametrize("method", ["class-means", "auto"])
def test_a_model_that_reads_numbers_is_shown_no_bundled_text(method):
    numbers = [Row(i + 1, {"text": f"{i % 2}.0 {i}", "label": list(WORDS)[i % 2]}) for i in range(40)]
    fitted = fit(PrivateRecords(numbers, source="numbers"), method=method, model="vectors:2", pool=None)
    assert fitted.certificate.candidates == 0
