"""Products of the data with a matrix."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from steepest.gradnorm.outer import Outer
from steepest.gradnorm.paired import Paired
from steepest.gradnorm.rules.base import Call, Rows, all_but_last, rule
from steepest.gradnorm.shares import Dense, Share


@rule(F.linear, arguments="input weight bias", rows=all_but_last("input"))
def linear(call: Call, g: Tensor) -> dict[str, Share]:
    """Linear on [N, ..., I]: the weight's gradient is Σ_t g_t a_tᵀ, the bias's Σ_t g_t."""
    rows = _positions(call, g)
    shares: dict[str, Share] = {}
    if call["weight"].ndim != 2:
        raise NotImplementedError
    if "weight" in call.wanted:
        a = _positions(call, call["input"])
        shares["weight"] = Outer(a.unsqueeze(1), rows.unsqueeze(1), call["weight"].shape)
    if "bias" in call.wanted:
        shares["bias"] = _bias(call["bias"], rows)
    return shares


def _rows_of_product(call: Call, g: Tensor) -> Rows:
    if call.wanted != {"other"} or call["other"].ndim != 2 or call["input"].ndim != g.ndim:
        raise NotImplementedError
    return all_but_last("input")(call, g)


@rule(
    torch.matmul, torch.Tensor.matmul, torch.mm, torch.Tensor.mm, torch.Tensor.__matmul__,
    arguments="input other", rows=_rows_of_product,
)  # fmt: skip
def product(call: Call, g: Tensor) -> dict[str, Share]:
    """Product of the data [N, ..., K] with a matrix [K, O], or of [O, K] with [N, ..., K, T]."""
    if call.wanted == {"other"}:
        return {"other": _right_factor(call, call["input"], call["other"], g)}
    if call.wanted == {"input"}:
        return {"input": _left_factor(call, call["input"], call["other"], g)}
    raise NotImplementedError


@rule(
    torch.addmm, torch.Tensor.addmm,
    arguments="input mat1 mat2 beta alpha", rows=all_but_last("mat1"),
)  # fmt: skip
def product_and_sum(call: Call, g: Tensor) -> dict[str, Share]:
    """Sum of a bias [O] and of a product of the data [N, K] with a matrix [K, O]."""
    if call.get("beta", 1) != 1 or call.get("alpha", 1) != 1 or "mat1" in call.wanted:
        raise NotImplementedError
    shares: dict[str, Share] = {}
    if "mat2" in call.wanted:
        shares["mat2"] = _right_factor(call, call["mat1"], call["mat2"], g)
    if "input" in call.wanted:
        shares["input"] = _bias(call["input"], _positions(call, g))
    return shares


@rule(torch.bilinear, arguments="input1 input2 weight bias", rows=all_but_last("input1", "input2"))
def bilinear(call: Call, g: Tensor) -> dict[str, Share]:
    """Bilinear form: the weight's gradient is Σ_t g_t ⊗ a_t ⊗ b_t for inputs a and b."""
    rows = _positions(call, g)
    shares: dict[str, Share] = {}
    if "weight" in call.wanted:
        left, right = (_positions(call, call[name]) for name in ("input1", "input2"))
        shares["weight"] = Paired(left, right, rows)
    if "bias" in call.wanted:
        shares["bias"] = _bias(call["bias"], rows)
    return shares


def _bias(bias: Tensor, rows: Tensor) -> Share:
    """Sum the gradients [N, T, O] over positions, for a bias with an entry for each output."""
    if bias.shape != rows.shape[2:]:
        raise NotImplementedError
    return Dense(rows[:, 0] if rows.shape[1] == 1 else rows.sum(1))


def _right_factor(call: Call, data: Tensor, matrix: Tensor, g: Tensor) -> Share:
    if matrix.ndim != 2 or data.ndim != g.ndim:
        raise NotImplementedError
    a, rows = _positions(call, data), _positions(call, g)
    return Outer(a.unsqueeze(1), rows.unsqueeze(1), matrix.shape, transposed=True)


def _left_factor(call: Call, matrix: Tensor, data: Tensor, g: Tensor) -> Share:
    if matrix.ndim != 2 or data.ndim != g.ndim:
        raise NotImplementedError
    a, rows = (call.samples_first(t).transpose(-1, -2).flatten(1, -2) for t in (data, g))
    return Outer(a[:, None], rows[:, None], matrix.shape)


def _positions(call: Call, tensor: Tensor) -> Tensor:
    """Return [N, T, D]: all dimensions but the last are positions of a sample."""
    first = call.samples_first(tensor)
    return first if first.ndim == 3 else first.flatten(1, -2)
