"""One step of training: forward, backward, update; on a GPU replayed from a recorded graph."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from steepest.errors import SlowPathWarning, SteepestError, in_one_line
from steepest.modules.batches import call, logits_of
from steepest.modules.features import extract_features, find_penultimate
from steepest.tasks import Task
from steepest.training.auxiliary_head import Extra

_WARM_UP_STEPS = 3
"""Steps taken plainly before one is recorded, so that all lazy set-up is done."""

_MOST_SHAPES = 4
"""Shapes that are recorded: that of most batches, that of an epoch's last one, and few others."""

Form = tuple[object, ...]
"""Properties that batches must share to reuse one recording."""


def form_of(images: Tensor, targets: Tensor) -> Form:
    """Return the form of a batch."""
    return images.shape, images.stride(), images.dtype, targets.shape, targets.dtype


class Step:
    """Takes training steps and sums up their losses on the device.

    Args:
        model: In training mode, on its device.
        task: Decides the loss.
        optimizer: Owns the model's parameters.
        amp: Whether to compute in bfloat16 where it is safe.
        extra: Modules trained along with the model.
    """

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        optimizer: torch.optim.Optimizer,
        *,
        amp: bool,
        extra: Extra | None = None,
    ) -> None:
        self._model = model
        self._task = task
        self._optimizer = optimizer
        self._extra = extra
        self._head: str | None = None
        self._phase = ""
        device = next(model.parameters()).device
        # On CPUs bfloat16 is no faster, and its kernels stop the program on some of them.
        self._autocast = torch.autocast(
            device.type, dtype=torch.bfloat16, enabled=amp and device.type != "cpu"
        )
        self._total = torch.zeros((), device=device)

    def __call__(self, images: Tensor, targets: Tensor) -> None:
        """Learn from one batch: images [B, C, H, W], targets [B, ...]."""
        self._learn(images, targets)

    def begin_epoch(self, epoch: int) -> None:
        """Announce the beginning of an epoch to auxiliary modules."""
        if self._extra is not None:
            self._phase = self._extra.begin_epoch(epoch)

    def take_total(self) -> float:
        """Return the sum of all samples' losses since the last time."""
        total = self._total.item()
        self._total.zero_()
        return total

    def _learn(self, images: Tensor, targets: Tensor) -> None:
        losses, total = self._losses(images, targets)
        self._optimizer.zero_grad()
        torch.autograd.backward(total)
        self._optimizer.step()
        # Summed where it is: fetching each step's loss would make the device wait.
        self._total += losses.detach().sum()

    def _losses(self, images: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return each sample's loss [B], and the minimised loss."""
        if self._extra is None:
            with self._autocast:
                outputs = call(self._model, images)
            losses = self._task.training_loss(logits_of(outputs).float(), targets)
            return losses, losses.mean()
        if self._head is None:
            self._head = find_penultimate(self._model, images)
        with self._autocast:
            found = extract_features(
                self._model, images, maps=self._extra.maps, detach=False, penultimate=self._head
            )
        losses = self._task.training_loss(found.logits.float(), targets)
        return losses, losses.mean() + self._extra.loss(found, losses)


class RecordedStep(Step):
    """The same step on a GPU, recorded once for each form of batch and replayed.

    A replay launches the whole step at once, so that the GPU does not wait for Python. The first
    steps of each form are taken plainly. What cannot be recorded is taken plainly ever after.
    """

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        optimizer: torch.optim.Optimizer,
        *,
        amp: bool,
        extra: Extra | None = None,
    ) -> None:
        super().__init__(model, task, optimizer, amp=amp, extra=extra)
        self._plain_steps: dict[Form, int] = {}
        self._recorded: dict[Form, tuple[torch.cuda.CUDAGraph, Tensor, Tensor]] = {}
        self._can_record = True
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        # Goes first where a recording has several streams.
        self._front = torch.cuda.Stream(priority=-1)  # type: ignore[no-untyped-call]

    def __call__(self, images: Tensor, targets: Tensor) -> None:
        """Learn from one batch: images [B, C, H, W], targets [B, ...]."""
        form = form_of(images, targets)
        if self._phase:
            form = (*form, self._phase)
        if form not in self._recorded and self._is_due(form):
            self._record(form, images, targets)
        if form not in self._recorded:
            self._learn_aside(images, targets)
            return
        graph, fixed_images, fixed_targets = self._recorded[form]
        fixed_images.copy_(images)
        fixed_targets.copy_(targets)
        graph.replay()

    def _is_due(self, form: Form) -> bool:
        """Say whether a form that came once more should be recorded now."""
        seen = self._plain_steps.get(form, 0)
        self._plain_steps[form] = seen + 1
        room = len(self._recorded) < _MOST_SHAPES
        return self._can_record and room and seen >= _WARM_UP_STEPS

    def _learn_aside(self, images: Tensor, targets: Tensor) -> None:
        """Learn on another stream than the usual one, which is where recordings are made."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            self._learn(images, targets)
        torch.cuda.current_stream().wait_stream(self._stream)

    def _record(self, form: Form, images: Tensor, targets: Tensor) -> None:
        fixed = (images.clone(memory_format=torch.preserve_format), targets.clone())
        self._optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=self._front, capture_error_mode="thread_local"):
                self._learn(*fixed)
        except (RuntimeError, SteepestError) as error:
            # The model asks for values on its way, or there is no memory for a second step.
            self._can_record = False
            self._optimizer.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()
            warn_of_slower_steps("recorded as a CUDA graph", error)
            return
        self._recorded[form] = (graph, *fixed)


def warn_of_slower_steps(wish: str, error: BaseException) -> None:
    """Warn that steps will be taken in a plainer way."""
    warnings.warn(
        f"training steps could not be {wish}, and are taken plainly: {in_one_line(error)}",
        SlowPathWarning,
        stacklevel=4,
    )
