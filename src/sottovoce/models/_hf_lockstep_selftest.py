"""What a model does in lockstep on this machine: its own logits, and rows that keep apart. Made-up public text only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

import torch
from torch import Tensor

from sottovoce.models._hf_lockstep_cache import StoppedError
from sottovoce.models._hf_lockstep_prompts import PromptTokens
from sottovoce.models._hf_lockstep_read import LockstepPrompts
from sottovoce.models.stepping import Group, Prompt

if TYPE_CHECKING:
    from sottovoce.models.hf_stepper import TransformersStepper

BEFORE: Final = "Notes of the harbour. Note:"
AFTER: Final = ". Note:"
INSIDE: Final = 40
WORDS: Final = (
    "seven boats came home before the storm",
    "the lamps stayed lit until morning",
    "blue",
    "",
    "one did not, and nobody spoke of it for a year or more",
    "rain, rain",
    "ask the pilot about the tide",
)
OTHERS: Final = ("a quiet day", "x " * 40, "", "fog", "the keeper counts the ships", "zz", "no")
STEPS: Final = 3
SLOTS: Final = (2, 7)
"""Experts of the made-up groups; each group of the smaller kind has one text, of the larger two."""

Rows = list[dict[int, Tensor]]
"""For each step, the rows of each text: the public one, then the experts'."""


@final
@dataclass(frozen=True)
class LockstepReport:
    """What was found.

    Attributes:
        exact: Whether logits in lockstep are those of a plain forward pass, to rounding.
        largest_difference: From a plain forward pass, in logits.
        allowed: Difference that counts as rounding, for the model's dtype and size of logits.
        isolated: Whether a row was equal in every bit whatever the other prompts held, and whichever texts moved.
        finite: Whether all numbers were finite.
    """

    exact: bool
    largest_difference: float
    allowed: float
    isolated: bool
    finite: bool

    @property
    def passed(self) -> bool:
        """Whether everything is as it should be."""
        return self.exact and self.isolated and self.finite


def run_self_test(stepper: TransformersStepper) -> LockstepReport:
    """Runs every check; takes a few dozen forward passes."""
    try:
        base = _written(stepper, WORDS)
    except StoppedError:
        return LockstepReport(False, float("inf"), 0.0, False, False)
    difference, size = _from_plain(stepper, base)
    # Rounding to a shorter dtype happens once a layer; four logits in a hundred is far below any mistake of position.
    allowed = 1e-4 + 16 * torch.finfo(stepper.engine.model.dtype).eps * size
    finite = all(bool(rows.isfinite().all()) for step in base for rows in step.values())
    return LockstepReport(difference <= allowed, difference, allowed, _isolated(stepper, base), finite)


def _isolated(stepper: TransformersStepper, base: Rows) -> bool:
    """Whether the first expert and the public prompt keep every bit whatever happens beside them.

    Other experts come, go and take the first place: how many there are may be private.
    """
    first = WORDS[:1]
    fewer = [_written(stepper, WORDS, slots=slots) for slots in ((1, 6), (1, 1), (1, 3))]
    more = [_written(stepper, WORDS * 5, slots=slots) for slots in ((3, 8), (15, 16), (17, 33))]
    second = [_written(stepper, (OTHERS[4], *WORDS), slots=slots) for slots in ((3, 8), (2, 5))]
    if not all(_same(base, other) for other in (*fewer, *more)) or not all(_same(base, o, 2) for o in second):
        return False
    worlds: list[Callable[[], Rows]] = [
        lambda: _written(stepper, (*first, *OTHERS[1:])),
        lambda: _written(stepper, (*first, *WORDS[:0:-1])),
        lambda: _written(stepper, (*first, *[None] * (len(WORDS) - 1))),
        lambda: _written(stepper, WORDS, moving=[0]),
        lambda: _written(stepper, WORDS, moving=[1]),
    ]
    return all(_same(base, world()) for world in worlds)


def _same(base: Rows, other: Rows, place: int = 1) -> bool:
    """Whether the public row is the same, and the first expert's, which stands in this place."""
    return all(
        torch.equal(base[k][text][:2], rows[[0, place]]) for k, step in enumerate(other) for text, rows in step.items()
    )


def _groups(words: Sequence[str | None], slots_of: Sequence[int] = SLOTS) -> list[Group]:
    public = Prompt(BEFORE, "a note", AFTER)
    return [
        Group(public, [None if text is None else Prompt(BEFORE, text, AFTER) for text in words[:slots]])
        for slots in slots_of
    ]


def _token(stepper: TransformersStepper, text: int, step: int) -> int:
    """Made-up tokens, other ones in every text."""
    return (7 + 31 * text + 13 * step) % min(stepper.engine.model.words, stepper.vocabulary)


def _tokens(stepper: TransformersStepper, prompt: Prompt, room: int) -> PromptTokens:
    """A token for each character, whatever the tokenizer knows."""
    count = min(stepper.engine.model.words, stepper.vocabulary)
    before, inside, after = (
        tuple(ord(c) * 53 % count for c in text) for text in (prompt.before, prompt.inside, prompt.after)
    )
    return PromptTokens(before, inside[:room], after)


def _written(
    stepper: TransformersStepper,
    words: Sequence[str | None],
    moving: Sequence[int] | None = None,
    slots: Sequence[int] = SLOTS,
) -> Rows:
    """Rows of three texts over a few steps, or of those texts alone that move."""
    prompts = LockstepPrompts(
        stepper, _groups(words, slots), INSIDE, STEPS, lambda prompt, room: _tokens(stepper, prompt, room)
    )
    try:
        decoding = prompts.write([0, 1, 1], STEPS)
        found = []
        for step in range(STEPS):
            texts = range(3) if moving is None else moving
            given = {text: None if step == 0 else _token(stepper, text, step) for text in texts}
            found.append({one.text: torch.cat([one.public[None], *one.blocks]) for one in decoding.step(given)})
        decoding.close()
    finally:
        prompts.close()
    return found


def _from_plain(stepper: TransformersStepper, base: Rows) -> tuple[float, float]:
    """Largest difference from plain forward passes over the same tokens, and the largest logit."""
    difference = size = 0.0
    groups = _groups(WORDS)
    with stepper.engine.no_gradient():
        for text, number in enumerate((0, 1, 1)):
            for row, prompt in enumerate((groups[number].public, *groups[number].experts)):
                if prompt is None or row not in (0, 1, len(groups[number].experts)):
                    continue
                tokens = _tokens(stepper, prompt, INSIDE)
                ids = [*tokens.before, *(tokens.own or ())]
                for step in range(STEPS):
                    ids += [_token(stepper, text, step)] if step else []
                    truth = stepper.engine.plain(ids)
                    difference = max(difference, float((truth - base[step][text][row]).abs().max()))
                    size = max(size, float(truth.abs().max()))
    return difference, size
