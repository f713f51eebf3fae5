"""``steepest bench training`` as a user types it, and what it keeps."""

from __future__ import annotations

import json
import warnings

import pytest
import torch

from steepest.bench import training as bench
from steepest.bench.measuring import Clock
from steepest.bench.training import (
    Settings,
    TrainingBench,
    TrainingResult,
    count_flops,
    measure_peak,
    training_table,
)
from steepest.bench.training_loops import Workload, loader_loop, our_loop
from steepest.bench.training_runs import RunError, measure_runs
from steepest.cli.main import main
from steepest.core.progress import SilentProgress
from steepest.errors import InputError

CPU = torch.device("cpu")
SMOKE = ["bench", "training", "--smoke", "--quiet", "--parallel", "1"]
LOAD = Workload("small-cnn", 4, "fp32", 8, 10, 0, seed=3)


def run(capsys, *argv):
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        try:
            code = main([str(part) for part in argv])
        except SystemExit as leaving:
            code = leaving.code
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_every_way_to_train_gets_a_line_and_a_record(capsys, tmp_path):
    out = tmp_path / "bench.json"
    code, text, errors = run(capsys, *SMOKE, "--out", out)
    assert (code, errors) == (0, "")
    result = TrainingResult.read(out)
    assert result.complete
    assert (result.model, result.batch, result.threads, result.workers) == ("small-cnn", 4, 1, 0)
    assert result.environment["torch"]
    assert result.flops_per_image > 0
    assert result.peak_flops > 0
    names = [m.contender for m in result.measurements]
    assert names == ["loader", "plain", "graphed", "compiled"]
    assert [m.status for m in result.measurements] == ["measured"] * 2 + ["unsupported"] * 2
    loader, plain = result.measurements[:2]
    assert loader.ratio == 1
    assert plain.ratio == pytest.approx(plain.images_per_second / loader.images_per_second)
    assert plain.images_per_second == pytest.approx(4e3 / plain.step_ms)
    share = plain.images_per_second * result.flops_per_image / result.peak_flops
    assert plain.peak_share == pytest.approx(share)
    assert "graphed: unsupported: needs a GPU" in text
    assert f"Numbers: {out}" in text


def test_ratios_are_to_the_best_of_the_loader(monkeypatch):
    seconds = {"loader": iter([4.0, 2.0]), "plain": iter([1.0, 3.0])}

    def timed(self, way):
        return self._row(way.name, 1, next(seconds[way.name]), 0.0, None)

    monkeypatch.setattr(TrainingBench, "_timed", timed)
    settings = Settings(LOAD, CPU, 1, steps=1, runs=(1,), rounds=2)
    loader, plain = TrainingBench(settings, SilentProgress()).run().measurements[:2]
    assert (loader.images_per_second, plain.images_per_second) == (2, 4)
    assert (loader.ratio, plain.ratio) == (1, 2)


def test_a_round_that_fails_leaves_the_one_before_it(monkeypatch):
    rounds = iter([4.0, 1.0])

    def timed(self, way):
        return self._row(way.name, 1, next(rounds), 0.0, None)

    monkeypatch.setattr(TrainingBench, "_timed", timed)
    settings = Settings(LOAD, CPU, 1, steps=1, runs=(1,), rounds=2)
    loader, plain = TrainingBench(settings, SilentProgress()).run().measurements[:2]
    assert (loader.status, loader.images_per_second, plain.images_per_second) == ("measured", 1, 4)
    assert loader.note.startswith("a later round failed: StopIteration")


def test_runs_side_by_side_are_added_up():
    settings = Settings(LOAD, CPU, 1, steps=1, runs=(1, 2), rounds=1)
    result = TrainingBench(settings, SilentProgress()).run()
    last = result.measurements[-1]
    assert (last.status, last.runs, last.note) == ("measured", 2, "plain, in processes")
    assert last.images_per_second == pytest.approx(2 * 4e3 / last.step_ms)
    assert "side by side" in training_table(result).text()


def test_a_run_that_ends_early_says_why():
    broken = Workload("no-such-model", 4, "fp32", 8, 10, 0, seed=3)
    with pytest.raises(RunError, match=r"a run ended early: .*no-such-model"):
        measure_runs("plain", broken, CPU, 1, 1, 1)


def test_trouble_with_one_way_leaves_the_others_alone(monkeypatch):
    def crash(load, device):
        raise RuntimeError("no\nway")

    monkeypatch.setattr(bench, "loader_loop", crash)
    settings = Settings(LOAD, CPU, 1, steps=1, runs=(1,), rounds=2)
    result = TrainingBench(settings, SilentProgress()).run()
    assert result.measurements[0].status == "failed"
    assert result.measurements[0].note.startswith("RuntimeError: no")
    assert result.measurements[1].status == "measured"
    assert result.measurements[1].ratio is None


def test_ctrl_c_keeps_what_was_measured(capsys, tmp_path, monkeypatch):
    def stop(name, load, device):
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "our_loop", stop)
    out = tmp_path / "bench.json"
    code, _, errors = run(capsys, *SMOKE, "--out", out)
    assert code == 130
    assert "stopped" in errors
    table = json.loads(out.read_text())
    assert not table["complete"]
    assert [m["status"] for m in table["measurements"]][:2] == ["measured", "unfinished"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--model", "small-cmn"], "small-cnn"),
        (["--batch-size", "1"], "--batch-size: at least 2 is needed"),
        (["--threads", "0"], "--threads: at least 1 is needed"),
        (["--seconds", "0"], "must be above 0"),
        (["--steps", "0"], "must be above 0"),
        (["--parallel", "0"], "--parallel: give numbers from 1 on"),
        (["--parallel", "a"], "--parallel 'a': give numbers separated by commas"),
        (["--loader-workers", "-1"], "--loader-workers: at least 0 is needed"),
        (["--precision", "bf16"], "use --precision fp32 on a CPU"),
        (["--out", "."], "cannot be written"),
    ],
)
def test_bad_input_is_one_line_and_code_2(capsys, argv, message):
    code, out, errors = run(capsys, "bench", "training", "--device", "cpu", *argv)
    assert (code, out) == (2, "")
    (line,) = errors.splitlines()
    assert line.startswith("steepest: error: ")
    assert message in line


def test_settings_are_checked_where_they_are_made():
    with pytest.raises(InputError, match="--rounds"):
        Settings(LOAD, CPU, 1, rounds=0)


@pytest.mark.parametrize(
    "make", [loader_loop, lambda load, device: our_loop("plain", load, device)]
)
def test_loops_go_on_past_an_epoch(make):
    take = make(LOAD, CPU)
    for _ in range(6):  # Ten images are two or three batches of four.
        take()


def test_products_are_counted_forward_and_backward():
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 5))
    # Forward and the weight's gradient; nobody asks for that of the input.
    assert count_flops(model, (3, 2, 2)) == 2 * 2 * 12 * 5
    assert all(p.grad is None for p in model.parameters())


def test_the_peak_is_what_the_clock_says():
    ticks = iter(range(100))
    clock = Clock(now=lambda: float(next(ticks)))
    assert measure_peak(CPU, torch.float32, clock, 0) == pytest.approx(2 * 768**3 * 5)
