"""What a model does in lockstep on this machine: its own logits, and rows that keep apart. Made-up public text only."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor

from sottovoce.models.lockstep.attention import Family
from sottovoce.models.lockstep.decoding import GroupRead, LockstepDecoding, slots_of
from sottovoce.models.lockstep.memory import StoppedError
from sottovoce.models.lockstep.prefill import LockstepPrompts
from sottovoce.models.lockstep.prompts import PromptTokens
from sottovoce.models.lockstep.workspace import Workspace
from sottovoce.models.stepper import Group, Prompt

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
STEPS: Final = 3
SLOTS: Final = (2, 7)
"""Experts of the made-up groups; each group of the smaller kind has one text, of the larger two."""
ENDS: Final = (1, 2, 3, 15)
"""Experts in a pass that is filled up: numbers at which processors change kernels, and one less than a block."""
MADE_UP: Final = 24
"""Tokens of the prompt that is looked at."""
LARGE: Final = 1e3
"""Size of the keys and values of a prompt that shouts."""

Rows = list[dict[int, Tensor]]
"""For each step, the rows of each text: the public one, then the experts'."""


@final
@dataclass(frozen=True, order=True)
class Shape:
    """What decides which kernels compute an expert's row. Public numbers.

    Attributes:
        rows: Of every pass.
        head_rows: Of every product of the output head.
        prompts: Places of every panel.
        texts: Of every panel.
        prefix: Tokens that the prompts begin with.
        room: Places behind them, for a prompt's own tokens.
        tokens: Of a text at its longest.
    """

    rows: int
    head_rows: int
    prompts: int
    texts: int
    prefix: int
    room: int
    tokens: int

    def __str__(self) -> str:
        return (
            f"passes of {self.rows} rows, products of {self.head_rows} rows with the head, panels of {self.prompts} "
            f"prompts x {self.texts} texts with {self.prefix} shared tokens, {self.room} of their own and "
            f"{self.tokens} of a text"
        )


@final
@dataclass(frozen=True)
class LockstepReport:
    """What was found.

    Attributes:
        exact: Whether logits in lockstep are those of a plain forward pass, to rounding.
        largest_difference: From a plain forward pass, in logits.
        allowed: Difference that counts as rounding: a few times that of a plain pass over the same tokens.
        isolated: Whether an expert's row was equal in every bit at every place of a pass, of a panel and of a product
            of the head, whatever the other rows held.
        finite: Whether all numbers were finite.
        shapes: Where rows were compared.
    """

    exact: bool
    largest_difference: float
    allowed: float
    isolated: bool
    finite: bool
    shapes: tuple[Shape, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether everything is as it should be."""
        return self.exact and self.isolated and self.finite


def run_self_test(workspace: Workspace) -> LockstepReport:
    """Runs every check; takes a few dozen forward passes."""
    try:
        base = _written(workspace, WORDS)
    except StoppedError:
        return LockstepReport(False, float("inf"), 0.0, False, False)
    difference, allowed = _from_plain(workspace, base)
    finite = all(bool(rows.isfinite().all()) for step in base for rows in step.values())
    prompts = _prompts(workspace, WORDS)
    shapes = [
        (group, shape_of(workspace, group, texts, STEPS)) for group, texts in zip(prompts.groups, (1, 2), strict=True)
    ]
    try:
        isolated = finite and all(rows_keep_apart(workspace, group, shape) for group, shape in shapes)
    finally:
        prompts.close()
    return LockstepReport(
        difference <= allowed, difference, allowed, isolated, finite, tuple(shape for _, shape in shapes)
    )


def shape_of(workspace: Workspace, group: GroupRead, texts: int, tokens: int) -> Shape:
    """The shape in which so many texts of a group are written, each of so many tokens."""
    family = group.experts
    slots = slots_of(workspace.panel_rows, texts)
    return Shape(workspace.rows, workspace.head_rows, slots, texts, family.shared, group.public.room, tokens)


def prefix_digest(group: GroupRead) -> str:
    """SHA-256 of the keys and values of a group's public prefix: with a shape, all that ``rows_keep_apart`` reads."""
    digest = hashlib.sha256()
    for pair in group.experts.prefix:
        for tensor in pair:
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.contiguous().view(torch.uint8).cpu().numpy().tobytes())
    return digest.hexdigest()


