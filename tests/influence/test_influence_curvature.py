from __future__ import annotations

import pytest
import torch
from influence_nets import (
    CASES,
    TASK,
    close,
    conv_net,
    draw,
    images,
    mlp,
    random_vector,
    rows,
    seeded,
)
from torch import nn
from torch.func import functional_call

from steepest.errors import InputError
from steepest.influence import (
    Examples,
    Objective,
    dense_matrix,
    gauss_newton,
    hessian,
    summed_gradient,
    vectors,
)
from steepest.tasks import Classification, MultiLabel


def flat_objective(model, task, examples, weight_decay):
    """The objective as a function of all parameters in one vector, by plain torch."""
    parameters = {n: p.detach() for n, p in model.named_parameters()}

    def value(flat):
        here = vectors.unflatten(flat, parameters)
        logits = functional_call(model, here, (examples.inputs,))
        mean = task.training_loss(logits, examples.targets).mean()
        return mean + weight_decay / 2 * flat.square().sum()

    return value, vectors.flatten(parameters)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_hessian_times_a_vector_is_that_of_the_whole_matrix(case):
    make, data, task = CASES[case]
    model, examples = make(), data()
    curvature = hessian(model, task, examples, weight_decay=0.01, batch_size=2)
    value, at = flat_objective(model, task, examples, 0.01)
    whole = torch.autograd.functional.hessian(value, at)
    v = random_vector(curvature)
    wanted = vectors.unflatten(whole @ vectors.flatten(v), v)
    assert close(curvature.product(v), wanted)
    assert curvature.note == ""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_gauss_newton_product_is_that_of_jacobians(case):
    make, data, task = CASES[case]
    model, examples = make(), data()
    curvature = gauss_newton(model, task, examples, weight_decay=0.01, batch_size=2)
    parameters = curvature.parameters

    def logits_of(flat):
        here = vectors.unflatten(flat, parameters)
        return functional_call(model, here, (examples.inputs,))

    flat = vectors.flatten(parameters)
    logits = logits_of(flat)
    jacobian = torch.autograd.functional.jacobian(logits_of, flat).flatten(0, -2)
    inner = torch.autograd.functional.hessian(
        lambda z: task.training_loss(z, examples.targets).mean(), logits
    ).reshape(logits.numel(), -1)
    whole = jacobian.T @ inner @ jacobian + 0.01 * torch.eye(len(flat), dtype=flat.dtype)
    v = random_vector(curvature)
    wanted = vectors.unflatten(whole @ vectors.flatten(v), v)
    assert close(curvature.product(v), wanted)


def test_gauss_newton_of_cross_entropy_is_the_fisher_information():
    model, examples = mlp(), rows(6)
    whole = dense_matrix(gauss_newton(model, TASK, examples), progress=False)
    wanted = torch.zeros_like(whole)
    for x in examples.inputs:
        for label, p in enumerate(model(x[None])[0].softmax(0).tolist()):
            one = Examples(x[None], torch.tensor([label]))
            g = vectors.flatten(summed_gradient(model, TASK, one))
            wanted += p * torch.outer(g, g) / 6
    assert torch.allclose(whole, wanted, atol=1e-12)


def test_gauss_newton_has_no_negative_eigenvalue_where_the_hessian_has_some():
    model, examples = mlp(), rows()
    positive = torch.linalg.eigvalsh(dense_matrix(gauss_newton(model, TASK, examples)))
    indefinite = torch.linalg.eigvalsh(dense_matrix(hessian(model, TASK, examples)))
    assert float(positive[0]) > -1e-12
    assert float(indefinite[0]) < -1e-4


def test_for_a_linear_model_both_curvatures_are_one():
    model = seeded(nn.Linear(4, 3))
    both = [make(model, TASK, rows(), weight_decay=0.1) for make in (gauss_newton, hessian)]
    v = random_vector(both[0])
    assert close(both[0].product(v), both[1].product(v))


