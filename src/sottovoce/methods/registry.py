"""Methods by their published names. A method is one file of this folder; the folder is scanned, no list is edited."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any, Generic, TypeVar, final

from sottovoce.errors import ParameterError
from sottovoce.privacy.parameters import nearest, options_of

T = TypeVar("T")


@final
class Registry(Generic[T]):
    """Classes of one kind.

    Args:
        kind: What they are called in errors, such as ``method``.
    """

    def __init__(self, kind: str) -> None:
        self._kind, self._known = kind, dict[str, type[T]]()

    def enter(self, name: str, cls: type[T]) -> None:
        """Enters a class.

        Raises:
            ParameterError: The name is taken.
        """
        if name in self._known:
            raise ParameterError(self._kind, name, "a name that is not taken")
        self._known[name] = cls

    def all(self) -> dict[str, type[T]]:
        """Every class of this folder, in alphabetical order."""
        package = importlib.import_module("sottovoce.methods")
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")
        return dict(sorted(self._known.items()))

    def make(self, name: str, options: dict[str, Any]) -> T:
        """Builds one by name.

        Raises:
            ParameterError: There is no such class, or it has no such option.
        """
        kind = self._named(name)
        self._require_known(name, kind, options)
        return kind(**options)

    def read(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Options that were typed, as values of their types.

        Raises:
            ParameterError: There is no such class, it has no such option, or a text is not of the option's type.
        """
        kind = self._named(name)
        self._require_known(name, kind, options)
        known = options_of(kind)
        return {option: known[option].read(value) for option, value in options.items()}

    def _named(self, name: str) -> type[T]:
        classes = self.all()
        if name not in classes:
            raise ParameterError("method", name, f"one of {', '.join(classes)}{nearest(name, [*classes])}")
        return classes[name]

    def _require_known(self, name: str, kind: type[T], options: Mapping[str, Any]) -> None:
        known = [*options_of(kind)]
        for option, value in options.items():
            if option in known:
                continue
            others = [other for other, cls in self._known.items() if option in options_of(cls)]
            elsewhere = f", unlike --method {', '.join(sorted(others))}" if others else ""
            has = ", ".join(known) or "none"
            limit = f"absent: the method {name!r} has no such option{elsewhere}; it has {has}{nearest(option, known)}"
            raise ParameterError(option, value, limit)
