"""Writing: what is shown and asked for, and how what was written becomes a row."""

from __future__ import annotations

import json

import pytest

from sottovoce.errors import InputError, RecordError, TaskError
from sottovoce.generation import GenerationTemplate
from sottovoce.records.sealed import Row
from sottovoce.tasks import Task

PLAIN = GenerationTemplate(("text",))
RECORD = GenerationTemplate(("title", "year"), lead="Record:")


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


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", '"\\ud800"', '{"x": [NaN]}', "[" * 5_000 + "]" * 5_000])
def test_an_object_that_cannot_be_written_again_as_json_is_invalid(value):
    # Python reads all of these; a file that holds one could be written by nobody, or be read by Python alone.
    assert RECORD.read(f' {{"title": {value}}}') is None


def test_a_text_of_half_characters_is_invalid():
    assert PLAIN.read("half \ud800") is None


def test_a_row_for_a_task_has_each_of_its_fields_as_a_text_and_no_others():
    task = Task(labels=["a", "b"], query="{question} {answer}", example="{question} {answer} {label}")
    writing = GenerationTemplate.of(task)
    assert writing.row_of('{"answer": "y", "question": "x", "more": 1}', "a") == {
        "question": "x", "answer": "y", "label": "a",
    }  # fmt: skip
    for wrong in ('{"question": "x"}', '{"question": "x", "answer": 3}', '{"question": "x", "answer": " "}'):
        assert writing.row_of(wrong, "a") is None


def test_a_text_has_ended_when_the_next_line_begins():
    assert not PLAIN.ended("\n a fee")
    assert PLAIN.ended(" a fee\n")


def test_a_task_is_written_by_its_fields():
    assert GenerationTemplate.of(Task(labels=["a", "b"])).fields == ("text",)
    two = Task(labels=["a", "b"], query="{question} {answer}", example="{question} {answer} {label}")
    assert GenerationTemplate.of(two).structured


@pytest.mark.parametrize(
    "wrong", [{"fields": ()}, {"lead": " "}, {"lead": "Text: "}, {"before": "{labels}"}, {"before": "{label.x}"}]
)
def test_templates_that_cannot_work_are_refused(wrong):
    with pytest.raises(TaskError):
        GenerationTemplate(**{"fields": ("text",), **wrong})


def test_rows_that_cannot_be_shown_are_refused_by_line():
    for writing, values in ((PLAIN, {"text": "  "}), (RECORD, {"other": 1})):
        with pytest.raises(RecordError, match="line 9"):
            writing.label_of(Row(9, values), "films.jsonl")


def schema_file(tmp_path, schema) -> str:
    (tmp_path / "movie.schema.json").write_text(json.dumps(schema), "utf-8")
    return str(tmp_path / "movie.schema.json")


MOVIE = {
    "title": "film",
    "type": "object",
    "properties": {"title": {"type": "string"}, "year": {"type": "integer"}},
    "required": ["title"],
    "additionalProperties": False,
}


def test_a_schema_gives_fields_and_opening_and_judges_what_was_written(tmp_path):
    writing = GenerationTemplate.of_schema(schema_file(tmp_path, MOVIE))
    assert (writing.fields, writing.opening("")) == (("title", "year"), "Here are records of type film.\n")
    assert writing.read(' {"title": "x", "year": 1949}') == {"title": "x", "year": 1949}
    for wrong in (' {"title": 3}', ' {"year": 1949}', ' {"title": "x", "cast": []}', " {"):
        assert writing.read(wrong) is None


def test_rows_without_labels_have_one_nameless_kind(tmp_path):
    writing = GenerationTemplate.of_schema(schema_file(tmp_path, MOVIE))
    assert list(writing.labels) == [""]
    assert writing.label_of(Row(1, {"title": "x"}), "films.jsonl") == 0
    assert writing.row_of('{"title": "x"}', "") == {"title": "x"}
    labelled = GenerationTemplate.of_schema(schema_file(tmp_path, MOVIE), Task(labels=["good", "bad"]))
    assert labelled.opening("good") == "Here are records of type film and good.\n"
    assert labelled.row_of('{"title": "x"}', "good") == {"title": "x", "label": "good"}


@pytest.mark.parametrize("wrong", [[], {"properties": {}}, {"properties": {"a": {}}, "type": "thing"}])
def test_what_is_no_schema_is_refused(tmp_path, wrong):
    with pytest.raises(InputError):
        GenerationTemplate.of_schema(schema_file(tmp_path, wrong))
    with pytest.raises(InputError, match=r"absent\.json"):
        GenerationTemplate.of_schema(tmp_path / "absent.json")


def test_a_schema_that_refers_to_another_file_is_refused_before_anything_is_paid(tmp_path):
    for name in ("other.json", "https://example.org/schema"):
        wrong = {"type": "object", "properties": {"a": {"anyOf": [{"$ref": name}]}}}
        with pytest.raises(InputError, match="stand by itself"):
            GenerationTemplate.of_schema(schema_file(tmp_path, wrong))
    inside = {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}}
    writing = GenerationTemplate.of_schema(schema_file(tmp_path, inside))
    assert (writing.read('{"a": "x"}'), writing.read('{"a": 1}')) == ({"a": "x"}, None)


def test_a_schema_that_turns_out_to_be_broken_makes_rows_invalid_and_no_error(tmp_path):
    for broken in ({"$ref": "#/absent"}, {"$ref": "#/properties/a"}):
        writing = GenerationTemplate.of_schema(schema_file(tmp_path, {"type": "object", "properties": {"a": broken}}))
        assert writing.read('{"a": "x"}') is None


def test_nested_objects_are_shown_and_read():
    writing = GenerationTemplate(("title", "cast"), lead="Record:")
    values = {"title": "x", "cast": [{"name": "a\nb", "age": 3}]}
    shown = writing.show(values)
    assert shown.count("\n") == 1
    assert writing.read(shown.removeprefix(writing.lead)) == values


def test_a_shown_text_cannot_pass_for_two():
    assert PLAIN.show({"text": "one\nText: two\r\nText: three\u2028Text: four"}).count("\n") == 1


def test_a_prompt_that_asks_ends_with_what_is_asked_for():
    assert (PLAIN.ending, RECORD.ending) == ("Text:", "Record:")
    assert PLAIN.asking().ending == "Write one more text like these, on one line, and nothing else."
    assert "JSON object on one line" in RECORD.asking().ending
    assert PLAIN.asking().show({"text": "a"}) == PLAIN.show({"text": "a"})
