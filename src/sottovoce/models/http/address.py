"""Where a model is asked: ``MODEL@BASE_URL``, what follows it, and the key of the server.

No server is a default: private examples go only where somebody named the place, in the model's name or in
``OPENAI_BASE_URL``. Without encryption they go to this machine alone, unless that is asked for.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final, final
from urllib.parse import urlsplit

from sottovoce.errors import InputError, ParameterError
from sottovoce.parameters import Number, OneOf, nearest
from sottovoce.records.sealed import Opaque

APIS: Final = ("chat", "completions", "responses")
SCORES: Final = ("auto", "echo", "top")
KEYS: Final = ("SOTTO_API_KEY", "OPENAI_API_KEY")
"""Environment variables that may hold the key of the server; the first one that is set."""
API: Final = "SOTTO_API"
BASE_URL: Final = "OPENAI_BASE_URL"

_NAMED: Final = re.compile(
    r"(?P<model>(?:(?!://).)+?)(?:@(?P<url>(?i:https?)://[^,]*))?(?P<options>(?:,[a-z_]+=[^,]*)*)", re.DOTALL
)
_PLAIN: Final = re.compile(r"[\x21-\x7e]+")
_LABEL: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOSTNAME: Final = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*\.?")
_BRACKETED: Final = re.compile(r"\[[0-9A-Fa-f:.]+\](?::[0-9]+)?")
_FOUR_NUMBERS: Final = re.compile(r"[0-9]+(?:\.[0-9]+){3}")
_PATH: Final = re.compile(r"[A-Za-z0-9._~/-]*")
_LOOPBACK: Final = re.compile(r"localhost|127(?:\.[0-9]{1,3}){3}|::1")
_SWITCH: Final = {"yes": True, "no": False, "true": True, "false": False}
_LIMITS: Final = {
    "timeout_s": Number(0.01, 86_400),
    "concurrency": Number(1, 256, whole=True),
    "retries": Number(0, 20, whole=True),
}


@final
@dataclass(frozen=True)
class Server:
    """A model, the server that runs it, and how it is asked.

    Attributes:
        model: The name that the server knows the model by.
        url: Where its API is, without a slash at the end, such as ``http://127.0.0.1:8000/v1``.
        api: ``chat`` (chat completions), ``completions``, or ``responses``; ``None`` for the default of a use.
        score: How labels are scored: ``echo``, ``top`` or ``auto``.
        asserted: Whether the operator asserts that a prompt's answer depends on that prompt alone.
        timeout_s: Seconds for one request, from its connection to the last byte of its answer.
        concurrency: Requests under way at once.
        retries: Further attempts where the server is busy, fails or does not answer.
        cache: Whether answers are kept in the trusted store, so that the same request does not go out again.
        unencrypted: Whether plain ``http://`` to other machines is allowed.
    """

    model: str
    url: str
    api: str | None = None
    score: str = "auto"
    asserted: bool = False
    timeout_s: float = 120.0
    concurrency: int = 4
    retries: int = 4
    cache: bool = True
    unencrypted: bool = False

    @property
    def host(self) -> str:
        """The machine, and its port where one is given."""
        return urlsplit(self.url).netloc

    @property
    def name(self) -> str:
        """As the caller named it, without options."""
        return f"openai:{self.model}@{self.url}"

    @classmethod
    def named(cls, name: str, **options: object) -> Server:
        """Reads ``MODEL@BASE_URL`` and the options that follow it, such as ``,api=completions,isolation=asserted``.

        Args:
            name: What follows ``openai:``. Without an address it is the one in ``OPENAI_BASE_URL``.
            options: The same options, as values; ``None`` for one that is not given.

        Raises:
            ParameterError: The name, the address or an option is not usable.

        Example:
            >>> Server.named("qwen@http://127.0.0.1:8000/v1,api=completions").api
            'completions'
        """
        match = _NAMED.fullmatch(name)
        if match is None:
            raise InputError("A model behind a server is named openai:MODEL@BASE_URL, with options as in ,api=chat.")
        model, given = match["model"], {key: value for key, value in options.items() if value is not None}
        url = match["url"] or os.environ.get(BASE_URL, "")
        if not url:
            raise ParameterError(
                "model",
                f"openai:{model}",
                f"followed by the address of a server, as in openai:{model}@http://127.0.0.1:8000/v1, or {BASE_URL} "
                "must be set",
            )
        url = address_of(url)  # from here on it may be shown
        for part in match["options"].split(",")[1:]:
            option, _, value = part.partition("=")
            if option in given:
                raise ParameterError("model", f"openai:{model}@{url}", f"given {option}= once")
            given[option] = value
        read: dict[str, Any] = {option: _read(option, value) for option, value in given.items()}
        if "isolation" in read:
            read["asserted"] = read.pop("isolation")
        if "api" not in read and (api := os.environ.get(API)):
            read["api"] = OneOf(APIS).read(API, api)
        server = cls(model, url, **read)
        if not server.unencrypted and not is_guarded(url):
            raise ParameterError(
                "model",
                server.name,
                "at an address that begins with https://, since prompts hold private examples; with ,unencrypted=yes "
                "they may go over the network as they are",
            )
        return server


def _read(option: str, value: object) -> object:
    """An option's value, from the text after the name or as it is given."""
    if option == "api":
        return OneOf(APIS).read(option, value)
    if option == "score":
        return OneOf(SCORES).read(option, value)
    if option == "isolation":
        OneOf(("asserted",)).read(option, value)
        return True
    if option in _LIMITS:
        return _LIMITS[option].read(option, value)
    if option in ("cache", "unencrypted"):
        found = _SWITCH.get(value) if isinstance(value, str) else value
        if not isinstance(found, bool):
            raise ParameterError(option, value, "yes or no")
        return found
    known = ["api", "score", "isolation", *_LIMITS, "cache", "unencrypted"]
    raise ParameterError("model option", option, f"one of {', '.join(known)}{nearest(option, known)}")


