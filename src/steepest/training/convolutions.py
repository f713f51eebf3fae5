"""Convolutions of a traced step that the libraries are slow at, put in other words."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from steepest.training import kernels  # noqa: F401 - registers the operators

_ATEN = torch.ops.aten
_FORWARD = _ATEN.convolution.default
_BACKWARD = _ATEN.convolution_backward.default
_FEW = 4
"""Fewer channels than this are few: colours."""

_MOST_TAPS = 256
_WANTED = 10
"""The place among the arguments of the backward of what is asked for."""


def reword_convolutions(graph: Graph) -> None:
    """Replace convolutions of few channels, and those that only pick positions and mix channels."""
    for node in list(graph.nodes):
        if node.target is not _FORWARD or not _is_plain(node):
            continue
        if _has_few_channels(node):
            _use_own_kernels(graph, node)
        elif _picks_positions(node):
            _pick_and_mix(graph, node)


def _is_plain(node: Node) -> bool:
    """Say whether a convolution is of images in half precision, channels last, without frills."""
    x, weight = _value(node.args[0]), _value(node.args[1])
    if x is None or weight is None or x.dim() != 4:
        return False
    arguments: tuple[Any, ...] = node.args
    _, _, bias, stride, padding, dilation, transposed, _, groups = arguments
    alike = (weight.shape[2:], stride, padding, dilation)
    square = all(len(set(sizes)) == 1 for sizes in alike)
    usual = bias is None and not transposed and groups == 1 and dilation[0] == 1
    half = x.dtype == weight.dtype and x.dtype in (torch.bfloat16, torch.float16)
    return square and usual and half and bool(x.is_contiguous(memory_format=torch.channels_last))


def _has_few_channels(node: Node) -> bool:
    _, channels, height, width = _value(node.args[1]).shape
    backward = _backward_of(node)
    if backward is None or channels >= _FEW or channels * height * width > _MOST_TAPS:
        return False
    wanted: Any = backward.args[_WANTED]
    return list(wanted[:2]) == [False, True]


def _use_own_kernels(graph: Graph, node: Node) -> None:
    x, weight, _, stride, padding, *_ = node.args
    window = (stride[0], padding[0])  # type: ignore[index]
    backward = _backward_of(node)
    with graph.inserting_before(node):
        result = graph.call_function(torch.ops.steepest.few_channels.default, (x, weight, *window))
    _replace(graph, node, result)
    if backward is None:
        return
    kernel = _value(weight).shape[2]
    with graph.inserting_before(backward):
        gradient = graph.call_function(
            torch.ops.steepest.few_channels_weight.default, (backward.args[0], x, kernel, *window)
        )
    for part in list(backward.users):
        if part.args[1] == 1:
            _replace(graph, part, gradient)
        elif not part.users:
            graph.erase_node(part)
    if not backward.users:
        graph.erase_node(backward)


def _picks_positions(node: Node) -> bool:
    arguments: tuple[Any, ...] = node.args
    stride, padding = arguments[3:5]
    one_tap = _value(node.args[1]).shape[2] == 1
    return bool(one_tap and stride[0] > 1 and padding[0] == 0)


def _pick_and_mix(graph: Graph, node: Node) -> None:
    """Take every so-manieth position and multiply by a matrix; the backward pass stays."""
    x, weight, _, stride, *_ = node.args
    samples, outputs, height, width = _value(node).shape
    channels = _value(x).shape[1]

    def add(target: Any, *args: Any) -> Node:  # noqa: ANN401
        return graph.call_function(target, args)

    with graph.inserting_before(node):
        picked = x
        for d, step in ((2, stride[0]), (3, stride[1])):  # type: ignore[index]
            picked = add(_ATEN.slice.Tensor, picked, d, 0, 2**62, step)
        rows = add(_ATEN.permute.default, picked, [0, 2, 3, 1])
        rows = add(_ATEN.reshape.default, rows, [samples * height * width, channels])
        matrix = add(_ATEN.reshape.default, weight, [outputs, channels])
        mixed = add(_ATEN.mm.default, rows, add(_ATEN.t.default, matrix))
        images = add(_ATEN.view.default, mixed, [samples, height, width, outputs])
        result = add(_ATEN.permute.default, images, [0, 3, 1, 2])
    _replace(graph, node, result)


def _backward_of(node: Node) -> Node | None:
    """Return the backward pass of a convolution, if there is just the one."""
    x, weight = node.args[:2]
    found = [
        user
        for user in x.users  # type: ignore[union-attr]
        if user.target is _BACKWARD and user.args[1] is x and user.args[2] is weight
    ]
    return found[0] if len(found) == 1 else None


def _replace(graph: Graph, node: Node, result: Node) -> None:
    result.meta.update(node.meta)
    node.replace_all_uses_with(result)
    graph.erase_node(node)


def _value(node: Any) -> Any:  # noqa: ANN401 - a tensor's stand-in, or None
    return node.meta.get("val") if isinstance(node, Node) else None
