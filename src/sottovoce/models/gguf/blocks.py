"""Numbers of GGUF files from their blocks: a block of 32 or 256 numbers has a scale, and few bits for each number.

Sources     ``ggml-quants.c`` of https://github.com/ggml-org/ggml; bits are compared with the ``gguf`` package in the
            tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from mmap import mmap
from typing import Any, Final, final

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float32]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_AT_ONCE: Final = 1 << 14
"""Blocks that are unpacked together: what lies between the file and the numbers stays in the processor's cache."""


@final
@dataclass(frozen=True)
class Kind:
    """A type of tensor: its name, numbers and bytes of a block, and how blocks of shape (blocks, bytes) are read."""

    name: str
    numbers: int
    bytes: int
    unpack: Callable[[Bytes], Floats]

    def bytes_of(self, shape: tuple[int, ...]) -> int:
        """Size of a tensor.

        Raises:
            ValueError: Its rows are not whole blocks.
        """
        if shape and shape[-1] % self.numbers:
            raise ValueError(f"a row of {shape[-1]} numbers in blocks of {self.numbers}")
        return math.prod(shape) // self.numbers * self.bytes


def numbers(content: bytes | mmap, start: int, shape: tuple[int, ...], kind: int) -> Floats:
    """A tensor's numbers, of this shape.

    Args:
        content: Bytes of the file.
        start: Where the tensor begins.
        shape: Of the tensor.
        kind: Code of its type, one of ``KINDS``.
    """
    known = KINDS[kind]
    raw = np.frombuffer(content, np.uint8, known.bytes_of(shape), start).reshape(-1, known.bytes)
    found = np.empty((len(raw), known.numbers), np.float32)
    for at in range(0, len(raw), _AT_ONCE):
        found[at : at + _AT_ONCE] = known.unpack(raw[at : at + _AT_ONCE])
    return found.reshape(shape)


def _scale(blocks: Bytes, at: int) -> Floats:
    """Half-precision numbers from a byte on, as a column."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def _nibbles(packed: Bytes) -> Bytes:
    """The low halves of all bytes, then the high ones."""
    return np.concatenate([packed & 15, packed >> 4], axis=-1)


def _fifth_bits(packed: Bytes) -> Bytes:
    """The fifth bit of 32 numbers, where it counts."""
    return np.unpackbits(packed, axis=-1, bitorder="little") << np.uint8(4)


def _float32(blocks: Bytes) -> Floats:
    return np.ascontiguousarray(blocks).view("<f4")


def _float16(blocks: Bytes) -> Floats:
    return np.ascontiguousarray(blocks).view("<f2").astype(np.float32)


def _q4_0(blocks: Bytes) -> Floats:
    found = _nibbles(blocks[:, 2:]).astype(np.float32)
    found -= 8
    found *= _scale(blocks, 0)
    return found


def _q4_1(blocks: Bytes) -> Floats:
    found = _nibbles(blocks[:, 4:]).astype(np.float32)
    found *= _scale(blocks, 0)
    found += _scale(blocks, 2)
    return found


def _q5_0(blocks: Bytes) -> Floats:
    found = (_nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6])).astype(np.float32)
    found -= 16
    found *= _scale(blocks, 0)
    return found


def _q8_0(blocks: Bytes) -> Floats:
    found = blocks[:, 2:].view(np.int8).astype(np.float32)
    found *= _scale(blocks, 0)
    return found


def _q4_k(blocks: Bytes) -> Floats:
    scale, least = blocks[:, 4:8], blocks[:, 8:12]
    rest = blocks[:, 12:16]
    scales = np.concatenate([scale & 63, rest & 15 | scale >> 2 & 48], axis=1).astype(np.float32)
    offsets = np.concatenate([least & 63, rest >> 4 | least >> 2 & 48], axis=1).astype(np.float32)
    scales *= _scale(blocks, 0)
    offsets *= _scale(blocks, 2)
    found = _nibbles(blocks[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32).astype(np.float32)
    found *= scales[:, :, None]
    found -= offsets[:, :, None]
    return found.reshape(-1, 256)


def _q6_k(blocks: Bytes) -> Floats:
    low = _nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    high = blocks[:, 128:192].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    found = (low | high << 4).reshape(-1, 16, 16).astype(np.float32)
    found -= 32
    scales = blocks[:, 192:208].view(np.int8).astype(np.float32)
    scales *= _scale(blocks, 208)
    found *= scales[:, :, None]
    return found.reshape(-1, 256)


KINDS: Final = {
    0: Kind("F32", 1, 4, _float32),
    1: Kind("F16", 1, 2, _float16),
    2: Kind("Q4_0", 32, 18, _q4_0),
    3: Kind("Q4_1", 32, 20, _q4_1),
    6: Kind("Q5_0", 32, 22, _q5_0),
    8: Kind("Q8_0", 32, 34, _q8_0),
    12: Kind("Q4_K", 256, 144, _q4_k),
    14: Kind("Q6_K", 256, 210, _q6_k),
}
"""Types by their code. Files of the quantisation Q4_K_M mix Q4_K and Q6_K, and where rows are short Q5_0 and Q8_0."""
