"""A model behind a server as a writer: ``openai:MODEL@BASE_URL``.

Isolation    Every prompt is a request of its own (``exchange``), and ``asking`` says whose failure a failure is. What
             the server does with requests beside each other cannot be looked at: isolation is not verified, unless the
             operator asserts it (specification 9.6). Whoever hosts the model sees every prompt (8.9).
Determinism  Temperature 0. A server may still answer the same prompt otherwise another time. Answers are kept in the
             trusted store, encrypted: the same request then gives the same text, and does not go out again.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final, final

from sottovoce.models.base import WritingRequest
from sottovoce.models.http.address import Server
from sottovoce.models.http.asking import Asked
from sottovoce.models.http.served import ServedModel
from sottovoce.models.http.writing_apis import WRITING_APIS, encoded
from sottovoce.parameters import COUNT

_PROBE: Final = WritingRequest("Answer in one word.", [("Which colour is the sky?", "Blue")], "Which colour is grass?")
_PROBE_TOKENS: Final = 16
"""The least that some servers accept."""
_LONGEST_KEPT: Final = 1 << 16
"""Characters of a text that is kept."""


@final
class ServerWriter(ServedModel):
    """Writes texts with a model behind a server.

    Args:
        name: ``MODEL@BASE_URL``, and options behind it; see ``Server.named``.
        api: ``chat`` (the default), ``completions`` or ``responses``.
        isolation: ``asserted`` where the operator asserts that a prompt's answer depends on that prompt alone.
        timeout_s: Seconds for one request.
        concurrency: Requests under way at once.
        retries: Further attempts where the server is busy or fails.
        cache: Whether answers are kept in the trusted store.
        unencrypted: Whether plain ``http://`` to other machines is allowed.

    Attributes:
        server: Where and how it is asked.

    Raises:
        ParameterError: The name or an option is not usable.
        InputError: The address or the key is not usable.
    """

    longest: int | None = None

    def __init__(
        self,
        name: str,
        *,
        api: str | None = None,
        isolation: str | None = None,
        timeout_s: float | None = None,
        concurrency: int | None = None,
        retries: int | None = None,
        cache: bool | None = None,
        unencrypted: bool | None = None,
    ) -> None:
        super().__init__(
            Server.named(
                name, api=api, isolation=isolation, timeout_s=timeout_s, concurrency=concurrency, retries=retries,
                cache=cache, unencrypted=unencrypted,
            )
        )  # fmt: skip
        self._api = WRITING_APIS[self.server.api or "chat"]
        self._dialect: int | None = None
        self._lock = threading.Lock()

    @property
    def run_settings(self) -> dict[str, Any]:
        """How it is asked, which its name does not tell: a run is resumed so alone."""
        return {"api": self.server.api or "chat"}

    def rehearse(self) -> None:
        """Asks a public prompt, once, and learns how this server is asked; ``write`` does so too.

        Raises:
            ModelError: The server does not answer it.
        """
        with self._lock:
            if self._dialect is None:
                probes = [self._asked(_PROBE, _PROBE_TOKENS, number) for number in range(len(self._api.dialects))]
                self._dialect = self.asker.rehearse(probes, "write")

    def write(self, requests: Sequence[WritingRequest], *, tokens: int) -> list[str | None]:
        """A text each; see ``Writer.write``. ``None`` too where the server refuses or filters a prompt by itself.

        Raises:
            ParameterError: ``tokens`` is below 1.
            ModelError: The server cannot be reached, is busy, or does not answer public prompts.
        """
        COUNT.read("tokens", tokens)
        self.rehearse()
        assert self._dialect is not None
        dialect = self._dialect
        asked = {request: self._asked(request, tokens, dialect) for request in requests}
        texts = self._remembered(asked)
        missing = [request for request in asked if texts[request] is None]
        found = self.asker.ask([asked[request] for request in missing], self._asked(_PROBE, _PROBE_TOKENS, dialect))
        texts |= dict(zip(missing, found, strict=True))
        self._remember({request: asked[request] for request in missing}, texts)
        return [texts[request] for request in requests]

    def _asked(self, request: WritingRequest, tokens: int, dialect: int) -> Asked[str]:
        fields = self._api.fields(request, tokens, self._api.dialects[dialect])
        body = encoded({"model": self.server.model, **fields})
        return Asked(self._api.path, body, lambda found: self._api.text(found, request, tokens))

    def _remembered(self, asked: dict[WritingRequest, Asked[str]]) -> dict[WritingRequest, str | None]:
        if self._kept is None:
            return dict.fromkeys(asked)
        kept = self._kept.find(self._scope(self._api.path), [_key_of(prompt) for prompt in asked.values()])
        return {
            request: None if value is None else value.decode("utf-8", "replace")
            for request, value in zip(asked, kept, strict=True)
        }

    def _remember(self, asked: dict[WritingRequest, Asked[str]], texts: dict[WritingRequest, str | None]) -> None:
        new = [(asked[request], text) for request in asked if (text := texts[request]) and len(text) <= _LONGEST_KEPT]
        if self._kept is not None and new:
            self._kept.keep(
                self._scope(self._api.path), [_key_of(prompt) for prompt, _ in new], [text.encode() for _, text in new]
            )


def _key_of(prompt: Asked[Any]) -> str:
    return prompt.body.decode("utf-8")
