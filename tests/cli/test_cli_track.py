"""Trackers: every cycle arrives once, also after a run was stopped and resumed."""

from __future__ import annotations

import pytest
from shell import assert_one_line, run_here

from steepest.errors import SteepestWarning
from steepest.experiment import tracking
from steepest.experiment.tracking import Tracking

RUN = ("run", "digits", "--smoke", "--quiet", "--set", "strategy.name=random")


class Recorder:
    """Keeps what it is sent; breaks when it is told to."""

    def __init__(self):
        self.begun, self.logged, self.broken, self.closed = [], [], False, 0

    def begin(self, name, settings, identity):
        assert settings["loop.k"] > 0
        self.begun.append((name, identity))
        return f"id of {name}"

    def log(self, identity, labels, metrics):
        if self.broken:
            raise ConnectionError("no\nroute")
        self.logged.append((identity, labels, sorted(metrics)))

    def close(self):
        self.closed += 1


@pytest.fixture
def recorder(monkeypatch):
    recorder = Recorder()
    monkeypatch.setattr(tracking, "TRACKERS", {"mlflow": lambda project, folder: recorder})
    return recorder


def test_each_cycle_is_sent_once_and_a_resumed_run_goes_on_in_its_place(recorder, tmp_path, capsys):
    argv = (*RUN, "--out", str(tmp_path / "one"), "--track", "mlflow")
    assert run_here(capsys, *argv, "--set", "loop.cycles=2").code == 0
    assert recorder.begun == [("one", None)]
    first = list(recorder.logged)
    assert [labels for _, labels, _ in first] == sorted({labels for _, labels, _ in first})
    assert len(first) == 2
    assert {"accuracy", "train_accuracy", "training_seconds"} <= set(first[0][2])
    assert run_here(capsys, *argv, "--set", "loop.cycles=3").code == 0
    assert recorder.begun[1:] == [("one", "id of one")]
    assert recorder.logged[:2] == first
    assert len(recorder.logged) == 3
    assert recorder.closed == 2


def test_a_tracker_that_fails_ends_no_run_and_gets_what_it_missed(recorder, tmp_path, capsys):
    argv = (*RUN, "--out", str(tmp_path / "one"), "--set", "loop.cycles=2", "--track", "mlflow")
    recorder.broken = True
    told = run_here(capsys, *argv)
    assert told.code == 0
    assert "--track mlflow failed (no route) and is given up" in told.err
    recorder.broken = False
    assert run_here(capsys, *argv).code == 0
    assert len(recorder.logged) == 2


@pytest.mark.usefixtures("same_process")
def test_a_comparison_sends_the_runs_of_all_strategies(recorder, tmp_path, capsys):
    argv = ("compare", "digits", "--smoke", "--quiet", "--no-report", "--strategies", "margin")
    argv += ("--seeds", "2", "--jobs", "1", "--out", str(tmp_path), "--track", "mlflow")
    assert run_here(capsys, *argv).code == 0
    names = {f"{name}/seed-{seed}" for name in ("margin", "random") for seed in (0, 1)}
    assert {name for name, _ in recorder.begun} == names
    before = len(recorder.logged)
    assert run_here(capsys, *argv).code == 0
    assert len(recorder.logged) == before


def test_a_library_that_is_missing_is_one_line_that_installs_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    told = run_here(capsys, *RUN, "--out", str(tmp_path / "one"), "--track", "wandb")
    assert_one_line(told, "--track needs wandb")
    assert "pip install wandb" in told.err
    assert not (tmp_path / "one").exists()


def records_of(tmp_path, capsys):
    assert (
        run_here(capsys, *RUN, "--out", str(tmp_path / "one"), "--set", "loop.cycles=2").code == 0
    )
    from steepest.experiment import load_config

    return [("margin/seed-0", tmp_path / "one", load_config("digits"))]


def test_mlflow_has_the_parameters_and_the_curve(tmp_path, capsys, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    runs = records_of(tmp_path, capsys)
    for _ in range(2):  # The second finds its run and has nothing to send.
        sending = Tracking("mlflow", tmp_path, "digits")
        sending.update(runs)
        sending.close()
    from mlflow.tracking import MlflowClient

    client = MlflowClient()
    experiment = client.get_experiment_by_name("digits")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.run_name == "margin/seed-0"
    assert run.data.params["loop.k"] == str(runs[0][2].loop.k)
    curve = client.get_metric_history(run.info.run_id, "accuracy")
    assert len(curve) == 2
    assert curve[0].step < curve[1].step


def test_tensorboard_has_the_curve(tmp_path, capsys):
    pytest.importorskip("tensorboard")
    sending = Tracking("tensorboard", tmp_path, "digits")
    sending.update(records_of(tmp_path, capsys))
    sending.close()
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard" / "margin" / "seed-0"))
    events.Reload()
    assert len(events.Scalars("accuracy")) == 2


def test_a_damaged_note_of_what_was_sent_begins_anew(recorder, tmp_path, capsys):
    runs = records_of(tmp_path, capsys)
    (tmp_path / "tracking.json").write_text("[]")
    Tracking("mlflow", tmp_path, "digits").update(runs)
    assert recorder.begun == [("margin/seed-0", None)]
    recorder.broken = True
    (tmp_path / "tracking.json").unlink()
    with pytest.warns(SteepestWarning, match="given up"):
        Tracking("mlflow", tmp_path, "digits").update(runs)
