"""Planted where private records become synthetic rows: sums, batches, charges, second draws, certificates."""

from __future__ import annotations

from mutants.mutant import Mutant

_LAWS = "tests/methods/decoding/test_laws.py::"
_LOCKSTEP = "tests/experts/test_lockstep.py::"
_RUNS = "tests/synthesis/test_synthesizer.py::"
_CRASHES = "tests/synthesis/test_crashes.py::"
_ATTACKS = "tests/synthesis/test_attacks.py::"
_PROOFS = "tests/synthesis/test_certificates.py::"
RANGE = (_LAWS + "test_no_token_loses_more_than_its_bounded_range",)
BATCHES = (
    "tests/experts/test_batches.py::test_another_record_moves_nobody_else",
    "tests/experts/test_batches.py::test_a_unit_of_several_records_is_one_expert_with_the_label_of_its_first",
)
KILLED = (_CRASHES + "test_a_run_that_is_killed_goes_on_without_a_second_charge_or_a_second_draw",)
_TANG = "tests/methods/test_tang.py::"
FORGED = (
    _PROOFS + "test_a_forged_certificate_is_found_out",
    _PROOFS + "test_rows_that_never_left_are_found_out_by_the_ledger_though_the_certificate_names_their_hash",
    _PROOFS + "test_a_seeded_or_unverified_run_cannot_pass_for_another",
)

