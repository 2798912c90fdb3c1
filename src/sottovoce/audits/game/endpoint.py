"""Any system behind an OpenAI-compatible address: records in the prompt, a question, a text back.

Every release is one request, so that a system that samples is asked anew each time. Records are sent in clear: they
must be made up.

Sources     ContextLeak (arXiv 2512.16059), algorithm 1.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Final, final
from urllib.parse import urlsplit

from sottovoce.audits.game.games import Repetition
from sottovoce.errors import ModelError, ParameterError
from sottovoce.models.http.address import address_of, is_guarded
from sottovoce.records.sealed import Opaque, Row
from sottovoce.tasks import Task

_MOST_BYTES: Final = 1_000_000
_NO_PROXIES: Final = urllib.request.ProxyHandler({})
"""Neither records nor the key go to a machine that the environment names."""


@final
@dataclass(frozen=True, repr=False)
class EndpointGame:
    """A chat model behind an address, with the records in its instruction.

    Attributes:
        address: Up to ``/v1``; kept as ``models.http.address`` writes it.
        task: Names the fields, and how an example is written.
        model: The model's name there.
        instruction: What stands before the examples; the task's if left out.
        key: Sent as a bearer token; it does not print.
        unencrypted: Whether plain ``http://`` to another machine is allowed.
        tokens: Most tokens of an answer.
        temperature: Of its sampling.
        timeout_s: Seconds that a request may take.

    Raises:
        InputError: The address holds more than a machine, a port and a path; nothing of it is shown.
        ParameterError: It is one of plain ``http://`` to another machine.
    """

    address: str
    task: Task
    model: str = "default"
    instruction: str = ""
    key: str = ""
    tokens: int = 40
    temperature: float = 1.0
    timeout_s: float = 60.0
    unencrypted: bool = False

    def __post_init__(self) -> None:
        address = address_of(self.address)
        if not self.unencrypted and not is_guarded(address):
            raise ParameterError(
                "endpoint",
                address,
                "one that begins with https://, since records and the key are sent there; with ,unencrypted=yes they "
                "may go over the network as they are",
            )
        object.__setattr__(self, "address", address)

    def __repr__(self) -> str:
        return f"EndpointGame({self.name})"

    @property
    def name(self) -> str:
        """Host and model."""
        return f"{self.model} at {urlsplit(self.address).netloc}"

    @property
    def repetition(self) -> Repetition:
        """Every release is a request."""
        return Repetition.ASKED

    def world(self, rows: Sequence[Row]) -> EndpointWorld:
        """Writes the records into an instruction; nothing is sent yet."""
        shown = [self.task.render_example(self.task.example_of(row, "records with a canary")) for row in rows]
        return EndpointWorld(self, "\n\n".join([self.instruction or self.task.instruction, *shown]))


@final
class EndpointWorld(Opaque):
    """Records in the instruction of an endpoint."""

    __slots__ = ("_game", "_instruction")

    def __init__(self, game: EndpointGame, instruction: str) -> None:
        self._game, self._instruction = game, instruction

    def releases(self, question: str, runs: int) -> list[str]:
        """Texts, each by a request of its own.

        Raises:
            ModelError: The endpoint does not answer, or not as OpenAI's does.
        """
        game = self._game
        asked = game.task.render_query(dict.fromkeys(game.task.fields, question))
        body = {
            "model": game.model,
            "messages": [{"role": "system", "content": self._instruction}, {"role": "user", "content": asked}],
            "max_tokens": game.tokens,
            "temperature": game.temperature,
        }
        return [_text_of(posted(game, body)) for _ in range(runs)]

    def close(self) -> None:
        """Forgets the records."""
        self._instruction = ""


def posted(game: EndpointGame, body: Mapping[str, Any]) -> Any:
    """One request: the only place that speaks to a network.

    Raises:
        ModelError: It failed. What the server said stays here, for it could quote a record.
    """
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {game.key}"} if game.key else {})}
    request = urllib.request.Request(f"{game.address}/chat/completions", json.dumps(body).encode(), headers)
    try:
        with urllib.request.build_opener(_NoRedirect, _NO_PROXIES).open(request, timeout=game.timeout_s) as reply:
            content = reply.read(_MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        raise ModelError(f"The endpoint {game.name} answered with status {error.code}.", retryable=True) from None
    except (OSError, ValueError, HTTPException) as error:
        raise ModelError(
            f"The endpoint {game.name} does not answer ({type(error).__name__}).", retryable=True
        ) from None
    try:
        if len(content) > _MOST_BYTES:
            raise ValueError("too long")
        return json.loads(content)
    except (ValueError, RecursionError):
        raise ModelError(f"The endpoint {game.name} answered with something that is no JSON.") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Records and the key go to the address that was named, and nowhere else."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _text_of(reply: Any) -> str:
    try:
        text = reply["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        text = None
    if not isinstance(text, str):
        raise ModelError("The endpoint answered without a text: no choices, message and content as OpenAI's has.")
    return text.encode("utf-8", "replace").decode("utf-8")  # half characters, which no output can hold
