from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import steepest
from steepest.errors import InputError, NonFiniteError
from steepest.training.probes import fit_probe
from steepest.training.probes.fit import Coordinates, deal_folds, draw_part
from steepest.training.probes.logistic import best_temperature, log_loss, solve


def blobs(count, classes=3, width=5, spread=1.0, seed=0):
    """Rows around the centres of their classes, and the classes."""
    draw = np.random.default_rng(seed)
    centres = np.random.default_rng(7).normal(size=(classes, width))
    y = np.arange(count) % classes
    return centres[y] + spread * draw.normal(size=(count, width)), y


def gradient(x, y, solution, variance):
    """By autograd, of the loss as it is written down."""
    weights, biases = (torch.from_numpy(v).requires_grad_() for v in solution)
    logits = torch.from_numpy(x) @ weights.T + biases
    loss = F.cross_entropy(logits, torch.from_numpy(y), reduction="sum")
    loss = loss + weights.square().sum() / (2 * variance) + biases.square().sum() / 200
    loss.backward()
    return torch.cat([weights.grad.flatten(), biases.grad])


@pytest.mark.parametrize("variance", [0.1, 10.0, 1e3])
@pytest.mark.parametrize("classes", [2, 4])
def test_the_solution_is_the_minimum(variance, classes):
    x, y = blobs(40, classes)
    solution = solve(x, y, classes + 1, variance, tolerance=1e-9)  # The last class has no row.
    assert gradient(x, y, solution, variance).abs().max() < 1e-5
    elsewhere = solve(x, y, classes + 1, 100 * variance)
    again = solve(x, y, classes + 1, variance, start=elsewhere, tolerance=1e-9)
    for one, other in zip(solution, again, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_it_is_that_of_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    x, y = blobs(30)
    variance = 2.0
    # Its intercept has no prior: ours is the weight of one more feature.
    wide = np.hstack([x, np.full((len(x), 1), np.sqrt(100 / variance))])
    theirs = linear_model.LogisticRegression(C=variance, fit_intercept=False, tol=1e-10)
    theirs.fit(wide, y)
    ours = solve(x, y, 3, variance, tolerance=1e-9)
    np.testing.assert_allclose(ours.weights, theirs.coef_[:, :-1], atol=1e-4)
    np.testing.assert_allclose(
        ours.logits(x) - ours.logits(x).mean(1, keepdims=True),
        theirs.decision_function(wide) - theirs.decision_function(wide).mean(1, keepdims=True),
        atol=1e-4,
    )


@pytest.mark.parametrize(("rows", "width"), [(8, 30), (30, 8), (6, 6)])
def test_few_coordinates_lose_nothing(rows, width):
    """Against the same minimum over all features."""
    x, y = blobs(rows, 2, width)
    x[0] = x[1]  # Rows that are alike span less.
    made = Coordinates.of(x)
    assert made.rows.shape[1] <= min(rows, width)
    centred = (x - x.mean(0)) / made.scale
    np.testing.assert_allclose(np.square(centred).sum(1).mean(), 1.0)
    few = solve(made.rows, y, 2, 5.0, tolerance=1e-10)
    whole = solve(centred, y, 2, 5.0, tolerance=1e-10)
    np.testing.assert_allclose(made.weights(few), whole.weights, atol=1e-5)
    np.testing.assert_allclose(few.logits(made.rows), whole.logits(centred), atol=1e-5)


def test_folds_spread_each_class_evenly_and_go_by_id():
    y = np.array([0] * 10 + [1] * 7 + [2] * 2)
    ids = [f"{i}.png" for i in range(len(y))]
    dealt = deal_folds(y, ids, 5, seed=0)
    for name in range(3):
        counts = np.bincount(dealt[y == name], minlength=5)
        assert counts.max() - counts.min() <= 1
    assert np.bincount(dealt).tolist() == [4, 4, 4, 4, 3]
    order = np.random.default_rng(0).permutation(len(y))
    again = deal_folds(y[order], [ids[i] for i in order], 5, seed=0)
    assert (again == dealt[order]).all()
    assert (deal_folds(y, ids, 5, seed=1) != dealt).any()


def test_a_part_has_each_class_in_its_share():
    y = np.array([0] * 60 + [1] * 30 + [2] * 10)
    part = draw_part(y, range(100), 20, seed=0)
    assert np.bincount(y[part]).tolist() == [12, 6, 2]


@pytest.mark.parametrize("doubt", [0.0, 0.1])
def test_the_best_temperature_is_where_the_loss_is_least(doubt):
    x, y = blobs(200, spread=1.0)
    logits = 3 * solve(x[:30], y[:30], 3, 1.0).logits(x)
    best = best_temperature(logits, y, doubt)
    assert 1 < best < 19
    for factor in (0.9, 1.1):
        assert log_loss(logits, y, best, doubt) < log_loss(logits, y, best * factor, doubt)


def test_the_loss_is_the_cross_entropy_with_smoothed_labels():
    x, y = blobs(20)
    logits = solve(x, y, 3, 1.0).logits(x)
    expected = F.cross_entropy(
        torch.from_numpy(logits / 0.7), torch.from_numpy(y), label_smoothing=0.2
    )
    np.testing.assert_allclose(log_loss(logits, y, 0.7, 0.2), float(expected))


def test_labels_that_are_all_recognised_do_not_make_certain():
    """Ten samples of two classes far apart: a little is left to doubt."""
    x, y = blobs(10, classes=2, spread=0.01)
    probe = fit_probe(torch.from_numpy(x), y)
    assert probe.report.accuracy == 1
    assert 0.95 < float(probe.probabilities(torch.from_numpy(x)).max(1).values.mean()) < 0.99


def test_the_order_of_the_labels_changes_nothing():
    x, y = blobs(40, width=60)
    rows, ids = torch.from_numpy(x), [f"{i}.png" for i in range(40)]
    first = fit_probe(rows, y, ids=ids)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(0)).tolist()
    again = fit_probe(rows[order], y[order], ids=[ids[i] for i in order])
    assert first.report == again.report
    assert torch.equal(first(rows.float()), again(rows.float()))


