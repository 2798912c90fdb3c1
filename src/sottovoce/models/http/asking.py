"""Many prompts to one server: which attempts are made, and whose failure a failure is.

Guarantee   Whether a prompt is answered, and with what, depends on that prompt and on the server, never on the other
            prompts: a failure becomes one prompt's own only where it stays when that prompt is asked again by itself,
            with nothing else under way, and the server answers a public prompt behind it. What the server could not do
            for the public prompt either is everybody's, and fails the whole call; it is asked behind the last prompt
            too, whether or not one failed. A server that cannot be reached or is busy after all attempts is
            everybody's as well: a prompt has no part in the one, and in the other all have.
Assumes     The server answers a prompt by itself (``Server.asserted``). Time and the number of attempts are not hidden.
Retries     The same bytes, before anything is drawn; whether there is one follows from the server's answer alone.
Sources     specification 1.2, 8.3, 8.4.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Generic, TypeVar, final

from sottovoce.errors import ModelError
from sottovoce.models.http.address import ApiKey, Server
from sottovoce.models.http.exchange import Answer, NoAnswer, Trouble, post
from sottovoce.models.http.replies import UnreadableError, object_in, require_model
from sottovoce.records.sealed import Opaque

T = TypeVar("T")
FIRST_WAIT_S: Final = 0.5
"""Before the second attempt; twice as long before each further one."""
LONGEST_WAIT_S: Final = 60.0
"""A server that asks to wait longer than this is not waited for."""
MOST_SENT: Final = 8 << 20
"""Bytes of a prompt; a longer one is not sent."""


@final
class Asked(Opaque, Generic[T]):
    """A prompt as it is sent, and what its answer is read by.

    Attributes:
        path: Behind the server's address.
        body: JSON.
        read: What an answer says. It raises ``UnreadableError`` where the answer is not as it should be.
    """

    __slots__ = ("body", "path", "read")

    def __init__(self, path: str, body: bytes, read: Callable[[Mapping[str, Any]], T]) -> None:
        self.path, self.body, self.read = path, body, read


@final
class Found(Opaque, Generic[T]):
    """What an answer says."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value


