"""What tells one training from another: none goes on from the state of another."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from steepest.core.progress import SilentProgress
from steepest.core.seeds import generator
from steepest.data import Streamed
from steepest.models import build
from steepest.modules.fingerprint import fingerprint
from steepest.tasks import Classification
from steepest.training import AUGMENTATIONS, Checkpoint, Recipe, checkpoint, fit
from steepest.training.batches import LabelledImages
from steepest.training.checkpoint import identify_training

COUNT = 20
RECIPE = Recipe(epochs=4, batch_size=8, lr=0.05, schedule="constant")
IMAGES = torch.randint(256, (2 * COUNT, 1, 8, 8), generator=generator(0, "images")).byte()
LABELS = torch.randint(3, (2 * COUNT,), generator=generator(0, "labels"))


class StopError(Exception):
    pass


class Told(SilentProgress):
    """Hears of epochs, and may end a training after some of them, as a kill does."""

    def __init__(self, most=99):
        self.most = most
        self.amounts = []

    def task(self, description, total):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def advance(self, amount=1, note=""):
        self.amounts.append(amount)
        if sum(self.amounts) > self.most:
            raise StopError


class Rows:
    """Reads from a tensor, and counts how often."""

    def __init__(self, data, draws=0):
        self.data = data
        self.draws = draws
        self.reads = 0

    def __call__(self, row, draw):
        self.reads += 1
        return self.data[row]


def streamed(data, rows=range(COUNT)):
    column = Streamed(Rows(data), len(data), data.shape[1:], data.dtype)
    return column.take(list(rows))


def one_changed(data):
    """Return the same samples, the last of which is another."""
    changed = data.clone()
    changed[-1] = (data[-1] + 1) % 3
    return changed


def train(checkpoint=None, progress=None, **changes):
    model = build("small-cnn", 3, 1, seed=0)
    given = {
        "task": Classification(3), "images": IMAGES[:COUNT], "labels": LABELS[:COUNT],
        "recipe": RECIPE, "mean": (0.5,), "std": (0.25,), "augmentation": "shift", "seed": 0,
        "device": torch.device("cpu"), "progress": progress or SilentProgress(), **changes,
    }  # fmt: skip
    fit(model, checkpoint=checkpoint, **given)
    return fingerprint(model)


OTHERS = {
    "labels": {"labels": LABELS[COUNT:]},
    "one label": {"labels": one_changed(LABELS[:COUNT])},
    "images": {"images": IMAGES[COUNT:]},
    "one image": {"images": one_changed(IMAGES[:COUNT])},
    "an order": {"images": IMAGES[:COUNT].flip(0), "labels": LABELS[:COUNT].flip(0)},
    "rows on disk": {"images": streamed(IMAGES, range(COUNT, 2 * COUNT))},
    "a task": {"task": Classification(3, label_smoothing=0.1)},
    "an augmentation": {"augmentation": "none"},
    "a mean": {"mean": (0.4,)},
    "a deviation": {"std": (0.2,)},
}


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
def test_a_training_with_anything_else_begins_anew(tmp_path, changes):
    file = tmp_path / "training.safetensors"
    with pytest.raises(StopError):
        train(Checkpoint(file, 0), Told(2))
    assert file.exists()
    assert train(Checkpoint(file, 1e9), **changes) == train(**changes)


def test_rows_on_disk_are_told_from_other_rows(tmp_path):
    file = tmp_path / "training.safetensors"
    before, later = streamed(IMAGES), streamed(IMAGES, range(COUNT, 2 * COUNT))
    with pytest.raises(StopError):
        train(Checkpoint(file, 0), Told(2), images=before)
    assert train(Checkpoint(file, 1e9), images=later) == train(images=later)


@pytest.mark.parametrize("make", [IMAGES[:COUNT].clone, lambda: streamed(IMAGES)])
def test_the_same_training_goes_on(tmp_path, make):
    file = tmp_path / "training.safetensors"
    with pytest.raises(StopError):
        train(Checkpoint(file, 0), Told(2), images=make())
    resumed = train(Checkpoint(file, 1e9), told := Told(), images=make())
    assert told.amounts == [2, 1, 1]
    assert resumed == train(images=make())


def identify(images, labels=LABELS[:COUNT], task=None):
    data = LabelledImages(images, labels, (0.5,), (0.25,), AUGMENTATIONS["none"])
    model = build("small-cnn", 3, 1, seed=0)
    return identify_training(
        model, task or Classification(3), data, RECIPE, augmentation="none", seed=0
    )


def test_a_data_set_on_disk_is_known_by_a_few_samples():
    whole = streamed(IMAGES)
    first = identify(whole)
    assert whole._reader.reads == 4
    assert identify(streamed(IMAGES, reversed(range(COUNT)))) != first
    assert identify(streamed(255 - IMAGES)) != first
    assert identify(streamed(IMAGES.clone())) == first


def test_label_maps_on_disk_count_too():
    maps = torch.randint(3, (COUNT, 8, 8), generator=generator(0, "maps")).byte()
    found = [identify(IMAGES[:COUNT], streamed(each, range(COUNT))) for each in (maps, 2 - maps)]
    assert found[0] != found[1]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_each_of_many_images_is_looked_at_in_part(monkeypatch, dtype):
    monkeypatch.setattr(checkpoint, "_LOOKED_AT_BYTES", COUNT * 16)
    images = IMAGES[:COUNT].to(dtype)
    looked = list(checkpoint._look(images, COUNT * 16))
    assert [len(part) for part in looked] == [COUNT]
    assert 1 < looked[0].shape[1] <= 16 // images.element_size()
    for row in range(COUNT):
        changed = images.clone()
        changed[row] = 255 - changed[row]
        assert identify(changed) != identify(images)


def test_images_that_differ_in_one_column_are_told_apart_in_large_sets():
    # Every 8th pixel would be of the first column, and black margins tell nothing.
    images = torch.zeros(COUNT, 1, 8, 8, dtype=torch.uint8)
    other = images.clone()
    other[:, :, :, 3] = 200
    looked = [torch.cat(list(checkpoint._look(each, COUNT * 8))) for each in (images, other)]
    assert not torch.equal(*looked)


def test_what_lies_in_memory_in_another_way_is_the_same():
    images = torch.randint(256, (COUNT, 3, 8, 8), generator=generator(1, "images")).byte()
    assert identify(images) == identify(images.contiguous(memory_format=torch.channels_last))


class Plain(Classification):
    __repr__ = object.__repr__


def test_where_a_task_is_in_memory_does_not_count():
    tasks = [Plain(3), Plain(3)]
    assert repr(tasks[0]) != repr(tasks[1])
    assert identify(IMAGES[:COUNT], task=tasks[0]) == identify(IMAGES[:COUNT], task=tasks[1])
    assert identify(IMAGES[:COUNT], task=replace(tasks[0], classes=4)) != identify(
        IMAGES[:COUNT], task=tasks[1]
    )
