"""Which exceptions are a model's, and which of its failures experts share.

Guarantee   A failure makes one expert null only where nothing says that others had a part in it. What the machine ran
            out of (memory, threads, files), what may pass by itself and what the system refused is everybody's: it
            fails the whole answer, else the records of one expert would decide who else is heard.
Assumes     Libraries say that they ran out of memory by ``MemoryError``, by a class named ``OutOfMemoryError``, or in a
            ``RuntimeError`` or a panic in one of the words below. PyTorch's processor allocator does the last.
Sources     specification 8.4 (failures that private content causes).
"""

from __future__ import annotations

from collections.abc import Iterator

from sottovoce.errors import ModelError

_STOPS = (KeyboardInterrupt, SystemExit, GeneratorExit)
_CLASSES = frozenset({"OutOfMemoryError", "AcceleratorError"})
"""Errors of devices: out of memory, or not usable any more."""
_WORDS = (
    "allocate memory",
    "out of memory",
    "not enough memory",
    "bad_alloc",
    "bad allocation",
    "alloc_failed",
    "alloc_cpu",
    "cuda error",
    "start new thread",
    "spawn thread",
    "resource temporarily unavailable",
)


def is_models(error: BaseException) -> bool:
    """Whether an exception is a failure of what was called, and not an order to stop.

    Tokenizers written in Rust panic with exceptions that are no ``Exception``.

    Example:
        >>> is_models(ValueError()), is_models(BaseException("a panic")), is_models(KeyboardInterrupt())
        (True, True, False)
    """
    return not isinstance(error, _STOPS)


def is_shared(error: BaseException, *, decoding: bool = False) -> bool:
    """Whether a failure is one that experts share: what others keep decides how much memory is left, say.

    What led to it counts too, for a wrapped error is the same failure.

    Args:
        error: What was raised.
        decoding: The work was decoding bytes that are in memory: an ``OSError`` without a number is then the decoder's
            word for damaged bytes.

    Example:
        >>> is_shared(MemoryError()), is_shared(ModelError("busy", retryable=True)), is_shared(ValueError())
        (True, True, False)
        >>> is_shared(RuntimeError("DefaultCPUAllocator: can't allocate memory")), is_shared(OSError("no route"))
        (True, True)
    """
    return any(_says_shared(one, decoding) for one in _all_of(error))


def is_own(error: BaseException, *, decoding: bool = False) -> bool:
    """Whether a failure may make the expert null that was read by itself: it is a model's, and not shared.

    Example:
        >>> is_own(ValueError()), is_own(MemoryError()), is_own(KeyboardInterrupt())
        (True, False, False)
    """
    return is_models(error) and not is_shared(error, decoding=decoding)


def _all_of(error: BaseException) -> Iterator[BaseException]:
    """The error and everything that led to it, each once."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [one.__cause__, one.__context__]
            waiting += one.exceptions if isinstance(one, BaseExceptionGroup) else ()


def _says_shared(error: BaseException, decoding: bool) -> bool:
    if isinstance(error, MemoryError) or type(error).__name__ in _CLASSES:
        return True
    if isinstance(error, ModelError):
        return error.retryable
    if isinstance(error, OSError):
        return not decoding or error.errno is not None
    if isinstance(error, RuntimeError) or not isinstance(error, Exception):
        said = str(error).lower()
        return any(word in said for word in _WORDS)
    return False
