"""Planted where a run keeps what it drew: its folder, the lock on it, and the one step that ends it."""

from __future__ import annotations

from mutants.mutant import Mutant

_FOLDER = "tests/synthesis/test_checkpoint.py::"
_ANSWERS = "tests/answering/test_runs.py::"
_ROWS = "tests/synthesis/test_attacks.py::"

MUTANTS = [
    Mutant(
        "a-run-ends-file-by-file",
        "a finished run that is stopped as its folder is removed is resumed, and paid again",
        "files/run_folder.py",
        "                os.rename(self.path, name)\n",
        "                name = self.path\n",
        (
            _FOLDER + "test_a_finished_run_that_is_stopped_as_its_folder_is_removed_is_no_interrupted_one",
            _ANSWERS + "test_a_finished_run_that_is_stopped_as_its_folder_is_removed_is_not_paid_again",
        ),
    ),
    Mutant(
        "removed-after-its-lock",
        "the folder of an uncharged run is removed when another process may have paid in it",
        "files/checkpoint.py",
        "            with suppress(OSError):\n                self._run.end(self.out)\n",
        "            self.close()\n            __import__('shutil').rmtree(self.folder, ignore_errors=True)\n",
        (_FOLDER + "test_a_new_run_that_is_not_charged_is_removed_while_it_is_locked",),
    ),
    Mutant(
        "locked-and-not-looked-at",
        "a folder that another process finished before it was locked is gone on with, beside its successor",
        "files/run_folder.py",
        "            if not (self.has_name() and self._has_header()):\n",
        "            if False:\n",
        (_FOLDER + "test_a_header_that_is_exchanged_before_it_is_locked_is_not_that_of_the_run",),
    ),
    Mutant(
        "no-lock-on-a-folder",
        "two processes draw and pay in one folder",
        "files/run_folder.py",
        "            self._lock()\n",
        "",
        (_FOLDER + "test_a_run_that_is_under_way_is_not_called_interrupted",),
    ),
    Mutant(
        "written-by-the-name-of-a-folder",
        "what was drawn goes to whatever has the name of the folder by then",
        "files/run_folder.py",
        "os.open(name, flags | _FOLLOW_NOTHING, 0o600, dir_fd=self._folder)",
        "os.open(self.path / name, flags | _FOLLOW_NOTHING, 0o600)",
        (
            "tests/fitting/test_crashes.py::test_a_fit_whose_folder_is_moved_as_it_is_drawn_is_kept_in_it",
            _FOLDER + "test_a_run_whose_folder_was_moved_goes_on_in_it_and_leaves_the_one_that_took_its_name",
        ),
    ),
    Mutant(
        "links-in-a-folder-are-followed",
        "a link in the folder of a run is read, and what it leads to is locked",
        "files/run_folder.py",
        'getattr(os, "O_NOFOLLOW", 0) | ',
        "",
        (_FOLDER + "test_what_is_no_header_is_neither_waited_for_nor_followed",),
    ),
    Mutant(
        "an-output-that-nobody-noted",
        "a run goes on beside the output of another one, and finds out when all is paid",
        "files/checkpoint.py",
        "if os.path.lexists(file) and not _has_noted(self._run, name, file):",
        "if False:",
        (_FOLDER + "test_an_output_that_the_run_did_not_note_is_refused_before_anything_is_drawn",),
    ),
    Mutant(
        "any-folder-beside-an-output-is-over",
        "a paid run is removed because a finished output has the name of its own",
        "files/checkpoint.py",
        "            if _has_noted(run, _OUT, out):\n",
        "            if True:\n",
        (_FOLDER + "test_beside_a_finished_output_only_the_folder_that_wrote_it_is_ended",),
    ),
    Mutant(
        "finished-answers-not-compared-first",
        "a folder beside finished answers is resumed before they are looked at",
        "cli/answer.py",
        "        if resume and out.exists():\n",
        "        if resume and out.exists() and not folder_of(out).exists():\n",
        (_ANSWERS + "test_a_run_that_another_one_finished_before_is_refused_and_leaves_what_says_of_which_run_it_is",),
    ),
    Mutant(
        "another-runs-note-replaced",
        "what says that another run is finished is replaced, and its answers are refused from then on",
        "cli/answers.py",
        "not self._path.exists() and not self._is_same(self._header):",
        "False:",
        (_ANSWERS + "test_a_run_that_another_one_finished_before_is_refused_and_leaves_what_says_of_which_run_it_is",),
    ),
    Mutant(
        "noted-before-it-has-its-folder",
        "FILE.run is written for a run whose folder was moved, and which writes no answers",
        "cli/answer.py",
        "        checkpoint.finish_bytes(content, note=lambda: finished.note(content))\n",
        "        finished.note(content)\n        checkpoint.finish_bytes(content)\n",
        (_ANSWERS + "test_what_says_of_which_run_answers_are_is_not_written_for_a_run_whose_folder_was_moved",),
    ),
    Mutant(
        "missing-round-without-a-word",
        "a round that was released and is missing is left out of the rows, and nobody is told",
        "synthesis/synthesizer.py",
        "                if texts is None and checkpoint:\n",
        "                if False:\n",
        (_ROWS + "test_a_round_that_was_released_and_is_missing_is_left_out_when_that_is_said_alone",),
    ),
    Mutant(
        "left-out-and-charged-when-it-is-over",
        "a round that was left out is charged again although the output without it was noted",
        "synthesis/synthesizer.py",
        "if texts is None and redraw and not is_finished:",
        "if texts is None and redraw:",
        (_ROWS + "test_what_was_left_out_is_not_charged_once_the_run_noted_its_output",),
    ),
    Mutant(
        "certificate-of-other-rows",
        "a certificate of fewer rows, at a lower price, stays beside the rows that are written",
        "files/checkpoint.py",
        "if os.path.lexists(file) and _hash_of_file(file) != hashes[name]:",
        "if False:",
        (_FOLDER + "test_a_certificate_goes_with_rows_of_its_own_where_others_are_written_now",),
    ),
    Mutant(
        "another-certificate-beside-rows",
        "a certificate that is made anew, of other rows, is written beside those that a run wrote",
        "files/checkpoint.py",
        "if any(given[name] != noted.get(name) for name in files if name not in there):",
        "if False:",
        (_FOLDER + "test_no_other_certificate_is_made_beside_rows_that_a_run_wrote",),
    ),
    Mutant(
        "changed-draw-taken-for-whole",
        "a draw that was changed in the folder is charged again, and neither named nor priced before",
        "answering/run.py",
        "            and _Place(self, checkpoint, charge).whole(standing) is None\n",
        "            and checkpoint.found_bytes(charge.name) is None\n",
        (
            _ANSWERS + "test_a_draw_that_was_changed_is_priced_before_anything_is_charged",
            _ANSWERS + "test_answers_that_left_and_are_not_whole_in_the_folder_are_not_charged_again_without_a_word",
        ),
    ),
    Mutant(
        "changed-draw-not-priced",
        "a draw that was changed in the folder is not among those that the budget is looked at for",
        "answering/run.py",
        "if index not in lost and _Place(self, checkpoint, charge).whole(standing) is None",
        "if index not in lost and checkpoint.found_bytes(charge.name) is None",
        (_ANSWERS + "test_a_draw_that_was_changed_is_priced_before_anything_is_charged",),
    ),
    Mutant(
        "another-draw-than-the-ledger-noted",
        "a draw that is not the one that the ledger noted leaves under its charge",
        "answering/run.py",
        "standing.left and standing.content != hashlib.sha256(content).hexdigest()",
        "False",
        (_ANSWERS + "test_answers_that_left_and_are_not_whole_in_the_folder_are_not_charged_again_without_a_word",),
    ),
    Mutant(
        "resume-settles-a-budget",
        "a resume of records that no ledger knows settles a budget for them",
        "cli/answer.py",
        "        answers.require_known()\n",
        "        pass\n",
        (_ANSWERS + "test_a_resume_of_records_without_a_ledger_settles_no_budget",),
    ),
]
