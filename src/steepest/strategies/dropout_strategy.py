"""Options shared by strategies that draw from dropout networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from steepest.errors import InputError
from steepest.strategies.base import Needs, Strategy

Placement = Literal["head", "blocks", "given"]
"""Dropout placement in an experiment's models; ``given`` keeps the model's options."""


@dataclass(frozen=True)
class DropoutStrategy(Strategy):
    """Draws from the model's dropout.

    Attributes:
        draws: Thinned networks T.
        placement: Where the models of an experiment drop activations.
        rate: How likely they do; the usual rate of that place if None.
    """

    needs: ClassVar[Needs] = Needs.DRAWS

    draws: int = 25
    placement: Placement = "head"
    rate: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.draws < 1:
            raise InputError(f"{self.name}: draws must be at least 1, not {self.draws}")
        if self.rate is not None and not 0 <= self.rate < 1:
            raise InputError(f"{self.name}: rate must be at least 0 and below 1, not {self.rate}")
        if self.rate is not None and self.placement == "given":
            raise InputError(
                f"{self.name}: with placement='given' the rate is the model's own: set its "
                "dropout_rate"
            )

    def model_options(self) -> Mapping[str, Any]:
        """Return the dropout that an experiment's models are built with."""
        if self.placement == "given":
            return {}
        # Without a rate of its own, a factory need not know of rates.
        rate = {} if self.rate is None else {"dropout_rate": self.rate}
        return {"dropout": self.placement, **rate}
