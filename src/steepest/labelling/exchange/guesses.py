"""Model predictions as first answers, for people to correct."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from steepest.core.seeds import SampleId
from steepest.core.tables import from_table
from steepest.core.wording import counted
from steepest.errors import InputError, ModelError
from steepest.labelling.exchange.maps import MapStore, map_label
from steepest.labelling.exchange.vocabulary import MULTI_LABEL, SEGMENTATION, Vocabulary
from steepest.modules import batches
from steepest.modules.preserve import evaluating
from steepest.pool.values import Label
from steepest.selecting.samples import PoolLike, as_samples
from steepest.tasks.base import TASKS

_AT_ONCE = 16


def guess(
    model: nn.Module,
    pool: PoolLike,
    ids: Sequence[SampleId],
    words: Vocabulary,
    maps: MapStore | None = None,
) -> tuple[Label, ...]:
    """Return the model's label of each sample [N].

    Args:
        model: Any module that returns logits, or carries them in its output.
        pool: The location of the samples.
        ids: Which to look at [N].
        words: The task and its classes.
        maps: Takes the maps in, for segmentation; None writes nothing and names them alone.

    Raises:
        ModelError: If the model has another number of classes, or is for another task.
    """
    samples = as_samples(pool)
    place = {sample: position for position, sample in enumerate(samples.ids)}
    part = samples.part([place[sample] for sample in ids])
    first = next(model.parameters(), None)
    task = from_table(TASKS.get(words.task), {"classes": len(words.names)})
    found: list[Label] = []
    with evaluating(model):
        for inputs in part.batches(range(len(ids)), _AT_ONCE):
            if first is not None:
                inputs = batches.move(inputs, first.device, first.dtype)  # noqa: PLW2901
            with torch.no_grad():
                logits = batches.logits_of(batches.call(model, inputs))
            _check(logits, words)
            found += [_label(row, words, maps) for row in task.predictions(logits).cpu()]
    return tuple(found)


def _label(said: Tensor, words: Vocabulary, maps: MapStore | None) -> Label:
    if words.task == SEGMENTATION:
        pixels = said.numpy().astype(np.uint8)
        return map_label(pixels) if maps is None else maps.save(pixels)
    if words.task == MULTI_LABEL:
        return [int(c) for c in said.nonzero()[:, 0]]
    return int(said)


def _check(logits: Tensor, words: Vocabulary) -> None:
    if logits.shape[1] != len(words.names):
        raise ModelError(
            f"the model has {counted(logits.shape[1], 'output')}, but there are "
            f"{len(words.names)} classes: name one class per output"
        )
    dense = logits.ndim > 2
    if dense != (words.task == SEGMENTATION):
        one = "every pixel" if dense else "the whole sample"
        raise ModelError(f"the model labels {one}, which is not {words.task}: give another --task")
    if logits.ndim > 4:
        raise InputError("people cannot label volumes pixel by pixel; choose another way")
