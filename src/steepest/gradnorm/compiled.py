"""A whole measurement as one compiled program: forward, backward and every layer's norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from steepest.core.memory import is_out_of_memory
from steepest.errors import ModelError
from steepest.gradnorm.engine import Engine
from steepest.gradnorm.recorded import form_of, state_of
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.modules.losses import Loss, resolve

Program = Callable[..., tuple[Tensor, Tensor]]
"""Takes the tensors of a batch; returns squared norms [N, P] and whether sums cancelled."""

_WARM_UP = 3

_VIEWS = frozenset(
    getattr(torch.ops.aten, name).default for name in ("view", "_unsafe_view", "unsqueeze")
) | {torch.ops.aten.squeeze.dim, torch.ops.aten.reshape.default}


class Compiled:
    """Measures batches by a program made for their shape.

    The program is traced from what the engine itself does, so that it computes the same for any
    module that the engine can watch. Where that is not the case, or sums cancelled, the engine
    measures the batch.

    Args:
        engine: Measures what no program can.
        loss: A name or a callable.
        look: Told of the outputs of batches that the engine measures, the first among them.
    """

    def __init__(self, engine: Engine, loss: Loss, look: Callable[[Any], None]) -> None:
        self._engine, self._loss, self._look = engine, loss, look
        self._programs: dict[object, tuple[Program | None, object]] = {}
        self._classes = 0

    def __call__(self, inputs: Inputs, targets: Tensor | None) -> Tensor:
        """Return squared norms [N, P] of a batch."""
        given = batches.detached(inputs)
        tensors = [t for t in pytree.tree_leaves((given, targets)) if t is not None]
        key = (form_of(given), None if targets is None else form_of(targets))
        program, state = self._programs.get(key, (None, None))
        found = None
        if isinstance(program, _Recorded) and self._targets_fit(targets):
            # The device works while the host makes sure that the program still holds.
            found = program(*tensors)
        if key not in self._programs or state != state_of(self._engine.model):
            state, found = state_of(self._engine.model), None
            program = self._program(given, targets, tensors)
            self._programs[key] = (program, state)
        # Any other program would look at weights that may be of another shape by now.
        if found is None and program is not None and self._targets_fit(targets):
            found = program(*tensors)
        self._engine.check()
        if found is not None and not bool(found[1]):
            return found[0].clone()
        losses = resolve(self._loss, targets, batches.count(inputs))
        outputs, (squares,) = self._engine.squared_norms(given, losses)
        self._look(outputs)
        return squares

    def _targets_fit(self, targets: Tensor | None) -> bool:
        """Say whether a program can look up all labels; the engine says what is wrong."""
        if self._loss != "cross-entropy" or targets is None or targets.numel() == 0:
            return True
        return int(targets.min()) >= 0 and int(targets.max()) < self._classes

    def _program(
        self, inputs: Inputs, targets: Tensor | None, tensors: list[Tensor]
    ) -> Program | None:
        """Trace, compile and record the measurement of a batch; None if that is not possible."""
        losses = resolve(self._loss, targets, batches.count(inputs))
        # Makes the plan, and shows what cancels.
        outputs, _ = self._engine.squared_norms(inputs, losses)
        self._look(outputs)
        if self._loss == "cross-entropy":
            self._classes = batches.logits_of(outputs).shape[1]
        if self._engine.slow_names():
            return None
        values, nest = pytree.tree_flatten(inputs)

        def measure(*flat: Tensor) -> tuple[Tensor, Tensor]:
            batch = pytree.tree_unflatten(list(flat[: len(values)]), nest)
            labels = None if targets is None else flat[-1]
            unchecked = resolve(self._loss, labels, batches.count(batch), checked=False)
            _, (squares,), cancelled = self._engine.traceable(batch, unchecked)
            return squares, cancelled

        try:
            with self._engine.tracing():
                traced = make_fx(measure)(*tensors)
        except (RuntimeError, ModelError):
            return None  # The model asks for values on its way, or does what cannot be watched.
        merge_unit_dimensions(traced.graph)
        traced.graph.eliminate_dead_code()
        traced.recompile()
        return _compiled(traced, tensors, self._engine.device)


def merge_unit_dimensions(graph: Graph) -> None:
    """Let a program work on [N, ...] wherever samples went through the model as [N, 1, ...].

    Compilers copy what is seen in another shape than it was made in, where channels come last.
    """
    merged: dict[Node, Node] = {}
    for node in list(graph.nodes):
        if node.target is torch.ops.aten.detach.default:
            node.replace_all_uses_with(node.args[0])
        elif node.target in _VIEWS and node.args:
            source, shape = node.args[0], _shape_of(node)
            if _has_unit(shape, _shape_of(source)):
                merged[node] = source
            elif _has_unit(_shape_of(source), shape) and source in merged:
                node.replace_all_uses_with(merged[source])
        elif torch.Tag.pointwise in getattr(node.target, "tags", ()):
            given = [one for one in node.all_input_nodes if _shape_of(one)]
            if merged.keys().isdisjoint(given) or {*map(_shape_of, given)} != {_shape_of(node)}:
                continue
            with graph.inserting_before(node):
                for one in given:
                    if one not in merged:
                        merged[one] = graph.call_function(torch.ops.aten.squeeze.dim, (one, 1))
                inner = graph.node_copy(node, lambda one: merged.get(one, one))
                outer = graph.call_function(torch.ops.aten.unsqueeze.default, (inner, 1))
            outer.meta = dict(node.meta)
            inner.meta = {"val": node.meta["val"].squeeze(1)}
            merged[outer] = inner
            node.replace_all_uses_with(outer)
            graph.erase_node(node)


def _shape_of(node: Any) -> tuple[int, ...]:  # noqa: ANN401 - an argument of any kind
    value = node.meta.get("val") if isinstance(node, Node) else None
    return tuple(value.shape) if isinstance(value, Tensor) else ()


def _has_unit(long: tuple[int, ...], short: tuple[int, ...]) -> bool:
    """Say whether a shape is another one with a second dimension of one more."""
    return len(short) > 0 and long == (short[0], 1, *short[1:])


def _compiled(traced: Program, tensors: list[Tensor], device: torch.device) -> Program | None:
    """Return a traced program compiled; None where there is no compiler for it."""
    try:
        compiled = torch.compile(traced, dynamic=False, fullgraph=True)
        if device.type == "cuda":
            return _Recorded(compiled, tensors)
        program: Program = torch.no_grad()(compiled)
        program(*tensors)  # Compilers start to work when a program is first run.
    except (RuntimeError, OSError, ImportError) as error:
        if is_out_of_memory(error):
            raise
        return None
    return program


class _Recorded:
    """A program as one CUDA graph: a batch costs one launch.

    Args:
        program: Takes the tensors of a batch.
        tensors: A batch of the shape that it will be given.
    """

    def __init__(self, program: Program, tensors: list[Tensor]) -> None:
        self._tensors = [tensor.clone() for tensor in tensors]
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(side):
            for _ in range(_WARM_UP):
                program(*self._tensors)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self._results = program(*self._tensors)

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        """Return the program's result for a batch; overwritten by the next."""
        for mine, given in zip(self._tensors, tensors, strict=True):
            mine.copy_(given)
        self._graph.replay()
        return self._results
