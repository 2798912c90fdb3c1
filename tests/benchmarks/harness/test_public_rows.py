"""No benchmark answers from rows that a ledger was opened for: its references have no noise."""

from __future__ import annotations

import ast
import gzip
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import sottovoce
from benchmarks.tiny_rows import UNSEEN, write_rows
from sottovoce.benchmarks.harness import datasets
from sottovoce.benchmarks.harness.datasets import DATASETS, OWN, SOURCES, Dataset, read_world
from sottovoce.benchmarks.harness.experiment import Piece
from sottovoce.benchmarks.harness.public_rows import PublicExamples, benchmark_rows, public_records
from sottovoce.benchmarks.prism import demonstrations, membership, structured, writing
from sottovoce.benchmarks.prism.extraction_texts import mail_targets
from sottovoce.benchmarks.prism.writing import rows_in
from sottovoce.benchmarks.studies import clustering
from sottovoce.benchmarks.studies.in_context import read_world as plain_world
from sottovoce.cli import run
from sottovoce.errors import InputError
from sottovoce.tasks import Example, load_task

LABELS = ("billing", "fraud")
NOTES = [{"text": f"note number {i} about somebody's money", "label": LABELS[i % 2]} for i in range(40)]
QUESTIONS = [{"text": f"public question number {i} of anybody", "label": LABELS[i % 2]} for i in range(40)]
READS_FILES = {"read_public", "read_private", "gzip", "csv"}


