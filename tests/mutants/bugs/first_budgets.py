"""Planted in what makes a record known, in the one step of a first budget, and in what a ledger's file may hold."""

from __future__ import annotations

from mutants.mutant import Mutant

_SECOND = "tests/privacy/ledger/test_second_budgets.py::"
_REGISTRY = "tests/privacy/ledger/test_registry.py::"
_SAME = "tests/records/test_same_records.py::"
ANNOTATED = (_SECOND + "test_repeated_rows_with_a_new_column_are_known",)
BOTH = (_SECOND + "test_two_annotated_files_of_the_same_records_are_known",)
UNRELATED = (_SECOND + "test_labels_numbers_and_categories_do_not_make_other_records_known",)
TELLING = (_SAME + "test_a_text_tells_by_its_words_and_letters_and_numbers_never_do",)
LABELS = (_SAME + "test_columns_of_labels_have_no_marks",)
CODES = (_SECOND + "test_single_words_that_stand_several_times_are_known",)
NINE = (_SECOND + "test_a_few_records_that_stand_several_times_are_known",)
OLD_MARKS = (_SECOND + "test_marks_of_the_second_format_are_read_and_written_anew",)
AT_ONCE = (_REGISTRY + "test_of_two_programs_that_open_the_same_records_at_once_one_gets_a_budget",)
STOPPED = (_REGISTRY + "test_an_edited_copy_and_a_first_opening_that_was_stopped_do_not_both_get_a_budget",)
KILLED = (_REGISTRY + "test_a_kill_at_any_write_of_the_store_leaves_one_budget_and_a_way_on",)
MEMORY = (_REGISTRY + "test_a_budget_in_memory_is_not_opened_where_it_cannot_be_remembered",)
CONTINUES = (_REGISTRY + "test_a_new_version_that_cannot_be_remembered_does_not_share_a_budget",)
EARLIER = (_REGISTRY + "test_an_owner_is_told_of_a_ledger_that_an_earlier_version_noted",)
FRESH = (_REGISTRY + "test_files_that_are_written_at_the_same_moment_have_names_of_their_own",)
ON_DISK = (_REGISTRY + "test_a_note_is_on_the_disk_under_its_name",)
GRANTED = (_REGISTRY + "test_a_refusal_names_the_ledger_that_goes_on_though_a_second_was_granted",)
_FILE = "tests/privacy/ledger/test_file.py::"
TABLES = (
    _FILE + "test_a_file_whose_tables_drop_or_change_rows_by_themselves_is_refused",
    _FILE + "test_a_table_whose_name_is_spelt_in_other_letters_is_refused",
)

