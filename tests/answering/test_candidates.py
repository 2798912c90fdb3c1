"""How many public answers a session has written, by what the method compares; and the free consensus of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from answering.worlds_of_answers import TASK, answers_of, rows
from sottovoce.answering.session import PrivateAnswers
from sottovoce.errors import ModelError, ParameterError
from sottovoce.methods.answering.answerer import registered_answerers
from sottovoce.methods.answering.public import ANSWERS
from sottovoce.models.fake import FakeScorer, FakeWriter

ASKED = "what of the card?"
PUBLIC = [TASK.example_of(row, "public") for row in rows(40, "public")]


def consensus_of(text, **options) -> tuple[PrivateAnswers, FakeWriter]:
    """A session of the free consensus after groups of four examples, and its writer."""
    writer = FakeWriter(text)
    given = {"records": None, "task": TASK, "public": PUBLIC, "method": "public-consensus", "embedder": FakeScorer()}
    return PrivateAnswers(**{**given, "writer": writer, **options}), writer


def group_of(request) -> int:
    """Number of the group of examples before a question, from 1; 0 without examples."""
    return int(request.shots[0][0].split()[-1].rstrip("?")) // 4 + 1 if request.shots else 0


def own(request) -> str:
    """Another answer after every group, most of which agree but for a word."""
    ways = ["call", "wait", "write", "call", "call", "send", "call", "call", "call"]
    return f"{ways[group_of(request)]} the card team of desk {group_of(request)}"


@pytest.mark.parametrize(
    ("options", "groups"), [({}, ANSWERS), ({"public_experts": 3}, 3), ({"public_experts": 99}, 10)]
)
def test_the_consensus_compares_an_answer_after_every_group_and_the_one_without(options, groups):
    answers, writer = consensus_of(
        lambda request: f"call desk {group_of(request)} {'today' * (group_of(request) % 2)}", **options
    )
    release = answers.ask(ASKED, epsilon=1)
    assert writer.calls == 1 + groups == answers.texts_an_answer - 1
    assert writer.shots_read == 4 * groups
    side = answers.public_side(answers.question(ASKED))
    assert len(side.candidates) == 1 + groups
    assert release.value in side.candidates
    assert (release.terms.epsilon, answers.ledger) == (0.0, None)


def test_the_consensus_is_the_answer_with_the_largest_sum_of_cosines_to_all():
    answers, _ = consensus_of(own)
    value = answers.ask(ASKED, epsilon=1).value
    texts = answers.public_side(answers.question(ASKED)).candidates
    vectors = [FakeScorer().vectors(text) for text in texts]
    sums = [math.fsum(float(np.dot(vector, other)) for other in vectors) for vector in vectors]
    assert sums[texts.index(value)] == pytest.approx(max(sums))
    assert sums[0] < max(sums) - 0.01, "the writer alone is not the nearest"


@pytest.mark.parametrize("name", sorted(registered_answerers()))
def test_a_session_asks_for_as_many_public_answers_as_the_method_compares(name):
    kind = registered_answerers()[name]
    writer = FakeWriter(own)
    shown = "pool" in kind.needs or kind.reads.name == "ONE_EXPERT_EACH"
    answers = answers_of(
        writer, method=name, public=PUBLIC if shown else (), shots=4, public_experts=5, allow_non_private=True,
        embedder=FakeScorer() if "Embedder" in kind.needs else None,
    )  # fmt: skip
    answers.public_side(answers.question(ASKED))
    compares = {"esa", "ksa", "sga", "augment", "public-consensus", "nearest-to-mean"}
    assert writer.calls == 1 + (5 if name in compares else int(shown))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"public": PUBLIC[:7]}, "public is 7; it must be at least 8 examples, or fewer shots"),
        ({"public_experts": 1}, "public_experts is 1; it must be at least 2"),
        ({"public": ()}, "public is missing"),
    ],
)
def test_a_comparison_of_fewer_than_three_answers_is_refused_before_the_writer_is_asked(options, words):
    writer = FakeWriter(own)
    with pytest.raises(ParameterError, match=words):
        consensus_of(own, writer=writer, **options)
    assert writer.calls == 0
    assert consensus_of(own, public=PUBLIC[:8])[0].ask(ASKED, epsilon=1).value


def test_equal_answers_count_once_and_of_two_it_is_the_one_after_examples():
    def text(request):
        return "call the desk" if request.shots else "bananas grow"

    answers, writer = consensus_of(text)
    assert (answers.ask(ASKED, epsilon=1).value, writer.calls) == ("call the desk", 9)
    # Once each: three that are alike beside five equal ones that are not.
    several = ["one red fish", "two red fish", "one two red fish", *["bananas grow"] * 5, "one two fish"]
    assert consensus_of(lambda request: several[group_of(request)])[0].ask(ASKED, epsilon=1).value == "one two red fish"


def test_groups_without_an_answer_are_left_out_of_the_consensus():
    def text(*silent):
        return lambda request: None if group_of(request) in silent else own(request)

    assert consensus_of(text(*range(1, 9)))[0].ask(ASKED, epsilon=1).value == "call the card team of desk 0"
    assert consensus_of(text(*range(8)))[0].ask(ASKED, epsilon=1).value == "call the card team of desk 8"
    value = consensus_of(text(0, 3, 5))[0].ask(ASKED, epsilon=1).value
    assert value.startswith("call")
    with pytest.raises(ModelError, match=r"wrote nothing for a question.* Nothing was charged"):
        consensus_of(text(*range(9)))[0].ask(ASKED, epsilon=1)


def test_a_writer_that_fails_and_an_embedder_without_vectors_are_told_and_cost_nothing():
    def fails(request):
        raise ModelError("the server is gone", retryable=True)

    with pytest.raises(ModelError, match=r"the server is gone.* Nothing was charged") as caught:
        consensus_of(fails)[0].ask(ASKED, epsilon=1)
    assert caught.value.retryable
    blind = FakeScorer(vectors=lambda text: (math.nan,) * 4, name="blind")
    with pytest.raises(ModelError, match=r"The model blind embedded no public answer.* Nothing was charged"):
        consensus_of(own, embedder=blind)[0].ask(ASKED, epsilon=1)
