"""What an expert's row of scores becomes before rows are summed: clipped, on an integer grid, of known width.

Guarantee   A summand is a function of its own row and of public numbers, and every entry is a whole number from ``low``
            to ``high``. A row that says nothing (NaN, no finite best score among the candidates, plus infinity) adds
            zeros.
Sources     specification 1.4 (width), 5.1.1, 5.1.2 (log-probabilities), 5.8 (probabilities), 5.9 (clipped logits), 5.11
            (clipped differences), 9.1 (order: sanitise, normalise, clamp, round down to the grid).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, final

from sottovoce.errors import MissingExtraError
from sottovoce.experts.label_scores import GRID_BITS
from sottovoce.parameters import Checked, Number, OneOf, Positive
from sottovoce.privacy.numbers import exact

if TYPE_CHECKING:
    from torch import Tensor

CENTRES: Final = ("none", "median", "midrange")
NORMALIZATIONS: Final = ("candidates", "vocabulary", "max")
CLIP: Final = Number(1e-6, 1_000, strict=True, words="from 1e-6 to 1000 nats")
"""Where scores are clipped, which a method checks before anything is charged."""
Clip = Annotated[float, CLIP]
"""The same as an annotation."""
MOST_BITS: Final = 24
MOST_STEPS: Final = 1 << MOST_BITS
"""Whole numbers up to here are exact in float32, and so are sums that stay below it, in any order."""
GridBits = Annotated[int, Number(1, MOST_BITS, whole=True, strict=True)]
"""Bits of a grid on numbers from 0 to 1 whose steps are exact in float32."""

_FAR: Final = 1e4
"""Nats. Differences are brought within it before they are centred, so that minus infinity has a median too."""


@final
@dataclass(frozen=True, eq=False)
class Candidates:
    """The public list that a token is chosen from.

    Attributes:
        ids: Token of each candidate, ascending, shape (candidates,), int64; ``None`` for the whole vocabulary.
        logits: The public prompt's logits of the candidates, shape (candidates,), float32, all finite.
    """

    ids: Tensor | None
    logits: Tensor

    def __len__(self) -> int:
        return int(self.logits.shape[0])

    def token(self, index: int) -> int:
        """The token of a candidate."""
        return index if self.ids is None else int(self.ids[index])


@dataclass(frozen=True)
class Rule(ABC):
    """How one expert's row becomes its summand."""

    @property
    def most_in_total(self) -> int | None:
        """Largest sum of a summand's entries, in grid steps, where it has one."""
        return None

    @property
    def whole_rows(self) -> bool:
        """Whether tokens that are no candidates matter."""
        return False

    @property
    @abstractmethod
    def bits(self) -> int:
        """The grid's step is 2**-bits of the rule's own unit."""

    @property
    @abstractmethod
    def low(self) -> int:
        """Least entry, in grid steps; 0 or below."""

    @property
    @abstractmethod
    def high(self) -> int:
        """Largest entry, in grid steps; 0 or above."""

    @property
    def width(self) -> int:
        """Largest range of a summand, which also bounds the change when it is exchanged with zeros."""
        return self.high - self.low

    @abstractmethod
    def values(self, rows: Tensor, best: Tensor, public: Candidates) -> Tensor:
        """The rule's numbers before the grid, shape (rows, candidates). It may overwrite ``rows``.

        Args:
            rows: Without NaN; minus infinity where a token is impossible.
            best: Best of each row, shape (rows, 1), finite.
            public: The candidates.
        """

    @final
    def on_grid(self, block: Tensor, public: Candidates, *, filled: int = 0) -> Tensor:
        """Summands in whole grid steps, held as float32, shape (rows, candidates). The block is left as it was.

        Args:
            block: Logits, shape (rows, vocabulary).
            public: The candidates.
            filled: How many rows are computed at least: null experts stand below those of the block. Processors choose
                how to add up a row by how many there are, so that number must not follow from the experts'.
        """
        torch = require_torch()
        block, count = block if self.whole_rows or public.ids is None else block.index_select(1, public.ids), len(block)
        if count < filled:
            block = torch.cat([block, block.new_full((filled - count, block.shape[1]), math.nan)])
        rows = torch.nan_to_num(block.float(), nan=-math.inf, posinf=math.inf, neginf=-math.inf)
        chosen = rows if not self.whole_rows or public.ids is None else rows.index_select(1, public.ids)
        best = chosen.amax(1, keepdim=True)
        speaks = torch.isfinite(best)
        steps = self.values(rows, torch.where(speaks, best, 0.0), public).mul_(2.0**self.bits)
        steps.nan_to_num_(nan=self.low, posinf=math.inf, neginf=-math.inf)
        return steps.floor_().clamp_(self.low, self.high).mul_(speaks)[:count]


