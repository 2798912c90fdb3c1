"""Texts that are drawn on a tape, with all that was drawn for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sottovoce.methods.decoding.decoder import DecodingPlan
from sottovoce.models.stepper import Step
from sottovoce.testing import text_worlds as worlds
from sottovoce.testing.draw_tape import Tape, Teller, WrongDrawError, running
from sottovoce.testing.label_worlds import seeded
from sottovoce.testing.replays import Coins
from sottovoce.testing.report import ContractError, must_not_raise

StepOf = Callable[[tuple[int, ...]], Step]
"""The scores of the token behind a text."""


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
    contract: str = "price",
    words: int = worlds.TOKENS,
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
        contract: That is broken where a text raises.
        words: Tokens that there are, the end among them.

    Raises:
        ContractError: It raises, or draws from another source than the one that is given.
    """
    coins = Coins(seed)
    tape = Tape(coins, told, noise=seeded(1000 + seed))
    tokens = list[int | None]()
    with must_not_raise(contract, subject, "a text", world), running(tape):
        chooser = worlds.chooser_of(plan, coins, words)
        try:
            while not chooser.over:
                tokens.append(chooser.next(step_of(tuple(token for token in tokens if token is not None)), allowed))
        except WrongDrawError as wrong:
            raise ContractError("sampler", subject, str(wrong), world) from None
    return DrawnText(chooser, tuple(tokens), tape, coins.bounds)
