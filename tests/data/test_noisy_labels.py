"""A simulated annotator errs as often as asked, always in the same way, and never by chance."""

from __future__ import annotations

import pytest
import torch

from steepest.data import ImageSet, SealedLabels, load
from steepest.data.alterations import with_wrong_labels
from steepest.errors import InputError

COUNT, CLASSES = 6000, 4


def make(labels, classes=CLASSES):
    images = torch.zeros(len(labels), 1, 2, 2, dtype=torch.uint8)
    names = tuple("abcdef"[:classes])
    task = {torch.uint8: "segmentation", torch.bool: "multi-label"}
    return ImageSet(
        "x", names, images, SealedLabels(labels), images, labels, (0.5,), (0.5,),
        task=task.get(labels.dtype, "classification"),
    )  # fmt: skip


def read(data):
    return data.train_labels.unseal("test")


TRUE = torch.arange(COUNT) % CLASSES


@pytest.mark.parametrize("share", [0.05, 0.2, 0.9])
def test_the_share_of_wrong_labels_is_the_one_asked_for(share):
    wrong = read(with_wrong_labels(make(TRUE), share)) != TRUE
    assert wrong.float().mean().item() == pytest.approx(share, abs=4 * (0.25 / COUNT) ** 0.5)


def test_a_wrong_label_is_any_other_class_as_often_as_the_next():
    noisy = read(with_wrong_labels(make(TRUE), 0.5))
    steps = (noisy - TRUE) % CLASSES
    counts = torch.bincount(steps, minlength=CLASSES)[1:].double()
    assert int(noisy.min()) == 0
    assert int(noisy.max()) == CLASSES - 1
    torch.testing.assert_close(
        counts / counts.sum(), torch.full((3,), 1 / 3).double(), atol=0.04, rtol=0
    )


def test_two_classes_are_exchanged():
    labels = torch.arange(400) % 2
    noisy = read(with_wrong_labels(make(labels, 2), 0.3))
    assert set((noisy - labels).abs().tolist()) == {0, 1}
    assert set(noisy.tolist()) == {0, 1}


def test_errors_are_the_same_every_time_and_stay_at_larger_shares():
    some, again, more = (read(with_wrong_labels(make(TRUE), share)) for share in (0.2, 0.2, 0.4))
    assert torch.equal(some, again)
    wrong = some != TRUE
    assert torch.equal(some[wrong], more[wrong])
    assert (more != TRUE).sum() > wrong.sum()


def test_the_original_and_the_test_labels_stay_as_they_are():
    data = load("digits")
    noisy = with_wrong_labels(data, 0.5)
    assert not torch.equal(read(noisy), read(data))
    assert torch.equal(read(load("digits")), read(data))
    assert torch.equal(noisy.test_labels, data.test_labels)
    assert noisy.train_images is data.train_images


def test_no_errors_leave_the_very_same_data_and_nothing_is_read():
    data = make(TRUE)
    assert with_wrong_labels(data, 0.0) is data
    assert data.train_labels.purposes == ()


def test_reading_the_labels_is_remembered():
    data = make(TRUE)
    with_wrong_labels(data, 0.1)
    assert data.train_labels.purposes == ("a simulated annotator who errs",)


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        (torch.zeros(3, 2, 2, dtype=torch.uint8), 4, "labelled for segmentation: leave it out"),
        (torch.ones(3, 4, dtype=torch.bool), 4, "labelled for multi-label: leave it out"),
        (torch.zeros(3, dtype=torch.int64), 1, "no other class for wrong labels"),
    ],
)
def test_labels_that_are_not_one_of_several_classes_are_refused(labels, classes, message):
    with pytest.raises(InputError, match=message) as caught:
        with_wrong_labels(make(labels, classes), 0.2)
    assert "\n" not in str(caught.value)
