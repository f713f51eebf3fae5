"""Recurrent cells in terms of functions with a rule: torch runs each as a whole, out of sight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


def lstm_state(gates: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """Return the next state and memory [n, H] of an LSTM, from its gates [n, 4H]."""
    enter, keep, new, leave = gates.chunk(4, dim=1)
    memory = keep.sigmoid() * memory + enter.sigmoid() * new.tanh()
    return leave.sigmoid() * memory.tanh(), memory


def gru_state(entered: Tensor, back: Tensor, state: Tensor) -> Tensor:
    """Return the next state [n, H] of a GRU, from what input and state [n, H] say [n, 3H]."""
    reset, update, new = entered.chunk(3, dim=1)
    reset_by, update_by, new_by = back.chunk(3, dim=1)
    kept = (update + update_by).sigmoid()
    made = (new + (reset + reset_by).sigmoid() * new_by).tanh()
    return made + kept * (state - made)


def _lstm_cell(
    input: Tensor,  # noqa: A002 - torch's name for it
    hx: tuple[Tensor, Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    state, memory = hx
    return lstm_state(F.linear(input, w_ih, b_ih) + F.linear(state, w_hh, b_hh), memory)


def _gru_cell(
    input: Tensor,  # noqa: A002 - torch's name for it
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    return gru_state(F.linear(input, w_ih, b_ih), F.linear(hx, w_hh, b_hh), hx)


def _rnn_cell(
    input: Tensor,  # noqa: A002 - torch's name for it
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    return F.linear(input, w_ih, b_ih) + F.linear(hx, w_hh, b_hh)


CELLS: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.lstm_cell: _lstm_cell,
    torch.gru_cell: _gru_cell,
    torch.rnn_tanh_cell: lambda *given, **named: _rnn_cell(*given, **named).tanh(),
    torch.rnn_relu_cell: lambda *given, **named: _rnn_cell(*given, **named).relu(),
}
"""What gives the same as each cell, and can be watched; with the same names of arguments."""
