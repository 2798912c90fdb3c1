"""Keys and values of prefixes: kept under a memory cap, and laid out for a forward pass."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, final

import torch

from sottovoce.records import Opaque


@final
class PrefixStore(Opaque):
    """Keeps what models have read, at most ``limit_bytes`` of it.

    Prefixes are scanned in a cycle, where dropping the least recently used one would drop each just before it is
    needed again. So what one owner has kept stays, and what does not fit beside it is computed anew at each use. A new
    owner pushes out others, the least recently used owner first.

    Attributes:
        used_bytes: Size of the keys and values kept now.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes, self.used_bytes = limit_bytes, 0
        self._owners: OrderedDict[int, dict[int, tuple[Any, int]]] = OrderedDict()

    def touch(self, owner: int) -> None:
        """Marks an owner as the most recently used."""
        self._owners.setdefault(owner, {})
        self._owners.move_to_end(owner)

    def get(self, owner: int, index: int) -> Any:
        """The kept cache, or ``None``."""
        return self._owners.get(owner, {}).get(index, (None, 0))[0]

    def offer(self, owner: int, index: int, cache: Any) -> None:
        """Keeps a cache if it fits."""
        size = size_of(cache)
        self.touch(owner)
        while self.used_bytes + size > self.limit_bytes:
            oldest = next((name for name, kept in self._owners.items() if kept and name != owner), None)
            if oldest is None or size > self.limit_bytes:
                return
            self.drop(oldest)
        self._owners[owner][index] = (cache, size)
        self.used_bytes += size

    def drop(self, owner: int) -> None:
        """Frees everything of one owner."""
        self.used_bytes -= sum(size for _, size in self._owners.pop(owner, {}).values())


def size_of(cache: Any) -> int:
    """Bytes of keys and values."""
    return sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)


def spread(cache: Any, rows: int) -> Any:
    """A cache whose rows are all the given one-row cache; nothing is copied, and the given one is not changed."""
    wide = _twin(cache)
    for layer in wide.layers:
        layer.keys = layer.keys.expand(rows, -1, -1, -1)
        layer.values = layer.values.expand(rows, -1, -1, -1)
    return wide


def stack(caches: Sequence[Any], rows: int, length: int) -> Any:
    """One cache with a different prefix in each row, zeros on the left up to ``length`` and in the rows left over.

    Args:
        caches: One-row caches, at most ``rows``, of prefixes shorter than ``length``.
        rows: Rows of the result, whatever the number of caches.
        length: Tokens of the result.
    """
    tall = _twin(caches[0])
    for place, layer in enumerate(tall.layers):
        window = getattr(layer, "sliding_window", None)
        kept = length if window is None else min(length, window - 1)
        _, heads, _, width = layer.keys.shape
        _, _, _, value_width = layer.values.shape
        keys = layer.keys.new_zeros((rows, heads, kept, width))
        values = layer.values.new_zeros((rows, heads, kept, value_width))
        for row, cache in enumerate(caches):
            source = cache.layers[place]
            have = source.keys.shape[2]
            if have:
                keys[row, :, kept - have :] = source.keys[0]
                values[row, :, kept - have :] = source.values[0]
        layer.keys, layer.values = keys, values
        if window is not None:
            layer.cumulative_length = length
    return tall


def left_mask(lengths: Sequence[int], rows: int, length: int, device: torch.device) -> torch.Tensor:
    """1 for the last ``lengths[i]`` places of row i, 0 before; unused rows keep one place. Shape (rows, length)."""
    filled = torch.tensor([*lengths, *[1] * (rows - len(lengths))], device=device)
    return (torch.arange(length, device=device)[None, :] >= length - filled[:, None]).long()


def _twin(cache: Any) -> Any:
    twin = copy.copy(cache)
    twin.layers = [copy.copy(layer) for layer in cache.layers]
    return twin
