"""Which route is fastest, measured by a clock of the test's own."""

from __future__ import annotations

import collections

import pytest
import torch
from largest import Largest
from torch import nn

import steepest
from steepest.gradnorm import reference_norms
from steepest.gradnorm.measure import routes as choices
from steepest.gradnorm.measure.routes import Routes, StopWatch


class Time:
    """Passes only when a route says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.runs: list[str] = []

    def perf_counter(self) -> float:
        return self.now

    def route(self, name: str, *seconds: float):
        """Return a route that takes so long; the last number goes for all later runs."""
        to_come = list(seconds)

        def run() -> torch.Tensor:
            self.runs.append(name)
            self.now += to_come.pop(0) if len(to_come) > 1 else to_come[0]
            return torch.zeros(1)

        return run

    def routes(self, **seconds: float):
        return {name: self.route(name, taken) for name, taken in seconds.items()}


@pytest.fixture
def time(monkeypatch):
    fake = Time()
    monkeypatch.setattr(choices.time, "perf_counter", fake.perf_counter)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return fake


def test_the_fastest_route_wins(time):
    watch = StopWatch()
    assert watch.fastest("layer", time.routes(gram=3, instantiate=2, patches=5)) == "instantiate"


def test_routes_take_turns_and_the_first_round_does_not_count(time):
    routes = {"a": time.route("a", 100, 1), "b": time.route("b", 0, 2)}
    assert StopWatch().fastest("layer", routes) == "a"
    assert time.runs[:4] == ["a", "b", "a", "b"]


def test_one_disturbed_round_does_not_decide(time):
    routes = {"a": time.route("a", 1, 1, 50, 1), "b": time.route("b", 2)}
    assert StopWatch().fastest("layer", routes) == "a"


def test_a_layer_is_measured_once(time):
    watch = StopWatch()
    watch.fastest("layer", time.routes(a=2, b=1))
    time.runs.clear()
    assert watch.fastest("layer", time.routes(a=1, b=2)) == "b"
    assert time.runs == []


def test_layers_and_sets_of_routes_are_kept_apart(time):
    watch = StopWatch()
    assert watch.fastest("wide", time.routes(a=2, b=1)) == "b"
    assert watch.fastest("narrow", time.routes(a=1, b=2)) == "a"
    assert watch.fastest("wide", time.routes(a=2, c=3)) == "a"


def test_autotuning_changes_the_route_but_not_the_result(monkeypatch):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.Tanh(), nn.Conv2d(32, 32, 3), nn.Flatten(), nn.Linear(6272, 3)
    ).double().eval()  # fmt: skip
    x = torch.randn(4, 3, 18, 18).double()
    plain, offered = steepest.gradient_norms(model, x), set()
    for route in ("patches", "vendor", "together"):

        def pick(_, _key, routes, route=route):
            offered.update(routes)
            return route if route in routes else min(routes)

        monkeypatch.setattr(StopWatch, "fastest", pick)
        torch.testing.assert_close(steepest.gradient_norms(model, x, autotune=True), plain)
    assert offered == {"patches", "vendor", "together"}


def out_of_memory() -> torch.Tensor:
    raise torch.OutOfMemoryError("out of memory")


def test_a_route_for_which_memory_runs_out_loses(time):
    routes = {"a": out_of_memory, **time.routes(b=3, c=2)}
    assert StopWatch().fastest("layer", routes) == "c"


def test_memory_that_runs_out_for_every_route_is_passed_on_and_not_remembered(time):
    watch = StopWatch()
    with pytest.raises(torch.OutOfMemoryError):
        watch.fastest("layer", {"a": out_of_memory, "b": out_of_memory})
    assert watch.fastest("layer", time.routes(a=2, b=1)) == "b"


def test_other_errors_of_a_route_are_passed_on(time):
    def broken():
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        StopWatch().fastest("layer", {"a": broken, **time.routes(b=1)})


@pytest.mark.parametrize(
    ("costs", "scratch", "tried"),
    [
        ({"a": 1.0, "b": 8.0, "c": 9.0}, {}, {"a", "b"}),
        ({"a": 1.0, "b": 2.0, "c": 3.0}, {"a": 101, "b": 100}, {"b", "c"}),
        ({"a": 1.0, "b": 10.0, "c": 20.0}, {"a": 101}, {"b", "c"}),
        ({"a": 1.0, "b": 2.0}, {"a": 101, "b": 102}, {"a", "b"}),
        ({"a": 1.0, "b": 9.0}, {}, set()),
    ],
)
def test_hopeless_routes_are_not_tried(monkeypatch, time, costs, scratch, tried):
    monkeypatch.setattr(choices, "CHUNK_FLOATS", 100)
    seconds = {"a": 3, "b": 1, "c": 2}

    def run(name):
        return time.route(name, seconds[name])()

    sizes = collections.defaultdict(int, scratch)
    picked = Routes(StopWatch()).pick(lambda: "layer", costs, run, sizes.__getitem__)
    assert set(time.runs) == tried
    assert picked == min(tried or {"a"}, key=seconds.__getitem__)


def test_autotuning_keeps_within_the_scratch_space(monkeypatch):
    monkeypatch.setattr(choices, "CHUNK_FLOATS", 20_000)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Conv2d(4, 4, 3), nn.Flatten(1))
    model = nn.Sequential(model, nn.Linear(4 * 16 * 16, 3)).double().eval()
    x = torch.randn(3, 1, 20, 20).double()
    with Largest() as seen:
        found = steepest.gradient_norms(model, x, autotune=True)
    assert seen.numbers <= 20_000, seen.operator
    torch.testing.assert_close(found, reference_norms(model, x))
