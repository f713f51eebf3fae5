from __future__ import annotations

import pytest
import torch

from steepest.core.progress import SilentProgress
from steepest.core.seeds import generator
from steepest.data import Streamed
from steepest.errors import DataError, InputError
from steepest.models import build
from steepest.modules.fingerprint import fingerprint
from steepest.tasks import IGNORED, Classification, Segmentation
from steepest.training import AUGMENTATIONS, Recipe, evaluate, fit
from steepest.training.batches import LabelledImages

CPU = torch.device("cpu")
IMAGES = torch.randint(256, (20, 1, 8, 8), generator=generator(0, "images")).to(torch.uint8)
LABELS = torch.randint(3, (20,), generator=generator(0, "labels"))
MAPS = torch.randint(3, (20, 8, 8), generator=generator(0, "maps")).to(torch.uint8)


class Rows:
    """Reads from a tensor, and shifts what it reads by its draw."""

    def __init__(self, data, draws=0):
        self.data = data
        self.draws = draws

    def __call__(self, row, draw):
        sample = self.data[row]
        return sample if draw is None else torch.roll(sample, int(draw[0] * 8), dims=-1)


def streamed(data, draws=0, workers=0):
    return Streamed(Rows(data, draws), len(data), data.shape[1:], data.dtype, workers=workers)


def train(images, augmentation):
    model = build("small-cnn", 3, 1, seed=0)
    recipe = Recipe(epochs=2, batch_size=8, lr=0.05, schedule="constant")
    fit(
        model, Classification(3), images, LABELS, recipe, mean=(0.5,), std=(0.25,),
        augmentation=augmentation, seed=0, device=CPU, progress=SilentProgress(),
    )  # fmt: skip
    return fingerprint(model)


@pytest.mark.parametrize("augmentation", ["none", "crop-flip"])
def test_images_on_disk_train_as_those_in_memory_do(augmentation):
    assert train(streamed(IMAGES), augmentation) == train(IMAGES, augmentation)


def test_a_readers_own_augmentation_is_drawn_by_seed_and_epoch():
    data = LabelledImages(streamed(IMAGES, 1), LABELS, (0.5,), (0.25,), None)
    seen = [torch.cat([x for x, _ in data.batches(0, 0, size, CPU)]) for size in (3, 7)]
    later = torch.cat([x for x, _ in data.batches(0, 1, 7, CPU)])
    assert torch.equal(*seen)
    assert not torch.equal(seen[0].sort(0).values, later.sort(0).values)


def test_label_maps_follow_their_images_from_disk_and_on_the_device():
    pictures = MAPS[:, None].clone()
    for source, labels, augment in [
        (streamed(pictures, 1), streamed(MAPS, 1), None),
        (pictures, MAPS, AUGMENTATIONS["crop-flip"]),
        (streamed(pictures), MAPS, AUGMENTATIONS["flip"]),
    ]:
        data = LabelledImages(source, labels, (0.0,), (1 / 255,), augment)
        for x, y in data.batches(0, 0, 8, CPU):
            shown = x[:, 0].round().to(torch.uint8)
            known = y != IGNORED
            assert torch.equal(shown[known], y[known])
            assert bool((shown[~known] == 0).all())


def test_images_in_memory_have_no_augmentation_of_their_own():
    with pytest.raises(InputError, match="'own' is for data sets"):
        train(IMAGES, "own")
    with pytest.raises(InputError, match="'own' is for data sets"):
        train(streamed(IMAGES), "own")


@pytest.mark.parametrize(
    ("maps", "message"),
    [
        (MAPS + 5, r"class outside 0\.\.2"),
        (MAPS[:, :4], r"label maps are \[4, 8\] for images of \[8, 8\]"),
    ],
)
def test_maps_from_disk_that_do_not_fit_are_refused(maps, message):
    model = torch.nn.Conv2d(1, 3, 3, padding=1)
    with pytest.raises(DataError, match=message):
        fit(
            model, Segmentation(3), IMAGES, streamed(maps), Recipe(epochs=1, batch_size=8),
            mean=(0.5,), std=(0.25,), augmentation="none", seed=0, device=CPU,
            progress=SilentProgress(),
        )  # fmt: skip


def test_volumes_are_neither_cropped_nor_mirrored():
    volumes = torch.zeros(4, 1, 3, 8, 8)
    LabelledImages(volumes, LABELS[:4], (0.0,), (1.0,), AUGMENTATIONS["none"])
    with pytest.raises(InputError, match="not for volumes"):
        LabelledImages(volumes, LABELS[:4], (0.0,), (1.0,), AUGMENTATIONS["flip"])


def test_metrics_from_disk_are_those_from_memory():
    model = torch.nn.Conv2d(1, 3, 3, padding=1)
    scale = {"mean": (0.5,), "std": (0.25,), "device": CPU}
    task = Segmentation(3)
    here = evaluate(model, task, IMAGES, MAPS, **scale)
    there = evaluate(model, task, streamed(IMAGES), streamed(MAPS), batch_size=7, **scale)
    assert there["miou"] == here["miou"]
    assert there["loss"] == pytest.approx(here["loss"])
