"""What is told of threshold tests and of proposed sets, whichever of both comes up first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from sottovoce.mechanisms.propose_test_release import ProposeTestRelease
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.unit import Adjacency
from sottovoce.testing.draw_tape import Draw, ThresholdTest
from sottovoce.testing.replays import replayed

COUNTS = Scores([5, 4, 3, 2], sensitivity=1, adjacency=Adjacency.ADD_REMOVE)
SET = Draw(ProposeTestRelease(300.0, 1e-6, 2), COUNTS, (), None)
TEST = Draw("a run", "a count", (), None, ThresholdTest(0, 500, 1, (3,)))
LEADING = (0, 1)


def told(entry: Callable[[Callable[..., Any], int], None], *, thrown: bool = False) -> tuple[set[tuple[Any, ...]], int]:
    """Every sequence of releases that an entry meets, and how often it is asked."""
    found = set[tuple[Any, ...]]()

    def made(seed, teller):
        draws: list[Draw] = []

        def drawn(what: Draw, by_itself: Any) -> Any:
            outcome = NotImplemented if teller is None else teller(len(draws), what)
            draws.append(replace(what, outcome=by_itself if outcome is NotImplemented else outcome))
            return draws[-1].outcome

        entry(drawn, seed)
        found.add(tuple(draw.outcome for draw in draws))
        return [SimpleNamespace(draws=draws)] * 2, [2] if thrown else []

    return found, sum(1 for _ in replayed(made))


def test_a_test_behind_a_set_that_hardly_ever_passes_is_told_yes():
    def entry(drawn, _):
        if drawn(SET, None) is not None:
            drawn(TEST, False)

    found, asked = told(entry)
    assert found == {(None,), (LEADING, False), (LEADING, True)}
    assert asked <= 9


def test_a_set_behind_a_test_that_hardly_ever_says_yes_is_told_both_ways():
    def entry(drawn, _):
        if drawn(TEST, False):
            drawn(SET, LEADING)

    found, asked = told(entry)
    assert found == {(False,), (True, LEADING), (True, None)}
    assert asked <= 9


def test_a_second_set_fails_behind_one_that_is_told_to_fail():
    def entry(drawn, _):
        if drawn(SET, LEADING) is None:
            drawn(SET, LEADING)

    assert told(entry)[0] == {(LEADING,), (None, None)}


def test_what_comes_up_behind_one_of_the_coins_is_told_too():
    def entry(drawn, seed):
        drawn(*((SET, None) if seed % 2 == 0 else (TEST, False)))

    found, _ = told(entry, thrown=True)
    assert found == {(None,), (LEADING,), (False,), (True,)}
