"""From a writing request to tokens, without letting a text act as a control token.

In a chat the instruction is the system's turn (before the first question where the template knows no system), inputs
are a user's turns and outputs the assistant's. What a model that continues texts sees is in ``writing.continued``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any, final

from sottovoce.errors import ModelError
from sottovoce.models.base import WritingRequest
from sottovoce.models.failures import is_shared
from sottovoce.models.huggingface.prompts import (
    NO_TEMPLATE,
    Piece,
    PromptWriter,
    Tokens,
    any_start,
    leading_tokens,
    rendered,
)
from sottovoce.models.writing.continued import continued_text, cut_off
from sottovoce.tasks import Task

_CANNOT = "The model's chat template cannot hold a conversation of questions and answers. Try chat=False (--no-chat)."


@final
class RequestPrompts:
    """Turns requests into tokens for one tokenizer.

    Args:
        tokenizer: Of the transformers library.
        chat: Whether a request is a conversation in the tokenizer's chat template; ``None`` where it has one.

    Attributes:
        chat: Whether it is.

    Raises:
        ModelError: The chat template cannot hold a conversation, or there is none.
    """

    def __init__(self, tokenizer: Any, *, chat: bool | None = None) -> None:
        has_template = bool(getattr(tokenizer, "chat_template", None))
        if chat and not has_template:
            raise ModelError(NO_TEMPLATE)
        self.chat = has_template if chat is None else chat
        self._tokenizer = tokenizer
        self._writer = PromptWriter(tokenizer, Task(labels=["no", "yes"], name="parts"), chat=self.chat)
        self._mark = re.compile(f"{self._writer.nonce}([0-9]+)z")
        self._takes_system = self.chat and self._knows_system()
        if self.chat:
            self._drawn_chat(shots=1, instruction=True)

    @property
    def eos_tokens(self) -> Sequence[int]:
        """Tokens that may end an answer in a chat; of a text that is continued, the end of texts alone."""
        return self._writer.eos_tokens()

    def tokens(self, request: WritingRequest) -> Tokens | None:
        """Tokens of a request; ``None`` if one of its texts could not be kept from acting as control."""
        texts = [request.instruction, *(text for shot in request.shots for text in shot), request.question]
        if self.chat:
            drawn = self._drawn_chat(len(request.shots), instruction=bool(request.instruction))
        else:
            drawn = self._drawn_text(request)
        ids = self._writer.encode(self._filled(drawn, texts), first=True)
        if ids is None:
            return None
        return (*(() if self.chat else leading_tokens(self._tokenizer)), *ids) or (any_start(self._tokenizer),)

    def cut(self, text: str, request: WritingRequest) -> str | None:
        """The answer, where the text has gone on past it to the next example; ``None`` where it has not."""
        return None if self.chat else cut_off(text, request)

    def _drawn_text(self, request: WritingRequest) -> str:
        """A text to be continued, with marks in place of the request's texts."""
        shots = [(self._at(1 + 2 * n), self._at(2 + 2 * n)) for n in range(len(request.shots))]
        opening = self._at(0) if request.instruction else ""
        return continued_text(WritingRequest(opening, shots, self._at(1 + 2 * len(shots)), request.names))

    def _drawn_chat(self, shots: int, *, instruction: bool) -> str:
        """A conversation in the template, with marks in place of the request's texts."""
        turns = [
            {"role": role, "content": self._at(1 + 2 * n + place)}
            for n in range(shots)
            for place, role in enumerate(("user", "assistant"))
        ]
        turns.append({"role": "user", "content": self._at(1 + 2 * shots)})
        if instruction and self._takes_system:
            turns.insert(0, {"role": "system", "content": self._at(0)})
        elif instruction:
            turns[0]["content"] = f"{self._at(0)}\n\n{turns[0]['content']}"
        drawn = rendered(self._tokenizer, turns, _CANNOT)
        if [int(place) for place in self._mark.findall(drawn)] != [*range(not instruction, 2 * shots + 2)]:
            raise ModelError("The chat template does not show every turn exactly once. Try chat=False (--no-chat).")
        return drawn

    def _at(self, place: int) -> str:
        return f"{self._writer.nonce}{place}z"

    def _filled(self, drawn: str, texts: Sequence[str]) -> list[Piece]:
        pieces, last = [], 0
        for match in self._mark.finditer(drawn):
            text = texts[int(match[1])]
            pieces.append(Piece(drawn[last : match.start()], trusted=True))
            pieces.append(Piece(text.encode("utf-8", "replace").decode("utf-8"), trusted=False))
            last = match.end()
        return [*pieces, Piece(drawn[last:], trusted=True)]

    def _knows_system(self) -> bool:
        handled = sys.exception()
        turns = [{"role": "system", "content": self._at(0)}, {"role": "user", "content": self._at(1)}]
        try:
            return self._at(0) in rendered(self._tokenizer, turns, _CANNOT)
        except ModelError as error:
            if is_shared(error, handled):  # else the prompt of whoever is read where memory is short is another one
                raise
            return False
