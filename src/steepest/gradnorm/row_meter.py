"""Turn gradients into squared norms where the samples may be in any order."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from steepest.gradnorm.components import Squares
from steepest.gradnorm.meter import Meter
from steepest.gradnorm.owners import weights_to_send
from steepest.gradnorm.scaling import rescaled, scales_of
from steepest.gradnorm.shares import Share
from steepest.gradnorm.sources import Source
from steepest.gradnorm.uses import Use


class RowMeter(Meter):
    """Sends weighted losses first, which tell whose each row of a gradient is.

    It speaks for the batch at hand alone: nothing has to be known of the model.
    """

    _weighted: dict[Use, list[Tensor]]

    def _sent(
        self,
        value: Tensor,
        outputs: Any,  # noqa: ANN401
        *,
        keep: bool,
    ) -> tuple[Squares, set[nn.Parameter]]:
        scales = scales_of(value, outputs)
        scaled = value * scales.to(value.dtype)
        self._weighted = {use: [] for use in self._watch.uses}
        leaves = self._watch.leaves()
        for weights in weights_to_send(len(value)) if leaves else ():
            loss = (scaled * weights.to(scaled)).sum()
            self.phase = "rows"
            torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
            self.phase = "ignore"
            for use, found in self._weighted.items():
                found.extend(use.gradients.values())
                use.gradients = {}
        squares, missed = self.measure(scaled.sum(), keep=keep)
        return rescaled(squares, scales), missed

    def _shares(self, use: Use) -> list[tuple[Source, Share]]:
        return use.shares_by_row(self._weighted.pop(use), fused=self._fused())
