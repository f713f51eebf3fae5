from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from steepest.datasets.shards import read_shards
from steepest.errors import DataError

SHAPE = (4, 6)


def write_shards(folder, split, parts, labels, per_strip=2):
    folder.mkdir(parents=True, exist_ok=True)
    for number, images in enumerate(parts):
        strips = []
        for start in range(0, len(images), per_strip):
            stack = images[start : start + per_strip]
            buffer = io.BytesIO()
            flat = stack.reshape(-1, stack.shape[2], stack.shape[3])
            grey = flat.shape[2] == 1
            Image.fromarray(flat[:, :, 0] if grey else flat).convert("RGB").save(
                buffer, "WEBP", lossless=True
            )
            strips.append(np.frombuffer(buffer.getvalue(), np.uint8))
        offsets = np.cumsum([0, *map(len, strips)])
        np.savez(
            folder / f"{split}_{number}.npz",
            data=np.concatenate(strips),
            off=offsets,
            shape=np.array(images.shape),
        )
    np.save(folder / f"{split}_labels.npy", np.asarray(labels, np.uint8))


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
