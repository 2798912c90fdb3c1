"""Noise comes from the operating system: no state to repeat, no prefix that two processes share after a fork."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import chisquare

from sottovoce.errors import ParameterError
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import Randomness, SeededRandomness, SystemRandomness
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.session import PrivateICL
from sottovoce.tasks import Task

DRAWS = 32


def drawn_by_children(source: Randomness, children: int = 8) -> list[list[int]]:
    """What forked children draw from a source that the parent has already used."""
    source.below(2**128)
    pipes = []
    for _ in range(children):
        out, into = os.pipe()
        if os.fork() == 0:
            os.write(into, ",".join(str(source.below(2**128)) for _ in range(DRAWS)).encode())
            os._exit(0)
        os.close(into)
        pipes.append(out)
    found = []
    for out in pipes:
        with os.fdopen(out, "rb") as file:
            found.append([int(number) for number in file.read().split(b",")])
        os.wait()
    return found


def all_different(draws: list[list[int]]) -> bool:
    return len({number for child in draws for number in child}) == sum(len(child) for child in draws)


def test_forked_processes_share_no_draw():
    # A false alarm needs two equal numbers among 256 of 128 bits: below 1e-33.
    assert all_different(drawn_by_children(SystemRandomness()))


@pytest.mark.slow
@pytest.mark.parametrize("source", [SeededRandomness(1)], ids=["a generator with a state"])
def test_a_source_that_keeps_a_state_is_caught_after_a_fork(source):
    draws = drawn_by_children(source)
    assert not all_different(draws)
    assert draws[0] == draws[1]


def test_seeding_every_generator_there_is_changes_nothing():
    def fresh() -> list[int]:
        random.seed(7)
        np.random.seed(7)
        return [SystemRandomness().below(2**64) for _ in range(8)]

    assert fresh() != fresh()


def test_a_new_source_starts_nowhere():
    assert all_different([[SystemRandomness().below(2**128) for _ in range(DRAWS)] for _ in range(8)])


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 10, 255, 256, 257])
def test_every_value_below_a_bound_is_equally_likely(bound):
    # 40 draws a value; false alarm 1e-6 for each bound.
    assert spread(SystemRandomness().below, bound) > 1e-6


def test_a_remainder_in_the_place_of_rejection_is_caught():
    # The planted mistake: a byte modulo 200 makes 0 to 55 twice as likely. Power above 1 - 1e-9.
    assert spread(lambda bound: SystemRandomness().below(256) % bound, 200) < 1e-6


def spread(below: Callable[[int], int], bound: int) -> float:
    if bound == 1:
        return 1.0 if {below(1) for _ in range(40)} == {0} else 0.0
    seen = np.bincount([below(bound) for _ in range(40 * bound)], minlength=bound)
    assert len(seen) == bound
    return float(chisquare(seen).pvalue)


def test_a_release_is_not_repeated_by_a_repeated_question():
    # Eight scores far apart in no way: 64 equal draws in a row have odds of 8**-63.
    scores = Scores([0] * 8, sensitivity=1, adjacency=Adjacency.REPLACE_ONE)
    assert len({Exponential(1.0).select(scores, SystemRandomness()) for _ in range(64)}) > 1


def test_a_seed_is_refused_by_a_session_that_holds_records():
    rows = [Row(1, {"text": "a note", "label": "billing"})]
    with pytest.raises(ParameterError, match="whoever knows the seed"):
        PrivateICL(
            records=PrivateRecords(rows, source="notes"),
            task=Task(labels=["billing", "fraud"]),
            model=FakeScorer(),
            budget=Budget(1.0),
            ledger=":memory:",
            randomness=SeededRandomness(1),
        )


def test_a_source_that_only_says_it_is_secure_is_a_matter_of_code_and_not_of_options():
    # No public door takes a seed: the command line has no such option, and the source's class has no parameter.
    with pytest.raises(TypeError):
        SystemRandomness(7)
    assert SystemRandomness.secure
    assert not SeededRandomness.secure
