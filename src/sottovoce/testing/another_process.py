"""A question in a copy of this process: what was asked here afterwards is not known there.

What an entry keeps of a question stays in its module or class for the rest of a process. A copy that was made before
the question has none of it.

Guarantee   What a copy says is what comes back, and nothing else: what it keeps stays there, and what it started in
            its own group of processes ends with it. It ends with the process that asked.
Assumes     Threads are not copied. A copy that waits for a pool of threads of the entry's own, which was used before
            it was made, stands still and is given up after half a minute.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, final

PATIENCE: Final = 600.0
"""Seconds after which a copy is given up."""
STILL: Final = 30.0
"""Seconds after which a copy is given up that has not worked for a second meanwhile."""
EVERY: Final = 1.0
"""Seconds of processor time between two beats of a copy."""
BEAT: Final = b"."
"""What a copy says while it works."""
END: Final = b"\n"
"""What a copy says last."""
_FORKING: Final = threading.Lock()
"""One copy is made at a time: it has the ends of pipes of earlier ones alone, so that the last one can end first."""


@final
class NoAnswerError(Exception):
    """This system copies no process, or the copy did not come to an end; the message says which."""


def of_a_copy(ask: Callable[[], Any]) -> Any:
    """What a copy of this process answers.

    Args:
        ask: Its answer is numbers, texts, and lists of them. It should raise nothing.

    Raises:
        NoAnswerError: There is none.
    """
    if not hasattr(os, "fork"):
        raise NoAnswerError("this system copies no process")
    with _FORKING:
        reading, writing = os.pipe()
        asked, asking = os.pipe()  # nothing is ever written: it ends with this process
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the copy does not use
                copy = os.fork()
        except OSError as error:
            for end in (reading, writing, asked, asking):
                os.close(end)
            raise NoAnswerError(f"this system copies no process ({error.strerror})") from None
        if not copy:
            os.close(reading)
            os.close(asking)
            _say(ask, writing, asked)
        os.close(writing)
        os.close(asked)
    _of_its_own_group(copy)
    try:
        told = _told(reading)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(copy, signal.SIGKILL)  # with what it started
        os.close(asking)
        with suppress(ChildProcessError):  # where such signals are ignored, nobody is waited for
            os.waitpid(copy, 0)
    if not told.endswith(END):
        raise NoAnswerError("the copy of the process did not answer")
    return json.loads(told.lstrip(BEAT))


def _of_its_own_group(copy: int) -> None:
    """Both processes ask for it, so that it is so whichever of them comes first."""
    with suppress(OSError):
        os.setpgid(copy, copy)


def _told(reading: int) -> bytes:
    """All that a copy says, up to its end or until it is given up."""
    told, latest = b"", time.monotonic() + PATIENCE
    with selectors.DefaultSelector() as waiting:
        waiting.register(reading, selectors.EVENT_READ)
        while waiting.select(max(0.0, min(STILL, latest - time.monotonic()))):
            part = os.read(reading, 1 << 16)
            told += part
            if not part or part.endswith(END):
                break
    return told


def _ends_with(asked: int) -> None:
    """Waits for the end of the process that asked: a signal to its group does not reach this one."""
    os.read(asked, 1)
    os.killpg(0, signal.SIGKILL)


def _say(ask: Callable[[], Any], writing: int, asked: int) -> None:
    """The copy's part; it does not return."""
    try:
        _FORKING.release()  # it was made while this was held, and may make copies of its own
        _of_its_own_group(0)
        warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)  # of this thread
        threading.Thread(target=_ends_with, args=[asked], daemon=True).start()
        gc.disable()
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)  # its threads are not copied
        signal.signal(signal.SIGPROF, lambda *_: os.write(writing, BEAT))
        signal.siginterrupt(signal.SIGPROF, False)
        signal.setitimer(signal.ITIMER_PROF, EVERY, EVERY)
        told = json.dumps(ask()).encode() + END
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, signal.SIG_IGN)  # no beat comes in between
        while told:
            told = told[os.write(writing, told) :]
    finally:
        os._exit(0)
