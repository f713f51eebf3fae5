"""Loading data sets by name, also those from the user's own code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from steepest.core.keyword_options import convert_options
from steepest.core.own_code import current_directory_importable, import_own
from steepest.data.alterations import limited
from steepest.data.base import DATASETS, ImageSet, data_root
from steepest.errors import InputError, SteepestError, in_one_line

_ROOT = "root"
"""Arguments that a function is offered and that are not options."""


def load(
    name: str,
    root: Path | None = None,
    options: Mapping[str, Any] | None = None,
    limit: int | None = None,
) -> ImageSet:
    """Load a data set by name.

    Args:
        name: One of ``names()``, or ``package.module:function`` for one of the user's own.
        root: The folder of data sets; ``STEEPEST_DATA`` if not given.
        options: The data set's own options.
        limit: Keep so many training and test samples at most, drawn at random, always the same.

    Raises:
        UnknownNameError: If there is no data set, or option of it, of that name.
        InputError: If an option's value cannot be used, or one is missing.
        DataError: If its files are missing or damaged.
    """
    folder = data_root() if root is None else root
    if ":" in name:
        data = load_own(name, folder, options or {})
    else:
        chosen = check_options(name, options or {})
        data = DATASETS.get(name)(folder, **chosen)
    if limit is None:
        return data
    return limited(data, limit)


def check_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as a data set takes them, without loading it.

    Those of the user's own function are its own business until it is called.

    Raises:
        UnknownNameError: If there is no data set, or option of it, of that name.
        ConfigError: If a value has the wrong type, or one that it needs is missing.
    """
    if ":" in name:
        return dict(options)
    reader = DATASETS.get(name)
    root = next(iter(inspect.signature(reader).parameters), "root")
    return convert_options(f"data set {name!r}", reader, options, (root,))


def names() -> list[str]:
    """Return the names of all data sets."""
    return DATASETS.names()


def load_own(name: str, root: Path | None, options: Mapping[str, Any]) -> ImageSet:
    """Import a factory of a data set and call it, or import a data set.

    Args:
        name: ``package.module:function``; modules of the current directory are found too. A class
            will do that makes an ``ImageSet``.
        root: The folder of data sets, passed on if the function has a parameter ``root``.
        options: Keyword arguments, converted to the types of its annotations.

    Raises:
        UnknownNameError: If it has no parameter for an option.
        InputError: If it cannot be imported or called, or makes something else.
    """
    found = import_own("data set", name, "package.module:function")
    if isinstance(found, ImageSet):
        if options:
            raise InputError(f"data set {name!r} is made already: it takes no options")
        return found
    if not callable(found):
        module, _, attribute = name.partition(":")
        raise InputError(f"data set {name!r}: {module} has no function or class {attribute!r}")
    made = _call(found, name, root, options)
    if not isinstance(made, ImageSet):
        raise InputError(
            f"data set {name!r} returns a {type(made).__name__}, not a steepest.data.ImageSet: "
            "make one by from_arrays, from_torch or ImageSet itself"
        )
    return made


def _call(
    function: Callable[..., object], name: str, root: Path | None, options: Mapping[str, Any]
) -> object:
    with current_directory_importable():
        try:
            text = convert_options(f"data set {name!r}", function, options, (_ROOT,))
            takes_root = _ROOT in inspect.signature(function).parameters
            return function(**({_ROOT: root} if takes_root else {}), **text)
        except SteepestError:
            raise  # It states its remedy in one line already.
        except Exception as error:
            raise InputError(f"data set {name!r} cannot be made: {in_one_line(error)}") from error
