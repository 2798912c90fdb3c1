"""One request and its answer, over a connection of its own.

Isolation   Nothing passes from one request to another: each has its own connection, which is closed behind it, so that
            what a server sends too much is never read as the answer to another request; there are no cookies, no
            redirects, and no proxies or passwords from the environment.
Limits      The whole exchange ends within its time, however slowly bytes come in. An answer of more than ``MOST_BYTES``
            is not read to its end, and a compressed one is not read.
Key         It is taken out of a server's words before they are cut or cleaned, in every way that JSON may write it.
Silence     Errors of the HTTP library quote what a server sent, and its log shows headers; neither leaves this file.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum
from functools import cache
from typing import Any, Final, final

from sottovoce.errors import MissingExtraError
from sottovoce.models.http.address import ApiKey
from sottovoce.records.sealed import Opaque

try:
    import httpx2
except ModuleNotFoundError as error:
    raise MissingExtraError(error.name or "httpx2", "http") from None

_LOG: Final = logging.getLogger("httpcore2")
_LOG.setLevel(max(_LOG.level, logging.INFO))  # at DEBUG it writes down the headers of answers

MOST_BYTES: Final = 4 << 20
"""Of an answer."""
_BUSY: Final = frozenset({429, 503, 529})
_SHOWN: Final = 300


class Trouble(Enum):
    """What came in place of an answer, by what is to be done about it."""

    BUSY = "not reached, or busy"
    """The prompt had no part in it: no connection, too many requests. Asked again; what stays is everybody's."""
    BROKEN = "failed"
    """Asked again; what stays may be the prompt's own."""
    REFUSED = "refused, or not usable"
    """Not asked again at once; it may be the prompt's own."""


@final
class Answer(Opaque):
    """What a server said, complete, in JSON by its own word.

    Attributes:
        body: The bytes.
    """

    __slots__ = ("body",)

    def __init__(self, body: bytes) -> None:
        self.body = body


@final
@dataclass(frozen=True, repr=False)
class NoAnswer(Opaque):
    """Why there is no answer.

    Attributes:
        trouble: What is to be done about it.
        why: In words that hold nothing of the prompt or the answer.
        wait_s: Seconds that the server asks to wait; ``None`` if it does not say.
        said: The server's or the library's own words. They may quote the prompt: to be shown for public prompts alone.
    """

    trouble: Trouble
    why: str
    wait_s: float | None = None
    said: str = ""


@cache
def _tls() -> ssl.SSLContext:
    return httpx2.create_ssl_context(trust_env=False)


async def post(url: str, body: bytes, key: ApiKey, timeout_s: float) -> Answer | NoAnswer:
    """Sends one request, and reads the whole answer.

    Args:
        url: Where to.
        body: JSON.
        key: Sent with it, and taken out of what is said of it.
        timeout_s: Seconds for all of it.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await _exchange(url, body, key)
    except TimeoutError:
        return NoAnswer(Trouble.REFUSED, f"no answer within {timeout_s} s")
    except (httpx2.ConnectError, httpx2.UnsupportedProtocol) as error:
        return NoAnswer(Trouble.BUSY, "no connection", said=_plain(key.hidden(str(error))))
    except (httpx2.HTTPError, httpx2.StreamError, ValueError) as error:
        return NoAnswer(Trouble.BROKEN, f"the exchange broke off ({type(error).__name__})")
    except OSError:
        return NoAnswer(Trouble.BUSY, "no connection")


async def _exchange(url: str, body: bytes, key: ApiKey) -> Answer | NoAnswer:
    own = {"Accept": "application/json", "Accept-Encoding": "identity", "Connection": "close"}
    request = httpx2.Request(
        "POST",
        url,
        headers={"Content-Type": "application/json", "User-Agent": "sottovoce", **own, **key.headers},
        content=body,
    )
    limits = httpx2.Limits(max_connections=1, max_keepalive_connections=0)
    verify: Any = _tls() if request.url.scheme == "https" else False
    transport = httpx2.AsyncHTTPTransport(verify=verify, trust_env=False, limits=limits)
    try:
        response = await transport.handle_async_request(request)
        try:
            content = await _read(response)
        finally:
            await response.aclose()
    finally:
        await transport.aclose()
    return _judged(response, content, key)


async def _read(response: httpx2.Response) -> bytes | None:
    """The body; ``None`` where it is too long."""
    parts, size = [], 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > MOST_BYTES:
            return None
        parts.append(part)
    return b"".join(parts)


def _judged(response: httpx2.Response, content: bytes | None, key: ApiKey) -> Answer | NoAnswer:
    status = response.status_code
    if status != 200:
        trouble = Trouble.BUSY if status in _BUSY else Trouble.BROKEN if status >= 500 else Trouble.REFUSED
        why = f"status {status}" + (", a redirect, which is not followed" if 300 <= status < 400 else "")
        said = _plain(key.hidden((content or b"").decode("utf-8", "replace")))
        return NoAnswer(trouble, why, _wait(response.headers.get("retry-after", "")), said)
    if content is None:
        return NoAnswer(Trouble.REFUSED, f"an answer of more than {MOST_BYTES >> 20} MiB")
    if response.headers.get("content-encoding", "identity") != "identity":
        return NoAnswer(Trouble.REFUSED, "a compressed answer, which was not asked for")
    if response.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return NoAnswer(Trouble.REFUSED, "an answer that is not JSON")
    return Answer(content)


def _wait(text: str) -> float | None:
    """Seconds that a server asks to wait, by number or until a date."""
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return float(text)
    try:
        until = parsedate_to_datetime(text)
        return max(0.0, until.timestamp() - time.time())
    except (ValueError, TypeError, OverflowError, OSError):
        return None


def _plain(text: str) -> str:
    """A few printable words of somebody else's; of a text without the key, since what is cut would not be known."""
    return " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * _SHOWN]).split())[:_SHOWN]
