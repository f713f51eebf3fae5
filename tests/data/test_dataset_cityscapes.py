from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from image_trees import noise, read_all, save, uniform
from small_copies import expect, read_small

from steepest.data import cityscapes, load
from steepest.data.cityscapes import CLASSES
from steepest.data.scene import cut
from steepest.errors import DataError, InputError

SMALL = expect(cityscapes, train_count=3, test_count=2, counts={"height": 20, "width": 30})
read_cityscapes = partial(read_small, cityscapes)
REMEDY = "set STEEPEST_DATA to the folder that holds cityscapes/leftImg8bit"
FRAMES = {
    "train": ["aachen/aachen_000000_000019", "aachen/aachen_000001_000019", "bochum/bochum_000000"],
    "val": ["lindau/lindau_000000_000019", "munster/munster_000000_000019"],
}
# Label ids of the annotation, and the classes that the benchmark makes of them.
IDS = {7: 0, 8: 1, 11: 2, 12: 3, 13: 4, 17: 5, 19: 6, 20: 7, 21: 8, 22: 9, 23: 10, 24: 11}
IDS |= {25: 12, 26: 13, 27: 14, 28: 15, 31: 16, 32: 17, 33: 18}


def image_path(root, frame, split="train"):
    return root / "cityscapes" / "leftImg8bit" / split / f"{frame}_leftImg8bit.png"


def map_path(root, frame, split="train", kind="labelIds"):
    return root / "cityscapes" / "gtFine" / split / f"{frame}_gtFine_{kind}.png"


def ids_of(pixels):
    """Return label ids that follow from the pixels, so that maps tell if they were cut alike."""
    return pixels[..., 0] % 34


def classes_of(pixels):
    table = np.array([IDS.get(number, 255) for number in range(34)], dtype=np.uint8)
    return table[pixels[..., 0].astype(int) % 34]


@pytest.fixture
def written(tmp_path):
    pixels = {}
    for split, frames in FRAMES.items():
        pixels[split] = [noise(20, 30, seed=len(split) + n) for n in range(len(frames))]
        for frame, image in zip(frames, pixels[split], strict=True):
            save(image_path(tmp_path, frame, split), image)
            save(map_path(tmp_path, frame, split), ids_of(image))
            map_path(tmp_path, frame, split, "polygons").with_suffix(".json").write_text("{}")
    return pixels


def read(root, crop=12, **options):
    return read_cityscapes(root, SMALL, crop=crop, **{"workers": 0, **options})


def maps(data):
    return data.train_labels.unseal_rows(range(len(data.train_labels)), "test")


def test_test_images_and_their_maps_are_whole(tmp_path, written):
    data = read(tmp_path)
    wanted = np.stack(written["val"])
    assert np.array_equal(data.test_images[:].numpy(), wanted.transpose(0, 3, 1, 2))
    assert np.array_equal(data.test_labels[:].numpy(), np.stack([classes_of(p) for p in wanted]))
    assert data.test_images.draws == data.test_labels.draws == 0


def test_pool_images_and_their_maps_are_the_centre(tmp_path, written):
    data = read(tmp_path)
    wanted = np.stack(written["train"])[:, 4:16, 9:21]
    assert np.array_equal(data.train_images[:].numpy(), wanted.transpose(0, 3, 1, 2))
    assert np.array_equal(maps(data)[:].numpy(), np.stack([classes_of(p) for p in wanted]))


def test_the_set_says_what_it_is(tmp_path, written):
    data = read(tmp_path)
    assert (data.task, data.augmentation) == ("segmentation", "own")
    assert data.classes == CLASSES
    assert len(set(CLASSES)) == 19
    assert (CLASSES[0], CLASSES[10], CLASSES[13], CLASSES[18]) == ("road", "sky", "car", "bicycle")
    assert data.mean == (0.290101, 0.328081, 0.286964)
    assert data.std == (0.182954, 0.186566, 0.184475)
    assert data.train_labels.dense


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("crop", [12, 25, 40])
def test_images_and_maps_are_cut_and_mirrored_alike(tmp_path, written, workers, crop):
    data = read(tmp_path, crop, workers=workers)
    labels, different = maps(data), 0
    assert data.train_images.draws == labels.draws == 3
    for seed in range(4):
        numbers = uniform(data.train_images, seed)
        images = read_all(data.train_images, 2, numbers).numpy().transpose(0, 2, 3, 1)
        found = read_all(labels, 3, numbers).numpy()
        wanted = classes_of(images)
        inside = found != 255
        assert np.array_equal(found[inside], wanted[inside])
        assert inside.any()
        if crop == 12:
            assert np.array_equal(found, wanted)
        different += int(not np.array_equal(images, data.train_images[:].numpy()))
    assert different or crop == 40


def test_small_images_are_reflected_and_what_is_added_does_not_count(tmp_path, written):
    data = read(tmp_path, 40)
    pixels = written["train"][0]
    wanted = np.pad(pixels, [(10, 10), (5, 5), (0, 0)], mode="reflect")
    assert np.array_equal(data.train_images[:][0].numpy(), wanted.transpose(2, 0, 1))
    labels = maps(data)[:][0].numpy()
    assert np.array_equal(labels[10:30, 5:35], classes_of(pixels))
    labels[10:30, 5:35] = 255
    assert (labels == 255).all()


