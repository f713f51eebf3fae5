from __future__ import annotations

import torch

from steepest.data import ImageSet, SealedLabels, Streamed, load
from steepest.data.alterations import limited


class Rows:
    draws = 0

    def __call__(self, row, draw):
        return torch.full((1, 2, 2), row, dtype=torch.uint8)


def make(images):
    labels = torch.arange(50) % 2
    return ImageSet("x", ("a", "b"), images, SealedLabels(labels), images, labels, (0.5,), (0.5,))


def test_images_and_labels_stay_together_in_memory_and_on_disk():
    whole = torch.arange(50, dtype=torch.uint8).reshape(50, 1, 1, 1).expand(-1, 1, 2, 2)
    for images in (whole, Streamed(Rows(), 50, (1, 2, 2), torch.uint8)):
        part = limited(make(images), 7)
        assert len(part.ids) == len(part.test_labels) == 7
        numbers = part.train_images[:][:, 0, 0, 0].long()
        assert torch.equal(numbers % 2, part.train_labels.unseal("test"))
        assert len(set(numbers.tolist())) == 7
        assert torch.equal(part.test_images[:][:, 0, 0, 0] % 2, part.test_labels)


def test_a_part_is_always_the_same_and_no_larger_than_the_whole():
    first, again = load("digits", limit=30), load("digits", limit=30)
    assert torch.equal(first.train_images, again.train_images)
    assert len(load("digits", limit=10**6).ids) == len(load("digits").ids)
