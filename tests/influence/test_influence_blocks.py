from __future__ import annotations

import pytest
import torch
from influence_nets import (
    TASK,
    close,
    draw,
    rows,
    seeded,
)
from torch import nn

from steepest.errors import ModelError
from steepest.influence import (
    Examples,
    fit_ekfac,
    summed_gradient,
    vectors,
)
from steepest.influence.ekfac import draw_labels
from steepest.influence.layer_factors import find_blocks, recording

QUIET = {"progress": False}


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(4, 3),
        nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2),
        nn.Conv2d(4, 4, (3, 1), dilation=(2, 1), padding="same", padding_mode="reflect"),
        nn.Conv2d(4, 4, 3, groups=4, bias=False, padding="valid"),
        nn.Conv3d(4, 2, 2, padding=1),
    ],
    ids=str,
)
def test_inputs_and_slopes_of_a_layer_make_up_its_gradient(layer):
    layer = seeded(layer)
    dims = {"Linear": (5, 4), "Conv1d": (4, 7), "Conv2d": (4, 6, 5), "Conv3d": (4, 3, 3, 3)}
    x = draw(2, *dims[type(layer).__name__])
    parameters = dict(layer.named_parameters())
    (block,) = find_blocks(layer, parameters)
    with recording([block]) as record:
        output = layer(x)
    ((_, a, slopes),) = record.slopes(output.sin().sum())
    matrix = torch.einsum("gnto,gnti->goi", slopes, a)
    wanted = torch.autograd.grad(layer(x).sin().sum(), list(parameters.values()))
    wanted = dict(zip(parameters, wanted, strict=True))
    assert close(block.from_matrix(matrix, wanted), wanted)
    assert torch.allclose(block.to_matrix(wanted), matrix)


def test_a_layer_that_is_used_twice_adds_up():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x):
            return self.head(torch.tanh(self.layer(torch.tanh(self.layer(x)))))

    model, x = seeded(Twice()), rows(1).inputs
    fitted = fit_ekfac(model, TASK, Examples(x), **QUIET)
    drawn, _ = draw_labels(model(x), range(1), seed=0)
    g = summed_gradient(model, TASK, Examples(x, drawn))
    wanted = vectors.dot(g, g)
    assert sum(float(f.values.sum()) for f in fitted.factors) == pytest.approx(wanted)


def test_shared_weights_and_layers_that_never_run_are_left_out():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
            self.b.weight = self.a.weight
            self.idle = nn.Linear(2, 2)

        def forward(self, x):
            return self.head(self.b(self.a(x)))

    fitted = fit_ekfac(seeded(Odd()), TASK, rows(), **QUIET)
    assert [f.block.weight for f in fitted.factors] == ["head.weight"]
    assert set(fitted.excluded) == {"a.weight", "a.bias", "b.bias", "idle.weight", "idle.bias"}


def test_models_that_it_cannot_cover_are_refused():
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return x * self.scale

    class Folded(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 3)

        def forward(self, x):
            return self.layer(x.reshape(-1, 2)).reshape(len(x), 2, 3).sum(1)

    with pytest.raises(ModelError, match="no linear layer and no convolution"):
        fit_ekfac(Scale().double(), TASK, rows(), **QUIET)
    with pytest.raises(ModelError, match="reads 40 rows for 20 samples"):
        fit_ekfac(Folded().double(), TASK, rows(), **QUIET)


def test_an_input_changed_behind_its_layer_is_refused():
    class Overwrites(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x):
            return self.b(torch.relu_(self.a(x)))

    class Changed(Overwrites):
        def forward(self, x):
            x = x.clone()
            z = self.a(x)
            x.zero_()
            return self.b(z + x)

    fit_ekfac(seeded(Overwrites()), TASK, rows(), **QUIET)
    with pytest.raises(ModelError, match="inplace=False"):
        fit_ekfac(seeded(Changed()), TASK, rows(), **QUIET)
