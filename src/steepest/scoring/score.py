"""Score every sample of a pool under the present model."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from steepest.devices import choose_device
from steepest.errors import InputError, NonFiniteError
from steepest.gradnorm import inputs as batches
from steepest.gradnorm.engine import Engine
from steepest.gradnorm.inputs import Inputs
from steepest.gradnorm.losses import entropy
from steepest.gradnorm.precision import Precision, check_precision
from steepest.gradnorm.preserve import evaluating
from steepest.memory import is_out_of_memory
from steepest.models.fingerprint import fingerprint
from steepest.pool.values import plain_id
from steepest.progress import Progress, show_progress
from steepest.scoring.regime import diagnose
from steepest.scoring.samples import PoolLike, Samples, as_samples
from steepest.scoring.scores import Scores
from steepest.seeds import SampleId
from steepest.selection import random_subset
from steepest.strategies import Batch, Needs, Strategy, create
from steepest.strategies.batch import CROSS_ENTROPY
from steepest.tasks.base import Losses, Task

BatchSize = int | Literal["auto"]


def score(
    model: nn.Module,
    pool: PoolLike,
    strategy: str | Strategy = "entropy-gradnorm",
    *,
    options: Mapping[str, Any] | None = None,
    ids: Sequence[SampleId] | None = None,
    labelled: Iterable[SampleId] | None = None,
    subset: int | None = None,
    seed: int = 0,
    task: Task | None = None,
    batch_size: BatchSize = "auto",
    precision: Precision = "tf32",
    device: torch.device | str | None = None,
    progress: bool | Progress = True,
) -> Scores:
    """Score the samples of a pool; higher = label first.

    The model runs in eval mode and is left exactly as found.

    Args:
        model: Any module that returns logits, or carries them in its output.
        pool: A Dataset, a DataLoader, a tensor, an array or the path of a folder of images.
        strategy: A name from ``steepest.strategies.names()``, or a strategy.
        options: Options for a strategy given by name.
        ids: Names of the samples; by default the pool's own, or the index.
        labelled: Ids to leave out because they carry a label already.
        subset: Score only a random subset of this size (the paper takes 10 · k).
        seed: Seeds every draw; draws are keyed by sample id.
        task: Whose losses are used, with labels and without; default cross-entropy.
        batch_size: Samples in flight; ``"auto"`` picks one for the device. The scores do not
            depend on it.
        precision: In what precision gradients are measured: ``"fp32"``, ``"tf32"`` (GPUs may
            multiply with ten bits of fraction) or ``"bf16"``.
        device: Where to compute; by default where the model is.
        progress: Whether to show progress.

    Raises:
        SteepestError: In one line, if something cannot be used.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"the model must be a torch.nn.Module, not {type(model).__name__}")
    check_precision(precision)
    chosen = _as_strategy(strategy, options)
    samples = as_samples(pool, ids)
    positions = _candidates(samples, labelled, subset, seed)
    model = _on_device(model, device)
    where, kind = _place_of(model)
    size = _batch_size(batch_size, where, chosen.needs)
    shown = show_progress(enabled=progress) if isinstance(progress, bool) else progress
    names = [samples.ids[p] for p in positions]
    scored_by = fingerprint(model)
    known: Losses = CROSS_ENTROPY if task is None else task
    with evaluating(model):
        engine = Engine(model, precision=precision) if Needs.GRADIENTS in chosen.needs else None

        def batch_of(rows: Sequence[SampleId], inputs: Inputs) -> Batch:
            inputs = batches.move(inputs, where, kind)
            return Batch(rows, inputs, model=model, engine=engine, seed=seed, task=known)

        if chosen.needs == Needs.NOTHING:
            values = chosen.score(batch_of(names, torch.empty(len(names)))).numpy()
            entropies, classes = None, 0
        else:
            loaded = samples.batches(positions, size)
            table, classes = _score_batches(chosen, names, loaded, batch_of, shown)
            values, entropies = table[:, 0], table[:, 1]
    regime = None if entropies is None else diagnose(values, entropies, classes)
    return Scores(
        ids=names,
        values=values.astype(np.float64),
        strategy=chosen.name,
        options=chosen.options(),
        seed=seed,
        model=scored_by,
        regime=regime,
    )


