from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import tarfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from small_copies import expect, read_small

from steepest.data import cifar10, load
from steepest.data.cifar10 import CLASSES
from steepest.errors import DataError

SMALL = expect(cifar10, train_count=50, test_count=10)
read_cifar10 = partial(read_small, cifar10)
TRAIN = [f"data_batch_{number}" for number in range(1, 6)]
REMEDY = "set STEEPEST_DATA to the folder that holds cifar-10-batches-py"


def write_batches(folder):
    """Write ten images to a batch, in the official layout; returns pixels and labels."""
    folder.mkdir(parents=True)
    draw = np.random.default_rng(0)
    written = {}
    for name in [*TRAIN, "test_batch"]:
        pixels = draw.integers(0, 256, (10, 3072), dtype=np.uint8)
        labels = draw.permutation(10).tolist()
        content = {b"batch_label": b"x", b"labels": labels, b"data": pixels, b"filenames": [b"a"]}
        (folder / name).write_bytes(pickle.dumps(content, 2))
        written[name] = pixels, labels
    return written


def write_archive(root, folder):
    archive = root / "cifar-10-python.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, "cifar-10-batches-py")
    md5 = hashlib.md5(archive.read_bytes()).hexdigest()
    return expect(cifar10, {archive.name: md5}, train_count=50, test_count=10)


@pytest.fixture
def written(tmp_path):
    return write_batches(tmp_path / "cifar-10-batches-py")


def assert_same(image_set, written):
    train = np.concatenate([written[name][0] for name in TRAIN]).reshape(-1, 3, 32, 32)
    labels = [label for name in TRAIN for label in written[name][1]]
    assert np.array_equal(image_set.train_images.numpy(), train)
    assert image_set.train_labels.unseal("test").tolist() == labels
    pixels, labels = written["test_batch"]
    assert np.array_equal(image_set.test_images.numpy(), pixels.reshape(-1, 3, 32, 32))
    assert image_set.test_labels.tolist() == labels


def test_the_folder_of_batches_is_read(tmp_path, written):
    read = read_cifar10(tmp_path, SMALL)
    assert_same(read, written)
    assert read.classes == CLASSES
    assert read.augmentation == "crop-flip"
    assert len(read.mean) == len(read.std) == 3


def test_the_archive_is_read_without_unpacking(tmp_path, written):
    edition = write_archive(tmp_path, tmp_path / "cifar-10-batches-py")
    shutil.rmtree(tmp_path / "cifar-10-batches-py")
    assert_same(read_cifar10(tmp_path, edition), written)
    assert [path.name for path in tmp_path.iterdir()] == ["cifar-10-python.tar.gz"]


def test_an_archive_with_another_checksum_is_refused(tmp_path, written):
    write_archive(tmp_path, tmp_path / "cifar-10-batches-py")
    shutil.rmtree(tmp_path / "cifar-10-batches-py")
    with pytest.raises(DataError, match=rf"tar\.gz: MD5 is .*{REMEDY}"):
        read_cifar10(tmp_path, SMALL)


def test_an_archive_without_a_batch_is_refused(tmp_path, written):
    (tmp_path / "cifar-10-batches-py" / "data_batch_3").unlink()
    edition = write_archive(tmp_path, tmp_path / "cifar-10-batches-py")
    shutil.rmtree(tmp_path / "cifar-10-batches-py")
    with pytest.raises(DataError, match="data_batch_3 is not in it"):
        read_cifar10(tmp_path, edition)


def test_a_torn_archive_is_refused(tmp_path):
    archive = tmp_path / "cifar-10-python.tar.gz"
    archive.write_bytes(b"\x1f\x8b torn")
    md5 = hashlib.md5(archive.read_bytes()).hexdigest()
    with pytest.raises(DataError, match=r"tar\.gz: cannot be read"):
        read_cifar10(tmp_path, expect(cifar10, {archive.name: md5}))


def test_the_folder_goes_before_the_archive(tmp_path, written):
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(b"not looked at")
    assert_same(read_cifar10(tmp_path, SMALL), written)


def test_a_missing_batch_is_named(tmp_path, written):
    (tmp_path / "cifar-10-batches-py" / "data_batch_3").unlink()
    with pytest.raises(DataError, match=f"data_batch_3: missing.*{REMEDY}"):
        read_cifar10(tmp_path, SMALL)


def test_a_truncated_batch_is_named_on_one_line(tmp_path, written):
    path = tmp_path / "cifar-10-batches-py" / "data_batch_2"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(DataError, match=f"data_batch_2: truncated or damaged.*{REMEDY}") as caught:
        read_cifar10(tmp_path, SMALL)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "not a CIFAR batch"),
        ({b"data": b"123", b"labels": [1]}, "not a CIFAR batch"),
        ({b"data": np.zeros((10, 3071), np.uint8), b"labels": [0] * 10}, "do not match"),
        ({b"data": np.zeros((10, 3072), np.int64), b"labels": [0] * 10}, "do not match"),
        ({b"data": np.zeros((10, 3072), np.uint8), b"labels": [0] * 9}, "do not match"),
        ({b"data": np.zeros((10, 3072), np.uint8), b"labels": [b"0"] * 10}, "do not match"),
        ({b"data": np.zeros((9, 3072), np.uint8), b"labels": [0] * 9}, "9 images instead of 10"),
        ({b"data": np.zeros((10, 3072), np.uint8), b"labels": [0] * 10}, "not of equal size"),
        ({b"data": np.zeros((10, 3072), np.uint8), b"labels": [*range(9), 10]}, "outside 0..9"),
        ({b"data": np.zeros((10, 3072), np.uint8), b"labels": [*range(9), -1]}, "outside 0..9"),
    ],
)
def test_a_batch_of_another_layout_is_refused(tmp_path, written, content, message):
    path = tmp_path / "cifar-10-batches-py" / "test_batch"
    path.write_bytes(pickle.dumps(content, 2))
    with pytest.raises(DataError, match=message):
        read_cifar10(tmp_path, SMALL)


def test_the_real_counts_are_expected_by_default(tmp_path, written):
    with pytest.raises(DataError, match="50 images instead of 50000"):
        load("cifar10", tmp_path)


def test_without_data_the_remedy_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("STEEPEST_DATA", raising=False)
    with pytest.raises(DataError, match=REMEDY):
        load("cifar10")
    with pytest.raises(DataError, match=REMEDY):
        load("cifar10", tmp_path)


def test_a_hostile_batch_is_refused(tmp_path, written):
    path = tmp_path / "cifar-10-batches-py" / "data_batch_1"
    path.write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(DataError, match=r"data_batch_1.*'os\.system'"):
        read_cifar10(tmp_path, SMALL)


@pytest.mark.skipif(
    "STEEPEST_DATA" not in os.environ, reason="STEEPEST_DATA is not set: no real CIFAR-10 to read"
)
def test_the_real_test_split_is_whole():
    root = Path(os.environ["STEEPEST_DATA"])
    try:
        _, read = cifar10._choose_source(root)
    except DataError as error:
        pytest.skip(str(error))
    images, labels = read("test")
    assert images.shape == (10_000, 3, 32, 32)
    assert labels[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
    mean = torch.from_numpy(images).double().mean(dim=(0, 2, 3)) / 255
    assert mean.tolist() == pytest.approx([0.4942, 0.4851, 0.4504], abs=1e-4)
