"""Influence on held-out labelled samples."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import torch
from contract import make_model, make_pool, make_support
from torch import nn
from torch.nn import functional as F

import steepest
from steepest.errors import InputError, ModelError, NonFiniteError, UnknownNameError
from steepest.influence import hold_out
from steepest.selecting.choosing import choose_from
from steepest.selecting.options import SelectionOptions
from steepest.selecting.pool_view import open_view
from steepest.selecting.samples import as_samples
from steepest.strategies import Support, create
from steepest.strategies.isal import Isal, Solver
from steepest.tasks import MultiLabel, Segmentation

pytestmark = pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")

KNOWN = range(40)
DECAY = 0.05


def make_points(count=70, seed=0):
    return torch.randn(count, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def make_labels(points):
    noise = make_points(len(points), 5)[:, :3]
    return (points[:, :3] + 0.5 * noise).argmax(1)


def fit(points, labels, weight=None, rest=None):
    """Return the weights of the best softmax regression [3, 4], by Newton's method."""
    shares = torch.full((len(points),), 1 / len(points), dtype=torch.float64)
    shares = shares if weight is None else weight

    def objective(flat):
        losses = F.cross_entropy(points @ flat.reshape(3, 4).T, labels, reduction="none")
        return (shares * losses).sum() + DECAY / 2 * flat.square().sum()

    flat = torch.zeros(12, dtype=torch.float64) if rest is None else rest.reshape(-1)
    for _ in range(8):
        slope = torch.autograd.functional.jacobian(objective, flat)
        flat = flat - torch.linalg.solve(torch.autograd.functional.hessian(objective, flat), slope)
    return flat.reshape(3, 4)


