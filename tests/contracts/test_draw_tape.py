"""An answer of a threshold test is a release as any other: noted, told, compared, priced once a run, with a law."""

from __future__ import annotations

import math

import pytest

from contracts.wrong.mechanisms import Endless, OwnNoise
from sottovoce.mechanisms.above_threshold import AboveThreshold
from sottovoce.mechanisms.base import registered
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.laplace import Laplace
from sottovoce.privacy.aggregates import Counts, ItemCounts, Scores
from sottovoce.privacy.events import NoOpDpEvent, PureDP
from sottovoce.privacy.points import PrivatePoints
from sottovoce.privacy.unit import DROP, Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.testing import draw_tape
from sottovoce.testing.draw_losses import loss_of, losses_of, too_far
from sottovoce.testing.draw_tape import Draw, Tape, WrongDrawError, numbers_of, running
from sottovoce.testing.joint_laws import NoLawError, chances_of, joint_law
from sottovoce.testing.replays import first_difference

ADDED = Adjacency.ADD_REMOVE
TEST = AboveThreshold(1.0)


def run_of(queries, told=None, *, threshold=3, sensitivity=1, source=None):
    """A tape on which one run is asked of these counts until it says yes."""
    tape = Tape(SeededRandomness(1), told)
    with running(tape):
        run = TEST.start(
            threshold=threshold, sensitivity=sensitivity, adjacency=ADDED, randomness=source or tape.randomness
        )
        any(run.above(Counts([count], l1=1, adjacency=ADDED)) for count in queries)
    return tape


def test_answers_are_draws_in_their_order_and_can_be_told():
    answers = [False, True]
    first = run_of((1, 2, 90), lambda number, draw: answers[number])
    assert [(draw.outcome, draw.test.queries) for draw in first.draws] == [(False, (1,)), (True, (1, 2))]
    assert (first.others, {draw.test.run for draw in first.draws}) == ([TEST], {0})
    assert [draw.outcome for draw in run_of((-90, 90)).draws] == [False, True], "drawn where nothing is told"


def test_what_a_run_is_told_is_compared_and_what_it_is_asked_is_not():
    told = lambda number, draw: False  # noqa: E731
    usual = run_of((1,), told).trace
    assert first_difference(usual, run_of((2,), told).trace) == ""
    for other in ({"threshold": 4}, {"sensitivity": 2}):
        assert "tells a mechanism something else" in first_difference(usual, run_of((1,), told, **other).trace)


def test_a_run_costs_its_event_once_if_any_of_its_queries_moves():
    told = lambda number, draw: False  # noqa: E731
    one, same, other = (run_of(queries, told).draws for queries in ((1, 5, 6), (1, 5, 6), (1, 4, 5)))
    assert losses_of(one, same) == [NoOpDpEvent()] * 3
    assert losses_of(one, other) == [NoOpDpEvent(), PureDP(1.0), NoOpDpEvent()]
    assert "counts change by 1 in all, and they change by 2" in too_far(*(run_of((n,)).draws[0] for n in (1, 3)), ADDED)


def test_every_yes_of_a_run_that_goes_on_is_paid():
    def asked(*queries):
        tape = Tape(SeededRandomness(1), lambda number, draw: number != 1)
        with running(tape):
            run = TEST.start(threshold=3, sensitivity=1, adjacency=ADDED, randomness=tape.randomness)
            for count in queries:
                run.above(Counts([count], l1=1, adjacency=ADDED))
                run.over = False
        return tape

    one, other = asked(1, 2, 3, 4, 5), asked(1, 2, 3, 5, 5)
    assert losses_of(one.draws, one.draws) == [NoOpDpEvent()] * 5
    assert losses_of(one.draws, other.draws) == [*[NoOpDpEvent()] * 3, PureDP(1.0), NoOpDpEvent(), *[PureDP(1.0)] * 3]
    assert one.others == [TEST] * 4, "started, and gone on after three of four yeses"
    with pytest.raises(NoLawError):
        chances_of(one.draws[-1])


def test_a_run_that_answers_by_a_method_of_its_own_is_refused(monkeypatch):
    monkeypatch.setattr(draw_tape, "registered", lambda: {"endless": (Endless, {})})
    tape = Tape(SeededRandomness(1))
    with running(tape), pytest.raises(WrongDrawError, match=r"EndlessRun.* which nothing notes"):
        Endless(1.0).start(threshold=3, sensitivity=1, adjacency=ADDED, randomness=tape.randomness)


