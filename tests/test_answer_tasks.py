"""Tasks whose answers are texts: what is read from a row, and that no error quotes one."""

from __future__ import annotations

import pytest

from sottovoce.errors import ParameterError, RecordError, TaskError
from sottovoce.records.columns import there_are
from sottovoce.records.sealed import Row
from sottovoce.tasks import AnswerTask, answer_task_names, load_answer_task, load_task, task_names

SUMMARIZE = load_answer_task("summarize")


def refusal(values, task=SUMMARIZE):
    with pytest.raises(RecordError) as caught:
        task.example_of(Row(7, values), "rows.csv")
    assert "Quagga" not in repr(caught.value)
    assert str(caught.value).startswith("rows.csv, line 7, field '")
    return caught.value


def test_a_first_record_that_was_read_as_a_header_is_not_quoted():
    # Answers are texts: no label set tells a header from a record.
    for task in (SUMMARIZE, load_answer_task("question")):
        told = str(refusal({"Quagga": "x", "Pancreatitis": "y"}, task))
        assert "Pancreatitis" not in told
        assert "It has 2 columns. If the first line is no header, add one. Name the column that holds it with" in told
    for unknown in (None, (), []):
        assert "Quagga" not in there_are(["Quagga", "Pancreatitis"], "rows.csv", unknown)


def test_an_example_is_its_input_as_the_template_shows_it_and_its_answer():
    task = load_answer_task("document-question")
    row = Row(1, {"document": "TOTAL {3.00}", "question": "How much?", "answer": "3.00", "key": "total"})
    example = task.example_of(row, "memory")
    assert task.shot(example) == ("TOTAL {3.00}\nQuestion: How much?", "3.00")
    assert task.fields == ("document", "question")
    assert "3.00" not in repr(example), "an example may be private"


@pytest.mark.parametrize("field", ["dialogue", "summary"])
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, "missing or empty"),
        ("", "missing or empty"),
        (" \n", "only blanks"),
        (3, "it must be a text"),
        (["Quagga"], "it must be a text"),
    ],
)
def test_a_field_that_is_no_text_is_named_and_not_quoted(field, value, problem):
    error = refusal({"dialogue": "Quagga", "summary": "Quagga", field: value})
    assert error.field == field
    assert problem in str(error)


@pytest.mark.parametrize(("field", "flag"), [("dialogue", "--text-column"), ("summary", "--answer-column")])
def test_a_column_of_another_name_is_told_with_the_flag_that_names_it(field, flag):
    row = {"dialogue": "Quagga", "summary": "Quagga"}
    row["body"] = row.pop(field)
    error = str(refusal(row))
    assert f"{flag} COLUMN" in error
    assert "It has 2 columns." in error
    assert "body" not in error


def test_of_two_input_fields_no_flag_names_one():
    error = str(refusal({"document": "Quagga", "answer": "Quagga"}, load_answer_task("document-question")))
    assert "columns={'question': COLUMN}" in error
    assert "--text-column" not in error


def test_a_question_may_carry_its_answer():
    assert SUMMARIZE.has_answer(Row(1, {"summary": "s"}))
    assert not SUMMARIZE.has_answer(Row(1, {"dialogue": "d"}))
    assert SUMMARIZE.query_of(Row(1, {"dialogue": "d"}), "f") == {"dialogue": "d"}


@pytest.mark.parametrize("name", answer_task_names())
def test_every_built_in_task_loads_and_renders(name):
    task = load_answer_task(name)
    query = {field: f"some {field}" for field in task.fields}
    assert all(text in task.render_query(query) for text in query.values())
    assert task.name == name


def test_a_task_of_the_other_kind_is_named_as_one():
    with pytest.raises(TaskError, match=r"has texts for answers, and is for 'sotto answer'.*agnews"):
        load_task("summarize")
    with pytest.raises(TaskError, match=r"has labels, and is for 'sotto classify'.*summarize"):
        load_answer_task("agnews")
    assert not {*task_names()} & {*answer_task_names()}
    with pytest.raises(TaskError, match="did you mean 'summarize'"):
        load_answer_task("summarise")
    with pytest.raises(ParameterError, match="built-in task"):
        load_answer_task(3)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"query": "none"}, "of no column"),
        ({"query": "{answer}"}, "'answer', which holds the answer"),
        ({"query": "{text!r}"}, "plain fields"),
        ({"query": "{text"}, "not usable"),
        ({"output_field": "the answer"}, "single word"),
        ({"names": ("Question", " ")}, "two words"),
        ({"names": ("Question", "An\nswer")}, "two words"),
        ({"names": "Question"}, "two words"),
        ({"names": ("A", "A ")}, "same name 'A'"),
    ],
)
def test_templates_and_names_that_could_not_be_used_are_refused(given, problem):
    with pytest.raises(TaskError, match=problem):
        AnswerTask(**given)


def task_file(tmp_path, text):
    path = tmp_path / "own.toml"
    path.write_text(text)
    return str(path)


def test_a_task_file_may_leave_everything_but_what_it_asks_to_the_defaults(tmp_path):
    task = load_answer_task(task_file(tmp_path, 'query = "{mail}"\noutput_field = "reply"\nnames = ["Mail", "Reply"]'))
    assert (task.name, task.fields, task.output_field, task.names) == ("own", ("mail",), "reply", ("Mail", "Reply"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("query = [", "not valid TOML"),
        ('labels = ["a", "b"]', "unknown key 'labels'"),
        ("query = 3", "'query' .* must be a text"),
        ('names = ["Question"]', "two words"),
        ('names = ["Question", 3]', "two words"),
        ('query = "none"', "of no column"),
        ('query = "{text}"\noutput_field = "text"', "which holds the answer"),
    ],
)
def test_a_task_file_that_is_no_task_is_refused_by_name(tmp_path, text, problem):
    with pytest.raises(TaskError, match=problem) as caught:
        load_answer_task(task_file(tmp_path, text))
    assert "own.toml" in str(caught.value)
