"""The fit loop: from labelled images to a trained model."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from steepest.core.progress import Progress
from steepest.core.torch_settings import lay_out, memory_format, own_randomness
from steepest.data.base import Images
from steepest.data.sealed import Labels
from steepest.errors import InputError, ModelError, NonFiniteError, UnknownNameError
from steepest.tasks import Task
from steepest.training.augment import AUGMENTATIONS, OWN
from steepest.training.auxiliary_head import Extra
from steepest.training.batches import LabelledImages
from steepest.training.checkpoint import Checkpoint, identify_training
from steepest.training.fast.compiled_step import CompiledStep
from steepest.training.fast.step import RecordedStep, Step
from steepest.training.probes.learning import begin_from_probe, learn_head
from steepest.training.recipe import Recipe


@dataclass(frozen=True)
class FitResult:
    """History of a training run.

    Attributes:
        epochs: Passes over the labelled samples.
        final_loss: Mean training loss over the last epoch.
        seconds: Wall-clock time, with that of epochs before a restart.
    """

    epochs: int
    final_loss: float
    seconds: float


def fit(
    model: nn.Module,
    task: Task,
    images: Images,
    labels: Labels,
    recipe: Recipe,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    augmentation: str,
    seed: int,
    device: torch.device,
    progress: Progress,
    checkpoint: Checkpoint | None = None,
    extra: Extra | None = None,
) -> FitResult:
    """Train a model in place and leave it on ``device`` in eval mode.

    The same seed gives the same weights, stopped and resumed or not; the global random state
    stays as it is.

    Args:
        model: Trained on from the weights it has.
        task: Decides the loss.
        images: uint8 or float32 [N, C, ...], in memory or on disk.
        labels: The task's targets [N, ...].
        recipe: How to train.
        mean: Per channel, of bytes on the 0..1 scale [C].
        std: Per channel, on the same scale [C].
        augmentation: The data set's own, used where the recipe says ``auto``.
        seed: Decides order, augmentation and dropout.
        device: The device; images in memory are moved there once.
        progress: Updated after each epoch.
        checkpoint: Where the state is kept at the end of an epoch, and found again.
        extra: Modules trained along with the model, in place too.

    Raises:
        InputError: If there is nothing to learn from, or one sample for batch norm.
        ModelError: If the model has nothing to learn.
        NonFiniteError: If the loss or a weight becomes NaN or infinite.
    """
    _check_samples(images, labels)
    if recipe.method == "probe":
        return _fit_probe(model, images, labels, (tuple(mean), tuple(std)), seed, device, extra)
    chosen = _choose_augmentation(recipe, augmentation)
    started = time.monotonic()
    augment, classes = AUGMENTATIONS.get(chosen), getattr(task, "classes", None)
    data = LabelledImages(images, labels, mean, std, augment, classes)
    whole = model if extra is None else nn.ModuleList([model, extra])
    key = ""
    if checkpoint is not None:
        key = identify_training(whole, task, data, recipe, augmentation=chosen, seed=seed)
    if recipe.method == "fine-tune":
        begin_from_probe(model, images, labels, tuple(mean), tuple(std), seed, device)
    whole.to(device)
    data = data.to(device)
    loss = math.nan
    with (
        _lone_sample_named(len(images)),
        own_randomness(seed, device),
        memory_format(model, recipe.channels_last) as layout,
        progress.task("train", recipe.epochs) as step,
    ):
        whole.train()
        optimizer = _make_optimizer(whole, recipe, device)
        take_step = _make_step(model, task, optimizer, recipe, extra)
        done = 0
        if checkpoint is not None:
            done, seconds = checkpoint.restore(whole, optimizer, key)
            started -= seconds
        if done:
            step.advance(done)
        for epoch in range(done, recipe.epochs):
            _set_lr(optimizer, recipe.lr_at(epoch))
            take_step.begin_epoch(epoch)
            for x, y in data.batches(seed, epoch, recipe.batch_size, device):
                take_step(lay_out(x, layout), y)
            loss = take_step.take_total() / len(images)
            if not math.isfinite(loss):
                raise NonFiniteError(f"the loss is {loss} in epoch {epoch}; lower lr={recipe.lr}")
            step.advance(note=f"loss {loss:.3f}")
            if checkpoint is not None and epoch + 1 < recipe.epochs:
                spent = time.monotonic() - started
                checkpoint.save_if_due(whole, optimizer, epoch + 1, spent, key)
        optimizer.zero_grad()
    whole.eval()
    _check_weights(whole, recipe)
    return FitResult(recipe.epochs, loss, time.monotonic() - started)


def _fit_probe(
    model: nn.Module,
    images: Images,
    labels: Labels,
    normalisation: tuple[tuple[float, ...], tuple[float, ...]],
    seed: int,
    device: torch.device,
    extra: Extra | None,
) -> FitResult:
    """Solve for the model's only layer instead."""
    if extra is not None:
        raise InputError(
            "nothing can be trained along with a probe: set training.method=scratch, or another "
            "strategy"
        )
    started = time.monotonic()
    loss = learn_head(model.cpu(), images, labels, *normalisation, seed)
    model.to(device).eval()
    return FitResult(0, loss, time.monotonic() - started)


