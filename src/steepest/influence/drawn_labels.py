"""Labels drawn from a model's own predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from steepest.seeds import keyed_uniform


def draw_labels(logits: Tensor, rows: Sequence[int], seed: int) -> tuple[Tensor, int]:
    """Draw one label for each position of each sample.

    Args:
        logits: Of distributions [N, C, ...].
        rows: The samples' own numbers [N], by which draws are keyed.
        seed: Seeds the draws.

    Returns:
        Class indices [N, ...], and the number of positions of a sample.
    """
    positions = math.prod(logits.shape[2:])
    uniform = keyed_uniform(seed, "labels of the Fisher information", rows, columns=positions)
    shares = logits.detach().double().softmax(1)
    up_to = shares.reshape(*logits.shape[:2], positions).cumsum(1)
    draws = torch.from_numpy(uniform).to(up_to)
    labels = (up_to <= draws[:, None] * up_to[:, -1:]).sum(1).clamp_max(logits.shape[1] - 1)
    return labels.reshape(len(logits), *logits.shape[2:]), positions
