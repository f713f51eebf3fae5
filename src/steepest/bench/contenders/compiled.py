"""Compiled forms: on a GPU with the whole pass recorded as one CUDA graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch

from steepest.bench.case import Case
from steepest.bench.contenders.base import CONTENDERS, Step
from steepest.gradnorm import GradientNorms

_RUNS_BEFORE_RECORDING = 3


@CONTENDERS.register("plain-compiled")
def prepare_plain_compiled(case: Case) -> Step:
    """Make the plain forward and backward pass ready, compiled."""
    parameters = case.parameters

    # The model alone: the loss is a handful of numbers, and cannot be recorded when compiled.
    compiled = torch.compile(case.model)

    def run() -> None:
        with warnings.catch_warnings():
            # The compiler's hints are about speed, which is what is measured.
            warnings.simplefilter("ignore")
            loss = case.losses(compiled, case.inputs).sum()
            torch.autograd.grad(loss, parameters, allow_unused=True)

    if case.device.type != "cuda":
        return Step(run, case.samples, "torch.compile")
    replay = _record(run, case.device)
    return Step(replay, case.samples, "torch.compile, one CUDA graph", holds_memory=True)


@CONTENDERS.register("ours-compiled")
def prepare_ours_compiled(case: Case) -> Step:
    """Make the norms of this library ready, compiled."""
    norms = GradientNorms(case.model, "entropy", precision=case.precision, compiled=True)
    return Step(lambda: norms(case.inputs), case.samples, holds_memory=True)


def _record(run: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """Record one run as a CUDA graph, after runs that compile and choose kernels."""
    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(_RUNS_BEFORE_RECORDING):
            run()
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        run()
    return graph.replay
