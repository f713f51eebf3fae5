"""Models from the user's own code, named ``package.module:factory``."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from steepest.errors import InputError, UnknownNameError
from steepest.keyword_options import check_names

GIVEN = ("classes", "channels")
"""What a builder is always offered, and what is therefore no option."""


def call_factory(
    name: str, arguments: Mapping[str, Any], options: Mapping[str, Any] | None = None
) -> nn.Module:
    """Import a factory and call it with those arguments that it has a parameter for.

    Args:
        name: ``package.module:factory``; modules of the current directory are found too.
        arguments: What it may want to know.
        options: What it is told in any case.

    Raises:
        UnknownNameError: If it has no parameter for an option.
        InputError: If it cannot be imported or called, or does not return a module.
    """
    told = dict(options or {})
    with _current_directory_importable():
        factory = _import_factory(name)
        try:
            check_names(f"model {name!r}", factory, told, GIVEN)
            known = inspect.signature(factory).parameters
            offered = {key: arguments[key] for key in arguments if key in known}
            model = factory(**offered, **told)
        except UnknownNameError:
            raise
        except Exception as error:
            raise InputError(f"model {name!r} cannot be built: {_describe(error)}") from error
    if not isinstance(model, nn.Module):
        raise InputError(f"model {name!r} is a {type(model).__name__}, not a torch.nn.Module")
    return model


def _import_factory(name: str) -> Callable[..., object]:
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), attribute]):
        raise InputError(f"model {name!r}: write package.module:factory")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise InputError(f"model {name!r} cannot be imported: {_describe(error)}") from error
    factory: object = getattr(module, attribute, None)
    if not callable(factory):
        raise InputError(f"model {name!r}: {module_name} has no function or class {attribute!r}")
    return factory


@contextmanager
def _current_directory_importable() -> Iterator[None]:
    here = str(Path.cwd())
    sys.path.insert(0, here)
    # A module written since the last import would otherwise be overlooked.
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if here in sys.path:
            sys.path.remove(here)


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
