"""How far a fit has read: the sums of its first units, kept in the trusted store while it reads the others.

The file is in the user's data folder (or the folder that ``SOTTOVOCE_HOME`` names), never beside the data, encrypted
under a key of the store. It opens for the same run, records, order, rules and embedder alone, so that no unit is added
up twice, and goes when the draw begins. It is a convenience: whatever goes wrong with it, the units are read again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, final

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sottovoce.experts.encoded import Summed
from sottovoce.experts.unit_sums import SumRule
from sottovoce.privacy.checks import canonical
from sottovoce.store import private_folder, sums_key, write_anew

FITS: Final = "fits"
"""Folder of the store."""
EVERY_S: Final = 2.0
"""Time between two writes, which an interruption costs at most, and the shard that was being read."""
NONCE_BYTES: Final = 12


@final
class KeptSums:
    """Sums of the first units of one run.

    Args:
        run: Its id.
        terms: What must be the same when it goes on: the model, the task, the rules.
        rules: What is summed.
        clock: Seconds.
    """

    def __init__(
        self,
        run: str,
        terms: Sequence[str],
        rules: Sequence[SumRule],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run, self._rules, self._clock = run, rules, clock
        self._terms = canonical([run, *terms, [rule.digest for rule in rules]])
        self._written = clock() - EVERY_S

    def found(self, order: str) -> Summed | None:
        """How many units were added up, and their sums; nothing of another order of the examples."""
        with suppress(OSError, InvalidTag, ValueError):
            sealed, name = self._file().read_bytes(), self._name(order)
            content = AESGCM(sums_key()).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], name)
            numbers = np.frombuffer(content, "<i8").astype(np.int64)
            ends = np.cumsum([1, *(rule.size for rule in self._rules)])
            if len(numbers) == ends[-1]:
                return int(numbers[0]), np.split(numbers[1:], ends[:-1][1:] - 1)
        return None

    def keep(self, order: str, done: Summed) -> None:
        """Keeps them, where the last time is ``EVERY_S`` ago."""
        if self._clock() - self._written < EVERY_S:
            return
        units, sums = done
        content = np.concatenate([np.array([units], dtype=np.int64), *sums]).astype("<i8").tobytes()
        nonce = secrets.token_bytes(NONCE_BYTES)
        with suppress(OSError):
            write_anew(self._file(), nonce + AESGCM(sums_key()).encrypt(nonce, content, self._name(order)))
            self._written = self._clock()

    def forget(self) -> None:
        """Removes them."""
        with suppress(OSError):
            self._file().unlink(missing_ok=True)

    def _file(self) -> Path:
        return private_folder(FITS) / hmac.new(sums_key(), self._run.encode(), hashlib.sha256).hexdigest()[:24]

    def _name(self, order: str) -> bytes:
        return json.dumps([self._terms, order]).encode()