def _check_samples(images: Images, labels: Labels) -> None:
    if len(images) == 0:
        raise InputError("0 images: nothing is labelled yet, so there is nothing to learn from")
    if len(images) != len(labels):
        raise InputError(f"{len(images)} images for {len(labels)} labels; give one label to each")


@contextmanager
def _lone_sample_named(count: int) -> Iterator[None]:
    """Say the remedy where batch norm has one sample alone, which varies from no other."""
    try:
        yield
    except ModelError as error:
        if count > 1 or "more than 1 value per channel" not in str(error):
            raise
        raise InputError(
            "the model's batch norm cannot learn from one labelled sample: label another one"
        ) from error


def _choose_augmentation(recipe: Recipe, usual: str) -> str:
    chosen = usual if recipe.augmentation == "auto" else recipe.augmentation
    if chosen != OWN and chosen not in AUGMENTATIONS:
        raise UnknownNameError("augmentation", chosen, [*AUGMENTATIONS, OWN])
    return chosen


def _make_step(
    model: nn.Module,
    task: Task,
    optimizer: torch.optim.Optimizer,
    recipe: Recipe,
    extra: Extra | None,
) -> Step:
    on_gpu = next(model.parameters()).device.type == "cuda"
    if not (on_gpu and recipe.cuda_graph):
        return Step(model, task, optimizer, amp=recipe.amp, extra=extra)
    if recipe.compile and extra is None:
        return CompiledStep(model, task, optimizer, amp=recipe.amp)
    # A fused program knows the model and its task alone.
    return RecordedStep(model, task, optimizer, amp=recipe.amp, extra=extra)


def _make_optimizer(
    model: nn.Module, recipe: Recipe, device: torch.device
) -> torch.optim.Optimizer:
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise ModelError("no parameter of the model requires a gradient; unfreeze some")
    on_gpu = device.type == "cuda"
    # A recorded step reads the learning rate from the device, where it can be changed.
    lr: float | Tensor = torch.tensor(recipe.lr, device=device) if on_gpu else recipe.lr
    if recipe.optimizer == "adam":
        return torch.optim.Adam(
            parameters, lr, weight_decay=recipe.weight_decay, fused=on_gpu, capturable=on_gpu
        )
    return torch.optim.SGD(
        parameters,
        lr,
        momentum=recipe.momentum,
        nesterov=recipe.nesterov,
        weight_decay=recipe.weight_decay,
        fused=on_gpu,
    )


def _set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(lr)
        else:
            group["lr"] = lr


def _check_weights(model: nn.Module, recipe: Recipe) -> None:
    """Refuse weights that the very last step broke, which no loss has seen."""
    for name, value in model.state_dict().items():
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise NonFiniteError(f"{name} is not finite after training; lower lr={recipe.lr}")
