"""Gradient norms of several losses of every sample, from one pass over the samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from steepest.core.progress import Progress, SilentProgress
from steepest.errors import InputError, NonFiniteError, UnknownNameError
from steepest.gradnorm.engine import Engine
from steepest.gradnorm.norms import SampleNorm, combine
from steepest.influence import Source
from steepest.influence.functional_model import BATCH_SIZE, in_parts, plain
from steepest.influence.objective import check_count, loss_function
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.modules.losses import RowLosses
from steepest.modules.preserve import evaluating
from steepest.strategies.algorithms.ranking import Values
from steepest.tasks.base import Losses

LossName = Literal["true-label", "entropy", "expected"]
"""The loss with the sample's own label, which only an oracle knows, or one without labels."""

LABEL_FREE: tuple[LossName, ...] = ("entropy", "expected")
"""The paper's two schemes."""

NORMS: tuple[SampleNorm, ...] = ("l2", "tensor-sum")
"""The paper's norm as it is written, and as its published code computes it."""

NormTable = dict[tuple[LossName, SampleNorm], Values]
"""Norms [N] by loss and kind of norm."""


def sample_norms(
    model: nn.Module,
    task: Losses,
    samples: Source,
    losses: Sequence[LossName],
    norms: Sequence[SampleNorm] = NORMS,
    *,
    batch_size: int = BATCH_SIZE,
    progress: Progress | None = None,
) -> NormTable:
    """Return ‖∇L(x)‖ of every sample for several losses and norms.

    The model runs in eval mode and in full precision, forward once, and is left unchanged.

    Args:
        model: Any module that returns logits, or carries them in its output.
        task: Whose losses are meant.
        samples: N samples; with targets for ``"true-label"``.
        losses: The losses.
        norms: The norms of the gradient.
        batch_size: Samples in flight; the norms do not depend on it.
        progress: Updated after each batch.

    Raises:
        InputError: If an argument does not fit, or targets are missing.
        NonFiniteError: If a norm is NaN or infinite.
    """
    check_count("batch_size", batch_size)
    _check_names(losses, norms)
    bare = plain(model)
    functions = [loss_function(task, name) for name in losses]
    labelled = "true-label" in losses
    parts: list[list[Tensor]] = []

    def given(targets: Tensor | None) -> RowLosses:
        def of_rows(outputs: Any, rows: slice) -> list[Tensor]:  # noqa: ANN401
            logits = batches.logits_of(outputs)
            known = None if targets is None else targets[rows]
            return [function(logits, known) for function in functions]

        return of_rows

    with evaluating(bare):
        # One function for all batches can be recorded by a GPU; targets make it a new one each.
        engine = Engine(bare, precision="fp32", graphs=not labelled)
        without_labels = given(None)

        def on_batch(inputs: Inputs, targets: Tensor | None) -> list[Tensor]:
            of_rows = given(targets) if labelled else without_labels
            _, tables = engine.squared_norms(inputs, of_rows)
            return [combine(table, name).double().cpu() for table in tables for name in norms]

        with (progress or SilentProgress()).task("gradient norms", len(samples)) as step:
            for inputs, targets in samples.batches(batch_size):
                moved = batches.detached(batches.move(inputs, engine.device, engine.dtype))
                known = None if targets is None else targets.to(engine.device)
                parts += in_parts(on_batch, moved, known)
                step.advance(batches.count(inputs))
    columns = [torch.cat(column).numpy() for column in zip(*parts, strict=True)]
    keys = [(loss, norm) for loss in losses for norm in norms]
    return _checked(dict(zip(keys, columns, strict=True)))


def _check_names(losses: Sequence[LossName], norms: Sequence[SampleNorm]) -> None:
    for name in norms:
        if name not in NORMS:
            raise UnknownNameError("norm", name, NORMS)
    if not losses or not norms:
        raise InputError("no loss or no norm is asked for: name at least one of each")


def _checked(table: NormTable) -> NormTable:
    for (loss, _), values in table.items():
        if not bool(torch.isfinite(torch.from_numpy(values)).all()):
            raise NonFiniteError(
                f"a gradient norm of the loss {loss!r} is NaN or infinite: look at the model"
            )
    return table
