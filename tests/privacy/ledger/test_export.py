"""What an auditor gets, and what an auditor works out from it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from dataclasses import replace

import pytest

from sottovoce.errors import InputError, ParameterError
from sottovoce.privacy.accounting.accountant import accumulate
from sottovoce.privacy.events import BoundedRange, GaussianDpEvent, PureDP, WithFailure, ZCDpEvent
from sottovoce.privacy.ledger import export as ledger_export
from sottovoce.privacy.ledger.budget import SCALE, Budget, amount_of
from sottovoce.privacy.ledger.export import export, open_history, read_export, write_export
from sottovoce.privacy.ledger.filter import Cost
from sottovoce.privacy.ledger.history import History, hash_of
from sottovoce.privacy.ledger.ledger import Identity, Ledger, Reservation
from sottovoce.privacy.ledger.recompute import ACCOUNTANTS, FIXED_PLAN, Recomputed, recompute
from sottovoce.privacy.ledger.secret import RECORDS, keyed
from sottovoce.privacy.unit import Adjacency

WHO = Identity("ab" * 32, Adjacency.REPLACE_ONE, "record")
APRIL = Identity("cd" * 32, Adjacency.ADD_REMOVE, "patient")


@pytest.fixture
def ledger(address):
    book = Ledger(address)
    account = book.open(WHO, Budget(8, 1e-5, 1e-8))
    account.reserve([Reservation(f"r{i}", BoundedRange(0.1), "poe") for i in range(40)])
    account.reserve([Reservation("failing", WithFailure(PureDP(0.1), 1e-9), "")])
    account.mark_released([f"r{i}" for i in range(10)])
    book.allot(WHO, budget=Budget(1, 1e-5), group="support")
    book.allot(WHO, budget=Budget(1, 1e-5), caller="alice", group="support")
    book.open(WHO, None, caller="alice").reserve([Reservation("of-alice", BoundedRange(0.1), "poe")])
    book.grant(Identity("ef" * 32, WHO.adjacency, WHO.unit), None, continues="data")
    book.grant(APRIL, Budget(2.0), name="april").reserve([Reservation("april", PureDP(0.5), "")])
    return book


def exported(ledger, tmp_path):
    out = tmp_path / "history.jsonl"
    assert export(ledger, str(out)) == ledger.count()
    return out


def again(where, accountant="zcdp"):
    with open_history(str(where)) as history:
        return recompute(history, accountant)


def test_an_export_is_the_whole_history_and_no_fingerprint(ledger, tmp_path):
    out = exported(ledger, tmp_path)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    told = ("seq", "data_set", "kind", "release_id", "amount", "at", "previous", "hash")
    assert [[line[name] for name in told] for line in lines[1:]] == [
        [entry[name] for name in told] for entry in ledger.history()
    ]
    assert lines[0]["meta"]["head"].split() == [str(lines[-1]["seq"]), lines[-1]["hash"]]
    for who in (WHO, APRIL):
        assert who.fingerprint not in out.read_text()
    assert "ef" * 32 not in out.read_text()
    assert [line["detail"] for line in lines[1:]] == [entry["detail"] for entry in ledger.history()], (
        "nothing is left out"
    )
    assert list(tmp_path.glob("*.partial")) == []


def texts_of(value):
    """Every text in a value, whole and in pieces, also in the JSON that texts hold."""
    if isinstance(value, str):
        yield from (value, *value.replace('"', " ").replace(",", " ").split())
        value = json.loads(value) if value.startswith(("{", "[")) else None
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts_of(part)


def test_no_column_of_an_export_is_a_secret_or_follows_from_the_records_without_the_key(ledger, tmp_path):
    out = exported(ledger, tmp_path)
    with ledger.rows() as kept:
        secrets = {row["value"] for row in kept.secrets}
        fingerprints = {row["fingerprint"] for row in kept.fingerprints}
        head = kept.meta["head"]
    assert (len(secrets), len(fingerprints)) == (2, 3)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    said = {text for line in lines for text in texts_of(line)}
    assert head in said, "every text is looked at"
    for secret in secrets | fingerprints:
        for one in (
            secret,
            hashlib.sha256(secret.encode()).hexdigest(),
            hashlib.sha256(bytes.fromhex(secret)).hexdigest(),
        ):
            assert one not in said
    for line in lines[1:]:  # the attack that once worked: put the guess back into the entry, and compare its hash
        for guess in fingerprints:
            for name in ("fingerprint", "records"):
                detail = json.dumps({**json.loads(line["detail"]), name: guess}, sort_keys=True)
                assert hash_of({**line, "detail": detail}) != line["hash"]
    for guess in fingerprints:
        for key in said:  # any key that is in the export
            assert keyed(key, RECORDS, guess) not in said


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_a_third_party_finds_what_the_ledger_says(ledger, tmp_path, accountant):
    data_sets, problems, entries = again(exported(ledger, tmp_path), accountant)
    assert (problems, entries) == ([], ledger.count())
    data, april = data_sets
    expected = 41 * amount_of(BoundedRange(0.1), "rho") + amount_of(PureDP(0.1), "rho")
    assert (data.spent.loss, data.spent.failure, data.answers) == (expected, 10**9, 42)
    assert (april.spent.loss, april.answers) == (SCALE // 2, 1)
    assert data.agrees
    assert april.agrees
    told = data.as_dict()
    assert told["epsilon_is"] == FIXED_PLAN
    assert (told["adjacency"], told["unit"], told["spent"]["ledger"]) == ("replace-one", "record", expected / SCALE)


def test_figures_are_those_of_the_specification(tmp_path):
    # Specification 3, the table under T18: eta .1, 100 steps, delta 1e-5.
    account = Ledger(str(tmp_path / "t.db")).open(WHO, Budget(20, 1e-5))
    account.reserve([Reservation(f"r{i}", BoundedRange(0.1), "") for i in range(100)])
    found = {name: again(tmp_path / "t.db", name)[0][0].epsilon for name in ACCOUNTANTS}
    assert found["pure"] == pytest.approx(10)
    assert found["zcdp"] == pytest.approx(2.166, abs=1e-3)
    assert found["rdp"] == pytest.approx(2.152, abs=1e-3)
    # Between the exact worst case (T6) and the dominating pair's rounding up.
    assert 2.0 < found["pld"] <= found["rdp"] * 1.1


def test_mixed_events_are_added_as_an_accountant_adds_them(tmp_path):
    account = Ledger(str(tmp_path / "t.db")).open(WHO, Budget(20, 1e-5))
    events = [BoundedRange(0.2)] * 3 + [GaussianDpEvent(8.0)] * 2 + [ZCDpEvent(0.01), PureDP(0.1)]
    account.reserve([Reservation(f"r{i}", event, f"note {i}") for i, event in enumerate(events)])
    report = accumulate(events, WHO.adjacency).report(1e-5, ["RDP"])
    assert again(tmp_path / "t.db", "rdp")[0][0].epsilon == pytest.approx(report.epsilon)
    (one,) = again(tmp_path / "t.db", "pure")[0]
    assert one.epsilon is None
    assert "not bounded by pure" in one.as_dict()["epsilon_is"]
    assert one.agrees


def test_a_ledger_without_answers_costs_nothing(address):
    ledger = Ledger(address)
    for accountant in ACCOUNTANTS:
        with ledger.rows() as history:
            assert recompute(history, accountant) == ([], [], 0)
    ledger.open(WHO, Budget(1, 1e-6))
    for accountant in ACCOUNTANTS:
        with ledger.rows() as history:
            (one,), problems, entries = recompute(history, accountant)
        assert (one.epsilon, one.spent.loss, problems, entries) == (0.0, 0, [], 1)


def _entry(line, **values):
    return lambda lines: [{**one, **values} if i == line else one for i, one in enumerate(lines)]


def _head(lines):
    """Cuts off the newest entry and forges head and answers, but not what was spent."""
    kept = lines[:-1]
    meta = {**lines[0]["meta"], "head": f"{kept[-1]['seq']} {kept[-1]['hash']}"}
    return [{**lines[0], "meta": meta}, *kept[1:]]


@pytest.mark.cases(9)
@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines[:-1],
        lambda lines: [*lines[:3], *lines[4:]],
        lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
        _head,
        _entry(2, amount=1),
        _entry(2, detail='{"event": {"event": "BoundedRange", "eta": 0.01}, "note": "poe"}'),
        _entry(2, detail='{"event": {"event": "Nothing"}, "note": "poe"}'),
        _entry(2, detail="not JSON"),
        _entry(2, redacted=True, amount=1),
        _entry(1, amount=1),
        lambda lines: _entry(1, redacted=True, detail=lines[1]["detail"].replace('"records": "', '"records": "0'))(
            lines
        ),
        _entry(1, detail='{"epsilon": "80.0", "cap": 1}'),
        lambda lines: [{**lines[0], "data_sets": lines[0]["data_sets"][:1]}, *lines[1:]],
        lambda lines: [{**lines[0], "caps": []}, *lines[1:]],
        lambda lines: [{**lines[0], "meta": {}}, *lines[1:]],
        lambda lines: [
            {**lines[0], "data_sets": [{**row, "spent": row["spent"] - 1} for row in lines[0]["data_sets"]]},
            *lines[1:],
        ],
        lambda lines: [
            {**lines[0], "data_sets": [{**row, "spent": row["spent"] * 2} for row in lines[0]["data_sets"]]},
            *lines[1:],
        ],
    ],
)
def test_an_export_that_was_changed_does_not_agree(tmp_path, change):
    ledger = Ledger(":memory:")
    account = ledger.open(WHO, Budget(8, 1e-5))
    account.reserve([Reservation(f"r{i}", BoundedRange(0.1), "poe") for i in range(5)])
    ledger.allot(WHO, budget=Budget(1, 1e-5), caller="alice")
    ledger.grant(APRIL, Budget(2.0), name="april").reserve([Reservation("april", PureDP(0.5), "")])
    out = exported(ledger, tmp_path)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert agrees(again(out))
    out.write_text("".join(json.dumps(line) + "\n" for line in change(lines)))
    assert not agrees(again(out))


def test_behind_a_broken_entry_the_events_are_still_summed(tmp_path):
    ledger = Ledger(":memory:")
    account = ledger.open(WHO, Budget(8, 1e-5))
    account.reserve([Reservation(f"r{i}", BoundedRange(0.1), "poe") for i in range(5)])
    with ledger.rows() as history:
        entries = [{**entry, "hash": "0" * 64} for entry in history.entries]
        (one,), problems, count = recompute(replace(history, entries=iter(entries)), "zcdp")
    assert problems == ["entry 1 was changed, or one before it is missing"]
    assert (count, one.answers, one.spent.loss) == (6, 5, 5 * amount_of(BoundedRange(0.1), "rho"))


@pytest.mark.parametrize(
    ("said", "failure", "agreed"),
    [(1000, 7, True), (1003, 7, True), (999, 7, False), (1004, 7, False), (1000, 6, False), (1000, 8, False)],
)
def test_a_ledger_may_say_no_less_and_no_more_than_rounding_explains(said, failure, agreed):
    row = {"spent": said, "failure_spent": failure}
    assert Recomputed(row, Cost(1000, 7), 3, 0, None, None).agrees is agreed
    assert not Recomputed(row, Cost(1000, 7), 3, 1, None, None).agrees


def agrees(found):
    data_sets, problems, _ = found
    return not problems and all(one.agrees for one in data_sets)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "line 1: this is not valid JSON"),
        ("{}", "line 1: this is no ledger's export"),
        ("[]", "line 1: a JSON object"),
        ('{"sottovoce_ledger": 1}', "line 1: meta, data_sets and caps"),
        ('{"sottovoce_ledger": 1, "meta": {}, "data_sets": [{}], "caps": []}', "line 1: meta, data_sets and caps"),
        ('{"sottovoce_ledger": 1, "meta": {}, "data_sets": [], "caps": []}\n{"seq": 1}', "line 2: the entry lacks"),
        ('{"sottovoce_ledger": 1, "meta": {}, "data_sets": [], "caps": []}\n\x00', "line 2: this is not valid JSON"),
        ("[" * 100_000, "line 1: this is not valid JSON"),
    ],
)
def test_what_is_no_export_is_named_by_its_line(tmp_path, content, problem):
    (tmp_path / "x.jsonl").write_text(content)
    with pytest.raises(InputError, match=problem):
        again(tmp_path / "x.jsonl")


@pytest.mark.parametrize("start", ["", '{"sottovoce_ledger": 1, "meta": {}, "data_sets": [], "caps": []}\n'])
def test_a_line_without_end_is_not_read_whole(start, monkeypatch):
    monkeypatch.setattr(ledger_export, "LONGEST_LINE", 1000)

    class Endless(io.StringIO):
        given = 0

        def readline(self, size=-1):
            assert size > 0, "the whole line is asked for"
            self.given += size
            return super().readline(size) or "\0" * size

    stream = Endless(start)
    with pytest.raises(InputError, match=f"x, line {1 + bool(start)}: the line has more than 1000 characters"):
        list(read_export(stream, "x").entries)
    assert stream.given <= 2 * 1001


def test_what_cannot_be_read_or_written_is_named(tmp_path):
    for name in ("absent.jsonl", "."):
        with pytest.raises(InputError, match="cannot be read"):
            again(tmp_path / name)
    with pytest.raises(InputError, match="cannot be written"):
        export(Ledger(":memory:"), str(tmp_path / "no" / "folder.jsonl"))
    with pytest.raises(ParameterError, match="zcdp, rdp, pure, pld"):
        again(_empty(tmp_path), "moments")


@pytest.mark.parametrize("out", ["l.db", "./l.db", "l.db-wal", "link.db"])
def test_an_export_never_takes_the_place_of_its_ledger(tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    account = Ledger("l.db").open(WHO, Budget(8, 1e-5))
    account.reserve([Reservation("r", BoundedRange(0.1), "poe")])
    (tmp_path / "link.db").symlink_to("l.db")
    with pytest.raises(InputError, match="forget what was spent"):
        export(Ledger.of(account), out)
    assert Ledger("l.db").balances()[0].answers == 1


def test_a_ledger_named_as_the_half_written_export_is_not_written_over(tmp_path):
    # What is half-written has a name that nothing has.
    for name in ("x.partial", f"x.{os.getpid()}-0.part"):
        Ledger(str(tmp_path / name)).grant(WHO, Budget(8, 1e-5))
        assert export(Ledger(str(tmp_path / name)), str(tmp_path / "x")) == 1
        assert (tmp_path / name).read_bytes().startswith(b"SQLite")
        (tmp_path / "x").unlink()


def test_nothing_that_is_there_is_overwritten(tmp_path):
    book = Ledger(str(tmp_path / "l.db"))
    book.open(WHO, Budget(8, 1e-5))
    (tmp_path / "x").write_text("private records")
    with pytest.raises(InputError, match="exists already"):
        export(book, str(tmp_path / "x"))
    assert (tmp_path / "x").read_text() == "private records"
    assert not list(tmp_path.glob("x.*"))


@pytest.mark.parametrize(
    "event",
    [
        {"event": "SelfComposedDpEvent", "inner": {"event": "BoundedRange", "eta": 1.0}, "count": 10**400},
        {"event": "SelfComposedDpEvent", "inner": {"event": "NoOpDpEvent"}, "count": 10**400},
        {"event": "SelfComposedDpEvent", "inner": {"event": "BoundedRange", "eta": 1.0}, "count": 10**18},
    ],
)
def test_counts_beyond_every_float_in_an_export_disagree_in_words(tmp_path, event):
    account = Ledger(":memory:").open(WHO, Budget(8, 1e-5))
    account.reserve([Reservation("r", BoundedRange(0.1), "poe")])
    out = exported(Ledger.of(account), tmp_path)
    header, opening, charge = (json.loads(line) for line in out.read_text().splitlines())
    charge["detail"] = json.dumps({"event": event, "note": ""})
    out.write_text("".join(json.dumps(line) + "\n" for line in (header, opening, charge)))
    found = again(out)
    assert not agrees(found)
    assert [one.as_dict()["agrees"] for one in found[0]] == [False]


def test_a_balance_that_no_column_can_hold_is_no_export(tmp_path):
    out = exported(Ledger.of(Ledger(":memory:").open(WHO, Budget(8, 1e-5))), tmp_path)
    header, opening = (json.loads(line) for line in out.read_text().splitlines())
    header["data_sets"][0]["spent"] = 10**400
    out.write_text(json.dumps(header) + "\n" + json.dumps(opening) + "\n")
    with pytest.raises(InputError, match="not as an export has them"):
        again(out)


def _empty(tmp_path):
    path = tmp_path / "empty.db"
    Ledger(str(path)).close()
    return path


def long_history(pairs):
    """A history of so many answers, charged and released, as a ledger would have written it."""
    ledger = Ledger(":memory:")
    account = ledger.open(WHO, Budget(1000, 1e-6))
    account.reserve([Reservation("first", BoundedRange(0.02), "poe, embedded, change swap")])
    account.mark_released(["first"])
    with ledger.rows() as kept:
        entries = [dict(entry) for entry in kept.entries]
    reserved, released = entries[1:3]
    previous = released["hash"]
    for i in range(pairs - 1):
        for entry in (reserved, released):
            linked = {**entry, "seq": len(entries) + 1, "release_id": f"{i:032x}", "previous": previous}
            linked["hash"] = previous = hash_of(linked)
            entries.append(linked)
    row = {**kept.data_sets[0], "spent": pairs * reserved["amount"], "answers": pairs}
    return History(entries, [row], [], None, {**kept.meta, "head": f"{len(entries)} {previous}"})


def test_a_long_history_is_priced_once_for_each_event_that_differs(tmp_path):
    stream = io.StringIO()
    history = long_history(2_000)
    write_export(history, stream)
    stream.seek(0)
    (one,), problems, entries = recompute(read_export(stream, "x"), "rdp")
    assert (problems, entries, one.answers, one.agrees) == ([], 4_001, 2_000, True)
    assert one.spent.loss == 2_000 * amount_of(BoundedRange(0.02), "rho")


@pytest.mark.slow
def test_a_million_entries_are_verified_and_summed_in_ten_seconds(tmp_path):
    path = tmp_path / "long.jsonl"
    with path.open("w") as stream:
        write_export(long_history(500_000), stream)
    started = time.process_time()
    found = again(path, "rdp")
    assert time.process_time() - started < 10
    assert (agrees(found), found[2]) == (True, 1_000_001)
