"""What is told of threshold tests and of proposed sets, whichever of both comes up first."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.propose_test_release import ProposeTestRelease
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.unit import Adjacency
from sottovoce.testing.draw_tape import Draw, ThresholdTest
from sottovoce.testing.replays import ROOM, either, replayed

COUNTS = Scores([5, 4, 3, 2], sensitivity=1, adjacency=Adjacency.ADD_REMOVE)
SET = Draw(ProposeTestRelease(300.0, 1e-6, 2), COUNTS, (), None)
TEST = Draw("a run", "a count", (), None, ThresholdTest(0, 500, 1, (3,)))
OTHER = Draw(Exponential(1.0), COUNTS, (), None)
ONE = Draw(ProposeTestRelease(300.0, 1e-6, 1), COUNTS, (), None)
LEADING = (0, 1)


def among(candidates: int) -> Scores:
    return Scores([*range(candidates, 0, -1)], sensitivity=1, adjacency=Adjacency.ADD_REMOVE)


def one_among(candidates: int) -> Draw:
    return replace(ONE, aggregate=among(candidates))


def sized(size: int) -> Draw:
    return replace(SET, mechanism=ProposeTestRelease(300.0, 1e-6, size), aggregate=among(9))


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
    assert asked <= 2 * ROOM


def test_a_set_behind_a_test_that_hardly_ever_says_yes_is_told_both_ways():
    def entry(drawn, _):
        if drawn(TEST, False):
            drawn(SET, LEADING)

    found, asked = told(entry)
    assert found == {(False,), (True, LEADING), (True, None)}
    assert asked <= 2 * ROOM


def test_a_second_set_fails_behind_one_that_is_told_to_fail():
    def entry(drawn, _):
        if drawn(SET, LEADING) is None:
            drawn(SET, LEADING)

    assert told(entry)[0] == {(LEADING,), (None, None), (None, LEADING)}


@pytest.mark.parametrize(
    "entry",
    [
        "set, and behind a pass a set",
        "set or a draw, twice",
        "yes, then a pass, then a set",
        "pass, then a yes, then a set",
        "three tests",
        "test and set, whatever they say",
    ],
)
def test_every_answer_to_three_questions_is_told(entry):
    """Whatever comes up by itself: the answers that each of them leads to are all met."""
    for by_itself in product((True, False), repeat=3):
        found, asked = told(partial(ENTRIES[entry], by_itself=by_itself))
        assert found == EVERY[entry]
        assert asked <= 2 * ROOM


@pytest.mark.parametrize("thrown", [False, True])
@pytest.mark.parametrize("asked", ["aba", "abb", "aab", "abc", "Tab", "aTb", "abT", "TaT", "TTa"])
def test_every_answer_to_three_is_told_among_whatever_candidates_and_behind_coins(asked, thrown):
    """Sets of one word among 4, 6 and 8 are told apart as well, and take nothing from these."""
    sizes = {"a": 4, "b": 6, "c": 8}

    def entry(drawn, _, *, by_itself):
        for letter, says in zip(asked, by_itself, strict=True):
            drawn(TEST, says) if letter == "T" else drawn(one_among(sizes[letter]), (0,) if says else None)

    for by_itself in [(True, True, True), (False, True, False)] if thrown else product((True, False), repeat=3):
        found, _ = told(partial(entry, by_itself=by_itself), thrown=thrown)
        assert {tuple(outcome not in (None, False) for outcome in outcomes) for outcomes in found} == {
            *product((True, False), repeat=3)
        }


@pytest.mark.parametrize("seed", range(4))
def test_every_answer_to_four_questions_is_told_in_whatever_tree(seed):
    """What is asked next follows from the answers, and at each seed of the entry's own coins from these."""
    coins = seed % 2 == 1
    source = random.Random(seed)

    def tree(depth: int) -> Any:
        if depth == 0 or source.random() < 0.2:
            return None
        question = source.choice((TEST, SET, one_among(4), one_among(6), one_among(9)))
        return question, source.random() < 0.5, tree(depth - 1), tree(depth - 1)

    def every(node: Any) -> set[tuple[bool, ...]]:
        return {()} if node is None else {(at == 2, *rest) for at in (2, 3) for rest in every(node[at])}

    for _ in range(10 if coins else 60):
        trees = [tree(4) for _ in range(4 if coins else 1)]

        def entry(drawn, seed, trees=trees):
            drawn(OTHER, seed % len(trees))
            node = trees[seed % len(trees)]
            while node is not None:
                question, says, yes, no = node
                passes = (0, 1) if question is SET else (0,)
                outcome = drawn(question, says if question is TEST else passes if says else None)
                node = no if outcome in (None, False) else yes

        found, _ = told(entry, thrown=coins)
        said = {(one[0], *(outcome not in (None, False) for outcome in one[1:])) for one in found}
        assert {(number, *answers) for number, each in enumerate(trees) for answers in every(each)} <= said


