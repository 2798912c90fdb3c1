"""Experts that write: what a text, a failure and an empty slot add to sums, counts and points."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from sottovoce.errors import ModelError, OpaqueError, ParameterError
from sottovoce.experts.keywords import STOP_WORDS, keywords_of, universe_of
from sottovoce.experts.sampling import ExpertSampling
from sottovoce.experts.written import WrittenEnsemble, WrittenOutputs, points_relation
from sottovoce.models.base import Isolation, WritingRequest
from sottovoce.models.fake import FakeScorer, FakeWriter
from sottovoce.privacy.unit import DROP, SWAP, TWO_SWAP, Adjacency, several
from sottovoce.randomness import SeededRandomness
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.testing.answer_road import TASK

RO, AR, ZO = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT
UNIVERSE = ("card", "fee", "theft")
VECTORS = {"card": (1.0, 0.0), "fee": (-1.0, 0.0), "fee card": (0.0, 1.0), "long theft": (300.0, 400.0), "": (0.6, 0.8)}
"""What texts say; other texts cannot be embedded."""
TEXTS = (*VECTORS, "of the and", None)
QUERY = {"text": "what now"}


def outputs(texts, change=SWAP, adjacency=RO, slots=True) -> WrittenOutputs:
    vectors = np.array([VECTORS.get(text, (math.nan, math.nan)) for text in texts]).reshape(len(texts), 2)
    return WrittenOutputs(texts, change, adjacency, slots=len(texts) if slots else None, vectors=vectors)


def ensemble(rows, writer, sampling=None, adjacency=RO, **more) -> WrittenEnsemble:
    records = PrivateRecords([Row(i + 1, row) for i, row in enumerate(rows)], source="memory", synthetic=True)
    records = records.with_public_size() if adjacency.size_is_public else records
    given: Mapping[str, Any] = {"tokens": 9, "randomness": SeededRandomness(1), **more}
    return WrittenEnsemble(records, TASK, writer, sampling or ExpertSampling(), adjacency, **given)


ROWS = [{"id": f"i{n}", "text": f"question {n}", "answer": f"answer {n}"} for n in range(6)]


# Keywords


def test_a_word_is_a_keyword_once_in_small_letters_and_stop_words_are_none():
    assert keywords_of("Card CARD card, the card's fee; re-issued. I'm a PIN") == {
        "card", "card's", "fee", "re-issued", "pin"
    }  # fmt: skip
    assert keywords_of("of the AND") == frozenset()
    assert keywords_of("x 7 42 " + "a" * 41) == {"42"}


def test_keywords_do_not_depend_on_how_letters_are_written():
    assert keywords_of("Straße CAFÉ don’t") == keywords_of("STRASSE cafe\u0301 don't") == {"strasse", "café"}


def test_the_stop_list_is_a_constant():
    assert "the" in STOP_WORDS
    assert "card" not in STOP_WORDS
    assert all(word == word.casefold() for word in STOP_WORDS)


def test_a_universe_has_an_order_that_follows_from_no_text():
    texts = ["a late fee", "block the card"]
    assert universe_of(texts) == universe_of(reversed(texts)) == ("block", "card", "fee", "late")


# What one expert can do, null ones among them


@pytest.mark.parametrize(("change", "adjacency"), [(SWAP, RO), (SWAP, AR), (DROP, AR), (DROP, ZO)])
def test_no_change_moves_a_count_a_sum_or_a_set_of_points_by_more_than_its_bound(change, adjacency):
    rest = ["card", None, "fee card"]
    pairs = itertools.combinations(TEXTS, 2) if change is SWAP else [(text, None) for text in TEXTS]
    moved = []
    for one, other in pairs:
        first, second = (outputs([*rest, text], change, adjacency) for text in (one, other))
        counts = [each.keyword_counts(UNIVERSE) for each in (first, second)]
        difference = counts[0].values - counts[1].values
        reach = int(difference.max() - min(0, difference.min()))
        assert difference.max() - difference.min() <= counts[0].sensitivity == change.widths
        sums = [each.embedding_sum(1.0, 4) for each in (first, second)]
        square = sum(int(step) ** 2 for step in sums[0].values - sums[1].values)
        assert square <= sums[0].squared_l2 == (change.widths << 16) ** 2
        moved.append((reach, square))
    assert max(reach for reach, _ in moved) >= 1
    assert max(square for _, square in moved) == (change.widths << 16) ** 2  # the bound is attained


def test_a_null_expert_adds_nothing_to_anything():
    for texts in (["card"], ["card", "fee card", "long theft"]):
        alone, beside = outputs(texts, DROP, AR, slots=False), outputs([*texts, None, None], DROP, AR, slots=False)
        assert alone.keyword_counts(UNIVERSE).values.tolist() == beside.keyword_counts(UNIVERSE).values.tolist()
        assert alone.embedding_sum().values.tolist() == beside.embedding_sum().values.tolist()
        assert alone.points().rows.tolist() == beside.points().rows.tolist()


def test_a_text_without_an_embedding_is_no_point_and_still_has_keywords():
    said = outputs(["a theft that cannot be embedded", "card"])
    assert len(said.points().rows) == 1
    assert said.keyword_counts(UNIVERSE).values.tolist() == [1, 0, 1]


def test_a_null_experts_vector_is_never_read():
    given = np.array([[1.0, 0.0], [0.0, 1.0]])
    said = WrittenOutputs(["card", None], SWAP, RO, slots=2, vectors=given)
    assert said.embedding_sum().values.tolist() == [1 << 16, 0]
    assert given.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_the_number_of_points_is_the_public_number_of_slots_whoever_wrote():
    everybody, nobody = outputs(["card"] * 5), outputs([None] * 5)
    assert everybody.points().slots == nobody.points().slots == 5
    assert len(nobody.points().rows) == 0


@pytest.mark.parametrize(
    ("change", "adjacency", "relation"),
    [(SWAP, RO, RO), (SWAP, AR, RO), (SWAP, ZO, RO), (DROP, AR, AR), (DROP, ZO, ZO)],
)
def test_points_are_replaced_where_texts_are_whatever_the_datas_relation_is(change, adjacency, relation):
    assert outputs(["card"], change, adjacency).points().adjacency is relation


def test_several_points_at_once_have_no_price():
    for change in (TWO_SWAP, several(DROP, 2)):
        with pytest.raises(ParameterError, match="no price for several points"):
            points_relation(change, RO)


def test_a_text_that_can_be_replaced_needs_a_public_number_of_slots():
    with pytest.raises(ParameterError, match="of public number"):
        outputs(["card"], SWAP, AR, slots=False).points()


def test_a_universe_with_repetitions_is_refused():
    with pytest.raises(ParameterError, match="different keywords"):
        outputs(["card"]).keyword_counts(("card", "card"))


def test_outputs_show_and_store_nothing():
    said = outputs(["a secret card", None])
    assert "secret" not in f"{said!r} {said}"
    assert repr(outputs(["card"], DROP, AR, slots=False)) == "WrittenOutputs(add-remove, drop)"
    with pytest.raises(OpaqueError):
        said.__reduce_ex__(4)


# The road from records


def echo(request: WritingRequest) -> str:
    return " | ".join(answer for _, answer in request.shots) or "nobody"


@pytest.mark.parametrize("adjacency", [RO, AR, ZO])
def test_every_expert_sees_its_own_records_and_no_others(adjacency):
    said = ensemble(ROWS, FakeWriter(echo), adjacency=adjacency).ask(QUERY).texts_without_noise()
    assert sorted(said) == [f"answer {n}" for n in range(6)]


def test_several_records_an_expert_are_all_in_its_prompt():
    said = ensemble(ROWS, FakeWriter(echo), ExpertSampling(shots=3)).ask(QUERY).texts_without_noise()
    assert sorted(part for text in said for part in text.split(" | ")) == [f"answer {n}" for n in range(6)]
    assert [text.count("|") for text in said] == [2, 2]


def test_a_unit_of_several_records_is_one_expert_and_keeps_its_first_ones():
    rows = [{"group": "a", "text": "q", "answer": f"a{n}"} for n in range(5)] + [
        {"group": "b", "text": "q", "answer": "b0"}
    ]
    said = ensemble(rows, FakeWriter(echo), ExpertSampling(max_records=2)).ask(QUERY).texts_without_noise()
    assert said == ["a0 | a1", "b0"]


def test_a_blank_under_zero_out_is_a_null_expert():
    rows = [*ROWS[:2], {"id": "i2", "text": "", "answer": ""}]
    said = ensemble(rows, FakeWriter(echo), adjacency=ZO).ask(QUERY).texts_without_noise()
    assert said == ["answer 0", "answer 1", None]


def test_a_fresh_sample_is_drawn_for_every_question_and_a_partition_once():
    fixed = ensemble(ROWS, FakeWriter(echo), ExpertSampling(1, 2))
    assert fixed.ask(QUERY).texts_without_noise() == fixed.ask(QUERY).texts_without_noise()
    fresh = ensemble(ROWS, FakeWriter(echo), ExpertSampling(1, 2, "without-replacement"))
    assert len({tuple(fresh.ask(QUERY).texts_without_noise()) for _ in range(20)}) > 5


def test_an_empty_slot_is_null_and_is_not_asked():
    writer = FakeWriter(echo)
    said = ensemble(ROWS, writer, ExpertSampling(1, 40, "categorical", rate=0.5), AR).ask(QUERY)
    texts = said.texts_without_noise()
    assert len(texts) == 40
    assert writer.calls == sum(text is not None for text in texts) < 7


def failing(words: str, error: type[BaseException]):
    def text(request: WritingRequest) -> str:
        if any(words in answer for _, answer in request.shots):
            raise error(f"cannot read {request.shots[0][1]}")
        return echo(request)

    return text


def test_a_prompt_on_which_the_writer_fails_is_one_null_expert():
    said = ensemble(ROWS, FakeWriter(failing("answer 3", ValueError)), embedder=FakeScorer()).ask(QUERY, "nobody")
    texts = said.texts_without_noise()
    assert texts[3] is None
    assert [text for text in texts if text] == [f"answer {n}" for n in (0, 1, 2, 4, 5)]
    assert np.isnan(said.vectors_without_noise()[3]).all()
    assert np.isfinite(said.vectors_without_noise()[[0, 1, 2, 4, 5]]).all()


class Raising:
    """A writer of somebody's own that raises where one prompt cannot be answered, and gives no text for any."""

    name, isolation, longest = "raising", Isolation.BY_CONSTRUCTION, None

    def write(self, requests, *, tokens):
        return [failing("answer 3", ValueError)(request) for request in requests]


