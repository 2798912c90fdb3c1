"""Planted where records are read again, where sums are kept on the way, and where workers' sums are counted."""

from __future__ import annotations

from mutants.mutant import Mutant

_STREAMS = "tests/records/test_streaming.py::"
_ENCODED = "tests/experts/test_encoded_streams.py::"
_RAY = "tests/experts/test_ray_engine.py::"
_STOPPED = "tests/survival/test_stopped_fits.py::"

MUTANTS = [
    Mutant(
        "dates-inside-a-value-are-one",
        "persons who are told by a map with a date beyond those of Python are one unit",
        "records/readers.py",
        '            return [(_value(part["key"]), _value(part["value"])) for part in cell.values]\n',
        "            return []\n",
        ("tests/records/test_readers.py::test_persons_told_by_dates_inside_a_value_are_not_made_one",),
    ),
    Mutant(
        "changed-file-is-read-on",
        "a file that is changed while it is read gives other records than those that were charged",
        "records/rereading.py",
        "        if self._standing() != before:\n",
        "        if self._standing() is None:\n",
        (_STREAMS + "test_a_file_that_is_changed_during_a_pass_is_refused_behind_it",),
    ),
    Mutant(
        "other-content-of-the-same-size",
        "a file is known by its size alone",
        "records/rereading.py",
        "        if self._digest() != self._content:\n",
        "        if self._digest()[0] != self._content[0]:\n",
        (_STREAMS + "test_a_file_that_was_changed_is_refused",),
    ),
    Mutant(
        "unit-that-comes-back-is-two",
        "rows of one person that stand apart become two units",
        "records/sealed.py",
        "        if chosen != RECORD_UNIT and not look.stand_together:\n",
        "        if chosen != RECORD_UNIT and not look.rows:\n",
        (_STREAMS + "test_units_whose_rows_stand_apart_are_held",),
    ),
    Mutant(
        "persons-by-cut-names",
        "two persons whose names begin alike are one unit where texts are cut, and one of them leaves at half a price",
        "records/sealed.py",
        "        return self.values if self.uncut is None else self.uncut\n",
        "        return self.values\n",
        ("tests/records/test_readers.py::test_cutting_texts_makes_no_two_persons_one",),
    ),
    Mutant(
        "stable-names-that-are-cut",
        "units whose names begin alike share one stable id, by which a partition tells them apart",
        "experts/ensemble.py",
        'unit[0].identity("id" if',
        'unit[0].values.get("id" if',
        ("tests/records/test_readers.py::test_cutting_texts_makes_no_two_persons_one",),
    ),
    Mutant(
        "kept-sums-of-another-order",
        "a run goes on behind so many units of a file whose rows stand in another order: some are added twice",
        "fitting/progress.py",
        "json.dumps([self._terms, order]).encode()",
        "json.dumps([self._terms]).encode()",
        (_STOPPED + "test_records_in_another_order_are_read_from_the_first_one",),
    ),
    Mutant(
        "kept-units-are-added-again",
        "a run goes on with the kept sums, and reads every unit again",
        "experts/encoded.py",
        "        shards = self._shards(done)\n",
        "        shards = self._shards()\n",
        (_STOPPED + "test_a_fit_that_is_killed_goes_on_behind_what_it_added_up",),
    ),
    Mutant(
        "kept-sums-in-clear",
        "sums over private records are written as they are",
        "fitting/progress.py",
        "nonce + AESGCM(sums_key()).encrypt(nonce, content, self._name(order))",
        "nonce + content",
        (_STOPPED + "test_kept_sums_open_for_the_same_run_alone",),
    ),
    Mutant(
        "lost-shard-is-left-out",
        "the shard of a worker that was lost is missing from the sum",
        "experts/ray_engine.py",
        "                self._give(waiting, self._again(job))\n                continue\n",
        "                places.append(job.place)\n"
        "                ready[job.number] = 0, [np.zeros(rule.size, dtype=np.int64) for rule in self._rules]\n"
        "                continue\n",
        (_RAY + "test_shards_of_a_lost_worker_are_computed_again_and_counted_once",),
    ),
    Mutant(
        "sums-beyond-their-bounds",
        "sums that no units can add up to are counted",
        "experts/ray_engine.py",
        "if ((one > most) | (one < -most)).any():",
        "if (one > most).any():",
        (_RAY + "test_sums_that_cannot_be_right_end_the_run",),
    ),
    Mutant(
        "records-in-clear-in-the-store-of-ray",
        "what Ray may write to a disk can be read",
        "experts/ray_engine.py",
        "        return nonce + self._cipher.encrypt(nonce, content, name.encode())\n",
        "        return nonce + self._cipher.encrypt(nonce, content, name.encode()) + content\n",
        (_RAY + "test_what_ray_carries_says_nothing",),
    ),
    Mutant(
        "worker-that-embeds-otherwise",
        "a worker with another processor or other weights adds other vectors",
        "experts/ray_engine.py",
        "        if vectors != self._expected:\n",
        "        if len(vectors) != len(self._expected):\n",
        (_RAY + "test_a_worker_that_embeds_otherwise_is_refused_before_anything_is_read",),
    ),
    Mutant(
        "vectors-lose-bits",
        "vectors that 32 bits cannot hold are kept in 32 bits",
        "experts/blocks.py",
        "        return narrow if same_bits(narrow.astype(np.float64), vectors) else vectors\n",
        "        return narrow\n",
        (_ENCODED + "test_other_vectors_are_kept_in_32_bits_where_no_bit_is_lost",),
    ),
    Mutant(
        "rays-words-attached",
        "the error of a cluster that ends has Ray's own attached to it, which may quote what it carried",
        "experts/ray_engine.py",
        "        with suppress(Exception):\n            return call()\n",
        "        try:\n            return call()\n        except Exception:\n"
        '            raise self._failed("were lost with the Ray cluster") from None\n',
        (_RAY + "test_a_cluster_that_ends_is_a_model_error_that_quotes_nothing",),
    ),
]
