"""The same work again and again: on a GPU recorded once and replayed."""

from __future__ import annotations

from collections.abc import Callable

import torch

from steepest.errors import SteepestError
from steepest.training.fast.step import warn_of_slower_steps

_PLAIN_RUNS = 3
"""Runs before the work is recorded, so that all lazy set-up is done."""


class RecordedWork:
    """Runs work that reads and writes the same tensors every time.

    What cannot be recorded is run plainly ever after.

    Args:
        work: Asks the device for no values on its way.
        device: The device.
    """

    def __init__(self, work: Callable[[], None], device: torch.device) -> None:
        self._work = work
        self._on_gpu = device.type == "cuda"
        self._runs = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._stream = torch.cuda.Stream(device) if self._on_gpu else None  # type: ignore[no-untyped-call]

    def __call__(self) -> None:
        """Do the work once."""
        if self._stream is None:
            self._work()
            return
        if self._graph is None and self._runs == _PLAIN_RUNS:
            self._graph = self._record(self._stream)
        self._runs += 1
        if self._graph is not None:
            self._graph.replay()
            return
        # Where it will be recorded, so that memory is not taken twice.
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            self._work()
        torch.cuda.current_stream().wait_stream(self._stream)

    def _record(self, stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph | None:
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                self._work()
        except (RuntimeError, SteepestError) as error:
            torch.cuda.empty_cache()
            warn_of_slower_steps("recorded as a CUDA graph", error)
            return None
        return graph
