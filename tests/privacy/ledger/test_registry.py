"""Which ledger a data set has: found again, never silently replaced."""

from __future__ import annotations

import errno
import os
import signal
import stat
import sys
import threading

import pytest

from sottovoce import store
from sottovoce.errors import LedgerMismatchError, LedgerUnavailableError, ParameterError
from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.ledger import known_records
from sottovoce.privacy.ledger import ledger as ledgers
from sottovoce.privacy.ledger import registry as ledger_registry
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Identity, Ledger, Reservation
from sottovoce.privacy.ledger.opening import is_new, open_account
from sottovoce.privacy.ledger.registry import default_path
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.store import LEDGERS, alone, home, private_folder, private_name, write_anew, write_once

WHO = Identity("ab" * 32, Adjacency.REPLACE_ONE, "record")


def test_a_named_ledger_is_found_again_without_its_name(tmp_path):
    path = str(tmp_path / "tickets.db")
    Ledger(path).open(WHO, Budget(1.0)).reserve([Reservation("r", BoundedRange(0.5), "")])
    assert default_path(WHO.fingerprint) == path
    assert Ledger(default_path(WHO.fingerprint)).open(WHO, None).balance().spent == 0.5


def test_a_ledger_that_is_gone_is_missed_and_not_replaced(tmp_path):
    path = tmp_path / "tickets.db"
    ledger = Ledger(str(path))
    ledger.open(WHO, Budget(1.0))
    ledger._database._engine.dispose()  # as if the process had ended
    moved = tmp_path / "moved.db"
    path.rename(moved)
    with pytest.raises(LedgerUnavailableError, match="gone"):
        default_path(WHO.fingerprint)
    assert Ledger(str(moved)).open(WHO, None).conflicting_ledger is None
    assert default_path(WHO.fingerprint) == str(moved)


def test_a_second_ledger_is_told_of_the_first(tmp_path):
    first, second = str(tmp_path / "one.db"), str(tmp_path / "two.db")
    Ledger(first).open(WHO, Budget(1.0))
    assert Ledger(second).grant(WHO, Budget(1.0)).conflicting_ledger == first  # the owner's decision: open() refuses it
    assert default_path(WHO.fingerprint) == first


def test_a_server_whose_first_opening_was_stopped_is_not_only_called_emptied(tmp_path):
    server = "postgresql://host/db"
    ledger_registry.note_first(WHO, server, "data")  # and its program is stopped before the account is committed
    granted = Ledger(str(tmp_path / "t.db")).grant(WHO, Budget(1.0))
    assert granted.conflicting_ledger == server  # it cannot be asked, and counts
    with pytest.raises(LedgerUnavailableError, match=r"emptied or replaced, or the program that opened .* was stopped"):
        ledger_registry.refuse_second(WHO, server)


def test_other_addresses_of_one_database_are_the_same_ledger():
    ann, bob, copy = (f"postgresql://{where}/db" for where in ("ann@host", "bob@host", "ann@another"))
    for address in (ann, bob, ann):
        assert ledger_registry.remember(WHO, address, "data", "7 1 16384") is None
        assert default_path(WHO.fingerprint) == address
    for other, database in ((copy, "7 1 16385"), (copy, "7 2 16384"), (copy, None), (bob, None)):
        assert ledger_registry.remember(WHO, other, "data", database) == ann


def test_an_address_that_was_noted_without_its_database_is_compared_as_it_is_written():
    ann, bob = (f"postgresql://{name}@host/db" for name in ("ann", "bob"))
    for _ in range(2):
        assert ledger_registry.remember(WHO, ann, "data") is None  # as of earlier versions, or a server that is silent
        assert ledger_registry.remember(WHO, bob, "data", "7 1 16384") == ann
        assert ledger_registry.remember(WHO, ann, "data", "7 1 16384") is None
        assert ledger_registry.remember(WHO, bob, "data", "7 1 16384") is None
        assert ledger_registry.remember(WHO, ann, "data", "7 1 16384") is None


def test_a_link_to_the_ledger_is_the_same_ledger(tmp_path):
    first, link = tmp_path / "one.db", tmp_path / "link.db"
    Ledger(str(first)).open(WHO, Budget(1.0))
    link.symlink_to(first)
    assert Ledger(str(link)).open(WHO, None).conflicting_ledger is None


