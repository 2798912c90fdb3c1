"""What two results hold, to be compared.

Guarantee   Values that differ in a number, a text or another part of what they hold have different fingerprints,
            whatever their words say. Of an object all attributes count, but for those that it works out of the others,
            and without attributes what it would be pickled as.
Assumes     The order of a mapping says nothing. A function is the same in two worlds, but for what it closes over.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence, Set, ValuesView
from contextlib import suppress
from copyreg import dispatch_table
from dataclasses import is_dataclass
from enum import Enum
from fractions import Fraction
from functools import cache, cached_property, partial
from inspect import isfunction
from pathlib import PurePath
from types import MemberDescriptorType, ModuleType
from typing import Any, Final, final
from weakref import ReferenceType

import numpy as np

from sottovoce.experts.rule_digests import array_of
from sottovoce.records.sealed import Opaque
from sottovoce.testing.report import ContractError

PLAIN: Final = frozenset({int, float, complex, bool, str, bytes, bytearray, type(None), Fraction})
"""What is known by its words."""
BARE: Final = frozenset({list, tuple, dict, set, frozenset, np.ndarray})
"""What has parts and no attributes."""


def fingerprint(value: Any, within: tuple[int, ...] = ()) -> Any:
    """Something that is equal for values that hold the same, whatever their words say; arrays and rules among them.

    Args:
        value: To be compared.
        within: Identities of the objects that it is a part of.

    Raises:
        ContractError: When it is compared: a part of it is not the other's, and nothing that this part holds is seen.
    """
    if type(value) in PLAIN or isinstance(value, Enum | PurePath | type | ModuleType):
        return repr(value)
    if isinstance(value, _Unseen):
        return value
    if id(value) in within:
        return "itself", len(within) - within.index(id(value))
    part = partial(fingerprint, within=(*within, id(value)))
    held = () if type(value) in BARE else tuple((name, part(content)) for name, content in attributes_of(value))
    if isinstance(value, np.ndarray):
        array = np.asarray(value)
        content = part(array.tolist()) if array.dtype.hasobject else array.tobytes()
        return array.shape, array.dtype.str, content, held
    if isinstance(value, Mapping):
        return tuple(sorted(((str(key), part(key), part(value[key])) for key in value), key=repr)), held
    if isinstance(value, Set):
        return tuple(sorted(map(part, value), key=repr)), held
    if isinstance(value, Sequence | ValuesView) and not isinstance(value, str | bytes | bytearray):
        return tuple(map(part, value)), held
    if isfunction(value):
        closed = [cell.cell_contents for cell in value.__closure__ or ()]
        return value.__qualname__, part((closed, value.__defaults__, value.__kwdefaults__)), held
    name = type(value).__name__
    if is_dataclass(value):
        return name, held
    has_words = not isinstance(value, Opaque) and getattr(type(value), "__repr__", None) != object.__repr__
    return name, held, repr(value) if held and has_words else "", part(_rebuilt(value, bool(held)))


def are_equal(one: Any, other: Any) -> bool:
    """Whether two objects say that they are equal, or hold the same, as where arrays are inside."""
    with suppress(Exception):  # of an object of somebody's own
        if one == other:
            return True
    with suppress(ContractError):
        return type(one) is type(other) and bool(fingerprint(one) == fingerprint(other))
    return False


def alike(one: Any, other: Any) -> bool:
    """Whether two objects are equal, also in attributes that their own comparison leaves out."""
    return are_equal(one, other) and are_equal(dict(attributes_of(one)), dict(attributes_of(other)))


def copied(entry: Any) -> Any:
    """An entry with parts of its own, as far as it can be copied: a lock cannot."""
    try:
        return copy.deepcopy(entry)
    except Exception:
        return copy.copy(entry)


def attributes_of(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object, by name; without those that are worked out of the others when they are asked for."""
    slots, cached = _attributes(value.__class__)
    for name, content in getattr(value, "__dict__", {}).items():
        if name not in cached:
            yield name, content
    for name in slots:
        yield name, getattr(value, name, None)


@cache
def _attributes(cls: type) -> tuple[Sequence[str], frozenset[str]]:
    """Names of the slots of a class, and of what it keeps once it was asked for."""
    kinds = [(name, kind, base) for base in cls.__mro__ for name, kind in vars(base).items()]
    slots = [name for name, kind, base in kinds if isinstance(kind, MemberDescriptorType) and "__slots__" in vars(base)]
    return slots, frozenset(name for name, kind, _ in kinds if isinstance(kind, cached_property))


def _rebuilt(value: Any, is_seen: bool) -> Any:
    """What an object would be pickled as, without its attributes where these are seen; the numbers of an array."""
    if isinstance(value, ReferenceType):
        return value()
    try:
        if (array := array_of(value)) is not None:
            return array
        own: Callable[[Any], Any] | None = dispatch_table.get(type(value))
        reduced = own(value) if own else value.__reduce_ex__(4)
    except Exception as error:
        return None if is_seen else _Unseen(value, str(error))
    if isinstance(reduced, str):
        return reduced
    made, given, *state = reduced
    return made, given, [[*part] if isinstance(part, Iterator) else part for part in state[is_seen:]]


@final
class _Unseen:
    """An object without attributes that cannot be pickled: it is known to be equal to itself alone."""

    def __init__(self, value: Any, problem: str) -> None:
        self._value, self._problem = value, problem

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Unseen) or other._value is self._value:
            return isinstance(other, _Unseen)
        problem = (
            f"nothing that it holds can be compared ({self._problem}): let it be numbers, texts, lists or attributes"
        )
        raise ContractError("drive", f"a result of the type {type(self._value).__name__}", problem)

    def __hash__(self) -> int:
        return id(self._value)

    def __repr__(self) -> str:
        return "unseen"
