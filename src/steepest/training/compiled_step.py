"""The step with fused kernels: traced from the model, rewritten, and recorded as one graph."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from steepest.tasks import Task
from steepest.training.convolutions import reword_convolutions
from steepest.training.lanes import TwoLanes, set_weight_gradients_aside
from steepest.training.rewrite import (
    leave_gradients_narrow,
    settle_constants,
    simplify,
    take_casts_out,
)
from steepest.training.step import Form, RecordedStep, form_of, warn_of_slower_steps
from steepest.training.trace import Trace, trace_step
from steepest.training.update import ParameterUpdate


class Program:
    """Takes steps by a rewritten list of operators.

    Args:
        traced: The operators of a step; they are rewritten.
        optimizer: Owns the parameters.
    """

    def __init__(self, traced: Trace, optimizer: torch.optim.Optimizer) -> None:
        graph, parameters = traced.graph.graph, traced.parameters
        settle_constants(traced.graph)
        simplify(graph)
        reword_convolutions(graph)
        types = take_casts_out(graph, len(parameters))
        leave_gradients_narrow(graph)
        set_weight_gradients_aside(graph)
        graph.lint()
        self._run = TwoLanes(traced.graph, parameters[0].device)
        copies = {
            place: torch.empty_like(parameters[place], dtype=kind, requires_grad=False)
            for place, kind in types.items()
        }
        values = [copies.get(place, p.detach()) for place, p in enumerate(parameters)]
        self._inputs = (*values, *traced.buffers)
        self.update = ParameterUpdate(optimizer, parameters, copies)

    def __call__(self, images: Tensor, targets: Tensor) -> Tensor:
        """Learn from one batch; return the sum of the losses."""
        total: Tensor
        with torch.no_grad():
            total, *gradients = self._run(*self._inputs, images, targets)
        self.update(gradients)
        return total


class CompiledStep(RecordedStep):
    """A recorded step whose operators were fused before.

    Batches of the form that comes first are compiled at once, so that a training that was stopped
    goes on with the same arithmetic; others, such as the last of each epoch, are recorded as they
    are. A model that cannot be traced is recorded as it is, too.
    """

    def __init__(
        self, model: nn.Module, task: Task, optimizer: torch.optim.Optimizer, *, amp: bool
    ) -> None:
        super().__init__(model, task, optimizer, amp=amp)
        self._form: Form | None = None
        self._program: Program | None = None

    def _learn(self, images: Tensor, targets: Tensor) -> None:
        form = form_of(images, targets)
        if self._form is None:
            self._form = form
            self._try(lambda: self._compile(images, targets))
        compiled = form == self._form and self._program is not None
        if compiled and self._try(lambda: self._learn_by_program(images, targets)):
            return
        super()._learn(images, targets)
        if self._program is not None:
            self._program.update.refresh()

    def _record(self, form: Form, images: Tensor, targets: Tensor) -> None:
        super()._record(form, images, targets)
        if form == self._form and self._program is not None:
            self._program.update.after_recording()

    def _compile(self, images: Tensor, targets: Tensor) -> None:
        traced = trace_step(self._model, self._task, images, targets, self._autocast)
        self._program = Program(traced, self._optimizer)

    def _learn_by_program(self, images: Tensor, targets: Tensor) -> None:
        if self._program is not None:
            self._total += self._program(images, targets)

    def _try(self, work: Callable[[], None]) -> bool:
        """Return whether it worked out; if not, say so once and do without."""
        if torch.cuda.is_current_stream_capturing():
            work()  # The one who records deals with failures.
            return True
        try:
            work()
        except Exception as error:  # noqa: BLE001 - any model, and any compiler's trouble
            self._program = None
            warn_of_slower_steps("compiled", error)
            return False
        return True