@pytest.mark.parametrize("written", ["one.db/", "one.db/.", "./nowhere/../one.db"])
def test_the_name_of_a_ledger_may_be_written_in_any_way_each_time(tmp_path, monkeypatch, written):
    monkeypatch.chdir(tmp_path)
    rows = PrivateRecords([Row(i, {"text": f"{written} {i}", "label": "a"}) for i in range(4)], source="notes")
    assert is_new(written)
    for budget in (Budget(1.0), None):
        open_account(rows, Adjacency.REPLACE_ONE, budget, written, None)
        assert not is_new(written)


def test_names_in_the_store_are_keyed_and_folders_closed(monkeypatch, tmp_path):
    here = private_name(WHO.fingerprint)
    assert here not in WHO.fingerprint
    assert private_folder("ledgers").stat().st_mode & 0o077 == 0
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "another"))
    assert private_name(WHO.fingerprint) != here
    assert (home() / "names.key").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize("place", ["store", "./store", "~nobody-of-this-name/store"])
def test_a_store_that_follows_the_working_folder_is_refused(monkeypatch, tmp_path, chosen, place):
    monkeypatch.setattr(store.platformdirs, "user_data_dir", lambda *_, **__: place)  # as of a relative XDG_DATA_HOME
    monkeypatch.setenv("SOTTOVOCE_HOME", place if chosen else "")
    monkeypatch.chdir(tmp_path)
    for ledger in ("t.db", ":memory:"):
        with pytest.raises(ParameterError, match=f"is '{place}'.*absolute path.*Set SOTTOVOCE_HOME"):
            Ledger(ledger).open(WHO, Budget(1.0))
    with pytest.raises(ParameterError, match="absolute path"):
        default_path(WHO.fingerprint)
    assert not (tmp_path / place).exists()


def test_a_store_at_home_is_one_whichever_the_working_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("SOTTOVOCE_HOME", "~/store")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        assert home() == tmp_path / "store"


def test_a_damaged_key_is_refused_and_a_ledger_that_knows_the_records_still_works(tmp_path):
    path = str(tmp_path / "t.db")
    Ledger(path).open(WHO, Budget(1.0))
    (home() / "names.key").write_bytes(b"")
    with pytest.raises(LedgerUnavailableError, match=r"names\.key"):
        default_path(WHO.fingerprint)
    with pytest.raises(LedgerUnavailableError, match=r"names\.key"):  # a first budget that nobody would remember
        Ledger(str(tmp_path / "new.db")).open(WHO, Budget(1.0))


def _full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("part", ["_write", "write_once", "keep"])
@pytest.mark.parametrize("door", ["open", "grant"])
def test_a_first_budget_that_cannot_be_remembered_is_not_opened(tmp_path, monkeypatch, part, door):
    path = str(tmp_path / "t.db")
    private_name(WHO.fingerprint)  # the store is in use
    with monkeypatch.context() as patched:
        patched.setattr(ledger_registry, part, _full)
        for _ in range(2):
            with pytest.raises(LedgerUnavailableError, match="No space left"):
                getattr(Ledger(path), door)(WHO, Budget(1.0))
            assert Ledger(path).balances() == []
    assert Ledger(path).open(WHO, Budget(1.0)).balance().left == 1


def test_a_store_that_is_closed_to_writing_is_refused_before_a_file_is_made(monkeypatch):
    private_name(WHO.fingerprint)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(LedgerUnavailableError, match="cannot be written"):
        ledger_registry.refuse_second(WHO, "t.db")


def _noted_then_killed(*arguments, **options):
    ledger_registry.note_first(*arguments, **options)
    _full()


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("left", ["file", "nothing"])
def test_a_crash_while_a_first_budget_is_opened_forgets_nothing_and_blocks_nobody(
    tmp_path, monkeypatch, committed, left
):
    path, other = str(tmp_path / "one.db"), str(tmp_path / "two.db")
    with monkeypatch.context() as patched:
        if committed:
            patched.setattr(ledgers, "remember", _full)
        else:
            patched.setattr(ledgers, "note_first", _noted_then_killed)
        with pytest.raises((OSError, LedgerUnavailableError)):
            Ledger(path).open(WHO, Budget(1.0))
    if left == "nothing" and not committed:
        os.unlink(path)
    for elsewhere in (other, ":memory:"):
        with pytest.raises(LedgerMismatchError, match=f"began to be opened in {path}.*Leave --ledger out"):
            Ledger(elsewhere).open(WHO, Budget(1.0))
    assert default_path(WHO.fingerprint) == path
    account = Ledger(path).open(WHO, Budget(1.0))
    account.reserve([Reservation("r", BoundedRange(0.5), "")])
    assert Ledger(path).open(WHO, None).balance().left == 0.5
    assert not list((home() / "ledgers").glob("*.opening"))
    # From now on an emptied ledger is missed again.
    account.database.close()
    os.unlink(path)
    with pytest.raises(LedgerUnavailableError, match="gone or empty"):
        default_path(WHO.fingerprint)


