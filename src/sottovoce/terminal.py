"""The one gate for everything that is printed: what comes from data is shown, never obeyed.

Guarantee   While ``gated`` holds, no control character but a line break and a tab reaches stdout or stderr, whoever
            writes there. The only terminal sequences are those of this module's own bars and tables. Text from data
            is never read as markup, and cannot end the line that it stands in.
Assumes     Nobody but this module imports rich, and nobody writes to the file descriptors: a test reads who does. Help
            is typer's, which draws with rich; what it shows of a settings file is escaped before.
"""

from __future__ import annotations

import errno
import io
import json
import re
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TextIO, final

from sottovoce.errors import InputError, OutputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

PATIENCE_S: Final = 1.0
"""Waiting for less is not spoken of."""
_WIDE: Final = 100_000
"""Columns of a table that no terminal shows: nothing in it is cut or wrapped."""
_NOT_ASCII: Final = re.compile(r"[\x7f-\U0010ffff]")


def printable(text: str, keep: str = "") -> str:
    r"""The text with everything escaped that a terminal could obey or hide: controls, bidirectional marks, format
    characters, separators of lines, lone surrogates.

    Args:
        text: Any text.
        keep: Control characters that are left as they are.

    Example:
        >>> printable("fine \x1b[2J\n\u202eexe")
        'fine \\x1b[2J\\n\\u202eexe'
    """
    if text.isprintable():
        return text
    return "".join(letter if letter in keep or not _is_unsafe(letter) else _escaped(letter) for letter in text)


def json_text(values: Any) -> str:
    r"""JSON on one line, the same values whatever is escaped in it.

    Example:
        >>> json_text({"value": "café \x9b2J"})
        '{"value": "café \\u009b2J"}'
    """

    def escaped(match: re.Match[str]) -> str:
        return json.dumps(match[0])[1:-1] if _is_unsafe(match[0]) else match[0]

    return _NOT_ASCII.sub(escaped, json.dumps(values, ensure_ascii=False))


@cache
def _err() -> Console:
    """rich is imported where it draws: most commands print lines alone."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """A line for the person, on stderr."""
    from rich.text import Text

    _err().print(Text(printable(text)), soft_wrap=True)


def put(values: Any) -> None:
    """One JSON object on stdout."""
    text = json_text(values)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(values)
    _write_line(text)


def put_text(text: str) -> None:
    """One line on stdout."""
    _write_line(printable(text))


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A small table on stdout, as wide as it needs to be where no terminal shows it."""
    _print_table(title, columns, rows, stderr=False)


def say_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The same on stderr, such as a closing summary."""
    _print_table(title, columns, rows, stderr=True)


def read_line(prompt: str) -> str | None:
    """A line from stdin, without its end; ``None`` where there is none any more.

    Args:
        prompt: Shown on stderr where a person types.

    Raises:
        InputError: It is not text.
    """
    if sys.stdin.isatty():
        sys.stderr.write(printable(prompt))
        sys.stderr.flush()
    try:
        line = sys.stdin.readline()
    except UnicodeDecodeError:
        raise InputError("What stdin holds is not UTF-8. Save it as UTF-8, or type the questions.") from None
    return line.removesuffix("\n") if line else None


def _print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, stderr: bool) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console = Console(stderr=stderr, highlight=False, width=_WIDE)
    drawn = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        drawn.add_column(Text(printable(column)))
    for row in rows:
        drawn.add_row(*(Text(printable(cell)) for cell in row))
    with console.capture() as captured:
        if title:
            console.print(Text(printable(title), style="bold"))
        console.print(drawn)
    text = captured.get()
    if console.is_terminal:
        stream = console.file
        stream.write(text.encode(console.encoding, "backslashreplace").decode(console.encoding))
    else:
        stream = sys.stderr if stderr else sys.stdout
        stream.write("".join(line.rstrip() + "\n" for line in text.removesuffix("\n").split("\n")))
    stream.flush()


def progress() -> Progress:
    """A bar on stderr, drawn only where somebody watches."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}", markup=False),
        TimeRemainingColumn(),
        console=_err(),
        transient=True,
        disable=not _err().is_terminal,
        redirect_stdout=False,  # they would lead around the gate
        redirect_stderr=False,
    )


@contextmanager
def waiting(words: str) -> Iterator[None]:
    """Says on stderr what is waited for, while it takes longer than a second and where somebody watches."""
    if not _err().is_terminal:
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn

    line = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        console=_err(),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    line.add_task(printable(words), total=None)
    later = threading.Timer(PATIENCE_S, line.start)
    later.start()
    try:
        yield
    finally:
        later.cancel()
        later.join()
        line.stop()


@contextmanager
def gated() -> Iterator[None]:
    """Meanwhile everything written to stdout and stderr is escaped, also by libraries, warnings and logs."""
    before = sys.stdout, sys.stderr
    out, err = sys.stdout or _Closed("stdout is closed"), sys.stderr or _Closed()
    sys.stdout, sys.stderr = _gate(out, _Results), _gate(err)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@final
class _Results(io.TextIOBase):
    """Stdout, where what a command was asked for goes: that it cannot be written, as on a full disk, is told."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding or "utf-8"

    def write(self, text: str) -> int:
        with _told():
            return self._stream.write(text)

    def flush(self) -> None:
        with _told():
            self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True


@contextmanager
def _told() -> Iterator[None]:
    """Makes an error of the system one that is told; that a reader went away is left as it is."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise OutputError(f"The output cannot be written ({reason}). Make room, or write it elsewhere.") from None


@contextmanager
def losing(words: str) -> Iterator[None]:
    """Adds to an error of stdout what is lost with it."""
    try:
        yield
    except OutputError as error:
        error.args = (f"{error} {words}",)
        raise


@final
class _Closed(io.TextIOBase):
    """A stream that the process was started without, such as by ``>&-``.

    Args:
        words: Why nothing can be written; where there are none, everything is dropped.
    """

    encoding = "utf-8"

    def __init__(self, words: str = "") -> None:
        self._words = words

    def write(self, text: str) -> int:
        if self._words:
            raise OSError(errno.EBADF, self._words)
        return len(text)

    def writable(self) -> bool:
        return True


@final
class _Gate(io.TextIOBase):
    """A text stream that escapes what is written, and reports that it is no terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def rich_proxied_file(self) -> TextIO:
        """Where rich writes: its own sequences are let through, and what it is given is escaped before."""
        return self._stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding or "utf-8"

    def write(self, text: str) -> int:
        safe = printable(text, keep="\n\t")
        try:
            self._stream.write(safe)
        except UnicodeEncodeError:
            self._stream.write(safe.encode(self.encoding, "backslashreplace").decode(self.encoding))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True


def _gate(stream: Any, around: Callable[[Any], Any] = lambda stream: stream) -> Any:
    return stream if isinstance(stream, _Gate) else _Gate(around(stream))


def _write_line(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _is_unsafe(letter: str) -> bool:
    """Whether a terminal could obey or hide it. Blanks of other widths, and letters of any script, are safe."""
    return not letter.isprintable() and unicodedata.category(letter) != "Zs"


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
