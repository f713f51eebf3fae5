from __future__ import annotations

import importlib
import itertools
import json
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from steepest.core.progress import SilentProgress
from steepest.core.seeds import generator
from steepest.core.tensor_file import read_tensors
from steepest.errors import DataError, SlowPathWarning
from steepest.models import build
from steepest.modules.fingerprint import fingerprint
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


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """Return a state after two of five epochs, and what the whole training ends with."""
    file = tmp_path_factory.mktemp("begun") / "training.safetensors"
    with pytest.raises(StopError):
        train(make("small-cnn"), RECIPES[0], Checkpoint(file, 0), StopAfter(2))
    whole = make("small-cnn")
    train(whole, RECIPES[0])
    return file.read_bytes(), fingerprint(whole)


def flipped(content, place):
    return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]


def told_anew(content, **changes):
    """Return the file with another header, as whoever forges it would write it."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    about = json.loads(header["__metadata__"]["steepest"])
    header["__metadata__"]["steepest"] = json.dumps({**about, **changes})
    return with_header(content, header)


def with_header(content, header):
    length = int.from_bytes(content[:8], "little")
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def renamed(content, old, new):
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header[new] = header.pop(old)
    return with_header(content, header)


def swapped(content, one, other):
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header[one], header[other] = header[other], header[one]
    return with_header(content, header)


BIAS = "optimizer.1.momentum_buffer"

DAMAGES = {
    "empty": lambda _: b"",
    "text": lambda _: b"no tensors",
    "noise": lambda _: b"\xff" * 200,
    "brackets": lambda _: (100_000).to_bytes(8, "little") + b"[" * 100_000,
    "cut": lambda c: c[:-1],
    "half": lambda c: c[: len(c) // 2],
    "longer": lambda c: c + b"\0",
    "zeros": lambda c: c[:-8192] + bytes(4096) + c[-4096:],
    "all zeros": lambda c: bytes(len(c)),
    "epochs": lambda c: told_anew(c, epochs=10**9),
    "fewer epochs": lambda c: told_anew(c, epochs=1),
    "negative epochs": lambda c: told_anew(c, epochs=-1),
    "text for epochs": lambda c: told_anew(c, epochs="two"),
    "seconds": lambda c: told_anew(c, seconds=1e9),
    "renamed": lambda c: renamed(c, BIAS, "optimizer.1.other"),
    "renamed weights": lambda c: renamed(c, "random.cpu", "random.gpu"),
    "swapped": lambda c: swapped(c, "model.features.1.bias", "model.features.1.weight"),
}


def pass_over(file, content, whole):
    """Train beside a file, which is to be named in one line and to change nothing."""
    file.write_bytes(content)
    beside = make("small-cnn")
    with pytest.warns(SlowPathWarning, match="damaged") as caught:
        result = train(beside, RECIPES[0], Checkpoint(file, 1e9))
    (warning,) = caught
    assert str(file) in str(warning.message)
    assert "\n" not in str(warning.message)
    assert fingerprint(beside) == whole
    assert result.seconds < 1e8


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_is_named_and_costs_time_and_nothing_else(tmp_path, begun, damage):
    content, whole = begun
    pass_over(tmp_path / "training.safetensors", DAMAGES[damage](content), whole)


def test_a_flipped_bit_anywhere_is_noticed(tmp_path, begun):
    content, whole = begun
    file = tmp_path / "training.safetensors"
    header = 8 + int.from_bytes(content[:8], "little")
    step = max(1, (len(content) - header) // 60)
    noticed = 0
    for place in (*range(0, header, 7), *range(header, len(content), step), len(content) - 1):
        file.write_bytes(flipped(content, place))
        try:
            tensors, about = read_tensors(file)
        except DataError:
            noticed += 1
            continue
        # A bit of the header that means nothing, such as that of a space.
        before, said = read_tensors_of(content, tmp_path)
        assert about == said
        assert tensors.keys() == before.keys()
        assert all(torch.equal(tensors[name], before[name]) for name in before)
    assert noticed > 100
    pass_over(file, flipped(content, len(content) - 5), whole)


def read_tensors_of(content, folder):
    whole = folder / "whole.safetensors"
    whole.write_bytes(content)
    return read_tensors(whole)


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