def test_the_owner_may_open_the_budget_elsewhere_after_a_crash(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(ledgers, "note_first", _noted_then_killed)
        with pytest.raises(OSError, match="No space"):
            Ledger(str(tmp_path / "one.db")).open(WHO, Budget(1.0))
    other = str(tmp_path / "two.db")
    assert Ledger(other).grant(WHO, Budget(1.0)).conflicting_ledger is None
    assert default_path(WHO.fingerprint) == other
    with pytest.raises(LedgerMismatchError, match="already"):
        Ledger(str(tmp_path / "one.db")).open(WHO, Budget(1.0))


def test_of_two_programs_that_open_a_first_budget_at_once_one_is_refused(tmp_path):
    # Both were told that there is none yet.
    ledger_registry.note_first(WHO, str(tmp_path / "one.db"), "data")
    with pytest.raises(LedgerMismatchError, match="began to be opened"):
        ledger_registry.note_first(WHO, str(tmp_path / "two.db"), "data")
    ledger_registry.note_first(WHO, str(tmp_path / "one.db"), "data")


def test_an_owner_may_open_a_second_budget_and_the_first_ledger_stays_noted(tmp_path):
    one, two = str(tmp_path / "one.db"), str(tmp_path / "two.db")
    Ledger(one).open(WHO, Budget(1.0))
    assert Ledger(two).grant(WHO, Budget(1.0)).conflicting_ledger == one
    assert ledger_registry.default_path(WHO.fingerprint) == one


def test_an_account_is_not_used_while_the_store_cannot_note_that_it_stands(tmp_path, monkeypatch):
    path = str(tmp_path / "t.db")
    with monkeypatch.context() as patched:
        patched.setattr(ledgers, "remember", _full)
        with pytest.raises(OSError, match="No space"):
            Ledger(path).open(WHO, Budget(1.0))
    with monkeypatch.context() as patched:
        patched.setattr(ledger_registry, "_write", _full)
        with pytest.raises(LedgerUnavailableError, match="No space left"):
            Ledger(path).open(WHO, None)
    account = Ledger(path).open(WHO, None)
    monkeypatch.setattr(ledger_registry, "_write", _full)
    assert Ledger(path).open(WHO, None).balance() == account.balance()  # once it stands, the note is a convenience


# The store's files and the ledger's commit: any order of crashes, threads and programs


def identity_of(values):
    records = PrivateRecords([Row(line, row) for line, row in enumerate(values, 1)], source="t.jsonl")
    return Identity.of(records, Adjacency.REPLACE_ONE)


TICKETS = [{"text": f"a private text of customer {i} with debts"} for i in range(30)]
EDITED = [{**row, "label": "x"} for row in TICKETS]
NEWER = [{"text": f"a new text of customer {i} as of February"} for i in range(30)]


def in_child(act):
    """What came of it in a forked process: opened, refused, or killed."""
    child = os.fork()
    if child == 0:
        try:
            act()
        except (LedgerMismatchError, LedgerUnavailableError):
            os._exit(3)
        except BaseException:
            os._exit(9)
        os._exit(0)
    return child


def outcome(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.cases(1)
@pytest.mark.parametrize("second", [TICKETS, EDITED], ids=["same", "edited"])
def test_of_two_programs_that_open_the_same_records_at_once_one_gets_a_budget(tmp_path, monkeypatch, second):
    # Both have asked whether the records are known before either writes, or one of them waits for its turn to ask.
    ask, lock, here = ledgers.refuse_second, store.fcntl.flock, os.getpid()
    (wait, go), (told, tell) = os.pipe(), os.pipe()

    def asked(*arguments):
        ask(*arguments)
        os.write(tell, b"x")
        os.read(wait, 1)

    def locked(*arguments):
        try:
            return lock(*arguments)
        except BlockingIOError:
            os.write(tell, b"x")
            raise

    first, other = identity_of(TICKETS), identity_of(second)
    private_name(first.fingerprint)
    monkeypatch.setattr(ledgers, "refuse_second", asked)
    monkeypatch.setattr(store.fcntl, "flock", locked)
    children = [
        in_child(lambda who=who, name=name: Ledger(str(tmp_path / name)).open(who, Budget(1.0)))
        for who, name in ((first, "one.db"), (other, "two.db"))
    ]
    assert os.getpid() == here
    for _ in children:
        os.read(told, 1)
    os.write(go, b"xx")
    assert sorted(map(outcome, children)) == [0, 3]
    for end in (wait, go, told, tell):
        os.close(end)


def test_the_turn_is_given_back_by_a_crash_and_taken_by_one_thread_at_a_time():
    def die():
        with alone():
            os.kill(os.getpid(), signal.SIGKILL)

    assert outcome(in_child(die)) == -signal.SIGKILL
    inside, most = [], []

    def take():
        for _ in range(20):
            with alone():
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(most), max(most)) == (80, 1)


def test_a_child_that_was_forked_meanwhile_does_not_keep_the_turn(monkeypatch):
    (wait, go) = os.pipe()
    with alone():
        child = in_child(lambda: os.read(wait, 1))
    monkeypatch.setattr(store, "TURN_TIMEOUT_S", 0.2)
    try:
        with alone():
            pass
    finally:
        os.write(go, b"x")
    assert outcome(child) == 0


def test_who_waits_for_the_turn_in_vain_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "TURN_TIMEOUT_S", 0.1)
    with alone(), pytest.raises(LedgerUnavailableError, match=r"turn\.lock locked for 0\.1 s"):
        Ledger(str(tmp_path / "one.db")).open(WHO, Budget(1.0))
    assert Ledger(str(tmp_path / "one.db")).open(WHO, Budget(1.0)).balance().left == 1


