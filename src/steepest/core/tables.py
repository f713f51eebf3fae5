"""Frozen dataclasses from plain tables (TOML, JSON, keyword options), checked field by field."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from steepest.errors import ConfigError, UnknownNameError

T = TypeVar("T")


def from_table(cls: type[T], table: Mapping[str, Any], where: str = "") -> T:
    """Build a dataclass from a table; nested dataclasses come from nested tables.

    Args:
        cls: A dataclass.
        table: Values by field name.
        where: How to name the table in messages, such as ``"[training]"``.

    Raises:
        UnknownNameError: For a key that is no field; names the nearest.
        ConfigError: For a value of the wrong type, or a required key that is missing.
    """
    if not dataclasses.is_dataclass(cls):
        raise TypeError(f"{cls} is no dataclass")
    hints = _hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}
    place = f" in {where}" if where else ""
    for key in table:
        if key not in fields:
            raise UnknownNameError(f"key{place}", str(key), fields)
    for name, field in fields.items():
        missing = dataclasses.MISSING
        if name not in table and field.default is missing and field.default_factory is missing:
            raise ConfigError(f"the key {name!r}{place} is missing")
    values = {
        key: _convert(value, hints[key], f"{where} {key}".strip()) for key, value in table.items()
    }
    made: T = cls(**values)
    return made


@cache
def _hints(cls: type[object]) -> dict[str, Any]:
    """Return the types of a class's fields, cached because resolving them is slow."""
    return get_type_hints(cls)


def check_known_fields(cls: type[object], table: Mapping[str, Any]) -> None:
    """Check the values of a dataclass's fields in a table; other and missing keys are allowed.

    Raises:
        UnknownNameError: As ``from_table`` does, within nested tables as well.
        ConfigError: As ``from_table`` does.
    """
    hints = _hints(cls)  # type: ignore[arg-type]  # mypy takes classes for unhashable
    for key in table:
        if key in hints:
            _convert(table[key], hints[key], key)


def check_choices(made: Any, where: str) -> None:  # noqa: ANN401 - any dataclass
    """Refuse a dataclass that was made in Python with a value that is none of a field's choices.

    Raises:
        UnknownNameError: As raised by ``from_table``.
    """
    try:
        hints = _hints(type(made))  # type: ignore[arg-type]  # mypy takes classes for unhashable
    except NameError:
        return  # Annotations of the user's own that only a type checker can resolve.
    for field in dataclasses.fields(made):
        if get_origin(hints[field.name]) is Literal:
            _convert(getattr(made, field.name), hints[field.name], f"{where} {field.name}")


def to_table(made: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass
    """Turn a dataclass into plain tables and lists, ready for JSON."""
    return {f.name: _plain(getattr(made, f.name)) for f in dataclasses.fields(made)}


def _plain(value: Any) -> Any:  # noqa: ANN401
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_table(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


def _convert(value: Any, hint: Any, where: str) -> Any:  # noqa: ANN401
    origin = get_origin(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _first_that_fits(value, get_args(hint), where)
    if origin is Literal:
        if not isinstance(value, str) or value not in get_args(hint):
            raise UnknownNameError(f"value for {where}", str(value), map(str, get_args(hint)))
        return value
    if origin is not None:
        return _convert_container(value, hint, where)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, Mapping):
            raise _wrong(value, hint, where)
        return from_table(hint, value, f"[{where}]")
    return _convert_scalar(value, hint, where)


@cache
def _plain_types(hint: Any) -> frozenset[type]:  # noqa: ANN401
    """Return the types whose values fit a hint without conversion."""
    kinds = frozenset(get_args(hint) or (hint,)) & {int, float, str, bool}
    return kinds - {int} if float in kinds else kinds


def _convert_container(value: Any, hint: Any, where: str) -> Any:  # noqa: ANN401
    if get_origin(hint) is tuple and isinstance(value, (list, tuple)):
        if set(map(type, value)) <= _plain_types(get_args(hint)[0]):
            return tuple(value)  # Thousands of ids, which need not be looked at one by one.
        return tuple(_convert(v, get_args(hint)[0], where) for v in value)
    if issubclass(get_origin(hint), Mapping) and isinstance(value, Mapping):
        return dict(value)
    raise _wrong(value, hint, where)


def _convert_scalar(value: Any, hint: Any, where: str) -> Any:  # noqa: ANN401
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError as error:
            raise ConfigError(f"{where} is a number of too many digits") from error
    # bool is an int to Python, but not to someone who writes a configuration.
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise _wrong(value, hint, where)
    return value


def _first_that_fits(value: Any, choices: tuple[Any, ...], where: str) -> Any:  # noqa: ANN401
    if value is None and type(None) in choices:
        return None
    # JSON null aside, report against the choices a person can write.
    problem: ConfigError | UnknownNameError | None = None
    for choice in choices:
        if choice is type(None):
            continue
        try:
            return _convert(value, choice, where)
        except (ConfigError, UnknownNameError) as error:
            problem = problem or error
    raise problem or _wrong(value, choices, where)


def _wrong(value: Any, hint: Any, where: str) -> ConfigError:  # noqa: ANN401
    wanted = getattr(hint, "__name__", str(hint)) if get_origin(hint) is None else str(hint)
    return ConfigError(f"{where} = {value!r}: expected {wanted}, not {type(value).__name__}")
