"""What a fit knows the rules of its sums by: a digest of everything that tells two of them apart.

Guarantee   Rules that differ in an attribute, a part of one, what a method of their class does or closes over, or a
            plain attribute of the class have different digests. What is only worked out when it is asked for
            (``cached_property``) does not count. A class is looked at once: what its methods keep in it while they are
            used changes no digest.
Assumes     Two classes of one module and name that do not differ so do the same. What has no attributes and cannot be
            pickled is what its ``repr`` says.
"""

from __future__ import annotations

import hashlib
import inspect
from abc import ABC
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cached_property
from types import CodeType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

_OF_PYTHON: Final = (ABC, object)
_PLAIN: Final = frozenset({int, float, complex, bool, str, bytes, type(None), Fraction, Decimal, range, slice})
"""What is known by its words."""


def digest_of(rule: Any) -> str:
    """SHA-256 of a rule and its class.

    Example:
        >>> digest_of([1.0]) == digest_of([1.0]) != digest_of([2.0])
        True
    """
    return hashlib.sha256(_joined([_written(rule, ()), *_of_class(type(rule))])).hexdigest()


def _written(value: Any, within: tuple[int, ...]) -> bytes:
    """A value and what it holds, each part behind its length."""
    if id(value) in within:
        return b"itself %d" % (len(within) - within.index(id(value)))
    held = (*within, id(value))
    parts = [type(value).__module__.encode(), type(value).__qualname__.encode()]
    if isinstance(value, type | ModuleType):
        parts += [getattr(value, "__module__", "").encode(), getattr(value, "__qualname__", value.__name__).encode()]
    elif isinstance(value, FunctionType):
        parts += [_written(each, held) for each in _closed(value)]
    elif isinstance(value, CodeType):
        parts += [value.co_code, *(_written(each, held) for each in (value.co_consts, value.co_names, value.co_name))]
    elif type(value) in _PLAIN or isinstance(value, Enum | np.generic):
        parts += [repr(value).encode()]
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        parts += [_written(each, held) for each in value]
    elif isinstance(value, Set):
        parts += sorted(_written(each, held) for each in value)
    elif isinstance(value, Mapping):
        parts += sorted(_joined([_written(name, held), _written(each, held)]) for name, each in value.items())
    elif (array := array_of(value)) is not None:
        content = _written(array.tolist(), held) if array.dtype.hasobject else np.ascontiguousarray(array).tobytes()
        parts += [array.dtype.str.encode(), str(array.shape).encode(), content]
        parts += [_written(np.ma.getmaskarray(value), held)] if isinstance(value, np.ma.MaskedArray) else []
        beside = [getattr(value, name, None) for name in ("index", "columns", "name")]  # of a table or a series
        parts += [_written(each, held) for each in beside if each is not None and not callable(each)]
    elif any({"__reduce__", "__reduce_ex__"} & vars(base).keys() for base in type(value).__mro__[:-1]):
        parts += _pickled(value, held)
    elif names := [*_names(value)]:
        parts += [part for name in names for part in (name.encode(), _written(getattr(value, name, None), held))]
    else:
        parts += _pickled(value, held)
    return _joined(parts)


def _pickled(value: Any, within: tuple[int, ...]) -> list[bytes]:
    """What an object without attributes would be pickled as."""
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # of a class of somebody's own
        return [repr(value).encode()]
    if isinstance(reduced, str):
        return [reduced.encode()]
    return [_written([*each] if isinstance(each, Iterator) else each, within) for each in reduced]


def _joined(parts: list[bytes]) -> bytes:
    return b"".join(len(part).to_bytes(8) + part for part in parts)


def array_of(value: Any) -> Any:
    """The numbers of an array, or of what can be one, such as a tensor."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(type(value), "__array__") and not isinstance(value, np.generic):
        with suppress(Exception):
            return np.asarray(value)
        with suppress(Exception):  # a tensor with a gradient, or on a card
            return np.asarray(value.detach().cpu())
        with suppress(Exception):  # of a kind that NumPy has not
            return np.asarray(value.detach().cpu().float())
    return None


def _names(value: Any) -> Iterator[str]:
    """Fields of an object, then other attributes that it has; none that it works out when it is asked for."""
    known = dict.fromkeys(own.name for own in fields(value)) if is_dataclass(value) else {}
    kinds = type(value).__mro__
    slots = [name for kind in kinds for name, kept in vars(kind).items() if isinstance(kept, MemberDescriptorType)]
    slots = slots if any("__slots__" in vars(kind) for kind in kinds) else []
    for name in known | dict.fromkeys([*slots, *getattr(value, "__dict__", {})]):
        if not isinstance(inspect.getattr_static(type(value), name, None), cached_property):
            yield name


_LOOKED_AT: Final[WeakKeyDictionary[type[Any], Sequence[bytes]]] = WeakKeyDictionary()


def _of_class(kind: type[Any]) -> Sequence[bytes]:
    """What the methods of a class do and close over, and its plain attributes: two classes may have one name."""
    if kind not in _LOOKED_AT:
        _LOOKED_AT[kind] = [*_looked_at(kind)]
    return _LOOKED_AT[kind]


def _looked_at(kind: type[Any]) -> Iterator[bytes]:
    for base in kind.__mro__:
        if base in _OF_PYTHON:
            continue
        for name, held in vars(base).items():
            if name.startswith(("__", "_abc_")):
                continue
            function = _function_of(held)
            if isinstance(function, FunctionType):
                yield _joined([name.encode(), *(_written(each, ()) for each in _closed(function))])
            elif type(held) in _PLAIN:
                yield _joined([name.encode(), _written(held, ())])


def _function_of(held: Any) -> Any:
    """A method as it was written."""
    for name in ("fget", "func", "__func__", "__wrapped__"):
        held = getattr(held, name, held)
    return held


def _closed(function: FunctionType) -> Iterator[Any]:
    """What a function does, what it closes over, and its defaults."""
    yield function.__code__
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # it is empty
            yield cell.cell_contents
    yield (function.__defaults__, function.__kwdefaults__)
