"""What mechanisms are given by a method without a law, in neighbouring worlds that have the same releases.

Guarantee   Between these worlds no mechanism is given something that moves by more than it was told, in whole numbers;
            all that is drawn for one answer loses no more than its event; and of the same releases and own coins the
            answer is the same.
Assumes     Noise comes from registered mechanisms. Worlds in which a method throws other coins of its own are left out,
            and noted. For draws other than selections of equal range the loss is an upper bound.
Sources     specification 1.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from sottovoce.experts.label_scores import ExpertOutputs
from sottovoce.methods.base import Method, Price
from sottovoce.testing import label_worlds as worlds
from sottovoce.testing.draw_losses import Losses, losses_of
from sottovoce.testing.draw_tape import Tape, Teller, WrongDrawError, running
from sottovoce.testing.label_worlds import Change, seeded
from sottovoce.testing.replays import OTHERWISE, Coins, far_apart, same_draws, seen, teller, ways_of
from sottovoce.testing.report import ContractError, Report, must_not_raise

LABELS: Final = (2, 3)
SEEDS: Final = 4
"""Answers that are drawn in each group of worlds: how often a method draws may follow what was released."""


class _Answer(NamedTuple):
    """An answer, and what was drawn for it."""

    label: int
    tape: Tape
    coins: Sequence[int]


def compare_moves(method: Method, subject: str, change: Change, price: Price, report: Report) -> None:
    """Answers of experts a change apart.

    Args:
        method: A method without a law, and without samples.
        subject: The method with its options, for an error.
        change: What one change does.
        price: Of an answer.
        report: To be filled.

    Raises:
        ContractError: A mechanism is told less than what it is given moves by, draws lose more than the event says,
            something private reaches an answer by no registered mechanism, or nothing that is noted is drawn.
    """
    losses, drawn = Losses(change.adjacency), 0
    groups = [(labels, *group) for labels in LABELS for group in worlds.groups_of_pairs(labels, change)]
    groups += [(labels, *group) for labels in LABELS for group in worlds.groups_in_crowds(labels, change)]
    groups += [(labels, *group) for labels in worlds.LONG for group in worlds.groups_of_many(labels, change)]
    for labels, rows, pairs in groups:
        experts = [worlds.outputs(row, labels, change) for row in rows]
        said = [f"{worlds.shown_rows(row)} ({change}, {price})" for row in rows]
        for seed, ways, way in ways_of(SEEDS if labels == 2 else 1):
            first = _drawn(method, subject, experts[0], said[0], price, seed, way.teller)
            drawn += len(first.tape.draws) + len(first.tape.others)
            again = [
                _again(method, subject, each, where, price, seed, first)
                for each, where in zip(experts, said, strict=True)
            ]
            near = [answer.tape for answer in again if answer]
            ways.saw(way, [first.tape, *near])
            for one, other in pairs:
                answers = again[one], again[other]
                if answers[0] is None or answers[1] is None:
                    report.not_compared(f"{subject}: worlds in which it throws other coins of its own, {change}")
                    continue
                tape, twin = (answer.tape for answer in answers if answer)
                world = f"{worlds.shown_rows(rows[one])} and {said[other]}"
                if problem := far_apart(tape, twin, change.adjacency):
                    raise ContractError("sensitivity", subject, problem, world)
                losses.add(losses_of(tape.draws, twin.draws), world)
    if not drawn:
        problem = "it states no law, and draws from no registered mechanism: state a law, or register what draws"
        raise ContractError("drive", subject, problem, f"{change}, {price}")
    if found := losses.exceed(method.event(price, change.adjacency), price.delta):
        problem, world = found
        raise ContractError("composition", subject, problem, world)
    report.kept("composition", losses.pairs, "pairs of worlds whose draws lose no more than the event")


def draws_alike(
    method: Method, subject: str, one: ExpertOutputs, other: ExpertOutputs, world: str, price: Price
) -> bool | None:
    """Whether mechanisms are given the same in two worlds, and the answers are the same for the same releases.

    Args:
        method: A method without a law.
        subject: The method with its options, for an error.
        one: What experts say.
        other: What they say in another world.
        world: Both in words.
        price: Of an answer.

    Returns:
        ``None`` where it throws other coins of its own in the other world, or throws coins where experts have another
        order or number: a coin that falls for one expert falls for another one there, which changes no law.
    """
    lost: list[int] = []
    first = _drawn(method, subject, one, world, price, 0)
    again = _drawn(method, subject, other, world, price, 0, teller(first.tape, lost))
    moved = not np.array_equal(one._rows, other._rows, equal_nan=True)
    if again.coins != first.coins or (first.coins and moved):
        return None
    given = [[seen(draw) for draw in answer.tape.draws] for answer in (first, again)]
    return not lost and first.tape.trace == again.tape.trace and given[0] == given[1] and first.label == again.label


def _again(
    method: Method, subject: str, experts: ExpertOutputs, world: str, price: Price, seed: int, first: _Answer
) -> _Answer | None:
    """The same releases in another world; ``None`` where other coins are thrown there."""
    lost: list[int] = []
    again = _drawn(method, subject, experts, world, price, seed, teller(first.tape, lost))
    if again.coins != first.coins:
        return None
    if lost or not same_draws(first.tape, again.tape):
        raise ContractError("asks", subject, OTHERWISE, world)
    if again.label != first.label:
        problem = "of the same releases it gives two answers: something private reaches it by no registered mechanism"
        raise ContractError("drive" if first.coins else "post-processing", subject, problem, world)
    return again


def _drawn(
    method: Method,
    subject: str,
    experts: ExpertOutputs,
    world: str,
    price: Price,
    seed: int,
    told: Teller | None = None,
) -> _Answer:
    coins = Coins(seed)
    tape = Tape(coins, told, noise=seeded(1000 + seed))
    with must_not_raise("sampler", subject, "choose", world), running(tape):
        try:
            label = int(method.choose(experts, price, coins))
        except WrongDrawError as wrong:
            raise ContractError("sampler", subject, str(wrong), world) from None
    return _Answer(label, tape, coins.bounds)
