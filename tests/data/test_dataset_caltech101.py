from __future__ import annotations

import json
import os
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from shard_files import write_shards
from small_copies import expect, read_small

from steepest.data import caltech101, load
from steepest.errors import DataError, InputError, UnknownNameError

COUNTS = {"Faces": 10, "ant": 11, "wrench": 19}
SMALL = expect(
    caltech101,
    classes=3,
    train_count=35,
    test_count=5,
    counts={"shards train": 6, "shards test": 3},
)
read_caltech101 = partial(read_small, caltech101)
TREE = "101_ObjectCategories"
REMEDY = f"run `steepest data get caltech101`, or set STEEPEST_DATA to the folder that holds {TREE}"


def write_tree(root, place=TREE):
    """Write images whose red tells the class and whose green tells the number."""
    for label, (name, count) in enumerate(COUNTS.items()):
        folder = root / place / name
        folder.mkdir(parents=True)
        for number in range(count):
            image = np.full((24, 30, 3), (80 * label, 10 * number, 128), np.uint8)
            Image.fromarray(image).save(folder / f"image_{number + 1:04}.jpg", quality=95)
    background = root / place / "BACKGROUND_Google"
    background.mkdir()
    (background / "image_0001.jpg").write_bytes(b"not looked at")
    (background / "tmp").write_bytes(b"not looked at")


def numbers_by_class(images, labels):
    """Tell each image's number by its colour."""
    greens = (images[:, 1, 4, 4].double() / 10).round().long().tolist()
    found = {label: [] for label in range(len(COUNTS))}
    for green, label in zip(greens, labels.tolist(), strict=True):
        found[label].append(green)
    return found


def both_parts(read):
    train = numbers_by_class(read.train_images, read.train_labels.unseal("test"))
    return train, numbers_by_class(read.test_images, read.test_labels)


@pytest.mark.parametrize("place", [TREE, f"caltech-101/{TREE}", f"caltech101/{TREE}"])
def test_the_official_folder_is_read(tmp_path, place):
    write_tree(tmp_path, place)
    read = read_caltech101(tmp_path, SMALL, size=8)
    assert read.classes == ("Faces", "ant", "wrench")
    assert list(read.train_images.shape) == [35, 3, 8, 8]
    assert list(read.test_images.shape) == [5, 3, 8, 8]
    assert (read.name, read.augmentation) == ("caltech101", "flip")
    assert (read.mean, read.std) == ((0.5020,) * 3, (1.0,) * 3)


def test_nine_in_ten_of_each_class_are_for_training_rounded_down(tmp_path):
    write_tree(tmp_path)
    train, test = both_parts(read_caltech101(tmp_path, SMALL, size=8))
    assert [len(numbers) for numbers in train.values()] == [9, 9, 17]
    for label, count in enumerate(COUNTS.values()):
        assert sorted(train[label] + test[label]) == list(range(count))
        assert train[label] == sorted(train[label])


def test_images_have_the_colours_of_their_class(tmp_path):
    write_tree(tmp_path)
    read = read_caltech101(tmp_path, SMALL, size=8)
    reds = read.train_images[:, 0].double().mean(dim=(1, 2)) / 80
    assert torch.equal(reds.round().long(), read.train_labels.unseal("test"))


def test_the_seed_decides_the_split(tmp_path):
    write_tree(tmp_path)
    splits = [both_parts(read_caltech101(tmp_path, SMALL, size=8, seed=s)) for s in (0, 0, 1)]
    assert splits[0] == splits[1]
    assert splits[0] != splits[2]


def test_images_are_224_pixels_cut_from_the_middle_of_256(tmp_path):
    write_tree(tmp_path)
    path = tmp_path / TREE / "Faces" / "image_0001.jpg"
    noise = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path, quality=95)
    read = read_caltech101(tmp_path, SMALL)
    assert list(read.train_images.shape[1:]) == [3, 224, 224]
    with Image.open(path) as image:
        whole = np.asarray(image.resize((256, 256), Image.Resampling.BILINEAR))
    wanted = torch.tensor(whole[16:240, 16:240].transpose(2, 0, 1).copy())
    every = torch.cat([read.train_images, read.test_images])
    assert sum(torch.equal(image, wanted) for image in every) == 1


def test_grey_images_become_colours(tmp_path):
    write_tree(tmp_path)
    path = tmp_path / TREE / "Faces" / "image_0001.jpg"
    Image.fromarray(np.full((10, 10), 200, np.uint8)).save(path)
    read = read_caltech101(tmp_path, SMALL, size=8)
    every = torch.cat([read.train_images, read.test_images])
    assert sum(bool((image == 200).all()) for image in every) == 1


def test_a_damaged_image_is_named(tmp_path):
    write_tree(tmp_path)
    path = tmp_path / TREE / "ant" / "image_0004.jpg"
    path.write_bytes(path.read_bytes()[:300])
    message = rf"ant/image_0004\.jpg: truncated or damaged.*{REMEDY}"
    with pytest.raises(DataError, match=message) as caught:
        read_caltech101(tmp_path, SMALL, size=8)
    assert "\n" not in str(caught.value)


