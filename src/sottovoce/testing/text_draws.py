"""Texts that are drawn on a tape, and drawn again with the same releases in another world.

Guarantee   Two texts of the same releases, answers and own coins differ by what is private and reaches them without
            noise.
Assumes     Noise comes from registered mechanisms. Coins of a decoder's own are the same in two worlds where as many
            are thrown, of the same kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

from sottovoce.methods.decoding.decoder import DecodingPlan
from sottovoce.models.stepper import Step
from sottovoce.privacy.aggregates import Scores
from sottovoce.testing import text_worlds as worlds
from sottovoce.testing.draw_tape import Draw, Tape, Teller, WrongDrawError, fingerprint, running
from sottovoce.testing.label_worlds import seeded
from sottovoce.testing.report import ContractError, must_not_raise

StepOf = Callable[[tuple[int, ...]], Step]
"""The scores of the token behind a text."""


@final
class Coins:
    """A seeded source that notes what it was asked for.

    Attributes:
        bounds: Of every answer.
    """

    secure = False

    def __init__(self, seed: int) -> None:
        self._source, self.bounds = seeded(seed), list[int]()

    def below(self, bound: int) -> int:
        """A uniform integer, noted."""
        self.bounds.append(bound)
        return self._source.below(bound)


class DrawnText(NamedTuple):
    """A text, and what was drawn for it.

    Attributes:
        chooser: That chose its tokens.
        tokens: Of the text; ``None`` where there was none to choose.
        tape: What was drawn.
        coins: Bounds of the coins of the decoder's own.
    """

    chooser: Any
    tokens: tuple[int | None, ...]
    tape: Tape
    coins: Sequence[int]


def drawn_on_tape(
    plan: DecodingPlan,
    step_of: StepOf,
    subject: str,
    world: str,
    seed: int,
    *,
    allowed: Sequence[int] | None = None,
    told: Teller | None = None,
    answered: Sequence[bool] = (),
    contract: str = "price",
) -> DrawnText:
    """A text. Coins of the decoder's own are the same whatever is released.

    Args:
        plan: What is charged.
        step_of: The scores of its tokens.
        subject: The decoder with its options, for an error.
        world: The world in words.
        seed: Of its coins and of real draws.
        allowed: The only tokens that it may have; ``None`` for all.
        told: Says what every draw releases; ``None`` for real draws.
        answered: What the first threshold tests answer.
        contract: That is broken where a text raises.

    Raises:
        ContractError: It raises, or draws from another source than the one that is given.
    """
    coins = Coins(seed)
    tape = Tape(coins, told, answered=answered, noise=seeded(1000 + seed))
    chooser, tokens = worlds.chooser_of(plan, coins), list[int | None]()
    with must_not_raise(contract, subject, "a text", world), running(tape):
        try:
            while not chooser.over:
                tokens.append(chooser.next(step_of(tuple(token for token in tokens if token is not None)), allowed))
        except WrongDrawError as wrong:
            raise ContractError("sampler", subject, str(wrong), world) from None
    return DrawnText(chooser, tuple(tokens), tape, coins.bounds)


def teller(first: Tape, lost: list[int]) -> Teller:
    """The releases of another text, up to the first draw that it has not; from there on, which is noted, real ones."""

    def told(number: int, draw: Draw) -> Any:
        if lost or number >= len(first.draws) or kind(draw) != kind(first.draws[number]):
            lost.append(number)
            return NotImplemented
        return first.draws[number].outcome

    return told


def kind(draw: Draw) -> tuple[str, str, int | None]:
    """What a release must have in common with another one to be given in its place."""
    size = len(draw.aggregate.values) if hasattr(draw.aggregate, "values") else None
    return type(draw.mechanism).__name__, type(draw.aggregate).__name__, size


def seen(draw: Draw) -> Any:
    """What a mechanism draws from, without what all scores have in common: no selection sees that."""
    if not isinstance(draw.aggregate, Scores):
        return fingerprint((draw.mechanism, draw.public, draw.aggregate))
    bounds = (draw.aggregate.sensitivity, draw.aggregate.squared_l2)
    return fingerprint((draw.mechanism, draw.public, bounds, draw.aggregate.values - draw.aggregate.values.min()))