def _unsupported(*_):
    raise OSError(errno.ENOTSUP, "Operation not supported")


@pytest.mark.parametrize(
    ("of", "name", "what"), [(store.fcntl, "flock", "cannot be locked"), (os, "fsync", "cannot be put on the disk")]
)
def test_a_store_that_cannot_be_locked_or_synchronised_says_so(tmp_path, monkeypatch, of, name, what):
    private_name(WHO.fingerprint)
    put = getattr(of, name)

    def refusing(descriptor, *operation):
        kind = os.fstat(descriptor if isinstance(descriptor, int) else descriptor.fileno()).st_mode
        return put(descriptor, *operation) if name == "fsync" and not stat.S_ISDIR(kind) else _unsupported()

    monkeypatch.setattr(of, name, refusing)
    with pytest.raises(LedgerUnavailableError, match=f"{what}: Operation not supported.*SOTTOVOCE_HOME"):
        Ledger(str(tmp_path / "one.db")).open(WHO, Budget(1.0))
    assert Ledger(str(tmp_path / "one.db")).balances() == []


def test_a_stop_behind_the_commit_leaves_the_first_ledger_known(tmp_path, monkeypatch):
    one, two = str(tmp_path / "one.db"), str(tmp_path / "two.db")
    with monkeypatch.context() as patched:
        patched.setattr(ledgers, "remember", _full)
        with pytest.raises(OSError, match="No space"):
            Ledger(one).open(WHO, Budget(3.0))
    assert Ledger(two).grant(WHO, Budget(5.0)).conflicting_ledger == one
    assert default_path(WHO.fingerprint) == one
    assert not list((home() / LEDGERS).glob("*.opening")), "it stands"
    assert Ledger(two).open(WHO, None).conflicting_ledger == one
    assert Ledger(one).open(WHO, None).balance().left == 3


def steps_of_an_opening():
    """Every file that the store writes, before and after, and the commit."""
    return [(name, after) for name in ("opening", "marks", "path") for after in (False, True)]


