from __future__ import annotations

import numpy as np
import pytest
from shard_files import write_map_shards, write_shards

from steepest.data.shards import read_classes, read_map_shards, read_shards
from steepest.errors import DataError

SHAPE = (4, 6)


@pytest.fixture
def pixels():
    return np.random.default_rng(0).integers(0, 256, (7, *SHAPE, 3), dtype=np.uint8)


def test_images_come_back_exactly_in_order(tmp_path, pixels):
    write_shards(tmp_path, "test", [pixels[:5], pixels[5:]], range(7))
    images, labels = read_shards(tmp_path, "test")
    assert np.array_equal(images, pixels.transpose(0, 3, 1, 2))
    assert images.flags.c_contiguous
    assert labels.tolist() == list(range(7))
    assert labels.dtype == np.int64


def test_the_tenth_shard_comes_after_the_second(tmp_path, pixels):
    parts = [pixels[:1] // 16 + number * 16 for number in range(11)]
    write_shards(tmp_path, "train", parts, [0] * 11)
    images, _ = read_shards(tmp_path, "train")
    assert [int(image.max()) // 16 for image in images] == list(range(11))


def test_grey_images_have_one_channel(tmp_path, pixels):
    write_shards(tmp_path, "test", [pixels[:, :, :, :1]], range(7))
    images, _ = read_shards(tmp_path, "test")
    assert images.shape == (7, 1, *SHAPE)
    assert np.array_equal(images[:, 0], pixels[:, :, :, 0])


def test_a_missing_shard_is_named(tmp_path, pixels):
    with pytest.raises(DataError, match=r"test_0\.npz: missing"):
        read_shards(tmp_path, "test")
    write_shards(tmp_path, "test", [pixels[:3], pixels[3:5], pixels[5:]], range(7))
    (tmp_path / "test_1.npz").unlink()
    with pytest.raises(DataError, match=r"test_1\.npz: missing"):
        read_shards(tmp_path, "test")


@pytest.mark.parametrize("keep", [0, 10, 400, -30])
def test_a_truncated_shard_is_named(tmp_path, pixels, keep):
    write_shards(tmp_path, "test", [pixels], range(7))
    path = tmp_path / "test_0.npz"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"test_0\.npz: truncated or damaged"):
        read_shards(tmp_path, "test")


def test_damage_inside_a_strip_is_noticed(tmp_path, pixels):
    write_shards(tmp_path, "test", [pixels], range(7))
    with np.load(tmp_path / "test_0.npz") as shard:
        arrays = dict(shard)
    arrays["data"][:8] = 0
    np.savez(tmp_path / "test_0.npz", **arrays)
    with pytest.raises(DataError, match="damaged"):
        read_shards(tmp_path, "test")


@pytest.mark.parametrize("count", [6, 9])
def test_a_count_that_does_not_match_the_strips_is_noticed(tmp_path, pixels, count):
    write_shards(tmp_path, "test", [pixels], range(7))
    with np.load(tmp_path / "test_0.npz") as shard:
        arrays = dict(shard)
    arrays["shape"][0] = count
    np.savez(tmp_path / "test_0.npz", **arrays)
    with pytest.raises(DataError, match=r"test_0\.npz"):
        read_shards(tmp_path, "test")


def test_labels_must_match_the_images(tmp_path, pixels):
    write_shards(tmp_path, "test", [pixels], range(6))
    with pytest.raises(DataError, match=r"test_labels\.npy: not one label"):
        read_shards(tmp_path, "test")
    (tmp_path / "test_labels.npy").unlink()
    with pytest.raises(DataError, match=r"test_labels\.npy: missing"):
        read_shards(tmp_path, "test")


def test_shards_of_different_shapes_are_refused(tmp_path, pixels):
    write_shards(tmp_path, "test", [pixels, pixels[:, :3]], range(14))
    with pytest.raises(DataError, match="differ in shape"):
        read_shards(tmp_path, "test")


@pytest.fixture
def maps():
    return np.random.default_rng(1).integers(0, 12, (7, *SHAPE), dtype=np.uint8)


def test_label_maps_come_back_exactly(tmp_path, pixels, maps):
    write_map_shards(tmp_path, "val", [pixels[:4], pixels[4:]], maps)
    images, read = read_map_shards(tmp_path, "val")
    assert np.array_equal(images, pixels.transpose(0, 3, 1, 2))
    assert np.array_equal(read, maps)
    assert read.dtype == np.uint8


def test_label_maps_are_not_taken_for_a_shard(tmp_path, pixels, maps):
    write_map_shards(tmp_path, "val", [pixels], maps)
    with pytest.raises(DataError, match=r"val_labels\.npy: missing"):
        read_shards(tmp_path, "val")


def test_label_maps_must_match_the_images(tmp_path, pixels, maps):
    for wrong in (maps[:6], maps[:, :3], maps.astype(np.int64)):
        write_map_shards(tmp_path, "val", [pixels], wrong)
        with pytest.raises(DataError, match=r"val_labels\.npz: not one label map for each of 7"):
            read_map_shards(tmp_path, "val")


@pytest.mark.parametrize("keep", [0, 10, 100, -30])
def test_truncated_label_maps_are_named(tmp_path, pixels, maps, keep):
    write_map_shards(tmp_path, "val", [pixels], maps)
    path = tmp_path / "val_labels.npz"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"val_labels\.npz: missing or damaged"):
        read_map_shards(tmp_path, "val")


def test_label_maps_under_another_key_are_refused(tmp_path, pixels, maps):
    write_map_shards(tmp_path, "val", [pixels], maps)
    np.savez(tmp_path / "val_labels.npz", maps=maps)
    with pytest.raises(DataError, match=r"val_labels\.npz: missing or damaged"):
        read_map_shards(tmp_path, "val")


def test_the_names_of_classes_are_read(tmp_path):
    path = tmp_path / "classes.json"
    with pytest.raises(DataError, match=r"classes\.json: missing"):
        read_classes(tmp_path)
    path.write_text('["sky", "road"]')
    assert read_classes(tmp_path) == ("sky", "road")
    path.write_text('["sky", ')
    with pytest.raises(DataError, match=r"classes\.json: missing or damaged"):
        read_classes(tmp_path)
    path.write_text('{"sky": 0}')
    with pytest.raises(DataError, match=r"classes\.json: not a list of names"):
        read_classes(tmp_path)
