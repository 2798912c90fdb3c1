"""Keys and values of prefixes: kept under a memory cap, and laid out for a forward pass."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, final

import torch
from transformers.cache_utils import DynamicLayer

from sottovoce.records.sealed import Opaque


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


@final
class QuestionRows:
    """One prefix laid out for batch after batch of questions: copied into the rows once, each batch written behind it.

    Args:
        cache: A one-row cache; it is not changed.
        rows: Most rows of a batch.
        room: Most tokens that a batch writes behind the prefix.
    """

    def __init__(self, cache: Any, rows: int, room: int) -> None:
        self._cache = cache
        plain = all(type(layer) is DynamicLayer for layer in cache.layers)
        self._layers = [_Behind(layer, rows, room) for layer in cache.layers] if plain else None

    def fresh(self, rows: int) -> Any:
        """The cache as the prefix left it, for one batch of so many rows; it ends the one handed out before."""
        if self._layers is None:
            return spread(self._cache, rows)
        wide = copy.copy(self._cache)
        wide.layers = [layer.rewound(rows) for layer in self._layers]
        return wide


class _Behind(DynamicLayer):  # type: ignore[misc]
    """A cache layer with room behind its prefix, so that a step writes its own tokens and copies nothing else."""

    def __init__(self, source: Any, rows: int, room: int) -> None:
        super().__init__()
        self.dtype, self.device, self.is_initialized = source.keys.dtype, source.keys.device, True
        self._length, self._rows = source.keys.shape[-2], rows
        self._all_keys, self._all_values = (_with_room(kept, rows, room) for kept in (source.keys, source.values))
        self.rewound(rows)

    def rewound(self, rows: int) -> _Behind:
        """This layer with nothing behind the prefix, its first rows alone."""
        self._rows = rows
        self._show(self._length)
        return self

    def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Writes keys and values behind what is there, and returns all of them."""
        have = self.keys.shape[-2]
        end = have + key_states.shape[-2]
        self._all_keys[: self._rows, :, have:end] = key_states
        self._all_values[: self._rows, :, have:end] = value_states
        self._show(end)
        return self.keys, self.values

    def _show(self, length: int) -> None:
        self.keys = self._all_keys[: self._rows, :, :length]
        self.values = self._all_values[: self._rows, :, :length]


def _with_room(kept: torch.Tensor, rows: int, room: int) -> torch.Tensor:
    _, heads, length, width = kept.shape
    wide = kept.new_zeros((rows, heads, length + room, width))
    wide[:, :, :length] = kept
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
