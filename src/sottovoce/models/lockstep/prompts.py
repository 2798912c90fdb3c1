"""The tokens of prompts that are read in parts: a public prefix, and what is a prompt's own.

The parts are turned into tokens one by one, so that the prefix's tokens depend on public text alone, and the number of
tokens behind the private part does not depend on it. Blanks at the end of ``before`` move to the front of ``inside``,
where tokenizers expect them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

from sottovoce.errors import ModelError
from sottovoce.models.failures import OwnFailure
from sottovoce.models.huggingface.prompts import (
    NO_TEMPLATE,
    Piece,
    PromptWriter,
    Tokens,
    control_tokens,
    leading_tokens,
)
from sottovoce.models.stepper import Prompt
from sottovoce.records.sealed import Opaque
from sottovoce.tasks import Task

NOT_KEPT_APART = (
    "A public text could not be kept apart from the model's control tokens, or has characters that its tokenizer does "
    "not know. Take them out of it."
)

TokensOf = Callable[[Prompt, int], "PromptTokens"]
"""A prompt, and the room for its private part, to tokens."""


@final
@dataclass(frozen=True, repr=False)
class PromptTokens(Opaque):
    """Tokens of a prompt.

    Attributes:
        prefix: The public prefix; at least one.
        private: The private part, cut to the room there is; ``None`` if it could not be kept from acting as control.
        suffix: What follows it, public.
    """

    prefix: Tokens
    private: Tokens | None
    suffix: Tokens

    @property
    def own(self) -> Tokens | None:
        """What follows the prefix."""
        return None if self.private is None else (*self.private, *self.suffix)


@final
class PromptParts:
    """Turns prompts into tokens for one tokenizer.

    Args:
        tokenizer: Of the transformers library.
        chat: Whether a prompt is a user's turn in the tokenizer's chat template; ``None`` where it has one.

    Attributes:
        chat: Whether it is.
        eos_tokens: Tokens that end a text.
        controls: Control tokens, the ends among them.

    Raises:
        ModelError: The chat template cannot be used, or there is none.
    """

    def __init__(self, tokenizer: Any, *, chat: bool | None = None, more_ends: Sequence[int] = ()) -> None:
        has_template = bool(getattr(tokenizer, "chat_template", None))
        if chat and not has_template:
            raise ModelError(NO_TEMPLATE)
        self._tokenizer = tokenizer
        self._writer = PromptWriter(tokenizer, Task(labels=["no", "yes"], name="parts"))
        self._opening, self._closing = self._frame() if (has_template if chat is None else chat) else ("", "")
        self.chat = bool(self._opening or self._closing)
        self.controls = frozenset(control_tokens(tokenizer).values())
        eos_tokens = [tokenizer.eos_token_id, *more_ends, *(self._writer.eos_tokens()[:1] if self.chat else ())]
        self.eos_tokens = tuple(
            dict.fromkeys(int(end) for end in eos_tokens if end is not None and end in self.controls)
        )

    def tokens(self, prompt: Prompt, max_private_tokens: int) -> PromptTokens:
        """Tokens of a prompt.

        Raises:
            ModelError: A public part could not be kept from acting as control.
        """
        before = prompt.prefix.rstrip(" ")
        blanks = prompt.prefix[len(before) :]
        after = self._writer.encode([_text(prompt.suffix), Piece(self._closing, trusted=True)], first=False)
        if after is None:
            raise ModelError(NOT_KEPT_APART)
        return PromptTokens(self.prefix(before), self._inside(blanks + prompt.private_text, max_private_tokens), after)

    def prefix(self, before: str) -> Tokens:
        """Tokens of a public text at the beginning of a prompt; at least one."""
        ids = self._writer.encode([Piece(self._opening, trusted=True), _text(before)], first=True)
        if ids is None:
            raise ModelError(NOT_KEPT_APART)
        return (*(() if self.chat else leading_tokens(self._tokenizer)), *ids) or (self._any_start(),)

    def public(self, text: str) -> Tokens:
        """Tokens of a public text by itself."""
        ids = self._writer.encode([_text(text)], first=True)
        if ids is None:
            raise ModelError(NOT_KEPT_APART)
        return ids

    def _inside(self, text: str, most: int) -> Tokens | None:
        ids = None
        with OwnFailure():
            ids = self._writer.encode([_text(text)], first=False)
        return None if ids is None else ids[:most]

    def _frame(self) -> tuple[str, str]:
        """What the chat template has before and after a user's turn."""
        mark = f"{self._writer.nonce}turn"
        try:
            text = str(
                self._tokenizer.apply_chat_template(
                    [{"role": "user", "content": mark}],
                    tokenize=False,
                    add_generation_prompt=True,
                    enable_thinking=False,
                )
            )
        except Exception:
            raise ModelError("The model's chat template cannot hold a question. Try chat=False.") from None
        if text.count(mark) != 1:
            raise ModelError("The model's chat template does not show a question exactly once. Try chat=False.")
        opening, _, closing = text.partition(mark)
        return opening, closing

    def _any_start(self) -> int:
        tokenizer = self._tokenizer
        candidates = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id, 0)
        return next(int(token) for token in candidates if token is not None)


def _text(text: str) -> Piece:
    return Piece(text.encode("utf-8", "replace").decode("utf-8"), trusted=False)
