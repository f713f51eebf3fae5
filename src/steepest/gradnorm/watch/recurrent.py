"""Recurrent layers in terms of functions with a rule: torch runs each as a whole, out of sight.

All steps meet the input's weights in one call, and the state's weights in one call each. Packed
sequences are what torch packs them to: the rows of the first step, then those of the second, and so
on, the longest sequence first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

State = tuple[Tensor, ...]
"""What goes from one step to the next, each [n, H]: the first of them is what a layer returns."""

Cell = Callable[[Tensor, Tensor, State], State]
"""Takes what the input says [n, G], what the last state says [n, G] and that state."""


_ARGUMENTS = 9
"""The sizes of the steps are one, or else whether the time is the second dimension."""


def can_be_opened(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Say whether a layer is called as ``torch.nn`` calls it, and draws nothing at random."""
    if kwargs or len(args) != _ARGUMENTS:
        return False
    dropout, trains = args[6:8] if _is_packed(args) else args[5:7]
    return not (dropout and trains)


def _is_packed(args: Sequence[Any]) -> bool:
    """Say whether a layer is given the sizes of its steps."""
    return isinstance(args[1], Tensor) and not args[1].is_floating_point()


def initial_states(args: Sequence[Any]) -> Sequence[Tensor]:
    """Return the states that a layer starts with, each [L, N, H]."""
    states = args[2] if _is_packed(args) else args[1]
    return (states,) if isinstance(states, Tensor) else states


def _layers(cell: Cell, *args: Any) -> tuple[Tensor, ...]:  # noqa: ANN401 - as torch has it
    """Return what ``torch.lstm`` and the like do: results [..., H], and the last states [L, N, H].

    Args:
        cell: Makes a step.
        args: The function's arguments.
    """
    packed = _is_packed(args)
    data, sizes = args[0], args[1].tolist() if packed else None
    weights, biased, depth, _, _, both_ways = args[3:] if packed else args[2:-1]
    time_second = not packed and args[-1]
    data = data.transpose(0, 1) if time_second else data
    directions = 2 if both_ways else 1
    share = len(weights) // (depth * directions)
    last: list[State] = []
    for layer in range(depth):
        found = []
        for backwards in (False, True)[:directions]:
            number = layer * directions + backwards
            own = weights[number * share : (number + 1) * share]
            state = tuple(each[number] for each in initial_states(args))
            result, end = _layer(cell, data, sizes, state, own, biased, backwards=backwards)
            found.append(result)
            last.append(end)
        data = torch.cat(found, dim=-1) if both_ways else found[0]
    ends = tuple(torch.stack(each) for each in zip(*last, strict=True))
    return data.transpose(0, 1) if time_second else data, *ends


def _layer(
    cell: Cell,
    data: Tensor,
    sizes: list[int] | None,
    state: State,
    weights: Sequence[Tensor],
    biased: bool,
    *,
    backwards: bool,
) -> tuple[Tensor, State]:
    """Go through the steps in one direction; return all results and the last states [N, H].

    Args:
        cell: Makes a step.
        data: [T, N, I], or the rows of all steps [R, I].
        sizes: How many rows each step has, never more than the one before; None for N.
        state: Where to start, each [N, H].
        weights: Of input and state, their biases, and that of a projection.
        biased: Whether there are biases.
        backwards: Whether the last step comes first.
    """
    bias_in, bias_back = weights[2:4] if biased else (None, None)
    project = weights[-1] if len(weights) % 2 else None
    entering = F.linear(data, weights[0], bias_in)
    steps = entering.unbind(0) if sizes is None else torch.split(entering, sizes)
    results: list[Tensor] = []
    ended: list[State] = []
    begin, now = state, tuple(each[: len(steps[-1] if backwards else steps[0])] for each in state)
    for entered in reversed(steps) if backwards else steps:
        rows, before = len(entered), len(now[0])
        if rows < before:
            ended.append(tuple(each[rows:] for each in now))
            now = tuple(each[:rows] for each in now)
        elif rows > before:
            more = (each[before:rows] for each in begin)
            now = tuple(torch.cat(pair) for pair in zip(now, more, strict=True))
        output, *kept = cell(entered, F.linear(now[0], weights[1], bias_back), now)
        output = output if project is None else F.linear(output, project)
        now = (output, *kept)
        results.append(output)
    ends = zip(now, *reversed(ended), strict=True)
    results = results[::-1] if backwards else results
    joined = torch.stack(results) if sizes is None else torch.cat(results)
    return joined, tuple(torch.cat(parts) if ended else parts[0] for parts in ends)


def _lstm(entered: Tensor, back: Tensor, state: State) -> State:
    return lstm_state(entered + back, state[1])


def _gru(entered: Tensor, back: Tensor, state: State) -> State:
    return (gru_state(entered, back, state[0]),)


def _tanh(entered: Tensor, back: Tensor, _: State) -> State:
    return ((entered + back).tanh(),)


def _relu(entered: Tensor, back: Tensor, _: State) -> State:
    return ((entered + back).relu(),)


LAYERS: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.lstm: partial(_layers, _lstm),
    torch.gru: partial(_layers, _gru),
    torch.rnn_tanh: partial(_layers, _tanh),
    torch.rnn_relu: partial(_layers, _relu),
}
"""What gives the same as each layer, and can be watched."""


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
