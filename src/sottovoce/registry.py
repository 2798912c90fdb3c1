"""Classes by name. A class is one file of a folder; the folder is scanned on first use, no list is edited."""

from __future__ import annotations

import importlib
import pkgutil
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Generic, TypeVar, final

from sottovoce.errors import InputError, ParameterError
from sottovoce.parameters import Kind, nearest

E = TypeVar("E")


@final
class Registry(Generic[E]):
    """Entries of one kind, each entered by its module when that is imported.

    Args:
        kind: What an entry is called in errors, such as ``method``.
        package: Dotted name of the folder. Its modules are imported on first use, those of sub-packages too.
        parameter: Where a user types the name; ``kind`` by default.
        group: Entry points of installed packages, whose modules enter more. They are imported when every entry is
            asked for, or a name that the folder lacks. By default installed packages enter nothing.
    """

    def __init__(self, kind: str, package: str, *, parameter: str | None = None, group: str | None = None) -> None:
        self._kind, self._package = kind, package
        self._parameter, self._group = parameter or kind, group
        self._known = dict[str, E]()
        self._scanned = self._installed = False

    def enter(self, name: str, entry: E) -> None:
        """Enters an entry.

        Raises:
            ParameterError: The name is taken.
        """
        if name in self._known:
            raise ParameterError(self._kind, name, "a name that is not taken")
        self._known[name] = entry

    def all(self) -> dict[str, E]:
        """Every entry, in alphabetical order.

        Raises:
            InputError: The module of an installed package cannot be imported.
        """
        self._scan()
        self._load_installed()
        return dict(sorted(self._known.items()))

    def find(self, name: str) -> E | None:
        """The entry of this name, if there is one. The file that is named like it is looked into before all others."""
        if name not in self._known:
            self._import_namesake(name)
        if name not in self._known:
            self._scan()
        if name not in self._known:
            self._load_installed()
        return self._known.get(name)

    def named(self, name: str) -> E:
        """The entry of this name.

        Raises:
            ParameterError: There is none; the error lists the names that exist.
        """
        entry = self.find(Kind(str, "a name").read(self._parameter, name))
        if entry is None:
            names = [*self.all()]
            raise ParameterError(self._parameter, name, f"one of {', '.join(names)}{nearest(name, names)}")
        return entry

    def _import_namesake(self, name: str) -> None:
        file = name.replace("-", "_")
        if file.isidentifier() and not self._scanned:
            module = f"{importlib.import_module(self._package).__name__}.{file}"
            if find_spec(module):
                importlib.import_module(module)

    def _scan(self) -> None:
        if self._scanned:
            return
        package = importlib.import_module(self._package)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
        self._scanned = True

    def _load_installed(self) -> None:
        if self._group is None or self._installed:
            return
        for point in entry_points(group=self._group):
            try:
                point.load()
            except Exception as error:
                raise InputError(
                    f"The installed {self._kind} {point.name!r} ({point.value}) cannot be loaded; update or remove its "
                    f"package. {type(error).__name__}: {error}"
                ) from error
        self._installed = True
