from __future__ import annotations

import pytest
import torch
from influence_nets import (
    SEGMENTATION,
    TASK,
    close,
    conv_net,
    draw,
    images,
    maps,
    mlp,
    rows,
    seeded,
    segmenter,
)
from model_state import same, snapshot
from torch import nn

from steepest.errors import InputError, ModelError
from steepest.influence import (
    Examples,
    gauss_newton,
    last_layer_parameters,
    solve_cg,
    solve_dense,
    solve_last_layer,
    summed_gradient,
)
from steepest.tasks import Classification, MultiLabel

QUIET = {"progress": False}


@pytest.mark.parametrize(
    ("make", "data", "task"),
    [
        (mlp, rows, TASK),
        (conv_net, images, TASK),
        (mlp, rows, Classification(3, 0.2, (1.0, 3.0, 0.5))),
    ],
)
def test_it_is_the_dense_solution_over_the_last_layer(make, data, task):
    model, examples = make(), data()
    names = last_layer_parameters(model, examples)
    v = summed_gradient(model, task, data(seed=1))
    curvature = gauss_newton(model, task, examples, weight_decay=0.01, layers=names)
    exact = solve_dense(curvature, {n: v[n] for n in names}, damping=0.05, **QUIET)
    found = solve_last_layer(
        model, task, examples, v, weight_decay=0.01, damping=0.05, batch_size=3, **QUIET
    )
    assert close(found.vector, exact.vector)
    assert found.effective_damping == pytest.approx(0.06)
    assert found.residual < 1e-12
    assert set(found.excluded) == set(v) - set(names)


def test_a_layer_without_bias_and_tasks_with_several_labels_work():
    model = seeded(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3, bias=False)))
    examples = Examples(draw(12, 4), draw(12, 3, purpose="several") > 0)
    v = summed_gradient(model, MultiLabel(3), examples)
    curvature = gauss_newton(model, MultiLabel(3), examples, layers=["2.weight"])
    wanted = solve_cg(curvature, {"2.weight": v["2.weight"]}, damping=0.1, tolerance=1e-9, **QUIET)
    found = solve_last_layer(model, MultiLabel(3), examples, v, damping=0.1, **QUIET)
    assert close(found.vector, wanted.vector, 1e-6)


def test_the_model_is_left_exactly_as_found():
    model = conv_net().train()
    before = snapshot(model)
    v = summed_gradient(model, TASK, images())
    solve_last_layer(model, TASK, images(), v, damping=0.1, **QUIET)
    assert same(before, snapshot(model))


def test_models_without_such_a_layer_are_refused():
    model = segmenter()
    with pytest.raises(ModelError, match=r"no trainable nn.Linear.*solve_cg"):
        solve_last_layer(model, SEGMENTATION, maps(), {}, **QUIET)
    warm = seeded(nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(1)))
    with pytest.raises(ModelError, match="straight from a linear layer"):
        solve_last_layer(warm, TASK, rows(), summed_gradient(warm, TASK, rows()), **QUIET)


def test_a_layer_too_large_or_singular_is_refused_with_the_remedy():
    wide = seeded(nn.Linear(3000, 3))
    examples = Examples(draw(2, 3000), torch.tensor([0, 1]))
    v = summed_gradient(wide, TASK, examples)
    with pytest.raises(InputError, match=r"9003 parameters.*solve_cg"):
        solve_last_layer(wide, TASK, examples, v, damping=0.1, **QUIET)
    with pytest.raises(InputError, match="damping above 0"):
        solve_last_layer(mlp(), TASK, rows(2), summed_gradient(mlp(), TASK, rows(2)), **QUIET)
