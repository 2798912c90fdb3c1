"""A verdict on its way out: scripts read its exit code, and no stream takes that away."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from sottovoce.cli.console import say
from sottovoce.errors import InputError, OutputError


@final
class Verdict:
    """What a check found.

    Args:
        words: In a sentence, for stderr where stdout does not take it.
        code: Its exit code; 0 where nothing is wrong.

    Attributes:
        is_printed: Whether all of it is on stdout.
    """

    def __init__(self, words: str, code: int) -> None:
        self.is_printed = False
        self._words, self._code = words, code
        self._failed = 0
        self._unread: BrokenPipeError | None = None

    def put(self, show: Callable[[], None]) -> None:
        """Prints it; where stdout does not take it, it is said in its words.

        Args:
            show: Prints it on stdout.
        """
        try:
            show()
            self.is_printed = True
        except OutputError as error:
            self.fail(f"{error} The verdict is: {self._words}", error.exit_code)
        except (BrokenPipeError, SystemExit) as error:
            self._unread = _of_reader(error)
            if self._code:
                self.say(f"Nobody reads the output any more. The verdict is: {self._words}")

    def say(self, line: str) -> None:
        """A line beside it, on stderr."""
        try:
            say(line)
        except (BrokenPipeError, SystemExit) as error:
            self._unread = _of_reader(error)
        except OSError:
            self._failed = self._failed or InputError.exit_code

    def fail(self, line: str, code: int) -> None:
        """Says what else went wrong, such as a file that cannot be written.

        Args:
            line: For stderr.
            code: Its exit code, for a verdict that has none of its own.
        """
        self._failed = self._failed or code
        self.say(line)

    def end(self) -> int:
        """The exit code: the verdict's own, and where that is 0 the one of what went wrong.

        Raises:
            BrokenPipeError: The verdict has no code of its own, nothing else went wrong, and nobody reads any more.
        """
        if self._code or self._failed or self._unread is None:
            return self._code or self._failed
        raise self._unread


def _of_reader(error: BrokenPipeError | SystemExit) -> BrokenPipeError:
    """The error of a reader that went away, of which rich makes an exit; any other exit is raised again."""
    found = error.__context__ if isinstance(error, SystemExit) else error
    if not isinstance(found, BrokenPipeError):
        raise error
    return found