def _score_batches(
    strategy: Strategy,
    names: Sequence[SampleId],
    loaded: Iterable[Inputs],
    batch_of: Any,  # noqa: ANN401
    progress: Progress,
) -> tuple[npt.NDArray[np.float64], int]:
    """Return scores and entropies [N, 2] and the number of classes."""
    parts: list[Tensor] = []
    done = classes = 0
    in_flight = len(names)
    with progress.task(f"scoring by {strategy.name}", len(names)) as step:
        for inputs in loaded:
            total = batches.count(inputs)
            batches.check_finite(inputs, names[done : done + total])
            start = 0
            while start < total:
                rows = slice(start, min(start + in_flight, total))
                here = names[done + rows.start : done + rows.stop]
                try:
                    batch = batch_of(here, batches.take(inputs, rows))
                    value = _checked(strategy.score(batch), here, strategy.name)
                except (RuntimeError, MemoryError) as error:
                    if rows.stop - rows.start == 1 or not is_out_of_memory(error):
                        raise
                    in_flight = (rows.stop - rows.start) // 2
                    torch.cuda.empty_cache()
                    continue
                uncertainty = entropy(batch.logits).cpu()
                classes = batch.logits.shape[1]
                parts.append(torch.stack([value, uncertainty], dim=1))
                start = rows.stop
            done += total
            step.advance(total)
    return torch.cat(parts).numpy(), classes


def _checked(values: Tensor, names: Sequence[SampleId], strategy: str) -> Tensor:
    values = values.detach().double().cpu()
    if values.shape != (len(names),):
        raise InputError(
            f"strategy {strategy!r} returned shape {list(values.shape)} for {len(names)} samples"
        )
    finite = torch.isfinite(values)
    if not bool(finite.all()):
        first = names[int((~finite).nonzero()[0])]
        raise NonFiniteError(
            f"the score of sample {first!r} is NaN or infinite: look at the model's weights and at "
            "that sample"
        )
    return values


def _candidates(
    samples: Samples, labelled: Iterable[SampleId] | None, subset: int | None, seed: int
) -> list[int]:
    """Return the positions of the unlabelled samples, or of a random subset of them."""
    positions = list(range(len(samples)))
    if labelled is not None:
        known = set(samples.ids)
        taken = {plain_id(i) for i in labelled}
        if unknown := taken - known:
            raise InputError(f"the labelled id {next(iter(unknown))!r} is not in the pool")
        positions = [p for p in positions if samples.ids[p] not in taken]
        if not positions:
            raise InputError("every sample of the pool is labelled already")
    if subset is not None:
        if isinstance(subset, float) or subset < 1:
            raise InputError(f"subset must be a whole number of at least 1, not {subset}")
        drawn = random_subset([samples.ids[p] for p in positions], subset, seed)
        positions = [positions[d] for d in drawn]
    return positions


def _as_strategy(strategy: str | Strategy, options: Mapping[str, Any] | None) -> Strategy:
    if isinstance(strategy, str):
        return create(strategy, options)
    if not isinstance(strategy, Strategy):
        raise InputError(f"strategy must be a name or a Strategy, not {strategy!r}")
    if options:
        raise InputError("options belong to a strategy given by name; set them on the strategy")
    return strategy


def _on_device(model: nn.Module, device: torch.device | str | None) -> nn.Module:
    if device is None:
        return model
    wanted = choose_device(device)
    return model if wanted == _place_of(model)[0] else copy.deepcopy(model).to(wanted)


def _place_of(model: nn.Module) -> tuple[torch.device, torch.dtype]:
    floats = (p for p in model.parameters() if p.is_floating_point())
    tensor = next(floats, torch.empty(0))
    return tensor.device, tensor.dtype


def _batch_size(size: BatchSize, device: torch.device, needs: Needs) -> int:
    if isinstance(size, int) and not isinstance(size, bool) and size >= 1:
        return size
    if size != "auto":
        raise InputError(f"batch_size must be 'auto' or at least 1, not {size!r}")
    if device.type == "cuda":
        return 512
    return 64 if Needs.GRADIENTS in needs else 256
