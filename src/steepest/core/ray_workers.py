"""Workers on a Ray cluster, or on this machine by Ray.

Ray restarts actors and repeats their tasks. One case is left: an actor whose node is gone
for good waits for another one, and all that was given to it waits with it. So each worker has few
items at a time, none before it is up, and what takes too long is given to an idle worker as well.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import pickle
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch

from steepest.core.memory import is_out_of_memory
from steepest.core.processes import Failure, Work, tried
from steepest.core.wording import counted
from steepest.errors import InputError, SlowPathWarning, SteepestError, in_one_line

if TYPE_CHECKING:
    from types import ModuleType

    from ray import ObjectRef
    from ray.actor import ActorHandle

RESTARTS = {"max_restarts": -1, "max_task_retries": 3}
"""Ray options for restarting killed workers and repeating their tasks."""

_POLL_SECONDS = 0.5
_PATIENCE_SECONDS = 5.0
_LONG = 3
"""An item is given to another worker after this multiple of the usual time, plus seconds."""

_WAITING_SECONDS = 60.0
"""Without a worker for so long, one is told why."""

_UNKNOWN_SECONDS = 20.0
"""The usual time assumed before the first item is finished."""

_START_TRIES = 3

_MEMORY_TRIES = 5
"""For a while, a GPU may still hold the memory of a killed process."""


class RayWorkers:
    """Actors that work for us, from when they are first needed until the ``with`` block ends.

    Args:
        address: Of the cluster; by default the one that this program is connected to, the one that
            ``RAY_ADDRESS`` names, or one that is started on this machine alone.
        count: How many; by default as many as the cluster has room for.
        threads: Cores that each should take.
        gpu: Whether each takes a GPU.
        ahead: Items that each may have: one to work on, others to go on with at once.

    Raises:
        InputError: If Ray is not installed, or has no room for a worker.
    """

    def __init__(
        self,
        *,
        address: str | None = None,
        count: int | None = None,
        threads: int = 1,
        gpu: bool = False,
        ahead: int = 2,
    ) -> None:
        self._address = address
        self._count = count
        self._threads = threads
        self._gpu = gpu
        self._ahead = ahead
        self._ray = import_ray()
        self._actors: list[ActorHandle[Any]] = []
        self._up: list[ActorHandle[Any]] = []
        self._coming: dict[ObjectRef[Any], ActorHandle[Any]] = {}
        self._started_ray = False
        self._made: tuple[Callable[[], Work], ObjectRef[Any]] | None = None
        self._jobs = itertools.count(1)
        self._rounds = itertools.count(1)
        self._job = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._started_ray:  # With Ray they end without a word about what they were at.
            for actor in self._actors:
                self._ray.kill(actor)
        self._actors.clear()
        self._up.clear()
        self._coming.clear()
        if self._started_ray:
            self._ray.shutdown()
            self._started_ray = False
        self._made = None

    def answers(
        self,
        make: Callable[[], Work],
        common: object,
        items: Sequence[object],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Iterator[tuple[int, Any]]:
        """Yield the number of each item and its answer, as they come.

        Args:
            make: Returns the worker function; called in each actor, and again in one that was
                restarted, until there is another.
            common: The data common to all items; sent to each actor once.
            items: One for each piece of work.
            meanwhile: Called now and then.
        """
        if not items:
            return
        if not self._actors:
            self._start()
        if self._made is None or self._made[0] is not make:
            self._made = make, self._ray.put(Packed.of(self._ray, make))
            self._job = next(self._jobs)
        round_, made = (self._job, next(self._rounds)), self._made[1]
        packed = self._ray.put(Packed.of(self._ray, common))
        flights = _Flights(len(items), self._ahead)
        warned = time.monotonic() + _WAITING_SECONDS
        while flights.open:
            meanwhile()
            if not self._up and time.monotonic() > warned:
                warned = math.inf
                self._warn_of_waiting()
            self._take_up(0 if self._up else _POLL_SECONDS)
            for number, actor in flights.next_ones(self._up):
                flights.begin(number, actor, actor.work.remote(round_, made, packed, items[number]))
            if not flights.references:
                continue
            ready, _ = self._ray.wait(list(flights.references), timeout=_POLL_SECONDS)
            for reference in ready:
                answered = flights.end(reference)
                answer = self._answer(reference)
                if answered is not None:
                    yield answered, answer

    def _answer(self, reference: ObjectRef[Any]) -> Any:  # noqa: ANN401
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            raise SteepestError(
                f"a worker on Ray was lost for good ({in_one_line(error)}): run the same command "
                "again to go on"
            ) from error
        if isinstance(answer, Failure):
            raise answer.error
        return answer

    def _take_up(self, timeout_seconds: float) -> None:
        """Note which workers have started; before that, nothing is given to them."""
        if self._coming:
            ready, _ = self._ray.wait(
                list(self._coming), num_returns=len(self._coming), timeout=timeout_seconds
            )
            self._up += [self._coming.pop(reference) for reference in ready]

    def _warn_of_waiting(self) -> None:
        free = self._ray.available_resources()
        warnings.warn(
            f"no worker could be started on Ray yet: {free.get('CPU', 0):g} cores and "
            f"{free.get('GPU', 0):g} GPUs of the cluster are free; end what else runs there, "
            "or add nodes",
            SlowPathWarning,
            stacklevel=2,
        )

    def _start(self) -> None:
        if not self._ray.is_initialized():
            connect(self._ray, self._address)
            self._started_ray = True
        cpus, room = self._room()
        count = room if self._count is None else min(self._count, room)
        kind = self._ray.remote(num_cpus=cpus, num_gpus=int(self._gpu), **RESTARTS)(_Actor)
        self._actors = [kind.remote(str(Path.cwd()), sys.path) for _ in range(count)]
        self._coming = {actor.is_up.remote(): actor for actor in self._actors}

    def _room(self) -> tuple[int, int]:
        """Return the cores per worker, and the number of workers that the nodes can hold."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        useful = [n for n in nodes if n.get("CPU", 0) >= 1 and n.get("GPU", 0) >= int(self._gpu)]
        if not useful:
            what = "a GPU and a core" if self._gpu else "a core"
            raise InputError(f"the Ray cluster has no node with {what} to work on: add one")
        cpus = int(min(self._threads, *(n["CPU"] for n in useful)))
        fitting = (min(n["CPU"] // cpus, n["GPU"] if self._gpu else n["CPU"]) for n in useful)
        return cpus, max(1, int(sum(fitting)))


class Packed:
    """A pickle in parts, whose arrays processes of one machine read where they lie."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = parts

    def __reduce__(self) -> tuple[type[Packed], tuple[list[Any]]]:
        return Packed, (list(self.parts),)

    @classmethod
    def of(cls, ray: ModuleType, value: object) -> Packed:
        """Pack a value; functions and classes of the main file go by what they hold.

        Raises:
            InputError: If it cannot be sent.
        """
        buffers: list[pickle.PickleBuffer] = []
        try:
            data = ray.cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        except SteepestError:
            raise
        except Exception as error:
            raise InputError(
                f"the model, the pool or the strategy cannot be sent to Ray ({in_one_line(error)}):"
                " define it in a module, or give a function that returns the pool"
            ) from error
        return cls([data, *buffers])

    def open(self) -> Any:  # noqa: ANN401
        """Return the value."""
        return pickle.loads(self.parts[0], buffers=self.parts[1:])  # noqa: S301 - of this program


class _Actor:
    """The life of a worker: asked for one item after the other."""

    def __init__(self, folder: str, paths: Sequence[str]) -> None:
        if Path(folder).is_dir():  # Paths that are not absolute mean the same there.
            os.chdir(folder)
        # Where the program that asks finds its modules, as far as that is here, too.
        sys.path += [path for path in paths if path not in sys.path and Path(path).exists()]
        # The worker function is not made here: an error would end the actor without a word, and a
        # restart would want arguments that may be gone.
        self._work: Work | None = None
        self._common: Any = None
        self._round = (0, 0)

    def is_up(self) -> bool:
        """Say that it is there."""
        return True

    def work(self, number: tuple[int, int], make: Packed, common: Packed, item: object) -> Any:  # noqa: ANN401
        """Return the answer to one item of a round of a job, or a ``Failure``."""
        return tried(lambda: self._answered(number, make, common, item))

    def _answered(self, number: tuple[int, int], make: Packed, common: Packed, item: object) -> Any:  # noqa: ANN401
        if self._work is None or number[0] != self._round[0]:
            self._work = None  # Its memory is needed by the next.
            self._work = _patiently(make.open())
        if number != self._round:
            self._common = common.open()
            self._round = number
        return self._work(self._common, item)


class _Flights:
    """Items in flight, with their worker and start time."""

    def __init__(self, count: int, ahead: int) -> None:
        self.references: dict[ObjectRef[Any], tuple[int, ActorHandle[Any]]] = {}
        self._ahead = ahead
        self._waiting = list(range(count))[::-1]
        self._since: dict[int, float] = {}
        self._taken: list[float] = []
        self._left = count

    @property
    def open(self) -> bool:
        """Whether there are items without an answer."""
        return self._left > 0

    def next_ones(
        self, actors: Sequence[ActorHandle[Any]]
    ) -> Iterator[tuple[int, ActorHandle[Any]]]:
        """Yield the next items and their workers."""
        load = dict.fromkeys(actors, 0)
        for _, actor in self.references.values():
            load[actor] = load.get(actor, 0) + 1
        for room in range(self._ahead):
            for actor in actors:
                if self._waiting and load[actor] == room:
                    load[actor] += 1
                    yield self._waiting.pop(), actor
        if self._waiting:
            return
        late = sorted(self._late(), key=self._since.__getitem__)
        for actor, number in zip([a for a in actors if load[a] == 0], late, strict=False):
            yield number, actor

    def begin(self, number: int, actor: ActorHandle[Any], reference: ObjectRef[Any]) -> None:
        """Note that an item was given to someone."""
        self.references[reference] = (number, actor)
        self._since[number] = time.monotonic()

    def end(self, reference: ObjectRef[Any]) -> int | None:
        """Note an answer; return its number, or None if there was one before."""
        number, _ = self.references.pop(reference)
        began = self._since.pop(number, None)
        if began is None:
            return None
        self._taken.append(time.monotonic() - began)
        self._left -= 1
        return number

    def _late(self) -> list[int]:
        usual = sum(self._taken) / len(self._taken) if self._taken else _UNKNOWN_SECONDS
        limit = time.monotonic() - _LONG * usual - _PATIENCE_SECONDS
        return [number for number, began in self._since.items() if began < limit]


def import_ray() -> ModuleType:
    """Return Ray.

    Raises:
        InputError: If it is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Of packages that it would use if they were there.
            import ray
    except ImportError as error:
        raise InputError(
            f"engine 'ray' needs Ray ({in_one_line(error)}): pip install 'steepest[ray]'"
        ) from error
    return ray


def connect(ray: ModuleType, address: str | None) -> None:
    """Connect to a cluster, or start one on this machine that no other can reach.

    Args:
        ray: The module.
        address: As for ``RayWorkers``.

    Raises:
        InputError: If it cannot be reached.
    """
    where = address or os.environ.get("RAY_ADDRESS") or "local"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    logging.getLogger("ray").setLevel(logging.ERROR)
    how: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if where == "local":
        how |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    for attempt in range(1, _START_TRIES + 1):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Of changes to come, which are not the user's.
                ray.init(where, **how)
        except Exception as error:  # Ray raises plain ones, too
            ray.shutdown()
            # A machine that is busy may take longer to start Ray than Ray waits for itself.
            if attempt == _START_TRIES or where != "local":
                raise InputError(
                    f"Ray at {where} cannot be used ({in_one_line(error)}): is the cluster up, and "
                    "of the same versions of Ray and Python?"
                ) from error
        else:
            return


def _patiently(make: Callable[[], Work]) -> Work:
    for attempt in range(1, _MEMORY_TRIES + 1):
        try:
            return make()
        except (RuntimeError, MemoryError) as error:
            if attempt == _MEMORY_TRIES or not is_out_of_memory(error):
                raise
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            time.sleep(attempt)
    raise SteepestError(f"no memory after {counted(_MEMORY_TRIES, 'attempt')}")
