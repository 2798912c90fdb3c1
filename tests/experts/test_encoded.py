"""Records as an embedder reads them: nothing before it is asked to, own failures apart, shared ones told of nobody."""

from __future__ import annotations

import numpy as np
import pytest

from hunting import hunt, marker
from sottovoce.errors import ModelError, RecordError
from sottovoce.experts import encoded
from sottovoce.experts.encoded import EncodedRecords
from sottovoce.experts.unit_sums import LIMIT, Block, ClassSums, UnitCount
from sottovoce.models.fake import FakeScorer, words_hashed
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import Task

RO, AR, ZO = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT
TASK = Task(labels=["billing", "fraud"])
TEXTS = ["a fee", "a card", "two fees", "a loss", "an order"]
PUBLIC = [{"text": "anybody may read this"}]


def records(texts=TEXTS, groups=None):
    rows = [
        Row(i + 1, {"text": text, "label": TASK.labels[i % 2]} | ({"group": groups[i]} if groups else {}))
        for i, text in enumerate(texts)
    ]
    return PrivateRecords(rows, source="notes")


def read(model, *, texts=TEXTS, groups=None, adjacency=RO, on_units=None) -> EncodedRecords:
    found = EncodedRecords(records(texts, groups), TASK, model, adjacency)
    found.read(found.reader(PUBLIC), on_units)
    return found


def total(model, rule=None, **how) -> list[int]:
    return read(model, **how).sum_of(rule or ClassSums(2, model.dimension)).tolist()


def failing(on, error, also=()):
    def vectors(text):
        if on in text or text in also:
            raise error
        return words_hashed(text)

    return FakeScorer(vectors=vectors)


def test_nothing_is_read_before_it_is_asked_for():
    model = FakeScorer()
    found = EncodedRecords(records(), TASK, model, RO)
    assert found.units == 5
    assert model.contexts_read == 0
    with pytest.raises(ModelError, match="not read yet"):
        found.sum_of(UnitCount())
    found.read(found.reader(PUBLIC))
    assert model.contexts_read == 5
    found.read(found.reader(PUBLIC))
    assert model.contexts_read == 5, "it was read twice"
    found.close()
    with pytest.raises(ModelError, match="were let go"):
        found.sum_of(UnitCount())


def test_a_row_that_does_not_suit_the_task_is_refused_before_anything_is_read():
    model, secret = FakeScorer(), marker()
    rows = PrivateRecords([Row(7, {"text": secret, "label": secret})], source="notes")
    with pytest.raises(RecordError, match="7") as refused:
        EncodedRecords(rows, TASK, model, RO)
    assert model.contexts_read == 0
    hunt(refused.value, [secret])


def test_the_sum_is_that_of_the_records_whatever_is_embedded_together(monkeypatch):
    groups = ["p", "q", "p", "r", "q"]
    expected = total(FakeScorer(), groups=groups)
    for together in (1, 2, 3):
        monkeypatch.setattr(encoded, "UNITS_TOGETHER", together)
        assert total(FakeScorer(), groups=groups) == expected
    assert total(FakeScorer(), UnitCount(), groups=groups) == [3 * LIMIT]


def test_what_is_told_on_the_way_is_how_many_units_were_read(monkeypatch):
    monkeypatch.setattr(encoded, "UNITS_TOGETHER", 2)
    told = []
    read(FakeScorer(), on_units=told.append)
    assert told == [2, 2, 1]


def test_a_record_that_the_model_cannot_read_adds_nothing_and_changes_nobody_else():
    broken, whole = read(failing("loss", ValueError("a loss"))), read(FakeScorer())
    rule = ClassSums(2, 16)
    own = rule.add_up(Block(np.array([words_hashed("a loss")]), [1], [0]))
    assert (whole.sum_of(rule) - broken.sum_of(rule)).tolist() == own.tolist()


def test_a_record_whose_vector_has_another_length_or_no_number_adds_nothing():
    rule = ClassSums(2, 16)
    expected = read(failing("loss", ValueError())).sum_of(rule).tolist()
    for wrong in ([0.5] * 15, [np.nan] * 16, [0.0] * 15 + [np.inf]):
        model = FakeScorer(vectors=lambda text, wrong=wrong: wrong if "loss" in text else words_hashed(text))
        assert read(model).sum_of(rule).tolist() == expected


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA error: out of memory"), OSError(24, "files")])
def test_what_records_share_fails_the_whole_and_what_the_model_says_is_withheld(error):
    secret = marker()
    error.args = (*error.args, secret)
    with pytest.raises(ModelError, match="withheld") as failed:
        read(failing("loss", error))
    hunt(failed.value, [secret])
    assert failed.value.__cause__ is None
    assert failed.value.__context__ is None


def test_an_order_to_stop_leaves_as_it_is():
    with pytest.raises(KeyboardInterrupt):
        read(failing("loss", KeyboardInterrupt()))


def test_a_model_that_a_record_breaks_fails_the_whole():
    seen = []

    def vectors(text):
        seen.append(text)
        return words_hashed(text + (" broken" if any("loss" in past for past in seen) else ""))

    with pytest.raises(ModelError, match="withheld"):
        read(FakeScorer(vectors=vectors))


def test_a_model_that_fails_on_public_texts_behind_a_records_failure_fails_the_whole():
    seen = []

    def vectors(text):
        seen.append(text)
        if any("loss" in past for past in seen):
            raise ValueError(text)
        return words_hashed(text)

    with pytest.raises(ModelError, match="withheld"):
        read(FakeScorer(vectors=vectors))


def test_a_blank_unit_adds_nothing_under_zero_out():
    rows = [Row(1, {"id": "p", "text": "a fee", "label": "billing"}), Row(2, {"id": "q"})]
    found = EncodedRecords(PrivateRecords(rows, source="notes"), TASK, FakeScorer(), ZO)
    found.read(found.reader(PUBLIC))
    assert found.units == 2
    assert found.sum_of(ClassSums(2, 16)).tolist() == total(FakeScorer(), texts=["a fee"])


def test_it_shows_nothing_of_the_records():
    secret = marker()
    found = read(FakeScorer(), texts=[secret, "a card"])
    hunt(found, [secret])
    hunt(found._blocks[0], [secret])