def test_missing_images_and_classes_are_counted(tmp_path):
    write_tree(tmp_path)
    (tmp_path / TREE / "ant" / "image_0004.jpg").unlink()
    with pytest.raises(DataError, match=f"{TREE}: 39 images instead of 40; {REMEDY}"):
        read_caltech101(tmp_path, SMALL, size=8)
    shutil.rmtree(tmp_path / TREE / "ant")
    with pytest.raises(DataError, match=f"{TREE}: 2 classes instead of 3; {REMEDY}"):
        read_caltech101(tmp_path, SMALL, size=8)


def test_an_image_in_the_wrong_class_is_noticed_by_the_split(tmp_path):
    write_tree(tmp_path)
    moved = tmp_path / TREE / "ant" / "image_0004.jpg"
    moved.rename(tmp_path / TREE / "wrench" / "image_0099.jpg")
    with pytest.raises(DataError, match=r"training part\): 36 images instead of 35"):
        read_caltech101(tmp_path, SMALL, size=8)


def test_hidden_files_are_not_images(tmp_path):
    write_tree(tmp_path)
    (tmp_path / TREE / "ant" / "._image_0001.jpg").write_bytes(b"a companion")
    (tmp_path / TREE / ".git").mkdir()
    assert len(read_caltech101(tmp_path, SMALL, size=8).train_images) == 35


@pytest.fixture
def shards(tmp_path):
    folder = tmp_path / "caltech101_64"
    pixels = np.random.default_rng(0).integers(0, 256, (9, 64, 64, 3), dtype=np.uint8)
    write_shards(folder, "train", [pixels[:4], pixels[4:6]], [0, 1, 2, 0, 1, 2])
    write_shards(folder, "test", [pixels[6:]], [2, 1, 0])
    (folder / "classes.json").write_text(json.dumps(list(COUNTS)))
    return pixels


@pytest.mark.parametrize("size", [0, 64])
def test_the_shards_are_read_with_their_own_split(tmp_path, shards, size):
    read = read_caltech101(tmp_path, SMALL, source="shards", size=size)
    assert np.array_equal(read.train_images, shards[:6].transpose(0, 3, 1, 2))
    assert np.array_equal(read.test_images, shards[6:].transpose(0, 3, 1, 2))
    assert read.train_labels.unseal("test").tolist() == [0, 1, 2, 0, 1, 2]
    assert read.test_labels.tolist() == [2, 1, 0]
    assert read.classes == tuple(COUNTS)


def test_damaged_shards_are_refused(tmp_path, shards):
    folder = tmp_path / "caltech101_64"
    write_shards(folder, "test", [shards[6:]], [2, 1, 3])
    with pytest.raises(DataError, match=rf"\(test\): a label is outside 0..2.*{REMEDY}"):
        read_caltech101(tmp_path, SMALL, source="shards")
    write_shards(folder, "test", [shards[6:]], [2, 1, 1])
    with pytest.raises(DataError, match=r"\(test\): no image of class 0"):
        read_caltech101(tmp_path, SMALL, source="shards")
    write_shards(folder, "test", [shards[7:]], [2, 1])
    with pytest.raises(DataError, match=r"\(test\): 2 images instead of 3"):
        read_caltech101(tmp_path, SMALL, source="shards")
    (folder / "classes.json").write_text('["Faces", "ant"]')
    with pytest.raises(DataError, match=r"classes\.json: 2 classes instead of 3"):
        read_caltech101(tmp_path, SMALL, source="shards")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"source": "shards", "size": 224}, InputError, "size is 224; give 64 for the shards"),
        ({"source": "shards", "seed": 1}, InputError, "split of their own"),
        ({"size": -1}, InputError, "size is -1; give a side in pixels"),
        ({"source": "shard"}, UnknownNameError, "did you mean 'shards'"),
    ],
)
def test_options_that_cannot_be_used_are_refused(tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        load("caltech101", tmp_path, options)


def test_without_the_official_files_the_shards_are_offered_but_not_taken(tmp_path, shards):
    with pytest.raises(DataError, match=rf"{REMEDY}/ \(or caltech101_64/, with source = 'shards'"):
        read_caltech101(tmp_path, SMALL)


def test_without_data_the_remedy_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("STEEPEST_DATA", raising=False)
    for options in ({}, {"source": "shards"}):
        for root in (None, tmp_path):
            with pytest.raises(DataError, match=REMEDY):
                load("caltech101", root, options)


@pytest.mark.skipif(
    "STEEPEST_DATA" not in os.environ, reason="STEEPEST_DATA is not set: no real Caltech-101"
)
@pytest.mark.parametrize(
    ("folder", "options", "train", "test"),
    [
        ("caltech101_64", {"source": "shards"}, [5784, 3, 64, 64], [2893, 3, 64, 64]),
        (TREE, {"size": 32}, [7766, 3, 32, 32], [911, 3, 32, 32]),
    ],
)
def test_the_real_images_are_whole(folder, options, train, test):
    root = Path(os.environ["STEEPEST_DATA"])
    places = (root / folder, root / "caltech-101" / folder, root / "caltech101" / folder)
    if not any(place.is_dir() for place in places):
        pytest.skip(f"no {folder} under STEEPEST_DATA")
    read = load("caltech101", root, options)
    assert list(read.train_images.shape) == train
    assert list(read.test_images.shape) == test
    assert read.classes[:2] == ("Faces", "Faces_easy")
    assert read.classes[-1] == "yin_yang"
    assert torch.bincount(read.test_labels, minlength=101).min() > 0
