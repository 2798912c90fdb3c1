"""Methods by their published names. A method is one file of this folder; the folder is scanned, no list is edited."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any, Generic, TypeVar, final

from sottovoce.errors import ParameterError

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
        classes = self.all()
        if name not in classes:
            raise ParameterError("method", name, f"one of {', '.join(classes)}")
        known = getattr(classes[name], "__dataclass_fields__", {})
        if unknown := [option for option in options if option not in known]:
            raise ParameterError(unknown[0], options[unknown[0]], f"absent: the method {name!r} has no such option")
        return classes[name](**options)
