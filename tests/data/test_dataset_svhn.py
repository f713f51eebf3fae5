from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import savemat
from small_copies import expect, read_small

from steepest.data import load, svhn
from steepest.errors import DataError

TRAIN, TEST = "train_32x32.mat", "test_32x32.mat"
REMEDY = rf"run `steepest data get svhn`, or set STEEPEST_DATA to the folder that holds {TRAIN}"


def make_split(count, seed):
    """Return images [32, 32, 3, N] and labels 1..10 [N, 1], as the official files have them."""
    draw = np.random.default_rng(seed)
    labels = draw.permutation(np.arange(count) % 10 + 1).astype(np.uint8)
    return {
        "X": draw.integers(0, 256, (32, 32, 3, count), dtype=np.uint8),
        "y": labels[:, None],
    }


def write(path, content, **options):
    path.parent.mkdir(exist_ok=True)
    savemat(path, content, do_compression=True, **options)
    return hashlib.md5(path.read_bytes()).hexdigest()


def write_both(folder, train, test):
    counts = {"train_count": train["X"].shape[-1], "test_count": test["X"].shape[-1]}
    return expect(
        svhn, {TRAIN: write(folder / TRAIN, train), TEST: write(folder / TEST, test)}, **counts
    )


read_svhn = partial(read_small, svhn)


@pytest.mark.parametrize("inside", [".", "svhn"])
def test_the_files_are_read(tmp_path, inside):
    train, test = make_split(20, 0), make_split(10, 1)
    read = read_svhn(tmp_path, write_both(tmp_path / inside, train, test))
    assert list(read.train_images.shape) == [20, 3, 32, 32]
    for row, column, channel, image in [(0, 0, 0, 0), (3, 30, 2, 7), (31, 5, 1, 19)]:
        found = read.train_images[image, channel, row, column]
        assert found == train["X"][row, column, channel, image]
    assert np.array_equal(read.test_images, test["X"].transpose(3, 2, 0, 1))
    assert read.classes == tuple("0123456789")
    assert (read.name, read.augmentation) == ("svhn", "crop-flip")
    assert read.mean == (0.4310, 0.4302, 0.4463)
    assert read.std == (0.1965, 0.1984, 0.1992)


def test_ten_stands_for_the_digit_zero(tmp_path):
    train, test = make_split(10, 0), make_split(10, 1)
    read = read_svhn(tmp_path, write_both(tmp_path, train, test))
    for labels, split in ((read.train_labels.unseal("test"), train), (read.test_labels, test)):
        assert labels.dtype == torch.int64
        assert labels.tolist() == [label % 10 for label in split["y"][:, 0].tolist()]


def test_another_file_is_refused_by_its_checksum(tmp_path):
    edition = write_both(tmp_path, make_split(10, 0), make_split(10, 1))
    content = bytearray((tmp_path / TEST).read_bytes())
    content[-1] ^= 1
    (tmp_path / TEST).write_bytes(content)
    with pytest.raises(DataError, match=rf"test_32x32\.mat: MD5 is .*damaged; {REMEDY}") as caught:
        read_svhn(tmp_path, edition)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("keep", [0, 100, 3000, -20])
def test_damage_is_noticed_whatever_the_checksum(tmp_path, keep):
    edition = write_both(tmp_path, make_split(10, 0), make_split(10, 1))
    torn = (tmp_path / TRAIN).read_bytes()[:keep]
    (tmp_path / TRAIN).write_bytes(torn)
    edition = expect(svhn, {TRAIN: hashlib.md5(torn).hexdigest()})
    with pytest.raises(DataError, match=rf"train_32x32\.mat: .*{REMEDY}"):
        read_svhn(tmp_path, edition)


@pytest.mark.parametrize("name", [TRAIN, TEST])
def test_a_missing_file_is_named(tmp_path, name):
    edition = write_both(tmp_path, make_split(10, 0), make_split(10, 1))
    (tmp_path / name).unlink()
    with pytest.raises(DataError, match=f"{name}: missing; {REMEDY}"):
        read_svhn(tmp_path, edition)


ALL_DIGITS = np.arange(1, 11, dtype=np.uint8)[:, None]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": ALL_DIGITS - 1}, r"a label is outside 0..9 \(-1"),
        ({"y": ALL_DIGITS + 1}, r"a label is outside 0..9 \(0 to 11"),
        ({"y": np.ones((10, 1), np.uint8)}, "no image of class 0"),
        ({"y": ALL_DIGITS[:9]}, "do not match"),
        ({"y": ALL_DIGITS / 2}, "do not match"),
        ({"X": np.zeros((3, 32, 32, 10), np.uint8)}, "do not match"),
        ({"X": np.zeros((32, 32, 3, 10))}, "do not match"),
        ({"X": np.zeros((32, 32, 3, 20), np.uint8), "y": np.tile(ALL_DIGITS, (2, 1))}, "20 images"),
    ],
)
def test_files_of_another_content_are_refused(tmp_path, changes, message):
    good = {**make_split(10, 0), "y": ALL_DIGITS}
    edition = replace(write_both(tmp_path, {**good, **changes}, make_split(10, 1)), train_count=10)
    with pytest.raises(DataError, match=rf"train_32x32\.mat: .*{message}"):
        read_svhn(tmp_path, edition)


def test_files_without_the_arrays_are_refused(tmp_path):
    write_both(tmp_path, make_split(10, 0), make_split(10, 1))
    md5 = write(tmp_path / TRAIN, {"images": np.zeros(3)})
    with pytest.raises(DataError, match="no images X and labels y"):
        read_svhn(tmp_path, expect(svhn, {TRAIN: md5}))


def test_the_official_files_are_expected_by_default(tmp_path):
    write_both(tmp_path, make_split(10, 0), make_split(10, 1))
    with pytest.raises(DataError, match=r"train_32x32\.mat: MD5 is .*e26dedcc434d2e4c54c9b2d4a06d"):
        load("svhn", tmp_path)


def test_without_data_the_remedy_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("STEEPEST_DATA", raising=False)
    for root in (None, tmp_path):
        with pytest.raises(DataError, match=REMEDY):
            load("svhn", root)


@pytest.mark.skipif(
    "STEEPEST_DATA" not in os.environ, reason="STEEPEST_DATA is not set: no real SVHN to read"
)
def test_the_real_files_are_whole():
    root = Path(os.environ["STEEPEST_DATA"])
    if not any((folder / TRAIN).exists() for folder in (root, root / "svhn")):
        pytest.skip("no SVHN under STEEPEST_DATA")
    read = load("svhn", root)
    assert len(read.train_images) == 73_257
    sizes = torch.bincount(read.train_labels.unseal("test of the class sizes")).tolist()
    assert sizes == [4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659]
