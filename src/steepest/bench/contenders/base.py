"""Base class of contenders, which prepare once and then run as often as asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from steepest.bench.case import Case
from steepest.core.registry import Registry


@dataclass(frozen=True)
class Step:
    """One contender, ready to run on one batch.

    Attributes:
        run: Does the work once. Returns the norms [samples], or None if it makes none.
        samples: How many samples one run covers.
        note: A note for the reader of the numbers.
        tell: Returns more to know of it, once it has run.
        holds_memory: Whether it keeps its memory between runs, so that its peak is that of
            making it ready.
    """

    run: Callable[[], Tensor | None]
    samples: int
    note: str = ""
    tell: Callable[[], str] | None = None
    holds_memory: bool = False

    def remark(self) -> str:
        """Return notes on the numbers, after a run."""
        return self.note if self.tell is None else self.tell()


Prepare = Callable[[Case], Step]
"""Makes a contender ready.

It raises ``NotImplementedError`` where it cannot measure the model, ``ModuleNotFoundError`` where
a package is missing, and ``MemoryError`` where there is too little room.
"""

CONTENDERS: Registry[Prepare] = Registry("contender", "steepest.bench.contenders")
"""Contenders by name."""

UNIT = "plain"
"""The contender that all others are a multiple of."""

OURS = "ours"

STANDARD = ("forward", UNIT, "loop", "vmap", "opacus", "opacus-ghost", "backpack", OURS)
"""Contenders measured by default, in the order of the table."""

COMPILED = ("plain-compiled", "ours-compiled")
