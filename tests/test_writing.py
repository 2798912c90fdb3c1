"""Writing: what is shown and asked for, and how what was written becomes a row."""

from __future__ import annotations

import pytest

from sottovoce.errors import RecordError, TaskError
from sottovoce.records import Row
from sottovoce.tasks import Task
from sottovoce.writing import Writing

PLAIN = Writing(("text",))
RECORD = Writing(("title", "year"), lead="Record:")


def test_line_breaks_inside_a_text_do_not_end_it():
    assert PLAIN.show({"text": "one\n\ntwo\tthree "}) == "Text: one two three\n"


def test_several_fields_are_shown_as_json_in_their_order_without_missing_ones():
    assert RECORD.show({"year": 1949, "title": "Ça", "other": 1}) == 'Record: {"title": "Ça", "year": 1949}\n'
    assert RECORD.show({"year": None, "title": "x"}) == 'Record: {"title": "x"}\n'


@pytest.mark.parametrize(
    ("written", "row"),
    [(" a fee", {"text": "a fee"}), ("\n a fee\nText: more", {"text": "a fee"}), (" \n ", None), ("", None)],
)
def test_a_text_is_its_first_line(written, row):
    assert PLAIN.read(written) == row


@pytest.mark.parametrize(("written", "row"), [(' {"title": "x"}', {"title": "x"}), (" {title", None), (" 3", None)])
def test_a_record_is_a_json_object_or_invalid(written, row):
    assert RECORD.read(written) == row


def test_a_text_has_ended_when_the_next_line_begins():
    assert not PLAIN.ended("\n a fee")
    assert PLAIN.ended(" a fee\n")


def test_a_task_is_written_by_its_fields():
    assert Writing.of(Task(labels=["a", "b"])) == PLAIN
    two = Task(labels=["a", "b"], query="{question} {answer}", example="{question} {answer} {label}")
    assert Writing.of(two).structured


@pytest.mark.parametrize("wrong", [{"fields": ()}, {"lead": " "}, {"lead": "Text: "}, {"before": "{labels}"}])
def test_templates_that_cannot_work_are_refused(wrong):
    with pytest.raises(TaskError):
        Writing(**{"fields": ("text",), **wrong})


def test_rows_that_cannot_be_shown_are_refused_by_line():
    for writing, values in ((PLAIN, {"text": "  "}), (RECORD, {"other": 1})):
        with pytest.raises(RecordError, match="line 9"):
            writing.check(Row(9, values), "films.jsonl")
