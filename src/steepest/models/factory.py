"""Models from the user's own code, named ``package.module:factory``."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from steepest.core.keyword_options import check_names
from steepest.core.own_code import current_directory_importable, import_own
from steepest.errors import InputError, UnknownNameError, in_one_line

GIVEN = ("classes", "channels")
"""Arguments that every builder is offered and that are not options."""


def call_factory(
    name: str, arguments: Mapping[str, Any], options: Mapping[str, Any] | None = None
) -> nn.Module:
    """Import a factory and call it with those arguments that it has a parameter for.

    Args:
        name: ``package.module:factory``; modules of the current directory are found too.
        arguments: What it may want to know.
        options: Its keyword arguments.

    Raises:
        UnknownNameError: If it has no parameter for an option.
        InputError: If it cannot be imported or called, or does not return a module.
    """
    given = dict(options or {})
    factory = _import_factory(name)
    with current_directory_importable():
        try:
            check_names(f"model {name!r}", factory, given, GIVEN)
            known = inspect.signature(factory).parameters
            offered = {key: arguments[key] for key in arguments if key in known}
            model = factory(**offered, **given)
        except UnknownNameError:
            raise
        except Exception as error:
            raise InputError(
                f"model {name!r} cannot be built: {in_one_line(error)}{_missing(error)}"
            ) from error
    if not isinstance(model, nn.Module):
        raise InputError(f"model {name!r} is a {type(model).__name__}, not a torch.nn.Module")
    return model


def check_factory(name: str, options: Mapping[str, Any]) -> None:
    """Import a factory without calling it, and refuse options that it has no parameter for.

    Args:
        name: ``package.module:factory``.
        options: Its keyword arguments.

    Raises:
        UnknownNameError: If it has no parameter for an option.
        InputError: If it cannot be imported, or is none.
    """
    check_names(f"model {name!r}", _import_factory(name), options, GIVEN)


def find_made(name: str) -> nn.Module | None:
    """Return a copy of a model that a module of the user's own holds ready.

    Args:
        name: ``package.module:name``.

    Returns:
        None if that is the name of a factory.

    Raises:
        InputError: If it cannot be imported or copied.
    """
    found = _import(name)
    if not isinstance(found, nn.Module):
        return None
    try:
        # Weights of a committee's members are loaded into one each.
        return copy.deepcopy(found)
    except Exception as error:
        raise InputError(f"model {name!r} cannot be copied: {in_one_line(error)}") from error


def _missing(error: Exception) -> str:
    """Return the remedy for a missing option of a builder."""
    if not isinstance(error, TypeError) or "missing" not in str(error):
        return ""
    return (
        ": give --num-classes, and others by --model-option NAME=VALUE, by --set "
        "model.options.NAME=VALUE, or options= in Python"
    )


def _import_factory(name: str) -> Callable[..., object]:
    factory = _import(name)
    if isinstance(factory, nn.Module):
        raise InputError(
            f"model {name!r} is a model that is made already: name a function that makes a new one "
            "at each call"
        )
    if not callable(factory):
        module, _, attribute = name.partition(":")
        raise InputError(f"model {name!r}: {module} has no function or class {attribute!r}")
    return factory


def _import(name: str) -> object:
    # What a module draws when it is imported must not change what its factory draws after it.
    with torch.random.fork_rng(devices=[]):
        return import_own("model", name, "package.module:factory")
