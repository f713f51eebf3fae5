"""Running a traced step on two streams: weight gradients beside the chain of all the rest.

Nothing waits for a weight's gradient before the update, while the gradients of activations depend
on each other. Side by side, they fill processors that either of them would leave idle.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Interpreter, Node

from steepest.training import kernels  # noqa: F401 - registers the operators

_BACKWARD = torch.ops.aten.convolution_backward.default
_MASK = 10
"""The place among its arguments of what is asked for: gradients of input, weight and bias."""

_WEIGHTS = (torch.ops.steepest.few_channels_weight.default,)
_ASIDE = "aside"


def set_weight_gradients_aside(graph: Graph) -> None:
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


class TwoLanes(Interpreter):
    """Runs a marked graph.

    Args:
        module: Holds the graph.
        device: On a GPU, what is marked runs on a stream of its own.
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
