"""A pool's gradient norms in one precision."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from steepest.core.progress import Progress
from steepest.gradnorm import GradientNorms, Norm, Precision

_BATCH = {"cpu": 64, "cuda": 512}


def score_pool(
    model: nn.Module, pool: Tensor, norm: Norm, precision: Precision, progress: Progress
) -> npt.NDArray[np.float64]:
    """Return the norm of each sample's entropy gradient [N].

    Args:
        model: In eval mode, on its device.
        pool: Samples [N, ...], on any device.
        norm: Which norm.
        precision: How products are computed.
        progress: Told of every batch.
    """
    device = next(model.parameters()).device
    norms = GradientNorms(model, "entropy", norm=norm, precision=precision)
    parts = []
    with progress.task(f"scoring in {precision}", len(pool)) as step:
        for batch in torch.split(pool, _BATCH[device.type]):
            parts.append(norms(batch.to(device)).double().cpu())
            step.advance(len(batch))
    scores: npt.NDArray[np.float64] = torch.cat(parts).numpy()
    return scores
