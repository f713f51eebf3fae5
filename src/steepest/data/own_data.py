"""Data sets from the user's own code, named ``package.module:function``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from steepest.core.keyword_options import convert_options
from steepest.core.own_code import current_directory_importable, import_own
from steepest.data.base import ImageSet
from steepest.errors import InputError, SteepestError, in_one_line

_ROOT = "root"
"""Arguments that a function is offered and that are not options."""


def load_own(name: str, root: Path | None, options: Mapping[str, Any]) -> ImageSet:
    """Import what makes a data set, and call it; or take one that a module holds ready.

    Args:
        name: ``package.module:function``; modules of the current directory are found too. A class
            will do that makes an ``ImageSet``.
        root: The folder of data sets, which it is told if it has a parameter ``root``.
        options: What it is told in any case, as the types that its annotations ask for.

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
            told = convert_options(f"data set {name!r}", function, options, (_ROOT,))
            takes_root = _ROOT in inspect.signature(function).parameters
            return function(**({_ROOT: root} if takes_root else {}), **told)
        except SteepestError:
            raise  # It is told in one line with its remedy, as of every data set.
        except Exception as error:
            raise InputError(f"data set {name!r} cannot be made: {in_one_line(error)}") from error
