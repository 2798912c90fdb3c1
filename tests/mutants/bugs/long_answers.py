"""Planted in the door of long answers: the order of charge, read and draw, and that nothing is drawn again."""

from __future__ import annotations

from mutants.mutant import Mutant

_DOOR = "tests/answering/test_session.py::"
_CANDIDATES = "tests/answering/test_candidates.py::"
_RUNS = "tests/answering/test_runs.py::"
_ORDER = (_DOOR + "test_an_answer_is_worked_out_charged_read_noted_drawn_and_finished_in_this_order",)
_KILLED = (_RUNS + "test_a_run_that_is_killed_goes_on_and_no_charge_is_drawn_twice",)

MUTANTS = [
    Mutant(
        "free-methods-compare-nothing",
        "a method that reads no record is given one answer after public examples, though it compares them",
        "answering/session.py",
        "        if not self._public or not self.method.least_candidates:\n",
        "        if not self._public or self.method.reads is Reads.NOTHING:\n",
        (
            _CANDIDATES + "test_the_consensus_compares_an_answer_after_every_group_and_the_one_without",
            "tests/contracts/test_entries.py::test_it_keeps_its_contract[answerer public-consensus]",
        ),
    ),
    Mutant(
        "public-experts-refused-for-the-consensus",
        "the command refuses the number of public experts for a free method that compares their answers",
        "cli/answer.py",
        '    if is_typed("public_experts") and not method.least_candidates:\n',
        '    if is_typed("public_experts") and method.reads is Reads.NOTHING:\n',
        ("tests/cli/test_answer.py::test_the_free_consensus_compares_the_answers_of_all_public_groups",),
    ),
    Mutant(
        "consensus-of-two-answers",
        "two answers are compared, of which none is more like the others",
        "answering/session.py",
        "        if self._public_texts_an_answer >= least or not self._public:\n",
        "        if self._public_texts_an_answer >= min(least, 1) or not self._public:\n",
        (_CANDIDATES + "test_a_comparison_of_fewer_than_three_answers_is_refused_before_the_writer_is_asked",),
    ),
    Mutant(
        "contract-without-candidates",
        "the contract does not look at what an answerer says of public answers",
        "testing/answerers.py",
        "            candidates(self.answerer, self.subject, self.report, self._usual, self._taken or RELATIONS)\n",
        "            pass\n",
        ("tests/contracts/test_wrong_entries.py::test_a_wrong_answerer_is_noticed",),
    ),
    Mutant(
        "free-answers-of-any-fitted-file",
        "a run of free answers is resumed with another fitted file, and told under that file's certificate",
        "answering/run.py",
        "if self._fitted is not None:  # two files",
        "if not self.questions:  # two files",
        ("tests/cli/test_answer.py::test_free_answers_are_resumed_with_their_own_fitted_file_alone",),
    ),
    Mutant(
        "answer-read-before-its-charge",
        "experts write from private records before the answer is charged",
        "answering/session.py",
        "        account.reserve([reservation])\n",
        "        ensemble.ask(query, public.zero_shot)\n        account.reserve([reservation])\n",
        _ORDER,
    ),
    Mutant(
        "answer-never-charged",
        "the charge of an answer is only tried",
        "answering/session.py",
        "        account.reserve([reservation])\n",
        "        account.check([reservation])\n",
        _ORDER,
    ),
    Mutant(
        "long-answer-noted-behind-its-draw",
        "that an answer's draw begins is noted when it is over",
        "answering/session.py",
        "            begin()\n        drawn = self._drawn(plan, outputs, public)\n",
        "            pass\n        drawn = self._drawn(plan, outputs, public)\n"
        "        if not self.reads_by_coins:\n            begin()\n",
        _ORDER,
    ),
    Mutant(
        "samples-of-experts-are-free",
        "records are dealt out to experts by other coins and read again under one charge",
        "answering/session.py",
        "        if self.reads_by_coins:  # read again",
        "        if False:  # read again",
        (_DOOR + "test_where_coins_decide_what_is_read_the_draw_begins_before_the_read",),
    ),
    Mutant(
        "random-subset-is-no-coin",
        "a random subset of the records that experts see counts as fixed, and is drawn again under one charge",
        "answering/session.py",
        "return self.sampling.is_fresh or self.sampling.experts is not None or self.sampling.shots > 1",
        "return self.sampling.is_fresh or self.sampling.shots > 1",
        (_DOOR + "test_where_coins_decide_what_is_read_the_draw_begins_before_the_read",),
    ),
    Mutant(
        "what-was-drawn-answers-another-question",
        "what was drawn for one question is shown for another one that has its name",
        "answering/session.py",
        "            if kept is None or kept.query != query:\n                kept = self",
        "            if kept is None:\n                kept = self",
        (_DOOR + "test_what_was_drawn_for_one_question_answers_no_other",),
    ),
    Mutant(
        "private-examples-are-public",
        "private records are taken for public examples, and shown in clear",
        "answering/session.py",
        '        require_public(rows, "the public examples", beside=self._records)\n',
        "",
        (_DOOR + "test_private_records_are_not_taken_for_public_examples",),
    ),
    Mutant(
        "host-is-not-told",
        "a statement does not say who saw the prompts",
        "release.py",
        "        if not self.host:\n            return scope\n",
        "        if True:\n            return scope\n",
        (_DOOR + "test_the_statement_says_what_is_public_and_who_runs_the_model",),
    ),
    Mutant(
        "begun-answer-drawn-again",
        "an answer whose draw began and was cut off is drawn again under its charge",
        "answering/session.py",
        "        account.begin([release_id])\n",
        "        pass\n",
        _KILLED,
    ),
    Mutant(
        "saved-answer-drawn-again",
        "an answer that was whole on the disk and not noted is drawn again",
        "answering/run.py",
        "        if standing is not None and not standing.left and account is not None:\n"
        "            digest = hashlib.sha256(content).hexdigest()\n"
        "            account.mark_released([self.charge.id], {self.charge.id: digest}, isolated=isolation.holds)\n",
        "        if standing is not None and not standing.left and account is not None:\n            return None\n",
        (_RUNS + "test_what_was_whole_on_the_disk_is_what_leaves",),
    ),
    Mutant(
        "answer-noted-before-it-is-saved",
        "an answer is noted as leaving before it is on the disk",
        "answering/session.py",
        "            hash_ = None if keeper is None else keeper.save(drawn)\n"
        "            saved = None if hash_ is None else {release_id: hash_}\n"
        "            account.mark_released([release_id], saved, isolated=drawn.isolation.holds)\n",
        "            account.mark_released([release_id], isolated=drawn.isolation.holds)\n"
        "            if keeper is not None:\n"
        "                keeper.save(drawn)\n",
        _KILLED,
    ),
    Mutant(
        "any-file-is-a-draw",
        "a file that was planted in the folder of a run is taken for what was drawn",
        "answering/run.py",
        "return content if hmac.compare_digest(seal, self._seal(name, content)) else None",
        "return content or None",
        (_RUNS + "test_a_file_that_this_run_did_not_seal_is_no_draw",),
    ),
    Mutant(
        "public-side-of-now",
        "what was drawn before a restart refers to public answers that are written anew",
        "answering/session.py",
        '            candidates=tuple(texts["candidates"]),\n',
        "            candidates=self.public_side(query).candidates,\n",
        (_RUNS + "test_the_public_side_that_a_draw_refers_to_is_the_one_of_the_draw",),
    ),
    Mutant(
        "unused-answer-options",
        "an option that a method of long answers does not use is taken and forgotten",
        "cli/answer.py",
        "        _require_used(method)\n",
        "",
        ("tests/cli/test_answer.py::test_an_option_that_the_method_does_not_use_is_refused",),
    ),
    Mutant(
        "draw-not-rehearsed",
        "what a draw refuses for public reasons is found out when the answer is charged",
        "answering/session.py",
        "        self._rehearse(plan, ensemble, public)\n",
        "",
        (_DOOR + "test_what_a_draw_refuses_for_public_reasons_is_refused_before_the_charge",),
    ),
    Mutant(
        "unfinished-answer-without-its-name",
        "an answer that was paid for and could not be finished has a name that nobody is told",
        "answering/session.py",
        "retryable=error.retryable, release_id=name) from error",
        "retryable=error.retryable) from error",
        (_DOOR + "test_an_answer_that_could_not_be_finished_is_finished_later_from_what_was_drawn",),
    ),
    Mutant(
        "any-choice-is-resumed",
        "a resumed run takes whatever was chosen from other records, at another price, for its own",
        "cli/answer.py",
        "                fitting.require_own(fitted, str(place))\n",
        "",
        ("tests/cli/test_answer.py::test_a_choice_of_other_records_or_settings_is_not_taken_for_ones_own",),
    ),
    Mutant(
        "choice-paid-before-its-writer",
        "a choice is paid for before the model that answers after it is looked at",
        "cli/answer.py",
        "        self._require_answers(questions, fitting.plan.fitter.most_texts(setting) // setting.labels)\n",
        "",
        ("tests/cli/test_answer.py::test_a_choice_is_paid_for_when_its_writer_was_seen_to_write",),
    ),
    Mutant(
        "choice-paid-for-no-answer",
        "a choice is paid for where the writer was seen to write nothing for the question",
        "answering/session.py",
        "        if not any(texts):\n",
        "        if False:\n",
        ("tests/cli/test_answer.py::test_a_choice_is_not_paid_for_where_the_writer_has_no_answer_to_a_question",),
    ),
    Mutant(
        "choice-paid-after-one-example-fitted",
        "a choice is paid for where its examples may not fit the prompt, and answers are those without any",
        "cli/answer.py",
        "fitting.plan.fitter.most_texts(setting) // setting.labels)\n",
        "min(1, setting.labels))\n",
        (
            "tests/cli/test_answer.py::"
            "test_a_choice_is_paid_for_only_where_the_longest_examples_that_it_can_leave_fit_the_prompt",
        ),
    ),
    Mutant(
        "folder-beside-a-choice-is-removed",
        "whatever has the name of a run's folder is removed where the fitted file is there, a paid run too",
        "cli/answer.py",
        "            _say_what_is_left(place)\n",
        "            __import__('shutil').rmtree(folder_of(place), ignore_errors=True)\n",
        ("tests/cli/test_answer.py::test_a_choice_of_other_records_or_settings_is_not_taken_for_ones_own",),
    ),
    Mutant(
        "folder-beside-a-choice-is-not-named",
        "a folder that may be as private as the records stays without a word",
        "cli/answer.py",
        "            _say_what_is_left(place)\n",
        "",
        ("tests/cli/test_answer.py::test_a_choice_of_other_records_or_settings_is_not_taken_for_ones_own",),
    ),
    Mutant(
        "answers-without-their-ids",
        "answers of a finished run are taken for those of the same questions under other ids",
        "cli/answers.py",
        "return hash_of(questions.items())",
        "return hash_of(questions.values())",
        ("tests/cli/test_answer.py::test_answers_do_not_stand_for_the_same_questions_under_other_ids",),
    ),
]