@pytest.fixture
def folder(tmp_path):
    """Private records with a ledger, public rows beside them, and the private ones as benchmark rows."""
    for name, rows in (("private", NOTES), ("queries", QUESTIONS)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    asked = ["ask", "hello", "--private", str(tmp_path / "private.jsonl"), "--labels", ",".join(LABELS)]
    assert run([*asked, "--model", "fake", "--epsilon", "0.5", "--ledger", str(tmp_path / "t.db")]) == 0
    return tmp_path


@pytest.mark.cases(2)
@pytest.mark.parametrize(("private", "queries"), [("private", "queries"), ("queries", "private"), ("queries",) * 2])
def test_classification_refuses_private_rows_in_either_part(folder, capsys, private, queries):
    (folder / "words.toml").write_text(f'name = "words"\nlabels = {json.dumps(LABELS)}\n', "utf-8")
    capsys.readouterr()
    files = ["--private", str(folder / f"{private}.jsonl"), "--queries", str(folder / f"{queries}.jsonl")]
    task = ["--task", str(folder / "words.toml"), "--model", "fake"]
    code = run(["bench", "run", "classification", *task, *files, "--records", "4", "--limit", "2", "--epsilon", "1"])
    told = capsys.readouterr()
    if "private" in (private, queries):
        assert (code, told.out) == (2, "")
        assert "private.jsonl: most of these rows are private records" in " ".join(told.err.split())
        assert "note number" not in told.err
    else:
        assert (code, "full-context" in told.out) == (0, True)


def jsonl(file, rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file


def classification(folder, private, records, *more):
    (folder / "words.toml").write_text(f'name = "words"\nlabels = {json.dumps(LABELS)}\n', "utf-8")
    files = ["--private", str(private), "--queries", str(folder / "queries.jsonl"), "--records", str(records)]
    task = ["--task", str(folder / "words.toml"), "--model", "fake", "--limit", "2", "--epsilon", "1"]
    return run(["bench", "run", "classification", *task, *files, *more])


@pytest.mark.parametrize(("known", "behind", "records"), [(19, 25, 19), (9, 0, 9), (9, 40, 9), (3, 40, 4)])
def test_rows_that_references_answer_from_are_those_that_are_checked(folder, capsys, known, behind, records):
    mixed = jsonl(folder / "mixed.jsonl", [*NOTES[:known], *QUESTIONS[:behind]])
    capsys.readouterr()
    code = classification(folder, mixed, records)
    told = capsys.readouterr()
    assert (code, told.out) == (2, "")
    assert "are private records, such as those of the data set" in " ".join(told.err.split())
    assert "note number" not in told.err


@pytest.mark.slow
def test_the_message_names_a_way_out_and_it_is_one(folder, capsys):
    few = jsonl(folder / "few.jsonl", NOTES[:9])
    capsys.readouterr()
    assert classification(folder, few, 9) == 2
    assert "--allow-non-private" in capsys.readouterr().err
    assert classification(folder, few, 9, "--allow-non-private") == 0
    assert "full-context" in capsys.readouterr().out


@pytest.mark.parametrize("behind", [0, 25])
def test_questions_that_are_asked_are_those_that_are_checked(folder, capsys, behind):
    mixed = jsonl(folder / "mixed.jsonl", [*NOTES[:19], *QUESTIONS[:behind]])
    capsys.readouterr()
    asked = ["classify", "--method", "zero-shot", "--labels", ",".join(LABELS), "--model", "fake"]
    assert run([*asked, "--queries", str(mixed), "--limit", "19"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "most of these rows are private records" in " ".join(told.err.split())


def test_the_first_benchmark_rows_are_checked_where_they_are_used(folder):
    file = folder / "train.jsonl.gz"
    with gzip.open(file, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(row) + "\n" for row in [*NOTES[:19], *QUESTIONS])
    assert len(benchmark_rows(file)) == 59
    for read in (benchmark_rows, public_records):
        with pytest.raises(InputError, match="most of these rows are private records"):
            read(file, 19)


def test_the_reserved_rows_that_play_private_ones_are_checked(folder, monkeypatch):
    for module in (writing, demonstrations, membership):
        monkeypatch.setattr(module, "RESERVED", 19)
    rows = [{**row, "label": row["text"]} for row in [*NOTES[:19], *QUESTIONS]]
    (folder / "notes").mkdir()
    for split, its in (("train", rows), ("test", rows[19:])):
        with gzip.open(folder / "notes" / f"{split}.jsonl.gz", "wt", encoding="utf-8") as out:
            out.writelines(json.dumps(row) + "\n" for row in its)
    task = replace(load_task("tickets"), labels=list(LABELS))
    examples = [Example({"text": row["text"]}, i % 2) for i, row in enumerate(rows)]
    world = Dataset("notes", task, PublicExamples(examples, rows, "notes"), PublicExamples(examples, rows, "notes"))
    bench = SimpleNamespace(world=lambda name: world, settings=SimpleNamespace(queries=2))
    for use in (
        lambda: writing.draw(folder, "notes", 0, 10, 5),
        lambda: demonstrations.held_of(bench, Piece("notes", "own", 0), 9),
        lambda: list(membership._drawn(world, 0, 1)),
    ):
        with pytest.raises(InputError, match="most of these rows are private records"):
            use()


PRIVATE = "most of these rows are private records"


def opened(tmp_path, rows, labels):
    """A ledger for some rows."""
    file = jsonl(tmp_path / "private.jsonl", rows)
    asked = ["ask", "hello", "--private", str(file), "--labels", ",".join(labels), "--model", "fake"]
    assert run([*asked, "--epsilon", "0.5", "--ledger", str(tmp_path / "t.db")]) == 0


def test_rows_are_known_by_what_stands_in_no_prompt(tmp_path, monkeypatch):
    # Records of one short word are known by word and label together.
    for module in (demonstrations, membership):
        monkeypatch.setattr(module, "RESERVED", 20)
    task = load_task("trec")
    short = [{"text": f"a{i:02}q", "label": task.labels[i % 6]} for i in range(99)]
    opened(tmp_path, [*short[:20], *short[50:]], task.labels)
    both(tmp_path, "trec", short[:50])
    world = read_world(tmp_path, "trec")
    bench = SimpleNamespace(world=lambda name: world, settings=SimpleNamespace(queries=2))
    for use in (
        lambda: demonstrations.held_of(bench, Piece("trec", OWN, 0), 20),
        lambda: list(membership._drawn(world, 0, 1)),
    ):
        with pytest.raises(InputError, match=PRIVATE):
            use()


MINE = [f"a private note of somebody, number {i}" for i in range(20)]
OTHERS = [f"a public line of anybody, number {i}" for i in range(30)]
"""Of all rows too few are private, of some parts all."""


def opened_for(tmp_path, texts):
    """A ledger for some texts and for more of them elsewhere: no file holds most of its records."""
    elsewhere = [f"a private note in another file, number {i}" for i in range(30)]
    opened(tmp_path, [{"text": text, "label": "ab"[i % 2]} for i, text in enumerate([*texts, *elsewhere])], "ab")


def both(data, folder, rows):
    for split in ("train", "test"):
        write_rows(data, folder, split, rows)


def in_front_of_fitted_rows(data):
    both(data, "subj", [{"text": text, "label": i % 2} for i, text in enumerate([*MINE, *OTHERS])])


def of_the_commonest_class(data):
    rows = [{"text": text, "label": 0} for text in MINE]
    both(data, "agnews", [*rows, *({"text": text, "label": 1 + i % 3} for i, text in enumerate(OTHERS))])


def of_unseen_characters(data):
    rows = [{"image_b64": text, "class": UNSEEN[i % 5]} for i, text in enumerate(MINE)]
    both(data, "omniglot", [*rows, *({"image_b64": text, "class": "Seen/character01"} for text in OTHERS)])


def of_rows_with_a_text(data):
    # Cut to 400 letters the texts are all one, which tells nothing.
    (first, field), *rest = SOURCES.values()
    both(data, first, [*({field: f"{'so ' * 200}{text}"} for text in MINE), *({"other": text} for text in OTHERS)])
    for folder, _ in rest:
        both(data, folder, [{"other": text} for text in OTHERS])


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("subj", in_front_of_fitted_rows),
        ("agnews-uneven", of_the_commonest_class),
        ("pseudonames", of_unseen_characters),
        ("sources", of_rows_with_a_text),
    ],
)
def test_the_part_of_a_file_that_makes_a_world_is_checked_by_itself(tmp_path, monkeypatch, name, write):
    monkeypatch.setitem(datasets.FITTED, "subj", 30)
    write(tmp_path)
    assert read_world(tmp_path, name).train
    read_world.cache_clear()
    opened_for(tmp_path, [f"{'so ' * 200}{text}" if name == "sources" else text for text in MINE])
    for file in tmp_path.glob("*/*.gz"):
        assert benchmark_rows(file)  # whole files hold enough others
    with pytest.raises(InputError, match=PRIVATE):
        read_world(tmp_path, name)


def mixed(labels=2):
    """Private and other rows in turn of label, private ones first; the whole of them passes."""
    rows = [{"text": text, "label": i % labels} for i, text in enumerate([*MINE, *OTHERS])]
    return PublicExamples([Example({"text": row["text"]}, row["label"]) for row in rows], rows, "mixed")


@pytest.fixture
def known(tmp_path):
    opened_for(tmp_path, MINE)


def test_every_part_of_examples_is_checked(known):
    whole = mixed()
    for part in (
        lambda: whole[:20],
        lambda: whole.taken(range(20)),
        lambda: mixed(labels=50).relabelled(dict.fromkeys(range(20), 0)),
        lambda: whole[20:30].joined(whole[:9]).joined(whole[9:16]),  # below ten each, sixteen together
        lambda: whole[::2].taken(range(10)),
    ):
        with pytest.raises(InputError, match=PRIVATE):
            part()
    assert len(whole[20:]) == 30
    assert len(PublicExamples(list(whole), [{"text": text} for text in [*MINE, *OTHERS]], "x", shipped=True)[:20]) == 20
    with pytest.raises(ValueError, match="the same ones"):
        PublicExamples(list(whole), [], "x")


@pytest.mark.parametrize("part", ["records", "questions"])
def test_the_records_and_the_questions_of_an_episode_are_checked(known, part):
    others = [{"text": text, "label": 0} for text in OTHERS]
    public = PublicExamples([Example({"text": row["text"]}, 0) for row in others], others, "others")
    task = replace(load_task("tickets"), labels=list(LABELS))
    seed = np.random.default_rng(1000)
    order = seed.permutation(50) if part == "questions" else (seed.permutation(30), seed.permutation(50))[1]
    rows = mixed().taken(np.argsort(order))  # the private ones are drawn first
    world = Dataset("notes", task, rows if part == "records" else public, rows if part == "questions" else public)
    with pytest.raises(InputError, match=PRIVATE):
        world.episode(0, 20, OWN, 20)
    assert len(world.episode(1, 20, OWN, 20).records) == 20


def test_mails_with_an_address_are_checked_by_themselves(tmp_path):
    mails = [{"text": f"{text} ida{i}@quarry.org", "emails": ["x"]} for i, text in enumerate(MINE)]
    both(tmp_path, "enron", [*mails, *({"text": text, "emails": []} for text in OTHERS)])
    opened_for(tmp_path, [mail["text"] for mail in mails])
    bench = SimpleNamespace(world=lambda name: read_world(tmp_path, name))
    with pytest.raises(InputError, match=PRIVATE):
        mail_targets(bench, Piece("enron", OWN, 0), 5, 2)


def test_rows_behind_the_reserved_ones_are_checked_by_themselves(tmp_path, monkeypatch):
    monkeypatch.setattr(structured, "RESERVED", 30)
    films = [{"title": text, "year": 1990, "genres": ["drama"], "cast": []} for text in [*OTHERS, *MINE]]
    both(tmp_path, "wikimovies", films)
    assert structured.public_films(tmp_path).years == (1990, 1990)
    structured.public_films.cache_clear()
    opened_for(tmp_path, MINE)
    with pytest.raises(InputError, match=PRIVATE):
        structured.public_films(tmp_path)


def test_questions_that_are_drawn_are_checked_by_themselves(tmp_path):
    opened_for(tmp_path, MINE)
    order = np.random.default_rng(1000).permutation(50)
    write_rows(tmp_path, "notes", "test", [{"text": [*MINE, *OTHERS][place]} for place in np.argsort(order)])
    write_rows(tmp_path, "notes", "train", [{"text": text} for text in OTHERS])
    with pytest.raises(InputError, match=PRIVATE):
        writing.draw(tmp_path, "notes", 0, 5, 20)
    assert len(writing.draw(tmp_path, "notes", 1, 5, 20).questions) == 20


def test_no_row_of_a_world_is_picked_without_its_part():
    # ``[world.train[i] for i in order]`` would be a part that nobody checks.
    for file in (Path(sottovoce.__file__).parent / "benchmarks").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
                picked = node.value.attr in ("train", "test") and not isinstance(node.slice, ast.Slice)
                assert not picked, f"{file.name}, line {node.lineno}: take a part"


def test_rows_that_are_drawn_are_checked_by_themselves(folder, monkeypatch):
    # Of 40 reserved rows 19 are private: too few of the part, and all of those that are kept.
    monkeypatch.setattr(writing, "RESERVED", 40)
    rows = [*NOTES[:19], *QUESTIONS]
    (folder / "notes").mkdir()
    for split, its in (("train", rows), ("test", QUESTIONS)):
        with gzip.open(folder / "notes" / f"{split}.jsonl.gz", "wt", encoding="utf-8") as out:
            out.writelines(json.dumps(row) + "\n" for row in its)
    with pytest.raises(InputError, match="most of these rows are private records"):
        writing.draw(folder, "notes", 0, 19, 5, keep=lambda row: row in NOTES)
    assert len(writing.draw(folder, "notes", 0, 10, 5, keep=lambda row: row in QUESTIONS).records) == 10


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"no gzip", 1),
        (gzip.compress(b'{"a": 1}\n{"a": 2}\n')[:-12], 2),
        (gzip.compress(b'{"a": 1}\n[1]\n'), 2),
        (gzip.compress(b'{"a": 1}\n{"a": \n'), 2),
        (gzip.compress(b"[" * 100_000 + b"]" * 100_000), 1),
        (gzip.compress(b'{"a": 1}\n\xff\n'), 1),
    ],
    ids=["no gzip", "cut", "a list", "no JSON", "deep", "no UTF-8"],
)
def test_benchmark_rows_that_are_none_are_named_by_file_and_line(tmp_path, content, line):
    file = tmp_path / "train.jsonl.gz"
    file.write_bytes(content)
    with pytest.raises(InputError, match=rf"train\.jsonl\.gz, line {line}"):
        benchmark_rows(file)


