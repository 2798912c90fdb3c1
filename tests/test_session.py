"""PrivateICL: charged before read, read before drawn, noted before handed out; and what each answer says of itself."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from sottovoce.errors import (
    AssignmentError,
    BudgetExhaustedError,
    InputError,
    LedgerMismatchError,
    LedgerUnavailableError,
    ModelError,
    NonPrivateError,
    ParameterError,
    RecordError,
    TaskError,
)
from sottovoce.experts.partition import Partition
from sottovoce.methods.base import registered_methods
from sottovoce.methods.poe import PoE
from sottovoce.methods.rnm import RNM
from sottovoce.models.base import Isolation
from sottovoce.models.fake import FakeScorer, one_shot
from sottovoce.models.features import VectorScorer
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.history import NOT_VERIFIED_NOTE
from sottovoce.privacy.ledger.ledger import Account, Ledger
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness, SystemRandomness
from sottovoce.records import limits
from sottovoce.records.sealed import PrivateRecords, Row, unseal
from sottovoce.release import is_row, longest_rows
from sottovoce.session import BATCH, PrivateICL
from sottovoce.tasks import Example, Task, load_task
from sottovoce.terminal import json_text

TASK = Task(labels=["billing", "fraud"])


def records(count=5, *, synthetic=False, source="notes.jsonl", **columns):
    rows = [
        Row(i, {"id": f"r{i}", "text": f"note {i}", "label": "billing", **{k: v(i) for k, v in columns.items()}})
        for i in range(1, count + 1)
    ]
    return PrivateRecords(rows, source=source, synthetic=synthetic)


def session(model=None, **options):
    defaults = {"records": records(), "task": TASK, "budget": Budget(8, 1e-6), "ledger": ":memory:"}
    return PrivateICL(model=model or FakeScorer(), **{**defaults, **options})


def read_again(held, unit):
    return PrivateRecords((row for rows in unseal(held) for row in rows), source="again", unit=unit)


def kinds(icl):
    return [entry["kind"] for entry in icl.ledger.history()]


# The order of things


class Trace:
    """Writes down who did what, in order."""

    def __init__(self, monkeypatch):
        self.events: list[str] = []
        for name in ("reserve", "record_non_private", "mark_released"):
            self._wrap(monkeypatch, Account, name)

    def _wrap(self, monkeypatch, owner, name):
        original = getattr(owner, name)

        def traced(account, entries, *rest, **named):
            result = original(account, entries, *rest, **named)
            self.events.append(f"{name} {len(entries)}")
            return result

        monkeypatch.setattr(owner, name, traced)

    def scores(self, task, context, query):
        self.events.append("read" if context else "rehearse")
        return one_shot(task, context, query)

    def below(self, bound):
        self.events.append("draw")
        return SystemRandomness().below(bound)

    secure = True

    def steps(self):
        """The trace without repetitions."""
        return [event for i, event in enumerate(self.events) if i == 0 or event != self.events[i - 1]]


def test_an_answer_is_charged_then_read_then_noted_then_drawn_then_handed_out(monkeypatch):
    trace = Trace(monkeypatch)
    icl = session(FakeScorer(trace.scores), randomness=trace)
    answers = icl.classify([f"question {i}" for i in range(BATCH + 1)], epsilon=0.1)
    assert trace.events == [], "nothing happens before an answer is asked for"
    next(answers)
    trace.events.append("handed out")
    list(answers)
    # Noted before the draw: a draw after which the process dies is never made again under its charge.
    # Behind the read the bare question is asked again, whatever came of it.
    first = ["rehearse", f"reserve {BATCH}", "read", "rehearse", f"mark_released {BATCH}", "draw", "handed out"]
    assert trace.steps() == [*first, "rehearse", "reserve 1", "read", "rehearse", "mark_released 1", "draw"]


def test_a_method_without_a_guarantee_is_noted_before_it_reads(monkeypatch):
    trace = Trace(monkeypatch)
    icl = session(FakeScorer(trace.scores), method="soft", allow_non_private=True)
    icl.ask("question", epsilon=1)
    assert trace.steps() == ["rehearse", "record_non_private 1", "read", "rehearse", "mark_released 1"]


def test_making_a_session_reads_nothing_into_the_model_and_charges_nothing():
    model = FakeScorer()
    icl = session(model)
    assert (model.calls, model.contexts_read) == (0, 0)
    assert kinds(icl) == ["open"]


def test_a_question_that_cannot_be_paid_for_never_reaches_a_model():
    model = FakeScorer()
    icl = session(model)
    with pytest.raises(BudgetExhaustedError, match=r"asked, .* left of .* Nothing was charged") as refusal:
        icl.ask("hello", epsilon=100)
    assert refusal.value.asked > refusal.value.left == refusal.value.limit
    assert model.calls == 0
    assert kinds(icl) == ["open"]


def test_answers_before_a_refusal_stand():
    icl = session(budget=Budget(0.1 * (BATCH + 4)))
    answers = []
    with pytest.raises(BudgetExhaustedError):
        answers.extend(icl.classify((f"q{i}" for i in range(2 * BATCH)), epsilon=0.1))
    assert len(answers) == BATCH
    assert icl.balance.answers == BATCH
    assert kinds(icl).count("release") == BATCH


def test_a_charge_is_on_disk_before_the_first_private_read(tmp_path):
    path = tmp_path / "notes.db"
    found = []

    def look(task, context, query):
        if context:
            with sqlite3.connect(path) as other:
                found.append(other.execute("SELECT count(*) FROM sotto_entry WHERE kind = 'reserve'").fetchone()[0])
        return [0.0, 0.0]

    session(FakeScorer(look), ledger=str(path)).ask("hello", epsilon=1)
    assert set(found) == {1}


def test_a_crash_leaves_the_charge_standing_and_releases_nothing(tmp_path):
    path = str(tmp_path / "notes.db")

    def crash(task, context, query):
        if context:
            raise KeyboardInterrupt
        return [0.0, 0.0]

    icl = session(FakeScorer(crash), ledger=path)
    with pytest.raises(KeyboardInterrupt):
        icl.ask("hello", epsilon=1)
    again = session(ledger=path, budget=None)
    assert kinds(again) == ["open", "reserve"]
    assert again.balance.answers == 1
    assert again.ledger.verify() == []


def test_a_model_that_fails_on_private_examples_is_reported_without_its_message():
    def fail(task, context, query):
        if context:
            raise MemoryError(f"cannot read {context[0].fields['text']}")
        return [0.0, 0.0]

    icl = session(FakeScorer(fail))
    with pytest.raises(ModelError, match=r"fake failed .* \(MemoryError\)") as caught:
        icl.ask("hello", epsilon=1)
    assert "note" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert kinds(icl) == ["open", "reserve"]


@pytest.mark.parametrize("shape", [(1, 5, 3), (2, 5, 2), (1, 4, 2), (1, 1, 2), (1, 5, 1), (5, 2), ()])
def test_a_model_that_answers_records_in_another_shape_has_null_experts(shape):
    class Odd:
        name, isolation = "odd", Isolation.BY_CONSTRUCTION

        def prepare(self, task, contexts):
            self.empty = contexts == [()]
            return self

        def score(self, queries):
            return np.zeros((len(queries), 1, 2) if self.empty else shape)

        def close(self):
            pass

    icl = session(Odd(), records=records(5), adjacency="add-remove")
    assert icl.ask("hello", epsilon=1).value in TASK.labels
    [outputs] = icl._ensemble.ask([{"text": "hello"}])
    assert outputs.votes().values.tolist() == [0 if shape != (1, 1, 2) else 5, 0]


def test_a_model_that_fails_for_everybody_fails_before_a_charge():
    def fail(task, context, query):
        raise RuntimeError("out of memory")

    for broken in (fail, lambda *_: [math.nan, 0.0], lambda *_: [math.inf, 0.0]):
        with np.errstate(invalid="ignore"):
            icl = session(FakeScorer(broken), records=records(synthetic=True))
            with pytest.raises(ModelError, match=r"[Nn]othing was charged"):
                icl.ask("hello", epsilon=1)
        assert kinds(icl) == ["open"]


def test_experts_that_said_nothing_are_null_and_the_others_answer():
    def some(task, context, query):
        return [math.nan, math.nan] if context and context[0].fields["text"] < "note 4" else [0.0, -50.0]

    icl = session(FakeScorer(some), method=PoE(5.0), budget=Budget(200, 1e-6))
    assert icl.ask("hello", epsilon=100).value == "billing"
    silent = FakeScorer(lambda task, context, query: [math.nan if context else 0.0] * 2)
    nobody = session(silent, records=records(synthetic=True))
    assert {release.value for release in nobody.classify(["q"] * 8, epsilon=0.1)} <= set(TASK.labels)


def test_every_question_is_rehearsed_without_examples_and_the_records_are_read_once():
    model = FakeScorer()
    icl = session(model)
    list(icl.classify(["a", "b"], epsilon=0.1))
    icl.ask("c", epsilon=0.1)
    assert model.calls == 3 * 3 + 3 * 5  # without examples: twice before the charge, and once behind the read
    assert model.contexts_read == 5


def test_calibrated_experts_no_longer_repeat_their_label():
    def leaning(task, context, query):
        lean = one_shot(task, context, query)
        return lean if query in TASK.content_free_queries() else [lean[0], lean[1] + float("theft" in query["text"])]

    given = {"method": PoE(5.0), "budget": Budget(400, 1e-6), "ledger": Ledger(":memory:")}
    plain, calibrated = (session(FakeScorer(leaning), calibrate=flag, **given) for flag in (False, True))
    assert plain.ask("a theft", epsilon=100).value == "billing"
    assert calibrated.ask("a theft", epsilon=100).value == "fraud"
    assert plain.terms(100) == calibrated.terms(100)


def test_numbers_cannot_be_calibrated_and_nothing_is_opened(tmp_path):
    with pytest.raises(ParameterError, match=r"calibrate is True; it must be left out: the model .* reads numbers"):
        session(VectorScorer(), calibrate=True, ledger=str(tmp_path / "t.db"))
    assert list(tmp_path.iterdir()) == []


def test_pictures_cannot_be_calibrated_and_nothing_is_opened(tmp_path):
    with pytest.raises(TaskError, match=r"asks about pictures, of which none is free of content"):
        session(task=load_task("pseudonames"), calibrate=True, ledger=str(tmp_path / "t.db"))
    with pytest.raises(ParameterError, match="calibrate"):
        session(calibrate="yes")
    assert list(tmp_path.iterdir()) == []


def test_a_question_that_no_model_can_answer_is_refused_before_a_charge_wherever_it_stands():
    icl = session(FakeScorer(lambda task, context, query: [math.nan if query["text"] == "bad" else 0.0] * 2))
    answers = icl.classify([*["good"] * BATCH, "bad"], epsilon=0.1)
    with pytest.raises(ModelError, match="Nothing was charged"):
        list(answers)
    assert icl.balance.answers == BATCH


def test_a_model_that_never_repeats_itself_is_refused_before_a_charge():
    times = []

    def score(task, context, query):
        times.append(query)
        return [0.0, 1e-12 * len(times)]

    icl = session(FakeScorer(score))
    with pytest.raises(ModelError, match=r"gave other numbers.*Nothing was charged"):
        icl.ask("q", epsilon=1)
    assert kinds(icl) == ["open"]


def test_a_blank_record_is_a_null_expert_under_zero_out_and_refused_elsewhere():
    blank = PrivateRecords([Row(1, {"id": "a"}), Row(2, {"id": "b", "text": "t", "label": "fraud"})], source="notes")
    model = FakeScorer()
    session(model, records=blank, adjacency="zero-out").ask("q", epsilon=1)
    assert model.contexts_read == 1
    with pytest.raises(RecordError, match="line 1"):
        session(records=blank)


def test_closing_frees_the_prompts_and_asking_again_reads_them_again():
    model = FakeScorer()
    icl = session(model)
    icl.ask("a", epsilon=0.1)
    icl.close()
    icl.ask("b", epsilon=0.1)
    assert model.contexts_read == 10
    icl.close()


# Seeds


def test_a_seeded_source_is_refused_on_real_records():
    with pytest.raises(ParameterError, match="whoever knows the seed"):
        session(randomness=SeededRandomness(1))


def test_a_seeded_source_on_made_up_records_repeats_itself_and_promises_nothing():
    def answers(seed):
        icl = session(records=records(synthetic=True), randomness=SeededRandomness(seed))
        return list(icl.classify([f"q{i}" for i in range(12)], epsilon=0.1))

    assert [r.value for r in answers(1)] == [r.value for r in answers(1)]
    assert [r.value for r in answers(1)] != [r.value for r in answers(2)]
    release = answers(1)[0]
    assert "NO privacy guarantee" in release.statement
    assert "seeded" in release.statement
    assert release.as_row("1")["epsilon"] is None
    assert release.as_row("1")["delta"] is None


def test_made_up_records_with_the_systems_noise_are_answered_privately():
    release = session(records=records(synthetic=True)).ask("q", epsilon=1)
    assert release.as_row("1")["epsilon"] == 1


# What an answer says of itself


def test_replace_one_is_the_default():
    icl = session()
    assert icl.adjacency is Adjacency.REPLACE_ONE
    assert icl.ask("q", epsilon=1).as_row("1")["adjacency"] == "replace-one"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, ["Replacing any one record", "replace-one adjacency", "unit 'record'", "1 unit an expert", "type swap"]),
        ({"adjacency": "add-remove"}, ["Adding or removing any one record", "add-remove adjacency", "type drop"]),
        ({"adjacency": "zero-out"}, ["Blanking out any one record", "zero-out adjacency", "type drop"]),
        ({"partition": Partition(units_per_expert=3)}, ["3 units an expert", "type swap"]),
        (
            {"adjacency": "add-remove", "partition": Partition(units_per_expert=2, capacity=3)},
            ["2 units an expert", "type swap", "add-remove"],
        ),
        ({"records": records(group=lambda i: i % 2)}, ["'group' (all of its records)", "unit 'group'"]),
    ],
)
def test_a_statement_names_price_adjacency_unit_group_size_and_change_type(options, words):
    icl = session(method="poe", **options)
    statement = icl.ask("q", epsilon=0.5).statement
    for word in [*words, "epsilon 0.5", "delta 0", "factor of 1.649", "method poe"]:
        assert word in statement
    assert statement.endswith(".")
    assert statement == icl.terms(0.5).statement


def test_gaussian_noise_states_its_delta_and_takes_the_budgets_unless_told():
    icl = session(method=RNM("gaussian"))
    given = icl.ask("q", epsilon=0.5, delta=1e-5)
    assert "epsilon 0.5, delta 1e-05" in given.statement
    assert "additional probability of 1e-05" in given.statement
    assert given.as_row("1")["delta"] == 1e-5
    assert icl.ask("q", epsilon=0.5).as_row("1")["delta"] == 1e-6
    pure = session(method="poe", records=records(synthetic=True)).ask("q", epsilon=0.5, delta=1e-5)
    assert pure.as_row("1")["delta"] == 0


def test_gaussian_noise_on_a_pure_budget_is_refused_before_a_charge():
    model = FakeScorer()
    icl = session(model, method=RNM("gaussian"), budget=Budget(8))
    with pytest.raises(ParameterError, match="delta"):
        icl.ask("q", epsilon=0.5)
    assert (model.calls, kinds(icl)) == (0, ["open"])


def test_a_model_whose_isolation_nobody_checked_says_so_and_has_no_epsilon():
    icl = session(FakeScorer(isolation=Isolation.NOT_VERIFIED))
    release = icl.ask("q", epsilon=1)
    assert "isolation not verified: no formal guarantee" in release.statement
    row = release.as_row("7")
    assert (row["epsilon"], row["delta"], row["adjacency"]) == (None, None, "replace-one")
    assert "isolation not verified" in icl.ledger.history()[2]["detail"]
    assert (icl.balance.answers, icl.balance.unverified) == (1, 1), "it is charged all the same"
    unseen = FakeScorer(isolation=Isolation.NOT_VERIFIED)
    noisy = session(unseen, method=RNM("gaussian"), records=records(synthetic=True)).ask("q", epsilon=1)
    assert "not verified" in noisy.statement
    assert noisy.as_row("1")["delta"] is None


def test_what_a_model_is_seen_to_do_while_it_reads_records_stands_in_the_answer():
    class SeenToMix(FakeScorer):
        def prepare(self, task, contexts):
            self.isolation = Isolation.NOT_VERIFIED if any(contexts) else self.isolation
            return super().prepare(task, contexts)

    icl = session(SeenToMix())
    release = icl.ask("q", epsilon=1)
    assert "isolation not verified: no formal guarantee" in release.statement
    assert release.as_row("7")["epsilon"] is None
    assert is_row(release.as_row("7"), replace(release.terms, isolation=Isolation.TESTED), ("billing", "fraud"))
    assert not is_row({**release.as_row("7"), "epsilon": 2.0}, release.terms, ("billing", "fraud"))
    (longest,) = longest_rows(["7"], replace(release.terms, isolation=Isolation.TESTED), ("billing", "fraud"))
    assert len(json_text(longest)) >= len(json_text({**release.as_row("7"), "value": longest["value"]}))
    kept = icl.terms(1).of_rows([{"epsilon": 1.0}, {"epsilon": None}])
    assert (kept.epsilon, "no formal guarantee" in kept.statement) == (None, True)
    whole = replace(release.terms, isolation=Isolation.TESTED)
    assert whole.of_rows([{"epsilon": 1.0}]) is whole
    assert whole.of_rows([{"epsilon": None}]).epsilon is None
    icl.ask("q", epsilon=1)  # a charge says what was known when the session began
    assert [("isolation" in entry["detail"], entry["kind"]) for entry in icl.ledger.history()[1:]] == [
        (False, "reserve"),
        (True, "release"),
        (False, "reserve"),
        (True, "release"),
    ]
    balance = next(iter(icl.ledger.balances()))
    assert (balance.unverified, balance.is_kept, icl.ledger.verify()) == (2, False, [])


def test_a_charge_of_an_earlier_build_is_known_again_whatever_its_note_says_of_the_model(monkeypatch):
    icl = session(FakeScorer(isolation=Isolation.NOT_VERIFIED))
    noted = Account.reserve

    def earlier(account, reservations, **how):
        noted(account, [replace(one, note=f"{one.note}, {NOT_VERIFIED_NOTE}") for one in reservations], **how)
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped:
        stopped.setattr(Account, "reserve", earlier)
        with pytest.raises(KeyboardInterrupt):
            icl.ask("q", epsilon=1, release_id="mine")
    assert "not verified" in icl.ask("q", epsilon=1, release_id="mine").statement
    assert (kinds(icl), icl.balance.unverified) == (["open", "reserve", "release"], 1)
    assert icl.ledger.verify() == []


@pytest.mark.parametrize("name", ["soft", "hard", "full-context"])
def test_a_method_without_a_guarantee_must_be_allowed_and_says_what_it_is(name):
    with pytest.raises(NonPrivateError, match="--allow-non-private"):
        session(method=name)
    icl = session(method=name, allow_non_private=True)
    release = icl.ask("q", epsilon=1)
    assert release.value == "billing"
    assert "NO privacy guarantee" in release.statement
    assert (release.as_row("1")["epsilon"], release.as_row("1")["delta"]) == (None, None)
    assert kinds(icl) == ["open", "non-private", "release"]
    assert (icl.balance.spent, icl.balance.answers, icl.balance.non_private) == (0, 0, 1)


def test_zero_shot_reads_nothing_costs_nothing_and_opens_no_ledger(tmp_path, monkeypatch):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "store"))
    model = FakeScorer()
    for given in (None, records()):
        icl = session(model, records=given, method="zero-shot", ledger=str(tmp_path / "notes.db"))
        release = icl.ask("q", epsilon=1)
        row = release.as_row("1")
        assert (row["epsilon"], row["delta"], release.remaining, icl.balance, icl.ledger) == (0, 0, None, None, None)
        assert "No private record was read" in release.statement
    assert model.contexts_read == 0
    assert list(tmp_path.iterdir()) == []


def test_a_bare_text_is_checked_like_a_question_with_fields():
    icl = session(task=load_task("pseudonames"), records=None, method="zero-shot", model=FakeScorer())
    with pytest.raises(RecordError, match="not a PNG or JPEG"):
        icl.ask("hello, I am no image", epsilon=1)


def test_a_public_answer_of_another_shape_is_refused_before_a_charge():
    class Wrong(FakeScorer):
        def prepare(self, task, contexts):
            prepared = super().prepare(task, contexts)
            prepared.score = lambda queries: np.zeros((len(queries), len(task.labels)))
            return prepared

    icl = session(model=Wrong())
    with pytest.raises(ModelError, match="Nothing was charged"):
        icl.ask("q", epsilon=1)
    assert "reserve" not in kinds(icl)


def test_every_registered_method_answers_and_states_something():
    for name in registered_methods():
        shown = [Example({"text": "x"}, 0)] if name == "demonstrations" else ()
        budget = Budget(8, 1e-6, failure_delta=1e-7)
        icl = session(
            method=name,
            allow_non_private=True,
            budget=budget,
            demonstrations=shown,
            records=records(synthetic=True),
        )
        release = icl.ask("q", epsilon=0.5, delta=1e-9)
        assert release.value in TASK.labels
        assert release.statement.endswith(".")
        assert (release.as_row("1")["epsilon"] is None) == ("NO privacy" in release.statement)


def test_release_ids_are_never_repeated_and_name_the_charges():
    icl = session()
    given = [release.release_id for release in icl.classify(["a", "b", "c"], epsilon=0.1)]
    noted = [entry["release_id"] for entry in icl.ledger.history() if entry["kind"] == "reserve"]
    assert given == noted
    assert len(set(given)) == 3


def test_remaining_is_what_the_ledger_says_afterwards():
    icl = session(budget=Budget(1.0))
    release = icl.ask("q", epsilon=0.25)
    assert release.remaining.left == pytest.approx(0.75)
    assert icl.affords(3, epsilon=0.25) is None
    with pytest.raises(BudgetExhaustedError):
        icl.affords(4, epsilon=0.25)
    assert icl.balance.spent == pytest.approx(0.25)


def test_as_many_answers_as_a_file_may_have_questions_are_compared_with_a_budget_at_once():
    icl = session(budget=Budget(10.0))
    assert icl.affords(0, epsilon=20) is None
    assert icl.affords(limits.ROWS, epsilon=1e-6) is None
    with pytest.raises(BudgetExhaustedError, match=r"20000000 answers ask .* 10000000 more would fit"):
        icl.affords(20_000_000, epsilon=1e-6)


# Refusals


@pytest.mark.cases(5)
@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, 1e999, "abc", None, True, 1e-9, 5000])
def test_an_epsilon_that_is_no_price_is_refused_before_anything(epsilon):
    model = FakeScorer()
    icl = session(model)
    with pytest.raises(ParameterError, match="epsilon"):
        icl.ask("q", epsilon=epsilon)
    assert (model.calls, kinds(icl)) == (0, ["open"])


@pytest.mark.parametrize("delta", [-1e-6, 1, 2, math.nan, math.inf, "x", 1e-20])
def test_a_delta_that_is_no_delta_is_refused_before_anything(delta):
    icl = session(method=RNM("gaussian"))
    with pytest.raises(ParameterError, match="delta"):
        icl.ask("q", epsilon=1, delta=delta)
    assert kinds(icl) == ["open"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"records": None}, "answers from private records"),
        ({"method": "oracle"}, "one of"),
        ({"model": "oracle"}, "one of"),
        ({"adjacency": "neighbours"}, "one of replace-one, add-remove"),
        ({"adjacency": "add-remove", "partition": Partition(units_per_expert=2)}, "--capacity"),
        ({"partition": Partition(capacity=4)}, "capacity"),
    ],
)
def test_what_is_not_usable_is_refused_before_a_ledger_is_made(tmp_path, options, problem):
    path = tmp_path / "notes.db"
    with pytest.raises(InputError, match=problem):
        session(**{"ledger": str(path), "model": FakeScorer(), **options})
    assert not path.exists()


def test_a_capacity_without_ids_is_refused_before_a_ledger_is_made(tmp_path):
    plain = PrivateRecords([Row(1, {"text": "t", "label": "fraud"})], source="notes.jsonl")
    with pytest.raises(AssignmentError, match="stable id"):
        session(records=plain, adjacency="add-remove", partition=Partition(capacity=4), ledger=str(tmp_path / "n.db"))
    assert list(tmp_path.iterdir()) == []


def test_a_row_that_does_not_suit_the_task_is_refused_before_a_ledger_is_made(tmp_path):
    odd = PrivateRecords([Row(4, {"text": "t", "label": "unheard-of"})], source="notes.jsonl")
    with pytest.raises(RecordError, match=r"notes\.jsonl, line 4, field 'label'"):
        session(records=odd, ledger=str(tmp_path / "n.db"))
    assert list(tmp_path.iterdir()) == []


def test_a_question_needs_the_tasks_fields():
    icl = session(task=Task(labels=["a", "billing"], query="{title} {text}", example="{title} {text} {label}"),
                  records=records(title=lambda i: "t"))  # fmt: skip
    with pytest.raises(ParameterError, match="title, text"):
        icl.ask("only one text", epsilon=1)
    assert icl.ask({"title": "a", "text": "b"}, epsilon=1).value in ("a", "billing")
    with pytest.raises(ParameterError, match="not empty"):
        session().ask("  ", epsilon=1)


def test_another_adjacency_or_unit_than_the_ledgers_is_refused(tmp_path):
    path = str(tmp_path / "notes.db")
    grouped = {"records": records(group=lambda i: i % 2), "ledger": path}
    session(**grouped).ask("q", epsilon=1)
    with pytest.raises(LedgerMismatchError, match="add-remove"):
        session(**grouped, adjacency="add-remove")
    single = read_again(grouped["records"], unit="record")
    with pytest.raises(LedgerMismatchError, match="unit"):
        session(records=single, ledger=path)


def test_the_budget_belongs_to_the_data_and_not_to_the_session(tmp_path):
    path = str(tmp_path / "notes.db")
    session(ledger=path, budget=Budget(1.0)).ask("q", epsilon=0.75)
    shuffled = PrivateRecords(
        [Row(9 - i, {"id": f"r{i}", "text": f"note {i}", "label": "billing"}) for i in (3, 1, 5, 2, 4)], source="other"
    )
    again = session(records=shuffled, ledger=path, budget=None)
    assert again.balance.left == pytest.approx(0.25)
    with pytest.raises(BudgetExhaustedError):
        again.ask("q", epsilon=0.75)


def test_without_a_named_ledger_one_is_kept_for_the_records(tmp_path, monkeypatch):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path))
    session(ledger=None, budget=Budget(1.0)).ask("q", epsilon=0.75)
    assert session(ledger=None, budget=None).balance.left == pytest.approx(0.25)
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.rglob("*.db"))


def test_a_ledger_that_cannot_be_written_means_no_answer_and_no_private_read(tmp_path):
    model = FakeScorer()
    ledger = Ledger(str(tmp_path / "notes.db"))
    icl = session(model, ledger=ledger)
    with ledger._database.reading() as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")
    with pytest.raises(LedgerUnavailableError):
        icl.ask("q", epsilon=1)
    assert model.contexts_read == 0


def test_a_path_with_marks_of_an_address_is_a_file_of_that_name(tmp_path):
    # sqlite:///notes?mode=memory would be a ledger that forgets.
    path = str(tmp_path / "file:notes?mode=memory&uri=true#1.db")
    session(ledger=path, budget=Budget(1.0)).ask("q", epsilon=0.75)
    assert session(ledger=path, budget=None).balance.left == pytest.approx(0.25)


def test_answers_leave_where_their_ledger_cannot_be_read_behind_them(monkeypatch):
    balance, noted, left = Account.balance, Account.mark_released, []

    def away(account):
        if left:
            raise LedgerUnavailableError("The ledger is away.")
        return balance(account)

    def noting(account, *given, **named):
        noted(account, *given, **named)
        left.append(1)

    icl = session()
    monkeypatch.setattr(Account, "balance", away)
    monkeypatch.setattr(Account, "mark_released", noting)
    releases = list(icl.batches(["late?", "lost?"], epsilon=0.5))
    assert [release.remaining for batch in releases for release in batch] == [None, None]
