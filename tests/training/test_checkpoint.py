from __future__ import annotations

import importlib
import itertools
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from steepest.errors import SlowPathWarning
from steepest.models import build
from steepest.models.fingerprint import fingerprint
from steepest.progress import SilentProgress
from steepest.seeds import generator
from steepest.tasks import Classification
from steepest.training import Checkpoint, Recipe, fit

CPU = torch.device("cpu")


class StopError(Exception):
    pass


class StopAfter(SilentProgress):
    """Ends a training after some epochs, as a kill at an epoch's end does."""

    def __init__(self, epochs):
        self.left = epochs

    def task(self, name, total):
        outer = self

        class Bar:
            def __enter__(self):
                return self

            def __exit__(self, *_):
                return None

            def advance(self, amount=1, note=""):
                if outer.left == 0:
                    raise StopError
                outer.left -= amount

        return Bar()


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(),
            nn.Linear(4 * 36, 3),
        )  # fmt: skip

    def forward(self, x):
        return self.net(x)


def make(kind):
    if kind == "dropping":
        with torch.random.fork_rng():
            torch.manual_seed(3)
            return Dropping()
    return build("small-cnn", 3, 1, seed=0)


def train(model, recipe, checkpoint=None, progress=None, seed=0, count=20):
    images = torch.randint(256, (count, 1, 8, 8), generator=generator(0, "images"))
    labels = torch.randint(3, (count,), generator=generator(0, "labels"))
    return fit(
        model, Classification(3), images.to(torch.uint8), labels, recipe, mean=(0.5,), std=(0.25,),
        augmentation="shift", seed=seed, device=CPU, progress=progress or SilentProgress(),
        checkpoint=checkpoint,
    )  # fmt: skip


RECIPES = [
    Recipe(epochs=5, batch_size=8, lr=0.05, milestones=(3,)),
    Recipe(epochs=5, batch_size=8, lr=0.01, optimizer="adam", schedule="cosine"),
]


@pytest.mark.parametrize("recipe", RECIPES, ids=["sgd", "adam"])
@pytest.mark.parametrize("kind", ["small-cnn", "dropping"])
@pytest.mark.parametrize("epochs", [1, 3])
def test_a_stopped_training_ends_like_an_uninterrupted_one(tmp_path, recipe, kind, epochs):
    whole = make(kind)
    train(whole, recipe)
    file = tmp_path / "training.safetensors"
    with pytest.raises(StopError):
        train(make(kind), recipe, Checkpoint(file, 0), StopAfter(epochs))
    resumed = make(kind)
    result = train(resumed, recipe, Checkpoint(file, 0))
    assert fingerprint(resumed) == fingerprint(whole)
    assert result.epochs == 5


def test_the_time_before_a_restart_counts(tmp_path, monkeypatch):
    clock = itertools.count(step=10.0)
    ticking = SimpleNamespace(monotonic=lambda: next(clock))
    monkeypatch.setattr(importlib.import_module("steepest.training.fit"), "time", ticking)
    file = tmp_path / "training.safetensors"
    # The clock ticks at the start and at the end, and once for each state that is written.
    assert train(make("small-cnn"), RECIPES[0]).seconds == 10
    with pytest.raises(StopError):
        train(make("small-cnn"), RECIPES[0], Checkpoint(file, 0), StopAfter(3))
    assert train(make("small-cnn"), RECIPES[0], Checkpoint(file, 0)).seconds == 30 + 20


def test_resuming_takes_the_remaining_epochs_only(tmp_path):
    file = tmp_path / "training.safetensors"
    with pytest.raises(StopError):
        train(make("small-cnn"), RECIPES[0], Checkpoint(file, 0), StopAfter(3))
    train(make("small-cnn"), RECIPES[0], Checkpoint(file, 0), told := StopAfter(5))
    # Two epochs that are done at once, and three more: the last of five would have stopped it.
    assert told.left == 0


@pytest.mark.parametrize("changes", [{"seed": 1}, {"count": 16}])
def test_the_state_of_another_training_is_left_alone(tmp_path, changes):
    file = tmp_path / "training.safetensors"
    with pytest.raises(StopError):
        train(make("small-cnn"), RECIPES[0], Checkpoint(file, 0), StopAfter(2))
    alone, beside = make("small-cnn"), make("small-cnn")
    train(alone, RECIPES[0], **changes)
    train(beside, RECIPES[0], Checkpoint(file, 1e9), **changes)
    assert fingerprint(alone) == fingerprint(beside)


@pytest.mark.parametrize("content", [b"", b"no tensors", b"\xff" * 200])
def test_a_damaged_file_costs_time_and_nothing_else(tmp_path, content):
    file = tmp_path / "training.safetensors"
    file.write_bytes(content)
    alone, beside = make("small-cnn"), make("small-cnn")
    train(alone, RECIPES[0])
    train(beside, RECIPES[0], Checkpoint(file, 1e9))
    assert fingerprint(alone) == fingerprint(beside)


def test_short_trainings_write_nothing(tmp_path):
    train(make("small-cnn"), RECIPES[0], Checkpoint(tmp_path / "training.safetensors"))
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_was_changed_goes_on_from_nothing(tmp_path):
    file = tmp_path / "training.safetensors"
    with pytest.raises(StopError):
        train(make("small-cnn"), RECIPES[0], Checkpoint(file, 0), StopAfter(2))
    alone, beside = make("dropping"), make("dropping")
    train(alone, RECIPES[0])
    train(beside, RECIPES[0], Checkpoint(file, 1e9))
    assert fingerprint(alone) == fingerprint(beside)


def test_a_state_that_cannot_be_written_costs_a_warning(tmp_path):
    (tmp_path / "training.safetensors").mkdir()
    alone, beside = make("small-cnn"), make("small-cnn")
    train(alone, RECIPES[0])
    with pytest.warns(SlowPathWarning, match="goes on without"):
        train(beside, RECIPES[0], Checkpoint(tmp_path / "training.safetensors", 0))
    assert fingerprint(alone) == fingerprint(beside)
