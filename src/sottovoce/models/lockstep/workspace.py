"""What the prompts, the texts and the self-test of one stepper share: model, memory, lock, and the rows of passes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

from sottovoce.models.lockstep.memory import Memory
from sottovoce.models.lockstep.model import LockstepModel


@final
class Workspace:
    """A model, and what is public about its use.

    Args:
        engine: The model.
        cache_bytes: Cap for keys and values.
        rows: Rows of every forward pass over experts, in the layout ``rows``.
        head_rows: Rows of every product of experts' states with the output head.
        panel_rows: Most rows of a panel, a power of two.

    Attributes:
        engine: As given.
        memory: Bytes of keys and values in use.
        lock: Held while the model runs.
        layout: The layout in use, ``rows`` or ``single``; ``None`` before it is chosen, which runs single rows.
    """

    def __init__(self, engine: LockstepModel, cache_bytes: int, rows: int, head_rows: int, panel_rows: int) -> None:
        self.engine, self.memory, self.lock = engine, Memory(cache_bytes), threading.RLock()
        self._rows, self._head_rows, self._panel_rows = rows, head_rows, panel_rows
        self.layout: str | None = None

    @property
    def vocabulary(self) -> int:
        """Number of tokens, which is the width of the model's logits."""
        return self.engine.vocabulary

    @property
    def rows(self) -> int:
        """Rows of every forward pass over experts in the layout in use."""
        return self._rows if self.layout == "rows" else 1

    @property
    def head_rows(self) -> int:
        """Rows of every product of experts' states with the output head."""
        return self._head_rows if self.layout == "rows" else 1

    @property
    def panel_rows(self) -> int:
        """Most rows of a panel, a power of two."""
        return self._panel_rows if self.layout == "rows" else 1

    @contextmanager
    def unlimited(self) -> Iterator[None]:
        """Within, what a self-test keeps does not count."""
        kept, self.memory = self.memory, Memory(sys.maxsize)
        try:
            yield
        finally:
            self.memory = kept
