"""The door: public side, charge, read, note, draw, finish; and what every failure costs."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from answering.worlds_of_answers import BUDGET, TASK, Journal, answers_of, is_private, is_rehearsal, kinds, rows
from hunting import hunt, hunt_error, marker, search
from sottovoce.errors import (
    AssignmentError,
    BudgetExhaustedError,
    InputError,
    LedgerMismatchError,
    LedgerUnavailableError,
    ModelError,
    NonPrivateError,
    ParameterError,
)
from sottovoce.experts.sampling import ExpertSampling
from sottovoce.methods.answering.answerer import make_answerer
from sottovoce.models.base import Isolation, weakest
from sottovoce.models.fake import FakeScorer, FakeWriter, nearest_output
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Account, Ledger
from sottovoce.randomness import SeededRandomness
from sottovoce.records.sealed import PrivateRecords, Row

SAMPLED = {"sampling": "without-replacement", "experts": 3, "budget": Budget(40, 1e-5, 5e-6)}


@pytest.fixture
def journal(monkeypatch):
    return Journal(monkeypatch)


# The order of things


def test_an_answer_is_worked_out_charged_read_noted_drawn_and_finished_in_this_order(journal, monkeypatch):
    answers = answers_of(journal.writer(), shots=1)
    journal.watch(monkeypatch, answers)
    release = answers.ask("what of the card?", epsilon=1)
    # After the private read the writer is asked the bare question once more; finishing asks it public things.
    assert journal.events == [
        *("public", "rehearsal", "charge", "private read", "public", "leaves", "draw", "finish", "public")
    ]
    assert kinds(answers) == ["reserve", "release"]
    assert (release.terms.epsilon, release.remaining.answers) == (1.0, 1)


@pytest.mark.parametrize("options", [{"shots": 2}, {"experts": 4, "shots": 1}, SAMPLED])
def test_where_coins_decide_what_is_read_the_draw_begins_before_the_read(journal, monkeypatch, options):
    answers = answers_of(journal.writer(), **options)
    journal.watch(monkeypatch, answers)
    answers.ask("what of the card?", epsilon=1, delta=1e-7)
    assert journal.events[:5] == ["public", "rehearsal", "charge", "begin", "private read"]


def test_an_answer_that_cannot_be_paid_for_lets_the_writer_read_nothing_private(journal):
    answers = answers_of(journal.writer())
    with pytest.raises(BudgetExhaustedError, match="Nothing was charged"):
        answers.ask("what of the card?", epsilon=60)
    assert "private read" not in journal.events
    assert kinds(answers) == []


def test_the_price_is_what_the_ledger_is_charged():
    answers = answers_of(budget=Budget(2.0))
    first = answers.ask("what of the card?", epsilon=1.5)
    assert first.remaining.spent == pytest.approx(1.5)
    with pytest.raises(BudgetExhaustedError):
        answers.ask("what of the card?", epsilon=1.5)
    assert [answer.terms.delta for answer in answers.answers(["what of the fee?"], epsilon=0.5)] == [0.0]


def test_a_fresh_sample_spends_its_delta_from_the_share_for_failures():
    answers = answers_of(method="esa", **SAMPLED)
    with pytest.raises(ParameterError, match="share for failures"):
        answers.ask("what of the card?", epsilon=1)
    release = answers.ask("what of the card?", epsilon=1, delta=1e-6)
    assert (release.terms.epsilon, release.terms.delta) == (1.0, 1e-6)
    assert "a fresh sample for every answer" in release.statement
    assert release.remaining.failure_spent == pytest.approx(1e-6)


@pytest.mark.parametrize("selection", ["joint", "one-shot"])
def test_a_pure_answer_from_a_fresh_sample_stays_pure_and_needs_no_share_for_failures(selection):
    method = make_answerer("ksa", k=2, selection=selection)
    release = answers_of(method=method, **{**SAMPLED, "budget": BUDGET}).ask("what of the card?", epsilon=1)
    assert (release.terms.epsilon, release.terms.delta) == (pytest.approx(1.0, rel=1e-5), 0.0)


@pytest.mark.parametrize("method", ["ksa", "esa"])
def test_a_sample_of_every_unit_amplifies_nothing_and_needs_no_share_for_failures(method):
    method = make_answerer(method, **({"k": 2} if method == "ksa" else {}))
    whole = answers_of(method=method, embedder=FakeScorer() if "Embedder" in method.needs else None)
    sampled = answers_of(method=method, embedder=whole.embedder, sampling="without-replacement", experts=12, shots=2)
    plans = [each.plan(1, None, each.public_side({"question": "what of the card?"})) for each in (whole, sampled)]
    assert plans[0].charge == plans[1].charge
    assert sampled.ask("what of the card?", epsilon=1).terms.epsilon == pytest.approx(1.0, rel=1e-5)


# Failures


def test_what_fails_in_public_is_not_charged(journal):
    def fails(request):
        raise ModelError("the server is gone", retryable=True)

    answers = answers_of(fails)
    with pytest.raises(ModelError, match="Nothing was charged") as caught:
        answers.ask("what of the card?", epsilon=1)
    assert (caught.value.retryable, kinds(answers)) == (True, [])


@pytest.mark.parametrize("sampled", [{}, SAMPLED])
def test_what_a_draw_refuses_for_public_reasons_is_refused_before_the_charge(journal, monkeypatch, sampled):
    answers = answers_of(journal.writer(), **sampled)

    def refuses(self, setting, experts, public, randomness):
        raise ParameterError("weights", len(public.universe), "fewer than there are")

    monkeypatch.setattr(type(answers.method), "draw", refuses)
    with pytest.raises(ParameterError, match="fewer than there are"):
        answers.ask("what of the card?", epsilon=1)
    assert (journal.events, kinds(answers)) == (["public"], [])


def test_a_writer_that_says_nothing_to_the_bare_question_is_refused_before_the_charge():
    answers = answers_of(lambda request: nearest_output(request) if request.shots else None)
    with pytest.raises(ModelError, match=r"wrote nothing .* Nothing was charged"):
        answers.ask("what of the card?", epsilon=1)
    assert kinds(answers) == []


def test_a_failure_that_experts_share_leaves_the_charge_and_its_name_can_be_used_again():
    broken, secret = [True], marker("SECRET")

    def write(request):
        if is_private(request) and broken:
            raise ModelError(secret, retryable=True)
        return nearest_output(request)

    answers = answers_of(write, shots=1)
    error = hunt_error(lambda: answers.ask("what of the card?", epsilon=1, release_id="mine"), [secret])
    assert isinstance(error, ModelError)
    assert "What was charged stands" in str(error)
    assert kinds(answers) == ["reserve"]
    broken.clear()
    assert answers.ask("what of the card?", epsilon=1, release_id="mine").release_id == "mine"
    assert kinds(answers) == ["reserve", "release"]


@pytest.mark.parametrize("options", [{"shots": 2}, SAMPLED])
def test_where_coins_decided_what_was_read_a_name_is_used_once(options):
    def write(request):
        if is_private(request):
            raise ModelError("busy", retryable=True)
        return nearest_output(request)

    answers = answers_of(write, **options)
    with pytest.raises(ModelError):
        answers.ask("what of the card?", epsilon=1, delta=1e-7, release_id="mine")
    answers.writer.function = nearest_output
    with pytest.raises(LedgerMismatchError, match="used before"):
        answers.ask("what of the card?", epsilon=1, delta=1e-7, release_id="mine")


def test_an_expert_that_fails_by_itself_is_null_and_nobody_sees_it():
    def write(request):
        if "private parcel 1?" in request.shots[0][0] if request.shots else False:
            raise ValueError("too odd")
        return nearest_output(request)

    answers = answers_of(write, shots=1)
    assert answers.ask("what of the card?", epsilon=15).value == "Call the card team, a public one."


@pytest.mark.parametrize("given", ["mine", None])
def test_an_answer_that_could_not_be_finished_is_finished_later_from_what_was_drawn(monkeypatch, given):
    answers = answers_of(shots=1)
    kind, drawn = type(answers.method), []
    draw, finish = kind.draw, kind.finish

    def counted(*arguments):
        drawn.extend([] if is_rehearsal(arguments) else [1])
        return draw(*arguments)

    def fails(*arguments):
        raise ModelError("the server is gone")

    monkeypatch.setattr(kind, "draw", counted)
    monkeypatch.setattr(kind, "finish", fails)
    with pytest.raises(ModelError, match="an answer that is made of it later costs nothing more") as caught:
        answers.ask("what of the card?", epsilon=1, release_id=given)
    name = caught.value.release_id
    assert f"release_id={name!r}" in str(caught.value)
    assert answers.unfinished == {name: {"question": "what of the card?"}}
    monkeypatch.setattr(kind, "finish", finish)
    assert answers.ask("what of the card?", epsilon=1, release_id=name).release_id == name
    assert (kinds(answers), drawn, answers.unfinished) == (["reserve", "release"], [1], {})
    with pytest.raises(LedgerMismatchError):
        answers.ask("what of the card?", epsilon=1, release_id=name)


def test_an_answer_leaves_where_its_ledger_cannot_be_read_behind_it(monkeypatch):
    def away(account):
        raise LedgerUnavailableError("The ledger is away.")

    answers = answers_of(shots=1)
    monkeypatch.setattr(Account, "balance", away)
    release = answers.ask("what of the card?", epsilon=1)
    assert (release.remaining, kinds(answers)) == (None, ["reserve", "release"])


@pytest.mark.parametrize("committed", [False, True])
def test_an_answer_is_kept_where_its_ledger_goes_behind_the_draw(monkeypatch, committed):
    answers, drawn = answers_of(shots=2), []
    kind, noted, gone = type(answers.method), Account.mark_released, [True]
    draw = kind.draw

    def counted(*arguments):
        drawn.extend([] if is_rehearsal(arguments) else [1])
        return draw(*arguments)

    def away(account, *given, **named):
        if gone.pop() if gone else False:
            if committed:  # and then found to be away
                noted(account, *given, **named)
            raise LedgerUnavailableError("The ledger is away.")
        return noted(account, *given, **named)

    monkeypatch.setattr(kind, "draw", counted)
    monkeypatch.setattr(Account, "mark_released", away)
    with pytest.raises(LedgerUnavailableError, match=r"was drawn and is kept.*again with release_id='mine'"):
        answers.ask("what of the card?", epsilon=1, release_id="mine")
    assert answers.unfinished == {"mine": {"question": "what of the card?"}}
    assert answers.ask("what of the card?", epsilon=1, release_id="mine").release_id == "mine"
    assert (kinds(answers), drawn, answers.unfinished) == (["reserve", "draw", "release"], [1], {})


def test_what_was_drawn_for_one_question_answers_no_other(monkeypatch):
    answers = answers_of(shots=1)
    kind = type(answers.method)
    finish = kind.finish

    def fails(*arguments):
        raise ModelError("the server is gone")

    monkeypatch.setattr(kind, "finish", fails)
    with pytest.raises(ModelError):
        answers.ask("what of the card?", epsilon=1, release_id="mine")
    monkeypatch.setattr(kind, "finish", finish)
    with pytest.raises(LedgerMismatchError):
        answers.ask("what of the fee?", epsilon=1, release_id="mine")


# What is said


def test_the_statement_says_what_is_public_and_who_runs_the_model():
    class Hosted:
        name, isolation, longest = "openai:m", Isolation.ASSERTED, None
        server = SimpleNamespace(host="models.example:8000")

        def write(self, requests, *, tokens):
            return FakeWriter().write(requests, tokens=tokens)

    statement = answers_of(writer=Hosted()).ask("what of the card?", epsilon=1).statement
    for part in (
        "epsilon 1, delta 0, replace-one adjacency, unit 'record', 2 units an expert, 12 experts",
        "experts computed apart: asserted by the operator, not tested",
        "public examples and what a model wrote from them",
        "were sent to models.example:8000; whoever runs it reads them",
    ):
        assert part in statement
    assert "were sent to" not in answers_of().ask("what of the card?", epsilon=1).statement


def test_the_number_of_experts_is_said_to_be_open_where_it_is_alone():
    hidden = answers_of(adjacency="add-remove", shots=1).ask("what of the card?", epsilon=1)
    known = answers_of(adjacency="add-remove", shots=1, sampling="categorical", experts=6, rate=0.2)
    assert "the number of experts" not in hidden.statement
    for answers in (answers_of(), known):
        assert "the number of experts" in answers.ask("what of the card?", epsilon=1).statement


def test_a_writer_that_mixes_prompts_has_no_guarantee():
    release = answers_of(FakeWriter(isolation=Isolation.NOT_VERIFIED)).ask("what of the card?", epsilon=1)
    assert (release.terms.epsilon, "isolation not verified" in release.statement) == (None, True)


def test_the_weaker_of_writer_and_embedder_is_stated():
    for writer, embedder in itertools.product(Isolation, repeat=2):
        answers = answers_of(FakeWriter(isolation=writer), method="esa", embedder=FakeScorer(isolation=embedder))
        assert answers.isolation is weakest([writer, embedder])


@pytest.mark.parametrize("sampling", [{}, {"sampling": "categorical", "experts": 6, "rate": 0.2}])
def test_a_writer_that_is_seen_to_mix_prompts_of_experts_stands_in_the_ledger(sampling):
    def mixing(request):
        if is_private(request):
            writer.isolation = Isolation.NOT_VERIFIED
        return nearest_output(request)

    writer = FakeWriter(mixing)
    answers = answers_of(writer, **sampling)
    release = answers.ask("what of the card?", epsilon=1)
    assert "isolation not verified" in release.statement
    assert (answers.balance.unverified, answers.ledger.verify()) == (1, [])


def test_an_embedder_is_asked_no_public_text_that_it_has_not_embedded():
    asked = []

    class Counting(FakeScorer):
        def embed_questions(self, task, queries):
            asked.append([query["text"] for query in queries])
            return super().embed_questions(task, queries)

    answers = answers_of(method="esa", embedder=Counting())
    assert answers.ask("what of the card?", epsilon=1).value
    assert len(asked) == 3, "the candidates, and some of them before and behind the texts of experts"
    assert asked[1] == asked[2] == asked[0][:2]


def test_nothing_private_is_shown(tmp_path):
    words = [marker("INPUT"), marker("OUTPUT")]
    its = [Row(i, {"question": f"{words[0]} private {i}", "answer": words[1]}) for i in range(1, 13)]
    answers = answers_of(rows=its, ledger=str(tmp_path / "notes.db"))
    release = answers.ask("what of the card?", epsilon=0.01)
    hunt(answers, words)
    for thing in (release.statement, repr(release), str(answers.words), str(answers.ledger.history())):
        search(thing, words, "what is said")
    search((tmp_path / "notes.db").read_bytes(), words, "the ledger")


# Refusals


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"records": None}, ParameterError, "answers from private records"),
        ({"method": "full-context"}, NonPrivateError, "--allow-non-private"),
        ({"method": "zero-shot"}, ParameterError, "shows no public example"),
        ({"method": "esa", "public": ()}, ParameterError, "needs public examples"),
        ({"embedder": "embedded"}, ParameterError, "compares no vectors"),
        ({"method": "esa", "embedder": FakeWriter()}, ParameterError, "a model that embeds"),
        ({"sampling": "poisson"}, AssignmentError, "independent coins"),
        ({"sampling": "categorical", "experts": 3}, ParameterError, "rate"),
        ({"sampling": "cells", "experts": 3}, ParameterError, "no clustering is charged here"),
        ({"sampling": ExpertSampling(2, 3, "cells")}, ParameterError, "no clustering is charged here"),
        ({"adjacency": "add-remove"}, AssignmentError, "public number of slots"),
        ({"experts": 13}, ParameterError, "at most 12"),
        ({"tokens": 0}, ParameterError, "tokens"),
        ({"public": ["a text"]}, ParameterError, "AnswerTask.example_of"),
        ({"writer": FakeScorer()}, ParameterError, "a model that writes"),
        ({"task": "question"}, ParameterError, "load_answer_task"),
        ({"method": "no-such"}, ParameterError, "esa"),
    ],
)
def test_what_cannot_be_used_is_refused_before_a_ledger_is_opened(tmp_path, options, error, words):
    given = {"ledger": str(tmp_path / "notes.db"), **options}
    with pytest.raises(error, match=words):
        answers_of(**given).ask("what of the card?", epsilon=1)
    assert not (tmp_path / "notes.db").exists()


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("", "not empty"),
        (3, "a text, or a mapping"),
        ({"text": "x"}, "field 'question'"),
        ({"question": " "}, "blanks"),
    ],
)
def test_a_question_that_is_none_is_refused(question, words):
    answers = answers_of()
    with pytest.raises(InputError, match=words):
        answers.ask(question, epsilon=1)
    with pytest.raises(ParameterError, match="several questions"):
        next(answers.answers("what?", epsilon=1))


def test_a_record_that_does_not_suit_the_task_is_named_by_its_line_before_a_ledger_is_opened(tmp_path):
    word = marker()
    its = [*rows(6, "private"), Row(9, {"question": word})]
    path = tmp_path / "notes.db"
    error = hunt_error(lambda: answers_of(rows=its, ledger=str(path)), [word])
    assert "line 9, field 'answer'" in str(error)
    assert not path.exists()


def test_private_records_are_not_taken_for_public_examples(tmp_path):
    its = rows(24, "private")
    records = PrivateRecords(its, source="notes")
    with pytest.raises(InputError, match="most of these rows are private records"):
        answers_of(records=records, public=[TASK.example_of(row, "public") for row in its])


def test_a_seeded_source_is_refused_on_real_records_and_promises_nothing():
    real = PrivateRecords(rows(24, "private"), source="notes")
    with pytest.raises(ParameterError, match="seeded"):
        answers_of(records=real, randomness=SeededRandomness(1))
    release = answers_of(randomness=SeededRandomness(1)).ask("what of the card?", epsilon=1)
    assert "NO privacy guarantee" in release.statement


def test_a_method_without_a_guarantee_is_noted(tmp_path):
    answers = answers_of(method="full-context", public=(), allow_non_private=True)
    release = answers.ask("what of the card?", epsilon=1)
    assert (kinds(answers), release.terms.epsilon) == (["non-private", "release"], None)
    assert "NO privacy guarantee" in release.statement


@pytest.mark.parametrize(("method", "public"), [("zero-shot", ()), ("public-shots", None), ("public-consensus", None)])
def test_what_reads_no_record_opens_no_ledger(tmp_path, method, public):
    options = {} if public is None else {"public": public}
    if method == "public-consensus":
        options["embedder"] = FakeScorer()
    answers = answers_of(method=method, records=None, ledger=str(tmp_path / "notes.db"), **options)
    assert answers.ask("what of the card?", epsilon=1).terms.epsilon == 0.0
    assert (answers.balance, answers.ledger, (tmp_path / "notes.db").exists()) == (None, None, False)


def test_auto_goes_by_what_there_is():
    assert answers_of(method="auto", embedder=FakeScorer()).method.name == "esa"
    assert answers_of(method="auto", public=()).method.name == "ksa"
    free = answers_of(method="auto", public=(), records=None)
    assert (free.method.name, "free" in free.advice) == ("zero-shot", True)


def test_two_sessions_add_up_in_one_ledger(tmp_path):
    where, its = str(tmp_path / "notes.db"), rows(24, "private")
    for _ in range(2):
        answers_of(rows=its, ledger=where, budget=BUDGET).ask("what of the card?", epsilon=1)
    assert Ledger(where).balances()[0].answers == 2
