"""What is kept of one question shows in another, wherever it is kept; what follows public inputs alone does not."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.testing.asked_first import DRAWS, IGNORES, KEEPS, follows_the_order

ROWS = ((0.2, 0.200000001, 1e-6), (1.3, 1.301, 0.02))
"""Public leads, each with one that is nearly equal."""
OPPOSITE = np.array([[0.9, 0.1], [0.1, 0.9]])


def right(row, world):
    return OPPOSITE[world] * [1 + row / 100, 1]


def kept_by(key):
    kept = {}
    return lambda row, world: kept.setdefault(key(row), right(row, world))


def partly_kept(row, world, kept={}):  # noqa: B006 a cache that nobody empties
    kept.setdefault(row, right(row, world))
    return 0.9 * right(row, world) + 0.1 * kept[row]


def drawn(row, world):
    return [world] * DRAWS


@pytest.mark.parametrize(
    ("ask", "problem"),
    [
        (right, ""),
        (drawn, ""),
        (kept_by(lambda row: row), KEEPS),
        (partly_kept, KEEPS),
        (kept_by(lambda row: round(row, 6)), KEEPS),
        (kept_by(lambda row: round(row, 1)), IGNORES),
        (kept_by(lambda row: None), IGNORES),
        (lambda row, world: OPPOSITE[0], IGNORES),
        (lambda row, world: [0] * DRAWS, IGNORES),
        (lambda row, world: [int(row == ROWS[0][0])] * DRAWS, KEEPS),
        (lambda row, world: np.zeros(1 + world + (row == ROWS[1][1])), KEEPS),
    ],
    ids=[
        "right",
        "draws",
        "by row",
        "in part",
        "to 6 digits",
        "to 1 digit",
        "first",
        "law",
        "same",
        "by turns",
        "sizes",
    ],
)
def test_what_is_kept_of_a_question_is_found(ask, problem):
    assert follows_the_order(ask, ROWS) == problem


def test_what_speaks_in_larger_crowds_alone_is_asked_there():
    alike = [0] * DRAWS
    assert follows_the_order(lambda row, world: alike, ROWS, drawn) == ""
    assert follows_the_order(lambda row, world: alike, ROWS, lambda row, world: alike) == IGNORES
    assert follows_the_order(kept_by(lambda row: row), ROWS, right) == KEEPS


def test_that_no_difference_was_found_is_no_proof():
    assert "This alone is no proof" in IGNORES