MUTANTS = [
    Mutant(
        "row-not-clipped-from-below",
        "an expert's logits are cut at the top of their interval alone",
        "experts/clipping.py",
        "return steps.floor_().clamp_(self.low, self.high).mul_(speaks)",
        "return steps.floor_().clamp_(max=self.high).mul_(speaks)",
        RANGE,
    ),
    Mutant(
        "null-expert-speaks",
        "a row that says nothing counts as the public prompt's",
        "experts/clipping.py",
        "rows = torch.nan_to_num(block.float(), nan=-math.inf, posinf=math.inf, neginf=-math.inf)",
        "rows = torch.nan_to_num(torch.where(block.isfinite().any(1, keepdim=True), block.float(), 1.0), nan=-9.0)",
        (_LOCKSTEP + "test_a_broken_row_adds_nothing_and_an_absent_one_is_the_same",),
    ),
    Mutant(
        "width-of-one-side",
        "differences clipped to both sides are taken to be as wide as one of them",
        "experts/clipping.py",
        "return self.high - self.low",
        "return max(self.high, -self.low)",
        RANGE,
    ),
    Mutant(
        "swap-charged-as-a-drop",
        "sums are taken to move by one width whatever the change",
        "experts/token_scores.py",
        "sensitivity=rule.width * change.widths",
        "sensitivity=rule.width",
        RANGE,
    ),
    Mutant(
        "barred-tokens-are-candidates",
        "control tokens can be chosen",
        "experts/token_scores.py",
        "    if forbidden_tokens is not None:\n        logits = logits.index_fill(0, forbidden_tokens, -torch.inf)\n",
        "",
        (_RUNS + "test_control_tokens_are_never_written",),
    ),
    Mutant(
        "interval-not-looked-at",
        "the interval of rows is not looked at before they are summed",
        "experts/token_scores.py",
        "outside |= ~((least >= rule.low) & (most <= rule.high))",
        "outside |= (least < rule.low) & (most > rule.high)",
        (_LOCKSTEP + "test_a_rule_that_leaves_its_interval_is_caught",),
    ),
    Mutant(
        "batch-by-place",
        "units go to batches in turn, among those of their label, so that one more moves all behind it",
        "experts/batches.py",
        "self._members[label * per_label + batch].append(kept)",
        "self._members[label * per_label + sum(map(len, self._members)) % per_label].append(kept)",
        ("tests/experts/test_batches.py",),
    ),
    Mutant(
        "unit-in-every-batch-of-its-label",
        "a unit is in all batches of its label, each charged as if it were in one",
        "experts/batches.py",
        "self._members[label * per_label + batch].append(kept)",
        "for batch in range(per_label):\n                self._members[label * per_label + batch].append(kept)",
        ("tests/experts/test_batches.py::test_every_unit_is_in_one_batch_of_its_label",),
    ),
    Mutant(
        "one-expert-for-each-record",
        "each record of a unit is an expert by itself",
        "experts/batches.py",
        "self._members[label * per_label + batch].append(kept)",
        "self._members[label * per_label + batch].extend([row] for row in kept)",
        BATCHES,
    ),
    Mutant(
        "texts-of-a-batch-charged-once",
        "however many texts a batch writes, one is priced",
        "methods/decoding/decoder.py",
        "repeated(part.row.event(change), part.steps * setting.texts)",
        "repeated(part.row.event(change), part.steps)",
        (_RUNS + "test_what_is_charged_is_within_the_price_under_every_method_and_adjacency",),
    ),
    Mutant(
        "tests-of-agreement-are-free",
        "the noisy tests of Amin et al. are not in the price",
        "methods/amin.py",
        "return [Part(token, self.runs(setting)), Part(test, self.runs(setting))]",
        "return [Part(token, self.runs(setting)), Part(test, 0)]",
        ("tests/methods/test_amin.py",),
    ),
    Mutant(
        "one-threshold-for-all-runs",
        "a crossed threshold is kept for the next test",
        "methods/amin.py",
        "        self._run = None\n        self.private_tokens += 1\n",
        "        self._run.over = False\n        self.private_tokens += 1\n",
        ("tests/methods/test_amin.py",),
    ),
    Mutant(
        "read-before-the-charge",
        "the model reads private prompts, and then the ledger is charged",
        "synthesis/synthesizer.py",
        "        self._charge(self._request(run_state, standings), waiting)\n",
        "        self.model.read(self._batches.groups(), max_private_tokens=9, tokens=self.order.tokens).close()\n"
        "        self._charge(self._request(run_state, standings), waiting)\n",
        (_RUNS + "test_a_budget_that_does_not_suffice_is_refused_before_the_model_reads_anything",),
    ),
    Mutant(
        "lost-round-drawn-again",
        "a round that left and whose file is gone is drawn anew",
        "synthesis/synthesizer.py",
        "            elif standing is not None and standing.left:\n",
        "            elif standing is not None and standing.left:\n                waiting.append(last.again)\n",
        (_RUNS + "test_a_round_that_left_and_is_gone_is_not_drawn_again",),
    ),
    Mutant(
        "handed-over-before-its-note",
        "texts are handed over, then noted",
        "synthesis/synthesizer.py",
        "            self._note(charge, texts, saved)\n            if on_token",
        "            yield from self._unfolded(charge.number, texts, again=False)\n"
        "            self._note(charge, texts, saved)\n            if on_token",
        (_RUNS + "test_what_is_handed_over_was_noted_before",),
    ),
    Mutant(
        "whole-round-thrown-away",
        "a round that is whole on the disk is drawn a second time",
        "synthesis/synthesizer.py",
        "if loaded is None or not _are_texts(loaded[0], labels):",
        "if loaded is not None:",
        (_ATTACKS + "test_a_round_that_is_whole_on_the_disk_is_the_one_that_leaves",),
    ),
    Mutant(
        "progress-before-a-round-has-left",
        "the bar moves when a round is drawn, before it is noted",
        "synthesis/synthesizer.py",
        "            saved = checkpoint.save(charge.name, texts) if checkpoint else _hash_of(texts)\n",
        "            saved = checkpoint.save(charge.name, texts) if checkpoint else _hash_of(texts)\n"
        "            on_token and on_token(0)\n",
        (_ATTACKS + "test_progress_tells_nothing_before_its_round_has_left",),
    ),
    Mutant(
        "no-room-made",
        "a round is drawn without room to put it aside",
        "synthesis/synthesizer.py",
        "                    checkpoint.make_room(room_of(self.order, self.writing, self._texts_of_a_charge))\n",
        "                    pass\n",
        (_ATTACKS + "test_whether_a_round_can_be_put_aside_does_not_follow_from_it",),
    ),
    Mutant(
        "packed-for-one-user-alone",
        "whoever leaves first takes the packed matrices from the others",
        "models/lockstep/packed.py",
        "                if not self._within:\n",
        "                if True:\n",
        ("tests/models/lockstep/test_packed_matrices.py",),
    ),
    Mutant(
        "models-own-words-pass",
        "what the model says of its failure over private prompts is shown",
        "synthesis/synthesizer.py",
        "            return work()\n        except BaseException as raised:\n",
        "            return work()\n        except SottoError:\n            raise\n"
        "        except BaseException as raised:\n",
        (_ATTACKS + "test_a_failure_after_the_charge_does_not_quote_the_model_not_even_its_own_errors",),
    ),
    Mutant(
        "resume-under-any-ledger",
        "a run may be resumed under a ledger that never charged it",
        "synthesis/synthesizer.py",
        '            "records and ledger": self._account.keyed("staging", self._records.fingerprint),\n',
        "",
        (_ATTACKS + "test_a_resume_under_another_ledger_is_refused_and_destroys_nothing",),
    ),
    Mutant(
        "the-lock-stays-on-texts",
        "an interrupt keeps the folder of its run locked",
        "cli/synthesize.py",
        "    finally:\n        checkpoint.close()  # an error keeps it alive, and its lock would keep a resume out\n",
        "",
        (_ATTACKS + "test_an_interrupt_while_the_model_works_keeps_what_is_paid",),
    ),
    Mutant(
        "event-not-held-against-the-ledger",
        "a certificate's epsilon is believed, whatever was charged",
        "synthesis/certificate.py",
        'return self._is_covered(what, lambda: [event_from_json(_detail(entry)["event"]) for entry in paid])',
        'return Check(what, True, "noted")',
        FORGED,
    ),
    Mutant(
        "rows-that-left-once-twice",
        "a file that holds the rows of one charge twice is certified",
        "synthesis/certificate.py",
        "bisect_left(at, charge)) < len(at)",
        "bisect_left(at, 0)) < len(at)",
        ("tests/synthesis/test_certificates.py::test_rows_are_taken_apart_whatever_charges_were_lost",),
    ),
    Mutant(
        "another-point-of-the-profile",
        "a certificate's epsilon and delta are not compared with what was asked for",
        "synthesis/certificate.py",
        'expected |= {"epsilon": request["epsilon"], "delta": request["delta"]}',
        "pass",
        (
            "tests/synthesis/test_certificates.py::test_no_other_point_of_its_profile_takes_the_place_of_the_price_that_was_asked_for",
        ),
    ),
    Mutant(
        "rows-not-held-against-the-ledger",
        "whatever rows a certificate names are taken to have left",
        "synthesis/certificate.py",
        "return Check(what, covered == len(rows) and bool(noted), words)",
        "return Check(what, bool(noted), words)",
        FORGED,
    ),
    Mutant(
        "no-charge-is-every-charge",
        "a certificate that names no charge counts as charged",
        "synthesis/certificate.py",
        "whole = bool(ids) and len(ids)",
        "whole = len(ids)",
        FORGED,
    ),
    Mutant(
        "plain-hash-of-the-records",
        "the certificate's hash of the records has no key",
        "synthesis/synthesizer.py",
        "data=self._account.data_hash(run, self._records.fingerprint),",
        "data=self._records.fingerprint,",
        (_PROOFS + "test_neither_certificate_nor_export_nor_folder_confirms_a_guess_of_the_records",),
    ),
    Mutant(
        "no-coin-tossed",
        "every expert has a say in every token, though the charge is that of a sample",
        "methods/tang.py",
        "        if not self._coins(plan.setting):\n            return step\n",
        "        return step\n",
        (_TANG + "test_every_expert_tosses_a_fresh_coin_at_every_token",),
    ),
    Mutant(
        "sums-over-a-sample-divided-by-all",
        "the charge is that of a mean over all experts, the noise that of a sample's",
        "methods/tang.py",
        "return max(1, int(exact(self.sampling_rate or 0) * setting.experts))",
        "return setting.experts",
        (_TANG + "test_the_divisor_is_the_expected_size_of_a_sample",),
    ),
    Mutant(
        "amplified-for-any-adjacency",
        "a coin for every expert is amplified under replace-one as well",
        "synthesis/config.py",
        'if fresh == "token" and (adjacency is not Adjacency.ADD_REMOVE or',
        'if fresh == "token" and (False or',
        ("tests/synthesis/test_fresh_samples.py::test_where_amplification_does_not_hold_nothing_is_charged",),
    ),
    Mutant(
        "a-folders-price-is-taken-over",
        "a run that goes on is charged and certified at the price that its folder notes",
        "synthesis/synthesizer.py",
        "if not standings or any(standing.asked not in hashes for standing in standings):",
        "if False:",
        ("tests/synthesis/test_fresh_samples.py::test_a_folder_that_was_edited_lowers_no_price",),
    ),
    Mutant(
        "any-noted-price-is-restated",
        "a run that goes on states whatever price its folder notes",
        "synthesis/config.py",
        " or not math.isclose(report.epsilon, epsilon, rel_tol=report.rounding)",
        "",
        ("tests/synthesis/test_fresh_samples.py::test_a_price_is_restated_where_it_differs_by_rounding_alone",),
    ),
    Mutant(
        "grammar-not-in-the-terms",
        "a run under a grammar may be resumed without it",
        "synthesis/config.py",
        '        "grammar": writing.grammar,\n',
        "",
        ("tests/synthesis/test_grammar.py",),
    ),
    Mutant(
        "grammar-ignored",
        "the grammar is asked and any token is chosen",
        "synthesis/text.py",
        "_chooser.next(step, allowed)",
        "_chooser.next(step)",
        ("tests/synthesis/test_grammar.py",),
    ),
]
