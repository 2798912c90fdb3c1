"""Which exceptions are a model's, and which of its failures experts share.

Guarantee   A failure makes one expert null only where nothing says that others had a part in it. What the machine ran
            out of (memory, threads, files), what may pass by itself and what the system refused is everybody's: it
            fails the whole answer, else the records of one expert would decide who else is heard.
Assumes     Libraries say that they ran out of memory by ``MemoryError``, by a class named ``OutOfMemoryError``, or in a
            ``RuntimeError``, an ``OSError``, an exception of onnxruntime or a panic in one of the words below.
            PyTorch's processor allocator does the last. Pillow's decoders say nothing of it; behind failures of PNG
            and JPEG it is shown that there was memory, and those of other formats are shared.
Sources     specification 8.4 (failures that private content causes).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from traceback import walk_tb
from types import FrameType, TracebackType
from typing import Any, Protocol, cast, final

from sottovoce.errors import ModelError

_PANIC = "PanicException"
"""What libraries written in Rust raise; it is no ``Exception``."""
_CLASSES = ("outofmemory", "acceleratorerror", "timeout", "timelimit")
"""In names of classes: devices that are out of memory or not usable any more, and time that ran out."""
_WORDS = (
    "allocate memory",
    "reallocate memory",
    "out of memory",
    "not enough memory",
    "failed to allocate",
    "out of resources",
    "bad_alloc",
    "bad allocation",
    "alloc_failed",
    "alloc_cpu",
    "cuda error",
    "hip error",
    "cudnn_status",
    "cublas_status",
    "unable to find an engine",
    "could not create a primitive",
    "could not create a memory",
    "could not execute a primitive",
    "start new thread",
    "spawn thread",
    "too many open files",
    "resource temporarily unavailable",
)
_SAYS_SHARED = re.compile("(?<![a-z])(?:" + "|".join(_WORDS) + ")")
"""One of the words, and not the end of a longer one: a membership error is no hip error."""
_ARGS = vars(BaseException)["args"]
_CODE = vars(SystemExit)["code"]
_SCOPE = re.compile(r"Cancelled (?:by|via) cancel scope [0-9a-f]{1,16}(?![0-9a-z])")
"""How AnyIO begins the words of a cancelled task: with the place of the scope in memory."""
_OWN_PICTURES = ("PIL.PngImagePlugin", "PIL.JpegImagePlugin", "PIL.MpoImagePlugin")
"""What reads files whose decoder needs no more memory than the made-up picture; see ``decoder_memory``."""


def is_models(error: BaseException) -> bool:
    """Whether an exception is a failure of what was called, and not an order to stop.

    Whatever is no ``Exception`` is an order, in whatever class (``KeyboardInterrupt``, a cancelled task, a timeout of
    gevent), but for the panics of libraries written in Rust. A group is one where an order is in it.

    Example:
        >>> is_models(ValueError()), is_models(BaseException("stop")), is_models(KeyboardInterrupt())
        (True, False, False)
    """
    return _order_in(error) is None


def bare_order(error: BaseException) -> BaseException | None:
    """The order to stop that an error is or has in it, anew and without words, in its class; ``None`` if there is none.

    Its words and attributes, what it was handling, its notes, the failures beside it in a group and the places that it
    passed, with what they held, could quote a record. ``SystemExit`` keeps a code that is a number; a text is 1. The
    name of the scope that AnyIO cancelled is kept, by which the scope knows its own order. Not to be called while an
    error is handled, which would be attached to what the class itself raises.

    Example:
        >>> bare_order(BaseExceptionGroup("a record", [ValueError("a record"), KeyboardInterrupt("a record")]))
        KeyboardInterrupt()
        >>> bare_order(SystemExit("a record"))
        SystemExit(1)
    """
    order = _order_in(error)
    if order is None:
        return None
    # Through the built-in classes' own slots: a class of somebody else's may refuse what is set, or answer for it.
    words: tuple[Any, ...] = _ARGS.__get__(order)
    bare = _empty(type(order), words)
    keeps: tuple[Any, ...] = _ARGS.__get__(bare)
    if isinstance(order, SystemExit) and isinstance(bare, SystemExit):
        code = _CODE.__get__(order)
        code = code if code is None or type(code) is int else 1
        _CODE.__set__(bare, code)
        keeps = () if code is None else (code,)
    elif len(words) == 1 and type(words[0]) is str and (scope := _SCOPE.match(words[0])):
        keeps = (scope[0],)
    _ARGS.__set__(bare, keeps)
    return bare


class Closable(Protocol):
    """What a model keeps of prompts."""

    def close(self) -> None:
        """Frees it."""


def free(*kept: Closable) -> None:
    """Closes all that a model keeps of prompts. Failures are dropped: memory is all they cost, and they could quote a
    record, or take the place of an answer that is paid for or of an order to stop.

    Raises:
        BaseException: An order to stop, bare, behind the last of them.
    """
    ordered: BaseException | None = None
    for each in kept:
        failed: BaseException | None = None
        try:
            each.close()
        except BaseException as error:
            failed = error
        if failed is not None and ordered is None:
            ordered = bare_order(failed)
        del failed
    if ordered is not None:
        raise ordered


def is_shared(error: BaseException, handled: BaseException | None) -> bool:
    """Whether a failure is one that experts share: what others keep decides how much memory is left, say.

    What led to it counts too, for a wrapped error is the same failure. What somebody further up was handling before the
    work began did not lead to it, though Python attaches it to everything that is raised meanwhile.

    Args:
        error: What was raised.
        handled: What ``sys.exception()`` was before the work began.

    Example:
        >>> is_shared(MemoryError(), None), is_shared(ModelError("busy", retryable=True), None)
        (True, True)
        >>> is_shared(RuntimeError("DefaultCPUAllocator: can't allocate memory"), None), is_shared(ValueError(), None)
        (True, False)
    """
    before = set() if handled is None else {id(cause) for cause in _all_of(handled, set())}
    return any(_says_shared(cause) for cause in _all_of(error, before - {id(error)}))


def is_own(error: BaseException, handled: BaseException | None) -> bool:
    """Whether a failure may make the expert null that was read by itself: it is a model's, and not shared.

    Example:
        >>> is_own(ValueError(), None), is_own(MemoryError(), None), is_own(KeyboardInterrupt(), None)
        (True, False, False)
    """
    return is_models(error) and not is_shared(error, handled)


@final
class OwnFailure:
    """A block in which one expert is read by itself: it ends quietly where that expert's own prompt is what fails.

    Every other failure, and every order to stop, leaves it as it was raised.

    Attributes:
        failed: Whether it ended so.

    Example:
        >>> with OwnFailure() as own:
        ...     raise ValueError("cannot be read")
        >>> own.failed
        True
    """

    def __init__(self) -> None:
        self.failed = False

    def __enter__(self) -> OwnFailure:
        self._handled = sys.exception()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.failed = error is not None and is_own(error, self._handled)
        return self.failed


def _order_in(error: BaseException) -> BaseException | None:
    """The error, or the first one of a group, that is no failure of what was called."""
    if isinstance(error, BaseExceptionGroup):
        return next((order for order in map(_order_in, error.exceptions) if order is not None), None)
    return None if isinstance(error, Exception) or type(error).__name__ == _PANIC else error


def _empty(kind: type[BaseException], words: tuple[Any, ...]) -> BaseException:
    """An exception of a class, or else of the nearest class that it is derived from.

    Made by the class's own code, so that it has the attributes that its library asks for: without arguments, or with
    as many as there were, each empty. A class that takes neither is made without its code: it is caught by its name.
    """
    empty = tuple(type(word)() if type(word) in (str, bytes, int, float) else None for word in words)
    for each in kind.__mro__:
        for arguments in ((), empty):
            with suppress(Exception):
                made = each(*arguments)
                if type(made) is each:
                    _ARGS.__set__(made, arguments)
                    return cast(BaseException, made)
        with suppress(TypeError):  # a class in another language, with memory of its own
            return cast(BaseException, BaseException.__new__(each))
    return BaseException()


def _all_of(error: BaseException, seen: set[int]) -> Iterator[BaseException]:
    """The error and everything that led to it, each once, without what was seen before."""
    waiting: list[BaseException | None] = [error]
    while waiting:
        current = waiting.pop()
        if current is not None and id(current) not in seen:
            seen.add(id(current))
            yield current
            waiting += [current.__cause__, current.__context__]
            waiting += current.exceptions if isinstance(current, BaseExceptionGroup) else ()


def _says_shared(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or _is_of_shared_class(error):
        return True
    if isinstance(error, ModelError):
        return error.retryable
    told = isinstance(error, RuntimeError | OSError) or type(error).__module__.startswith("onnxruntime.")
    if told or not isinstance(error, Exception):
        message = str(error).lower()
        if _SAYS_SHARED.search(message):
            return True
    if isinstance(error, OSError) and error.errno is not None:
        return True
    if not _pictures_of(error).issubset(_OWN_PICTURES) or _is_of_colours(error):
        return True
    if _is_decoders(error):
        from sottovoce.records.decoder_memory import has_room_to_decode

        if has_room_to_decode():
            return False
        error.__cause__ = MemoryError()  # known from now on: who asks again would look at other memory
        return True
    return isinstance(error, OSError)


def _is_of_shared_class(error: BaseException) -> bool:
    names = [kind.__name__.lower() for kind in type(error).__mro__]
    return any(word in name for word in _CLASSES for name in names)


def _is_of_colours(error: BaseException) -> bool:
    """Whether Pillow raised it where it converts colours: what that lacks memory for is a profile in the same words."""
    colours = sys.modules.get("PIL.ImageCms")
    if colours is None:
        return False
    return isinstance(error, colours.PyCMSError) or _place_of(error) == "PIL.ImageCms"


def _is_decoders(error: BaseException) -> bool:
    """Whether Pillow raised it where it decodes: damaged bytes, or so it says.

    That no format knows a file is told by the class too: an error of a worker process comes without its places.
    """
    pillow = sys.modules.get("PIL")
    if pillow is not None and isinstance(error, pillow.UnidentifiedImageError):
        return True
    place = _place_of(error)
    return place in {"PIL.Image", "PIL.ImageFile"} or (place.startswith("PIL.") and place.endswith("ImagePlugin"))


def _pictures_of(error: BaseException) -> set[str]:
    """The modules of the formats whose files were being read where it was raised; empty without Pillow."""
    pillow = sys.modules.get("PIL.ImageFile")
    if pillow is None:
        return set()
    readers = [frame.f_locals.get("self") for frame in _frames_of(error)]
    return {type(reader).__module__ for reader in readers if isinstance(reader, pillow.ImageFile)}


def _place_of(error: BaseException) -> str:
    """The module that raised an error; empty where it comes without its places."""
    frames = _frames_of(error)
    return str(frames[-1].f_globals.get("__name__")) if frames else ""


def _frames_of(error: BaseException) -> list[FrameType]:
    """The places that an error passed, where it was raised last."""
    return [frame for frame, _ in walk_tb(error.__traceback__)]