@pytest.mark.cases(1)
@pytest.mark.parametrize(("file", "after"), steps_of_an_opening())
@pytest.mark.parametrize("kind", ["open", "continue", "memory"])
def test_a_kill_at_any_write_of_the_store_leaves_one_budget_and_a_way_on(tmp_path, kind, file, after):
    one, two, three = (str(tmp_path / name) for name in ("one.db", "two.db", "three.db"))
    who, edited = identity_of(TICKETS), identity_of(EDITED)
    if kind == "continue":
        Ledger(one).open(identity_of(NEWER), Budget(1.0))
    private_name(who.fingerprint)
    write = store._write_fresh

    def killing(path, content):
        named = path.suffix == f".{file}"
        if named and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        fresh = write(path, content)
        if named:
            fresh.replace(path)
            os.kill(os.getpid(), signal.SIGKILL)
        return fresh

    def act():
        store._write_fresh = killing
        if kind == "continue":
            Ledger(one).grant(who, None, continues="data")
        else:
            Ledger(":memory:" if kind == "memory" else one).open(who, Budget(1.0))

    assert outcome(in_child(act)) == (0 if (kind, file) == ("memory", "opening") else -signal.SIGKILL)
    # Nothing was committed. An edited copy and the records themselves do not both get a budget unasked.
    opened, refusals = [], []
    for identity, where in ((edited, two), (who, three), (who, one)):
        try:
            opened.append(Ledger(where).open(identity, Budget(1.0)))
        except (LedgerMismatchError, LedgerUnavailableError) as refusal:
            refusals.append(str(refusal))
    assert len(opened) <= 1
    assert all("sotto ledger grant" in refusal for refusal in refusals)
    assert Ledger(str(tmp_path / "owner.db")).grant(who, Budget(1.0)).balance().left == 1


def test_an_edited_copy_and_a_first_opening_that_was_stopped_do_not_both_get_a_budget(tmp_path, monkeypatch):
    # As an earlier version left it: the note without the marks. The edited copy comes first, then the first again.
    who, edited = identity_of(TICKETS), identity_of(EDITED)
    with monkeypatch.context() as patched:
        patched.setattr(ledgers, "note_first", _noted_then_killed)
        with pytest.raises(OSError, match="No space"):
            Ledger(str(tmp_path / "one.db")).open(who, Budget(1.0))
    with pytest.raises(LedgerMismatchError, match=r"began to be opened in .*Finish that opening first"):
        Ledger(str(tmp_path / "two.db")).open(edited, Budget(1.0))
    (marks,) = (home() / LEDGERS).glob("*.marks")
    marks.unlink()
    assert Ledger(str(tmp_path / "two.db")).open(edited, Budget(1.0)).balance().left == 1
    with pytest.raises(LedgerMismatchError, match="no new records"):
        Ledger(str(tmp_path / "one.db")).open(who, Budget(1.0))


def test_an_opening_that_was_stopped_before_its_note_goes_on(tmp_path, monkeypatch):
    one, two, who = str(tmp_path / "one.db"), str(tmp_path / "two.db"), identity_of(TICKETS)
    with monkeypatch.context() as patched:
        patched.setattr(ledger_registry, "write_once", _full)
        with pytest.raises(LedgerUnavailableError, match="No space left"):
            Ledger(one).open(who, Budget(1.0))
    with pytest.raises(LedgerMismatchError, match="Finish that opening first"):
        Ledger(two).open(identity_of(EDITED), Budget(1.0))
    assert Ledger(two).open(who, Budget(1.0)).balance().left == 1, "nothing was committed: any ledger will do"
    with pytest.raises(LedgerMismatchError, match="already"):
        Ledger(one).open(who, Budget(1.0))


def test_marks_are_kept_before_the_note(tmp_path, monkeypatch):
    who = identity_of(TICKETS)
    with monkeypatch.context() as patched:
        patched.setattr(ledger_registry, "keep", _full)
        with pytest.raises(LedgerUnavailableError, match="No space left"):
            Ledger(str(tmp_path / "one.db")).open(who, Budget(1.0))
    assert not list((home() / LEDGERS).glob("*.path"))
    assert Ledger(str(tmp_path / "two.db")).open(identity_of(EDITED), Budget(1.0)).balance().left == 1
    with pytest.raises(LedgerMismatchError, match="no new records"):
        Ledger(str(tmp_path / "one.db")).open(who, Budget(1.0))