def test_every_answer_is_told_whatever_list_is_drawn_between():
    """A set of all words, and of a list that a release names, which is another one in every way."""
    sizes = iter(range(10, 10_000))

    def entry(drawn, _):
        if drawn(SET, None) is None:
            drawn(OTHER, 3)
            if drawn(one_among(next(sizes)), None) is not None:
                drawn(one_among(4), None)

    said = {tuple(outcome not in (None, False) for outcome in outcomes if outcome != 3) for outcomes in told(entry)[0]}
    assert said == {(True,), (False, False), (False, True, False), (False, True, True)}


@pytest.mark.parametrize("thrown", [False, True])
@pytest.mark.parametrize("topics", [4, 5, 9])
def test_all_of_a_kind_pass_behind_answers_that_differ(topics, thrown):
    """Sets, or words of short lists and long ones, behind a test that says no and one that says yes."""

    def entry(drawn, _, *, lists):
        if drawn(TEST, False) or not drawn(TEST, False):
            return
        for _ in range(topics):
            if drawn(one_among(4), None) is None and lists:
                drawn(one_among(9), None)

    assert (False, True, *((0,),) * topics) in told(partial(entry, lists=False), thrown=thrown)[0]
    assert (False, True, *(None, (0,)) * topics) in told(partial(entry, lists=True), thrown=thrown)[0]


@pytest.mark.parametrize(("topics", "thrown"), [(3, False), (4, False), (5, False), (4, True)])
def test_sets_of_other_candidates_pass_behind_a_gate_or_behind_sets_that_pass_by_themselves(topics, thrown):
    def gated(drawn, _):
        if drawn(SET, None) is not None:
            for _ in range(topics):
                if drawn(one_among(4), None) is None:
                    drawn(one_among(9), None)

    def passing(drawn, _):
        for _ in range(topics):
            if drawn(one_among(4), (0,)) is None:
                drawn(one_among(9), None)

    assert (LEADING, *(None, (0,)) * topics) in told(gated, thrown=thrown)[0]
    assert (None, (0,)) * topics in told(passing, thrown=thrown)[0]


def test_sets_are_told_apart_by_candidates_at_each_size_by_itself():
    """Tests, and two numbers of candidates at two sizes: each number passes, and the other does not."""

    def entry(drawn, _):
        for _ in range(2):
            drawn(TEST, False)
            for counts in (among(6), among(9)):
                drawn(replace(ONE, aggregate=counts), None)
                drawn(replace(SET, aggregate=counts), None)

    found, _ = told(entry)
    for place in range(4):
        passing = [*(((0,) if at % 2 == 0 else LEADING) if at == place else None for at in range(4))]
        assert (False, *passing) * 2 in found


def two_sets(drawn, _, by_itself):
    if drawn(SET, LEADING if by_itself[0] else None) is not None:
        drawn(SET, LEADING if by_itself[1] else None)


def set_or_draw_twice(drawn, _, by_itself):
    for passes in by_itself[:2]:
        if drawn(SET, LEADING if passes else None) is None:
            drawn(OTHER, 3)