class RaisingEmbedder(FakeScorer):
    def embed_records(self, task, records):
        if any("answer 2" in text for record in records for text in record.values()):
            raise ValueError(str(records))
        return super().embed_records(task, records)


def test_a_prompt_on_which_a_writer_or_an_embedder_raises_for_all_is_one_null_expert():
    said = ensemble(ROWS, Raising(), embedder=RaisingEmbedder()).ask(QUERY, "nobody")
    assert said.texts_without_noise() == [f"answer {n}" if n != 3 else None for n in range(6)]
    assert np.isnan(said.vectors_without_noise()).all(axis=1).tolist() == [False, False, True, True, False, False]


def test_a_text_that_changes_what_the_embedder_says_to_everybody_is_noticed():
    class Broken(FakeScorer):
        broken = False

        def embed_records(self, task, records):
            self.broken = True
            return super().embed_records(task, records)

        def embed_questions(self, task, queries):
            return super().embed_questions(task, queries) + self.broken

    experts = ensemble(ROWS, FakeWriter(echo), embedder=Broken())
    experts.rehearse(["a public answer"])
    with pytest.raises(ModelError, match="withheld"):
        experts.ask(QUERY, "nobody")
    # One that says other bits of the same text promises nothing; and nothing is asked that was not said before.
    loose = Broken()
    loose.isolation = Isolation.ASSERTED
    for model, told in ((loose, ["a public answer"]), (Broken(), [])):
        experts = ensemble(ROWS, FakeWriter(echo), embedder=model)
        experts.rehearse(told)
        assert np.isfinite(experts.ask(QUERY, "nobody").vectors_without_noise()).all()


