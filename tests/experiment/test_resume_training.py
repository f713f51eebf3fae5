"""A run that stops in the middle of a training goes on from the epoch it had come to."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from small import config, essence

from steepest.core.progress import SilentProgress
from steepest.experiment.folder import RunFolder
from steepest.experiment.loop import Experiment
from steepest.training import Checkpoint


class StopError(Exception):
    pass


class StopAfter(SilentProgress):
    """Ends a run after so many epochs in all, and notes what it hears of them."""

    def __init__(self, most=99):
        self.most = most
        self.heard = []

    @contextmanager
    def task(self, description, total):
        def advance(amount=1, note=""):
            if description == "train":
                self.heard.append(amount)
                if sum(self.heard) > self.most:
                    raise StopError

        yield SimpleNamespace(advance=advance)


def go(folder, progress=None):
    what = config(loop__cycles=2, loop__init="warm")
    return essence(Experiment(what, folder, progress=progress).run())


def test_a_training_goes_on_with_what_the_pool_gives_after_a_restart(tmp_path, monkeypatch):
    whole = go(tmp_path / "whole")
    monkeypatch.setattr(
        RunFolder, "checkpoint", lambda self: Checkpoint(self.path / "training.safetensors", 0)
    )
    # Three epochs in the first cycle; the second cycle is stopped in its last one.
    with pytest.raises(StopError):
        go(tmp_path / "run", StopAfter(5))
    assert go(tmp_path / "run", told := StopAfter()) == whole
    assert told.heard == [2, 1]
