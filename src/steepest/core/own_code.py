"""Things from the user's own code, named ``package.module:name``."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from abc import ABC
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from steepest.errors import InputError, SteepestError, in_one_line

T = TypeVar("T", bound=ABC)


def import_own(kind: str, name: str, form: str) -> object:
    """Import a name; modules of the current directory are found too.

    Args:
        kind: The expected kind, for error messages (``"strategy"``).
        name: ``package.module:name``.
        form: The expected form (``"package.module:Class"``).

    Returns:
        The module's attribute of that name; None if it has none.

    Raises:
        InputError: If the name is not of that form, or the module cannot be imported.
    """
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), attribute]):
        raise InputError(f"{kind} {name!r}: write {form}")
    with current_directory_importable():
        try:
            module = importlib.import_module(module_name)
        except Exception as error:
            raise InputError(
                f"{kind} {name!r} cannot be imported: {in_one_line(error)}"
                f"{_remedy(error, module_name, form)}"
            ) from error
    _FOLDERS[str(Path.cwd())] = None
    return getattr(module, attribute, None)


def _remedy(error: Exception, module: str, form: str) -> str:
    """Return the remedy for a module that could not be imported, if it is known."""
    if module.endswith(".py"):
        return f": write {form}, without .py"
    first = module.partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and error.name == first:
        return f": run the command in the folder that {first} is in, or install it"
    return ""


def import_own_class(kind: str, name: str, base: type[T], said: str) -> type[T]:
    """Import a class that derives from one of ours and can be made.

    Args:
        kind: The expected kind, for error messages.
        name: ``package.module:Class``.
        base: Its required base class.
        said: Its name (``"steepest.tasks.Task"``).

    Raises:
        InputError: If there is no such class, or it is incomplete.
    """
    found = import_own(kind, name, "package.module:Class")
    if found is None:
        module, _, attribute = name.partition(":")
        raise InputError(f"{kind} {name!r}: {module} has no class {attribute!r}")
    if not isinstance(found, type) or not issubclass(found, base):
        raise InputError(f"{kind} {name!r} is no class that derives from {said}: make it one")
    if inspect.isabstract(found):
        lacking = " and ".join(sorted(found.__abstractmethods__))
        raise InputError(f"{kind} {name!r} has no {lacking}: implement it")
    return found


@contextmanager
def own_failures_told(kind: str, name: str) -> Iterator[None]:
    """Tell an error in the user's own code in one line, with its place in their file.

    Args:
        kind: A description for error messages.
        name: ``package.module:name``; what goes by a plain name is ours, and keeps its traceback.

    Raises:
        InputError: In place of an error that came out of that module and is none of ours.
    """
    try:
        yield
    except SteepestError:
        raise
    except Exception as error:
        module = sys.modules.get(name.partition(":")[0]) if ":" in name else None
        file = getattr(module, "__file__", None)
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
        if file is None or not lines:
            raise
        place = f"{Path(file).name}, line {lines[-1]}"
        raise InputError(f"{kind} {name!r} failed: {in_one_line(error)} ({place})") from error


_FOLDERS: dict[str, None] = {}
"""Current directories that things were imported in, in their order."""


@contextmanager
def own_code_importable() -> Iterator[None]:
    """Let processes started meanwhile find modules imported by ``import_own``."""
    before = list(sys.path)
    sys.path[:0] = _FOLDERS
    try:
        yield
    finally:
        sys.path[:] = before


@contextmanager
def current_directory_importable() -> Iterator[None]:
    """Let modules of the current directory be found, as they are by a script in it."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    # A module written since the last import would otherwise be overlooked.
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if here in sys.path:
            sys.path.remove(here)