def test_probabilities_mean_what_they_say():
    """Overlapping classes, few labels, many features: without care it would be far too sure."""
    x, y = blobs(90, spread=3.0, width=40)
    fresh, truth = blobs(3_000, spread=3.0, width=40, seed=1)
    probe = fit_probe(torch.from_numpy(x), y)
    found = probe.probabilities(torch.from_numpy(fresh))
    accuracy = float((found.argmax(1).numpy() == truth).mean())
    assert 0.5 < accuracy < 0.95
    assert abs(float(found.max(1).values.mean()) - accuracy) < 0.06
    assert abs(probe.report.accuracy - accuracy) < 0.1
    made = Coordinates.of(x)
    loose = solve(made.rows, y, 3, 1e5)
    logits = ((fresh - made.mean) / made.scale) @ made.weights(loose).T + loose.biases
    assert float(torch.from_numpy(logits).softmax(1).max(1).values.mean()) > accuracy + 0.1


def test_it_is_a_model_like_any_other():
    x, y = blobs(60, spread=0.5)
    rows = torch.from_numpy(x).float()
    probe = fit_probe(rows[:20], y[:20])
    for strategy in ("margin", "fisher-gradnorm", "badge", "core-set"):
        picks = steepest.select(
            probe, rows, 5, strategy, labelled=range(20), progress=False, batch_size=16
        )
        assert len(set(picks.ids) - set(range(20))) == 5
    assert probe.report.samples == 20


@pytest.mark.parametrize("count", [2, 3])
def test_two_labels_are_enough(count):
    x, y = blobs(count, classes=2)
    probe = fit_probe(torch.from_numpy(x), y, classes=4)
    assert probe(torch.from_numpy(x).float()).shape == (count, 4)
    assert torch.isfinite(probe.head.weight).all()


def test_many_labels_take_a_part_for_validation():
    x, y = blobs(2_200, width=3)
    probe = fit_probe(torch.from_numpy(x), y)
    assert probe.report.samples == 2_200


@pytest.mark.parametrize(
    ("rows", "labels", "more", "message"),
    [
        (torch.zeros(3, 2), [0, 1], {}, "do not fit"),
        (torch.zeros(2, 2), [1, 1], {}, "at least two classes"),
        (torch.zeros(2, 2), [0, 2], {"classes": 2}, "numbers from 0 to 1"),
        (torch.zeros(2, 2), [0, 1], {"ids": ["a"]}, "one id each"),
    ],
)
def test_what_does_not_fit_is_refused(rows, labels, more, message):
    with pytest.raises(InputError, match=message):
        fit_probe(rows, labels, **more)


def test_nan_is_refused():
    with pytest.raises(NonFiniteError):
        fit_probe(torch.tensor([[0.0], [torch.nan]]), [0, 1])
