"""Training a committee side by side, in worker processes that stay for the next cycle.

A process is sent all that ``fit`` takes, and nothing else decides what comes out: the weights are
those of a training in this process. It is a way to run an experiment, and no part of what it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from steepest.core.devices import usable_cores
from steepest.core.memory import Measurement, free_bytes, is_out_of_memory, measured
from steepest.core.processes import SpawnedWorkers, Work, WorkerEndedError, name_end, tell
from steepest.core.progress import Progress, Step
from steepest.core.torch_settings import rounding_settings, take_over_rounding
from steepest.data.shared_arrays import can_be_sent
from steepest.errors import InputError, SlowPathWarning, SteepestError
from steepest.experiment.record import Cost
from steepest.training import fit
from steepest.training.fit import FitResult
from steepest.training.gpu_sharing import shared_gpu

_CONTEXT_BYTES = 1 << 30
_SPARE = 1.5
"""GPU memory of a process beside its tensors: a constant, and a share of them."""

_AGAIN = "run the same command again to go on, with fewer at a time (--member-jobs)"


@dataclass(frozen=True)
class Trained:
    """Result of a training in a worker.

    Attributes:
        state: The trained weights, by name.
        result: How it went.
        spent: The measurements of the process.
        warned: Its warnings, as ``warnings.warn_explicit`` takes them.
    """

    state: Mapping[str, Any]
    result: FitResult
    spent: Measurement
    warned: tuple[tuple[str, type[Warning], str, int], ...]


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
        self._team: SpawnedWorkers | None = None
        self._size = 0
        self._service = ExitStack()
        self._gpu_is_shared: bool | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._team is not None:  # What is under way can be resumed: no one has to wait for it.
            self._team.__exit__(kind)
        self._team = None
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
            common: The arguments of ``fit`` common to all of them, except ``progress``.
            trainings: What it takes for each: the model, on the CPU, and what else differs.
            progress: Updated after each epoch of any of them.
            peak_bytes: The GPU memory of one such training.

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
            if self._team is None:
                self._team, self._size = SpawnedWorkers(count), count
            for_all = (rounding_settings(), {**common, "device": _exactly(device)})
            epochs = len(trainings) * common["recipe"].epochs
            with progress.task("train the committee", epochs) as step:
                done = _train_all(self._team, for_all, trainings, step)
            shown: dict[str | tuple[str, type[Warning], int], int] = {}
            for training, trained in zip(trainings, done, strict=True):
                _take_over(training["model"], trained, device)
                for warning in trained.warned:
                    warnings.warn_explicit(*warning, registry=shown)  # Once for all processes.
        return _cost(done, spent, count)

    def _count(self, trainings: int, device: torch.device, peak_bytes: int) -> int:
        """Return how many are to be trained at a time."""
        if self._team is not None:
            return self._size
        at_once = self._at_once
        if at_once != 1 and device.type == "cuda":
            if self._gpu_is_shared is None:
                self._gpu_is_shared = self._service.enter_context(shared_gpu())
            if at_once is None and self._gpu_is_shared:  # Taking turns would gain little.
                torch.cuda.empty_cache()
                room = free_bytes(device) / (_SPARE * peak_bytes + _CONTEXT_BYTES)
                at_once = min(int(room), usable_cores())
        return min(at_once or 1, trainings)


def _train_all(
    team: SpawnedWorkers, common: object, trainings: Sequence[Mapping[str, Any]], step: Step
) -> list[Trained]:
    done: dict[int, Trained] = {}

    def show(epochs: int) -> None:
        step.advance(epochs, note=f"{len(done)} of {len(trainings)} trained")

    try:
        for place, trained in team.answers(_trainer, common, trainings, told=show):
            done[place] = trained
            show(0)
    except WorkerEndedError as error:
        reason = name_end(error.code) + ("; out of memory?" if error.code < 0 else "")
        raise SteepestError(
            f"a worker process that trained for the committee was killed ({reason}): {_AGAIN}"
        ) from error
    return [done[place] for place in sorted(done)]


class _Telling:
    """Progress that is sent to the process that started this one."""

    @contextmanager
    def task(self, description: str, total: int) -> Iterator[Self]:  # noqa: ARG002 - as asked for
        yield self

    def advance(self, amount: int = 1, note: str = "") -> None:  # noqa: ARG002 - as asked for
        tell(amount)


def _trainer() -> Work:
    return _train


def _train(common: tuple[Mapping[str, Any], Mapping[str, Any]], own: Mapping[str, Any]) -> Trained:
    """Train one model, in a worker process."""
    settings, shared = common
    arguments: dict[str, Any] = {**shared, **own}
    take_over_rounding(settings)
    try:
        with (
            warnings.catch_warnings(record=True) as warned,
            measured(arguments["device"]) as spent,
        ):
            result = fit(**arguments, progress=_Telling())
        state = {
            name: value.detach().cpu() if isinstance(value, Tensor) else value
            for name, value in arguments["model"].state_dict().items()
        }
    except Exception as error:
        if is_out_of_memory(error):
            raise SteepestError(
                f"the memory is too small for trainings side by side: {_AGAIN}"
            ) from error
        raise
    torch.cuda.empty_cache()  # Others may need it before the next training.
    shown = tuple((str(w.message), w.category, w.filename, w.lineno) for w in warned)
    return Trained(state, result, spent, shown)


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