def test_weight_decay_is_on_the_diagonal_and_in_the_gradient():
    model, examples = mlp(), rows()
    without, decayed = (gauss_newton(model, TASK, examples, weight_decay=w) for w in (0.0, 0.5))
    v = random_vector(without)
    assert close(decayed.product(v), vectors.axpy(0.5, v, without.product(v)))
    value, at = flat_objective(model, TASK, examples, 0.5)
    slope = torch.autograd.functional.jacobian(value, at)
    objective = Objective(model, TASK, examples, weight_decay=0.5, batch_size=3)
    assert torch.allclose(vectors.flatten(objective.gradient()), slope, atol=1e-12)


@pytest.mark.parametrize("make", [gauss_newton, hessian])
def test_products_do_not_depend_on_the_batch_size(make):
    products = [
        make(conv_net(), TASK, images(), batch_size=size).product(
            random_vector(make(conv_net(), TASK, images()))
        )
        for size in (1, 3, 100)
    ]
    assert close(products[0], products[2], 1e-12)
    assert close(products[1], products[2], 1e-12)


@pytest.mark.parametrize("make", [gauss_newton, hessian])
def test_products_with_some_rows_are_means_over_them(make):
    curvature = make(mlp(), TASK, rows(9), weight_decay=0.1)
    v = random_vector(curvature)
    parts = [curvature.product(v, torch.tensor(r)) for r in ([0, 1, 2, 3, 4, 5], [6, 7, 8])]
    mean = vectors.axpy(2.0, parts[0], parts[1])
    assert close(vectors.scaled(1 / 3, mean), curvature.product(v))


@pytest.mark.parametrize(
    "task", [Classification(3, 0.1, (1.0, 2.0, 0.5)), MultiLabel(3)], ids=["weighted", "several"]
)
def test_every_loss_of_a_task_has_its_own_curvature(task):
    model, examples = mlp(), rows(5)
    if isinstance(task, MultiLabel):
        examples = Examples(examples.inputs, draw(5, 3, purpose="several") > 0)
    curvature = hessian(model, task, examples, batch_size=2)
    value, at = flat_objective(model, task, examples, 0.0)
    v = random_vector(curvature)
    whole = torch.autograd.functional.hessian(value, at)
    assert close(curvature.product(v), vectors.unflatten(whole @ vectors.flatten(v), v))
    products = gauss_newton(model, task, examples).product(v)
    assert vectors.dot(v, products) > 0


def test_the_curvature_of_a_loss_without_labels_can_be_asked_for():
    model, examples = mlp(), rows(5)
    curvature = hessian(model, TASK, Examples(examples.inputs), loss="entropy")
    parameters = {n: p.detach() for n, p in model.named_parameters()}

    def value(flat):
        logits = functional_call(model, vectors.unflatten(flat, parameters), (examples.inputs,))
        return TASK.entropy(logits).mean()

    whole = torch.autograd.functional.hessian(value, vectors.flatten(parameters))
    v = random_vector(curvature)
    assert close(curvature.product(v), vectors.unflatten(whole @ vectors.flatten(v), v))


def test_frozen_and_excluded_parameters_are_constants():
    curvature = gauss_newton(conv_net(), TASK, images(), layers="no-vectors")
    assert list(curvature.parameters) == ["0.weight", "4.weight", "7.weight"]
    assert "1.weight" in curvature.objective.excluded
    with pytest.raises(InputError, match=r"'1\.weight'"):
        curvature.product(random_vector(gauss_newton(conv_net(), TASK, images())))


def test_tied_weights_count_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(torch.tanh(self.a(x)))

    model, examples = seeded(Tied()), rows(6, 3)
    curvature = hessian(model, TASK, examples)
    value, at = flat_objective(model, TASK, examples, 0.0)
    whole = torch.autograd.functional.hessian(value, at)
    v = random_vector(curvature)
    assert close(curvature.product(v), vectors.unflatten(whole @ vectors.flatten(v), v))


@pytest.mark.parametrize("options", [{"weight_decay": -1.0}, {"batch_size": 0}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(InputError):
        gauss_newton(mlp(), TASK, rows(), **options)
