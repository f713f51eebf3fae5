"""Labels drawn from a model's own predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from steepest.core.seeds import keyed_uniform


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


def only_where_known(
    labels: Tensor, targets: Tensor | None, ignored: int | None
) -> tuple[Tensor, Tensor]:
    """Leave out the positions that training leaves out.

    Args:
        labels: Drawn class indices [N, ...].
        targets: What the samples are labelled with [N, ...]; None if that is not known.
        ignored: What a target says where no class is known; None if every position has one.

    Returns:
        Class indices with ``ignored`` where the targets have it [N, ...], and the number of
        positions of each sample that count [N].
    """
    if targets is None or ignored is None:
        positions = math.prod(labels.shape[1:])
        return labels, torch.full((len(labels),), positions, device=labels.device)
    known = targets != ignored
    return labels.masked_fill(~known, ignored), known.flatten(1).sum(1)
