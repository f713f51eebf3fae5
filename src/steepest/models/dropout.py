"""Dropout placement, for training and for Monte Carlo predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from torch import nn

from steepest.errors import InputError, UnknownNameError
from steepest.models.base import MODELS

Placement = Literal["none", "head", "blocks"]
"""``head`` is before the last layer alone, ``blocks`` is inside every block."""

_USUAL = {"none": None, "head": 0.5, "blocks": 0.3}


class Rates(NamedTuple):
    """Dropout rate at each place; None for no dropout."""

    head: float | None = None
    blocks: float | None = None


NOWHERE = Rates()


def place_dropout(placement: Placement, rate: float | None) -> Rates:
    """Return the rate at each place.

    Args:
        placement: Where to drop.
        rate: How much; by default 0.5 at the head and 0.3 in the blocks.

    Raises:
        UnknownNameError: If there is no such place.
        InputError: If the rate is no probability below 1, or has no place.
    """
    if placement not in _USUAL:
        raise UnknownNameError("dropout", placement, _USUAL)
    if rate is not None and not 0 <= rate < 1:
        raise InputError(f"dropout_rate must be at least 0 and below 1, not {rate}")
    if placement == "none" and rate is not None:
        raise InputError(f"dropout_rate = {rate} needs a place: set dropout as well")
    chosen = _USUAL[placement] if rate is None else rate
    return Rates(**{} if placement == "none" else {placement: chosen})


def make_dropout(rate: float | None) -> nn.Module:
    """Make the layer for one place; neither form has weights, so names stay the same."""
    return nn.Identity() if rate is None else nn.Dropout(rate)


def register_net(name: str, kind: Callable[..., nn.Module], summary: str) -> None:
    """File a net whose only options say where activations are dropped.

    Args:
        name: Name of the model.
        kind: Its class, which takes ``classes``, ``channels`` and ``dropout``.
        summary: The effect of the wrapper, for the list of models.
    """

    def build(
        classes: int,
        channels: int = 3,
        *,
        dropout: Placement = "none",
        dropout_rate: float | None = None,
    ) -> nn.Module:
        return kind(classes, channels, dropout=place_dropout(dropout, dropout_rate))

    build.__doc__ = summary
    MODELS.register(name)(build)
