"""What encoders of texts have in common: each text is read by itself, and one that cannot be embedded is NaN.

Isolation   A row follows from its own text alone. Texts run side by side on threads, which changes their speed.
Sources     specification 1.4 (a null expert adds zero), 8.4 (failures that private content causes), 9.6.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ModelError
from sottovoce.models.failures import is_models, is_shared

VectorArray = NDArray[np.float32]
THREAD_NAMES = "sottovoce-encoder"


class Network(ABC):
    """A loaded model with its tokenizer, and threads that it is computed by."""

    dimension: int
    _tokenizer: Any

    @abstractmethod
    def _embed(self, text: str) -> VectorArray:
        """The unit vector of one text, shape (dimension,), float32."""

    @abstractmethod
    def _threads(self) -> ThreadPoolExecutor:
        """One thread a core, each computing its text alone; made anew after a fork."""

    @property
    @abstractmethod
    def surroundings(self) -> str:
        """Everything but files that the bits of a vector depend on."""

    def embed_all(self, texts: Sequence[str]) -> list[VectorArray]:
        """One vector a text."""
        return list(self._threads().map(self._embed_or_none, texts))

    def pieces(self, text: str) -> int:
        """The number of word pieces of a text."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def _embed_or_none(self, text: str) -> VectorArray:
        """NaN for a text that cannot be embedded: its expert is null, and no other text is touched."""
        handled = sys.exception()
        try:
            return self._embed(text)
        except BaseException as error:
            if not is_models(error):
                raise
            if is_shared(error, handled):
                raise ModelError("The machine ran out of memory while a text was embedded.", retryable=True) from None
            return np.full(self.dimension, np.nan, dtype=np.float32)


class TextEncoder(ABC):
    """Turns texts into unit vectors, each text by itself.

    Attributes:
        dimension: Length of a vector.
    """

    dimension: int

    @property
    @abstractmethod
    def characters(self) -> int:
        """So much of a text is read."""

    @abstractmethod
    def _network(self) -> Network:
        """The network, loaded on first use."""

    def encode(self, texts: Sequence[str]) -> VectorArray:
        """Embeds texts, one row each.

        Args:
            texts: Any number of them. Neither their number nor their order nor the other texts changes a row.

        Returns:
            Unit vectors, shape (texts, dimension), float32. A row that is not finite could not be computed.

        Raises:
            ModelError: The encoder cannot be loaded or fails. The message holds nothing of the texts.
        """
        cut = [self.cut(text) for text in texts]
        network = self._network()
        distinct = list(dict.fromkeys(cut))
        vectors = dict(zip(distinct, network.embed_all(distinct), strict=True))
        return np.stack([vectors[text] for text in cut]) if cut else np.empty((0, self.dimension), np.float32)

    def pieces(self, text: str) -> int:
        """The number of word pieces that the encoder sees of a text; 0 where it can read nothing."""
        return self._network().pieces(self.cut(text))

    def cut(self, text: str) -> str:
        """The part of a text that is read; what is not valid Unicode becomes a question mark."""
        return text[: self.characters].encode("utf-8", "replace").decode("utf-8")

    def load(self) -> None:
        """Loads the network now instead of on first use.

        Raises:
            ModelError: It cannot be loaded.
        """
        self._network()


def cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