def set_behind_both(drawn, _, by_itself, *, order):
    questions = [(TEST, by_itself[0]), (SET, LEADING if by_itself[1] else None)][::order]
    if all(drawn(*question) not in (False, None) for question in questions):
        drawn(SET, LEADING if by_itself[2] else None)


def three_tests(drawn, _, by_itself):
    for says in by_itself:
        drawn(TEST, says)


def one_of_each(drawn, _, by_itself):
    drawn(TEST, by_itself[0])
    drawn(OTHER, 3)
    drawn(SET, LEADING if by_itself[1] else None)


ENTRIES = {
    "set, and behind a pass a set": two_sets,
    "set or a draw, twice": set_or_draw_twice,
    "yes, then a pass, then a set": partial(set_behind_both, order=1),
    "pass, then a yes, then a set": partial(set_behind_both, order=-1),
    "three tests": three_tests,
    "test and set, whatever they say": one_of_each,
}
BOTH = (LEADING, None)
EVERY = {
    "set, and behind a pass a set": {(None,), *((LEADING, more) for more in BOTH)},
    "set or a draw, twice": {
        tuple(part for one in two for part in ((one,) if one else (None, 3))) for two in product(BOTH, repeat=2)
    },
    "yes, then a pass, then a set": {(False,), (True, None), *((True, LEADING, more) for more in BOTH)},
    "pass, then a yes, then a set": {(None,), (LEADING, False), *((LEADING, True, more) for more in BOTH)},
    "three tests": {*product((True, False), repeat=3)},
    "test and set, whatever they say": {(says, 3, more) for says in (True, False) for more in BOTH},
}


def test_of_many_tests_all_yes_and_all_no_are_told_and_some_otherwise():
    def entry(drawn, _):
        for _ in range(12):
            drawn(TEST, False)

    found, asked = told(entry)
    assert {(True,) * 12, (False,) * 12, (True, *(False,) * 11), (*(False,) * 11, True)} <= found
    assert len(found) <= 2 * ROOM
    assert asked <= 4 * ROOM


@pytest.mark.parametrize("by_itself", [True, False])
def test_of_many_tests_all_but_one_say_yes(by_itself):
    """The first, the second or the last: also where no more than two are asked unless one of these says no."""

    def entry(drawn, _, *, least):
        says = [drawn(TEST, by_itself) for _ in range(least)]
        for _ in range(0 if all(says) else 5):
            drawn(TEST, by_itself)

    found, _ = told(partial(entry, least=6))
    assert {(*(True,) * at, False, *(True,) * (5 - at)) for at in (0, 1, 5)} <= {outcomes[:6] for outcomes in found}
    found, _ = told(partial(entry, least=2))
    assert {(False, *(True,) * 6), (True, False, *(True,) * 5)} <= found


@pytest.mark.parametrize("sizes", [(1, 2, 3, 1, 2, 3, 1, 2), (1, 1, 2, 2, 3, 3), (1, 2, 3, 4, 1, 2)])
def test_all_but_one_of_several_kinds_pass(sizes):
    def entry(drawn, _):
        for size in sizes:
            drawn(sized(size), None)

    found = {tuple(outcome is not None for outcome in outcomes) for outcomes in told(entry)[0]}
    last = len(sizes) - 1
    assert {tuple(at != gap for at in range(len(sizes))) for gap in (0, 1, last)} <= found


