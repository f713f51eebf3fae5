"""What a strategy is, and how one is found by its name."""

from __future__ import annotations

import dataclasses
import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from torch import Tensor

from steepest.registry import Registry
from steepest.strategies.batch import Batch
from steepest.tables import from_table, to_table

STRATEGIES: Registry[type[Strategy]] = Registry("strategy", "steepest.strategies")


class Needs(enum.Flag):
    """What has to be computed for a strategy; nothing else is."""

    NOTHING = 0
    LOGITS = enum.auto()
    GRADIENTS = enum.auto()


@dataclasses.dataclass(frozen=True)
class Strategy(ABC):
    """A measure of how much a sample is wanted, without its label.

    A subclass is a frozen dataclass in a file of its own; its fields are its options. It says
    what it needs and implements ``score``.

    Attributes:
        name: The name users type; set by the ``strategy`` decorator.
        needs: What ``score`` asks of its batch.
    """

    name: ClassVar[str] = ""
    needs: ClassVar[Needs] = Needs.LOGITS

    @abstractmethod
    def score(self, batch: Batch) -> Tensor:
        """Return one finite score per sample [N]; the highest are labelled first."""

    def options(self) -> dict[str, Any]:
        """Return the options that rebuild this strategy by name."""
        table: dict[str, Any] = to_table(self)
        return table


S = TypeVar("S", bound=type[Strategy])


def strategy(name: str) -> Callable[[S], S]:
    """Register a strategy class under the name users type."""

    def file(cls: S) -> S:
        cls.name = name
        STRATEGIES.register(name)(cls)
        return cls

    return file


def create(name: str, options: Mapping[str, Any] | None = None) -> Strategy:
    """Build a strategy from its name and options.

    Raises:
        UnknownNameError: For an unknown strategy or option; names the nearest.
    """
    return from_table(STRATEGIES.get(name), options or {}, f"strategy {name!r}")


def names() -> list[str]:
    """Return the names of all strategies."""
    return STRATEGIES.names()