def linear(weights):
    model = nn.Linear(4, 3, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(weights)
    return model


def scores(model, pool, *, targets, seed=0, task=None, **options):
    support = Support(targets=targets)
    return steepest.score(
        model, pool, "isal", options=options, labelled=list(targets), support=support,
        seed=seed, task=task, progress=False,
    )  # fmt: skip


def gradient_products(model, pool, held, loss, kept):
    """Return Σ_j ∇L(x_j) · ∇L(x, ŷ) for each sample, one backward pass each."""
    chosen = [p for p in model.parameters() if kept(p)]

    def gradient(x, y):
        return torch.cat(
            [g.flatten() for g in torch.autograd.grad(loss(model(x[None]), y[None]), chosen)]
        )

    model.eval()
    wanted = sum(gradient(x, y) for x, y in held)
    return np.array([float(wanted @ gradient(x, model(x[None])[0].argmax(0))) for x in pool])


def test_with_endless_damping_the_ranking_is_that_of_gradient_products():
    model, pool, support = make_model(), make_pool(), make_support()
    found = scores(model, pool, targets=support.targets, damping=1e9, seed=3)
    ids = sorted(support.targets)
    held = [(pool[ids[r]], torch.tensor(support.targets[ids[r]])) for r in held_rows(ids, 0.2, 3)]
    free = pool[list(found.ids)]
    expected = gradient_products(model, free, held, F.cross_entropy, lambda p: p.ndim != 1)
    assert np.array_equal(np.argsort(found.values), np.argsort(expected))
    np.testing.assert_allclose(found.values * 1e9, expected, rtol=1e-6)


def held_rows(ids, share, seed):
    return hold_out(ids, share=share, seed=seed)[1].tolist()


def test_scores_predict_the_exact_effect_of_learning_one_more_sample():
    points = make_points()
    labels = make_labels(points)
    kept, held = hold_out(KNOWN, share=0.3, seed=0)
    learnt = (points[kept], labels[kept])
    best = fit(*learnt)
    model = linear(best)
    targets = {i: int(labels[i]) for i in KNOWN}
    found = scores(
        model, points, targets=targets, share=0.3, left_out=True, damping=1e-9, weight_decay=DECAY
    )
    weight = torch.full((len(kept) + 1,), 1 / len(kept), dtype=torch.float64)

    def loss_with(x):
        own = model(x[None]).argmax(1)
        more = fit(torch.cat([learnt[0], x[None]]), torch.cat([learnt[1], own]), weight, best)
        return float(F.cross_entropy(points[held] @ more.T, labels[held], reduction="sum"))

    before = float(F.cross_entropy(points[held] @ best.T, labels[held], reduction="sum"))
    effects = [before - loss_with(points[i]) for i in found.ids]
    assert np.corrcoef(found.values, effects)[0, 1] > 0.9


def exact_scores(model, points, labels, free, *, train, held, damping):
    """Return v (G + λI)⁻¹ g with the whole matrix of a softmax regression without bias."""

    def slopes(rows, targets):
        errors = (points[rows] @ model.weight.T).softmax(1) - F.one_hot(targets, 3)
        return torch.einsum("nc,nd->ncd", errors, points[rows]).flatten(1)

    with torch.no_grad():
        p = (points[train] @ model.weight.T).softmax(1)
        bend = torch.diag_embed(p) - p[:, :, None] * p[:, None]
        matrix = torch.einsum("ncd,ni,nj->cidj", bend, points[train], points[train])
        matrix = matrix.reshape(12, 12) / len(train) + damping * torch.eye(12, dtype=torch.float64)
        s = torch.linalg.solve(matrix, slopes(held, labels[held]).sum(0))
        own = (points[free] @ model.weight.T).argmax(1)
        return (slopes(free, own) @ s).numpy()


@pytest.mark.parametrize("solver", get_args(Solver))
@pytest.mark.parametrize("left_out", [False, True])
def test_every_solver_inverts_the_matrix_with_the_damping_that_is_given(solver, left_out):
    points = make_points()
    labels = make_labels(points)
    model = linear(make_points(3, 9))
    targets = {i: int(labels[i]) for i in KNOWN}
    found = scores(
        model, points, targets=targets, damping=0.1, solver=solver, left_out=left_out, seed=1
    )
    kept, held = hold_out(KNOWN, share=0.2, seed=1)
    train = kept if left_out else torch.tensor(KNOWN)
    free = torch.tensor(found.ids)
    expected = exact_scores(model, points, labels, free, train=train, held=held, damping=0.1)
    alike = {"lissa": 0.97, "ekfac": 0.8}.get(solver, 0.99999)
    assert np.corrcoef(found.values, expected)[0, 1] > alike
    if solver in ("cg", "last-layer"):
        np.testing.assert_allclose(found.values, expected, rtol=0.01, atol=0.01 * expected.std())


def test_leaving_samples_out_changes_whose_curvature_counts():
    points = make_points()
    targets = {i: int(y) for i, y in enumerate(make_labels(points)[:40])}
    model = linear(make_points(3, 9))
    one, other = (scores(model, points, targets=targets, left_out=flag) for flag in (False, True))
    assert not np.allclose(one.values, other.values)


def test_biases_take_part_only_if_all_parameters_do():
    model, pool, support = make_model(), make_pool(), make_support()
    held = held_rows(sorted(support.targets), 0.2, 0)
    ids = sorted(support.targets)
    pairs = [(pool[ids[r]], torch.tensor(support.targets[ids[r]])) for r in held]
    found = scores(model, pool, targets=support.targets, damping=1e9, layers="all")
    expected = gradient_products(
        model, pool[list(found.ids)], pairs, F.cross_entropy, lambda _: True
    )
    np.testing.assert_allclose(found.values * 1e9, expected, rtol=1e-6)


def test_maps_of_labels_count_by_their_mean():
    torch.manual_seed(0)
    model = nn.Conv2d(2, 3, 3, padding=1).double()
    pool = torch.randn(12, 2, 5, 4, dtype=torch.float64)
    maps = torch.randint(3, (12, 5, 4))
    targets = {i: maps[i] for i in range(6)}
    found = scores(model, pool, targets=targets, damping=1e9, task=Segmentation(3))
    held = [(pool[r], maps[r]) for r in held_rows(range(6), 0.2, 0)]
    expected = gradient_products(model, pool[6:], held, F.cross_entropy, lambda p: p.ndim > 1)
    np.testing.assert_allclose(found.values * 1e9, expected, rtol=1e-6)


def test_samples_of_many_labels_have_scores():
    pool = make_points()
    yes = torch.randint(2, (40, 3), generator=torch.Generator().manual_seed(1))
    found = scores(
        linear(make_points(3, 9)), pool, targets=dict(enumerate(yes)), task=MultiLabel(3)
    )
    assert len(np.unique(found.values)) == 30


def test_solving_is_counted_apart_from_choosing():
    model, pool = make_model(), make_pool()
    how = SelectionOptions(labelled=(3, 8, 11, 17, 20, 26), support=make_support(), progress=False)
    outcome = choose_from(model, as_samples(pool), 3, create("isal"), how)
    assert outcome.preparing is not None
    assert outcome.preparing.seconds > 0


@pytest.mark.parametrize(
    "support", [Support(), Support(targets={3: 0}), Support(labelled=make_pool()[:5])]
)
def test_without_two_labelled_samples_and_their_targets_it_says_so(support):
    with pytest.raises(InputError, match=r"^isal asks what helps .*targets="):
        steepest.select(make_model(), make_pool(), 2, "isal", support=support, progress=False)


@pytest.mark.parametrize("solver", get_args(Solver))
@pytest.mark.parametrize("target", [7, 3, -1])
def test_a_target_that_is_no_class_is_named_with_its_sample(solver, target):
    targets = {**make_support().targets, 11: target}
    said = rf"^isal: the target of sample 11 says class {target}, but the classes are 0 to 2: corr"
    with pytest.raises(InputError, match=said):
        scores(make_model(), make_pool(), targets=targets, solver=solver)


def test_classes_of_maps_and_of_several_labels_are_looked_at_too():
    torch.manual_seed(0)
    model, pool = nn.Conv2d(2, 3, 1), torch.randn(12, 2, 5, 4)
    maps = {i: torch.randint(3, (5, 4)) for i in range(6)}
    maps[2][0, 0] = 255
    assert np.isfinite(scores(model, pool, targets=maps, task=Segmentation(3)).values).all()
    maps[4][1, 1] = 9
    with pytest.raises(InputError, match=r"sample 4 says class 9, .* 0 to 2, and 255 where none"):
        scores(model, pool, targets=maps, task=Segmentation(3))
    yes = dict(enumerate(torch.eye(3, dtype=torch.long).repeat(3, 1)))
    yes[5] = yes[5] * 4
    with pytest.raises(InputError, match="sample 5 says class 4, but the classes are 0 to 1"):
        scores(linear(make_points(3, 9)), make_points(), targets=yes, task=MultiLabel(3))


def test_the_first_look_needs_no_labels():
    with open_view(
        make_model(), as_samples(make_pool()[:2]), create("isal"), SelectionOptions(progress=False)
    ) as view:
        create("isal").check(view)


def test_a_model_of_vectors_alone_is_refused_before_a_run():
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return x * self.scale

    pair = as_samples(torch.randn(2, 4))
    with (
        open_view(Scale(), pair, create("isal"), SelectionOptions(progress=False)) as view,
        pytest.raises(InputError, match="no trainable parameter takes part"),
    ):
        create("isal").check(view)


def test_the_last_layer_of_a_model_of_label_maps_is_refused_before_a_run():
    chosen = create("isal", {"solver": "last-layer"})
    pair = as_samples(torch.zeros(2, 2, 4, 4))
    with (
        open_view(nn.Conv2d(2, 3, 1), pair, chosen, SelectionOptions(progress=False)) as view,
        pytest.raises(ModelError, match="use solver='cg'"),
    ):
        chosen.check(view)


def test_a_prediction_that_is_not_finite_is_named():
    class Broken(nn.Linear):
        def forward(self, x):
            return super().forward(x).masked_fill(x[:, :1] > 50, torch.inf)

    pool = make_points()
    pool[57, 0] = 100.0
    targets = {i: int(y) for i, y in enumerate(make_labels(pool)[:40])}
    with pytest.raises(NonFiniteError, match="sample 57"):
        scores(Broken(4, 3).double(), pool, targets=targets)


@pytest.mark.parametrize(
    "options",
    [
        *({"share": value} for value in (0.0, 1.0, -0.1)),
        *({"damping": value} for value in (0.0, -1.0, float("inf"), float("nan"))),
        {"weight_decay": -1.0},
        {"steps": 0},
    ],
)
def test_numbers_out_of_range_are_refused(options):
    with pytest.raises(InputError, match=f"isal: {next(iter(options))} must be"):
        create("isal", options)


@pytest.mark.parametrize("option", ["solver", "layers"])
def test_unknown_names_are_refused(option):
    with pytest.raises(UnknownNameError, match=f"strategy 'isal' {option} 'vectors'"):
        Isal(**{option: "vectors"})