def test_benchmark_rows_that_are_somebodys_are_refused_by_every_reader(folder):
    for name in ("subj", "enron"):
        (folder / name).mkdir()
        for split in ("train", "test"):
            with gzip.open(folder / name / f"{split}.jsonl.gz", "wt", encoding="utf-8") as out:
                out.writelines(json.dumps(row) + "\n" for row in NOTES)
    assert {"subj", "enron"} <= set(DATASETS)
    for read in (
        lambda: read_world(folder, "subj"),
        lambda: read_world(folder, "enron"),
        lambda: plain_world(folder, "subj"),
        lambda: rows_in(folder, "subj", "train"),
        lambda: clustering.public_records(folder / "subj" / "train.jsonl.gz"),
    ):
        with pytest.raises(InputError, match="most of these rows are private records"):
            read()


def test_the_advice_of_a_plan_refuses_private_rows_as_questions(folder, capsys):
    capsys.readouterr()
    asked = ["plan", "--queries", str(folder / "private.jsonl"), "--labels", "billing,fraud", "--model", "fake"]
    code = run([*asked, "--questions", "5", "--records", "40"])
    assert code == 2
    assert "most of these rows are private records" in " ".join(capsys.readouterr().err.split())


def test_benchmarks_and_audits_read_rows_through_the_one_door_alone():
    package = Path(sottovoce.__file__).parent
    found = {}
    for file in [*(package / "benchmarks").rglob("*.py"), *(package / "audits").rglob("*.py")]:
        tree = ast.parse(file.read_text("utf-8"))
        names = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        if used := names & READS_FILES:
            found[file.name] = used
    assert found == {
        "public_rows.py": {"gzip", "read_public"},
        "classification.py": {"read_public"},  # with the owner's consent
        "clustering.py": {"read_public"},  # rows that ship with the package
        "fit_size.py": {"read_private"},  # rows that it makes up
    }