def test_a_budget_in_memory_is_not_opened_where_it_cannot_be_remembered(monkeypatch):
    who = identity_of(TICKETS)
    private_name(who.fingerprint)
    before = sorted((home() / LEDGERS).iterdir())
    with monkeypatch.context() as patched:
        patched.setattr(store, "_write_fresh", _full)
        for _ in range(2):
            with pytest.raises(LedgerUnavailableError, match="No space left"):
                Ledger(":memory:").open(who, Budget(1.0))
    assert sorted((home() / LEDGERS).iterdir()) == before
    assert Ledger(":memory:").open(who, Budget(1.0)).balance().left == 1


def test_a_write_that_fails_leaves_no_torn_file_behind(monkeypatch):
    folder = private_folder(LEDGERS)
    for write in (write_once, write_anew):
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", _full)
            with pytest.raises(OSError, match="No space"):
                write(folder / "a.path", b"there")
        assert list(folder.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="a folder cannot be opened there")
@pytest.mark.parametrize("write", [write_once, write_anew])
def test_a_note_is_on_the_disk_under_its_name(monkeypatch, write):
    file, order = private_folder(LEDGERS) / "a.path", []
    sync = os.fsync

    def seen(descriptor):
        order.append((os.path.isdir(f"/proc/self/fd/{descriptor}"), file.exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    write(file, b"there")
    assert order == [(False, False), (True, True)], "the content before the name, and then the folder that has the name"


@pytest.mark.parametrize("failing", ["_write", "keep", "write_once"])
def test_a_new_version_that_cannot_be_remembered_does_not_share_a_budget(tmp_path, monkeypatch, failing):
    path, newer = str(tmp_path / "one.db"), identity_of(NEWER)
    Ledger(path).open(identity_of(TICKETS), Budget(1.0))
    with monkeypatch.context() as patched:
        patched.setattr(ledger_registry, failing, _full)
        with pytest.raises(LedgerUnavailableError, match="No space left"):
            Ledger(path).grant(newer, None, continues="data")
    assert [entry["kind"] for entry in Ledger(path).history()] == ["open"]
    Ledger(path).grant(newer, None, continues="data")
    with pytest.raises(LedgerMismatchError, match="already"):
        Ledger(str(tmp_path / "two.db")).open(newer, Budget(1.0))


def as_an_earlier_version_noted_it(identity):
    folder = private_folder(LEDGERS)
    now, then = (folder / f"{private_name(name)}.path" for name in identity.names())
    now.rename(then)
    for file in folder.glob("*.marks"):
        file.unlink()


def test_an_owner_is_told_of_a_ledger_that_an_earlier_version_noted(tmp_path):
    one, two, who = str(tmp_path / "one.db"), str(tmp_path / "two.db"), identity_of(TICKETS)
    Ledger(one).open(who, Budget(1.0))
    as_an_earlier_version_noted_it(who)
    assert Ledger(two).grant(who, Budget(5.0)).conflicting_ledger == one
    assert Ledger(two).open(who, None).conflicting_ledger == one
    assert default_path(who.records) == one


def test_a_refusal_names_the_ledger_that_goes_on_though_a_second_was_granted(tmp_path):
    one, two, who = str(tmp_path / "one.db"), str(tmp_path / "two.db"), identity_of(TICKETS)
    Ledger(one).open(who, Budget(1.0))
    Ledger(two).grant(who, Budget(1.0), name="again")
    with pytest.raises(LedgerMismatchError, match=f"sotto ledger grant {one} .*--continues data"):
        Ledger(str(tmp_path / "three.db")).open(identity_of(EDITED), Budget(1.0))


def test_threads_that_open_one_new_ledger_are_all_let_in(tmp_path):
    who, refused = identity_of(TICKETS), []
    barrier = threading.Barrier(8)

    def go(name):
        barrier.wait()
        try:
            Ledger(str(tmp_path / name)).open(who, Budget(1.0))
        except LedgerUnavailableError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=go, args=("one.db",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == []
    assert not [file for file in (home() / LEDGERS).iterdir() if file.name.startswith(".")]


def test_files_that_are_written_at_the_same_moment_have_names_of_their_own(tmp_path):
    fresh = {store._write_fresh(tmp_path / "a.path", b"there") for _ in range(2)}
    assert len(fresh) == 2
    assert known_records.write_anew is ledger_registry.write_anew is write_anew
