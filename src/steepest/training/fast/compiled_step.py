"""The step with fused kernels: traced from the model, rewritten, and recorded as one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Interpreter, Node

from steepest.tasks import Task
from steepest.training.fast import kernels  # noqa: F401 - registers the operators
from steepest.training.fast.rewrite import (
    fold_constants,
    leave_gradients_narrow,
    replace_slow_convolutions,
    simplify,
    take_casts_out,
)
from steepest.training.fast.step import Form, RecordedStep, form_of, warn_of_slower_steps
from steepest.training.fast.trace import Trace, trace_step
from steepest.training.fast.update import ParameterUpdate

_BACKWARD = torch.ops.aten.convolution_backward.default
_MASK = 10
"""The place among its arguments of what is requested: gradients of input, weight and bias."""

_WEIGHTS = (torch.ops.steepest.few_channels_weight.default,)
_ASIDE = "aside"


class Program:
    """Takes steps by a rewritten list of operators.

    Args:
        traced: The operators of a step; they are rewritten.
        optimizer: Owns the parameters.
    """

    def __init__(self, traced: Trace, optimizer: torch.optim.Optimizer) -> None:
        graph, parameters = traced.graph.graph, traced.parameters
        fold_constants(traced.graph)
        simplify(graph)
        replace_slow_convolutions(graph)
        types = take_casts_out(graph, len(parameters))
        leave_gradients_narrow(graph)
        mark_weight_gradients(graph)
        graph.lint()
        self._run = TwoStreams(traced.graph, parameters[0].device)
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


def mark_weight_gradients(graph: Graph) -> None:
    """Mark all that leads to weights' gradients alone, having torn it from the rest."""
    if _changes_late(graph):
        return
    for node in list(graph.nodes):
        if node.target is _BACKWARD:
            _split(graph, node)
        elif node.target in _WEIGHTS:
            node.meta[_ASIDE] = True
    for node in graph.nodes:
        if node.op == "call_function" and any(n.meta.get(_ASIDE) for n in node.all_input_nodes):
            node.meta[_ASIDE] = True


def _changes_late(graph: Graph) -> bool:
    """Say whether tensors change in place while another stream may read them."""
    begun = False
    for node in graph.nodes:
        begun = begun or node.target is _BACKWARD or node.target in _WEIGHTS
        schema = getattr(node.target, "_schema", None)
        if begun and schema is not None and schema.is_mutable:
            return True
    return False


def _split(graph: Graph, node: Node) -> None:
    wanted: Any = node.args[_MASK]
    to_input, to_weight, to_bias = wanted
    if not to_weight:
        return
    if not to_input:
        node.meta[_ASIDE] = True
        return
    with graph.inserting_after(node):
        other = graph.call_function(_BACKWARD, (*node.args[:_MASK], [False, True, to_bias]))
    other.meta.update(node.meta)
    other.meta[_ASIDE] = True
    for part in list(node.users):
        if part.args[1] != 0:
            part.replace_input_with(node, other)
    node.args = (*node.args[:_MASK], [True, False, False])


class TwoStreams(Interpreter):
    """Runs a marked graph on two streams: weight gradients beside the chain of all the rest.

    Nothing waits for a weight's gradient before the update, while those of activations depend
    on each other. Side by side, they fill processors that either of them would leave idle.

    Args:
        module: Holds the graph.
        device: On a GPU, what is marked runs on its own stream.
    """

    def __init__(self, module: GraphModule, device: torch.device) -> None:
        super().__init__(module)
        # The chain of all the rest goes first wherever both want a processor.
        self._aside = torch.cuda.Stream(device, priority=0) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._held: list[Any] = []

    def __call__(self, *tensors: Tensor) -> Any:  # noqa: ANN401 - what the graph returns
        """Return the results of the graph; the current stream waits for all of them."""
        try:
            results = self.run(*tensors)
            if self._held and self._aside is not None:
                torch.cuda.current_stream().wait_stream(self._aside)
        finally:
            self._held.clear()
        return results

    def run_node(self, n: Node) -> Any:  # noqa: ANN401 - as the node returns
        """Run one operator, on the stream that it belongs to."""
        if self._aside is None or not n.meta.get(_ASIDE):
            return super().run_node(n)
        self._aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._aside):
            result = super().run_node(n)
        # Memory that the other stream still reads must not be given away by this one.
        self._held.append((self.fetch_args_kwargs_from_env(n), result))
        return result
