"""The pool as a strategy sees it: candidates, labelled samples, model, device, workers."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from steepest.core.devices import choose_device
from steepest.core.progress import as_progress
from steepest.errors import InputError, ModelError
from steepest.gradnorm.engine import Engine
from steepest.modules import batches
from steepest.modules.features import find_penultimate
from steepest.modules.precision import Precision
from steepest.modules.preserve import evaluating
from steepest.modules.real_tokens import classifies_tokens, has_mask
from steepest.selecting.batch_sizes import suited_batch_size
from steepest.selecting.candidates import (
    check_no_id_twice,
    find_candidates,
    find_labelled,
    shuffled,
)
from steepest.selecting.distributed import DistributedView, distribute
from steepest.selecting.first_logits import FirstLook, WatchedView
from steepest.selecting.model_task import check_labels, losses_of, single_logits_named
from steepest.selecting.options import SelectionOptions
from steepest.selecting.samples import Samples
from steepest.strategies import Needs, Scorer, Strategy, Support
from steepest.strategies.support import NO_SUPPORT
from steepest.strategies.view import Lens


@contextmanager
def open_view(
    model: nn.Module, samples: Samples, strategy: Strategy, how: SelectionOptions
) -> Iterator[WatchedView]:
    """Yield the pool as a strategy sees it; the model is left unchanged.

    Raises:
        InputError: If something cannot be used.
    """
    check_model(model)
    support = how.support or NO_SUPPORT
    taken, free, positions = find_candidates(samples, how)
    if not isinstance(strategy, Scorer):
        # Samples come in their own order, so that a choice does not depend on the pool's.
        positions, free = (shuffled(samples, p, how.seed) for p in (positions, free))
    model = on_device(model, how.device)
    where, kind = place_of(model)
    # Two, because a model may take a single one for no batch.
    few = samples.part(positions[:2])
    task = losses_of(how.task, model, few, where, kind)
    lens = Lens(model=model, device=where, dtype=kind, task=task)
    batch_size = how.batch_size
    if batch_size == "auto":
        batch_size = suited_batch_size(lens, few, len(positions), strategy.needs)
    if how.part.count > 1:
        positions = list(how.part.take(positions, batch_size))
    shown = as_progress(how.progress)
    with (
        # Tensors made in inference mode have no gradients and cannot be added up in place.
        torch.inference_mode(mode=False),
        evaluating(model),
        single_logits_named(model, samples.part(positions[:1]), lens.task),
    ):
        engine = _engine(model, strategy, how.precision)
        by_token = strategy.needs != Needs.NOTHING and _classifies_tokens(lens, few)
        lens = replace(lens, engine=engine, batch_size=batch_size, by_token=by_token)
        check_labels(samples, how.task)
        if _takes_features(strategy, support):
            first = next(iter(samples.batches(positions[:2], 2)))
            lens = _with_penultimate(lens, first, needed=not strategy.does_without_features)

        first_look = FirstLook(class_names=how.class_names)

        known = find_labelled(samples, taken, strategy, how)
        if known is not None and support.labelled is not None and support.features:
            check_no_id_twice(known, [samples.ids[p] for p in free])
        with distribute(samples, known, lens, strategy, how) as passes:

            def view(part: Samples, **more: Any) -> WatchedView:  # noqa: ANN401
                more |= {"seed": how.seed, "support": support, "progress": shown}
                if passes is None:
                    return WatchedView(first_look, part, lens, **more)
                return DistributedView(passes, first_look, part, lens, **more)

            yield view(
                samples.part(positions),
                labelled=None if known is None else view(known),
                unlabelled=view(samples.part(free)) if len(free) > len(positions) else None,
            )


def _classifies_tokens(lens: Lens, few: Samples) -> bool:
    if not few.read_ahead:
        return False
    inputs = next(iter(few.batches(range(1), 1)))
    if not has_mask(inputs):
        return False
    with torch.no_grad():
        there = batches.move(inputs, lens.device, lens.dtype)
        return classifies_tokens(lambda some: batches.call(lens.model, some), there)


def check_model(model: object) -> None:
    """Raise if it is not a module.

    Raises:
        InputError: If it cannot be used; the message names its type.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"the model must be a torch.nn.Module, not {type(model).__name__}")


def on_device(model: nn.Module, device: torch.device | str | None) -> nn.Module:
    """Return the model, or a copy of it where it is wanted."""
    if device is None:
        return model
    wanted = choose_device(device)
    return model if wanted == place_of(model)[0] else copy.deepcopy(model).to(wanted)


def place_of(model: nn.Module) -> tuple[torch.device, torch.dtype]:
    """Return the device and the type of a model's weights."""
    floats: list[Tensor] = [p for p in model.parameters() if p.is_floating_point()]
    floats = floats or [torch.empty(0)]
    # Weights may be kept in bytes, which nothing is computed in.
    kinds = (p.dtype for p in floats if p.itemsize > 1)
    return floats[0].device, next(kinds, torch.get_default_dtype())


def _engine(model: nn.Module, strategy: Strategy, precision: Precision) -> Engine | None:
    return Engine(model, precision=precision) if Needs.GRADIENTS in strategy.needs else None


def _takes_features(strategy: Strategy, support: Support) -> bool:
    return Needs.FEATURES in strategy.needs and not support.features


def _with_penultimate(lens: Lens, inputs: Any, *, needed: bool) -> Lens:  # noqa: ANN401
    """Find the feature layer once, and not for every batch."""
    moved = batches.move(inputs, lens.device, lens.dtype)
    try:
        return replace(lens, penultimate=find_penultimate(lens.model, moved))
    except ModelError:
        if needed:
            raise
        return lens