@final
class Asker:
    """Asks one server.

    Args:
        server: Where, and how patiently.
        key: The server's key.
    """

    def __init__(self, server: Server, key: ApiKey) -> None:
        self._server = server
        self._key = key
        self._accepted: tuple[str, ...] = ()
        self._lock = threading.Lock()

    @property
    def accepted(self) -> str:
        """The name under which the model answered the rehearsal; empty before it."""
        return "".join(self._accepted)

    def rehearse(self, probes: Sequence[Asked[Any]], what: str) -> int:
        """Asks public prompts, one after another, until one is answered as it should be; returns its number.

        It also learns under which name the model answers: that of the server, or the same with a version behind it.

        Args:
            probes: Public prompts, which may be shown in an error.
            what: What the server is to do, for the error.

        Raises:
            ModelError: None is answered. The server's own words on the first one are in it.
        """
        with self._lock:
            failed: NoAnswer | None = None
            for number, probe in enumerate(probes):
                found = _run(lambda probe=probe: self._tried(probe, first=True))  # type: ignore[misc]
                if isinstance(found, Found):
                    return number
                failed = failed or found
                if found.trouble is Trouble.BUSY:
                    break
        assert failed is not None
        words = f" It says: {failed.said}" if failed.said else ""
        raise ModelError(
            f"The server at {self._server.host} does not {what} with the model {self._server.model!r}: {failed.why}."
            f"{words}",
            retryable=failed.trouble is not Trouble.REFUSED,
        )

    def ask(self, prompts: Sequence[Asked[T]], probe: Asked[Any]) -> list[T | None]:
        """What the server says to each prompt; ``None`` where it fails on that prompt by itself.

        Args:
            prompts: What is asked, private or not.
            probe: A public prompt that was answered in the rehearsal.

        Raises:
            ModelError: The server cannot be reached, is busy, or does not answer the public prompt any more.
        """
        found, failed = _run(lambda: self._all(prompts, probe))
        if failed is not None:
            raise ModelError(
                f"The server at {self._server.host} stopped answering ({failed.why}). Try again later, or with fewer "
                "requests at once.",
                retryable=True,
            )
        return found

    async def _all(self, prompts: Sequence[Asked[T]], probe: Asked[Any]) -> tuple[list[T | None], NoAnswer | None]:
        """What was found, or why everybody's answer fails."""
        turns, over = asyncio.Semaphore(self._server.concurrency), list[NoAnswer]()

        async def together(prompt: Asked[T]) -> Found[T] | NoAnswer:
            async with turns:
                if over:
                    return over[0]
                if len(prompt.body) > MOST_SENT:
                    return NoAnswer(Trouble.REFUSED, "too long")
                result = await self._tried(prompt)
                if isinstance(result, NoAnswer) and result.trouble is Trouble.BUSY:
                    over.append(result)
                return result

        first = await asyncio.gather(*(together(prompt) for prompt in prompts))
        if over:
            return [], over[0]
        values: list[T | None] = []
        for prompt, result in zip(prompts, first, strict=True):
            again = result
            if isinstance(result, NoAnswer) and len(prompt.body) <= MOST_SENT:
                again = await self._tried(prompt)
                if isinstance(again, NoAnswer):
                    public = await self._tried(probe)
                    if isinstance(public, NoAnswer) or again.trouble is Trouble.BUSY:
                        return [], public if isinstance(public, NoAnswer) else again
            values.append(again.value if isinstance(again, Found) else None)
        if prompts:  # whether or not one failed: else whether an answer comes would tell that
            public = await self._tried(probe)
            if isinstance(public, NoAnswer):
                return [], public
        return values, None

    async def _tried(self, prompt: Asked[T], *, first: bool = False) -> Found[T] | NoAnswer:
        """A prompt's answer after as many attempts as there may be."""
        url, wait = self._server.url + prompt.path, FIRST_WAIT_S
        most = min(1, self._server.retries) if first else self._server.retries  # what does not suit may fail, too
        for attempt in range(1 + most):
            answer = await post(url, prompt.body, self._key, self._server.timeout_s)
            result = self._read(answer, prompt, first=first) if isinstance(answer, Answer) else answer
            if isinstance(result, Found) or result.trouble is Trouble.REFUSED or attempt == most:
                return result
            pause = wait if result.wait_s is None else result.wait_s
            if pause > LONGEST_WAIT_S:
                return result
            await asyncio.sleep(pause)
            wait = min(2 * wait, LONGEST_WAIT_S)
        raise AssertionError("no attempt")

    def _read(self, answer: Answer, prompt: Asked[T], *, first: bool) -> Found[T] | NoAnswer:
        try:
            found = object_in(answer.body)
            if first and not self._accepted and _is_version_of(name := found.get("model"), self._server.model):
                self._accepted = (str(name),)
            require_model(found, self._accepted or (self._server.model,))
            return Found(prompt.read(found))
        except UnreadableError as error:
            name = self._key.hidden(error.answered_as)[:100] if first else ""
            said = f"It answers as {name!r}: name that model." if name else ""
            return NoAnswer(Trouble.REFUSED, f"its answer cannot be used: {error}", said=said)


def _is_version_of(said: object, asked: str) -> bool:
    """Whether a server's name for a model is the one that was asked for, or that with a version behind it.

    Example:
        >>> _is_version_of("small-2026-01-31", "small"), _is_version_of("smaller", "small")
        (True, False)
    """
    return isinstance(said, str) and (said == asked or (said.startswith(asked) and said[len(asked)] in "-@:"))


def _run(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Runs a coroutine to its end, in a loop of its own; in a thread where a loop runs already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(make())
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(make())).result()
