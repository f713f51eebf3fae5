"""Which route is fastest, measured by a clock of the test's own and remembered in a file."""

from __future__ import annotations

import collections
import json
from pathlib import Path

import pytest
import torch
from largest import Largest
from torch import nn

import steepest
from steepest.gradnorm import reference_norms
from steepest.gradnorm.measure import clock as clocks
from steepest.gradnorm.measure import routes as choices
from steepest.gradnorm.measure.clock import StopWatch
from steepest.gradnorm.measure.routes import Routes


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
    monkeypatch.setattr(clocks.time, "perf_counter", fake.perf_counter)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return fake


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache" / "routes.json"


def test_the_fastest_route_wins(time, path):
    watch = StopWatch(path)
    assert watch.fastest("layer", time.routes(gram=3, instantiate=2, pixels=5)) == "instantiate"


def test_routes_take_turns_and_the_first_round_does_not_count(time, path):
    routes = {"a": time.route("a", 100, 1), "b": time.route("b", 0, 2)}
    assert StopWatch(path).fastest("layer", routes) == "a"
    assert time.runs[:4] == ["a", "b", "a", "b"]


def test_one_disturbed_round_does_not_decide(time, path):
    routes = {"a": time.route("a", 1, 1, 50, 1), "b": time.route("b", 2)}
    assert StopWatch(path).fastest("layer", routes) == "a"


def test_a_layer_is_measured_once(time, path):
    watch = StopWatch(path)
    watch.fastest("layer", time.routes(a=2, b=1))
    time.runs.clear()
    assert watch.fastest("layer", time.routes(a=1, b=2)) == "b"
    assert time.runs == []


def test_the_file_spares_the_next_process_the_measuring(time, path):
    StopWatch(path).fastest("layer", time.routes(a=2, b=1))
    time.runs.clear()
    assert StopWatch(path).fastest("layer", time.routes(a=1, b=2)) == "b"
    assert time.runs == []


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "null", "\x00\x01"])
def test_a_file_that_cannot_be_read_is_made_anew(time, path, text):
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    assert StopWatch(path).fastest("layer", time.routes(a=2, b=1)) == "b"
    assert list(json.loads(path.read_text(encoding="utf-8")).values()) == ["b"]


def test_a_winner_that_is_no_route_is_measured_again(time, path):
    StopWatch(path).fastest("layer", time.routes(a=2, b=1))
    found = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(dict.fromkeys(found, "nonsense")), encoding="utf-8")
    assert StopWatch(path).fastest("layer", time.routes(a=1, b=2)) == "a"


def test_layers_and_sets_of_routes_are_kept_apart(time, path):
    watch = StopWatch(path)
    assert watch.fastest("wide", time.routes(a=2, b=1)) == "b"
    assert watch.fastest("narrow", time.routes(a=1, b=2)) == "a"
    assert watch.fastest("wide", time.routes(a=2, c=3)) == "a"
    assert len(json.loads(path.read_text(encoding="utf-8"))) == 3


def test_another_machine_or_version_measures_for_itself(time, path, monkeypatch):
    StopWatch(path).fastest("layer", time.routes(a=2, b=1))
    monkeypatch.setattr(clocks.platform, "processor", lambda: "another")
    assert StopWatch(path).fastest("layer", time.routes(a=1, b=2)) == "a"
    monkeypatch.setattr(torch, "__version__", "9.9")
    assert StopWatch(path).fastest("layer", time.routes(a=2, b=1)) == "b"


def test_two_processes_at_once_lose_nothing(time, path):
    one, other = StopWatch(path), StopWatch(path)
    one.fastest("wide", time.routes(a=2, b=1))
    other.fastest("narrow", time.routes(a=1, b=2))
    time.runs.clear()
    again = StopWatch(path)
    again.fastest("wide", time.routes(a=2, b=1))
    again.fastest("narrow", time.routes(a=1, b=2))
    assert time.runs == []


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({"STEEPEST_CACHE": "mine", "XDG_CACHE_HOME": "users"}, "mine/routes.json"),
        ({"XDG_CACHE_HOME": "users"}, "users/steepest/routes.json"),
        ({"HOME": "home"}, "home/.cache/steepest/routes.json"),
    ],
)
def test_the_file_is_in_the_cache_folder(monkeypatch, tmp_path, variables, wanted):
    for name in ("STEEPEST_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, folder in variables.items():
        monkeypatch.setenv(name, str(tmp_path / folder))
    assert StopWatch().path == Path(tmp_path / wanted)


def test_autotuning_changes_the_route_but_not_the_result(monkeypatch, tmp_path):
    monkeypatch.setenv("STEEPEST_CACHE", str(tmp_path))
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Flatten(), nn.Linear(32, 3)
    ).eval()
    x = torch.randn(4, 3, 6, 6)
    plain = steepest.gradient_norms(model, x)
    assert not (tmp_path / "routes.json").exists()
    torch.testing.assert_close(steepest.gradient_norms(model, x, autotune=True), plain)
    winners = json.loads((tmp_path / "routes.json").read_text(encoding="utf-8"))
    assert winners
    monkeypatch.setattr(clocks, "_seconds", lambda _run: pytest.fail("measured again"))
    for key in winners:
        winners[key] = "patches"
    (tmp_path / "routes.json").write_text(json.dumps(winners), encoding="utf-8")
    torch.testing.assert_close(steepest.gradient_norms(model, x, autotune=True), plain)


def out_of_memory() -> torch.Tensor:
    raise torch.OutOfMemoryError("out of memory")


def test_a_route_for_which_memory_runs_out_loses(time, path):
    routes = {"a": out_of_memory, **time.routes(b=3, c=2)}
    assert StopWatch(path).fastest("layer", routes) == "c"


def test_memory_that_runs_out_for_every_route_is_passed_on_and_not_remembered(time, path):
    with pytest.raises(torch.OutOfMemoryError):
        StopWatch(path).fastest("layer", {"a": out_of_memory, "b": out_of_memory})
    assert not path.exists()


def test_other_errors_of_a_route_are_passed_on(time, path):
    def broken():
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        StopWatch(path).fastest("layer", {"a": broken, **time.routes(b=1)})


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
def test_hopeless_routes_are_not_tried(monkeypatch, time, path, costs, scratch, tried):
    monkeypatch.setattr(choices, "CHUNK_FLOATS", 100)
    seconds = {"a": 3, "b": 1, "c": 2}

    def run(name):
        return time.route(name, seconds[name])()

    sizes = collections.defaultdict(int, scratch)
    picked = Routes(StopWatch(path)).pick(lambda: "layer", costs, run, sizes.__getitem__)
    assert set(time.runs) == tried
    assert picked == min(tried or {"a"}, key=seconds.__getitem__)


def test_autotuning_keeps_within_the_scratch_space(monkeypatch, tmp_path):
    monkeypatch.setenv("STEEPEST_CACHE", str(tmp_path))
    monkeypatch.setattr(choices, "CHUNK_FLOATS", 20_000)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Conv2d(4, 4, 3), nn.Flatten(1))
    model = nn.Sequential(model, nn.Linear(4 * 16 * 16, 3)).double().eval()
    x = torch.randn(3, 1, 20, 20).double()
    with Largest() as seen:
        found = steepest.gradient_norms(model, x, autotune=True)
    assert seen.numbers <= 20_000, seen.operator
    torch.testing.assert_close(found, reference_norms(model, x))
