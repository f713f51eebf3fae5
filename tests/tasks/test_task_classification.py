from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from steepest.errors import InputError
from steepest.tasks import TASKS, Classification, Task
from steepest.tasks.classification import mean_of_classes


@pytest.fixture
def logits():
    return torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


TARGETS = torch.tensor([0, 1, 2, 0, 1, 0])


def test_it_is_found_by_name():
    assert TASKS.get("classification") is Classification
    assert issubclass(Classification, Task)
    assert Classification.name == "classification"


def test_the_loss_is_each_samples_cross_entropy(logits):
    loss = Classification(3).training_loss(logits, TARGETS)
    by_hand = [
        -row[target].item() + math.log(sum(math.exp(v) for v in row.tolist()))
        for row, target in zip(logits, TARGETS, strict=True)
    ]
    assert loss.tolist() == pytest.approx(by_hand)


def test_label_smoothing_spreads_the_target(logits):
    loss = Classification(3, label_smoothing=0.3).training_loss(logits, TARGETS)
    soft = functional.one_hot(TARGETS, 3) * 0.7 + 0.1
    assert torch.allclose(loss, -(soft * logits.log_softmax(1)).sum(1))


def test_class_weights_multiply_each_samples_loss(logits):
    weights = (1.0, 0.0, 2.5)
    plain = Classification(3, label_smoothing=0.1).training_loss(logits, TARGETS)
    weighted = Classification(3, 0.1, weights).training_loss(logits, TARGETS)
    assert torch.allclose(weighted, plain * torch.tensor(weights, dtype=torch.float64)[TARGETS])
    unsmoothed = Classification(3, class_weights=weights).training_loss(logits, TARGETS)
    vector = torch.tensor(weights, dtype=torch.float64)
    assert torch.allclose(
        unsmoothed, functional.cross_entropy(logits, TARGETS, vector, reduction="none")
    )


def test_predictions_are_the_most_likely_classes():
    logits = torch.tensor([[0.0, 2.0, 1.0], [3.0, -1.0, 2.0]])
    assert Classification(3).predictions(logits).tolist() == [1, 0]


def test_metrics_are_plain_numbers_by_name():
    logits = torch.tensor([[9.0, 0, 0], [9.0, 0, 0], [0, 0, 9.0], [0, 0, 9.0]])
    metrics = Classification(3, 0.2, (1.0, 2.0, 3.0)).metrics(
        [(logits, torch.tensor([0, 2, 2, 2]))]
    )
    assert metrics["accuracy"] == 0.75
    assert metrics["per_class_accuracy"] == [1.0, None, pytest.approx(2 / 3)]
    plain = functional.cross_entropy(logits, torch.tensor([0, 2, 2, 2])).item()
    assert metrics["loss"] == pytest.approx(plain)


def test_balanced_accuracy_counts_each_class_that_occurs_alike():
    logits = functional.one_hot(torch.tensor([0, 0, 0, 0, 0]), 3).float()
    metrics = Classification(3).metrics([(logits, torch.tensor([0, 0, 0, 0, 2]))])
    assert metrics["accuracy"] == pytest.approx(0.8)
    assert metrics["per_class_accuracy"] == [1.0, None, 0.0]
    assert metrics["balanced_accuracy"] == pytest.approx(0.5)


def test_a_mean_over_no_class_is_refused():
    assert mean_of_classes([None, 0.25, 0.75]) == 0.5
    with pytest.raises(InputError, match="no class occurs"):
        mean_of_classes([None, None])


def test_a_confident_mistake_has_a_finite_loss():
    metrics = Classification(2).metrics([(torch.tensor([[-500.0, 500.0]]), torch.tensor([0]))])
    assert metrics["loss"] == pytest.approx(1000.0)


@pytest.mark.parametrize(
    ("logits", "targets", "message"),
    [
        (torch.zeros(2, 4), torch.tensor([0, 1]), r"not \[N, 3\]"),
        (torch.zeros(2), torch.tensor([0, 1]), r"not \[N, 3\]"),
        (torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64), "no samples"),
        (torch.zeros(2, 3), torch.tensor([0]), "targets are"),
        (torch.zeros(2, 3), torch.tensor([0, 3]), "outside 0..2"),
        (torch.zeros(2, 3), torch.tensor([0, -1]), "outside 0..2"),
    ],
)
def test_metrics_of_parts_that_do_not_match_are_refused(logits, targets, message):
    with pytest.raises(InputError, match=message):
        Classification(3).metrics([(logits, targets)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": 1}, "at least 2"),
        ({"classes": 3, "label_smoothing": 1.0}, "label_smoothing is 1.0"),
        ({"classes": 3, "label_smoothing": -0.1}, "label_smoothing is -0.1"),
        ({"classes": 3, "class_weights": (1.0, 1.0)}, "2 class_weights for 3"),
        ({"classes": 2, "class_weights": (1.0, -1.0)}, "0 or above"),
        ({"classes": 2, "class_weights": (1.0, math.nan)}, "finite"),
        ({"classes": 2, "class_weights": (1.0, math.inf)}, "finite"),
        ({"classes": 2, "class_weights": (0.0, 0.0)}, "not all 0"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Classification(**options)


def test_distributions_are_taken_once(logits):
    class Warm(Classification):
        def distributions(self, logits):
            return logits / 2

    task = Warm(3)
    shares = (logits / 2).softmax(1)
    each = [task.training_loss(logits, torch.full((6,), c)) for c in range(3)]
    by_hand = sum(shares[:, c] * each[c] for c in range(3))
    assert torch.allclose(task.expected_loss(logits), by_hand)
    assert torch.allclose(task.expected_loss(logits), task.entropy(logits))


@pytest.mark.parametrize("label", [3, -1, "a", [0]])
def test_labels_that_are_no_classes_are_refused(label):
    assert Classification(3).targets([0, 2]).tolist() == [0, 2]
    with pytest.raises(InputError, match=r"not a class of 0\.\.2"):
        Classification(3).targets([label])
