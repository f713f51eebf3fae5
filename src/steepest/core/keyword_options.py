"""Options that a function takes by keyword, checked against its annotations before it is called.

Models and data sets are built by functions, whose keyword arguments are their options.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, get_type_hints

from steepest.core.tables import from_table
from steepest.errors import UnknownNameError

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def list_options(
    function: Callable[..., object], given: Collection[str]
) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function that are options, by name.

    Args:
        function: The function.
        given: Parameters that are always given, and are therefore no options.
    """
    found = inspect.signature(function).parameters
    return {
        name: parameter
        for name, parameter in found.items()
        if parameter.kind in _NAMED and name not in given
    }


def check_names(
    what: str,
    function: Callable[..., object],
    options: Mapping[str, Any],
    given: Collection[str],
) -> None:
    """Raise if a function has no parameter for an option.

    Args:
        what: What it makes, such as ``"model 'vgg16'"``.
        function: The function.
        options: Values by name.
        given: Parameters that are no options.

    Raises:
        UnknownNameError: Says the nearest.
    """
    known = list_options(function, given)
    parameters = inspect.signature(function).parameters.values()
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    for option in options:
        if option not in known and (option in given or not takes_all):
            raise UnknownNameError(f"option of {what}", str(option), known)


def convert_options(
    what: str,
    function: Callable[..., object],
    options: Mapping[str, Any],
    given: Collection[str],
) -> dict[str, Any]:
    """Return the options as the types that the function's annotations ask for.

    Args:
        what: What it makes, such as ``"model 'vgg16'"``.
        function: The function.
        options: Plain values by name, as read from TOML.
        given: Parameters that are no options.

    Raises:
        UnknownNameError: If there is no option, or no choice for one, of that name.
        ConfigError: If a value has the wrong type, or one without a default is missing.
    """
    check_names(what, function, options, given)
    hints, known = _hints(function), list_options(function, given)
    fields: list[Any] = []
    for option, parameter in known.items():
        default = dataclasses.MISSING if parameter.default is parameter.empty else parameter.default
        field = dataclasses.field(default=default, kw_only=True)
        fields.append((option, hints.get(option, Any), field))
    table = {option: value for option, value in options.items() if option in known}
    form: type[Any] = dataclasses.make_dataclass("Options", fields)
    checked: Any = from_table(form, table, what)
    return {**options, **{option: getattr(checked, option) for option in table}}


def _hints(function: Callable[..., object]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except (NameError, TypeError):
        return {}  # Annotations of the user's own that only a type checker can resolve.
