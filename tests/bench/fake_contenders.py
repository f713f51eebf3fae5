"""Contenders whose time is written down beforehand, and a clock that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from steepest.bench.contenders.base import CONTENDERS, Step
from steepest.bench.measuring import Clock


class FakeTime:
    """A clock that stands still except while work is done."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.order: list[str] = []
        self.clock = Clock("fake", lambda: self.seconds)

    def work(self, name: str, durations: Iterable[float]) -> Callable[[], None]:
        """Work that takes each duration in turn, and the last one from then on."""
        left = list(durations)

        def run() -> None:
            self.order.append(name)
            self.seconds += left.pop(0) if len(left) > 1 else left[0]

        return run


def replace_contender(monkeypatch, name: str, prepare) -> None:
    """Put another function under a contender's name for one test."""
    CONTENDERS.names()
    monkeypatch.setitem(CONTENDERS._entries, name, prepare)


def timed_contender(time: FakeTime, name: str, *durations: float, norms: bool = False):
    """A contender of known durations; with ``norms`` it returns ones."""
    run = time.work(name, durations)

    def prepare(case):
        def call():
            run()
            return torch.ones(case.samples) if norms else None

        return Step(call, case.samples)

    return prepare
