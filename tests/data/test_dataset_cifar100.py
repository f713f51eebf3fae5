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
from small_copies import expect, read_small

from steepest.data import cifar100, load
from steepest.errors import DataError, UnknownNameError

SMALL = expect(cifar100, train_count=20, test_count=10, classes=5)
read_cifar100 = partial(read_small, cifar100)
NAMES = ("apple", "bear", "camel", "dinosaur", "elephant")
FOLDER = "cifar-100-python"
REMEDY = "run `steepest data get cifar100`, or set STEEPEST_DATA to the folder that holds cifar-100"


def make_batch(count, seed):
    draw = np.random.default_rng(seed)
    return {
        b"filenames": [b"x.png"] * count,
        b"batch_label": b"batch 1 of 1",
        b"fine_labels": draw.permutation(np.arange(count) % 5).tolist(),
        b"coarse_labels": [0] * count,
        b"data": draw.integers(0, 256, (count, 3072), dtype=np.uint8),
    }


def write(path, content):
    path.write_bytes(pickle.dumps(content, 2))


@pytest.fixture
def written(tmp_path):
    """Write a small edition in the official layout; returns what is in its files."""
    folder = tmp_path / FOLDER
    folder.mkdir()
    meta = {
        b"fine_label_names": [name.encode() for name in NAMES],
        b"coarse_label_names": [b"things"],
    }
    files = {"train": make_batch(20, 0), "test": make_batch(10, 1), "meta": meta}
    for name, content in files.items():
        write(folder / name, content)
    return files


def move_to_archive(root):
    archive = root / "cifar-100-python.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(root / FOLDER, FOLDER)
    shutil.rmtree(root / FOLDER)
    md5 = hashlib.md5(archive.read_bytes()).hexdigest()
    return expect(cifar100, {archive.name: md5}, train_count=20, test_count=10, classes=5)


def assert_same(image_set, written):
    train, test = written["train"], written["test"]
    assert np.array_equal(image_set.train_images, train[b"data"].reshape(-1, 3, 32, 32))
    assert image_set.train_labels.unseal("test").tolist() == train[b"fine_labels"]
    assert np.array_equal(image_set.test_images, test[b"data"].reshape(-1, 3, 32, 32))
    assert image_set.test_labels.tolist() == test[b"fine_labels"]
    assert image_set.classes == NAMES
    assert (image_set.name, image_set.task) == ("cifar100", "classification")
    assert image_set.augmentation == "crop-flip"


def test_the_folder_is_read(tmp_path, written):
    assert_same(read_cifar100(tmp_path, SMALL), written)


def test_the_archive_is_read_without_unpacking(tmp_path, written):
    edition = move_to_archive(tmp_path)
    assert_same(read_cifar100(tmp_path, edition), written)
    assert [path.name for path in tmp_path.iterdir()] == ["cifar-100-python.tar.gz"]


def test_an_archive_with_another_checksum_is_refused(tmp_path, written):
    move_to_archive(tmp_path)
    with pytest.raises(DataError, match=rf"tar\.gz: MD5 is .*damaged; {REMEDY}"):
        read_cifar100(tmp_path, SMALL)


def test_the_normalisation_is_that_of_cifar10_unless_its_own_is_asked_for(tmp_path, written):
    usual, own = (read_cifar100(tmp_path, SMALL, normalisation=n) for n in ("cifar10", "own"))
    assert read_cifar100(tmp_path, SMALL).mean == usual.mean == (0.4914, 0.4822, 0.4465)
    assert usual.std == (0.2023, 0.1994, 0.2010)
    assert own.mean == (0.5071, 0.4867, 0.4408)
    assert own.std == (0.2675, 0.2565, 0.2761)
    with pytest.raises(UnknownNameError, match=r"normalisation 'mine'.*known: cifar10, own"):
        load("cifar100", tmp_path, {"normalisation": "mine"})


@pytest.mark.parametrize("name", ["train", "test", "meta"])
def test_a_missing_file_is_named(tmp_path, written, name):
    (tmp_path / FOLDER / name).unlink()
    with pytest.raises(DataError, match=f"{FOLDER}/{name}: missing; {REMEDY}"):
        read_cifar100(tmp_path, SMALL)


@pytest.mark.parametrize("name", ["train", "test", "meta"])
def test_a_truncated_file_is_named_on_one_line(tmp_path, written, name):
    path = tmp_path / FOLDER / name
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=f"{name}: truncated or damaged.*{REMEDY}") as caught:
        read_cifar100(tmp_path, SMALL)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["train", "meta"])
def test_a_hostile_file_is_refused(tmp_path, written, name):
    (tmp_path / FOLDER / name).write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(DataError, match=rf"{name}.*'os\.system'"):
        read_cifar100(tmp_path, SMALL)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({b"fine_labels": None}, "test: not a CIFAR batch"),
        ({b"fine_labels": [0] * 10}, "test: the 5 classes are not of equal size"),
        ({b"fine_labels": [0, 1, 2, 3, 5] * 2}, r"test: a label is outside 0..4 \(0 to 5 found"),
        ({b"fine_labels": [0, 1, 2, 3, 4]}, "test: images and labels do not match"),
        ({b"data": np.zeros((10, 3071), np.uint8)}, "test: images and labels do not match"),
    ],
)
def test_wrong_labels_are_refused(tmp_path, written, changes, message):
    write(tmp_path / FOLDER / "test", {**written["test"], **changes})
    with pytest.raises(DataError, match=message):
        read_cifar100(tmp_path, SMALL)


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ([b"apple"], "meta: not a CIFAR batch"),
        ({b"label_names": [b"apple"]}, "meta: no list of fine_label_names"),
        ({b"fine_label_names": [1, 2]}, "meta: no list of fine_label_names"),
        ({b"fine_label_names": [b"\xff"] * 5}, "meta: fine_label_names are damaged"),
        ({b"fine_label_names": [b"apple", b"bear"]}, "meta: 2 classes instead of 5"),
        ({b"fine_label_names": [b"apple"] * 5}, "meta: 1 classes instead of 5"),
    ],
)
def test_wrong_names_of_classes_are_refused(tmp_path, written, meta, message):
    write(tmp_path / FOLDER / "meta", meta)
    with pytest.raises(DataError, match=message):
        read_cifar100(tmp_path, SMALL)


def test_the_real_counts_are_expected_by_default(tmp_path, written):
    with pytest.raises(DataError, match="5 classes instead of 100"):
        load("cifar100", tmp_path)
    with pytest.raises(DataError, match="train: 20 images instead of 50000"):
        read_cifar100(tmp_path, expect(cifar100, classes=5))


def test_without_data_the_remedy_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("STEEPEST_DATA", raising=False)
    for root in (None, tmp_path):
        with pytest.raises(DataError, match=REMEDY):
            load("cifar100", root)


@pytest.mark.skipif(
    "STEEPEST_DATA" not in os.environ, reason="STEEPEST_DATA is not set: no real CIFAR-100 to read"
)
def test_the_real_files_are_whole():
    root = Path(os.environ["STEEPEST_DATA"])
    if not any((root / name).exists() for name in (FOLDER, f"{FOLDER}.tar.gz")):
        pytest.skip("no CIFAR-100 under STEEPEST_DATA")
    read = load("cifar100", root, {"normalisation": "own"})
    assert read.classes[:3] == ("apple", "aquarium_fish", "baby")
    mean = read.train_images.float().mean(dim=(0, 2, 3)) / 255
    assert mean.tolist() == pytest.approx(read.mean, abs=1e-3)
