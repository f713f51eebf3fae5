from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from steepest.errors import InputError
from steepest.modules.losses import entropy
from steepest.tasks import IGNORED, TASKS, Losses, Segmentation


def draw(shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def logits():
    return draw((3, 4, 5, 6))


@pytest.fixture
def maps():
    generator = torch.Generator().manual_seed(1)
    found = torch.randint(4, (3, 5, 6), generator=generator).to(torch.uint8)
    found[0, :2] = IGNORED
    found[2] = IGNORED
    return found


def test_it_is_found_by_name_and_says_what_counts():
    assert TASKS.get("segmentation") is Segmentation
    assert (Segmentation.headline, Segmentation.per_class) == ("miou", "per_class_iou")


def test_the_loss_is_the_mean_over_each_samples_labelled_pixels(logits, maps):
    loss = Segmentation(4).training_loss(logits, maps)
    for row in range(2):
        known = maps[row] != IGNORED
        chosen = logits[row].permute(1, 2, 0)[known]
        assert loss[row].item() == pytest.approx(
            functional.cross_entropy(chosen, maps[row][known].long()).item()
        )
    assert loss[2] == 0


def test_smoothing_and_weights_leave_ignored_pixels_out(logits, maps):
    task = Segmentation(4, label_smoothing=0.2, class_weights=(1.0, 2.0, 0.0, 3.0))
    changed = logits.clone()
    changed[0, :, :2] += draw((4, 2, 6), seed=3)
    assert torch.equal(task.training_loss(logits, maps), task.training_loss(changed, maps))


def test_label_free_losses_do_not_depend_on_the_size(logits):
    task = Segmentation(4)
    doubled = torch.cat([logits, logits], dim=3)
    assert torch.allclose(task.entropy(logits), task.entropy(doubled))
    assert torch.allclose(task.expected_loss(logits), task.expected_loss(doubled))


def test_the_expected_loss_is_the_mean_over_pixels_of_their_expectations(logits):
    task = Segmentation(4, label_smoothing=0.3, class_weights=(1.0, 2.0, 0.5, 3.0))
    by_hand = torch.zeros(3, dtype=torch.float64)
    for row in range(3):
        for i in range(5):
            for j in range(6):
                pixel = logits[row, :, i, j]
                one = pixel[None, :, None, None]
                for c in range(4):
                    share = pixel.softmax(0)[c]
                    loss = task.training_loss(one, torch.tensor([[[c]]]))[0]
                    by_hand[row] += share * loss / 30
    assert torch.allclose(task.expected_loss(logits), by_hand)


def test_without_smoothing_and_weights_the_expected_loss_is_the_entropy(logits):
    assert torch.allclose(Segmentation(4).expected_loss(logits), entropy(logits))


def confusion_by_hand(predicted, maps, classes):
    table = [[0] * classes for _ in range(classes)]
    for said, true in zip(predicted.flatten().tolist(), maps.flatten().tolist(), strict=True):
        if true != IGNORED:
            table[true][said] += 1
    return table


def test_metrics_come_from_one_confusion_matrix_over_all_samples(logits, maps):
    task = Segmentation(4)
    metrics = task.metrics([(logits, maps)])
    table = confusion_by_hand(logits.argmax(1), maps, 4)
    ious = []
    for c in range(4):
        union = sum(table[c]) + sum(row[c] for row in table) - table[c][c]
        ious.append(table[c][c] / union)
    assert metrics["per_class_iou"] == pytest.approx(ious)
    assert metrics["miou"] == pytest.approx(sum(ious) / 4)
    pixels = sum(map(sum, table))
    assert metrics["pixel_accuracy"] == pytest.approx(sum(table[c][c] for c in range(4)) / pixels)


def test_metrics_do_not_depend_on_how_batches_are_cut(logits, maps):
    task = Segmentation(4)
    whole = task.metrics([(logits, maps)])
    parts = task.metrics((logits[i : i + 1], maps[i : i + 1]) for i in range(3))
    assert parts["miou"] == whole["miou"]
    assert parts["loss"] == pytest.approx(whole["loss"])


def test_a_class_that_is_neither_there_nor_predicted_has_no_iou():
    logits = torch.zeros(1, 3, 1, 2)
    logits[0, 0] = 1
    metrics = Segmentation(3).metrics([(logits, torch.tensor([[[0, 1]]]))])
    assert metrics["per_class_iou"] == [0.5, 0.0, None]
    assert metrics["miou"] == 0.25


@pytest.mark.parametrize(
    ("logits", "maps", "message"),
    [
        (torch.zeros(1, 3), torch.zeros(1, dtype=torch.uint8), "every pixel"),
        (torch.zeros(1, 2, 4, 4), torch.zeros(1, 4, 4, dtype=torch.uint8), r"not \[N, 3"),
        (torch.zeros(1, 3, 4, 4), torch.zeros(1, 4, 5, dtype=torch.uint8), "label maps are"),
        (torch.zeros(1, 3, 4, 4), torch.full((1, 4, 4), 3, dtype=torch.uint8), "outside 0..2"),
        (torch.zeros(1, 3, 2, 2), torch.full((1, 2, 2), 255, dtype=torch.uint8), "no labelled"),
    ],
)
def test_metrics_of_parts_that_do_not_match_are_refused(logits, maps, message):
    with pytest.raises(InputError, match=message):
        Segmentation(3).metrics([(logits, maps)])


def test_the_usual_loss_of_dense_outputs_is_the_mean_over_positions(logits):
    maps = torch.zeros(3, 5, 6, dtype=torch.long)
    found = Losses().training_loss(logits, maps)
    by_hand = functional.cross_entropy(logits, maps, reduction="none").flatten(1).mean(1)
    assert torch.allclose(found, by_hand)
