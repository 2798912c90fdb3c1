"""``sotto answer`` held rightly and wrongly: the exit code, one clear message, nothing charged or half-written."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from answering.worlds_of_answers import rows
from fits import promising_nothing
from hunting import hunt_files, marker, search
from sottovoce.cli import run
from sottovoce.errors import ModelError
from sottovoce.experts.written import request_of
from sottovoce.files.checkpoint import Checkpoint
from sottovoce.files.run_folder import RunFolder
from sottovoce.fitting.fitted import Fitted
from sottovoce.models.fake import FakeWriter, nearest_output
from sottovoce.privacy.ledger.ledger import Account, Ledger
from sottovoce.tasks import load_answer_task

ROW_KEYS = ["id", "value", "method", "epsilon", "delta", "adjacency", "release_id"]
SUMMARY = {
    "answers", "lost", "spent", "remaining", "method", "model", "adjacency", "experts", "seconds", "isolation",
    "statement",
}  # fmt: skip
BASE = {
    "--private": "private.jsonl", "--public": "public.jsonl", "--queries": "queries.jsonl", "--task": "question",
    "--method": "ksa", "--option": "k=2", "--model": "fake", "--shots": "1", "--ledger": "notes.db",
}  # fmt: skip


class Desk:
    """A folder with rows, and the command to be run in it."""

    def __init__(self, folder, capfd):
        self.folder, self._capfd = folder, capfd
        self.write("private.jsonl", [row.values for row in rows(16, "private")])
        self.write("public.jsonl", [row.values for row in rows(6, "public")])
        self.write("queries.jsonl", [{"id": f"q{i}", "question": f"what of the card {i}?"} for i in range(2)])

    def write(self, name, values):
        (self.folder / name).write_text("".join(json.dumps(dict(row)) + "\n" for row in values), "utf-8")

    def run(self, *flags, **changed):
        given = {**BASE, **{f"--{name.replace('_', '-')}": value for name, value in changed.items()}}
        words = [word for pair in given.items() if pair[1] is not None for word in pair]
        self._capfd.readouterr()
        code = run(["answer", *words, *flags])
        out, err = self._capfd.readouterr()
        assert "Traceback" not in err + out
        return code, out, err

    def refuses(self, *flags, code=2, **changed):
        """Runs what must be refused before anything is charged or written, and returns its message."""
        got, out, err = self.run(*flags, **changed)
        assert (got, out) == (code, ""), err
        assert self.entries() == []
        assert list(self.folder.glob("answers*")) == []
        (message,) = [line for line in err.splitlines() if re.match(r"(\w*Error|Error)\b", line)]
        return message

    def entries(self, kind="reserve"):
        if not (self.folder / "notes.db").exists():
            return []
        return [entry for entry in Ledger(str(self.folder / "notes.db")).history() if entry["kind"] == kind]


@pytest.fixture
def desk(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    folder = tmp_path / "desk"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Desk(folder, capfd)


# What works


def test_answers_go_to_stdout_and_everything_else_to_stderr(desk):
    code, out, err = desk.run()
    assert code == 0
    given = [json.loads(line) for line in out.splitlines()]
    assert [list(row) for row in given] == [ROW_KEYS] * 2
    assert [row["id"] for row in given] == ["q0", "q1"]
    assert {row["value"] for row in given} <= {f"Call the {thing} team, a public one." for thing in ("card", "fee")}
    assert "Replacing any one record changes the probability of this answer" in err
    assert len(desk.entries()) == 2


def test_the_price_and_the_time_are_said_before_anything_is_charged(desk, monkeypatch):
    monkeypatch.setattr(
        "sottovoce.answering.session.PrivateAnswers.draw",
        lambda *arguments, **options: (_ for _ in ()).throw(KeyboardInterrupt),
    )
    code, out, err = desk.run()
    assert (code, out, desk.entries()) == (130, "", [])
    assert "Price: 2 answers at epsilon 1 each (replace-one adjacency)" in err
    assert re.search(r"Each of 2 answers takes about 25 texts, 16 of them by experts .*; time: about \d+ s", err)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_a_file_of_every_format_holds_the_same_rows(desk, ending):
    code, out, err = desk.run("--json", out=f"answers.{ending}")
    assert code == 0, err
    summary = json.loads(out)
    assert set(summary) == SUMMARY
    assert (summary["answers"], summary["lost"], summary["remaining"]["answers"]) == (2, 0, 2)
    from sottovoce.files.tables import decoded

    path = desk.folder / f"answers.{ending}"
    found = decoded(path.read_bytes(), path) if ending != "jsonl" else None
    found = found or [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [list(row) for row in found] == [ROW_KEYS] * 2
    assert sorted(file.name for file in desk.folder.glob("answers*")) == [f"answers.{ending}", f"answers.{ending}.run"]
    whole = path.read_bytes()
    code, out, err = desk.run("--json", "--resume", out=f"answers.{ending}")
    assert (code, "Nothing to do" in err, len(desk.entries())) == (0, True, 2)
    assert {**json.loads(out), "seconds": 0, "statement": ""} == {**summary, "seconds": 0, "statement": ""}
    assert path.read_bytes() == whole


def test_json_without_a_file_holds_the_rows_too(desk):
    code, out, _ = desk.run("--json", limit="1")
    assert (code, set(json.loads(out)), len(json.loads(out)["rows"])) == (0, SUMMARY | {"rows"}, 1)


def test_a_dry_run_says_the_price_and_opens_no_ledger(desk):
    code, out, err = desk.run("--dry-run", "--json")
    assert code == 0, err
    values = json.loads(out)
    assert (values["answers"], values["epsilon_each"], values["delta_each"]) == (2, 1.0, 0.0)
    assert not (desk.folder / "notes.db").exists()
    code, out, err = desk.run(
        "--dry-run", method="zero-shot", option=None, private=None, public=None, shots=None, ledger=None
    )
    assert (code, "Nothing was charged." in err) == (0, True)


def test_columns_of_other_names_are_named(desk):
    desk.write(
        "private.jsonl", [{"ask": row.values["question"], "say": row.values["answer"]} for row in rows(9, "private")]
    )
    message = desk.refuses()
    assert "--text-column COLUMN" in message
    assert desk.run(text_column="ask", answer_column="say", limit="1")[0] == 0


def test_a_task_of_ones_own_is_read_from_its_file(desk):
    (desk.folder / "mail.toml").write_text('query = "{question}"\noutput_field = "answer"\nnames = ["Mail", "Reply"]\n')
    assert desk.run(task="mail.toml", limit="1")[0] == 0


def test_settings_and_the_environment_reach_the_command(desk, monkeypatch):
    (desk.folder / "sotto.toml").write_text('[answer]\npublic-experts = 1\noption = ["k=2"]\n')
    monkeypatch.setenv("SOTTO_ANSWER_EPSILON", "0.25")
    code, out, err = desk.run(option=None, limit="1")
    assert (code, json.loads(out)["epsilon"]) == (0, 0.25)
    assert "Settings:" in err


def test_without_records_it_is_free(desk):
    code, out, err = desk.run(method="auto", option=None, private=None, ledger=None, shots=None)
    assert (code, json.loads(out.splitlines()[0])["epsilon"]) == (0, 0.0)
    assert "Method public-shots: no private records were given" in err


# Paid once


def test_a_choice_is_paid_for_once_and_its_answers_are_free(desk):
    given = {"method": "choice", "shots": None, "option": None}
    code, out, err = desk.run(out="answers.jsonl", **given)
    assert code == 0, err
    assert len(desk.entries()) == 1
    found = [json.loads(line) for line in (desk.folder / "answers.jsonl").read_text("utf-8").splitlines()]
    assert {(row["method"], row["epsilon"], row["release_id"]) for row in found} == {
        ("choice", 1.0, desk.entries()[0]["release_id"])
    }
    free = dict.fromkeys(("private", "public", "method", "option", "shots", "ledger"))
    code, out, said = desk.run(fitted="answers.jsonl.sotto", **free)
    assert "post-processing of answers.jsonl.sotto (content " in said
    assert f"charge {desk.entries()[0]['release_id']}" in said
    assert "sotto verify certificate answers.jsonl.sotto" in said
    assert (code, [json.loads(line) for line in out.splitlines()]) == (0, found)
    assert len(desk.entries()) == 1
    assert (
        "is given; it must be left out with --fitted"
        in desk.run(fitted="answers.jsonl.sotto", **{**free, "ledger": "n.db"})[2]
    )
    assert run(["predict", "answers.jsonl.sotto", "--queries", "queries.jsonl"]) == 2
    code, _, err = desk.run(fitted="answers.jsonl.sotto", **{**free, "task": "summarize"})
    assert (code, "was fitted for the task 'question'" in err) == (2, True)
    assert desk.run(out="answers.jsonl", **given)[0] == 2, "what was paid for is not overwritten"


def test_a_choice_that_was_stopped_goes_on_under_its_charge(desk, monkeypatch):
    given = {"method": "choice", "shots": None, "option": None, "out": "answers.jsonl"}

    def stops(*arguments, **options):
        raise KeyboardInterrupt

    # While records are read: the fit goes on. While free answers are written: the fitted file is taken.
    for place in ("sottovoce.experts.encoded.EncodedRecords.read", "sottovoce.answering.session.PrivateAnswers.finish"):
        with monkeypatch.context() as stopped:
            stopped.setattr(place, stops)
            assert desk.run(*(["--resume"] if desk.entries() else []), **given)[0] == 130
        assert len(desk.entries()) == 1
    code, _, err = desk.run("--resume", **given)
    assert code == 0, err
    assert (len(desk.entries()), len((desk.folder / "answers.jsonl").read_text().splitlines())) == (1, 2)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("answers.jsonl.partial", "is a link or a file"),
        ("answers.jsonl.run", "answers.jsonl.run exists already and is not overwritten"),
    ],
)
def test_what_is_in_the_way_of_free_answers_is_found_before_a_choice_is_paid(desk, name, words):
    (desk.folder / name).write_text("mine")
    code, _, err = desk.run(method="choice", shots=None, option=None, out="answers.jsonl")
    assert (code, words in err, desk.entries()) == (2, True, []), err
    assert not (desk.folder / "answers.jsonl.sotto").exists()


def test_a_choice_is_not_paid_beside_an_interrupted_run_of_answers(desk, monkeypatch):
    def stops(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped:
        stopped.setattr("sottovoce.answering.session.PrivateAnswers.finish", stops)
        assert desk.run(out="answers.jsonl")[0] == 130
    charged = len(desk.entries())
    given = {"method": "choice", "shots": None, "option": None, "out": "answers.jsonl"}
    for flags, words in (
        ([], "answers.jsonl.partial holds an interrupted run, which may be paid for"),
        (["--resume"], "answers.jsonl.partial is there, and answers.jsonl.sotto is not"),
    ):
        code, _, err = desk.run(*flags, **given)
        assert (code, words in err, len(desk.entries())) == (2, True, charged), err


def test_a_resumed_choice_is_not_paid_before_its_answers_place_is_looked_at(desk, monkeypatch):
    given = {"method": "choice", "shots": None, "option": None, "out": "answers.jsonl"}

    def stops(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped:
        stopped.setattr(Account, "reserve", stops)
        stopped.setattr(Checkpoint, "abandon", lambda checkpoint: checkpoint.close())
        assert desk.run(**given)[0] == 130
    (desk.folder / "answers.jsonl").write_text("mine")
    code, _, err = desk.run("--resume", **given)
    assert (code, "sotto.partial holds an interrupted choice" in err, desk.entries()) == (2, True, []), err
    (desk.folder / "answers.jsonl").unlink()
    assert desk.run("--resume", **given)[0] == 0
    assert len(desk.entries()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("moved", [True, False])
def test_a_choice_that_is_paid_and_kept_ends_for_nothing_where_answers_came_up_in_its_place(desk, monkeypatch, moved):
    given = {"method": "choice", "shots": None, "option": None, "out": "answers.jsonl"}

    def stops(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped:
        stopped.setattr(Checkpoint, "_write", stops)
        assert desk.run(**given)[0] == 130
    (desk.folder / "answers.jsonl").write_text("mine")
    code, _, err = desk.run("--resume", **given)
    assert (code, len(desk.entries())) == (2, 1)
    assert "answers.jsonl.sotto.partial holds an interrupted choice" in err
    if moved:
        (desk.folder / "answers.jsonl").rename(desk.folder / "kept.jsonl")
        code, _, err = desk.run("--resume", **given)
    else:
        code, _, err = desk.run("--resume", **{**given, "out": "others.jsonl", "out_fitted": "answers.jsonl.sotto"})
    assert (code, len(desk.entries())) == (0, 1), err


@pytest.mark.slow
def test_what_ends_the_answers_of_a_choice_does_not_say_that_nothing_was_charged(desk, monkeypatch):
    given = {"method": "choice", "shots": None, "option": None, "out": "answers.jsonl"}
    create = RunFolder.create

    def full(path, *arguments):
        if path.name == "answers.jsonl.partial":
            raise OSError(28, "No space left on device")
        return create(path, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "create", full)
        code, _, err = desk.run(**given)
    assert (code, len(desk.entries())) == (2, 1)
    assert "Nothing was charged" not in err
    assert "What was chosen is paid for, and whole in answers.jsonl.sotto" in err
    code, _, err = desk.run("--resume", **given)
    assert (code, len(desk.entries())) == (0, 1), err


def test_a_choice_whose_draw_cannot_be_kept_is_not_said_to_go_on(desk, monkeypatch):
    write = RunFolder.write

    def full(folder, name, *arguments, **how):
        if name.startswith("round-"):
            raise OSError(28, "No space left on device")
        return write(folder, name, *arguments, **how)

    monkeypatch.setattr(RunFolder, "write", full)
    code, _, err = desk.run(method="choice", shots=None, option=None, out="answers.jsonl")
    assert (code, len(desk.entries())) == (2, 1)
    assert "what was drawn is lost. Move the folder away" in err
    assert "to go on" not in err


@pytest.mark.parametrize("method", ["ksa", "choice"])
def test_questions_that_are_the_private_records_are_refused_before_a_budget_is_opened(desk, method):
    desk.write("queries.jsonl", [row.values for row in rows(16, "private")])
    given = {"shots": None, "option": None} if method == "choice" else {}
    words = desk.refuses(method=method, out="answers.jsonl", **given)
    assert "--queries queries.jsonl: most of these rows are private records" in words
    assert not (desk.folder / "notes.db").exists()


@pytest.mark.slow
def test_a_choice_without_a_file_of_answers_is_resumed_by_its_own_file(desk, monkeypatch):
    given = {"method": "choice", "shots": None, "option": None, "out_fitted": "c.sotto"}

    def stops(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped:
        stopped.setattr("sottovoce.files.run_folder.RunFolder.place", stops)
        assert desk.run(**given)[0] == 130
    code, _, err = desk.run(**given)
    assert (code, "Repeat its command with --resume" in err) == (2, True), err
    code, out, err = desk.run("--resume", **given)
    assert (code, len(out.splitlines()), len(desk.entries())) == (0, 2, 1), err
    assert "c.sotto was drawn whole before, and is in its place now. Nothing was charged." in err
    assert "Price" not in err
    assert "used with --out, or with --out-fitted" in desk.run("--resume", **{**given, "out_fitted": None})[2]


def test_a_choice_is_paid_for_when_its_writer_was_seen_to_write(desk, monkeypatch):
    given = {"method": "choice", "shots": None, "option": None, "out": "answers.jsonl"}
    assert "one that writes texts" in desk.refuses(**{**given, "model": "nosuchmodel"})

    def fails(request):
        raise ModelError("the server is gone", retryable=True)

    monkeypatch.setattr(FakeWriter.__init__, "__defaults__", (fails,))
    assert "Nothing was charged" in desk.refuses(code=4, **given)


@pytest.mark.parametrize("silent", ["q0", "the longest"])
def test_a_choice_is_not_paid_for_where_the_writer_has_no_answer_to_a_question(desk, monkeypatch, silent):
    given = {"method": "choice", "shots": None, "option": None, "out": "answers.jsonl"}
    asked = {"q0": "what of the card?", "q1": "and?", "the longest": "what of the card " * 9, "q3": "a loan?"}
    desk.write("queries.jsonl", [{"id": name, "question": text} for name, text in asked.items()])

    def refuses(request):  # a text that is too long, or that a server filters
        return None if request.question.strip() == asked[silent].strip() else nearest_output(request)

    monkeypatch.setattr(FakeWriter.__init__, "__defaults__", (refuses,))
    message = desk.refuses(code=4, **given)
    number = [*asked].index(silent) + 1
    assert f"Question {number}: The model fake wrote nothing for a question, alone or after public" in message
    assert "Shorten the question" in message
    assert "Nothing was charged" in message


@pytest.mark.slow
@pytest.mark.parametrize("room", [0, 1])
def test_a_choice_is_paid_for_only_where_the_longest_examples_that_it_can_leave_fit_the_prompt(desk, monkeypatch, room):
    shown = [
        ("a fee?", "Ask."),
        ("a card of mine?", "Block."),
        ("a card of mine?", "Block."),
        ("and a loan?", "No, no!"),
    ]
    desk.write("public.jsonl", [{"question": asked, "answer": answer} for asked, answer in shown])
    request = request_of(load_answer_task("question"), {"question": "what of the card 0?"}, shown[2:])
    texts = [request.instruction, request.question, *(text for shot in request.shots for text in shot)]
    longest = sum(len(text.split()) for text in texts) + 63 + room
    monkeypatch.setattr(
        FakeWriter.__init__, "__kwdefaults__", {**FakeWriter.__init__.__kwdefaults__, "longest": longest}
    )
    given = {"method": "choice", "shots": None, "option": None, "out": "answers.jsonl"}
    if room:
        assert desk.run(**given)[0] == 0
        return
    message = desk.refuses(code=4, **given)
    assert "Question 1: The model fake wrote nothing for the question after 2 public examples, the longest" in message
    assert f"(39 bytes together, and the model reads {longest} tokens, with the 64 it writes)" in message
    assert "-o k=1" in message
    assert desk.run(**{**given, "option": "k=1"})[0] == 0


@pytest.mark.slow
def test_a_choice_of_other_records_or_settings_is_not_taken_for_ones_own(desk):
    given = {"method": "choice", "shots": None, "option": None, "out": "answers.jsonl"}
    assert desk.run(**given)[0] == 0
    (desk.folder / "answers.jsonl").unlink()
    desk.write("others.jsonl", [row.values for row in rows(16, "other private")])
    for changed, what in (
        ({"epsilon": "0.5"}, "parameters, epsilon"),
        ({"delta": "1e-7"}, "delta"),
        ({"adjacency": "add-remove"}, "adjacency"),
        ({"private": "others.jsonl", "ledger": "notes.db"}, "ledger, which does not know"),
        ({"ledger": "other.db"}, "ledger, which does not know"),
        ({"option": "k=1"}, "parameters"),
        ({"public": "others.jsonl"}, "public texts"),
    ):
        code, out, err = desk.run("--resume", **{**given, **changed})
        assert (code, out, what in err) == (2, "", True), (changed, err)
        assert not (desk.folder / "answers.jsonl").exists()
    assert not (desk.folder / "other.db").exists()
    left, elsewhere = desk.folder / "answers.jsonl.sotto.partial", desk.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "round-fit").write_text("the draw of another run, which is paid")
    left.symlink_to("elsewhere")
    code, _, err = desk.run("--resume", **given)
    assert (code, f"{left.name} is there beside answers.jsonl.sotto" in err, len(desk.entries())) == (0, True, 1), err
    left.unlink()
    elsewhere.rename(left)
    code, _, err = desk.run("--resume", **given)
    assert (code, "Nothing to do" in err, len(desk.entries())) == (0, True, 1)
    assert (left / "round-fit").read_text() == "the draw of another run, which is paid"


@pytest.mark.slow
def test_free_answers_are_resumed_with_their_own_fitted_file_alone(desk, monkeypatch):
    fit = [
        "fit",
        "--task",
        "question",
        "--private",
        "private.jsonl",
        "--public",
        "public.jsonl",
        "--ledger",
        "notes.db",
    ]
    assert run([*fit, "--epsilon", "1", "--budget", "9,1e-5", "--out", "one.sotto"]) == 0
    one = Fitted.load("one.sotto")
    paid = one.certificate.ledger
    replace(one, certificate=replace(one.certificate, ledger="another-1")).save("two.sotto")
    free = {**dict.fromkeys(("private", "public", "method", "option", "shots", "ledger")), "out": "answers.jsonl"}

    def stops(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped:  # in a folder, as a run that is killed leaves it
        stopped.setattr("sottovoce.answering.session.PrivateAnswers.finish", stops)
        stopped.setattr("sottovoce.files.checkpoint.Checkpoint.abandon", lambda checkpoint: None)
        assert desk.run(fitted="one.sotto", **free)[0] == 130
    for _ in ("in its folder", "finished"):
        code, out, err = desk.run("--resume", fitted="two.sotto", **free)
        assert (code, out, f"has fitted charge '{paid}', not '" in err) == (2, "", True), err
        code, _, err = desk.run("--resume", fitted="one.sotto", **free)
        assert code == 0, err
    assert "Nothing to do" in err
    rows_told = (desk.folder / "answers.jsonl").read_text("utf-8").splitlines()
    assert {json.loads(row)["epsilon"] for row in rows_told} == {1.0}


@pytest.mark.slow
def test_fit_makes_what_free_answers_follow_and_says_so(desk, capfd):
    words = [
        "fit", "--task", "question", "--private", "private.jsonl", "--public", "public.jsonl", "--ledger", "notes.db",
        "--out", "chosen.sotto",
    ]  # fmt: skip
    assert run(words) == 0
    assert "sotto answer --fitted chosen.sotto" in capfd.readouterr().err
    promising_nothing(Fitted.load("chosen.sotto")).save("unsure.sotto")
    free = dict.fromkeys(("private", "public", "method", "option", "shots", "ledger"))
    summary = json.loads(desk.run("--json", fitted="unsure.sotto", **free)[1])
    assert {part["epsilon"] for part in (*summary["rows"], summary["spent"], summary["certificate"])} == {None}
    for more, told in (
        (["--method", "class-means"], "--method is 'class-means'; it must be choice"),
        (["--label-column", "x"], "see --answer-column"),
    ):
        assert run([*words[:-1], "other.sotto", *more]) == 2
        assert told in capfd.readouterr().err
    assert run([*words[:5], "--out", "other.sotto"]) == 2
    assert "--public is" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"public": None}, "--public is"),
        ({"private": None}, "--private is"),
        ({"shots": "2"}, "asks no expert"),
        ({}, "--out-fitted is"),
        ({"option": "no=3", "out": "answers.jsonl"}, "-o no is"),
        ({"method": "ksa", "option": "k=2", "shots": "1", "out_fitted": "x.sotto"}, "it is used by choice"),
    ],
)
def test_what_a_choice_needs_and_does_not_use_is_said(desk, changed, words):
    assert words in desk.refuses(**{"method": "choice", "shots": None, "option": None, **changed})


def test_many_questions_choose_a_choice_and_a_dry_run_charges_nothing(desk):
    desk.write("queries.jsonl", [{"question": f"what of the card {i}?"} for i in range(9)])
    given = {"method": "auto", "shots": None, "option": None}
    code, out, err = desk.run("--dry-run", "--json", **given)
    assert (code, json.loads(out)["method"]) == (0, "choice"), err
    assert "Method choice: paid once for 9 questions, and for any number of others" in err
    assert not (desk.folder / "notes.db").exists()


# What is refused


@pytest.mark.cases(15)
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"task": "trec"}, "has labels, and is for 'sotto classify'"),
        ({"task": "no-such"}, "There is no task"),
        ({"task": "absent.toml"}, "cannot be read"),
        ({"method": "poe"}, "auto, choice, coreset, esa"),
        ({"method": "chioce"}, "did you mean 'choice'?"),
        ({"option": "clip=3"}, "-o clip is"),
        ({"option": "k=0"}, "-o k is"),
        ({"option": "universe=private"}, "public: a keyword read off one expert's private answer"),
        ({"model": "no-such"}, "--model is"),
        ({"model": "vectors:a,b"}, "--model is"),
        ({"epsilon": "0"}, "--epsilon is"),
        ({"epsilon": "many"}, "--epsilon is"),
        ({"delta": "2"}, "--delta is"),
        ({"adjacency": "add-remove", "shots": "2"}, "public number of slots"),
        ({"adjacency": "add"}, "--adjacency is"),
        ({"sampling": "poisson"}, "independent coins"),
        ({"sampling": "k-means"}, "no budget covers it"),
        ({"sampling": "without-replacement"}, "--experts is"),
        ({"sampling_probability": "0.1"}, "absent"),
        ({"experts": "17"}, "--experts is 17; it must be at most 16"),
        ({"tokens": "0"}, "--tokens is"),
        ({"embedder": "embedded"}, "--embedder is"),
        ({"private": None}, "--private is"),
        ({"private": "absent.jsonl"}, "absent.jsonl"),
        ({"public": "private.jsonl"}, "must be public"),
        ({"text_column": "absent"}, "there is no column 'absent'"),
        ({"task": "document-question", "text_column": "question"}, "--text-column is"),
        ({"out": "private.jsonl"}, "is read by this command"),
        ({"out": "notes.db"}, "is a file of the ledger itself"),
        ({"out": "answers.txt"}, ".jsonl"),
        ({"budget": "eight"}, "--budget"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name_before_anything_is_charged(desk, changed, words):
    assert words in desk.refuses(**changed)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--resume"], "--resume is"),
        (["--without-lost"], "--without-lost is"),
        (["--resume", "--out", "answers.jsonl"], "nothing to resume"),
    ],
)
def test_what_is_resumed_was_begun(desk, flags, words):
    assert words in desk.refuses(*flags)


@pytest.mark.parametrize(
    ("method", "flag", "words"),
    [
        ("zero-shot", ["--ledger", "x.db"], "it is used by"),
        ("zero-shot", ["--experts", "3"], "reads no private record; it is used by"),
        ("zero-shot", ["--shots", "3"], "shows no groups of examples"),
        ("zero-shot", ["--public", "public.jsonl"], "shows no public example"),
        ("zero-shot", ["--public-experts", "3"], "compares no public answers; it is used by augment, esa, ksa"),
        ("public-shots", ["--public-experts", "3"], "compares no public answers; it is used by"),
        ("coreset", ["--public-experts", "3"], "compares no public answers; it is used by"),
        ("full-context", ["--public-experts", "3"], "nearest-to-mean, public-consensus, sga"),
        ("full-context", ["--sampling", "categorical"], "puts every record into one prompt"),
    ],
)
def test_an_option_that_the_method_does_not_use_is_refused(desk, method, flag, words):
    given = {"shots": None, "option": None, "ledger": None, "public": None}
    message = desk.refuses(*flag, method=method, **given)
    assert words in message
    assert message.startswith(f"ParameterError: {flag[0]} is")


CONSENSUS = {
    "method": "public-consensus", "private": None, "option": None, "ledger": None, "embedder": "fake",
}  # fmt: skip


@pytest.mark.parametrize(("flags", "groups"), [([], 8), (["--public-experts", "3"], 3)])
def test_the_free_consensus_compares_the_answers_of_all_public_groups(desk, monkeypatch, flags, groups):
    desk.write("public.jsonl", [row.values for row in rows(24, "public")])
    asked = []

    def write(request):
        asked.append(request)
        shown = [question.split()[-1] for question, _ in request.shots]
        return f"desk {' '.join(shown)} answers {len(shown)}"

    monkeypatch.setattr(FakeWriter.__init__, "__defaults__", (write,))
    code, out, err = desk.run(*flags, limit="1", shots="2", **CONSENSUS)
    assert code == 0, err
    assert [len(request.shots) for request in asked] == [0, *[2] * groups]
    assert json.loads(out)["value"] in [write(request) for request in list(asked)]
    assert (json.loads(out)["epsilon"], desk.entries()) == (0.0, [])


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--shots", "4"], "--public is 6; it must be at least 8 examples, or fewer shots"),
        (["--shots", "1", "--public-experts", "1"], "--public-experts is 1; it must be at least 2"),
    ],
)
def test_a_consensus_of_fewer_than_three_answers_is_refused(desk, flags, words):
    assert words in desk.refuses(*flags, shots=None, **CONSENSUS)


def test_a_delta_is_refused_where_nothing_spends_one(desk):
    message = desk.refuses(delta="1e-6")
    assert message.startswith("ParameterError: --delta is")
    assert "sga." in message
    code, out, err = desk.run("-o", "selection=ptr", delta="1e-7", limit="1", budget="8,1e-6,failure=5e-7")
    assert code == 0, err
    assert json.loads(out)["delta"] == 1e-7


def test_several_selections_take_a_delta_where_epsilons_are_added(desk):
    # One answer took the whole share for failures, and a smaller delta was refused as none of this method's.
    budget = {"budget": "8,1e-6,failure=1e-6", "epsilon": "1", "limit": "2"}
    code, _, err = desk.run("-o", "selection=one-shot", **budget)
    assert (code, "Ask with a smaller delta" in err) == (3, True)
    code, out, err = desk.run("-o", "selection=one-shot", delta="5e-7", **budget)
    assert code == 0, err
    assert [json.loads(line)["delta"] for line in out.splitlines()] == [5e-7, 5e-7]


def test_a_method_without_a_guarantee_is_refused_unless_it_is_allowed(desk):
    given = {"method": "full-context", "option": None, "shots": None, "public": None}
    assert "--allow-non-private" in desk.refuses(**given)
    code, out, _ = desk.run("--allow-non-private", "--json", limit="1", **given)
    assert (code, json.loads(out)["rows"][0]["epsilon"]) == (0, None)


def test_a_run_after_one_that_opened_no_budget_opens_the_usual_one(desk):
    Ledger("notes.db").count()
    code, _, err = desk.run("--resume", out="answers.jsonl")
    assert (code, "There is nothing to resume" in err, desk.entries("open")) == (2, True, []), err
    assert desk.run(out="answers.jsonl")[0] == 0
    assert len(desk.entries()) == 2


def test_what_does_not_fit_the_budget_is_refused_whole(desk):
    assert "Nothing was charged" in desk.refuses(epsilon="5", budget="8", code=3)
    assert "Nothing was charged" in desk.refuses(epsilon="5", budget="8", code=3, out="answers.jsonl")


def test_a_caller_that_the_ledger_does_not_know_is_refused(desk):
    assert "knows no caller 'anna'" in desk.refuses(caller="anna", code=3)


@pytest.mark.parametrize("caller", ["\udcff", "a\0b", " anna", "x" * 200])
def test_a_caller_with_a_name_that_nobody_can_have_is_refused(desk, caller):
    assert "knows no caller" in desk.refuses(caller=caller, code=3)


def test_a_writer_that_fails_ends_with_4_and_nothing_is_charged(desk, monkeypatch):
    def fails(request):
        raise ModelError("the server is gone", retryable=True)

    monkeypatch.setattr(FakeWriter.__init__, "__defaults__", (fails,))
    assert "Nothing was charged" in desk.refuses(code=4)


def test_an_answer_that_is_drawn_and_not_finished_is_kept_with_an_output_alone(desk, monkeypatch):
    def fails(answers, drawn):
        raise ModelError("the server is gone", retryable=True)

    with monkeypatch.context() as broken:
        broken.setattr("sottovoce.answering.session.PrivateAnswers.finish", fails)
        code, out, err = desk.run(limit="1")
        assert (code, out, "It is lost with this command" in err, "release_id=" in err) == (4, "", True, True)
        assert desk.run(limit="1", out="answers.jsonl")[0] == 4
    assert desk.run("--resume", limit="1", out="answers.jsonl")[0] == 0
    assert len(desk.entries()) == 2


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"epsilon": "0.5"}, "has epsilon 1.0, not 0.5"),
        ({"limit": "1"}, "has questions 2, not 1"),
        ({"public": "private.jsonl"}, "must be public"),
    ],
)
def test_answers_of_another_run_are_not_taken_for_those_of_this_one(desk, changed, words):
    assert desk.run(out="answers.jsonl")[0] == 0
    whole = (desk.folder / "answers.jsonl").read_bytes()
    code, out, err = desk.run("--resume", out="answers.jsonl", **changed)
    assert (code, out, words in err, len(desk.entries())) == (2, "", True, 2), err
    assert (desk.folder / "answers.jsonl").read_bytes() == whole


def test_answers_do_not_stand_for_the_same_questions_under_other_ids(desk):
    assert desk.run(out="answers.jsonl")[0] == 0
    whole = (desk.folder / "answers.jsonl").read_bytes()
    desk.write("queries.jsonl", [{"id": f"q{1 - i}", "question": f"what of the card {i}?"} for i in range(2)])
    code, out, err = desk.run("--resume", out="answers.jsonl")
    assert (code, out, "has other question texts" in err, len(desk.entries())) == (2, "", True, 2), err
    assert (desk.folder / "answers.jsonl").read_bytes() == whole


def test_a_finished_run_whose_file_was_changed_is_not_resumed(desk):
    out = desk.folder / "answers.jsonl"
    assert desk.run(out="answers.jsonl")[0] == 0
    out.write_text(out.read_text().replace("Call", "Ring"))
    code, _, err = desk.run("--resume", out="answers.jsonl")
    assert (code, "answers.jsonl was changed since it was written" in err, len(desk.entries())) == (2, True, 2)
    (desk.folder / "answers.jsonl.run").unlink()
    code, _, err = desk.run("--resume", out="answers.jsonl")
    assert (code, "answers.jsonl.run, which says of which run it is, is missing" in err) == (2, True)


def test_another_file_beside_the_output_is_left_alone(desk):
    (desk.folder / "answers.jsonl.run").write_text("mine")
    code, _, err = desk.run(out="answers.jsonl")
    assert (code, "answers.jsonl.run exists already" in err, desk.entries()) == (2, True, [])
    assert (desk.folder / "answers.jsonl.run").read_text() == "mine"


def test_an_existing_output_is_left_alone(desk):
    (desk.folder / "answers.jsonl").write_text("mine")
    code, _, err = desk.run(out="answers.jsonl")
    assert (code, "exists already" in err, desk.entries()) == (2, True, [])
    assert (desk.folder / "answers.jsonl").read_text() == "mine"


@pytest.mark.parametrize("part", ["private", "public", "queries"])
def test_a_damaged_row_is_named_by_its_line_and_never_quoted(desk, part):
    word = marker()
    lines = (desk.folder / f"{part}.jsonl").read_text().splitlines()
    damaged = {"question": [word]} if part == "queries" else {"question": word, "answer": 3}
    (desk.folder / f"{part}.jsonl").write_text("\n".join([*lines, json.dumps(damaged)]) + "\n")
    message = desk.refuses()
    assert f"{part}.jsonl, line {len(lines) + 1}" in message
    search(message, [word], "the message")


def test_an_id_that_is_used_twice_is_refused(desk):
    desk.write("queries.jsonl", [{"id": "a", "question": "what?"}] * 2)
    assert "the id is that of an earlier row" in desk.refuses()


# Nothing private is shown


def test_nothing_that_a_run_leaves_behind_shows_a_record(desk, monkeypatch, capfd):
    words = [marker("INPUT"), marker("OUTPUT")]
    private = [{"question": f"{words[0]} private card {i}?", "answer": f"{words[1]} {i}"} for i in range(16)]
    desk.write("private.jsonl", private)
    stopped = []

    def write(request):
        if request.shots and words[0] in request.shots[0][0] and "card 1?" in request.question and not stopped:
            stopped.append(1)
            raise ModelError(f"cannot read {request.shots[0]}", retryable=True)
        return nearest_output(request)

    monkeypatch.setattr(FakeWriter.__init__, "__defaults__", (write,))
    code, out, err = desk.run(out="answers.jsonl")
    assert code == 4
    search(out + err, words, "what is printed")
    assert "repeat the command with --resume" in err
    hunt_files(desk.folder, words, but=("private.jsonl",))
    assert desk.run("--resume", out="answers.jsonl")[0] == 0
    hunt_files(desk.folder, words, but=("private.jsonl",))
    assert len(desk.entries()) == 2, "the charge of the answer that failed counted"
    assert len(desk.entries("release")) == 2


# What a budget buys


@pytest.mark.slow
def test_plan_says_what_a_budget_buys_and_names_the_free_answer_to_compare_with(desk, capfd):
    assert run(["plan", "--records", "400", "--questions", "3", "--task", "summarize", "--json"]) == 0
    values = json.loads(capfd.readouterr().out)
    by_method = {row["method"]: row for row in values["options"]}
    assert by_method["choice"] == {"method": "choice", "paid": "once", "epsilon": 8.0}
    assert 1 < by_method["ksa"]["epsilon"] < 8
    assert "full-context" not in by_method
    assert values["measured_on"] == ["medquad", "samsum"]
    assert run(["plan", "--records", "400", "--questions", "500", "--task", "summarize"]) == 0
    told = capfd.readouterr().out
    assert "Compare it with 'public-consensus' first, which is free: on medquad and samsum" in " ".join(told.split())
    assert "--method public-consensus --out free.jsonl" in " ".join(told.split())
    assert "choice: paid once for 500 questions" in told
    assert "quality, compared on medquad and samsum, did not choose it" in " ".join(told.split())
    assert run(["plan", "--records", "9", "--questions", "3", "--task", "summarize", "--labels", "3"]) == 2
    assert "--labels is" in capfd.readouterr().err


def test_methods_lists_what_answers_with_texts(capfd):
    assert run(["methods", "--json"]) == 0
    listed = {row["method"]: row for row in json.loads(capfd.readouterr().out)["answerers"]}
    assert listed["esa"]["guarantee"]
    assert listed["esa"]["needs"] == ["Embedder", "pool"]
    assert not listed["full-context"]["guarantee"]
    assert [listed[name]["least_candidates"] for name in ("esa", "public-consensus", "public-shots")] == [1, 3, 0]
