"""Finding a backbone by the name that users type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from steepest.errors import UnknownNameError
from steepest.models.backbones.base import Backbone
from steepest.models.backbones.embedded import NAME as EMBEDDED
from steepest.models.backbones.embedded import load_embedded
from steepest.models.backbones.own import load_own

DEFAULT = EMBEDDED
"""Default backbone."""

_PLAIN: Mapping[str, Callable[[], Backbone]] = MappingProxyType({EMBEDDED: load_embedded})


def find_backbone(name: str = DEFAULT) -> Backbone:
    """Return a backbone with its weights and its preprocessing.

    Args:
        name: ``efficientnet-lite0``, or ``package.module:function`` for one of the user's own.

    Raises:
        UnknownNameError: If there is none of that name; says the nearest.
        InputError: If what it needs is not installed, or cannot be used.
    """
    if name in _PLAIN:
        return _PLAIN[name]()
    if ":" in name:
        return load_own(name)
    raise UnknownNameError("backbone", name, [*_PLAIN, "package.module:function"])
