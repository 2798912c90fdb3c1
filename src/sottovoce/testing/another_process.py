"""A contract in a copy of this process, in which another question is asked first.

What an entry keeps of its first question stays in its module or class for the rest of a process. Whether it is too
small for a later question depends on which one came first, so both orders are tried: one here, one in a copy.

Guarantee   A contract that is broken in the copy is broken here, with the same words. Nothing else comes back from it.
Assumes     Nothing was asked of the entry before. Where a process cannot be copied, or the copy does not answer, that
            is listed as not compared.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Final

from sottovoce.testing.report import ContractError, Report

PATIENCE: Final = 600.0
"""Seconds after which a copy is given up."""


def in_a_copy(check: Callable[[], object], report: Report, subject: str) -> None:
    """Runs a check in a copy of this process.

    Raises:
        ContractError: The check did, in the copy.
    """
    if not hasattr(os, "fork"):
        report.not_compared(f"{subject}: questions in another order, since this system copies no process")
        return
    told = _told(check)
    if told is None:
        report.not_compared(f"{subject}: questions in another order, since the copy of the process did not answer")
    elif told:
        raise ContractError(*json.loads(told))


def _told(check: Callable[[], object]) -> bytes | None:
    """What a copy says: a broken contract, or nothing; ``None`` if it did not come to an end."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the copy does not use
        copy = os.fork()
    if not copy:
        os.close(reading)
        _say(check, writing)
    os.close(writing)
    told, ended = b"", False
    while not ended and select.select([reading], [], [], PATIENCE)[0]:
        part = os.read(reading, 1 << 16)
        told, ended = told + part, not part
    os.close(reading)
    if not ended:
        os.kill(copy, signal.SIGKILL)
    _, status = os.waitpid(copy, 0)
    return told if ended and status == 0 else None


def _say(check: Callable[[], object], writing: int) -> None:
    """The copy's part; it does not return. Where the check raises anything else, the copy gives no answer."""
    told = b""
    try:
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)  # its threads are not copied
        check()
    except ContractError as broken:
        told = json.dumps([broken.contract, broken.subject, broken.found, broken.world]).encode()
    except BaseException:
        os._exit(1)
    while told:
        told = told[os.write(writing, told) :]
    os._exit(0)