def test_each_draw_decides_one_thing():
    pixels = np.arange(100, dtype=np.uint8).reshape(10, 10)
    corner = cut(pixels, 4, torch.tensor([0.0, 0.0, 0.5]), fill=255)
    assert np.array_equal(corner, pixels[:4, :4])
    assert np.array_equal(cut(pixels, 4, torch.tensor([0.999, 0.0, 0.5]), fill=0), pixels[6:, :4])
    assert np.array_equal(cut(pixels, 4, torch.tensor([0.0, 0.999, 0.5]), fill=0), pixels[:4, 6:])
    mirrored = cut(pixels, 4, torch.tensor([0.0, 0.0, 0.49]), fill=255)
    assert np.array_equal(mirrored, corner[:, ::-1])


def test_maps_of_classes_are_used_directly(tmp_path, written):
    frame = FRAMES["train"][1]
    direct = np.tile(np.array([0, 18, 255], dtype=np.uint8), (20, 10))
    save(map_path(tmp_path, frame, kind="labelTrainIds"), direct)
    labels = maps(read(tmp_path))[:].numpy()
    assert np.array_equal(labels[1], direct[4:16, 9:21])
    assert np.array_equal(labels[0], classes_of(written["train"][0])[4:16, 9:21])
    map_path(tmp_path, frame).unlink()
    assert np.array_equal(maps(read(tmp_path))[:].numpy(), labels)


@pytest.mark.parametrize(("kind", "number"), [("labelIds", 34), ("labelTrainIds", 19)])
def test_a_number_that_is_no_label_is_named(tmp_path, written, kind, number):
    odd = np.zeros((20, 30), dtype=np.uint8)
    odd[10, 15] = number
    save(map_path(tmp_path, FRAMES["train"][0], kind=kind), odd)
    with pytest.raises(DataError, match=rf"_gtFine_{kind}\.png: {number} is no label"):
        maps(read(tmp_path))[[0]]


def test_a_map_of_another_size_is_named(tmp_path, written):
    save(map_path(tmp_path, FRAMES["train"][2]), ids_of(noise(20, 28)))
    labels = maps(read(tmp_path, workers=1))
    with pytest.raises(DataError, match=r"bochum.*labelIds\.png: 28x20 pixels instead of 30x20"):
        read_all(labels)


def test_a_map_of_colours_is_refused(tmp_path, written):
    save(map_path(tmp_path, FRAMES["train"][0]), noise(20, 30))
    with pytest.raises(DataError, match="RGB pixels, not one byte"):
        maps(read(tmp_path))[[0]]


def test_a_test_image_of_another_size_is_named(tmp_path, written):
    save(image_path(tmp_path, FRAMES["val"][0], "val"), noise(21, 30))
    with pytest.raises(DataError, match=r"lindau.*leftImg8bit\.png: 30x21 pixels instead of 30x20"):
        read(tmp_path).test_images[[0]]


@pytest.mark.parametrize("which", ["image", "map"])
def test_a_damaged_file_is_named_on_one_line(tmp_path, written, which):
    frame = FRAMES["train"][1]
    path = image_path(tmp_path, frame) if which == "image" else map_path(tmp_path, frame)
    path.write_bytes(path.read_bytes()[:200])
    data = read(tmp_path, workers=1)
    with pytest.raises(DataError, match=rf"{path.name}: cannot be read") as caught:
        read_all(data.train_images if which == "image" else maps(data))
    assert "\n" not in str(caught.value)


def test_missing_files_are_named(tmp_path, written):
    map_path(tmp_path, FRAMES["val"][1], "val").unlink()
    with pytest.raises(
        DataError, match=rf"munster_000000_000019_gtFine_labelIds\.png: missing.*{REMEDY}"
    ):
        read(tmp_path)
    image_path(tmp_path, FRAMES["train"][0]).unlink()
    with pytest.raises(DataError, match=f"train: 2 images instead of 3; .*{REMEDY}"):
        read(tmp_path)


def test_the_folders_may_lie_in_the_data_folder_itself(tmp_path, written):
    assert len(read(tmp_path / "cityscapes").train_images) == 3


def test_the_real_counts_and_sizes_are_expected_by_default(tmp_path, written):
    with pytest.raises(DataError, match="3 images instead of 2975"):
        load("cityscapes", tmp_path)
    assert dict(cityscapes.HOLDING.counts) == {"height": 1024, "width": 2048}


def test_without_data_the_remedy_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("STEEPEST_DATA", raising=False)
    with pytest.raises(DataError, match=REMEDY):
        load("cityscapes")
    with pytest.raises(DataError, match=f"Cityscapes is not there; .*{REMEDY}"):
        load("cityscapes", tmp_path)


def test_options_that_cannot_be_used_are_refused(tmp_path, written):
    with pytest.raises(InputError, match="crop is 0"):
        read(tmp_path, 0)
