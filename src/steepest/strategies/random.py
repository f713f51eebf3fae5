"""Random sampling: the baseline that every comparison holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from steepest.core.seeds import keyed_uniform
from steepest.strategies.base import Needs, Scorer, strategy
from steepest.strategies.batch import Batch


@strategy("random")
@dataclass(frozen=True)
class Random(Scorer):
    """Uniform without replacement: score(x) = u(seed, id), u uniform in [0, 1)."""

    needs: ClassVar[Needs] = Needs.NOTHING

    def score(self, batch: Batch) -> Tensor:
        """Return draws [N] keyed by sample id."""
        return torch.from_numpy(keyed_uniform(batch.seed, "random strategy", batch.ids)[:, 0])
