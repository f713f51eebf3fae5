"""One pass over samples whose features are not there yet."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch

from steepest.core.devices import usable_cores
from steepest.core.progress import Step
from steepest.features.store import FeatureStore
from steepest.models.backbones import Backbone

S = TypeVar("S")
R = TypeVar("R", bound="Read")

_AHEAD = 3
_MOST_HELD = 2048
"""Number of cached samples to collect before they are written down."""


@dataclass(frozen=True, eq=False)
class Read:
    """A sample as it was read.

    Attributes:
        digest: Of its content.
        prepared: Input of the backbone; None if its features are kept, or it cannot be used.
    """

    digest: str
    prepared: Any = None


def usual_batch_size(device: torch.device) -> int:
    """Return a number of samples that suits nets for images."""
    return 256 if device.type == "cuda" else 32


@dataclass(frozen=True)
class Pass(Generic[S, R]):
    """Settings of a pass that computes features.

    Attributes:
        backbone: Computes them.
        store: Keeps them; locked by the caller.
        read: Reads a sample; runs in several threads.
        keep: Called with all samples whose features, if any, were just kept.
        batch_size: Samples at once.
        device: The device.
    """

    backbone: Backbone
    store: FeatureStore
    read: Callable[[S], R]
    keep: Callable[[Sequence[tuple[S, R]]], None]
    batch_size: int
    device: torch.device

    def run(self, sources: Sequence[S], step: Step) -> int:
        """Compute missing rows, storing each batch before the next.

        Returns:
            How many rows were computed.
        """
        began, done, computed = time.monotonic(), 0, 0
        held: list[tuple[S, R]] = []
        new: dict[str, Any] = {}
        for source, found in self._read_ahead(sources):
            held.append((source, found))
            if found.prepared is not None:
                new.setdefault(found.digest, found.prepared)
            last = done + len(held) == len(sources)
            if len(new) < self.batch_size and len(held) < _MOST_HELD and not last:
                continue
            if new:
                rows = self.backbone.features(list(new.values()), self.device)
                self.store.add(list(new), rows)
            self.keep(held)
            done, computed = done + len(held), computed + len(new)
            spent = time.monotonic() - began
            step.advance(len(held), say_pace(done, len(sources), spent))
            held, new = [], {}
        return computed

    def _read_ahead(self, sources: Sequence[S]) -> Iterator[tuple[S, R]]:
        """Yield samples in their order; threads read the next ones meanwhile."""
        waiting: deque[tuple[S, Future[R]]] = deque()
        executor = ThreadPoolExecutor(usable_cores(), "steepest-features")
        try:
            for source in sources:
                waiting.append((source, executor.submit(self.read, source)))
                if len(waiting) > _AHEAD * self.batch_size:
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
        finally:
            executor.shutdown(cancel_futures=True)


def say_pace(done: int, total: int, seconds: float) -> str:
    """Say how fast it goes, and about how long the rest takes.

    Args:
        done: Samples so far.
        total: All samples.
        seconds: The time of those so far.
    """
    if not done or seconds <= 0:
        return ""
    pace = done / seconds
    left = (total - done) / pace
    if left < 1:
        return f"{pace:.0f}/s"
    unit, size = next((u, s) for u, s in (("h", 3600), ("min", 60), ("s", 1)) if left >= s)
    return f"{pace:.0f}/s, about {left / size:.0f} {unit} left"
