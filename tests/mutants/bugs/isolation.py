"""Planted bugs: shapes and places that follow from private numbers, failures that do not stay with their expert."""

from __future__ import annotations

from mutants.mutant import Mutant

_NUMBER = "tests/models/lockstep/test_number_of_experts.py::"
_SHAPES = _NUMBER + "test_no_shape_follows_from_the_number_of_experts"
_STEPPER = "tests/models/lockstep/test_stepper.py::"
_READING = "tests/experts/test_reading.py::"
_HIDDEN = "tests/models/huggingface/test_hidden_states.py::"

MUTANTS = [
    Mutant(
        "a-lone-row-is-not-filled",
        "the last pass has as many rows as experts are left, so a lone one goes through another kernel",
        "models/lockstep/decoding.py",
        "passes.append(_Pass(rows or 0, [], [], []))",
        "passes.append(_Pass(0, [], [], []))",
        (_SHAPES,),
    ),
    Mutant(
        "the-heads-last-product-is-not-filled",
        "the last product with the output head has as many rows as experts are left",
        "models/lockstep/decoding.py",
        "len(states) if public else self._head_rows)",
        "len(states))",
        (_SHAPES,),
    ),
    Mutant(
        "public-among-experts",
        "public prompts stand in the passes of experts, at places that follow from how many there are",
        "models/lockstep/decoding.py",
        "[*self._in_passes(self._public_panels(), None), *self._in_passes(self._panels(), self._rows)]",
        "self._in_passes([*self._panels(), *self._public_panels()], self._rows)",
        (_SHAPES,),
    ),
    Mutant(
        "rows-follow-from-how-many-there-are",
        "shared attention is one product over the experts that are there, whose kernel follows from their number",
        "models/lockstep/decoding.py",
        "places = slice(first, first + slots)",
        "places = slice(first, first + len(experts))",
        (_SHAPES,),
    ),
    Mutant(
        "shapes-of-a-run-are-not-tried",
        "the self-test runs at its own shapes alone, and the run at others",
        "models/lockstep/stepper.py",
        "            if shape in self._tried:\n",
        "            if shape not in self._tried:\n",
        (_NUMBER + "test_what_fails_at_the_shape_of_a_run_alone_is_found_in_its_rehearsal",),
    ),
    Mutant(
        "places-are-not-compared",
        "the self-test compares one row of a pass, and not all places",
        "models/lockstep/selftest.py",
        "if place < count and crowd.looked_at[place]:",
        "if place < count and crowd.looked_at[place] and place < 2:",
        (_NUMBER + "test_the_self_test_notices_a_head_where_places_matter",),
    ),
    Mutant(
        "rows-of-experts-are-verified",
        "rows whose lengths follow from private texts are called isolated by construction",
        "models/huggingface/label_scorer.py",
        'return Isolation.BY_CONSTRUCTION if self.layout == "queries" else Isolation.NOT_VERIFIED',
        "return Isolation.BY_CONSTRUCTION",
        ("tests/models/huggingface/test_label_scorer.py",),
    ),
    Mutant(
        "texts-centred-on-each-other",
        "the mean of the texts that are read together is taken off each of them, and not a public one",
        "models/text_vectors.py",
        "return unit(self._raw(texts) - self._centre)",
        "return unit((found := self._raw(texts)) - found.mean(axis=0))",
        (_HIDDEN + "test_no_other_text_changes_a_bit_of_a_vector",),
    ),
    Mutant(
        "vectors-of-any-dtype",
        "what tells hidden states from others leaves out the precision in which they were computed",
        "models/huggingface/hidden_states.py",
        'read = f"{self._model.dtype} {self.layer}',
        'read = f"{self.layer}',
        (_HIDDEN + "test_what_makes_the_vectors_is_in_the_name_and_in_the_hash",),
    ),
    Mutant(
        "a-model-that-remembers-is-verified",
        "an embedder whose vectors change with what it read before is called isolated by construction",
        "models/text_vectors.py",
        "return Isolation.BY_CONSTRUCTION if same else Isolation.NOT_VERIFIED",
        "return Isolation.BY_CONSTRUCTION",
        (_HIDDEN + "test_a_model_that_remembers_what_it_read_is_not_verified",),
    ),
    Mutant(
        "a-failed-expert-fails-the-answer",
        "whoever makes the model fail is seen, for no answer comes",
        "experts/reading.py",
        "            with OwnFailure():\n                if self._together is None:\n",
        "            if True:\n                if self._together is None:\n",
        (_READING + "test_whom_the_model_fails_on_is_null_and_nobody_else_is_touched",),
    ),
    Mutant(
        "a-failed-expert-votes",
        "an expert on whose prompt the model fails scores every label equally, and so votes for the first",
        "experts/reading.py",
        "return np.full((queries, len(self._task.labels)), np.nan)",
        "return np.zeros((queries, len(self._task.labels)))",
        (_READING + "test_a_record_that_makes_the_model_fail_moves_no_answer_past_epsilon",),
    ),
    Mutant(
        "a-broken-model-silences-everybody",
        "a record that breaks the model makes all experts behind it null",
        "experts/reading.py",
        "    scores = bare_scores(scorer, task, queries)\n",
        "    return\n    scores = bare_scores(scorer, task, queries)\n",
        (_READING + "test_a_model_that_is_broken_from_then_on_fails_the_whole_answer_and_makes_nobody_null",),
    ),
    Mutant(
        "memory-makes-experts-null",
        "an expert is null because others left no memory for it",
        "models/failures.py",
        "return any(_says_shared(cause) for cause in _all_of(error, before - {id(error)}))",
        "return False",
        (_READING + "test_what_experts_share_fails_the_whole_answer",),
    ),
    Mutant(
        "an-allocators-words-are-not-heard",
        "an expert is null where PyTorch says in a RuntimeError that the processor's memory ran out",
        "models/failures.py",
        "    if told or not isinstance(error, Exception):\n",
        "    if False:\n",
        (_READING + "test_what_experts_share_fails_the_whole_answer",),
    ),
    Mutant(
        "a-wrapped-failure-is-an-experts-own",
        "an expert is null where the error that says so was raised in place of one that experts share",
        "models/failures.py",
        "            waiting += [current.__cause__, current.__context__]\n",
        "",
        (_READING + "test_what_experts_share_fails_the_whole_answer",),
    ),
    Mutant(
        "a-model-that-says-nan-is-sound",
        "a record after which the model says NaN makes all experts behind it null",
        "experts/reading.py",
        "    if not np.isfinite(scores).all() or (rehearsed is not None and not same_bits(scores, rehearsed)):\n",
        "    if False:\n",
        (_READING + "test_a_model_that_says_other_things_from_then_on_fails_the_whole_answer",),
    ),
    Mutant(
        "nobody-looks-behind-the-last-expert",
        "a record that breaks the model without an exception makes all experts behind it null",
        "experts/reading.py",
        "        require_sound(self._scorer, self._task, [*queries, *self._empty], rehearsed)\n",
        "",
        (_READING + "test_a_model_that_says_other_things_from_then_on_fails_the_whole_answer",),
    ),
    Mutant(
        "a-busy-models-words-pass",
        "what a model says where it is busy is shown, though it may quote a record",
        "experts/reading.py",
        "    failure, order = type(error).__name__, bare_order(error)\n",
        "    failure, order = type(error).__name__, error if isinstance(error, ModelError) else bare_order(error)\n",
        (_READING + "test_words_of_a_model_stay_here_and_only_whether_to_try_again_leaves",),
    ),
    Mutant(
        "closing-fails-an-answer",
        "an answer that is paid for, or an order to stop, is lost to an error that quotes a record",
        "models/failures.py",
        "            ordered = bare_order(failed)\n",
        "            if (ordered := bare_order(failed)) is None:\n                raise failed\n",
        (_READING + "test_what_cannot_be_closed_takes_the_place_of_no_answer_and_no_order",),
    ),
    Mutant(
        "certified-before-the-rehearsal",
        "a resumed run with nothing left to draw is certified by what the model said before its shapes were tried",
        "synthesis/synthesizer.py",
        "        request_hash = asked_hash(self._request(run_state))\n"
        "        if any(standing.asked != request_hash for standing in standings.values()):\n",
        "        if False:\n",
        ("tests/synthesis/test_certificates.py",),
    ),
    Mutant(
        "a-failed-prompt-keeps-its-place",
        "a prompt on which the writing model fails counts as a prompt without a word, and speaks",
        "models/lockstep/prefill.py",
        '            raise StoppedError("The model does not read public text any more as it did before it failed.")\n'
        "        return False\n",
        '            raise StoppedError("The model does not read public text any more as it did before it failed.")\n'
        "        return True\n",
        (_STEPPER + "test_a_prompt_on_which_the_model_fails_is_a_null_row_and_others_are_not_touched",),
    ),
    Mutant(
        "a-broken-writer-silences-everybody",
        "a prompt that breaks the writing model makes all behind it null",
        "models/lockstep/prefill.py",
        "if not torch.isfinite(self._model.read(prefix)[1]).all():",
        "if False:",
        (_STEPPER + "test_a_model_that_recovers_before_the_last_prompt_fails_everybody_too",),
    ),
]
