from __future__ import annotations

import pytest
import torch
from influence_nets import (
    TASK,
    close,
    conv_net,
    draw,
    images,
    mlp,
    pair_of_nets,
    random_vector,
    rows,
    seeded,
)
from model_state import same, snapshot
from torch import nn

from steepest.errors import InputError, ModelError
from steepest.influence import (
    Examples,
    gauss_newton,
    hessian,
    summed_gradient,
    vectors,
)
from steepest.models.base import MODELS


@pytest.mark.parametrize("make", [gauss_newton, hessian])
def test_a_function_without_forward_derivative_is_differentiated_twice_backward(make):
    old, new = pair_of_nets()
    slow, fast = make(old, TASK, rows()), make(new, TASK, rows())
    v = random_vector(fast)
    assert close(slow.product(v), fast.product(v))
    assert slow.note.startswith("double backward, since")
    assert fast.note == ""


@pytest.mark.parametrize("make", [gauss_newton, hessian])
def test_the_model_is_left_exactly_as_found(make):
    model = conv_net().train()
    model[0].weight.grad = torch.ones_like(model[0].weight)
    model[4].bias.requires_grad_(False)
    before = snapshot(model)
    curvature = make(model, TASK, images())
    curvature.product(random_vector(curvature))
    summed_gradient(model, TASK, images())
    assert same(before, snapshot(model))
    assert model.training


def test_the_model_is_left_as_found_after_an_error():
    model = conv_net().train()
    before = snapshot(model)
    broken = Examples(draw(3, 5, 6, 6), torch.tensor([0, 1, 2]))
    with pytest.raises(ModelError, match="the model or its loss failed"):
        gauss_newton(model, TASK, broken).product(
            random_vector(gauss_newton(model, TASK, images()))
        )
    assert same(before, snapshot(model))


@pytest.mark.parametrize("make", [gauss_newton, hessian])
def test_a_target_that_is_no_class_is_an_error_in_one_line(make):
    wrong = Examples(draw(2, 4), torch.tensor([0, 7]))
    curvature = make(mlp(), TASK, wrong)
    for fail in (
        lambda: curvature.product(random_vector(curvature)),
        lambda: summed_gradient(mlp(), TASK, wrong),
    ):
        with pytest.raises(ModelError, match="check inputs and targets") as caught:
            fail()
        assert "\n" not in str(caught.value)


def test_settings_of_the_process_come_back():
    torch.backends.mha.set_fastpath_enabled(True)
    precision = torch.get_float32_matmul_precision()
    curvature = gauss_newton(mlp(), TASK, rows())
    curvature.product(random_vector(curvature))
    assert torch.backends.mha.get_fastpath_enabled()
    assert torch.get_float32_matmul_precision() == precision


@pytest.mark.parametrize("make", [gauss_newton, hessian])
def test_attention_is_differentiated_forward(make):
    layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    model = seeded(nn.Sequential(layer, nn.Flatten(), nn.Linear(24, 3)))
    curvature = make(model, TASK, Examples(draw(4, 3, 8), torch.tensor([0, 1, 2, 0])))
    v = random_vector(curvature)
    assert vectors.norm(curvature.product(v)) > 0
    assert curvature.note == ""


@pytest.mark.parametrize("name", ["vit_s16", "small-cnn"])
def test_models_of_the_house_are_differentiated_forward(name):
    names = {n.replace("_", "-"): n for n in MODELS.names()}
    size = 32 if "vit" in name else 8
    options = {"image_size": size} if "vit" in name else {}
    model = MODELS.get(names[name.replace("_", "-")])(3, **options)
    examples = Examples(draw(2, 3, size, size).float(), torch.tensor([0, 1]))
    keep = [n for n, _ in model.named_parameters()][-4:]
    curvature = hessian(model, TASK, examples, layers=keep)
    assert vectors.norm(curvature.product(random_vector(curvature))) > 0
    assert curvature.note == ""


def test_something_that_is_no_model_is_refused():
    with pytest.raises(InputError, match="must be a torch"):
        gauss_newton("model", TASK, rows())


def test_batches_are_halved_where_memory_runs_out():
    class Hungry(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = seeded(nn.Linear(4, 3))

        def forward(self, x):
            if len(x) > 3:
                raise torch.OutOfMemoryError("no room")
            return self.layer(x)

    plain, hungry = seeded(nn.Linear(4, 3)), Hungry()
    wanted = gauss_newton(plain, TASK, rows(10))
    found = gauss_newton(hungry, TASK, rows(10))
    v = random_vector(wanted)
    product = found.product({f"layer.{name}": tensor for name, tensor in v.items()})
    assert close({n.removeprefix("layer."): t for n, t in product.items()}, wanted.product(v))
    assert found.note == ""


def test_running_out_of_memory_with_one_sample_is_passed_on():
    class Full(nn.Linear):
        def forward(self, x):
            raise torch.OutOfMemoryError("no room")

    curvature = gauss_newton(Full(4, 3).double(), TASK, rows(4))
    with pytest.raises(torch.OutOfMemoryError):
        curvature.product(random_vector(curvature))
