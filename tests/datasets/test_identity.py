from __future__ import annotations

from dataclasses import replace

import pytest

from steepest.datasets import SealedLabels, Streamed, load
from steepest.datasets.identity import identify


class Rows:
    draws = 0

    def __init__(self, data):
        self.data = data

    def __call__(self, row, draw):
        return self.data[row]


@pytest.fixture
def digits():
    return load("digits")


def test_it_is_the_same_each_time_and_reads_no_label(digits):
    assert identify(digits) == identify(load("digits"))
    assert digits.train_labels.purposes == ()


@pytest.mark.parametrize("streamed", [False, True])
def test_samples_that_moved_up_show(digits, streamed):
    moved = digits.train_images.roll(1, 0)
    if streamed:
        moved = Streamed(Rows(moved), len(moved), moved.shape[1:], moved.dtype)
    assert identify(replace(digits, train_images=moved)) != identify(digits)


def test_other_labels_show(digits):
    labels = digits.train_labels.unseal("test")
    labels[7] = (labels[7] + 1) % 10
    assert identify(replace(digits, train_labels=SealedLabels(labels))) != identify(digits)
