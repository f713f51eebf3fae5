from __future__ import annotations

import itertools

import pytest
import torch
from torch.nn import functional

from steepest.errors import InputError
from steepest.tasks import TASKS, MultiLabel


@pytest.fixture
def logits():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(5, 3, generator=generator, dtype=torch.float64)


TRUTH = torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 0]], dtype=torch.bool)


def test_it_is_found_by_name():
    assert TASKS.get("multi-label") is MultiLabel


def test_the_loss_is_the_mean_binary_cross_entropy(logits):
    loss = MultiLabel(3).training_loss(logits, TRUTH)
    p = logits.sigmoid()
    by_hand = -torch.where(TRUTH, p.log(), (1 - p).log()).mean(1)
    assert torch.allclose(loss, by_hand)


def test_distributions_are_absent_and_present(logits):
    shares = MultiLabel(3).distributions(logits).softmax(1)
    assert torch.allclose(shares[:, 1], logits.sigmoid())
    assert torch.allclose(shares.sum(1), torch.ones_like(logits))


def test_the_expected_loss_is_that_over_all_sets_of_labels(logits):
    task, by_hand = MultiLabel(3), torch.zeros(5, dtype=torch.float64)
    p = logits.sigmoid()
    for chosen in itertools.product([0, 1], repeat=3):
        truth = torch.tensor(chosen, dtype=torch.bool).expand(5, 3)
        share = torch.where(truth, p, 1 - p).prod(1)
        by_hand += share * task.training_loss(logits, truth)
    assert torch.allclose(task.expected_loss(logits), by_hand)
    assert torch.allclose(task.entropy(logits), by_hand)


def test_average_precision_follows_the_ranking():
    logits = torch.tensor([[3.0], [2.0], [1.0], [0.0]])
    metrics = MultiLabel(1).metrics([(logits, torch.tensor([[1], [0], [1], [0]]))])
    assert metrics["mean_average_precision"] == pytest.approx((1 + 2 / 3) / 2)


def test_equal_scores_count_as_one_threshold():
    logits = torch.zeros(4, 1)
    for truth in ([[1], [0], [0], [0]], [[0], [0], [0], [1]]):
        metrics = MultiLabel(1).metrics([(logits, torch.tensor(truth))])
        assert metrics["mean_average_precision"] == pytest.approx(0.25)


def test_metrics_by_hand_and_by_parts(logits):
    task = MultiLabel(3)
    metrics = task.metrics([(logits, TRUTH)])
    said = logits > 0
    hits, claims = int((said & TRUTH).sum()), int(said.sum() + TRUTH.sum())
    assert metrics["micro_f1"] == pytest.approx(2 * hits / claims)
    assert metrics["exact_match"] == pytest.approx((said == TRUTH).all(1).double().mean().item())
    target = TRUTH.double()
    loss = functional.binary_cross_entropy_with_logits(logits, target).item()
    assert metrics["loss"] == pytest.approx(loss)
    parts = task.metrics((logits[i : i + 2], TRUTH[i : i + 2]) for i in range(0, 5, 2))
    assert parts == metrics


def test_a_class_that_nobody_has_is_left_out():
    truth = torch.tensor([[1, 0], [0, 0]])
    metrics = MultiLabel(2).metrics([(torch.tensor([[1.0, 2.0], [0.0, 0.0]]), truth)])
    assert metrics["per_class_average_precision"] == [1.0, None]
    assert metrics["mean_average_precision"] == 1.0


def test_labels_of_a_pool_become_rows():
    rows = MultiLabel(3).targets([[0, 2], [], [1]])
    assert rows.tolist() == [[True, False, True], [False, False, False], [False, True, False]]
    for label in (1, "a", [3], [-1]):
        with pytest.raises(InputError, match="not a list of classes"):
            MultiLabel(3).targets([label])
    with pytest.raises(InputError, match="no samples"):
        MultiLabel(3).metrics([])


def test_the_loss_is_the_mean_over_what_is_known(logits):
    targets = torch.tensor([[1, 255, 255], [255, 0, 1], [255, 255, 255], [0, 0, 1], [1, 1, 255]])
    each = functional.binary_cross_entropy_with_logits(
        logits, (targets == 1).double(), reduction="none"
    )
    by_hand = [
        e[t != 255].sum() / max(1, (t != 255).sum()) for e, t in zip(each, targets, strict=True)
    ]
    assert torch.allclose(MultiLabel(3).training_loss(logits, targets), torch.stack(by_hand))


def test_a_class_is_predicted_if_it_is_more_likely_than_not():
    logits = torch.tensor([[-0.1, 0.0, 0.1]])
    assert MultiLabel(3).predictions(logits).tolist() == [[False, False, True]]


def test_what_nobody_knows_of_a_sample_counts_nowhere(logits):
    task, partly = MultiLabel(3), TRUTH.to(torch.uint8)
    assert torch.equal(task.training_loss(logits, partly), task.training_loss(logits, TRUTH))
    partly[0, 2] = partly[1] = 255
    losses = task.training_loss(logits, partly)
    assert torch.allclose(losses[0], MultiLabel(2).training_loss(logits[:1, :2], TRUTH[:1, :2]))
    assert losses[1] == 0
    metrics = task.metrics([(logits, partly)])
    others = torch.where(partly == 255, -logits, logits)
    assert task.metrics([(others, partly)]) == metrics
    assert metrics["loss"] == pytest.approx(losses[[0, 2, 3, 4]].mean().item())
    last = MultiLabel(1).metrics([(logits[2:, 2:], TRUTH[2:, 2:])])
    assert metrics["per_class_average_precision"][2] == last["mean_average_precision"]
    for wrong in (-1, 2, float("nan")):
        with pytest.raises(InputError, match="not 0, 1 or 255"):
            task.metrics([(logits, torch.full((5, 3), wrong))])
