"""Sums over private records as they are embedded: the same whatever the blocks and wherever rows come from."""

import gc
import json
import logging
import weakref
from collections import deque
from dataclasses import dataclass
from functools import cached_property, partial
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch

from sottovoce.errors import ModelError, RecordError
from sottovoce.experts import encoded
from sottovoce.experts.blocks import BlockReader
from sottovoce.experts.encoded import EncodedRecords
from sottovoce.experts.public_map import PublicMap
from sottovoce.experts.reading import of_shape
from sottovoce.experts.unit_sums import LIMIT, Block, ClassSums, Likeness, SumRule, UnitCount
from sottovoce.models.base import Isolation
from sottovoce.models.embedded.label_scorer import EmbeddedScorer
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.readers import read_private
from sottovoce.tasks import Example, Task

TASK = Task(labels=["a", "b", "c"])
PUBLIC = [{"text": "is this still the same"}]
RNG = np.random.default_rng(3)
RULES = [
    UnitCount(),
    ClassSums(3, 16),
    ClassSums(3, 16, 4, PublicMap(RNG.normal(size=16) / 9, RNG.normal(size=(16, 16)))),
    Likeness(3, np.eye(16)[:5], 0.0, 0.5),
]


@pytest.fixture
def files(tmp_path):
    made = {}
    for name, together in (("records", 1), ("groups", 4)):
        rows = [{"text": f"word{i} word{i * 7 % 11} late", "label": "abc"[i * i % 3]} for i in range(60)]
        if together > 1:
            rows = [{**row, "group": str(i // together)} for i, row in enumerate(rows)]
        made[name] = tmp_path / f"{name}.jsonl"
        made[name].write_text("".join(json.dumps(row) + "\n" for row in rows))
    return made


def sums(file, *, stream, rules, model=None):
    records = EncodedRecords(read_private(file, stream=stream), TASK, model or FakeScorer(), Adjacency.REPLACE_ONE)
    records.read(records.reader(PUBLIC), None, rules)
    return [records.sum_of(rule).tolist() for rule in RULES]


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", ["records", "groups"])
def test_sums_are_the_same_whatever_the_blocks_and_whether_vectors_are_kept(files, monkeypatch, name):
    expected = sums(files[name], stream=False, rules=None)
    assert any(expected[1])
    for together in (1, 3, 7, 60, 256):
        monkeypatch.setattr(encoded, "UNITS_TOGETHER", together)
        for stream in (False, True):
            for rules in (None, RULES):
                assert sums(files[name], stream=stream, rules=rules) == expected


def test_no_vector_outlives_its_block_where_the_rules_are_known(files, monkeypatch):
    monkeypatch.setattr(encoded, "UNITS_TOGETHER", 10)
    made = []

    model = FakeScorer()
    plain = model.embed_records

    def embed_records(task, records):
        gc.collect()
        assert sum(ref() is not None for ref in made) <= 1
        vectors = plain(task, records)
        made.append(weakref.ref(vectors))
        return vectors

    monkeypatch.setattr(model, "embed_records", embed_records)
    sums(files["records"], stream=True, rules=RULES, model=model)
    gc.collect()
    assert len(made) == 6
    assert sum(ref() is not None for ref in made) <= 1


class Keeps(SumRule):
    """A rule that keeps a public table once it was used."""

    size = 1

    def add_up(self, block):
        self.table = [1]
        return np.full(1, len(block), np.int64)


class KeepsInItsClass(Keeps):
    tables: ClassVar[dict[int, int]] = {}
    used: ClassVar[int] = 0
    log: ClassVar[logging.Logger] = logging.getLogger("a rule")

    def add_up(self, block):
        self.log.debug("used")
        self.tables[len(self.tables)] = 1
        type(self).used += 1
        return np.full(1, len(block), np.int64)


class Logs(Keeps):
    def __init__(self):
        self.log = logging.getLogger("another rule")

    def add_up(self, block):
        self.log.debug("used")
        return np.full(1, len(block), np.int64)


@pytest.mark.parametrize("kind", [Keeps, KeepsInItsClass, Logs])
def test_a_rule_that_keeps_what_it_worked_out_is_known_again(files, kind):
    records = EncodedRecords(read_private(files["records"]), TASK, FakeScorer(), Adjacency.REPLACE_ONE)
    records.read(records.reader(PUBLIC), None, [used := kind()])
    assert records.sum_of(used).tolist() == records.sum_of(kind()).tolist() == [60]


class Bench:
    """A model that writes each answer where it gave the last one."""

    name, isolation = "bench", Isolation.BY_CONSTRUCTION
    dimension, embedding = 16, "bench"

    def __init__(self):
        self._rows, self._fake = np.empty((600, 16)), FakeScorer()

    def embed_records(self, task, rows):
        out = self._rows[: len(rows)]
        out[:] = self._fake.embed_records(task, rows)
        return out

    embed_questions = embed_records


def test_a_model_may_write_its_next_answer_where_it_gave_the_last_one(files, monkeypatch):
    monkeypatch.setattr(encoded, "UNITS_TOGETHER", 7)
    expected = sums(files["records"], stream=False, rules=None)
    for rules in (None, RULES):
        assert sums(files["records"], stream=False, rules=rules, model=Bench()) == expected
    model = Bench()
    first = of_shape(model.embed_questions(TASK, PUBLIC), (1, 16))
    kept, reader = first.copy(), BlockReader(model, TASK, PUBLIC)
    model.embed_records(TASK, [{"text": "something else"}])
    assert first.tolist() == kept.tolist() == reader.rehearsed.tolist()


@pytest.mark.parametrize("rules", [None, RULES])
def test_what_a_fit_does_with_a_sum_changes_no_other_sum(files, rules):
    records = EncodedRecords(read_private(files["records"]), TASK, FakeScorer(), Adjacency.REPLACE_ONE)
    records.read(records.reader(PUBLIC), None, rules)
    for rule in RULES:
        first = records.sum_of(rule)
        expected = first.tolist()
        first *= 3
        assert records.sum_of(rule).tolist() == expected


def test_no_rule_writes_into_the_records_that_another_one_reads():
    vectors = np.ones((2, 3))
    block = Block(vectors, [0, 1], [0, 1])
    for held in (block.vectors, block.labels, block.units):
        with pytest.raises(ValueError, match="read-only"):
            held[0] = 0
    vectors[0] = 2.0  # whoever made the block is free to


def test_a_sum_that_was_not_asked_for_beforehand_is_refused(files):
    records = EncodedRecords(read_private(files["records"]), TASK, FakeScorer(), Adjacency.REPLACE_ONE)
    with pytest.raises(ModelError, match="not read yet"):
        records.sum_of(RULES[0])
    records.read(records.reader(PUBLIC), None, RULES[:1])
    assert records.sum_of(UnitCount()).tolist() == [60 * LIMIT]
    with pytest.raises(ModelError, match="for other sums"):
        records.sum_of(RULES[1])
    records.close()
    with pytest.raises(ModelError, match="let go"):
        records.sum_of(RULES[0])


def test_a_file_that_was_changed_fails_the_read_and_says_so(files):
    records = EncodedRecords(read_private(files["records"], stream=True), TASK, FakeScorer(), Adjacency.REPLACE_ONE)
    files["records"].write_text(json.dumps({"text": "other", "label": "a"}) + "\n")
    with pytest.raises(RecordError, match=r"records\.jsonl: the file was changed"):
        records.read(records.reader(PUBLIC), None, RULES)
    with pytest.raises(ModelError, match="not read yet"):
        records.sum_of(RULES[0])


@dataclass(frozen=True)
class Listed(SumRule):
    held: object
    size = 1

    def add_up(self, block):
        return np.zeros(1, np.int64)


class Scaled(Listed):
    """No dataclass of its own: the scale is no field."""

    def __init__(self, scale):
        super().__init__(())
        object.__setattr__(self, "scale", scale)

    @cached_property
    def twice(self):
        return 2 * self.scale


def listed_by(weight):
    class By(Listed):
        def add_up(self, block):
            return np.full(1, weight, np.int64)

        @property
        def most(self):
            return max(super().most, weight)

    return By


class Plain:
    def __init__(self, number):
        self.number = number


class Slotted(Plain):
    __slots__ = ("number",)


def test_rules_are_told_apart_by_everything_in_them():
    turned = PublicMap(np.zeros(16), np.eye(16))
    others = [
        ClassSums(3, 16, 1, turned),
        ClassSums(3, 16, 1, PublicMap(np.zeros(16), np.eye(16)[::-1])),
        ClassSums(4, 16),
        Likeness(3, np.eye(16)[:5], 0.0, 0.25),
        Likeness(3, np.eye(16)[:5].astype(np.float32), 0.0, 0.5),
    ]
    others += [Scaled(1.0), Scaled(2.0), Listed([np.zeros(3000)]), Listed([1.0 * (np.arange(3000) == 1500)])]
    others += [Listed({"a": np.zeros(3000)}), Listed({"a": 1.0 * (np.arange(3000) == 1500)})]
    others += [Listed({1, 2}), Listed({1, 3}), Listed(torch.zeros(3000)), Listed(1.0 * (torch.arange(3000) == 1500))]
    others += [listed_by(1)(0), listed_by(2)(0), *(type("Made", (Listed,), {"by": by})(0) for by in (1, 2))]
    for lone in (0.0, 1.0):
        long = np.zeros(3000)
        long[1500] = lone
        masked = np.ma.array(np.zeros(3), mask=[0, int(lone), 0])
        others += [Listed(held) for held in (deque([long]), partial(np.add, long), SimpleNamespace(a=long), masked)]
        others += [Listed(pd.Series(long)), Listed(pd.DataFrame({"a": long}))]
    others += [Listed(lambda n: n), Listed(lambda n: 2 * n), Listed(pd.Series([1.0, 2.0], index=["b", "a"]))]
    others += [Listed(pd.Series([1.0, 2.0], index=["a", "b"])), Listed(range(9)), Listed(range(8))]
    others += [Listed(Slotted(1)), Listed(Slotted(2)), Listed(Plain(1)), Listed(Plain(2))]
    digests = [rule.digest for rule in (*RULES, *others)]
    assert len(set(digests)) == len(digests)
    assert Listed(Plain(2)).digest == digests[-1]
    assert listed_by(2)(0).digest == listed_by(2)(0).digest
    for make in (torch.zeros(3).bfloat16, torch.zeros(3).requires_grad_, torch.zeros(3).double):
        assert Listed(make().clone()).digest == Listed(make().clone()).digest
    assert Listed(torch.zeros(3).bfloat16()).digest != Listed(torch.ones(3).bfloat16()).digest
    assert Listed(torch.zeros(3000)).digest in digests
    assert Scaled(2.0).twice == 4.0
    kept = Scaled(2.0)
    assert kept.twice == 4.0
    assert kept.digest == Scaled(2.0).digest
    assert ClassSums(3, 16, 1, PublicMap(np.zeros(16), np.eye(16))).digest == others[0].digest


def test_vectors_of_the_sentence_encoder_come_back_bit_for_bit_from_half_the_room():
    scorer = EmbeddedScorer(store=False)
    texts = [{"text": f"the courier lost parcel {i}"} for i in range(9)]
    whole = scorer.embed_records(TASK, texts)
    compact = scorer.embed_compactly(TASK, texts)
    assert compact.dtype == np.float32
    for rows in (slice(0, 9), slice(3, 4), slice(1, 8, 2)):
        assert scorer.unfolded(compact[rows]).tobytes() == whole[rows].tobytes()
    kept = BlockReader(scorer, TASK, PUBLIC).block([[Example(text, 0)] for text in texts])
    assert kept._vectors.nbytes == whole.nbytes // 2
    assert kept.opened().vectors.tobytes() == whole.tobytes()


@pytest.mark.parametrize(("step", "bits"), [(0.5, 32), (0.1, 64)])
def test_other_vectors_are_kept_in_32_bits_where_no_bit_is_lost(step, bits):
    model = FakeScorer(vectors=lambda text: [step, -0.0, np.nan if "lost" in text else 1.0])
    units = [[Example({"text": "fine"}, 0)], [Example({"text": "lost"}, 1), Example({"text": "fine"}, 1)]]
    kept = BlockReader(model, TASK, PUBLIC).block(units)
    assert kept._vectors.dtype.itemsize * 8 == bits
    block = kept.opened()
    assert block.vectors.tobytes() == np.array([[step, -0.0, 1], [step, -0.0, np.nan], [step, -0.0, 1]]).tobytes()
    assert (block.labels.tolist(), block.units.tolist()) == ([0, 1, 1], [0, 1, 1])