def test_a_failure_that_experts_share_leaves_no_outputs_and_quotes_nothing():
    with pytest.raises(ModelError) as failed:
        ensemble(ROWS, FakeWriter(failing("answer 3", MemoryError))).ask(QUERY)
    assert "answer 3" not in str(failed.value)
    assert failed.value.__context__ is None
    assert "Its message is withheld" in str(failed.value)


def test_a_failed_read_can_be_repeated():
    broken = {"now": True}

    def text(request: WritingRequest) -> str:
        if broken["now"]:
            raise MemoryError
        return echo(request)

    experts = ensemble(ROWS, FakeWriter(text))
    with pytest.raises(ModelError):
        experts.ask(QUERY)
    broken["now"] = False
    assert experts.ask(QUERY).texts_without_noise() == [f"answer {n}" for n in range(6)]


def test_a_record_that_changes_what_the_writer_says_to_everybody_is_noticed():
    read = []

    def text(request: WritingRequest) -> str:
        read.extend(request.shots)
        return "nobody" if not read else "otherwise"

    assert text(WritingRequest("", (), "")) == "nobody"
    with pytest.raises(ModelError, match="withheld"):
        ensemble(ROWS, FakeWriter(text)).ask(QUERY, "nobody")
    # A host that says other words to the same request promises no more than some words.
    loose = ensemble(ROWS, FakeWriter(text, isolation=Isolation.NOT_VERIFIED))
    assert len(loose.ask(QUERY, "nobody").texts_without_noise()) == 6
    silent = FakeWriter(lambda request: echo(request) if request.shots else None, isolation=Isolation.NOT_VERIFIED)
    with pytest.raises(ModelError):
        ensemble(ROWS, silent).ask(QUERY, "nobody")


