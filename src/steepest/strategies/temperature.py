"""Temperature scaling of predictions, fitted by cross-validation on the labels."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from steepest.core.seeds import generator

_FOLDS = 5
_STEPS = 30
_LOWEST, _HIGHEST = 0.05, 20.0
_GRID = 121


def held_out_logits(features: Tensor, targets: Tensor, classes: int, seed: int) -> Tensor:
    """Return logits of a linear head for labelled samples that it was not fitted to [N, C].

    The head is fitted to the other folds, with an L2 penalty as for features of unit variance.

    Args:
        features: [N, D].
        targets: Classes [N].
        classes: C.
        seed: Decides the folds.
    """
    rows = _compress(features.double())
    folds = torch.randperm(len(rows), generator=generator(seed, "folds")) % min(_FOLDS, len(rows))
    found = rows.new_zeros(len(rows), classes)
    for fold in range(int(folds.max()) + 1):
        left_out = folds == fold
        weights = fit_head(rows[~left_out], targets[~left_out], classes)
        found[left_out] = _with_one(rows[left_out]) @ weights
    return found


def fit_head(rows: Tensor, targets: Tensor, classes: int) -> Tensor:
    """Fit a linear head by L-BFGS; returns weights [D + 1, C], the last row being the bias.

    Args:
        rows: [N, D] in float64.
        targets: Classes [N].
        classes: C.
    """
    inputs = _with_one(rows)
    weights = inputs.new_zeros(inputs.shape[1], classes).requires_grad_()
    search = torch.optim.LBFGS([weights], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        search.zero_grad()
        penalty = 0.5 * weights[:-1].square().sum() / len(inputs)
        value = F.cross_entropy(inputs @ weights, targets) + penalty
        value.backward()  # type: ignore[no-untyped-call]
        return value

    with torch.inference_mode(mode=False), torch.enable_grad():
        search.step(loss)  # type: ignore[no-untyped-call]
    return weights.detach()


def best_temperature(logits: Tensor, targets: Tensor) -> float:
    """Return the temperature in [0.05, 20] at which labels are likeliest.

    Args:
        logits: Of samples that the model was not fitted to [N, C].
        targets: Their classes [N].
    """
    tried = torch.logspace(
        torch.tensor(_LOWEST).log10().item(), torch.tensor(_HIGHEST).log10().item(), _GRID
    )
    losses = torch.stack([F.cross_entropy(logits / float(t), targets) for t in tried])
    return float(tried[losses.argmin()])


def _compress(rows: Tensor) -> Tensor:
    """Return features of unit variance over all, in as few dimensions as they span."""
    rows = rows - rows.mean(0)
    scale = rows.square().mean().sqrt()
    rows = rows / scale if scale > 0 else rows
    if rows.shape[1] <= len(rows):
        return rows
    # More features than samples: as many coordinates as samples say the same.
    values, vectors = torch.linalg.eigh(rows @ rows.T)
    found: Tensor = vectors * values.clamp_min(0).sqrt()
    return found


def _with_one(rows: Tensor) -> Tensor:
    return torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1)