def test_a_mechanism_must_ask_the_source_that_it_is_given(monkeypatch):
    monkeypatch.setattr(draw_tape, "registered", lambda: {"own": (OwnNoise, {}), "exponential": (Exponential, {})})
    tape, lone = Tape(SeededRandomness(1)), Scores([1], sensitivity=1, adjacency=ADDED)
    with running(tape):
        assert Exponential(1.0).select(lone, tape.randomness) == 0, "one candidate takes no noise"
        with pytest.raises(WrongDrawError, match="without a question to the source"):
            OwnNoise(1.0).release(Counts([1], l1=1, adjacency=ADDED), tape.randomness)


def test_a_mechanism_that_draws_by_others_hands_them_the_source_that_it_was_given():
    clustering, example = registered()["private_clustering"]
    points = PrivatePoints([[0.6, 0.1], [-0.6, 0.1], [0.5, 0.2]], adjacency=example["adjacency"])
    tape = Tape(SeededRandomness(1), noise=SeededRandomness(2))
    with running(tape):
        clustering(**example).cluster(points, tape.randomness)
    assert tape.others
    assert tape.draws


def test_the_law_of_a_run_is_followed_answer_by_answer():
    queries = (1, 4, 2)
    law = joint_law(lambda told: run_of(queries, told), chances_of, 10)
    ends = {(False,) * at + (True,): p for at, p in enumerate(TEST.law(queries, 3, 1)[:-1])}
    ends[(False,) * 3] = TEST.law(queries, 3, 1)[-1]
    assert {path: math.exp(log) for path, log in law.items()} == pytest.approx(ends)


def test_a_run_must_be_started_where_it_is_noted_and_from_the_given_source():
    with pytest.raises(WrongDrawError, match="another source"):
        run_of((1,), source=SeededRandomness(1))
    early = TEST.start(3, sensitivity=1, adjacency=ADDED, randomness=SeededRandomness(1))
    with running(Tape(SeededRandomness(1))), pytest.raises(WrongDrawError, match="started by no mechanism"):
        early.above(Counts([1], l1=1, adjacency=ADDED))


def test_counts_that_move_by_less_than_they_may_cost_less():
    def released(*values):
        return Draw(Laplace(1.0), Counts(values, l1=4, adjacency=ADDED), (), None)

    lost = [loss_of(released(5, 5), released(*values)) for values in ((5, 5), (5, 4), (6, 4), (7, 3), (9, 5), (9, 9))]
    assert lost[0] == NoOpDpEvent()
    assert [loss.epsilon for loss in lost[1:]] == pytest.approx([0.25, 0.5, 1, 1, 1])

    class Other(Laplace):
        """Whose loss is worked out by the law that it states."""

    others = [Draw(Other(1.0), Counts(values, l1=4, adjacency=ADDED), (), None) for values in ((5, 5), (5, 4), (6, 4))]
    assert [loss_of(others[0], other).epsilon for other in others[1:]] == pytest.approx([0.25, 0.5])

    class Unstated(Laplace):
        noise_law = None

    whole = [Draw(Unstated(1.0), Counts([n], l1=4, adjacency=ADDED), (), None) for n in (1, 2)]
    assert loss_of(*whole) == PureDP(1.0)


def test_aggregates_may_be_handed_over_by_name():
    tape = Tape(SeededRandomness(1))
    with running(tape):
        Exponential(1.0).select(scores=Scores([1, 2], sensitivity=1, adjacency=ADDED), randomness=tape.randomness)
    assert [draw.aggregate.values.tolist() for draw in tape.draws] == [[1, 2]]


def test_counts_of_items_are_compared_item_by_item():
    items = [ItemCounts(units, items_per_unit=2, change=DROP, adjacency=ADDED) for units in ([], ["a"], ["ab", "cd"])]
    assert len({numbers_of(its).tobytes() for its in items}) == 3
    draw = type("Draw", (), {"mechanism": None, "test": None})
    none, one, two = (type("D", (draw,), {"aggregate": its})() for its in items)
    assert too_far(none, one, ADDED) == ""
    assert "items change by 2 in all, and they change by 4" in too_far(two, none, ADDED)


@pytest.mark.parametrize(
    "other", [Scores([1, 0], sensitivity=1, adjacency=ADDED), Scores([0, 1], sensitivity=2, adjacency=ADDED)]
)
def test_scores_and_their_bounds_are_told(other):
    def told(scores):
        tape = Tape(SeededRandomness(1), lambda number, draw: 1)
        with running(tape):
            Exponential(1.0).select(scores, tape.randomness)
        return tape.told

    usual = Scores([0, 1], sensitivity=1, adjacency=ADDED)
    assert told(usual) == told(usual) != told(other)


def test_all_that_is_told_and_given_is_told():
    told = lambda number, draw: False  # noqa: E731
    usual = run_of((1, 2), told).told
    assert run_of((1, 2), told).told == usual
    assert run_of((1, 3), told).told != usual
    assert run_of((1, 2), told, threshold=4).told != usual
    assert run_of((1, 2), lambda number, draw: number == 1).told != usual
