"""What ``import sottovoce as sv`` offers, and how a release shows itself."""

from __future__ import annotations

import importlib.util
import inspect

import pytest

import sottovoce as sv
from sottovoce.models.fake import FakeScorer
from sottovoce.records.sealed import PrivateRecords, Row


def test_the_names_that_completion_lists_are_the_public_ones_and_each_is_there():
    assert dir(sv) == sorted(sv.__all__)
    assert not [name for name in dir(sv) if name.startswith("_")]
    assert {name for name, _ in inspect.getmembers(sv)} == set(sv.__all__)
    assert ("PrivateICLClassifier" in dir(sv)) == (importlib.util.find_spec("sklearn") is not None)


@pytest.fixture
def icl():
    rows = [Row(i, {"text": f"secret {i}", "label": ["a<b>", "fraud"][i % 2]}) for i in range(8)]
    with sv.PrivateICL(
        records=PrivateRecords(rows, source="notes"),
        task=sv.Task(labels=["a<b>", "fraud"]),
        method="poe",
        model=FakeScorer(),
        budget=sv.Budget(8, 1e-6),
        ledger=":memory:",
        allow_non_private=True,
    ) as made:
        yield made  # fmt: skip


def test_a_release_shows_its_value_and_price_and_no_private_text(icl):
    release = icl.ask("late?", epsilon=0.5)
    assert repr(release) == f"Release({release.value!r}, method poe, epsilon 0.5, replace-one adjacency)"
    html = release._repr_html_()
    assert ("<b>a&lt;b&gt;</b>" in html) == (release.value == "a<b>")
    assert "(method poe, epsilon 0.5, replace-one adjacency)" in html
    assert "changes the probability of this answer" in html
    assert "secret" not in repr(release) + html


def test_a_release_without_a_guarantee_says_so():
    icl = sv.PrivateICL(records=None, task=sv.Task(labels=["a", "b"]), method="zero-shot", model=FakeScorer())
    assert "method zero-shot, no private record read)" in repr(icl.ask("late?", epsilon=1))
    rows = [Row(i, {"text": f"secret {i}", "label": "ab"[i % 2]}) for i in range(8)]
    icl = sv.PrivateICL(
        records=PrivateRecords(rows, source="notes"), task=sv.Task(labels=["a", "b"]), method="full-context",
        model=FakeScorer(), budget=sv.Budget(8, 1e-6), ledger=":memory:", allow_non_private=True,
    )  # fmt: skip
    assert "method full-context, no privacy guarantee)" in repr(icl.ask("late?", epsilon=1))


def test_a_session_is_closed_at_the_end_of_its_block(icl):
    icl.ask("late?", epsilon=0.5)
    assert icl._public is not None
    icl.__exit__(None, None, None)
    assert icl._public is None
