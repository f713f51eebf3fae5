"""Training a committee side by side, in worker processes that stay for the next cycle.

A process is sent all that ``fit`` takes, and nothing else decides what comes out: the weights are
those of a training in this process. It is a way to run an experiment, and no part of what it is.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from multiprocessing.connection import wait
from typing import Any, Self

import torch
from torch import nn

from steepest.core.devices import usable_cores
from steepest.core.memory import Measurement, free_bytes, measured
from steepest.core.progress import Progress, Step
from steepest.core.torch_settings import rounding_settings
from steepest.data.shared_arrays import can_be_sent
from steepest.errors import InputError, SlowPathWarning
from steepest.experiment.record import Cost
from steepest.experiment.training_worker import Trained, TrainingWorker
from steepest.training.gpu_sharing import shared_gpu

_CONTEXT_BYTES = 1 << 30
_SPARE = 1.5
"""GPU memory of a process beside its tensors: a constant, and a share of them."""


class SideBySide:
    """Worker processes that train, from when they are first needed until the ``with`` block ends.

    Args:
        at_once: How many trainings at a time. None stands for as many as a GPU that processes can
            share has memory for, and the machine has cores for; elsewhere for one.

    Raises:
        InputError: If that is no number of trainings.
    """

    def __init__(self, at_once: int | None = None) -> None:
        if at_once is not None and at_once < 1:
            raise InputError(f"member_jobs must be at least 1, not {at_once}")
        self._at_once = at_once
        self._workers: list[TrainingWorker] = []
        self._service = ExitStack()
        self._gpu_is_shared: bool | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        # What is under way can be resumed: no one has to wait for it.
        for worker in self._workers:
            worker.stop(at_once=kind is not None)
        for worker in self._workers:
            worker.wait()
        self._workers.clear()
        self._service.close()
        self._gpu_is_shared = None

    def train(
        self,
        common: Mapping[str, Any],
        trainings: Sequence[Mapping[str, Any]],
        progress: Progress,
        peak_bytes: int,
    ) -> Cost | None:
        """Train models in place, if it can be done side by side.

        Args:
            common: What ``fit`` takes for all of them, but ``progress``.
            trainings: What it takes for each: the model, on the CPU, and what else differs.
            progress: Updated after each epoch of any of them.
            peak_bytes: What one such training takes of a GPU's memory.

        Returns:
            What it cost; None if they have to be trained here, one after the other.

        Raises:
            SteepestError: If a process was killed, or memory ran out.
        """
        device: torch.device = common["device"]
        count = self._count(len(trainings), device, peak_bytes)
        if count < 2 or not _can_be_sent(common, trainings):
            return None
        with measured(device) as spent:
            if device.type == "cuda":
                torch.cuda.empty_cache()  # Those who train now need it more.
            while len(self._workers) < count:
                self._workers.append(TrainingWorker())
            for_all = pickle.dumps((rounding_settings(), {**common, "device": _exactly(device)}))
            epochs = len(trainings) * common["recipe"].epochs
            with progress.task("train the committee", epochs) as step:
                done = self._take_turns(for_all, [pickle.dumps(t) for t in trainings], step)
            shown: dict[str | tuple[str, type[Warning], int], int] = {}
            for training, trained in zip(trainings, done, strict=True):
                _take_over(training["model"], trained, device)
                for warning in trained.warned:
                    warnings.warn_explicit(*warning, registry=shown)  # Once for all processes.
        return _cost(done, spent, count)

    def _count(self, trainings: int, device: torch.device, peak_bytes: int) -> int:
        """Return how many are to be trained at a time."""
        if self._workers:
            return len(self._workers)
        at_once = self._at_once
        if at_once != 1 and device.type == "cuda":
            if self._gpu_is_shared is None:
                self._gpu_is_shared = self._service.enter_context(shared_gpu())
            if at_once is None and self._gpu_is_shared:  # Taking turns would gain little.
                torch.cuda.empty_cache()
                room = free_bytes(device) / (_SPARE * peak_bytes + _CONTEXT_BYTES)
                at_once = min(int(room), usable_cores())
        return min(at_once or 1, trainings)

    def _take_turns(self, common: bytes, trainings: Sequence[bytes], step: Step) -> list[Trained]:
        done: dict[int, Trained] = {}
        waiting = list(enumerate(trainings))
        idle, busy = list(self._workers), dict[Any, tuple[TrainingWorker, int]]()
        while waiting or busy:
            while waiting and idle:
                worker, (place, training) = idle.pop(0), waiting.pop(0)
                worker.give(common, training)
                busy[worker.line] = (worker, place)
            for line in wait(list(busy)):
                worker, place = busy[line]
                message = worker.take()
                if isinstance(message, Trained):
                    done[place] = message
                    idle.append(worker)
                    del busy[line]
                note = f"{len(done)} of {len(trainings)} trained"
                step.advance(0 if isinstance(message, Trained) else message, note=note)
        return [done[place] for place in sorted(done)]


def _can_be_sent(common: Mapping[str, Any], trainings: Sequence[Mapping[str, Any]]) -> bool:
    if can_be_sent((common, trainings)):
        return True
    warnings.warn(
        "the committee is trained one model after the other: the model, the data set or the task "
        "cannot be sent to worker processes; define them in a module, and not within a function",
        SlowPathWarning,
        stacklevel=4,
    )
    return False


def _exactly(device: torch.device) -> torch.device:
    """Return a device by its number: the current one is another process's own."""
    if device.type != "cuda" or device.index is not None:
        return device
    return torch.device("cuda", torch.cuda.current_device())


def _take_over(model: nn.Module, trained: Trained, device: torch.device) -> None:
    """Leave a model as its training here would have."""
    model.load_state_dict(trained.state)
    model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    model.to(device).eval()


def _cost(done: Sequence[Trained], spent: Measurement, count: int) -> Cost:
    """Return the cost of parallel training runs.

    Seconds are those of the clock; what was trained before a restart counts with as much overlap.
    Memory is the most that all processes may have held at one time.
    """
    now = sum(trained.spent.seconds for trained in done)
    before = sum(max(0.0, trained.result.seconds - trained.spent.seconds) for trained in done)
    peaks = sorted(trained.spent.peak_bytes for trained in done)
    return Cost(
        seconds=spent.seconds * (1 + before / now),
        peak_bytes=spent.peak_bytes + sum(peaks[-count:]),
    )
