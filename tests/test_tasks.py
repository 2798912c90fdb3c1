"""Tasks: what is public about a prompt, and how a label is read without ever being quoted."""

from __future__ import annotations

import base64
import string

import pytest

from sottovoce.errors import ParameterError, RecordError, TaskError
from sottovoce.models.base import require_images, require_text
from sottovoce.records.sealed import Row
from sottovoce.tasks import Task, load_task, task_names

TICKETS = Task(labels=["billing", "fraud", "shipping"])
DBPEDIA = [
    "Company", "Educational Institution", "Artist", "Athlete", "Office Holder", "Mean of Transportation", "Building",
    "Natural Place", "Village", "Animal", "Plant", "Album", "Film", "Written Work",
]  # fmt: skip


def label(value, task=TICKETS):
    return task.label_of(Row(5, {"text": "t", task.label_field: value}), "rows.csv")


def refusal(values, task=TICKETS):
    with pytest.raises(RecordError) as caught:
        task.example_of(Row(7, values), "rows.csv")
    assert "Quagga" not in repr(caught.value)
    assert caught.value.line == 7
    assert str(caught.value).startswith("rows.csv, line 7, field '")
    return caught.value


@pytest.mark.parametrize("value", ["fraud", " fraud\n", 1, "1", 1.0, "1.0", "01"])
def test_a_label_is_read_by_name_by_index_and_by_an_index_written_as_text(value):
    assert label(value) == 1


def test_a_label_whose_name_is_a_number_goes_by_its_name():
    digits = Task(labels=["2", "1", "0"])
    assert [label(value, digits) for value in ("0", 0, "2", 2)] == [2, 2, 0, 0]


@pytest.mark.parametrize(
    "value",
    ["Quagga", "Fraud", "frau", "3", 3, -1, "-1", "1.5", 1.5, True, "0x1", "1e0", "①", "٣", [1], {"a": 1}, "9" * 99],
)
def test_a_label_outside_the_set_is_refused_and_never_quoted(value):
    error = refusal({"text": "t", "label": value})
    assert "outside the public label set" in str(error)
    assert "The labels are billing, fraud, shipping." in str(error)
    assert error.field == "label"
    for piece in (str(value)[i : i + 4] for i in range(len(str(value)) - 3)):
        assert piece not in str(error).replace("rows.csv, line 7", "").replace("billing, fraud, shipping", "")


@pytest.mark.parametrize("missing", [{}, {"label": ""}, {"label": None}, {"label": float("nan")}])
def test_a_missing_label_is_named(missing):
    assert "the label is missing" in str(refusal({"text": "Quagga", **missing}))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, "missing or empty"),
        ("", "missing or empty"),
        (float("nan"), "missing or empty"),
        ("  \n\t\u2003", "only blanks"),
        (17, "it must be a text"),
        (["Quagga"], "it must be a text"),
        ({"Quagga": 1}, "it must be a text"),
    ],
)
def test_a_field_that_is_no_text_is_named(value, problem):
    error = refusal({"text": value, "label": "fraud"})
    assert error.field == "text"
    assert problem in str(error)


def test_a_missing_field_is_named_by_the_template_not_by_the_row():
    error = refusal({"body": "Quagga", "label": "fraud"})
    assert (error.field, "missing" in str(error)) == ("text", True)
    assert "Its columns are body, label." in str(error), "names of columns are public"


def test_a_row_without_a_label_has_none_and_says_so():
    assert not TICKETS.has_label(Row(1, {"text": "t"}))
    assert TICKETS.has_label(Row(1, {"label": 0}))


def test_braces_in_a_record_are_text():
    example = TICKETS.example_of(Row(1, {"text": "{label} {text} {0} {", "label": 0}), "memory")
    assert TICKETS.render_example(example) == "Text: {label} {text} {0} {\nLabel: billing"


def test_the_example_is_the_question_its_prefix_the_label_and_its_suffix():
    task = Task(labels=["a", "b"], query="Q: {text}\nA:", example="Q: {text}\nA: <{label}>")
    example = task.example_of(Row(1, {"text": "hello", "label": "b"}), "memory")
    expected = task.render_query(example.fields) + task.answer_prefix + "b" + task.answer_suffix
    assert task.render_example(example) + "\n\n" == expected == "Q: hello\nA: <b>\n\n"


# Built-in tasks


SMALLEST_PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n and so on").decode()


def test_an_image_field_takes_png_and_jpeg_in_base64_and_nothing_else():
    task = load_task("pseudonames")
    jpeg = base64.b64encode(b"\xff\xd8\xff and so on").decode()
    for good in (SMALLEST_PNG, jpeg):
        assert task.query_of(Row(1, {"image": good}), "f")["image"] == good
    for bad in ("cat.png", "####", base64.b64encode(b"GIF89a").decode(), SMALLEST_PNG[:-1], SMALLEST_PNG + "\n" + jpeg):
        with pytest.raises(RecordError, match="line 7, field 'image': the field is not a PNG or JPEG") as caught:
            task.query_of(Row(7, {"image": bad}), "f")
        assert bad not in str(caught.value)


def test_the_image_field_must_stand_once_in_the_query():
    for query in ("{text} Name:", "{image} {image} Name:"):
        with pytest.raises(TaskError, match="'image' once"):
            Task(labels=["a", "b"], query=query, example=query + " {label}", image="image")


def test_a_model_of_texts_refuses_images_and_a_model_of_images_refuses_texts():
    with pytest.raises(TaskError, match="--model embedded-image"):
        require_text(load_task("pseudonames"), "embedded")
    with pytest.raises(TaskError, match="--model embedded or hf"):
        require_images(load_task("agnews"), "embedded-image")
    require_text(load_task("agnews"), "embedded")
    require_images(load_task("pseudonames"), "embedded-image")