def rows_keep_apart(workspace: Workspace, group: GroupRead, shape: Shape) -> bool:
    """Whether a made-up expert's row is the same to the bit at all places of this shape, whatever stands beside it.

    Of the group only the prefix is used, which is public.
    """
    with workspace.engine.no_gradient():
        everywhere, even, odd = _made_up(workspace, group, shape)
        panels = max(1, shape.rows // (shape.prompts * shape.texts))
        full = [(everywhere, shape.prompts)] * panels
        # Places behind the last whole panel of a pass, where a smaller one can stand.
        rest = max(0, shape.rows - panels * shape.prompts * shape.texts) // shape.texts
        mixed = [(even, shape.prompts), (odd, shape.prompts)] * panels
        # The last of these goes on behind a full pass.
        worlds = [
            full,
            *([[*full, (everywhere, rest)]] if rest else []),
            *([(even, count) for count in _panels(end, shape.prompts)] for end in ENDS),
            mixed[: panels + 1],
        ]
        base: dict[tuple[int, int], Tensor] = {}
        return all(_same_everywhere(workspace, world, shape, base) for world in worlds)


def _panels(experts: int, most: int) -> list[int]:
    """Experts in each panel."""
    return [*[most] * (experts // most), *([experts % most] if experts % most else [])]


def _made_up(workspace: Workspace, group: GroupRead, shape: Shape) -> tuple[_Crowd, _Crowd, _Crowd]:
    """Panels' worth of prompts that hold the one looked at: in all places, in the even ones, in the odd ones.

    Beside it stand prompts that shout, that are not finite, that are full, and that are empty.
    """
    engine = workspace.engine
    own, last = engine.empty((1,), shape.room), torch.zeros(engine.width, dtype=engine.model.dtype)
    last = last.to(engine.model.device)
    ids = engine.model.made_up(min(shape.room, MADE_UP))
    last[:] = engine.read_behind(group.experts.prefix, ids, own, 0)

    def noise(like: Tensor, size: float) -> Tensor:
        """Numbers of this size without much pattern."""
        places = torch.arange(like.numel(), dtype=torch.float64)
        return (size * (12.9898 * places + 0.1 * places.square()).sin()).reshape(like.shape).to(like)

    kinds: list[Callable[[Tensor], Tensor]] = [
        lambda like: noise(like, LARGE),
        lambda like: noise(like, LARGE),
        lambda like: torch.full_like(like, torch.nan),
        lambda like: noise(like, 1.0),
        torch.zeros_like,
    ]
    crowds = []
    for parities in ((0, 1), (0,), (1,)):
        pairs, lasts, lengths = engine.empty((shape.prompts,), shape.room), [], []
        for place in range(shape.prompts):
            looked_at = place % 2 in parities
            kind = kinds[place // 2 % len(kinds)]
            for kept, mine in zip(pairs, own, strict=True):
                for whole, part in zip(kept, mine, strict=True):
                    whole[place] = part[0] if looked_at else kind(part[0])
            lasts.append(last if looked_at else kind(last))
            lengths.append(len(ids) if looked_at else 0 if kind is torch.zeros_like else shape.room)
        family = Family(group.experts.prefix, pairs, torch.tensor(lengths, device=last.device))
        crowds.append(
            _Crowd(group.public, family, torch.stack(lasts), [place % 2 in parities for place in range(shape.prompts)])
        )
    return crowds[0], crowds[1], crowds[2]


def _same_everywhere(
    workspace: Workspace, world: Sequence[tuple[_Crowd, int]], shape: Shape, base: dict[tuple[int, int], Tensor]
) -> bool:
    """Whether all rows of the prompt that is looked at equal those of ``base``, which the first one seen goes into."""
    groups = [
        GroupRead(crowd.public, crowd.family, torch.cat([crowd.lasts[:1], crowd.lasts[:count]]), ())
        for crowd, count in world
    ]
    decoding = LockstepDecoding(workspace, [group for group in groups for _ in range(shape.texts)], shape.tokens)
    try:
        for step in range(min(shape.tokens, 2)):
            tokens = {
                text: None if step == 0 else _token(workspace, text % shape.texts, step)
                for text in range(len(groups) * shape.texts)
            }
            for result in decoding.step(tokens):
                crowd, count = world[result.text // shape.texts]
                place = 0
                for block in result.blocks:
                    for row in block:
                        if place < count and crowd.looked_at[place]:
                            first = base.setdefault((step, result.text % shape.texts), row.clone())
                            if not torch.equal(first, row):
                                return False
                        place += 1
    finally:
        decoding.close()
    return True


@final
@dataclass(frozen=True, repr=False)
class _Crowd:
    """A panel's worth of made-up prompts, and which of them is the one that is looked at."""

    public: Family
    family: Family
    lasts: Tensor
    looked_at: Sequence[bool]


def _groups(words: Sequence[str]) -> list[Group]:
    public = Prompt(BEFORE, "a note", AFTER)
    return [Group(public, [Prompt(BEFORE, text, AFTER) for text in words[:slots]]) for slots in SLOTS]


def _prompts(workspace: Workspace, words: Sequence[str]) -> LockstepPrompts:
    return LockstepPrompts(
        workspace, _groups(words), INSIDE, STEPS, lambda prompt, room: _tokens(workspace, prompt, room)
    )


def _token(workspace: Workspace, text: int, step: int) -> int:
    """Made-up tokens, other ones in every text."""
    return workspace.engine.model.made_up(1, 7 + 31 * text + 13 * step)[0]


def _tokens(workspace: Workspace, prompt: Prompt, room: int) -> PromptTokens:
    """A token for each character, whatever the tokenizer knows."""
    model = workspace.engine.model
    before, inside, after = (
        tuple(model.made_up(1, ord(c))[0] for c in text) for text in (prompt.prefix, prompt.private_text, prompt.suffix)
    )
    return PromptTokens(before, inside[:room], after)


def _written(workspace: Workspace, words: Sequence[str]) -> Rows:
    """Rows of three texts over a few steps."""
    prompts = _prompts(workspace, words)
    try:
        decoding = LockstepDecoding(workspace, [prompts.groups[group] for group in (0, 1, 1)], STEPS)
        written = []
        for step in range(STEPS):
            tokens = {text: None if step == 0 else _token(workspace, text, step) for text in range(3)}
            written.append(
                {result.text: torch.cat([result.public[None], *result.blocks]) for result in decoding.step(tokens)}
            )
        decoding.close()
    finally:
        prompts.close()
    return written


def _from_plain(workspace: Workspace, base: Rows) -> tuple[float, float]:
    """Largest difference from plain forward passes over the same tokens, and what is allowed there."""
    difference = size = 0.0
    furthest: list[int] = []
    groups = _groups(WORDS)
    with workspace.engine.no_gradient():
        for text, number in enumerate((0, 1, 1)):
            for row, prompt in enumerate((groups[number].public, *groups[number].experts)):
                if prompt is None or row not in (0, 1, len(groups[number].experts)):
                    continue
                tokens = _tokens(workspace, prompt, INSIDE)
                ids = [*tokens.prefix, *(tokens.own or ())]
                for step in range(STEPS):
                    ids += [_token(workspace, text, step)] if step else []
                    truth = workspace.engine.plain(ids)
                    gap = float((truth - base[step][text][row]).abs().max())
                    if not furthest or not gap <= difference:
                        difference, furthest = gap, list(ids)
                    size = max(size, float(truth.abs().max()))
        there = torch.tensor([furthest], device=workspace.engine.model.device)
        return difference, workspace.engine.model.allowed(there, difference, size)