@final
@dataclass(frozen=True)
class ClippedLogits(Checked, Rule):
    """max(-c, z - max z + c), written from its upper end: the constant c makes no difference to a choice.

    Attributes:
        clip: c, in nats; the width is 2c.
    """

    clip: Clip

    @property
    def bits(self) -> int:
        return bits_of(self.clip)

    @property
    def low(self) -> int:
        return -steps_of(2 * self.clip, self.bits)

    @property
    def high(self) -> int:
        return 0

    def values(self, rows: Tensor, best: Tensor, public: Candidates) -> Tensor:
        return rows.sub_(best)


@final
@dataclass(frozen=True)
class ClippedDifferences(Checked, Rule):
    """Differences to the public logits, clamped to [-C, C]. An expert without a word adds zero *difference*.

    Attributes:
        clip: C, in nats; the width is 2C.
        centre: What is taken off an expert's differences first, so that the clip is not spent on a constant that says
            nothing: nothing (``none``, as published), their ``median``, or the ``midrange`` of their extremes. A
            function of one expert.
    """

    clip: Clip
    centre: Annotated[str, OneOf(CENTRES)] = "none"

    @property
    def bits(self) -> int:
        return bits_of(self.clip)

    @property
    def low(self) -> int:
        return -self.high

    @property
    def high(self) -> int:
        return steps_of(self.clip, self.bits)

    def values(self, rows: Tensor, best: Tensor, public: Candidates) -> Tensor:
        apart = rows.sub_(public.logits)
        if self.centre == "none":
            return apart
        apart = apart.clamp_(-_FAR, _FAR)
        if self.centre == "median":
            return apart - apart.median(1, keepdim=True).values
        return apart - (apart.amax(1, keepdim=True) + apart.amin(1, keepdim=True)) / 2


@final
@dataclass(frozen=True)
class ClampedLogProbabilities(Checked, Rule):
    """Log-probabilities clamped to [-C, 0].

    Attributes:
        clip: C, in nats, which is the width.
        normalization: Log-probabilities among the ``candidates``, of the whole ``vocabulary``, or relative to the best
            candidate (``max``). Privacy is the same.
    """

    clip: Clip
    normalization: Annotated[str, OneOf(NORMALIZATIONS)] = "candidates"

    @property
    def whole_rows(self) -> bool:
        return self.normalization == "vocabulary"

    @property
    def bits(self) -> int:
        return bits_of(self.clip)

    @property
    def low(self) -> int:
        return -steps_of(self.clip, self.bits)

    @property
    def high(self) -> int:
        return 0

    def values(self, rows: Tensor, best: Tensor, public: Candidates) -> Tensor:
        if self.normalization == "max":
            return rows.sub_(best)
        total = rows.logsumexp(1, keepdim=True)
        return (rows.index_select(1, public.ids) if self.whole_rows and public.ids is not None else rows).sub(total)


@dataclass(frozen=True)
class _OnUnitGrid(Checked, Rule):
    """Numbers from 0 to 1."""

    grid_bits: GridBits = 20

    @property
    def bits(self) -> int:
        return self.grid_bits

    @property
    def low(self) -> int:
        return 0

    @property
    def high(self) -> int:
        return 1 << self.grid_bits


@final
@dataclass(frozen=True)
class Probabilities(_OnUnitGrid):
    """The distribution among the candidates. Entries are 0 or more and their sum is at most one.

    Attributes:
        grid_bits: The grid's step is 2**-grid_bits, 1 to 24 bits.
        temperature: Logits are divided by it first.
    """

    temperature: Positive = 1.0

    @property
    def most_in_total(self) -> int:
        return self.high

    def values(self, rows: Tensor, best: Tensor, public: Candidates) -> Tensor:
        # The share that is held back is more than float32 can be off, so that rounded rows sum to one at most.
        return (rows.sub_(best) / self.temperature).softmax(1).mul_(1 - 2.0**-12)


@final
@dataclass(frozen=True)
class BestIsOne(_OnUnitGrid):
    """The distribution divided by its largest probability."""

    def values(self, rows: Tensor, best: Tensor, public: Candidates) -> Tensor:
        return rows.sub_(best).exp_()


@cache
def bits_of(clip: float) -> int:
    """Bits of a grid that gives a clip at least 1,024 steps, and a nat too.

    Example:
        >>> bits_of(10.0), bits_of(0.3)
        (10, 12)
    """
    return GRID_BITS + max(0, math.ceil(-math.log2(clip)))


@cache
def steps_of(size: float, bits: int) -> int:
    """Grid steps of a size as it is written, rounded up: what is charged for is the width in use, whatever it is."""
    return math.ceil(exact(size) * (1 << bits))


def require_torch() -> Any:
    """The torch module.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import torch
    except ModuleNotFoundError:
        raise MissingExtraError("torch", "local") from None
    return torch
