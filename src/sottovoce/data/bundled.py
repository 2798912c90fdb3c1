"""What ships: support tickets of an invented shop as an example, and a pool of invented public texts of many kinds."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.records.readers import read_private, read_public
from sottovoce.records.sealed import PrivateRecords, PublicRecords

POOL_VECTORS: Final = resources.files("sottovoce") / "data" / "pool" / "vectors.safetensors"
"""What ``scripts/embed_pool.py`` writes."""
MOST_STEPS: Final = 7
"""Coordinates are kept in whole steps from -7 to 7, two in a byte."""


def tickets_file(name: str) -> Path:
    """The path of ``private.jsonl`` or ``queries.jsonl``."""
    return Path(str(resources.files("sottovoce") / "data" / "tickets" / name))


def private_tickets(unit: str | None = None) -> PrivateRecords:
    """440 tickets, sealed; the unit is the customer unless said otherwise. They are declared synthetic."""
    return read_private(tickets_file("private.jsonl"), unit=unit, synthetic=True)


def ticket_queries() -> PublicRecords:
    """160 labelled questions."""
    return read_public(tickets_file("queries.jsonl"))


def pool_file() -> Path:
    """The path of the bundled pool."""
    return Path(str(resources.files("sottovoce") / "data" / "pool" / "texts.jsonl.gz"))


@cache
def public_pool() -> PublicRecords:
    """Some thousand short invented texts, fields ``text`` and ``kind`` (news, question, review); they have no label.

    Read once; the rows are shared and not to be changed.
    """
    return read_public(pool_file())


def pool_vectors(embedding: str, texts: Sequence[str]) -> NDArray[np.float64] | None:
    """The vectors that ship for the bundled pool, shape (texts, dimension), of length one; in their leading directions.

    Args:
        embedding: What tells the embedder's vectors from any other's.
        texts: The texts that are to be embedded.

    Returns:
        ``None`` where the embedder is another one, or the texts are.
    """
    from safetensors import safe_open

    with safe_open(str(POOL_VECTORS), framework="np") as content:
        told = content.metadata() or {}
        if (told.get("embedding"), told.get("texts")) != (embedding, texts_hash(texts)):
            return None
        steps, basis, scale = (content.get_tensor(name) for name in ("steps", "basis", "scale"))
    vectors = (unpacked(steps) * scale.astype(np.float64)) @ basis.astype(np.float64)
    return np.asarray(vectors / np.sqrt((vectors * vectors).sum(axis=1, keepdims=True)))


def texts_hash(texts: Sequence[str]) -> str:
    """SHA-256 of texts in their order."""
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()


def packed(steps: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Two steps a byte, shape (texts, coordinates / 2).

    Example:
        >>> packed(np.array([[-7, 3]])).tolist(), unpacked(packed(np.array([[-7, 3]]))).tolist()
        ([[27]], [[-7.0, 3.0]])
    """
    halves = (steps + MOST_STEPS + 1).astype(np.uint8)
    return np.asarray(halves[:, ::2] << 4 | halves[:, 1::2], dtype=np.uint8)


def unpacked(halves: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Steps from their bytes, shape (texts, coordinates)."""
    steps = np.stack([halves >> 4, halves & 15], axis=2).reshape(len(halves), -1)
    return np.asarray(steps.astype(np.float64) - (MOST_STEPS + 1))
