"""Measurements of batches of one shape as one CUDA graph each: a batch costs one launch.

The engine's own work on the host would otherwise take longer than the device's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from steepest.core.memory import is_out_of_memory
from steepest.modules import batches
from steepest.modules.batches import Inputs

Step = Callable[[Inputs], tuple[Any, list[Tensor], Tensor]]
"""Measures a batch: outputs, tables [N, P] for each loss, and whether sums cancelled."""

_SIGHTINGS = 2
"""A shape has to come back before it is worth a recording."""

_KEPT = 2
_REMEMBERED = 16


def form_of(inputs: Inputs) -> tuple[object, ...]:
    """Return the key of a batch: batches with equal keys share a recording."""
    # What goes by another name, or comes in another order, is something else.
    names = tuple(inputs) if isinstance(inputs, Mapping) else ()
    tensors = batches.tensors_of(inputs)
    return names, *((t.shape, t.stride(), t.dtype, t.device) for t in tensors)


class Recorder:
    """Recordings by what they depend on; the oldest make room for new ones."""

    def __init__(self) -> None:
        self._sightings: OrderedDict[object, int] = OrderedDict()
        self._recordings: OrderedDict[object, Recording | None] = OrderedDict()

    def start(self, key: object, inputs: Inputs) -> Recording | None:
        """Start to measure a batch if there is a recording for it."""
        recording = self._recordings.get(key)
        if recording is not None:
            recording.start(inputs)
        return recording

    def wants(self, key: object) -> bool:
        """Say whether a batch should be recorded, having come once more."""
        if key in self._recordings:
            return False
        seen = self._sightings.get(key, 0) + 1
        self._sightings[key] = seen
        while len(self._sightings) > _REMEMBERED:
            self._sightings.popitem(last=False)
        return seen >= _SIGHTINGS

    def record(self, key: object, inputs: Inputs, step: Step, state: object) -> Recording | None:
        """Record the measurement of a batch; what cannot be recorded is left alone ever after."""
        while len(self._recordings) >= _KEPT:
            self._recordings.popitem(last=False)
        try:
            self._recordings[key] = Recording(inputs, step, state)
        except (RuntimeError, MemoryError) as error:
            # Values that are requested on the host, or too little memory for a second copy.
            self._recordings[key] = None
            if is_out_of_memory(error):
                torch.cuda.empty_cache()
        return self._recordings[key]

    def drop(self, key: object) -> None:
        """Forget a recording that holds no longer."""
        self._recordings.pop(key, None)

    def clear(self) -> None:
        """Forget all recordings: their measurements are made in another way from now on."""
        self._recordings.clear()


class Recording:
    """One CUDA graph with its own buffers for inputs and results.

    Args:
        inputs: A batch of the form that it will be given.
        step: Measures it.
        state: The state of the model at that time.
    """

    def __init__(self, inputs: Inputs, step: Step, state: object) -> None:
        self.state = state
        self._inputs = batches.cloned(inputs)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            outputs, self._tables, self._cancelled = step(self._inputs)
            self._outputs = pytree.tree_map_only(Tensor, lambda t: t.detach(), outputs)
            del outputs

    def start(self, inputs: Inputs) -> None:
        """Measure a batch; returns at once."""
        given = zip(batches.tensors_of(self._inputs), batches.tensors_of(inputs), strict=True)
        for mine, theirs in given:
            mine.copy_(theirs)
        self._graph.replay()

    def finish(self) -> tuple[Any, list[Tensor]] | None:
        """Return copies of outputs and tables; None if sums cancelled."""
        outputs = pytree.tree_map_only(Tensor, lambda t: t.clone(), self._outputs)
        tables = [table.clone() for table in self._tables]
        return None if bool(self._cancelled) else (outputs, tables)


_PLAIN = (int, float, bool, str, type(None))
_OWN = frozenset(vars(nn.Module())) - {"training"}
"""What every module has; parameters, buffers and layers are looked at on their own."""


def state_of(model: nn.Module) -> tuple[object, ...]:
    """Return everything that must stay the same for a recording of a model to hold.

    Weights and buffers may change in place, as in training. Other tensors, another mode or other
    attributes, such as a temperature, make another model of it.
    """
    tensors = [
        (id(tensor), tensor.data_ptr(), tensor.requires_grad)
        for tensor in (*model.parameters(), *model.buffers())
    ]
    attributes = [
        _mark(value)
        for module in model.modules()
        for name, value in vars(module).items()
        if name not in _OWN
    ]
    return (tuple(tensors), tuple(attributes))


def _mark(value: Any) -> object:  # noqa: ANN401 - any attribute
    """Return something that differs if an attribute does."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Tensor):
        return id(value), value._version  # noqa: SLF001 - cheaper than its values
    if isinstance(value, dict):
        return tuple((key, _mark(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(_mark(item) for item in value)
    return id(value)
