"""One step of training: forward, backward, update; on a GPU replayed from a recorded graph."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from steepest.gradnorm.inputs import call, logits_of
from steepest.tasks import Task

_WARM_UP_STEPS = 3
"""Steps taken plainly before one is recorded, so that all lazy set-up is done."""


class Step:
    """Takes training steps and sums up their losses on the device.

    Args:
        model: In training mode, on its device.
        task: Decides the loss.
        optimizer: Owns the model's parameters.
        amp: Whether to compute in bfloat16 where it is safe.
    """

    def __init__(
        self, model: nn.Module, task: Task, optimizer: torch.optim.Optimizer, *, amp: bool
    ) -> None:
        self._model = model
        self._task = task
        self._optimizer = optimizer
        device = next(model.parameters()).device
        # On CPUs bfloat16 is no faster, and its kernels stop the program on some of them.
        self._autocast = torch.autocast(
            device.type, dtype=torch.bfloat16, enabled=amp and device.type != "cpu"
        )
        self._total = torch.zeros((), device=device)

    def __call__(self, images: Tensor, targets: Tensor) -> None:
        """Learn from one batch: images [B, C, H, W], targets [B]."""
        with self._autocast:
            outputs = call(self._model, images)
        losses = self._task.training_loss(logits_of(outputs).float(), targets)
        self._optimizer.zero_grad()
        torch.autograd.backward(losses.mean())
        self._optimizer.step()
        # Summed where it is: fetching each step's loss would make the device wait.
        self._total += losses.detach().sum()

    def take_total(self) -> float:
        """Return the sum of all samples' losses since the last time."""
        total = self._total.item()
        self._total.zero_()
        return total


class RecordedStep(Step):
    """The same step on a GPU, recorded once for each batch shape and replayed.

    A replay launches the whole step at once, so that the GPU does not wait for Python. The first
    steps of each shape are taken plainly; a shape that is rare is never recorded.
    """

    def __init__(
        self, model: nn.Module, task: Task, optimizer: torch.optim.Optimizer, *, amp: bool
    ) -> None:
        super().__init__(model, task, optimizer, amp=amp)
        self._plain_steps: dict[torch.Size, int] = {}
        self._recorded: dict[torch.Size, tuple[torch.cuda.CUDAGraph, Tensor, Tensor]] = {}
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def __call__(self, images: Tensor, targets: Tensor) -> None:
        """Learn from one batch: images [B, C, H, W], targets [B]."""
        shape = images.shape
        if shape in self._recorded:
            graph, fixed_images, fixed_targets = self._recorded[shape]
            fixed_images.copy_(images)
            fixed_targets.copy_(targets)
            graph.replay()
            return
        seen = self._plain_steps.get(shape, 0)
        self._plain_steps[shape] = seen + 1
        if self._recorded or seen < _WARM_UP_STEPS:
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                super().__call__(images, targets)
            torch.cuda.current_stream().wait_stream(self._stream)
            return
        self._record(images, targets)
        self(images, targets)

    def _record(self, images: Tensor, targets: Tensor) -> None:
        fixed = (images.clone(memory_format=torch.preserve_format), targets.clone())
        self._optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            super().__call__(*fixed)
        self._recorded[images.shape] = (graph, *fixed)
