"""Choose the cheapest of several exact routes to one number: by count, or by the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from steepest.core.memory import is_out_of_memory
from steepest.gradnorm import kernels

_ROUNDS = 3

CHUNK_FLOATS = 2**24
"""Scratch space of a route, in numbers: 64 MiB in single precision."""

_WORTH_A_TRY = 8
"""A route with so many times the multiplications of the cheapest is not put to the clock."""

GRAM_ROUTES = frozenset({"gram", "fused-gram"})
"""Routes that subtract: where the terms of a sum cancel, they lose digits."""


class StopWatch:
    """Measures routes in turns, and remembers which was fastest."""

    def __init__(self) -> None:
        self._winners: dict[str, str] = {}

    def fastest(self, key: str, routes: Mapping[str, Callable[[], Tensor]]) -> str:
        """Return the name of the fastest route for a layer described by ``key``."""
        full = f"{key} {'/'.join(sorted(routes))}"
        if full not in self._winners:
            self._winners[full] = _raced(routes)
        return self._winners[full]


def _raced(routes: Mapping[str, Callable[[], Tensor]]) -> str:
    """Return the fastest of several rounds; a route for which memory runs out loses.

    Raises:
        The error of the last route, if memory runs out for all of them.
    """
    best = dict.fromkeys(routes, float("inf"))
    for turn in range(_ROUNDS + 1):
        for name in list(best):
            try:
                seconds = _seconds(routes[name])
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error) or len(best) == 1:
                    raise
                del best[name]
                continue
            if turn:  # The first round warms up.
                best[name] = min(best[name], seconds)
    return min(best, key=best.__getitem__)


def _seconds(run: Callable[[], Tensor]) -> float:
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    if cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start


class Routes:
    """Decisions that the rules of one engine share.

    Args:
        clock: Measures routes; None to go by the count of multiplications alone.

    Attributes:
        clock: Measures routes.
        tf32: Whether single precision may be multiplied with ten bits of fraction.
        kernels: Whether hand-written kernels may be used.
        traced: Whether what happens is recorded for a compiler: then nothing may depend on values.
        place: The call of the model that is being measured; set by the engine.
        taken: The route taken at each place.
        doubts: Per place, flags [N] of samples whose sum cancelled; read once per batch, because
            asking a GPU at once would make it wait.
        careful: Places where routes that subtract are not to be taken any more.
    """

    def __init__(self, clock: StopWatch | None = None, *, tf32: bool = False) -> None:
        self.clock = clock
        self.tf32 = tf32
        self.kernels = True
        self.traced = False
        self.place = 0
        self.taken: dict[int, str] = {}
        self.doubts: dict[int, Tensor] = {}
        self.careful: set[int] = set()

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Take what happens for recorded, and measured by no clock."""
        timed, self.clock, self.traced = self.clock, None, True
        try:
            yield
        finally:
            self.clock, self.traced = timed, False

    def pick(
        self,
        key: Callable[[], str],
        costs: Mapping[str, float],
        run: Callable[[str], Tensor] | None = None,
        scratch: Callable[[str], int] | None = None,
    ) -> str:
        """Return the name of the route to take.

        Args:
            key: Describes the layer, its shapes, precision and device, for the clock.
            costs: The cost of each route; the unit does not matter.
            run: Takes a route, for the clock.
            scratch: Tells the numbers that a route writes down for one sample; none if left out.
        """
        allowed = costs
        if self.place in self.careful and len(costs.keys() - GRAM_ROUTES):
            allowed = {name: cost for name, cost in costs.items() if name not in GRAM_ROUTES}
        route = min(allowed, key=allowed.__getitem__)
        if self.clock is not None and run is not None:
            sizes = {} if scratch is None else {name: scratch(name) for name in allowed}
            tried, measured = _worth_a_try(allowed, sizes), run
            if len(tried) > 1:
                route = self.clock.fastest(key(), {n: lambda n=n: measured(n) for n in tried})  # type: ignore[misc]
            else:
                (route,) = tried
        self.note(route)
        return route

    def note(self, route: str) -> None:
        """Note the route taken at the present place: that of the parameter that costs most."""
        if route != "closed form" or self.place not in self.taken:
            self.taken[self.place] = route

    def fused(self, *tensors: Tensor) -> bool:
        """Say whether hand-written kernels can be used for these tensors."""
        return self.kernels and all(map(kernels.available, tensors))

    def doubt(self, flags: Tensor) -> None:
        """Note which samples' sums cancelled at the present place."""
        before = self.doubts.get(self.place)
        self.doubts[self.place] = flags if before is None else before | flags

    def settle_doubts(self) -> bool:
        """Say whether sums cancelled somewhere, and take another route there from now on."""
        if not self.doubts:
            return False
        flags = torch.stack([flags.any() for flags in self.doubts.values()]).cpu()
        places = {p for p, bad in zip(self.doubts, flags.tolist(), strict=True) if bad}
        again = bool(places - self.careful)
        self.careful |= places
        return again


def _worth_a_try(costs: Mapping[str, float], scratch: Mapping[str, int]) -> list[str]:
    """Return the routes to put to the clock: neither hopeless nor beyond the scratch space."""
    fitting = {n: c for n, c in costs.items() if scratch.get(n, 0) <= CHUNK_FLOATS} or dict(costs)
    limit = _WORTH_A_TRY * min(fitting.values())
    return [name for name, cost in fitting.items() if cost <= limit]


def chunks(samples: int, floats_per_sample: int) -> Iterator[slice]:
    """Split the samples so that scratch tensors stay within the budget."""
    step = max(1, CHUNK_FLOATS // max(1, floats_per_sample))
    for start in range(0, samples, step):
        yield slice(start, min(start + step, samples))
