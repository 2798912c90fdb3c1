"""What a GGUF file holds: fields, the table of tensors, and their bytes, which stay in the file until they are read.

Sources     The GGUF specification, versions 2 and 3, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from sottovoce.errors import ModelError
from sottovoce.models.gguf.blocks import KINDS, numbers

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)
ALIGNMENT: Final = 32
"""Of tensors, unless a field says otherwise."""
_STRING, _ARRAY, _BOOL = 8, 9, 7
_SCALARS: Final = {
    0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", _BOOL: "?", 10: "<u8", 11: "<i8", 12: "<f8",
}  # fmt: skip
"""Types of numbers by their code."""
_DIMENSIONS: Final = (1, 2)
"""Of a tensor: matrices, and vectors such as norms and biases."""
_LONGEST_NAME: Final = 256
_DEEPEST: Final = 4
"""Lists within lists at most."""


def damaged(file: str, what: str) -> ModelError:
    """The error for a file whose own bytes cannot be right.

    Args:
        file: Its name.
        what: The part of it, such as ``the field llama.block_count``.
    """
    return ModelError(f"The GGUF file {file!r} is damaged: {what} cannot be right. Fetch it again.")


class DamagedError(ValueError):
    """A part of a file cannot be right; the message names the part."""


@final
@dataclass(frozen=True)
class Entry:
    """A line of the table of tensors: shape with the longest stride first, code of its type, place of its bytes."""

    shape: tuple[int, ...]
    kind: int
    start: int

    @property
    def kind_name(self) -> str:
        """Such as ``Q4_K``, or the bare code of a type that is not known here."""
        return KINDS[self.kind].name if self.kind in KINDS else f"number {self.kind}"


@final
class GGUFFile:
    """A file, mapped into memory.

    Args:
        path: The file.

    Attributes:
        path: As given.
        fields: By name: numbers, text, or lists and arrays of them.
        tensors: By name.

    Raises:
        ModelError: It cannot be read, is cut off, or is of another format or version.

    Example:
        >>> GGUFFile(Path(__file__))
        Traceback (most recent call last):
        ...
        sottovoce.errors.ModelError: 'file.py' is not a GGUF file. Name one that ends in .gguf.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as content:
                start = content.read(8)
                if start[:4] == MAGIC:
                    self._bytes = mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            raise ModelError(f"The model file {path.name!r} cannot be read. Check its name.") from None
        if start[:4] != MAGIC:
            raise ModelError(f"{path.name!r} is not a GGUF file. Name one that ends in .gguf.")
        version = int.from_bytes(start[4:8], "little")
        if version not in VERSIONS:
            raise ModelError(f"The GGUF file {path.name!r} has version {version}; versions 2 and 3 are read.")
        try:
            self.fields, self.tensors = _Header(self._bytes).read()
            room = len(self._bytes)
            for entry in self.tensors.values():
                size = KINDS[entry.kind].bytes_of(entry.shape) if entry.kind in KINDS else 0
                room -= size
                if entry.start + size > len(self._bytes) or room < 0:  # tensors that share bytes unpack to any size
                    raise ValueError
        except DamagedError as wrong:
            raise damaged(path.name, str(wrong)) from None
        except (struct.error, ValueError, IndexError, OverflowError, MemoryError):
            raise ModelError(f"The GGUF file {path.name!r} is damaged or cut off. Fetch it again.") from None

    def read(self, name: str) -> np.ndarray[Any, np.dtype[np.float32]]:
        """A tensor's numbers, float32.

        Raises:
            ModelError: It is quantised in a way that is not read here.
        """
        self.require_readable(name)
        entry = self.tensors[name]
        return numbers(self._bytes, entry.start, entry.shape, entry.kind)

    def require_readable(self, name: str) -> None:
        """Refuses a tensor that is quantised in a way that is not read here; errors as for ``read``."""
        entry = self.tensors[name]
        if entry.kind not in KINDS:
            known = ", ".join(kind.name for kind in KINDS.values())
            raise ModelError(
                f"The GGUF file {self.path.name!r} holds numbers of the type {entry.kind_name} ({name}), which is not "
                f"read here. Read are {known}: use a file of the quantisation Q4_0, Q4_1, Q4_K_M, Q8_0, F16 or F32."
            )


class _Header:
    """Reads the fields and the table from the front."""

    def __init__(self, content: mmap.mmap) -> None:
        self._bytes, self._at = content, 8

    def read(self) -> tuple[dict[str, Any], dict[str, Entry]]:
        tensors, fields = self._number("<Q"), self._number("<Q")
        values = {}
        for _ in range(fields):
            name = self._name()
            values[name] = self._value(self._number("<I"))
        table = [self._line() for _ in range(tensors)]
        align = values.get("general.alignment", ALIGNMENT)
        if not isinstance(align, int) or isinstance(align, bool) or align < 1:
            raise DamagedError("the field general.alignment")
        base = -(-self._at // align) * align
        entries = {name: Entry(shape, kind, base + offset) for name, shape, kind, offset in table}
        if len(entries) < len(table):
            raise DamagedError("a tensor that is in its table twice")
        return values, entries

    def _line(self) -> tuple[str, tuple[int, ...], int, int]:
        name, depth = self._name(), self._number("<I")
        if depth not in _DIMENSIONS:
            raise DamagedError(f"the tensor {name!r} with {depth} dimensions")
        shape = tuple(self._number("<Q") for _ in range(depth))[::-1]
        if min(shape) < 1:
            raise DamagedError(f"the tensor {name!r} without a number")
        return name, shape, self._number("<I"), self._number("<Q")

    def _name(self) -> str:
        found = self._text()
        if not found.isprintable() or len(found) > _LONGEST_NAME:
            raise DamagedError("the name of a field or a tensor")
        return found

    def _number(self, form: str) -> int:
        found = struct.unpack_from(form, self._bytes, self._at)[0]
        self._at += struct.calcsize(form)
        return int(found)

    def _text(self) -> str:
        length = self._number("<Q")
        end = self._at + length
        if end > len(self._bytes):
            raise ValueError
        found, self._at = self._bytes[self._at : end].decode("utf-8", "replace"), end
        return found

    def _value(self, kind: int, depth: int = 0) -> Any:
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            if depth == _DEEPEST:
                raise DamagedError("a field with lists within lists")
            inner, length = self._number("<I"), self._number("<Q")
            if inner in (_STRING, _ARRAY):
                return [self._value(inner, depth + 1) for _ in range(length)]
            return self._array(inner, length)
        return self._array(kind, 1)[0].item()

    def _array(self, kind: int, length: int) -> np.ndarray[Any, Any]:
        if kind not in _SCALARS:
            raise ValueError
        found = np.frombuffer(self._bytes, _SCALARS[kind], length, self._at)
        self._at += found.nbytes
        return found
