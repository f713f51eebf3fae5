from __future__ import annotations

import numpy as np
import pytest
import torch

from steepest.data import digits as digits_module
from steepest.data import load
from steepest.errors import DataError


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def test_split_has_the_promised_sizes_and_every_class(digits):
    assert list(digits.train_images.shape) == [1297, 1, 8, 8]
    assert list(digits.test_images.shape) == [500, 1, 8, 8]
    assert digits.classes == tuple("0123456789")
    train = torch.bincount(digits.train_labels.unseal("test of the split"))
    assert train.min() >= 100
    assert torch.bincount(digits.test_labels).min() >= 30


def test_split_is_fixed(digits):
    assert digits.test_labels[:8].tolist() == [2, 5, 9, 7, 7, 6, 8, 5]
    assert torch.equal(digits.test_images, load("digits").test_images)


def test_training_and_test_images_are_the_whole_set_once(digits):
    images, labels = digits_module._read()
    both = torch.cat([digits.train_images, digits.test_images])
    grey = (images.astype(float) * 255 / 16 + 0.5).astype(np.uint8).reshape(len(images), -1)
    assert sorted(map(bytes, both.flatten(1).numpy())) == sorted(map(bytes, grey))
    assert len(labels) == 1797


def test_grey_reaches_from_black_to_white(digits):
    assert digits.train_images.min() == 0
    assert digits.train_images.max() == 255
    assert len(digits.train_images.unique()) == 17


def test_mean_and_std_are_those_of_the_training_images(digits):
    pixels = digits.train_images.double() / 255
    assert digits.mean == pytest.approx((pixels.mean().item(),), abs=1e-4)
    assert digits.std == pytest.approx((pixels.std().item(),), abs=1e-4)


def test_other_arrays_than_the_released_ones_are_refused(monkeypatch):
    monkeypatch.setattr(digits_module, "_SHA256", "0" * 64)
    with pytest.raises(DataError, match="install steepest again"):
        load("digits")


def test_a_damaged_file_is_refused(monkeypatch, tmp_path):
    (tmp_path / "digits.npz").write_bytes(b"PK\x03\x04 torn")
    monkeypatch.setattr("importlib.resources.files", lambda _: tmp_path)
    with pytest.raises(DataError, match="damaged"):
        load("digits")