MUTANTS = [
    Mutant(
        "passwords-in-refusals",
        "a refusal of a second budget shows the password in the address that was given",
        "privacy/ledger/registry.py",
        "        return Address.parse(path).shown\n",
        "        return path\n",
        ("tests/privacy/ledger/test_second_budgets.py::test_a_refusal_names_an_address_without_its_password",),
    ),
    Mutant(
        "copies-of-databases-are-one",
        "of a restored copy of a ledger on a server nobody is told that its budget adds up",
        "privacy/ledger/registry.py",
        "_database(identity.fingerprint, other) == database:",
        "_database(identity.fingerprint, other):",
        (_REGISTRY + "test_other_addresses_of_one_database_are_the_same_ledger",),
    ),
    Mutant(
        "stores-of-working-folders",
        "the trusted store is another one in each working folder, where the same records have a fresh budget",
        "store.py",
        "    if not os.path.isabs(place):\n",
        "    if False:\n",
        (_REGISTRY + "test_a_store_that_follows_the_working_folder_is_refused",),
    ),
    Mutant(
        "repeated-texts-count-in-no-file",
        "a ticket that is there several times, with an id for each, is a new record",
        "records/fingerprints.py",
        "(mean <= most) & ~boilerplate",
        "(mean <= DIFFERENT) & ~boilerplate",
        ANNOTATED,
    ),
    Mutant(
        "strong-in-one-file-is-not-enough",
        "a text that is unique in one file and repeated beside new sentences in the other is not found",
        "privacy/ledger/known_records.py",
        "always = _among(mine, theirs[theirs % 4 >= NAME]) | (known & (mine % 4 >= NAME))",
        "always = _among(mine, theirs[theirs % 4 >= NAME]) & (mine % 4 >= NAME)",
        ANNOTATED,
    ),
    Mutant(
        "marks-without-pictures-stay",
        "of records whose marks were kept before pictures could be read, pictures saved again have a new budget",
        "privacy/ledger/known_records.py",
        "return self.current and self.sight >= sight()",
        "return self.current",
        (_SECOND + "test_marks_made_before_pictures_could_be_read_are_written_anew",),
    ),
    Mutant(
        "a-picture-is-its-file",
        "private pictures that were saved again have a new budget and may be asked in clear",
        "records/fingerprints.py",
        "            digests = _shown(text) if shown else []\n",
        "            digests: list[bytes] | None = []\n",
        ("tests/records/test_pictures.py",),
    ),
    Mutant(
        "a-turned-jpeg-is-another-picture",
        "private JPEGs that were turned without loss have a new budget and may be asked in clear",
        "records/pictures.py",
        "[pixels] if blocks is None else [pixels, blocks]",
        "[pixels]",
        ("tests/records/test_pictures.py",),
    ),
    Mutant(
        "texts-that-end-as-pictures-are-names",
        "beside a picture a sentence that ends in .png makes no record known",
        "records/fingerprints.py",
        'pictures and name == "id" and text.lower()',
        "pictures and text.lower()",
        ("tests/records/test_same_records.py",),
    ),
    Mutant(
        "texts-counted-over-all-columns",
        "a new column of unique texts changes what the other columns' texts are",
        "records/fingerprints.py",
        "    _, column = np.unique(columns, return_inverse=True)\n",
        "    column = np.zeros(len(columns), np.int64)\n",
        LABELS,
    ),
    Mutant(
        "repeated-texts-always-tell",
        "labels of many words make other people's records known",
        "records/fingerprints.py",
        "np.where(mean <= DIFFERENT, kinds, np.uint64(PHRASE))[own]",
        "kinds[own]",
        UNRELATED,
    ),
    Mutant(
        "numbers-tell",
        "small numbers, which are long as text, make other records known",
        "records/fingerprints.py",
        "if len(text) < SHORT_TEXT or not _LETTERED.search(text):\n        return False\n",
        "return len(text) >= SHORT_TEXT\n",
        TELLING,
    ),
    Mutant(
        "columns-of-labels-tell",
        "words that few rows share, such as occupations of a small table, make other persons' records known",
        "records/fingerprints.py",
        "np.array([WORD_REPEATS, PHRASE_REPEATS, WORD_REPEATS, *[SENTENCE_REPEATS] * 3, WORD_REPEATS])[alike]",
        "np.array([PHRASE_REPEATS * 4, PHRASE_REPEATS, WORD_REPEATS, *[SENTENCE_REPEATS * 4] * 4])[alike]",
        LABELS,
    ),
    Mutant(
        "codes-are-labels",
        "pictures, ids and addresses that stand twice are new records, each with a budget",
        "records/fingerprints.py",
        "        if _is_code(text):\n            return _CODE\n",
        "",
        CODES,
    ),
    Mutant(
        "few-more-rows-make-words-labels",
        "a few names that stand a second time make every name of the column a label",
        "records/fingerprints.py",
        "WORD_REPEATS: Final = 1.15",
        "WORD_REPEATS: Final = 1.1",
        CODES,
    ),
    Mutant(
        "tables-of-few-numbers-tell",
        "rows of a few numbers, such as ratings, make other persons' records known",
        "records/fingerprints.py",
        "(alike == _ROW) & (repeated > WORD_REPEATS)",
        "(alike == _ROW) & (repeated < 0)",
        ("tests/privacy/ledger/test_second_budgets.py::test_rows_of_a_few_numbers_make_no_other_records_known",),
    ),
    Mutant(
        "few-records-are-boilerplate",
        "of nine records, each there five times, none is known",
        "records/fingerprints.py",
        "    few &= (alike >= SENTENCE) & (alike != _ROW)\n",
        "    few &= (alike > _CODE) & (alike != _ROW)\n",
        NINE,
    ),
    Mutant(
        "dates-in-words-tell",
        "dates in words make other persons' records known",
        "records/fingerprints.py",
        'len(_LETTER.findall(_CALENDAR.sub("", _without_zone(text)))) >= LETTERS',
        "True",
        TELLING,
    ),
    Mutant(
        "any-name-behind-a-clock-is-a-zone",
        "a folder behind a clock time counts as a time zone, each time with a fresh budget",
        "records/fingerprints.py",
        "if name is not None and name.lower() not in _zones():",
        "if False:",
        TELLING,
    ),
    Mutant(
        "paths-are-zones",
        "files in a folder named like a part of the world count as time zones, each time with a fresh budget",
        "records/fingerprints.py",
        r'    r"(?<=\d:\d\d)(?:[.,]\d{1,9})?(?: ?[ap]m(?![a-z]))?(?: ?(?:z|utc|gmt)(?![a-z]))?"' + "\n",
        "",
        TELLING,
    ),
    Mutant(
        "places-behind-a-clock-are-zones",
        "a place behind a clock time counts as a time zone, so that records told by it get a fresh budget",
        "records/fingerprints.py",
        r"|\[(?P<short>[a-z][a-z0-9+-]{1,15})\])",
        r"|\[?(?P<short>[a-z][a-z0-9+-]{1,15})\]?)",
        TELLING,
    ),
    Mutant(
        "half-of-a-zones-name-is-a-half-of-the-day",
        "'Am' of a zone in America is taken for a half of the day, so that hours tell records apart",
        "records/fingerprints.py",
        "[ap]m(?![a-z]))",
        "[ap]m)",
        ("tests/records/test_same_records.py::test_every_zones_name_behind_a_clock_time_says_nothing",),
    ),
    Mutant(
        "settings-grant-budgets",
        "a caller or a budget in sotto.toml changes what an owner who types another grant grants",
        "cli/settings.py",
        "        if key in _TYPED_ALONE.get(tuple(path), ()):\n            continue\n",
        "",
        ("tests/cli/test_settings.py::test_an_owner_types_a_grant_and_no_setting_changes_it",),
    ),
    Mutant(
        "a-setting-beats-typed-records",
        "a ledger in sotto.toml is shown and exported where other records were typed",
        "cli/settings.py",
        '        found.pop("ledger", None)\n',
        "        pass\n",
        ("tests/cli/test_settings.py::test_records_that_are_typed_name_the_ledger_that_is_looked_at",),
    ),
    Mutant(
        "a-first-record-is-shown-as-a-header",
        "an error about a missing column quotes a first line that holds a label, as a header does not",
        "records/columns.py",
        "        hint = there_are(row.values, file, labels)\n",
        "        hint = there_are(row.values, file, ['no label'])\n",
        ("tests/cli/test_columns.py::test_a_column_that_is_not_there_and_one_without_a_place_are_refused",),
    ),
    Mutant(
        "no-labels-show-a-first-record",
        "an error about a task without labels quotes the first record of a file without a header",
        "records/columns.py",
        "if not labels or not set(known)",
        "if labels is None or not set(known)",
        ("tests/test_answer_tasks.py::test_a_first_record_that_was_read_as_a_header_is_not_quoted",),
    ),
    Mutant(
        "old-marks-keep-their-bits",
        "texts in marks of an earlier version are no longer found by their kind",
        "privacy/ledger/known_records.py",
        "    if magic in _FORMATS[-2:]:\n",
        "    if first:\n",
        OLD_MARKS,
    ),
    Mutant(
        "first-budgets-in-two-steps",
        "of two programs that open a data set and an edited copy at once, both get a budget",
        "store.py",
        "fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)",
        AT_ONCE,
    ),
    Mutant(
        "turn-kept-by-children",
        "a process that was forked during a first opening keeps every other one waiting while it lives",
        "store.py",
        "fcntl.flock(turn, fcntl.LOCK_UN)",
        "pass",
        (_REGISTRY + "test_a_child_that_was_forked_meanwhile_does_not_keep_the_turn",),
    ),
    Mutant(
        "stop-behind-the-commit-forgotten",
        "a budget whose opening was stopped behind the commit is forgotten when the owner opens another",
        "privacy/ledger/registry.py",
        "(not begun or _may_hold(other, identity))",
        "not begun",
        (_REGISTRY + "test_a_stop_behind_the_commit_leaves_the_first_ledger_known",),
    ),
    Mutant(
        "stopped-opening-goes-on-unasked",
        "a first opening that was stopped goes on though an edited copy got a budget meanwhile",
        "privacy/ledger/registry.py",
        "known = closest(identity, within) if noted is None or begun else None",
        "known = closest(identity, within) if noted is None else None",
        STOPPED,
    ),
    Mutant(
        "own-marks-block-an-opening",
        "the marks of an opening that was stopped keep its owner from opening it",
        "privacy/ledger/known_records.py",
        "    if own.with_suffix(OPENING).exists():\n        leave_out.add(own)\n",
        "",
        (_REGISTRY + "test_an_opening_that_was_stopped_before_its_note_goes_on",),
    ),
    Mutant(
        "note-before-marks",
        "a stop between the note and the marks lets an edited copy open a budget, and the first go on",
        "privacy/ledger/registry.py",
        "        keep(identity, place, data_set, anew=not other or not _exists(str(noted)))\n"
        "        if noted is None:\n            write_once(note, os.fsencode(place))\n",
        "        if noted is None:\n            write_once(note, os.fsencode(place))\n"
        "        keep(identity, place, data_set, anew=not other or not _exists(str(noted)))\n"
        "        if noted is None:\n",
        (_REGISTRY + "test_marks_are_kept_before_the_note",),
    ),
    Mutant(
        "memory-not-noted-first",
        "on a full disk a budget in memory can be opened again and again",
        "privacy/ledger/registry.py",
        "    if _is_synthetic(identity):\n        return\n    place = _place(path)\n    try:\n        noted = _noted"
        "(identity.names())\n        other",
        "    if _is_synthetic(identity) or path == IN_MEMORY:\n        return\n    place = _place(path)\n    try:\n"
        "        noted = _noted(identity.names())\n        other",
        MEMORY,
    ),
    Mutant(
        "new-versions-not-noted",
        "records that share a budget get a first one elsewhere when the store could not be written",
        "privacy/ledger/ledger.py",
        "            if new:\n                self._note(identity, known)\n",
        "",
        CONTINUES,
    ),
    Mutant(
        "earlier-note-overwritten",
        "an owner is not told of the ledger that an earlier version noted, and the default changes",
        "privacy/ledger/registry.py",
        "        noted = _noted(identity.names())\n        other = noted is not None and noted",
        "        noted = _noted([identity.fingerprint])\n        other = noted is not None and noted",
        EARLIER,
    ),
    Mutant(
        "threads-share-a-fresh-file",
        "threads that open one new ledger write into each other's file",
        "store.py",
        '    fresh = file.with_name(f".{file.name}.{os.getpid()}.{secrets.token_hex(4)}")\n    try:\n        with',
        '    fresh = file.with_name(f".{file.name}.{os.getpid()}")\n    try:\n        with',
        FRESH,
    ),
    Mutant(
        "names-not-synchronised",
        "a power cut takes the note of a budget that was charged",
        "store.py",
        "        os.fsync(descriptor)\n",
        "        pass\n",
        ON_DISK,
    ),
    Mutant(
        "second-ledger-takes-the-marks",
        "a refusal names a ledger that keeps the records under another name",
        "privacy/ledger/known_records.py",
        "    if kept is not None and not anew:\n",
        "    if False and kept is not None:\n",
        GRANTED,
    ),
    Mutant(
        "tables-not-looked-at",
        "a generated column or a conflict clause makes the database forget charges by itself",
        "privacy/ledger/file.py",
        '    return any(found == [("table", table.name, table.name, text)] for text in (fresh, moved))\n',
        "    return [row[1] for row in found] == [table.name]\n",
        TABLES,
    ),
    Mutant(
        "tables-found-by-their-spelling",
        "a table whose name is spelt in other letters is not looked at, and drops charges by itself",
        "privacy/ledger/file.py",
        '    return any(found == [("table", table.name, table.name, text)] for text in (fresh, moved))\n',
        "    return {row[3] for row in found if row[1] == table.name} <= {fresh, moved}\n",
        TABLES,
    ),
    Mutant(
        "grant-in-a-ledger-of-settings",
        "a grant that an owner types is made in a ledger that a settings file names: a second budget",
        "cli/settings.py",
        '("ledger", "grant"): ("ledger", "budget", ',
        '("ledger", "grant"): ("budget", ',
        ("tests/cli/test_settings.py::test_a_ledger_of_settings_is_not_the_one_that_an_owner_raises",),
    ),
    Mutant(
        "grant-opens-a-second-ledger-unnamed",
        "a grant for known records in other units opens a second ledger that nobody named",
        "cli/ledger.py",
        "if named is None and is_new(where):",
        "if False:",
        (
            "tests/cli/test_ledger_commands.py::"
            "test_a_grant_that_names_no_ledger_opens_none_beside_the_one_of_the_records",
        ),
    ),
    Mutant(
        "reading-makes-a-ledger",
        "a command that reads a ledger makes an empty one where there is none, or where one was lost",
        "cli/ledger.py",
        "    if not is_there:\n",
        "    if False:\n",
        (
            "tests/explain/test_facts.py::test_the_command_writes_page_entry_and_json",
            "tests/cli/test_ledger_commands.py::test_a_cap_for_records_that_no_budget_was_opened_for_is_refused",
        ),
    ),
]
