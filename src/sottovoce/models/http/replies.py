"""What stands in a server's answer, read strictly: whatever is not as the API says is no answer.

An answer names the model that was asked, has one choice that came to its end, and is one JSON object without repeated
keys. What is wrong with it is said in fixed words, for its own could quote a prompt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sottovoce.models.base import WritingRequest
from sottovoce.models.writing.continued import cut_off

MOST_CHARACTERS: Final = 1 << 18
"""Of a text; more than any number of tokens that is asked for would give."""
ENDS: Final = ("stop", "length")
"""How a whole text may have ended. Others are filters, tools and errors."""


class UnreadableError(Exception):
    """An answer is not as it should be. The message holds nothing of it.

    Args:
        why: What is wrong, in fixed words.
        answered_as: The model's name in the answer, where that is what is wrong.
    """

    def __init__(self, why: str, answered_as: str = "") -> None:
        super().__init__(why)
        self.answered_as = answered_as


def object_in(body: bytes) -> dict[str, Any]:
    """The one JSON object in an answer.

    Raises:
        UnreadableError: There is none, or more, or it nests too deep.
    """
    try:
        found = json.loads(body.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise UnreadableError("it is no JSON object") from None
    if not isinstance(found, dict):
        raise UnreadableError("it is no JSON object")
    return found


def require_model(found: Mapping[str, Any], accepted: Sequence[str]) -> None:
    """Looks who answered.

    Raises:
        UnreadableError: Nobody says, or another model does.
    """
    said = found.get("model")
    if not isinstance(said, str) or not said:
        raise UnreadableError("it does not say which model answered")
    if said not in accepted:
        raise UnreadableError("another model answered", answered_as=said)


def only_choice(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """The choice of a completion.

    Raises:
        UnreadableError: There is none, or more than one, or it did not come to its end.
    """
    choices = found.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise UnreadableError("it has not one choice")
    choice: dict[str, Any] = choices[0]
    if choice.get("finish_reason") not in ENDS:
        raise UnreadableError("it was filtered, or did not come to its end")
    return choice


def chat_text(found: Mapping[str, Any], request: WritingRequest, tokens: int) -> str:
    """The text of a chat completion; errors as for ``only_choice``."""
    message = only_choice(found).get("message")
    _require_short(found, "completion_tokens", tokens)
    if not isinstance(message, dict) or message.get("refusal") or message.get("tool_calls"):
        raise UnreadableError("it refuses, or calls a tool")
    return _text(message.get("content"))


def completed_text(found: Mapping[str, Any], request: WritingRequest, tokens: int) -> str:
    """The text of a completion, up to where the next example would begin; errors as for ``only_choice``."""
    choice = only_choice(found)
    _require_short(found, "completion_tokens", tokens)
    text = _text(choice.get("text"))
    cut = cut_off(text, request)
    return text if cut is None else cut.strip()


def response_text(found: Mapping[str, Any], request: WritingRequest, tokens: int) -> str:
    """The text of a response of the Responses API.

    Raises:
        UnreadableError: It failed, refuses, did not come to its end, or holds something else than one text.
    """
    cut_short = found.get("status") == "incomplete" and found.get("incomplete_details") == {
        "reason": "max_output_tokens"
    }
    if found.get("status") != "completed" and not cut_short:
        raise UnreadableError("it was filtered, or did not come to its end")
    _require_short(found, "output_tokens", tokens)
    output = found.get("output")
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    messages = [item for item in items if item.get("type") != "reasoning"]
    if len(messages) != 1 or messages[0].get("type") != "message":
        raise UnreadableError("it has not one message")
    content = messages[0].get("content")
    parts = content if isinstance(content, list) else []
    if len(parts) != 1 or not isinstance(parts[0], dict) or parts[0].get("type") != "output_text":
        raise UnreadableError("it refuses, or has not one text")
    return _text(parts[0].get("text"))


def _require_short(found: Mapping[str, Any], counted: str, tokens: int) -> None:
    """Refuses a text of more tokens than were asked for, where the server counts them."""
    usage = found.get("usage")
    count = usage.get(counted) if isinstance(usage, dict) else None
    if isinstance(count, int) and count > tokens:
        raise UnreadableError("it is longer than was asked for")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise UnreadableError("it holds no text")
    if len(value) > MOST_CHARACTERS:
        raise UnreadableError("it is longer than was asked for")
    return value.encode("utf-8", "replace").decode("utf-8").strip()


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key comes twice")
    return found


def _no_constant(word: str) -> float:
    """``-Infinity`` is what some servers write for the logarithm of nothing; the others are no numbers."""
    if word != "-Infinity":
        raise ValueError("no number")
    return float("-inf")
