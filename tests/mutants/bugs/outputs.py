"""Bugs in what a command writes and prints: overwritten budgets, answers paid twice, hashes that confirm a guess."""

from __future__ import annotations

from mutants.mutant import Mutant

RUNS = ("tests/cli/test_runs.py",)
OUTPUTS = ("tests/cli/test_output_files.py",)
TERMINAL = ("tests/cli/test_terminal.py",)

MUTANTS = [
    Mutant(
        "run-of-other-records",
        "A run's identity leaves out the records and their ledger: answers of other data are continued.",
        "cli/classify.py",
        "hidden = {**session.origin, ",
        "hidden = {",
        RUNS,
    ),
    Mutant(
        "run-plain-hash",
        "What is kept beside the answers is a plain hash: it confirms a guess of the records.",
        "cli/answers.py",
        'private_name(f"run {name} {value}")',
        'hash_of([f"run {name} {value}"])[:24]',
        RUNS,
    ),
    Mutant(
        "run-finished-twice",
        "A finished run is not known when it is resumed, and everything is paid again.",
        "cli/answers.py",
        "        elif os.path.lexists(self._path):\n            self._find_finished(now)\n",
        "",
        RUNS,
    ),
    Mutant(
        "run-compared-in-part",
        "Only the public part of a run is compared: other questions are answered as if they were these.",
        "cli/answers.py",
        'for part in ("public", "keyed"):\n        earlier',
        'for part in ("public",):\n        earlier',
        RUNS,
    ),
    Mutant(
        "run-damage-cut-off",
        "A damaged row ends a partial file: the answers behind it are thrown away and paid again.",
        "files/partial.py",
        "            raise damaged(number)\n",
        '            return rows, b"\\n".join([*lines[number - 1 :], last])\n',
        RUNS,
    ),
    Mutant(
        "run-rows-in-part",
        "A row that lacks its value, or is of another price, counts as an answer.",
        "cli/answers.py",
        " or not self._fits(row)",
        "",
        RUNS,
    ),
    Mutant(
        "run-name-lost",
        "A partial file is not looked at again once it is locked: it may be finished, and have another name.",
        "files/partial.py",
        "                self._require_name(descriptor)\n",
        "",
        RUNS,
    ),
    Mutant(
        "run-removes-another",
        "A run that ends without answers removes what has the name of its file by then.",
        "cli/answers.py",
        "            elif self._file.is_at(self._partial):\n",
        "            else:\n",
        RUNS,
    ),
    Mutant(
        "output-over-ledger",
        "The guard looks at the ledger's name alone, not at its side files, where the last charges may be.",
        "files/outputs.py",
        'for end in ("", *SIDE_FILES)):',
        'for end in ("",)):',
        OUTPUTS,
    ),
    Mutant(
        "output-replaces",
        "A whole file takes the place of whatever has its name.",
        "files/outputs.py",
        "        os.link(whole, file, src_dir_fd=folder)\n",
        "        os.replace(whole, file, src_dir_fd=folder)\n        return\n",
        (*OUTPUTS, *RUNS),
    ),
    Mutant(
        "output-over-notes",
        "A file counts as an earlier output because it tells of one.",
        "files/outputs.py",
        'return lambda file: _start_of(file).startswith(opening.encode("utf-8"))',
        'return lambda file: opening.encode("utf-8") in _start_of(file)',
        ("tests/cli/test_output_files.py::test_what_tells_of_an_output_is_none",),
    ),
    Mutant(
        "output-unguarded",
        "A command looks at its outputs no longer before it begins.",
        "cli/outputs.py",
        "        refuse(outputs, given)\n",
        "",
        OUTPUTS,
    ),
    Mutant(
        "terminal-obeys",
        "Characters beyond ASCII are printed as they are: marks that turn text, and eight-bit control sequences.",
        "terminal.py",
        'return not letter.isprintable() and unicodedata.category(letter) != "Zs"',
        'return letter < " "',
        TERMINAL,
    ),
    Mutant(
        "terminal-markup",
        "Cells of a table are read as markup.",
        "terminal.py",
        "drawn.add_row(*(Text(printable(cell)) for cell in row))",
        "drawn.add_row(*(printable(cell) for cell in row))",
        TERMINAL,
    ),
    Mutant(
        "questions-by-letter",
        "One text given for several questions is asked letter by letter, and each letter is charged.",
        "session.py",
        "if isinstance(questions, str | Mapping) or not isinstance(questions, Iterable):",
        "if not isinstance(questions, Iterable):",
        ("tests/test_arguments.py",),
    ),
]
