"""Hold some results against the slow reference."""

from __future__ import annotations

import torch
from torch import Tensor

from steepest.errors import VerificationError
from steepest.gradnorm.engine import Engine
from steepest.gradnorm.reference import reference_norms
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.modules.losses import Loss
from steepest.modules.precision import allowed, computing_in
from steepest.modules.preserve import preserved, preserved_buffers

_ROUNDING = {"fp32": 2e-3, "tf32": 2e-2, "bf16": 1e-1}
"""By how much rounding may move a norm; the loop over single samples rounds, too."""


def verify(
    engine: Engine,
    inputs: Inputs,
    loss: Loss,
    targets: Tensor | None,
    found: Tensor,
    samples: int,
) -> None:
    """Measure some samples, spread over the batch, one by one, and compare.

    Args:
        engine: Measured them.
        inputs: N samples.
        loss: The loss.
        targets: Labels [N, ...] where the loss takes some.
        found: The norms per tensor [N, P] to compare with the reference.
        samples: How many to look at.

    Raises:
        VerificationError: Names the sample and the parameter that disagree most.
    """
    total = len(found)
    rows = torch.linspace(0, total - 1, min(samples, total)).round().long()
    rows_there = rows.to(found.device)
    some = batches.take(inputs, rows.to(batches.tensors_of(inputs)[0].device))
    labels = None if targets is None else targets[rows.to(targets.device)]
    with (
        torch.inference_mode(mode=False), torch.enable_grad(),
        preserved(engine.model.modules()), preserved_buffers(engine.model.modules()),
        computing_in(engine.precision, engine.device),
    ):  # fmt: skip
        truth = reference_norms(
            engine.model, batches.detached(some), loss, targets=labels, norm="per-tensor"
        )
    mine, truth = found[rows_there].double(), truth.double().to(found.device)
    known = truth.where(torch.isfinite(truth), 0)
    size = known.square().sum(1, keepdim=True).sqrt()
    # A tensor that hardly counts in its sample may be off by more of itself.
    off = (mine - truth).abs() / size.clamp_min(torch.finfo(torch.float64).tiny)
    # Where both are infinite or NaN they agree: that this is no norm is said elsewhere.
    off = off.masked_fill((mine == truth) | (mine.isnan() & truth.isnan()), 0.0)
    worst = int(off.argmax())
    row, column = divmod(worst, off.shape[1])
    rough = engine.precision if engine.device.type != "cpu" else "fp32"
    rough = "bf16" if engine.precision == "bf16" else rough
    exact = engine.dtype == torch.float64 and engine.coarseness <= torch.finfo(torch.float64).eps
    least = 1e-6 if exact else _ROUNDING[rough]
    if not bool(off.flatten()[worst] <= allowed(least, engine.coarseness)):
        raise VerificationError(
            f"sample {int(rows[row])}: the gradient norm of {engine.names[column]!r} is "
            f"{mine[row, column]:.6g}, but {truth[row, column]:.6g} when measured alone: please "
            "report this with the model, and use steepest.gradnorm.reference_norms until then"
        )
