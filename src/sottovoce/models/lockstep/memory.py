"""Memory of the lockstep engine: how much it may use, and one-row caches that begin with a shared prefix."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

from transformers.cache_utils import DynamicCache, DynamicLayer

from sottovoce.errors import ModelError, ParameterError
from sottovoce.models.failures import is_models, is_shared
from sottovoce.models.lockstep.attention import LayerPair


class StoppedError(ModelError):
    """The model's own code failed."""


@final
class Memory:
    """Counts bytes that are in use, from public numbers.

    Attributes:
        limit: Most bytes.
        used: Bytes in use.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.used = limit, 0

    def require(self, size: int) -> None:
        """Refuses what does not fit.

        Raises:
            ModelError: It says how much is needed, in use and allowed.
        """
        if self.used + size > self.limit:
            used = f", {self.used:,} of them in use" if self.used else ""
            raise ModelError(
                f"Keys and values would need {size:,} bytes, and {self.limit:,} may be used{used}. Take fewer experts "
                "or fewer texts side by side, lower max_private_tokens or tokens, or raise cache_bytes."
            )

    def take(self, size: int) -> int:
        """Counts a size as used, if it fits; returns it."""
        self.require(size)
        self.used += size
        return size

    def give(self, size: int) -> None:
        """Counts a size as free."""
        self.used -= size


def behind(prefix: Sequence[LayerPair]) -> DynamicCache:
    """A cache of one row that begins with the prefix and leaves it as it is."""
    cache = DynamicCache()
    for keys, values in prefix:
        layer = DynamicLayer()
        layer.keys, layer.values = keys[None], values[None]
        layer.dtype, layer.device, layer.is_initialized = keys.dtype, keys.device, True
        cache.layers.append(layer)
    return cache


def pairs_of(cache: Any, start: int) -> list[LayerPair]:
    """Keys and values of a one-row cache from a position on."""
    return [(layer.keys[0, :, start:], layer.values[0, :, start:]) for layer in cache.layers]


@contextmanager
def sealed() -> Iterator[None]:
    """Errors of the numerical libraries can tell sizes of private texts; what leaves here does not."""
    handled = sys.exception()
    try:
        yield
    except (ModelError, ParameterError):
        raise
    except BaseException as error:
        if not is_models(error):
            raise
        if is_shared(error, handled):
            raise ModelError(
                "The device ran out of memory or of threads. Lower cache_bytes, the number of experts or of texts side "
                "by side, or use a smaller model.",
                retryable=True,
            ) from None
        raise StoppedError(f"The model stopped with {type(error).__name__}.") from None
