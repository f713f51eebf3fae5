"""A backbone of the user's own code."""

from __future__ import annotations

import hashlib
import inspect
import sys
from pathlib import Path

from torch import nn

from steepest.core.own_code import current_directory_importable, import_own
from steepest.errors import InputError, in_one_line
from steepest.models.backbones.base import Backbone

_FORM = "package.module:function"


def load_own(name: str) -> Backbone:
    """Return what a function of the user's own makes: a net, and how samples are prepared for it.

    The function takes no arguments and returns ``(model, prepare)``: ``prepare`` turns an RGB
    image of Pillow into a tensor, and the model turns a batch of those into features [N, D].

    Args:
        name: ``package.module:function``.

    Raises:
        InputError: If it cannot be imported or called, or returns something else.
    """
    made = import_own("backbone", name, _FORM)
    if isinstance(made, Backbone):
        return made
    if not callable(made) or isinstance(made, nn.Module):
        raise InputError(f"backbone {name!r}: {_explain(name, made)}")
    try:
        with current_directory_importable():
            found = made()
    except Exception as error:
        raise InputError(f"backbone {name!r} cannot be made: {in_one_line(error)}") from error
    if isinstance(found, Backbone):
        return found
    if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[0], nn.Module):
        raise InputError(f"backbone {name!r}: {_explain(name, found)}")
    model, prepare = found
    if not callable(prepare):
        raise InputError(f"backbone {name!r}: {_explain(name, found)}")
    described = f"{name} {prepare!r} {_digest_source(name)}"
    return Backbone(name, model.eval(), prepare, described)


def _explain(name: str, found: object) -> str:
    module, _, attribute = name.partition(":")
    if found is None:
        return f"{module} has no function {attribute!r}, or it returns nothing"
    return (
        f"{attribute} gives a {type(found).__name__}: make it a function that returns "
        "(model, prepare), where prepare turns an image of Pillow into the tensor that the model "
        "was trained on"
    )


def _digest_source(name: str) -> str:
    """Return a digest of the file that the function is in: its code decides the features."""
    module = sys.modules.get(name.partition(":")[0])
    try:
        file = None if module is None else inspect.getsourcefile(module)
        return hashlib.blake2b(Path(file or "").read_bytes(), digest_size=8).hexdigest()
    except (OSError, TypeError):
        return ""
