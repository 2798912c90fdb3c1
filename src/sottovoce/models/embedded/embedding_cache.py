"""Embeddings of private texts, kept between runs without giving the texts away; see ``encrypted_cache``.

An embedding tells much of its text, so none is stored in clear. Queries are never looked up here, since the time it
takes would tell whether a question equals a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.models.encrypted_cache import EncryptedCache
from sottovoce.store import home

VectorArray = NDArray[np.float32]


def default_folder() -> Path:
    """Where the cache lies unless the caller names a folder."""
    return home() / "embeddings"


class EmbeddingStore(Protocol):
    """Where embeddings are kept between runs."""

    def find(self, encoder: str, texts: Sequence[str]) -> list[VectorArray | None]:
        """For each text its vector, or ``None``."""

    def keep(self, encoder: str, texts: Sequence[str], vectors: Sequence[VectorArray]) -> None:
        """Stores vectors under their texts."""


@final
class EmbeddingCache:
    """Encrypted embeddings by text, safe to share between threads and processes of one user.

    Args:
        folder: The folder of the cache, made where missing and closed to other users; ``None`` for the trusted store.
        most_entries: Beyond this number the oldest entries go. An entry of 384 dimensions takes about 1.7 kB.

    Raises:
        ParameterError: ``most_entries`` is below 1.
    """

    def __init__(self, folder: Path | None = None, *, most_entries: int = 200_000) -> None:
        self._values = EncryptedCache(
            "embeddings", "embedding 1", folder or default_folder(), most_entries=most_entries
        )

    def find(self, encoder: str, texts: Sequence[str]) -> list[VectorArray | None]:
        """Looks texts up.

        Args:
            encoder: Identity of the encoder; entries of another one are not found.
            texts: Private texts.

        Returns:
            For each text its vector, or ``None`` where the cache has none that is intact.
        """
        return [None if value is None else _vector(value) for value in self._values.find(encoder, texts)]

    def keep(self, encoder: str, texts: Sequence[str], vectors: Sequence[VectorArray]) -> None:
        """Stores vectors under their texts, and lets the oldest entries go where there are too many."""
        self._values.keep(encoder, texts, [np.ascontiguousarray(vector, "<f4").tobytes() for vector in vectors])


def _vector(value: bytes) -> VectorArray | None:
    return np.frombuffer(value, "<f4").astype(np.float32) if len(value) % 4 == 0 else None
