"""``select`` and ``compare`` on Ray, as commands and from Python."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from contract import make_pool
from same_process import runs_here

sys.path.insert(0, str(Path(__file__).parents[1] / "experiment"))
from small import config, essence

from steepest.bench import scale
from steepest.bench.scale import ScaleBench, ScaleResult, core_seconds, seconds_between
from steepest.cli.main import main
from steepest.core.journal import read_journal
from steepest.core.progress import SilentProgress
from steepest.experiment.compare import compare
from steepest.experiment.record import Record
from steepest.selecting import OnRay

OWN = """
import torch


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3)).double()
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("own_net.py").write_text(OWN)
    np.save("pool.npy", make_pool().numpy())
    return tmp_path


SELECT = ["select", "--model", "own_net:net", "--pool", "pool.npy", "-k", "4", "--quiet"]


def test_the_command_writes_the_picks_of_one_process_and_leaves_nothing_else(cluster, here):
    how = ["--strategy", "margin", "--batch-size", "4"]
    assert main([*SELECT, *how, "--out", "one.json"]) == 0
    before = set(here.iterdir())
    on_ray = ["--engine", "ray", "--workers", "1", "--out", "two.json"]
    assert main([*SELECT, *how, *on_ray]) == 0
    assert Path("one.json").read_text() == Path("two.json").read_text()
    assert set(here.iterdir()) == before | {here / "two.json"}
    assert main([*SELECT, *how, *on_ray, "--parts", "kept"]) == 0
    assert list(Path("kept").rglob("*.safetensors"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--workers", "2"], "--workers is for --engine ray"),
        (["--address", "auto"], "--address is for --engine ray"),
        (["--parts", "kept"], "--parts is for --engine ray"),
        (["--engine", "ray", "--scores", "a.npz"], "leave out --shard and --scores"),
        (["--engine", "ray", "--workers", "0"], "workers must be a whole number of at least 1"),
    ],
)
def test_options_that_do_not_belong_together_are_refused(words, said, here, capsys):
    assert main([*SELECT, "--out", "picks.json", *words]) == 2
    assert said in capsys.readouterr().err


def test_without_a_model_there_is_nothing_to_run_on_ray(here, capsys):
    words = ["select", "--pool", "pool.npy", "-k", "2", "--out", "picks.json", "--engine", "ray"]
    assert main(words) == 2
    assert "--engine ray runs a model of yours" in capsys.readouterr().err


def test_an_interrupted_command_says_that_it_can_go_on(here, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("steepest.cli.select.select", interrupted)
    assert main([*SELECT, "--out", "picks.json", "--engine", "ray"]) == 130
    assert "run the same command again to go on" in capsys.readouterr().err
    assert main([*SELECT, "--out", "picks.json"]) == 130
    assert "run the same command again to begin again" in capsys.readouterr().err


def records_of(runs):
    found = []
    for run in runs:
        entries, _ = read_journal(run.folder / "records.jsonl")
        found.append(essence([Record.from_table(entry, "") for entry in entries]))
    return found


class KillingOnce(SilentProgress):
    """Kills a process that makes runs, once so many cycles are done."""

    def __init__(self, folder):
        self.folder, self.killed = folder, None

    @contextmanager
    def task(self, description, total):
        def advance(amount=1, note=""):
            pids = [int(path.name) for path in self.folder.glob("*")]
            if amount and pids and self.killed is None:
                self.killed = pids[0]
                os.kill(self.killed, signal.SIGKILL)

        yield SimpleNamespace(advance=advance)


NOTING = """
import os, pathlib
from torch import nn


def net():
    pathlib.Path({folder!r}, str(os.getpid())).touch()
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
"""


@pytest.mark.slow
def test_runs_of_a_comparison_survive_the_kill_of_a_worker(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "workers"
    folder.mkdir()
    Path("noting.py").write_text(NOTING.format(folder=str(folder)))
    what = config(model__name="noting:net", training__epochs=1)
    with runs_here():
        alone = compare(what, ["margin"], [0, 1], tmp_path / "alone")
    for path in folder.glob("*"):
        path.unlink()
    killing = KillingOnce(folder)
    runs = compare(
        what, ["margin"], [0, 1], Path("together"), progress=killing, engine=OnRay(workers=2)
    )
    assert killing.killed is not None
    assert records_of(runs) == records_of(alone)


def test_a_comparison_on_ray_has_the_records_of_one_here(cluster, tmp_path):
    what = config(training__epochs=1, loop__cycles=2)
    with runs_here():
        alone = compare(what, ["margin"], [0], tmp_path / "alone")
    runs = compare(what, ["margin"], [0], tmp_path / "ray", engine=OnRay(workers=1))
    assert records_of(runs) == records_of(alone)
    assert all(run.complete for run in runs)


def test_the_benchmark_compares_picks_and_counts_the_workers_time(cluster, tmp_path, monkeypatch):
    del cluster
    out = tmp_path / "scale.json"
    sizes = ["--rows", "300", "--width", "6", "--k", "9", "--workers", "1", "--rounds", "2"]
    names = ["--strategies", "margin,core-set"]
    assert main(["bench", "scale", *sizes, *names, "--quiet", "--out", str(out)]) == 0
    found = ScaleResult.read(out)
    assert found.complete
    assert all(timing.equal for timing in found.timings)
    assert [len(timing.seconds) for timing in found.timings] == [2] * 6
    monkeypatch.setattr(scale, "select", lambda *_, engine, **__: engine)
    bench = ScaleBench(["margin"], 300, 6, 9, 1, 1, 0, SilentProgress(), "")
    assert [timing.equal for timing in bench.run().timings] == [True, False, False]


def test_processor_time_is_that_of_processes_below_too():
    before = core_seconds()
    code = "import time\nwhile time.process_time() < 0.5: pass\nprint(1, flush=True)\ninput()"
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    child.stdout.readline()
    after = core_seconds()
    child.communicate(b"\n")
    assert child.pid not in before
    assert after[child.pid] > 0.4
    assert after[os.getpid()] >= before[os.getpid()]
    assert child.pid not in core_seconds()


def test_processes_that_ended_take_no_time_away():
    assert seconds_between({1: 5.0, 2: 9.0}, {1: 5.5, 3: 0.25}) == 0.75
