"""Planted in what data sets and records are known by: cells, fingerprints, marks, the store, required callers."""

from __future__ import annotations

from mutants.mutant import Mutant

_SAME = "tests/records/test_same_records.py::"
_SECOND = "tests/privacy/ledger/test_second_budgets.py::"
_REGISTRY = "tests/privacy/ledger/test_registry.py::"
UNNOTED = (_REGISTRY + "test_a_first_budget_that_cannot_be_remembered_is_not_opened",)
CRASH = (_REGISTRY + "test_a_crash_while_a_first_budget_is_opened_forgets_nothing_and_blocks_nobody",)
AT_ONCE = (_REGISTRY + "test_of_two_programs_that_open_a_first_budget_at_once_one_is_refused",)
FORMATS = (_SAME + "test_one_value_has_one_text",)
PAIRS = (_SAME + "test_pairs_and_maps_are_the_same_in_every_format_that_pandas_writes",)
SECOND_FORMAT = (_SAME + "test_the_second_fingerprint_is_what_it_was",)
UNITS = (_SAME + "test_the_same_cells_in_other_units_are_another_data_set",)
MEMORY = (_SECOND + "test_memory_is_refused_to_records_that_have_a_ledger",)
GONE = (_SECOND + "test_a_ledger_that_was_deleted_emptied_or_replaced_is_missed",)
GROWN = (_SECOND + "test_a_file_whose_records_are_mostly_known_opens_no_fresh_budget",)
SAMPLE = (_SECOND + "test_records_of_a_large_data_set_are_found_in_a_sample_of_it",)
SHORT = (_SECOND + "test_records_of_short_texts_are_known_without_their_labels_and_numbers",)
PIECES = (_SECOND + "test_pieces_of_several_data_sets_are_known_too_and_new_records_are_not",)
EARLIER = (_SECOND + "test_a_ledger_of_an_earlier_version_goes_on_under_the_new_fingerprint",)
PUBLIC = (_SECOND + "test_private_rows_are_not_shown_as_public_ones",)
LOST_KEY = (_SECOND + "test_a_lost_key_beside_kept_ledgers_is_refused",)
OPEN_STORE = (_SECOND + "test_a_store_that_others_may_read_is_refused_with_the_command_that_closes_it",)
CALLER = (_SECOND + "test_an_owner_can_require_a_caller",)
_ROWS = "tests/benchmarks/harness/test_public_rows.py::"
WHOLE_ROWS = (_ROWS + "test_rows_are_known_by_what_stands_in_no_prompt",)
PARTS = (_ROWS + "test_the_part_of_a_file_that_makes_a_world_is_checked_by_itself",)
BEHIND = (_ROWS + "test_rows_behind_the_reserved_ones_are_checked_by_themselves",)