def test_all_but_one_of_four_kinds_otherwise_behind_every_answer_of_the_kinds():
    """Of four sizes, one of which passes half of the time by itself: sixteen answers, and three sets otherwise each."""
    sizes = (1, 2, 3, 4) * 2

    def entry(drawn, _):
        for at, size in enumerate(sizes):
            drawn(sized(size), tuple(range(size)) if at < len(sizes) // 2 else None)

    found = {tuple(outcome is not None for outcome in outcomes) for outcomes in told(entry)[0]}
    for kinds in product((True, False), repeat=4):
        for other in (0, 1, len(sizes) - 1):
            assert tuple(says != (at == other) for at, says in enumerate(kinds * 2)) in found


def test_sets_of_four_numbers_of_candidates_pass_and_fail_in_every_way():
    def entry(drawn, _):
        for passes in (True, False):
            for candidates in (4, 6, 8, 10):
                drawn(one_among(candidates), (0,) if passes else None)

    found = {tuple(outcome is not None for outcome in outcomes) for outcomes in told(entry)[0]}
    assert {kinds * 2 for kinds in product((True, False), repeat=4)} <= found


@pytest.mark.parametrize("by_itself", [None, LEADING])
def test_of_many_sets_all_pass_and_all_fail(by_itself):
    for number in (4, 5, 6):
        found, asked = told(lambda drawn, _, number=number: [drawn(SET, by_itself) for _ in range(number)])
        assert {(LEADING,) * number, (None,) * number} <= found
        assert len(found) <= 2 * ROOM
        assert asked <= 4 * ROOM


@pytest.mark.parametrize("topics", [3, 4, 5])
def test_sets_of_a_kind_all_pass_behind_others_that_fail_or_pass(topics):
    """A word for each topic as a set, and two words where that fails, or where it passes."""

    def entry(drawn, _, *, behind):
        for _ in range(topics):
            if (drawn(ONE, None) is None) == (behind == "fails"):
                drawn(SET, None)

    found, _ = told(partial(entry, behind="fails"))
    assert {((0,),) * topics, (None, LEADING) * topics, (None, None) * topics} <= found
    found, _ = told(partial(entry, behind="passes"))
    assert {(None,) * topics, ((0,), None) * topics, ((0,), LEADING) * topics} <= found


@pytest.mark.parametrize("sizes", [(3, 4, 5, 6), (7, 6, 5, 4, 3, 2)])
def test_sets_of_one_size_all_pass_among_whatever_candidates(sizes):
    def entry(drawn, _):
        for size in sizes:
            drawn(one_among(size), None)

    assert {((0,),) * len(sizes), (None,) * len(sizes)} <= told(entry)[0]


@pytest.mark.parametrize("topics", [3, 4, 5])
def test_sets_of_one_size_pass_by_themselves_where_others_of_that_size_fail(topics):
    """A word of each topic as a set, and where that fails a word of a list that all topics have."""

    def entry(drawn, _):
        for _ in range(topics):
            if drawn(ONE, None) is None:
                drawn(one_among(10), None)

    assert {((0,),) * topics, (None, (0,)) * topics, (None, None) * topics} <= told(entry)[0]


def test_an_entry_that_asks_until_it_has_a_yes_comes_to_an_end():
    def entry(drawn, _):
        while not drawn(TEST, True):
            pass

    found, _ = told(entry)
    assert (True,) in found
    assert max(map(len, found)) <= 250

    def four(drawn, seed):
        for _ in range(4):
            drawn(SET, None)
        entry(drawn, seed)

    assert max(map(len, told(four)[0])) <= 250


def test_of_many_tests_and_sets_each_kind_says_yes_alone_and_with_the_other():
    def entry(drawn, _):
        for _ in range(3):
            drawn(TEST, False)
            drawn(SET, None)

    found, asked = told(entry)
    assert {(tests, sets) * 3 for tests in (True, False) for sets in BOTH} <= found
    assert asked <= 4 * ROOM


def test_a_set_behind_a_draw_that_a_coin_puts_there_is_told_too():
    def entry(drawn, seed):
        if seed % 2:
            drawn(OTHER, 3)
        drawn(SET, None)

    found, _ = told(entry, thrown=True)
    assert found == {(None,), (LEADING,), (3, None), (3, LEADING)}


def test_what_is_told_comes_before_what_is_usual():
    tell = either(lambda number, _: number or NotImplemented, lambda number, _: f"usual {number}")
    assert tell is not None
    assert [tell(number, SET) for number in (0, 1)] == ["usual 0", 1]
    assert either(None, None) is None


def test_what_comes_up_behind_one_of_the_coins_is_told_too():
    def entry(drawn, seed):
        drawn(*((SET, None) if seed % 2 == 0 else (TEST, False)))

    found, _ = told(entry, thrown=True)
    assert found == {(None,), (LEADING,), (False,), (True,)}
