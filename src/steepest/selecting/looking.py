"""Set up how a strategy looks at a pool: candidates, labelled samples, model, device."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from steepest.core.devices import choose_device
from steepest.core.progress import as_progress
from steepest.core.seeds import SampleId, keyed_uniform, random_subset
from steepest.errors import InputError, ModelError
from steepest.gradnorm.engine import Engine
from steepest.modules import batches
from steepest.modules.features import find_penultimate
from steepest.modules.precision import Precision
from steepest.modules.preserve import evaluating
from steepest.modules.real_tokens import classifies_tokens, has_mask
from steepest.pool.values import plain_id
from steepest.selecting.batch_sizes import suited_batch_size
from steepest.selecting.named_task import losses_of
from steepest.selecting.options import SelectionOptions
from steepest.selecting.probabilities import FirstLook, WatchedView
from steepest.selecting.samples import Samples, as_samples
from steepest.selecting.single_logit import single_logits_named
from steepest.selecting.spread import Spread, SpreadView, spread_over
from steepest.strategies import Needs, Scorer, Strategy, Support, create
from steepest.strategies.support import NO_SUPPORT
from steepest.strategies.view import Lens


def as_strategy(strategy: str | Strategy, options: Mapping[str, Any] | None) -> Strategy:
    """Return a strategy given by name and options, or as it is.

    Raises:
        InputError: If it is neither, or options come with a strategy that is made already.
    """
    if options is not None and not isinstance(options, Mapping):
        raise InputError(f"options are a {type(options).__name__}: give them by name, as a dict")
    if isinstance(strategy, str):
        return create(strategy, options)
    if not isinstance(strategy, Strategy):
        raise InputError(f"strategy must be a name or a Strategy, not {strategy!r}")
    if options:
        raise InputError("options belong to a strategy given by name; set them on the strategy")
    return strategy


class Candidates(NamedTuple):
    """Which samples of a pool are looked at.

    Attributes:
        taken: Ids of labelled samples.
        free: Positions of all others, in the pool's order.
        positions: Positions of those to look at: a random part of the free ones, or all.
    """

    taken: set[SampleId]
    free: Sequence[int]
    positions: Sequence[int]


def find_candidates(samples: Samples, how: SelectionOptions) -> Candidates:
    """Find the samples that can be chosen.

    Raises:
        InputError: If there are none.
    """
    taken = _taken(samples, how.labelled)
    everyone = range(len(samples))  # Stays a range: no list of a million for nobody's sake.
    free = [p for p in everyone if samples.ids[p] not in taken] if taken else everyone
    if not free:
        raise InputError("every sample of the pool is labelled already")
    return Candidates(taken, free, _subset(samples, free, how.subset, how.seed))


@contextmanager
def looking_at(
    model: nn.Module, samples: Samples, strategy: Strategy, how: SelectionOptions
) -> Iterator[WatchedView]:
    """Yield the pool as a strategy sees it; the model is left as found afterwards.

    Raises:
        InputError: If something cannot be used.
    """
    check_model(model)
    support = how.support or NO_SUPPORT
    taken, free, positions = find_candidates(samples, how)
    if not isinstance(strategy, Scorer):
        # Samples come in an order of their own, so that a choice does not depend on the pool's.
        positions, free = (_shuffled(samples, p, how.seed) for p in (positions, free))
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
        # What is made in inference mode has no gradients and cannot be added up in place.
        torch.inference_mode(mode=False),
        evaluating(model),
        single_logits_named(model, samples.part(positions[:1]), lens.task),
    ):
        engine = _engine(model, strategy, how.precision)
        by_token = strategy.needs != Needs.NOTHING and _classifies_tokens(lens, few)
        lens = replace(lens, engine=engine, batch_size=batch_size, by_token=by_token)
        if _takes_features(strategy, support):
            first = next(iter(samples.batches(positions[:2], 2)))
            lens = _with_penultimate(lens, first, needed=not strategy.does_without_features)

        first_look = FirstLook(class_names=how.class_names)

        known = _labelled_samples(samples, taken, strategy, how)
        if known is not None and support.labelled is not None and support.features:
            _check_names(known, [samples.ids[p] for p in free])
        with _spread(samples, known, lens, strategy, how) as spread:

            def view(part: Samples, **more: Any) -> WatchedView:  # noqa: ANN401
                more |= {"seed": how.seed, "support": support, "progress": shown}
                if spread is None:
                    return WatchedView(first_look, part, lens, **more)
                return SpreadView(spread, first_look, part, lens, **more)

            yield view(
                samples.part(positions),
                labelled=None if known is None else view(known),
                unlabelled=view(samples.part(free)) if len(free) > len(positions) else None,
            )


@contextmanager
def _spread(
    samples: Samples,
    labelled: Samples | None,
    lens: Lens,
    strategy: Strategy,
    how: SelectionOptions,
) -> Iterator[Spread | None]:
    """Yield the workers that passes are spread over; None if they run in this process."""
    if how.on_ray is None or strategy.needs == Needs.NOTHING:
        yield None
        return
    with spread_over(
        how.on_ray,
        samples,
        labelled,
        lens,
        strategy,
        seed=how.seed,
        precision=how.precision,
        support=how.support or NO_SUPPORT,
        class_names=how.class_names,
    ) as spread:
        yield spread


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
    """Refuse what is no module.

    Raises:
        InputError: Saying what it is.
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


def _taken(samples: Samples, labelled: Iterable[SampleId] | None) -> set[SampleId]:
    taken = set(labelled or ())
    # A range knows what is in it: no set of a million ids for the sake of a few.
    known = samples.ids if isinstance(samples.ids, range) else set(samples.ids)
    if unknown := {i for i in taken if i not in known}:
        raise InputError(
            f"the labelled id {next(iter(unknown))!r} is not in the pool, where ids are such as "
            f"{samples.ids[0]!r}"
        )
    return taken


def _subset(samples: Samples, free: Sequence[int], subset: int | None, seed: int) -> Sequence[int]:
    if subset is None:
        return free
    drawn = random_subset([samples.ids[p] for p in free], subset, seed)
    return [free[d] for d in drawn]


def _shuffled(samples: Samples, positions: Sequence[int], seed: int) -> list[int]:
    draws = keyed_uniform(seed, "order of choosing", [samples.ids[p] for p in positions])[:, 0]
    return [positions[i] for i in np.argsort(draws, kind="stable")]


def _labelled_samples(
    samples: Samples, taken: set[SampleId], strategy: Strategy, how: SelectionOptions
) -> Samples | None:
    """Return the labelled samples: of a pool of their own, or of this one."""
    support = how.support or NO_SUPPORT
    if support.labelled is not None:
        return as_samples(support.labelled)
    known = taken
    if support.targets and Needs.TARGETS in needs_with(strategy, support):
        # Who is taken but has no label, such as samples that wait or were skipped, teaches nothing.
        known = {plain_id(i) for i in support.targets}
    rows = [p for p in range(len(samples)) if samples.ids[p] in known] if known else []
    return samples.part(_shuffled(samples, rows, how.seed)) if rows else None


def needs_with(strategy: Strategy, support: Support) -> Needs:
    """Return what a strategy needs, given what was trained along with the model."""
    return strategy.needs_alone if support.extra is None else strategy.needs


def _check_names(labelled: Samples, free: Sequence[SampleId]) -> None:
    """Refuse features by id where an id means two samples."""
    if twice := set(labelled.ids) & set(free):
        raise InputError(
            f"sample {next(iter(twice))!r} is a candidate and one of Support.labelled, so that its "
            "features are not clear: give the labelled pool ids of its own"
        )


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
