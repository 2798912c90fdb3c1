"""Planted bugs: a failure that experts share makes one of them null, or one expert's own failure stops everybody."""

from __future__ import annotations

from mutants.mutant import Mutant

_READING = "tests/experts/test_reading.py::"
_PICTURES = "tests/models/vision/test_hostile_pictures.py::"
_ENCODER = "tests/models/embedded/test_sentence_encoder.py::"
_NEVER = "test_a_model_that_never_repeats_itself_is_"

MUTANTS = [
    Mutant(
        "a-decoder-without-memory-makes-an-expert-null",
        "a picture that cannot be decoded for lack of memory counts as damaged, so that others decide who is null",
        "models/failures.py",
        "        if has_room_to_decode():\n            return False\n",
        "        return False\n",
        (_PICTURES + "test_a_decoder_that_lacks_memory_makes_no_expert_null_and_damage_does",),
    ),
    Mutant(
        "a-small-picture-shows-the-memory",
        "behind a decoder's failure a picture is decoded that needs less memory than the largest",
        "records/decoder_memory.py",
        "MADE_UP_SIDE = 8_192\n",
        "MADE_UP_SIDE = 1_024\n",
        (_PICTURES + "test_the_made_up_picture_needs_more_than_any_that_is_decoded",),
    ),
    Mutant(
        "memory-that-comes-back-is-not-remembered",
        "who looks at a decoder's failure a second time looks at the memory of then",
        "models/failures.py",
        "        error.__cause__ = MemoryError()",
        "        pass",
        (_PICTURES + "test_what_was_found_out_of_a_failure_once_stays",),
    ),
    Mutant(
        "words-of-an-oserror-are-not-heard",
        "an OSError of a decoder that says that memory ran out counts as damage",
        "models/failures.py",
        "    told = isinstance(error, RuntimeError | OSError) or",
        "    told = isinstance(error, RuntimeError) or",
        (_READING + "test_a_decoders_words_are_heard",),
    ),
    Mutant(
        "words-of-the-encoders-runtime-are-not-heard",
        "an expert is null where onnxruntime says that the memory that all of them use ran out",
        "models/failures.py",
        'or type(error).__module__.startswith("onnxruntime.")',
        "or False",
        (_ENCODER + "test_memory_that_runs_out_in_the_runtime_makes_no_text_nan",),
    ),
    Mutant(
        "the-encoders-runtime-logs-word-pieces",
        "what onnxruntime says of a text that it cannot embed goes to stderr, with a number of the text's word pieces",
        "models/embedded/sentence_encoder.py",
        "    options.log_severity_level = SILENT\n",
        "",
        (_ENCODER + "test_a_text_that_the_runtime_cannot_embed_is_nan_and_is_not_quoted",),
    ),
    Mutant(
        "what-the-caller-handles-counts",
        "an expert's own failure is everybody's where the caller asks inside an except",
        "models/failures.py",
        "    before = set() if handled is None else {id(cause) for cause in _all_of(handled, set())}\n",
        "    before: set[int] = set()\n",
        (_READING + "test_what_the_caller_is_handling_has_no_part_in_a_failure",),
    ),
    Mutant(
        "an-order-to-stop-makes-an-expert-null",
        "a cancelled task or a timeout counts as a failure of the expert that was being read",
        "models/failures.py",
        "    return None if isinstance(error, Exception) or type(error).__name__ == _PANIC else error\n",
        "    return error if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)) else None\n",
        (_READING + "test_a_panic_is_a_failure_and_an_order_to_stop_is_none",),
    ),
    Mutant(
        "a-group-leaves-as-it-is",
        "an order to stop leaves in a group with the failures that came with it, which quote records",
        "models/failures.py",
        "    order = _order_in(error)\n",
        "    order = error if _order_in(error) else None\n",
        (_READING + "test_an_order_to_stop_leaves_without_what_was_written_beside_it",),
    ),
    Mutant(
        "notes-leave-with-an-order",
        "an order to stop leaves with the notes that a model wrote on it, which quote a record",
        "models/failures.py",
        "    bare = _empty(type(order), words)\n",
        '    bare = _empty(type(order), words)\n    bare.__notes__ = getattr(order, "__notes__", [])\n',
        (_READING + "test_an_order_to_stop_leaves_without_what_was_written_beside_it",),
    ),
    Mutant(
        "words-leave-with-an-order",
        "an order to stop leaves with its own words and attributes, which quote a record",
        "models/failures.py",
        "    bare = _empty(type(order), words)\n",
        "    bare = order.with_traceback(None)\n    bare.__cause__ = bare.__context__ = None\n",
        (_READING + "test_an_order_to_stop_leaves_without_words_of_its_own",),
    ),
    Mutant(
        "an-exit-leaves-with-its-words",
        "a program that is ended says what the model said of a record",
        "models/failures.py",
        "        code = code if code is None or type(code) is int else 1\n",
        "",
        (_READING + "test_an_order_to_stop_leaves_without_words_of_its_own",),
    ),
    Mutant(
        "all-words-of-a-cancelled-task-leave",
        "a cancelled task leaves with what was written behind the name of its scope",
        "models/failures.py",
        "        keeps = (scope[0],)\n",
        "        keeps = words\n",
        (_READING + "test_of_the_words_of_a_cancelled_task_the_scope_alone_is_kept",),
    ),
    Mutant(
        "an-order-is-emptied-by-its-own-class",
        "an exit whose class refuses what is set leaves with that refusal, and with the record behind it",
        "models/failures.py",
        "        _CODE.__set__(bare, code)\n",
        "        bare.code = code\n",
        (_READING + "test_a_class_that_refuses_or_answers_leaves_as_an_order_all_the_same",),
    ),
    Mutant(
        "an-order-leaves-while-a-failure-is-looked-at",
        "an order to stop that comes while a failure is asked for its words leaves with the failure",
        "experts/reading.py",
        "    except BaseException as raised:\n        error = raised\n    failure, order",
        "    except ZeroDivisionError as raised:\n        error = raised\n    failure, order",
        (_READING + "test_what_comes_while_a_failure_is_looked_at_does_not_carry_it",),
    ),
    Mutant(
        "colours-without-memory-make-an-expert-null",
        "a conversion of colours that lacks memory counts as a damaged profile",
        "models/failures.py",
        " or _is_of_colours(error):",
        ":",
        (_PICTURES + "test_a_conversion_of_colours_that_fails_is_nobodys_own",),
    ),
    Mutant(
        "one-damaged-picture-stops-every-answer",
        "a model of one's own that uses Pillow fails for everybody over one damaged picture",
        "models/failures.py",
        "    if _is_decoders(error):\n",
        "    if False:\n",
        (_PICTURES + "test_a_damaged_picture_is_null_for_a_model_of_ones_own_too",),
    ),
    Mutant(
        "looked-at-only-where-somebody-is-null",
        "the model is compared with its rehearsal only where an expert is null, which an error then tells",
        "experts/reading.py",
        "        require_sound(self._scorer, self._task, [*queries, *self._empty], rehearsed)\n",
        "        if not np.isfinite(scores).all():\n"
        "            require_sound(self._scorer, self._task, [*queries, *self._empty], rehearsed)\n",
        (_READING + _NEVER + "found_out_whether_or_not_anybody_is_null",),
    ),
    Mutant(
        "samples-are-looked-at-only-where-one-is-null",
        "the same for prompts that hold random samples",
        "experts/subsample.py",
        "        if public is not None:\n",
        "        if public is not None and not np.isfinite(rows).all():\n",
        (_READING + _NEVER + "found_out_whether_or_not_anybody_is_null",),
    ),
    Mutant(
        "asked-once-before-the-charge",
        "a model that never repeats itself is found out after the charge alone",
        "session.py",
        "            if not same_bits(again, scores[:, 0]):\n",
        "            if False:\n",
        ("tests/test_session.py::" + _NEVER + "refused_before_a_charge",),
    ),
    Mutant(
        "writers-are-looked-at-only-where-a-prompt-fails",
        "a writing model is compared with its first reading only where a prompt fails, which an error then tells",
        "models/lockstep/prefill.py",
        "                    if not torch.equal(self._model.read(prefix)[1], end):\n",
        "                    if any(group.null for group in self.groups) and not torch.equal(\n"
        "                        self._model.read(prefix)[1], end\n                    ):\n",
        (
            "tests/models/lockstep/test_stepper.py::"
            "test_a_model_that_never_repeats_itself_is_found_out_whether_or_not_a_prompt_failed",
        ),
    ),
    Mutant(
        "what-the-private-read-found-is-forgotten",
        "a run whose private read showed that prompts mix is certified by who goes on with it",
        "synthesis/synthesizer.py",
        "        if self.model.isolation.holds and any(",
        "        if False and any(",
        ("tests/synthesis/test_certificates.py::test_what_the_private_read_finds_is_not_forgotten_by_who_goes_on",),
    ),
    Mutant(
        "truncated-files-are-allowed",
        "where a program lets Pillow read truncated files, a decoder that lacks memory hands over a black picture",
        "records/decoder_memory.py",
        "allowed, ImageFile.LOAD_TRUNCATED_IMAGES = ImageFile.LOAD_TRUNCATED_IMAGES, False\n",
        "allowed = ImageFile.LOAD_TRUNCATED_IMAGES\n",
        (_PICTURES + "test_a_program_that_allows_truncated_files_gets_no_black_picture_where_memory_is_short",),
    ),
    Mutant(
        "jpeg-shows-the-memory-of-every-format",
        "a picture of a format that needs more memory than JPEG is null though its decoder may have lacked memory",
        "models/failures.py",
        "    if not _pictures_of(error).issubset(_OWN_PICTURES) or",
        "    if",
        (_PICTURES + "test_damage_in_a_format_whose_decoder_may_need_more_memory_is_nobodys_own",),
    ),
    Mutant(
        "looked-at-only-where-somebody-is-there",
        "the model is compared with its rehearsal only where there is an expert, which an error then tells",
        "experts/ensemble.py",
        "        elif public is not None:",
        "        elif False:",
        (_READING + _NEVER + "found_out_whether_or_not_anybody_is_there",),
    ),
    Mutant(
        "the-note-that-prompts-mixed-is-not-verified",
        "a certificate that says the model kept prompts apart holds against a ledger that notes that it did not",
        "synthesis/certificate.py",
        "holds and not mixed, found",
        "holds, found",
        (
            "tests/synthesis/test_certificates.py::"
            "test_a_certificate_that_passes_over_what_the_private_read_found_is_found_out_by_the_ledger",
        ),
    ),
]