MUTANTS = [
    Mutant(
        "few-private-rows-are-audited",
        "an audit asks thousands of uncharged questions about a few records of a ledger",
        "cli/audit.py",
        "require_public(rows, f\"--private {given['private']}\", fewest=1)",
        "require_public(rows, f\"--private {given['private']}\")",
        ("tests/cli/test_audit.py::test_a_few_records_that_a_ledger_knows_are_no_made_up_ones_either",),
    ),
    Mutant(
        "rows-compared-by-what-is-shown",
        "rows of a benchmark are compared without their labels, so records of short texts are shown without noise",
        "benchmarks/harness/public_rows.py",
        "            require_public(rows, source)\n        self._examples",
        "            require_public([example.fields for example in examples], source)\n        self._examples",
        WHOLE_ROWS,
    ),
    Mutant(
        "parts-of-public-rows-unchecked",
        "the rows of a benchmark file that are drawn are shown without noise although a ledger was opened for them",
        "benchmarks/harness/public_rows.py",
        "return PublicExamples(examples, rows, self._source, shipped=self._shipped)",
        "return PublicExamples(examples, rows, self._source, shipped=True)",
        PARTS,
    ),
    Mutant(
        "rows-behind-reserved-ones-unchecked",
        "what stands in the rows behind the reserved ones is shown as public although a ledger was opened for them",
        "benchmarks/prism/structured.py",
        'published(w.rows_in(data, FOLDER, "train")[RESERVED:], FOLDER)',
        'w.rows_in(data, FOLDER, "train")[RESERVED:]',
        BEHIND,
    ),
    Mutant(
        "line-ends-tell-files-apart",
        "a file saved on another system has a budget of its own",
        "records/cells.py",
        'text.replace("\\r\\n", "\\n").replace("\\r", "\\n")',
        'text.replace("\\r", "\\n")',
        FORMATS,
    ),
    Mutant(
        "pairs-tell-files-apart",
        "a map has one budget in Parquet and another in JSON Lines",
        "records/cells.py",
        "        if (pairs := _pairs(value)) is not None:\n",
        "        if (pairs := _pairs(value)) == 0:\n",
        PAIRS,
    ),
    Mutant(
        "empty-maps-tell-files-apart",
        "a row with an empty object has one budget in Parquet and another in JSON Lines",
        "records/cells.py",
        "        return named or []  #",
        "        return named  #",
        PAIRS,
    ),
    Mutant(
        "names-of-objects-not-composed",
        "an object whose names are spelt in another form of Unicode has another budget in CSV",
        "records/cells.py",
        "pairs = [(self.name(name), self.plain",
        "pairs = [(str(name), self.plain",
        FORMATS,
    ),
    Mutant(
        "arrays-in-nanoseconds-are-numbers",
        "an array of times has one budget in a data frame and another in its Parquet file",
        "records/cells.py",
        'return list(array) if array.dtype.kind in "mM" else array.tolist()',
        "return array.tolist()",
        FORMATS,
    ),
    Mutant(
        "long-decimals-are-texts",
        "a decimal of more than 40 characters has one budget in Parquet and another in CSV",
        "records/cells.py",
        "LONGEST_NUMBER: Final = 2_000",
        "LONGEST_NUMBER: Final = 40",
        FORMATS,
    ),
    Mutant(
        "persons-by-shortened-arrays",
        "two persons who are told by arrays are one where NumPy's text of them is",
        "records/cells.py",
        "    return str(_unpacked(value))\n",
        "    return str(value)\n",
        ("tests/records/test_same_records.py::test_units_told_by_long_arrays_or_many_digits_stay_apart",),
    ),
    Mutant(
        "the-last-of-equal-names",
        "of two names that are one text the last one counts, whose place follows from the file format",
        "records/cells.py",
        "        if len(named) < len(pairs):\n",
        "        if len(named) > len(pairs):\n",
        FORMATS,
    ),
    Mutant(
        "unusual-cells-have-no-earlier-text",
        "records with cells of an unusual type that an earlier version opened a budget for get a fresh one",
        "records/earlier_cells.py",
        "    return type(value) not in _SAME and not is_missing(value)\n",
        "    return isinstance(value, list | tuple | dict)\n",
        (_SAME + "test_unusual_cells_may_have_had_another_text",),
    ),
    Mutant(
        "names-are-read-as-json",
        "a name that is JSON is read to any depth, so that one cell makes a file unusable",
        "records/cells.py",
        "            return self.plain_text(composed(outlined(name)))\n",
        "            return self.of(name)\n",
        (_SAME + "test_names_that_are_json_and_pairs_within_pairs_take_no_more_than_they_hold",),
    ),
    Mutant(
        "letters-composed-before-json",
        "a line break before an accent is no JSON any more in CSV, and the row is another one",
        "records/cells.py",
        "        text = outlined(text)\n        if text[:1]",
        "        text = composed(outlined(text))\n        if text[:1]",
        FORMATS,
    ),
    Mutant(
        "numbers-beyond-floats-tell-files-apart",
        "a number that is infinity in JSON Lines has another budget in CSV",
        "records/cells.py",
        "            if not as_float or math.isinf(as_float):\n",
        "            if not as_float and math.isinf(as_float):\n",
        FORMATS,
    ),
    Mutant(
        "second-fingerprint-forgotten",
        "records with lists of pairs that an earlier version opened a budget for get a fresh one",
        "records/sealed.py",
        "            yield self.second_fingerprint()\n",
        "            pass\n",
        SECOND_FORMAT,
    ),
    Mutant(
        "a-unit-that-is-two-columns",
        "persons are grouped by another column than the one that was named, whose name is a field's",
        "records/sealed.py",
        "    if read_from != unit and unit in row.whole:\n",
        "    if read_from != unit and unit in ():\n",
        ("tests/cli/test_columns.py::test_a_unit_that_may_be_two_columns_is_refused",),
    ),
    Mutant(
        "offsets-not-moved-to-utc",
        "the same moment in another time zone has a budget of its own",
        "records/cells.py",
        ") - _offset(offset)",
        ")",
        FORMATS,
    ),
    Mutant(
        "floats-at-full-width",
        "a column of 32-bit floats has another budget in Parquet than in CSV",
        "records/cells.py",
        'struct.unpack("<f", struct.pack("<f", value))[0]',
        'struct.unpack("<d", struct.pack("<d", value))[0]',
        FORMATS,
    ),
    Mutant(
        "fingerprint-without-units",
        "the same rows in other units share an account whose figures speak of other persons",
        "records/fingerprints.py",
        "    return fingerprint_of_digests([row_digest(row) for row in unit] for unit in units)\n",
        "    return fingerprint_of_digests([row_digest(row)] for unit in units for row in unit)\n",
        UNITS,
    ),
    Mutant(
        "first-budget-not-asked-about",
        "whoever names another ledger gets a fresh budget for the same records",
        "privacy/ledger/ledger.py",
        "            refuse_second(identity, self.path)\n",
        "",
        MEMORY,
    ),
    Mutant(
        "first-budget-noted-late",
        "a crash after the first account, or a full disk, leaves a budget that nobody remembers",
        "privacy/ledger/ledger.py",
        "            note_first(identity, self.path, row.name)\n        return row",
        "        return row",
        UNNOTED,
    ),
    Mutant(
        "opening-never-ends",
        "a ledger that was emptied after its first charge counts as one that is still being opened",
        "privacy/ledger/registry.py",
        "        _note(identity.fingerprint).with_suffix(OPENING).unlink(missing_ok=True)\n    except",
        "        pass\n    except",
        CRASH,
    ),
    Mutant(
        "two-first-budgets-at-once",
        "two programs that open a first budget at the same time get one each",
        "privacy/ledger/registry.py",
        "        if other and not granted:\n",
        "        if False:\n",
        AT_ONCE,
    ),
    Mutant(
        "memory-is-no-ledger",
        "a ledger in memory opens a fresh budget for records that have one",
        "privacy/ledger/registry.py",
        "    if _is_synthetic(identity):\n        return\n    place = _place(path)\n    try:\n"
        "        noted = _noted(identity.names())\n        if",
        "    if path == IN_MEMORY or _is_synthetic(identity):\n        return\n    place = _place(path)\n    try:\n"
        "        noted = _noted(identity.names())\n        if",
        MEMORY,
    ),
    Mutant(
        "memory-is-forgotten",
        "a budget in memory can be opened again and again",
        "privacy/ledger/registry.py",
        "    if place == IN_MEMORY and _is_synthetic(identity):\n",
        "    if place == IN_MEMORY:\n",
        (
            "tests/privacy/ledger/test_second_budgets.py::test_a_budget_in_memory_is_opened_once_and_then_only_by_the_owner",
        ),
    ),
    Mutant(
        "empty-file-counts-as-kept",
        "an emptied ledger file opens a fresh budget",
        "privacy/ledger/registry.py",
        "    if not _exists(noted):\n        raise _missing_ledger(noted)\n    if _same",
        "    if not _exists(noted):\n        return\n    if _same",
        GONE,
    ),
    Mutant(
        "replaced-ledger-is-trusted",
        "a ledger file put in the place of the one that was charged opens a fresh budget",
        "privacy/ledger/registry.py",
        "    if _same(noted, place):\n        # Of",
        "    if _same(noted, place):\n        return\n        # Of",
        GONE,
    ),
    Mutant(
        "grown-file-is-new",
        "single records are not compared, so a row more is a fresh budget",
        "privacy/ledger/known_records.py",
        "    return _closest(identity.records.marks(mark_key()), leave_out=leave_out)\n",
        "    return None\n",
        GROWN,
    ),
    Mutant(
        "only-the-new-files-share-counts",
        "a file that outgrew the known records gives every one of them a fresh budget",
        "privacy/ledger/known_records.py",
        "max(best.share, best.contained, together) >= SHARE",
        "max(best.share, together) >= SHARE",
        GROWN,
    ),
    Mutant(
        "whole-records-alone-are-known",
        "a column more or less makes every record a new one",
        "privacy/ledger/known_records.py",
        " | (always | among_plain | among_bare).any(axis=1)",
        "",
        GROWN,
    ),
    Mutant(
        "longest-text-alone-is-marked",
        "a column longer than the records' own text makes every record a new one",
        "records/fingerprints.py",
        "TEXTS: Final = 8",
        "TEXTS: Final = 1",
        (_SECOND + "test_repeated_rows_with_a_new_column_are_known",),
    ),
    Mutant(
        "short-texts-not-marked",
        "new labels or line numbers make records of short texts new ones",
        "records/fingerprints.py",
        "    if len(text) < SHORT_TEXT or",
        "    if len(text) < LONG_TEXT or",
        SHORT,
    ),
    Mutant(
        "repeated-rows-not-marked",
        "a file in which every row stands three times opens a fresh budget",
        "records/fingerprints.py",
        "SENTENCE_REPEATS: Final = 20",
        "SENTENCE_REPEATS: Final = 1",
        GROWN,
    ),
    Mutant(
        "mixed-ids-are-names",
        "ids of letters and digits make a fresh budget of the same records where a fifth of them stand twice",
        "records/fingerprints.py",
        " or len(_TURN.findall(word)) >= CODE_TURNS * len(word)\n",
        "\n",
        (_SECOND + "test_single_words_that_stand_several_times_are_known",),
    ),
    Mutant(
        "files-and-profiles-are-names",
        "so do names of files and profile pages",
        "records/fingerprints.py",
        " or _PATH.search(word) is not None)\n",
        ")\n",
        (_SECOND + "test_single_words_that_stand_several_times_are_known",),
    ),
    Mutant(
        "numbered-texts-tell-nothing",
        "records that are told by running numbers alone get a fresh budget with every new label",
        "privacy/ledger/known_records.py",
        "(always | among_plain | among_bare).any(axis=1)",
        "(always | among_plain).any(axis=1)",
        (_SECOND + "test_two_annotated_files_of_the_same_numbered_records_are_known",),
    ),
    Mutant(
        "sample-taken-for-the-whole",
        "records of a large data set that are not in its sample count as new",
        "privacy/ledger/known_records.py",
        "    return max(among, min(1.0, float(hits.mean()) / kept.rate))\n",
        "    return float(hits.mean())\n",
        SAMPLE,
    ),
    Mutant(
        "data-sets-compared-one-by-one",
        "a file put together from pieces of several data sets counts as new",
        "privacy/ledger/known_records.py",
        "max(best.share, best.contained, together) >= SHARE",
        "max(best.share, best.contained) >= SHARE",
        PIECES,
    ),
    Mutant(
        "earlier-fingerprint-forgotten",
        "an upgrade of the package opens a fresh budget for every data set",
        "privacy/ledger/ledger.py",
        "        for earlier in islice(identity.names(), 1, None):\n",
        "        for earlier in islice(identity.names(), 0):\n",
        EARLIER,
    ),
    Mutant(
        "private-rows-pass-for-public",
        "private rows are shown as demonstrations, for nothing",
        "privacy/ledger/known_records.py",
        "    if known is not None:\n        raise InputError(",
        "    if known is not None and not values:\n        raise InputError(",
        PUBLIC,
    ),
    Mutant(
        "one-known-row-is-told",
        "whoever may send questions learns from a refusal whether one record is among the private ones",
        "privacy/ledger/known_records.py",
        "FEW: Final = 10",
        "FEW: Final = 1",
        PUBLIC,
    ),
    Mutant(
        "lost-key-made-again",
        "a store whose key is gone gets a new one, under which no ledger is found",
        "store.py",
        "        if next(ledgers.iterdir(), None) is not None and not file.exists():\n",
        "        if False:\n",
        LOST_KEY,
    ),
    Mutant(
        "another-key-is-taken",
        "a key from elsewhere is used, under which no ledger is found",
        "store.py",
        "    if not hmac.compare_digest(proof.read_bytes(), expected):\n",
        "    if False:\n",
        LOST_KEY,
    ),
    Mutant(
        "open-store-is-used",
        "others may read the marks' key, and put a key or a note of their own in its place",
        "store.py",
        "    if status.st_mode & 0o077:\n",
        "    if status.st_mode & 0o002:\n",
        OPEN_STORE,
    ),
    Mutant(
        "caller-required-of-nobody",
        "whoever leaves --caller out spends the whole budget though the owner requires a caller",
        "privacy/ledger/caps.py",
        "    if row is not None and row.cap == 0:\n",
        "    if row is not None and row.cap < 0:\n",
        CALLER,
    ),
    Mutant(
        "benchmark-checks-the-whole-file-alone",
        "the rows of a benchmark are checked as a file, and the first of them, which are used, may all be private",
        "benchmarks/harness/public_rows.py",
        "    used = rows.first(most)\n    for part in (rows, used):",
        "    used = rows.first(most)\n    for part in (rows,):",
        ("tests/benchmarks/harness/test_public_rows.py",),
    ),
    Mutant(
        "benchmark-answers-from-a-few-private-rows",
        "references without noise answer from private rows where they are fewer than ten",
        "benchmarks/studies/classification.py",
        "answered_from(records, str(options.private))",
        "pass",
        ("tests/benchmarks/harness/test_public_rows.py",),
    ),
    Mutant(
        "questions-are-checked-as-a-whole-file",
        "private rows are asked in clear where public ones stand behind them that --limit leaves out",
        "cli/classify.py",
        "require_asked((questions, selected), ",
        "require_asked((questions,), ",
        ("tests/benchmarks/harness/test_public_rows.py",),
    ),
    Mutant(
        "questions-beside-records-that-no-ledger-knows-yet",
        "the private records are answered as questions the first time, and refused once the command made them known",
        "cli/answers.py",
        'require_public(rows, f"--queries {queries}", beside=beside)',
        'require_public(rows, f"--queries {queries}")',
        (
            "tests/cli/test_runs.py::test_questions_that_are_the_private_records_are_refused_before_a_budget_is_opened",
            "tests/cli/test_answer.py::"
            "test_questions_that_are_the_private_records_are_refused_before_a_budget_is_opened",
        ),
    ),
    Mutant(
        "a-resumed-run-settles-a-budget",
        "a resume with other records opens a budget for them, and finds out then that the run is not theirs",
        "cli/options.py",
        "        if resumes and records is not None:\n",
        "        if False:\n",
        ("tests/cli/test_runs.py::test_an_interrupted_run_is_resumed_by_its_own_command_alone",),
    ),
]
