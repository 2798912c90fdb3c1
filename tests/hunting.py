"""The hunt for private text: every way in which a thing can show itself, searched for marked strings."""

from __future__ import annotations

import copy
import dataclasses
import io
import json
import logging
import pickle
import pprint
import re
import reprlib
import secrets
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.pretty import pretty_repr


class Leak(AssertionError):
    """Something private was shown."""


def marker(kind: str = "MARKER") -> str:
    """A string that occurs nowhere else; its digits alone give it away too."""
    return f"{kind}-{secrets.token_hex(6)}"


def search(text: str | bytes, markers: list[str], where: str) -> None:
    """Raises ``Leak`` if a marker occurs, also wrapped over lines or drawn into a table, or its digits alone."""
    for word in markers:
        for needle in (word, word.rpartition("-")[2]):
            if isinstance(text, bytes):
                found = any(needle.encode(code) in text for code in ("utf-8", "utf-16-le", "utf-16-be"))
            else:
                found = needle in text or needle in re.sub(r"[\s│┃|]+", "", text)
            if found:
                raise Leak(f"{where} shows {word.partition('-')[0]}")


def search_number(text: str, number: int, where: str) -> None:
    """Raises ``Leak`` if a number stands alone in the text."""
    if re.search(rf"(?<![\w.-]){number}(?![\w]|\.\d|-\w)", text):
        raise Leak(f"{where} shows the number")


def faces(thing: Any) -> Iterator[tuple[str, str | bytes]]:
    """Every way that a thing may come to be shown or stored by accident."""
    yield "repr", repr(thing)
    yield "str", str(thing)
    yield "ascii", ascii(thing)
    yield "f-string", f"{thing} {thing!r} {thing!s} {thing!a}"
    yield "format with a width", f"{thing:}" + f"{[thing]} { ({'key': thing}) }"
    yield "str.format", "{} {!r} {:}".format(thing, thing, thing)  # noqa: UP032
    yield "percent", "%s %r %a" % (thing, thing, thing)  # noqa: UP031
    yield "pprint", pprint.pformat({"key": [thing]})
    yield "reprlib", reprlib.repr([thing])
    yield "rich", pretty_repr({"key": [thing]})
    yield "log", logged(lambda log: log.debug("%s %r", thing, thing, extra={"thing": thing}))
    yield "json", attempt(lambda: json.dumps({"key": [thing]}, default=str))
    yield "json by repr", attempt(lambda: json.dumps(thing, default=repr))
    yield "json by attributes", attempt(lambda: json.dumps(thing, default=lambda o: getattr(o, "__dict__", repr(o))))
    yield "plain json", attempt(lambda: json.dumps(thing))
    yield "vars", attempt(lambda: f"{vars(thing)}")
    yield "asdict", attempt(lambda: f"{dataclasses.asdict(thing)}")
    yield "copy", attempt(lambda: repr(copy.copy(thing)))
    yield "deepcopy", attempt(lambda: repr(copy.deepcopy([thing])))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        yield "pickle", attempt_bytes(lambda protocol=protocol: pickle.dumps(thing, protocol))


SILENT_STORES = ("pickle", "asdict", "vars", "json by attributes")
"""Faces that plain carriers of rows have by nature."""


def hunt(thing: Any, markers: list[str], *, number: int | None = None, except_for: tuple[str, ...] = ()) -> None:
    """Raises ``Leak`` if any face of the thing shows a marker, or the number."""
    for face, shown in faces(thing):
        if face not in except_for:
            where = f"{face} of {type(thing).__name__}"
            search(shown, markers, where)
            if number is not None and isinstance(shown, str):
                search_number(shown, number, where)


def hunt_error(call: Callable[[], object], markers: list[str], *, number: int | None = None) -> BaseException:
    """Runs what must fail, and searches the error, its notes, its shown causes and its whole traceback."""
    try:
        call()
    except BaseException as raised:
        error = raised
        seen: list[BaseException] = []
        waiting: list[BaseException | None] = [error]
        while waiting:
            one = waiting.pop()
            if one is None or one in seen:
                continue
            seen.append(one)
            waiting += [one.__cause__, None if one.__suppress_context__ else one.__context__]
            told = [str(one), repr(one), repr(one.args), repr(getattr(one, "__notes__", "")), repr(vars(one))]
            for text in told:
                search(text, markers, f"{type(one).__name__}")
                if number is not None:
                    search_number(text, number, f"{type(one).__name__}")
        # Source lines are ours and hold no marker, for markers are made when the test runs.
        search("".join(traceback.format_exception(error)), markers, "the traceback")
        search(logged(lambda log: log.exception("failed", exc_info=error)), markers, "the logged traceback")
        return error
    raise AssertionError("this had to fail")


def hunt_files(folder: Path, markers: list[str], *, but: tuple[str, ...] = ()) -> list[str]:
    """Searches the bytes of every file below a folder; returns their names."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in but]
    for path in files:
        search(path.read_bytes(), markers, path.name)
        search(path.name, markers, "a file's name")
    return [path.name for path in files]


def logged(write: Callable[[logging.Logger], object]) -> str:
    """What a log at DEBUG holds after the call, every attribute of its records included."""
    stream, log = io.StringIO(), logging.Logger("hunt", logging.DEBUG)

    class Everything(logging.StreamHandler):
        def emit(self, record: logging.LogRecord) -> None:
            self.stream.write(self.format(record) + repr(record.args) + repr(getattr(record, "thing", "")))

    log.addHandler(Everything(stream))
    write(log)
    return stream.getvalue()


def attempt(make: Callable[[], str]) -> str:
    """The text, or what is shown where it is refused."""
    try:
        return make()
    except Exception:
        return traceback.format_exc()


def attempt_bytes(make: Callable[[], bytes]) -> bytes | str:
    try:
        return make()
    except Exception:
        return traceback.format_exc()
