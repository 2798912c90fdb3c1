"""What decoding asks of a model: many prompts that advance together by one shared token a step.

A ``Stepper`` reads groups of prompts once. A group is one public prompt beside the prompts of its experts, all about
one label, say. A ``Decoding`` then writes texts from these groups, several side by side, each text with its own tokens:
every step it gives, for each text, the public prompt's scores and those of its experts in blocks of rows.

Isolation   An expert's row is a function of its own prompt, the text's tokens so far and public numbers alone: whatever
            other rows hold, or how many texts are under way (specification 1.2, 9.6; the model's ``isolation`` says).
Memory      What a stepper keeps between steps is private; ``close`` frees it. Nothing here prints it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final, runtime_checkable

from sottovoce.models.base import Isolation
from sottovoce.records.sealed import Opaque

if TYPE_CHECKING:
    from torch import Tensor


@final
class Prompt(Opaque):
    """A prompt in three parts. What the experts of a group have in common stands before and after.

    Attributes:
        prefix: Public text, read once for all prompts that begin with it.
        private_text: Text of this prompt's own records, or a public stand-in.
        suffix: Public text that leads into the answer.
    """

    __slots__ = ("prefix", "private_text", "suffix")

    def __init__(self, prefix: str, private_text: str, suffix: str) -> None:
        self.prefix, self.private_text, self.suffix = prefix, private_text, suffix


@final
@dataclass(frozen=True)
class Group:
    """The prompts that vote on one text.

    Attributes:
        public: A prompt that holds nothing private.
        experts: One an expert; ``None`` for an empty slot, whose row is NaN.
    """

    public: Prompt
    experts: Sequence[Prompt | None]


@final
class Step(Opaque):
    """The scores of the next token of one text.

    Attributes:
        text: Number of the text.
        public: Logits of the public prompt, shape (vocabulary,), float32, on the model's device.
        blocks: Logits of the experts, each of shape (rows, vocabulary), float32, in the order of the group's experts. A
            row of NaN is a null expert. To be read once, before the next step; a block may be overwritten by the next.
    """

    __slots__ = ("blocks", "public", "text")

    def __init__(self, text: int, public: Tensor, blocks: Iterator[Tensor]) -> None:
        self.text, self.public, self.blocks = text, public, blocks


class Decoding(Protocol):
    """Texts that are being written."""

    def step(self, tokens: Mapping[int, int | None]) -> Iterator[Step]:
        """One step of some of the texts; the others stand still.

        Args:
            tokens: The token to be added to each text; ``None`` at its first step.

        Yields:
            The texts' next scores, in the order of ``tokens``.

        Raises:
            ParameterError: A text has had all the tokens it was opened for.
            ModelError: The device ran out of memory.
        """

    def close(self) -> None:
        """Frees what the texts keep. What the prompts keep stays."""


class ReadPrompts(Protocol):
    """Groups of prompts that a model has read. Holds private state."""

    def write(self, groups: Sequence[int], tokens: int) -> Decoding:
        """Opens texts side by side.

        Args:
            groups: For each text, the number of its group.
            tokens: Most tokens of a text.
        """

    def close(self) -> None:
        """Frees everything that was kept."""


@runtime_checkable
class Stepper(Protocol):
    """A model that gives the logits of the next token for many prompts at once."""

    @property
    def name(self) -> str:
        """As the caller would name it."""

    @property
    def isolation(self) -> Isolation:
        """Whether rows are isolated from each other in this layout, as far as was checked on this machine."""

    @property
    def vocabulary(self) -> int:
        """Number of tokens, which is the length of a row."""

    @property
    def eos_tokens(self) -> Sequence[int]:
        """Tokens that end a text."""

    @property
    def forbidden_tokens(self) -> Sequence[int]:
        """Tokens that no text may hold: control tokens other than ``eos_tokens``, rows of the head without a token."""

    def encode(self, text: str) -> Sequence[int]:
        """Tokens of a public text, none of them a control token."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of released tokens, without the end."""

    def token_bytes(self) -> Sequence[bytes]:
        """What each token adds to a text, length ``vocabulary``; nothing for ends and for what is unwritable.

        A text is what its tokens add, one after another, but for a blank at its beginning.

        Raises:
            ModelError: The tokenizer decodes no such way.
        """

    def read(self, groups: Sequence[Group], *, max_private_tokens: int, tokens: int) -> ReadPrompts:
        """Reads all prompts.

        Args:
            groups: Every group; the number of groups and of experts in each is public or fixed by the caller.
            inside_tokens: Room for the private part of a prompt, a public number. A longer text is cut at its end.
            tokens: Most tokens of any text that will be written from them.

        Raises:
            ModelError: They do not fit into the model's positions, or into the memory that may be used.
        """
