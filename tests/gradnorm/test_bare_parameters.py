"""Rules for parameters that no layer of torch holds, against autograd, for drawn shapes."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from test_rules import check, few, normal
from torch import nn


class Holding(nn.Module):
    """One parameter and what is done with it."""

    def __init__(self, shape, function) -> None:
        super().__init__()
        self.held = nn.Parameter(normal(1, *shape)[0].sin() + 1.5)
        self.function = function

    def forward(self, x):
        return self.function(x, self.held)


ELEMENTWISE = {
    "add": lambda x, p: x + p,
    "added to": lambda x, p: p + x,
    "sub": lambda x, p: x - p,
    "subtracted from": lambda x, p: p - x,
    "mul": lambda x, p: x * p,
    "div": lambda x, p: x / p,
    "divided by": lambda x, p: p / (x.square() + 1),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "power": lambda x, p: (x.square() + 0.5) ** p,
    "where": lambda x, p: torch.where(x > 0, p, x),
}


@few
@given(st.sampled_from(sorted(ELEMENTWISE)), st.data())
def test_elementwise(name, data):
    shape = [data.draw(st.integers(1, 3)) for _ in range(data.draw(st.integers(1, 3)))]
    own = [size if data.draw(st.booleans()) else 1 for size in shape]
    own = own[data.draw(st.integers(0, len(own))) :]
    check(Holding(own, ELEMENTWISE[name]), normal(3, *shape))


@few
@given(st.integers(1, 3), st.integers(1, 3), st.sampled_from(["expand", "repeat", "expand_as"]))
def test_tokens_for_every_sample(length, width, how):
    def prepend(x, token):
        if how == "repeat":
            tokens = token.repeat(len(x), 1, 1)
        elif how == "expand":
            tokens = token.expand(len(x), -1, -1)
        else:
            tokens = token.expand_as(x[:, :length])
        return torch.cat([tokens, x], dim=1)

    check(Holding((1, length, width), prepend), normal(2, 3, width))


@few
@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.booleans())
def test_matrix_product(samples, inputs, outputs, extra_dims, transposed):
    x = normal(samples, *[2] * extra_dims, inputs)
    if transposed:
        check(Holding((outputs, inputs), lambda x, w: x @ w.t()), x)
    else:
        check(Holding((inputs, outputs), torch.matmul), x)


@few
@given(st.integers(2, 4), st.integers(1, 3), st.integers(1, 3), st.integers(0, 3))
def test_matrix_on_the_left_of_a_product(samples, inputs, outputs, length):
    def multiply(x, w):
        return torch.matmul(w, x) if length else (w @ x.t()).t()

    shape = (inputs, length) if length else (inputs,)
    check(Holding((outputs, inputs), multiply), normal(samples, *shape))


@few
@given(st.integers(1, 3), st.integers(1, 2), st.integers(1, 2), st.integers(1, 2))
def test_copies_of_several_rows(rows, width, times, across):
    def shift(x, held):
        folded = x.flatten(0, 1).repeat(1, across)
        return (folded + held.repeat(len(x) * times, across)).unflatten(0, x.shape[:2])

    check(Holding((rows, width), shift), normal(4, times * rows, width))


@few
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_matrix_product_on_folded_positions(inputs, outputs, length):
    class Folded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(normal(inputs, outputs))
            self.bias = nn.Parameter(normal(outputs))

        def forward(self, x):
            flat = torch.addmm(self.bias, x.reshape(-1, inputs), self.weight)
            return flat.reshape(len(x), length, outputs)

    check(Folded(), normal(3, length, inputs))


@few
@given(st.integers(2, 5), st.integers(1, 3), st.integers(1, 4))
def test_rows_of_a_table(rows, width, length):
    ids = torch.randint(-rows, rows, (3, length), generator=torch.Generator().manual_seed(length))
    check(Holding((rows, width), lambda ids, table: table[ids]), ids)
