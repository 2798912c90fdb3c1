"""The three APIs by which a server writes: what is sent for a request, and how its answer is read.

In a chat the instruction is the system's turn, inputs are a user's and outputs the assistant's. Completions get one
text to be continued. The Responses API is asked not to keep anything (``store: false``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from sottovoce.models.base import WritingRequest
from sottovoce.models.http.replies import chat_text, completed_text, response_text
from sottovoce.models.writing.continued import continued_text


@final
@dataclass(frozen=True)
class Dialect:
    """What servers of one API differ in.

    Attributes:
        system: Whether an instruction is a turn of its own; else it opens the first question.
        limit: The field that bounds the length of a text.
    """

    system: bool = True
    limit: str = "max_tokens"


@final
@dataclass(frozen=True)
class WritingApi:
    """One API.

    Attributes:
        path: Behind the server's address.
        dialects: Those that are tried, in this order.
        fields: What is sent besides the model's name, for a request, the tokens of a text, and a dialect.
        text: The text in an answer, for a request and the tokens of a text.
    """

    path: str
    dialects: tuple[Dialect, ...]
    fields: Callable[[WritingRequest, int, Dialect], Mapping[str, Any]]
    text: Callable[[Mapping[str, Any], WritingRequest, int], str]


def encoded(fields: Mapping[str, Any]) -> bytes:
    """What is sent, in JSON; half characters, which no server takes, become question marks."""
    text = json.dumps(fields, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _chat(request: WritingRequest, tokens: int, dialect: Dialect) -> dict[str, Any]:
    return {"messages": _turns(request, dialect), dialect.limit: tokens, "temperature": 0, "n": 1, "stream": False}


def _completion(request: WritingRequest, tokens: int, dialect: Dialect) -> dict[str, Any]:
    return {
        "prompt": continued_text(request), dialect.limit: tokens, "temperature": 0, "n": 1, "stream": False,
        "stop": [f"\n\n{request.names[0]}:"],
    }  # fmt: skip


def _response(request: WritingRequest, tokens: int, dialect: Dialect) -> dict[str, Any]:
    return {"input": _turns(request, dialect), dialect.limit: tokens, "temperature": 0, "store": False, "stream": False}


def _turns(request: WritingRequest, dialect: Dialect) -> list[dict[str, str]]:
    turns = [
        {"role": role, "content": text}
        for shot in request.shots
        for role, text in zip(("user", "assistant"), shot, strict=True)
    ]
    turns.append({"role": "user", "content": request.question})
    if request.instruction and dialect.system:
        return [{"role": "system", "content": request.instruction}, *turns]
    if request.instruction:
        turns[0]["content"] = f"{request.instruction}\n\n{turns[0]['content']}"
    return turns


_CHAT_DIALECTS: Final = tuple(
    Dialect(system, limit) for limit in ("max_tokens", "max_completion_tokens") for system in (True, False)
)
WRITING_APIS: Final = {
    "chat": WritingApi("/chat/completions", _CHAT_DIALECTS, _chat, chat_text),
    "completions": WritingApi("/completions", (Dialect(),), _completion, completed_text),
    "responses": WritingApi(
        "/responses", tuple(Dialect(system, "max_output_tokens") for system in (True, False)), _response, response_text
    ),
}
