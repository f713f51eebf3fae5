"""Products of the data with a matrix."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from steepest.gradnorm.measure.outer import Outer
from steepest.gradnorm.measure.shares import Dense, Share
from steepest.gradnorm.rules.base import Call, rule


@rule(F.linear, arguments="input weight bias", fold=lambda _, data: data.ndim - 1)
def linear(call: Call, g: Tensor) -> dict[str, Share]:
    """Linear on [N, ..., I]: the weight's gradient is Σ_t g_t a_tᵀ, the bias's Σ_t g_t."""
    if call["weight"].ndim != 2:
        raise NotImplementedError
    rows = _positions(g)
    shares: dict[str, Share] = {}
    if "weight" in call.wanted:
        a = _positions(call.data("input"))
        shares["weight"] = Outer(a.unsqueeze(1), rows.unsqueeze(1), call["weight"].shape)
    if "bias" in call.wanted:
        shares["bias"] = _bias(call["bias"], rows)
    return shares


@rule(
    torch.matmul, torch.Tensor.matmul, torch.mm, torch.Tensor.mm, torch.Tensor.__matmul__,
    arguments="input other",
)  # fmt: skip
def product(call: Call, g: Tensor) -> dict[str, Share]:
    """Product of the data [N, ..., K] with a matrix [K, O], or of [O, K] with [N, ..., K, T]."""
    if call.wanted == {"other"}:
        return {"other": _right_factor(call.data("input"), call["other"], g)}
    if call.wanted == {"input"}:
        return {"input": _left_factor(call["input"], call.data("other"), g)}
    raise NotImplementedError


@rule(torch.addmm, torch.Tensor.addmm, arguments="input mat1 mat2 beta alpha")
def product_and_sum(call: Call, g: Tensor) -> dict[str, Share]:
    """Sum of a bias [O] and of a product of the data [N, ..., K] with a matrix [K, O]."""
    if call.get("beta", 1) != 1 or call.get("alpha", 1) != 1 or "mat1" in call.wanted:
        raise NotImplementedError
    shares: dict[str, Share] = {}
    if "mat2" in call.wanted:
        shares["mat2"] = _right_factor(call.data("mat1"), call["mat2"], g)
    if "input" in call.wanted:
        shares["input"] = _bias(call["input"], _positions(g))
    return shares


def _bias(bias: Tensor, rows: Tensor) -> Share:
    """Sum the gradients [N, T, O] over positions, for a bias with an entry for each output."""
    if bias.shape != rows.shape[2:]:
        raise NotImplementedError
    return Dense(rows[:, 0] if rows.shape[1] == 1 else rows.sum(1))


def _right_factor(data: Tensor, matrix: Tensor, g: Tensor) -> Share:
    if matrix.ndim != 2 or data.ndim != g.ndim:
        raise NotImplementedError
    a, rows = _positions(data), _positions(g)
    return Outer(a.unsqueeze(1), rows.unsqueeze(1), matrix.shape, transposed=True)


def _left_factor(matrix: Tensor, data: Tensor, g: Tensor) -> Share:
    if matrix.ndim != 2 or data.ndim != g.ndim or g.ndim < 3:
        raise NotImplementedError
    a, rows = (t.transpose(-1, -2).flatten(1, -2) for t in (data, g))
    return Outer(a[:, None], rows[:, None], matrix.shape)


def _positions(tensor: Tensor) -> Tensor:
    """Return [N, T, D]: all dimensions but the last are positions of a sample."""
    if tensor.ndim == 3:
        return tensor
    return tensor.unsqueeze(1) if tensor.ndim == 2 else tensor.flatten(1, -2)