def is_guarded(url: str) -> bool:
    """Whether nobody on the network reads what goes to an address: it is encrypted, or stays on this machine.

    Args:
        url: As ``address_of`` writes it.
    """
    parts = urlsplit(url)
    return parts.scheme == "https" or bool(_LOOPBACK.fullmatch(parts.hostname or ""))


def address_of(text: str) -> str:
    """An address, written anew from its parts: what is judged here is what is asked later.

    Args:
        text: As somebody gave it.

    Returns:
        ``http`` or ``https`` in small letters, the machine, its port where one is given, and the path without a slash
        at its end.

    Raises:
        InputError: It holds something else, such as a blank, a name or a password; nothing of it is shown.
    """
    if parts := _parts(text):
        scheme, host, port, path = parts
        machine = f"[{host}]" if ":" in host else host
        return f"{scheme}://{machine}{'' if port is None else f':{port}'}{path.rstrip('/')}"
    raise InputError(
        "The address of a model's server must be of the form https://MACHINE:PORT/PATH, without name, password, "
        f"blank, question mark or fragment. A key belongs in the environment variable {KEYS[0]}."
    )


def _parts(text: str) -> tuple[str, str, int | None, str] | None:
    """Scheme, machine, port and path; ``None`` where there is anything else, or one of them cannot be."""
    if not _PLAIN.fullmatch(text):  # urlsplit leaves blanks and control characters out without a word
        return None
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
        if ":" in host or "[" in parts.netloc:
            sound = bool(_BRACKETED.fullmatch(parts.netloc) and IPv6Address(host))
        else:
            sound = bool(_HOSTNAME.fullmatch(host) and (not _FOUR_NUMBERS.fullmatch(host) or IPv4Address(host)))
    except ValueError:
        return None
    bare = "@" not in parts.netloc and not parts.query and not parts.fragment and "?" not in text and "#" not in text
    if not (sound and bare and port != 0 and parts.scheme in ("http", "https") and _PATH.fullmatch(parts.path)):
        return None
    return parts.scheme, host, port, parts.path


def _ways_to_write(character: str) -> str:
    """A pattern for a character as it is, behind backslashes, as a JSON escape, or as addresses write it."""
    code = f"{ord(character):02x}"
    return rf"(?:\\{{0,15}}{re.escape(character)}|\\{{1,15}}u00(?i:{code})|%(?:25){{0,7}}(?i:{code}))"


@final
class ApiKey(Opaque):
    """The key of a server, which is sent with every request and shown nowhere.

    Attributes:
        text: The key; empty for none.
    """

    __slots__ = ("_written", "text")

    def __init__(self, text: str = "") -> None:
        self.text = text
        self._written = re.compile("".join(map(_ways_to_write, text)))

    def hidden(self, said: str) -> str:
        """A text without the key, as it is or as JSON and addresses may write it. Before anything is cut off it."""
        return self._written.sub("[key]", said) if self.text else said

    @property
    def headers(self) -> dict[str, str]:
        """What it is sent as."""
        return {"Authorization": f"Bearer {self.text}"} if self.text else {}

    @classmethod
    def found(cls) -> ApiKey:
        """The key in the environment.

        Raises:
            InputError: It has characters that no header can hold; the variable is named, the key is not shown.
        """
        for variable in KEYS:
            if text := os.environ.get(variable, "").strip():
                if not re.fullmatch(r"[\x21-\x7e]+", text):
                    raise InputError(f"The key in {variable} has blanks or characters that are not ASCII. Set it anew.")
                return cls(text)
        return cls()
