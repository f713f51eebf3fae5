"""Scores of a pool, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from steepest.scoring.regime import Regime
from steepest.seeds import SampleId


@dataclass(frozen=True, eq=False)
class Scores:
    """One finite score per sample; higher = label first.

    Attributes:
        ids: Ids [N].
        values: Scores [N].
        strategy: Name of the strategy.
        options: Its options.
        seed: Seeds every draw.
        model: Fingerprint of the model.
        regime: The diagnosis, or None for strategies that do not look at the model.
    """

    ids: Sequence[SampleId]
    values: npt.NDArray[np.float64]
    strategy: str
    options: Mapping[str, Any]
    seed: int
    model: str
    regime: Regime | None

    def __len__(self) -> int:
        return len(self.ids)
