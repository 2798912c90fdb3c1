"""Planted in how a ledger's file and database are kept: names, journals, torn copies, schemas."""

from __future__ import annotations

from mutants.mutant import Mutant

_FILE = "tests/privacy/ledger/test_file.py::"
_COPIES = "tests/survival/test_copies.py::"
_SERVER = "tests/privacy/ledger/test_server.py::"
OLDER = (
    _FILE + "test_a_ledger_of_an_older_version_moves_with_every_charge",
    _FILE + "test_a_file_of_an_older_version_without_its_log_is_taken_on_its_owners_word_alone",
)

MUTANTS = [
    Mutant(
        "charges-in-a-log-beside-the-file",
        "the newest charges are kept in a file of another name, which a copy or a second name leaves behind",
        "privacy/ledger/file.py",
        'JOURNAL: Final = "persist"',
        'JOURNAL: Final = "wal"',
        (_COPIES + "test_a_copy_after_every_promise_holds_it",),
    ),
    Mutant(
        "torn-file-believed",
        "a copy that was made in the middle of a write is read as if it were whole",
        "privacy/ledger/database.py",
        "        if problems:\n            raise LedgerUnavailableError(",
        "        if problems == [self.name]:\n            raise LedgerUnavailableError(",
        (_COPIES + "test_a_file_with_some_pages_of_a_write_is_refused_or_one_of_the_two",),
    ),
    Mutant(
        "indexes-not-looked-at",
        "a torn index is not noticed: ids that were charged or released are not found in it",
        "privacy/ledger/database.py",
        "problems = self.faults(connection) or find_problems(",
        "problems = find_problems(",
        (_COPIES + "test_a_file_with_some_pages_of_a_write_is_refused_or_one_of_the_two",),
    ),
    Mutant(
        "second-name-allowed",
        "a file with two names has two journals",
        "privacy/ledger/file.py",
        "if status.st_nlink != 1:",
        "if status.st_nlink < 1:",
        (
            _FILE + "test_a_file_with_a_second_name_is_no_ledger",
            _FILE + "test_a_name_that_is_given_while_a_charge_is_written_stops_its_answer",
        ),
    ),
    Mutant(
        "replaced-file-not-noticed",
        "a program goes on with a file that its name no longer leads to, and its charges are lost to the others",
        "privacy/ledger/file.py",
        "if self._file_identity() != self._identity:",
        "if self._file_identity()[0] != self._identity[0]:",
        (_FILE + "test_a_file_that_goes_while_a_charge_is_written_stops_its_answer",),
    ),
    Mutant(
        "older-copy-not-noticed",
        "an older copy is written into the file of a running program, which charges what was spent already",
        "privacy/ledger/database.py",
        "if connection.scalar(sa.select(ENTRY.c.hash).where(ENTRY.c.seq == seq)) != digest:",
        "if connection.scalar(sa.select(ENTRY.c.hash).where(ENTRY.c.seq == seq)) == digest[::-1]:",
        (_FILE + "test_a_program_does_not_charge_what_was_put_in_its_ledgers_place",),
    ),
    Mutant(
        "mounted-file-allowed",
        "a file that a container was given alone has a journal of its own there",
        "privacy/ledger/file.py",
        "if mount.point == self._path:",
        "if mount.point == self.name:",
        (_FILE + "test_a_file_that_a_container_was_given_alone_is_refused",),
    ),
    Mutant(
        "missing-log-ignored",
        "a file whose log was left behind is taken for the whole ledger",
        "privacy/ledger/file.py",
        'if mode == "wal":',
        'if mode == "wal2":',
        OLDER,
    ),
    Mutant(
        "log-of-another-file-taken",
        "a log that is left from another file overwrites the ledger",
        "privacy/ledger/file.py",
        "if _is_logged(self._path) and self._is_own_log():",
        "if self._path:",
        (_FILE + "test_a_log_that_is_left_from_another_file_does_not_overwrite_this_one",),
    ),
    Mutant(
        "journal-not-looked-at-again",
        "another program moves the charges into a log, and a running one follows it",
        "privacy/ledger/database.py",
        "self._file.require_journal(connection.connection.dbapi_connection)",
        "connection.connection.dbapi_connection",
        (_FILE + "test_a_program_that_changes_the_journal_stops_the_others",),
    ),
    Mutant(
        "ledger-where-the-role-looks",
        "tables are found by the role's own search path: two roles have two ledgers",
        "privacy/ledger/server.py",
        """connection.exec_driver_sql(f'SET LOCAL search_path = "{schema}", pg_temp')""",
        """connection.exec_driver_sql(f"SELECT '{schema}'")""",
        (_SERVER + "test_a_search_path_leads_to_no_other_ledger",),
    ),
    Mutant(
        "temporary-tables-first",
        "a temporary table of the session stands before the ledger's",
        "privacy/ledger/server.py",
        """"{schema}", pg_temp')""",
        """"{schema}"')""",
        (_SERVER + "test_a_temporary_table_does_not_stand_before_the_ledger",),
    ),
    Mutant(
        "earlier-ledger-left-behind",
        "a ledger that an earlier version made in another schema is not found, and a new one has the whole budget",
        "privacy/ledger/server.py",
        "            self._schema = str(schema)\n",
        "            self._schema = SCHEMA\n",
        (_SERVER + "test_a_ledger_of_an_earlier_version_is_found_and_used_where_it_is",),
    ),
    Mutant(
        "one-of-two-ledgers-chosen",
        "of two ledgers in a database the first is taken, and what the other spent is forgotten",
        "privacy/ledger/server.py",
        "if len(schemas) > 1:",
        "if len(schemas) > 2:",
        (_SERVER + "test_a_database_with_two_ledgers_is_refused_until_one_is_retired",),
    ),
    Mutant(
        "older-copy-of-what-was-read-not-noticed",
        "an older copy of what a program has read, and not charged itself, is charged by it",
        "privacy/ledger/database.py",
        "self._note(self._newest_of(connection, seen))",
        "self._newest_of(connection, seen)",
        (_FILE + "test_a_program_does_not_use_an_older_copy_of_what_it_read_alone",),
    ),
    Mutant(
        "older-copy-read",
        "an older copy is read by a program that has seen the newer state",
        "privacy/ledger/database.py",
        "self._note(self._newest_of(connection, seen))",
        "self._note(newest(connection))",
        (_FILE + "test_a_program_does_not_use_an_older_copy_of_what_it_read_alone",),
    ),
    Mutant(
        "log-of-another-ledger-taken",
        "a log that is left from another ledger of an older version replaces this one",
        "privacy/ledger/file.py",
        "if _is_logged(self._path) and self._is_own_log():",
        "if _is_logged(self._path):",
        (_FILE + "test_a_log_that_is_left_from_another_ledger_does_not_replace_an_older_versions",),
    ),
    Mutant(
        "triggers-allowed",
        "a trigger in the file takes every charge back, and chain and balances agree",
        "privacy/ledger/file.py",
        "WHERE type IN ('trigger', 'view')",
        "WHERE type IN ('view')",
        (_FILE + "test_a_file_that_would_change_or_hide_rows_by_itself_is_refused",),
    ),
    Mutant(
        "server-not-looked-below",
        "a trigger, a rule or row security in the database takes charges back or hides them",
        "privacy/ledger/database.py",
        "            return self._server.faults(connection)",
        "            return self._server.faults(connection)[:0]",
        (_SERVER + "test_a_ledger_that_would_change_hide_or_forget_rows_by_itself_is_refused",),
    ),
    Mutant(
        "server-not-verified",
        "a database in which somebody set back what is spent is charged as it says",
        "privacy/ledger/database.py",
        "self._verified = address.in_memory",
        "self._verified = address.in_memory or address.is_server",
        (_SERVER + "test_a_ledger_that_was_changed_is_not_used",),
    ),
]
