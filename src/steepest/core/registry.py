"""Things found by name: a decorator registers, discovery imports, a duplicate is an error."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Generic, TypeVar

from steepest.errors import UnknownNameError

T = TypeVar("T")


class Registry(Generic[T]):
    """Names mapped to the classes or functions of one package.

    Dropping a file into the package is enough: the package is imported in full the first time
    a name is requested.

    Args:
        kind: The kind of entries, for error messages (``"strategy"``).
        package: The package whose modules register themselves.
        outside: Finds the user's own ``package.module:name``, which is not registered.
    """

    def __init__(self, kind: str, package: str, outside: Callable[[str], T] | None = None) -> None:
        self.kind = kind
        self._package = package
        self._outside = outside
        self._entries: dict[str, T] = {}
        self._discovered = False

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that files its object under ``name``."""

        def file(entry: T) -> T:
            if name in self._entries:
                raise ValueError(f"two entries for {self.kind} {name!r}")
            self._entries[name] = entry
            return entry

        return file

    def names(self) -> list[str]:
        """Return all names in alphabetical order."""
        self._discover()
        return sorted(self._entries)

    def get(self, name: str) -> T:
        """Return the entry of that name.

        Raises:
            UnknownNameError: With the nearest name as the remedy.
        """
        # Also before code of the user's own, which may register a name that is taken.
        self._discover()
        if self._outside is not None and ":" in name:
            return self._outside(name)
        if name not in self._entries:
            raise UnknownNameError(self.kind, name, self._entries)
        return self._entries[name]

    def _discover(self) -> None:
        if self._discovered:
            return
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self._package}.{module.name}")
        self._discovered = True
