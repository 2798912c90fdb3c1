"""Planted where a charge is drawn once, where hashes of the records are keyed, and where requests are committed to."""

from __future__ import annotations

from mutants.mutant import Mutant

_ONCE = "tests/synthesis/test_one_draw.py::"
_CRASHES = "tests/synthesis/test_crashes.py::"
_PROOFS = "tests/synthesis/test_certificates.py::"
_MOVES = "tests/privacy/ledger/test_migrations.py::"
_SECOND = (_CRASHES + "test_a_run_that_is_killed_goes_on_and_no_charge_is_drawn_twice",)

MUTANTS = [
    Mutant(
        "no-candidate-is-a-failure",
        "a text whose public prompt has no finite score left fails where it can be seen",
        "methods/decoding/sampler.py",
        "        token = None if public is None else self._draw(step, public)\n",
        "        if public is None:\n            raise ParameterError('public', 'nothing', 'a score')\n"
        "        token = self._draw(step, public)\n",
        (_ONCE + "test_a_public_prompt_that_breaks_off_ends_the_text_and_is_no_failure",),
    ),
    Mutant(
        "grammar-that-breaks-off-is-a-failure",
        "a token that the grammar refuses fails where it can be seen",
        "synthesis/text.py",
        "        except BaseException as error:  # of the grammar or the tokenizer, over tokens that were drawn\n"
        "            if not is_models(error):\n                raise\n            return True\n",
        "        except ZeroDivisionError:\n            return True\n",
        (_ONCE + "test_whatever_tokens_lead_to_ends_the_text",),
    ),
    Mutant(
        "far-prior-is-a-failure",
        "a public prior of a large range is refused, which follows from the tokens drawn so far",
        "mechanisms/exponential.py",
        "    return np.maximum(steps, -MOST).astype(np.int64), kept\n",
        "    if steps.min() < -MOST:\n"
        "        raise ParameterError('log_prior', 'a large range', 'a smaller range')\n"
        "    return steps.astype(np.int64), kept\n",
        (_ONCE + "test_no_decoder_fails_over_what_it_drew",),
    ),
    Mutant(
        "infinite-prior-is-a-failure",
        "a public prior is divided by the temperature before its best is taken off, and may be infinite",
        "experts/token_scores.py",
        "(logits - logits.max()) / temperature",
        "logits / temperature",
        (_ONCE + "test_a_public_prior_has_a_candidate_in_play_at_every_temperature",),
    ),
    Mutant(
        "begun-round-drawn-again",
        "a round that began and was cut off is drawn again under its charge",
        "synthesis/synthesizer.py",
        "                self._account.begin([charge.id])\n",
        "                pass\n",
        _SECOND,
    ),
    Mutant(
        "begun-after-the-draw",
        "that a draw began is noted when it is over",
        "synthesis/synthesizer.py",
        "                begin(charge)\n                yield charge, self._withheld(lambda: self._drawn(read))\n",
        "                drawn = self._withheld(lambda: self._drawn(read))\n"
        "                begin(charge)\n                yield charge, drawn\n",
        _SECOND,
    ),
    Mutant(
        "coins-of-batches-are-free",
        "records are dealt out by other coins and read again under the same charges",
        "synthesis/synthesizer.py",
        "if self.order.batches_per_label > 1:",
        "if self.order.batches_per_label > 10**9:",
        (_ONCE + "test_to_read_again_is_free_unless_coins_decide_what_is_read",),
    ),
    Mutant(
        "answer-noted-after-its-draw",
        "an answer whose draw fails is drawn again under its name",
        "session.py",
        "            self._account.mark_released(ids, isolated=terms.isolation.holds)\n"
        "        values = [self.method.choose(output, terms.price, self._randomness) for output in outputs]\n",
        "            pass\n"
        "        values = [self.method.choose(output, terms.price, self._randomness) for output in outputs]\n"
        "        if self._account:\n            self._account.mark_released(ids)\n",
        (_ONCE + "test_an_answer_whose_draw_fails_is_not_drawn_again_under_its_charge",),
    ),
    Mutant(
        "coins-of-slots-are-free",
        "an answer is asked again under its name though other coins share the units out",
        "session.py",
        "isinstance(self.method, Subsampling) or self.partition.is_random",
        "isinstance(self.method, Subsampling)",
        (
            _ONCE
            + "test_an_answer_that_could_not_be_read_is_asked_again_for_nothing_where_no_coin_decides_what_is_read",
        ),
    ),
    Mutant(
        "begun-twice",
        "two processes draw under one charge",
        "privacy/ledger/account.py",
        "                if len(entries) > 1:\n                    raise LedgerMismatchError(\n"
        '                        f"The answer {release_id!r} began',
        "                if len(entries) > 2:\n                    raise LedgerMismatchError(\n"
        '                        f"The answer {release_id!r} began',
        (_ONCE + "test_two_processes_never_draw_under_one_charge",),
    ),
    Mutant(
        "lost-draws-are-not-in-the-certificate",
        "a certificate names the newest charge of every round, at the price of the plan",
        "synthesis/synthesizer.py",
        "charges = [charge for number in self._numbers for charge in attempts(standings, run, number)]",
        "charges = [newest(standings, run, number) for number in self._numbers]",
        (_ONCE + "test_the_certificate_is_for_every_charge_of_its_run",),
    ),
    Mutant(
        "plain-commitment-to-the-records",
        "the chain holds a hash of the fingerprint without a key",
        "privacy/ledger/secret.py",
        'return hmac.new(key.encode(), f"sottovoce',
        'return hmac.new(b"", f"sottovoce',
        (
            "tests/privacy/ledger/test_export.py::test_no_column_of_an_export_is_a_secret_or_follows_from_the_records_without_the_key",
        ),
    ),
    Mutant(
        "secrets-in-the-export",
        "the key of the records stands in the entry that opens them",
        "privacy/ledger/ledger.py",
        'detail = {**values, "records": keyed(key, RECORDS, identity.fingerprint)}',
        'detail = {**values, "key": key, "records": keyed(key, RECORDS, identity.fingerprint)}',
        (
            "tests/privacy/ledger/test_export.py::test_no_column_of_an_export_is_a_secret_or_follows_from_the_records_without_the_key",
        ),
    ),
    Mutant(
        "plain-hash-in-the-folder-of-a-run",
        "the folder of a run says which records it is of by a hash without a key",
        "synthesis/synthesizer.py",
        'self._account.keyed("staging", self._records.fingerprint)',
        'hashlib.sha256(b"sottovoce staging" + self._records.fingerprint.encode()).hexdigest()',
        (_PROOFS + "test_neither_certificate_nor_export_nor_folder_confirms_a_guess_of_the_records",),
    ),
    Mutant(
        "hash-of-a-run-printed",
        "a resume with other records names both hashes",
        "files/checkpoint.py",
        "if _UNSPOKEN in changed:",
        "if not changed:",
        (_PROOFS + "test_a_resume_with_other_records_names_no_hash",),
    ),
    Mutant(
        "folder-known-by-its-name",
        "a run writes into the folder of another run that took the name of its own, and removes it",
        "files/run_folder.py",
        "return os.path.samestat(os.fstat(self._folder), path.lstat())",
        "return path.exists()",
        ("tests/synthesis/test_checkpoint.py",),
    ),
    Mutant(
        "old-head-in-the-open",
        "a moved ledger names the head that covered the fingerprints",
        "privacy/ledger/migrations/versions/format_3.py",
        '{"from": down_revision, ',
        '{"from": down_revision, "head": head, ',
        (_MOVES + "test_a_guess_of_the_records_is_not_confirmed_by_what_a_moved_ledger_exports",),
    ),
    Mutant(
        "key-left-in-the-note",
        "a moved ledger still has the keys of certificates in its notes",
        "privacy/ledger/migrations/versions/format_3.py",
        '            detail["note"] = _KEY.sub("", detail["note"])\n',
        "",
        (_MOVES + "test_the_secrets_of_format_2_leave_its_entries_and_nothing_else_changes",),
    ),
    Mutant(
        "broken-chain-mended-by-the-move",
        "every entry gets a good hash when a ledger is moved, whether it was whole or not",
        "privacy/ledger/migrations/versions/format_3.py",
        'entry["hash"] = _hash_of(entry) if whole else was',
        'entry["hash"] = _hash_of(entry)',
        (_MOVES + "test_a_ledger_of_format_2_that_was_not_whole_is_not_made_whole_by_the_move",),
    ),
    Mutant(
        "redaction-believed-anywhere",
        "openings and versions are not held against their hashes, in any export",
        "privacy/ledger/verify.py",
        'return history.redacted and entry["kind"] in _LEFT',
        'return history.fingerprints is None and entry["kind"] in _LEFT',
        (_MOVES + "test_an_export_that_is_said_to_be_of_another_format_does_not_agree",),
    ),
    Mutant(
        "an-older-export-agrees",
        "an export of the older format is said to agree, although a charge may be hidden behind a redacted entry",
        "privacy/ledger/recompute.py",
        '"agrees": None if self.agrees and self.unheld else self.agrees,',
        '"agrees": self.agrees,',
        (_MOVES + "test_an_export_of_format_2_never_agrees_and_names_every_entry_that_rests_on_it_alone",),
    ),
    Mutant(
        "a-later-chain-under-an-older-number",
        "an export whose chain a later format wrote is read as one of the older format, which holds less",
        "privacy/ledger/verify.py",
        '_LATER_KINDS: Final = ("draw", "migrate")',
        "_LATER_KINDS: Final = ()",
        (_MOVES + "test_an_export_that_is_said_to_be_of_another_format_does_not_agree",),
    ),
    Mutant(
        "a-part-of-a-run-is-a-run",
        "charges of the run that a certificate does not name are not looked for",
        "synthesis/certificate.py",
        'if match and match["run"] in runs and entry["kind"] in entries:',
        'if match and entry["release_id"] in self.ledger and entry["kind"] in entries:',
        (_MOVES + "test_a_certificate_of_format_1_holds_after_the_move_and_says_what_it_cannot_show",),
    ),
    Mutant(
        "request-not-held-against-the-charge",
        "what a certificate says was asked for is believed",
        "synthesis/certificate.py",
        'if detail.get("asked") != request:',
        "if False:",
        (_PROOFS + "test_no_word_of_the_request_can_be_changed",),
    ),
    Mutant(
        "request-not-held-against-the-certificate",
        "the words of a certificate need not be those that were asked for",
        "synthesis/certificate.py",
        "return Check(what, not differs, ",
        "return Check(what, True, ",
        (_PROOFS + "test_no_word_of_the_request_can_be_changed",),
    ),
]