class Wrong:
    """A writer that gives another number of texts."""

    name, isolation, longest = "wrong", Isolation.BY_CONSTRUCTION, None

    def __init__(self, texts) -> None:
        self.texts = texts

    def write(self, requests, *, tokens):
        return self.texts(requests)


@pytest.mark.parametrize("texts", [lambda asked: ["x"] * (len(asked) - 1), lambda asked: [b"x"] * len(asked)])
def test_another_number_of_texts_is_no_answer(texts):
    with pytest.raises(ModelError, match="failed while it read"):
        ensemble(ROWS, Wrong(texts)).ask(QUERY, "nobody")


def test_no_text_of_one_expert_becomes_anothers_where_one_is_missing():
    five_at_most = Wrong(lambda asked: [echo(request) for request in asked][-5:])
    said = ensemble(ROWS, five_at_most).ask(QUERY, "nobody").texts_without_noise()
    assert said == [f"answer {n}" for n in range(6)]


def test_all_records_in_one_prompt_is_one_expert():
    said = ensemble(ROWS, FakeWriter(echo), together=True, tokens=99).ask(QUERY).texts_without_noise()
    assert said == [" | ".join(f"answer {n}" for n in range(6))]


def test_an_ensemble_shows_nothing():
    assert repr(ensemble(ROWS, FakeWriter(echo))) == "WrittenEnsemble(sealed)"
