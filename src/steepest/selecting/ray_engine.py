"""Runs passes over the model in this process or in actors on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Self

from steepest.core.parsing import whole_number
from steepest.core.ray_workers import RayWorkers, import_ray
from steepest.errors import InputError


class OnRay:
    """Passes over the model run in actors on a Ray cluster.

    Actors end with the call they are for; in a ``with`` block they stay for the next one.

    Args:
        address: Of the cluster; by default the one that this program is connected to, the one that
            ``RAY_ADDRESS`` names, or one that is started on this machine alone. ``"auto"`` is one
            that runs here already.
        workers: How many actors; by default as many as the cluster has room for. Each takes as
            many cores as PyTorch has threads here, or a GPU if the model is on one.
        parts: A folder for finished parts, with which the same call resumes after any kill; by
            default none are kept.

    Raises:
        InputError: If a value cannot be used, or Ray is not installed.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        parts: Path | str | None = None,
    ) -> None:
        if workers is not None and (whole_number(workers) or 0) < 1:
            raise InputError(f"workers must be a whole number of at least 1, not {workers!r}")
        import_ray()
        self.address = address
        self.workers = workers
        self.parts = None if parts is None else Path(parts)
        self._kept: dict[tuple[int, bool], RayWorkers] | None = None

    def __enter__(self) -> Self:
        self._kept = {}
        return self

    def __exit__(self, *_: object) -> None:
        kept, self._kept = self._kept or {}, None
        for workers in kept.values():
            workers.__exit__()

    @contextmanager
    def open(self, threads: int, *, gpu: bool) -> Iterator[RayWorkers]:
        """Yield workers.

        Args:
            threads: Cores that each takes.
            gpu: Whether each takes a GPU.
        """
        kept = None if self._kept is None else self._kept.get((threads, gpu))
        if kept is None:
            kept = RayWorkers(address=self.address, count=self.workers, threads=threads, gpu=gpu)
        if self._kept is None:
            with kept:
                yield kept
        else:
            self._kept[threads, gpu] = kept
            yield kept


Engine = Literal["here", "ray"] | OnRay
"""Where work is done; ``OnRay`` says on which cluster, and keeps finished parts."""


def as_engine(engine: object) -> OnRay | None:
    """Return how work is given to a Ray cluster; None if it is done here.

    Raises:
        InputError: If it is no engine, or Ray is not installed.
    """
    if isinstance(engine, OnRay):
        return engine
    if engine not in ("here", "ray"):
        raise InputError(f"engine must be 'here', 'ray' or OnRay(…), not {engine!r}")
    return OnRay() if engine == "ray" else None