@pytest.mark.parametrize("name", task_names())
def test_every_built_in_task_loads_and_renders(name):
    task = load_task(name)
    assert len(set(task.labels)) == len(task.labels) >= 2
    fields = {field: f"some {field}" for field in task.fields}
    if task.image:
        fields[task.image] = SMALLEST_PNG
    value = "#### 7" if task.answer == "first_digit" else task.labels[-1]
    example = task.example_of(Row(1, {**fields, task.label_field: value}), "memory")
    assert task.labels[example.label] in task.render_example(example)
    assert all(text in task.render_query(fields) for text in fields.values())


def test_the_tasks_of_the_papers_are_there():
    assert {"agnews", "dbpedia", "gsm8k", "mpqa", "trec", "tickets"} & set(task_names()) >= {
        "agnews",
        "dbpedia",
        "trec",
    }
    assert list(load_task("dbpedia").labels) == DBPEDIA
    assert len(load_task("agnews").labels) == 4
    assert len(load_task("trec").labels) == 6


def test_the_fourteen_classes_of_dbpedia_are_read_by_name_and_by_index():
    task = load_task("dbpedia")
    assert [label(name, task) for name in DBPEDIA] == [label(i, task) for i in range(14)] == list(range(14))
    with pytest.raises(RecordError):
        label(14, task)


def test_the_first_digit_of_a_sum_is_read_behind_its_mark():
    task = next(load_task(name) for name in task_names() if load_task(name).answer == "first_digit")
    assert list(task.labels) == list(string.digits)
    answers = {
        "It costs 3 + 4 = 7 coins.\n#### 72": 7, "#### -15": 1, "#### 1,234": 1, "#### $9.50": 9, "#### 0.5": 0,
        "#### 8 #### 6": 6, "42": 4, 42: 4,
    }  # fmt: skip
    for answer, digit in answers.items():
        row = Row(1, {"question": "How many?", "answer": answer})
        assert task.example_of(row, "memory").label == digit
    for nothing in ("many", "12 ####", "#### none"):
        error = refusal({"question": "How many?", "answer": nothing}, task)
        assert error.field == "answer"


# Tasks of one's own


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ("billing", "list of names"),
        (["one"], "at least two"),
        ([], "at least two"),
        (["a", "b", "a"], "'a' is named twice"),
        (["a", " a"], "named twice"),
        (["a", ""], "empty"),
        (["a", "b\nc"], "line break"),
        (["a", 3], "list of names"),
        (None, "list of names"),
    ],
)
def test_labels_that_are_no_set_of_names_are_refused(labels, problem):
    with pytest.raises(TaskError, match=problem):
        Task(labels=labels)


@pytest.mark.parametrize(
    ("templates", "problem"),
    [
        ({"query": "no field"}, "of no column"),
        ({"query": "{label}:"}, "not 'label'"),
        ({"query": "{text"}, "not usable"),
        ({"query": "{text!r}"}, "plain fields"),
        ({"query": "{text:>9}"}, "plain fields"),
        ({"query": "{}"}, "plain fields"),
        ({"query": "{text.__class__}"}, "plain fields"),
        ({"query": "{text[0]}"}, "plain fields"),
        ({"example": "Other: {text} {label}"}, "followed by"),
        ({"example": "Text: {text}\nLabel: none"}, "label. once"),
        ({"example": "Text: {text}\nLabel: {label} {label}"}, "label. once"),
    ],
)
def test_templates_that_could_not_be_filled_are_refused(templates, problem):
    with pytest.raises(TaskError, match=problem):
        Task(labels=["a", "b"], **templates)


def test_an_unknown_way_to_read_an_answer_is_refused():
    with pytest.raises(ParameterError, match="first_digit"):
        Task(labels=["a", "b"], answer="guess")


def task_file(tmp_path, text):
    path = tmp_path / "own.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_a_task_file_needs_labels_and_may_say_the_rest(tmp_path):
    task = load_task(task_file(tmp_path, 'labels = ["a", "b"]\nquery = "{title}: {body} ->"'))
    assert task.name == "own"
    assert task.fields == ("title", "body")
    assert task.example == "{title}: {body} -> {label}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("labels = [", "not valid TOML"),
        (b"labels = ['\xff']", "cannot be read"),
        ("", "names no labels"),
        ('labels = ["a", "b"]\nlabel = "x"', "unknown key 'label'"),
        ('labels = ["a", "b"]\nquery = 3', "'query' .* must be a text"),
        ('labels = ["a", 3]', "list of names"),
        ('labels = "a"', "list of names"),
        ('labels = ["a"]', "at least two"),
        ('labels = ["a", "b"]\nanswer = "guess"', "first_digit"),
        ('labels = ["a", "b"]\nquery = "none"', "of no column"),
    ],
)
def test_a_task_file_that_is_no_task_is_refused_by_name(tmp_path, text, problem):
    with pytest.raises(TaskError, match=problem) as caught:
        load_task(task_file(tmp_path, text))
    assert "own.toml" in str(caught.value)


@pytest.mark.parametrize("name", ["no-such-task", "", "agnews.json", "../agnews"])
def test_an_unknown_task_is_refused_with_the_known_ones(name):
    with pytest.raises(TaskError, match=r"agnews, .*trec"):
        load_task(name)


def test_a_task_file_that_is_not_there_or_is_a_folder_is_refused(tmp_path):
    (tmp_path / "folder.toml").mkdir()
    for name in ("absent.toml", "folder.toml"):
        with pytest.raises(TaskError, match="cannot be read"):
            load_task(str(tmp_path / name))
