"""Rewrites of a traced step that keep its results: fewer passes, faster convolutions."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from steepest.training.fast import kernels  # noqa: F401 - registers the operators

_ATEN = torch.ops.aten
_SAME = (_ATEN.detach.default, _ATEN.alias.default)
_ADD = (_ATEN.add.Tensor, _ATEN.add_.Tensor)
_RELU = (_ATEN.relu.default, _ATEN.relu_.default)
_NORMED = torch.ops.steepest.normed.default
_BACKWARD = torch.ops.steepest.normed_backward.default
_CAST = _ATEN._to_copy.default  # noqa: SLF001 - how it is named there
_FRESH = (_CAST, _ATEN.lift_fresh_copy.default)
_RESULT = 0
_HARMLESS = {"dtype", "layout", "device"}
_FORWARD = _ATEN.convolution.default
_CONVOLUTION_BACKWARD = _ATEN.convolution_backward.default
_FEW = 4
"""Fewer channels than this are few: colours."""

_MOST_TAPS = 256
_WANTED = 10
"""The place among the arguments of the backward of what is requested."""


def simplify(graph: Graph) -> None:
    """Fuse batch normalisation with its surroundings, and count batches all at once."""
    _drop_detached(graph)
    for node in _calls(graph, _NORMED):
        _fuse_forward(graph, node)
    for node in _calls(graph, _BACKWARD):
        _fuse_backward(graph, node)
    _count_together(graph)


def fold_constants(module: GraphModule) -> None:
    """Bring tensors that the step makes anew each time to their place and type once and for all.

    A recording cannot bring them to a GPU.
    """
    for number, node in enumerate(list(module.graph.nodes)):
        source = node.args[0] if node.target in _FRESH else None
        if not isinstance(source, Node) or source.op != "get_attr":
            continue
        value = node.target(getattr(module, str(source.target)), *node.args[1:], **node.kwargs)
        name = f"_settled_{number}"
        module.register_buffer(name, value)
        with module.graph.inserting_before(node):
            settled = module.graph.get_attr(name)
        settled.meta.update(node.meta)
        node.replace_all_uses_with(settled)
        module.graph.erase_node(node)


def take_casts_out(graph: Graph, parameters: int) -> dict[int, torch.dtype]:
    """Let the graph take parameters as they are used, where they are only used in one other type.

    Args:
        graph: Of a traced step.
        parameters: How many of its first inputs are parameters.

    Returns:
        The type that the graph now expects, by the place of the parameter.
    """
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    expected = {}
    for place, node in enumerate(inputs[:parameters]):
        casts = list(node.users)
        types = {cast_type(user) for user in casts}
        if len(types) != 1 or None in types:
            continue
        (expected[place],) = types
        for user in casts:
            node.meta["val"] = _value(user)
            user.replace_all_uses_with(node)
            graph.erase_node(user)
    return expected  # type: ignore[return-value]


def leave_gradients_narrow(graph: Graph) -> None:
    """Let the graph return gradients in the type in which they were computed."""
    (output,) = (node for node in graph.nodes if node.op == "output")
    results: Any = output.args[0]
    casts = [
        node
        for node in results
        if isinstance(node, Node) and cast_type(node) is not None and len(node.users) == 1
    ]
    output.args = ([node.args[0] if node in casts else node for node in results],)
    for node in casts:
        graph.erase_node(node)


def cast_type(node: Node) -> torch.dtype | None:
    """Return the type that a node changes its input to, if that is all it does."""
    if node.target is not _CAST or set(node.kwargs) - _HARMLESS:
        return None
    source, result = _value(node.args[0]), _value(node)
    if source is None or result is None or source.device != result.device:
        return None
    kind: torch.dtype = result.dtype
    return kind


def _drop_detached(graph: Graph) -> None:
    for node in list(graph.nodes):
        if node.target in _SAME:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def _fuse_forward(graph: Graph, node: Node) -> None:
    """Draw a residual and a ReLU that follow into the normalisation."""
    result = _parts(node).get(_RESULT)
    follower = None if result is None else _only_user(result)
    residual, chain = None, []
    if result is not None and follower is not None and follower.target in _ADD:
        residual = _other_term(follower, result)
        chain = [follower]
        follower = None if residual is None else _only_user(follower)
    if follower is None or follower.target not in _RELU:
        return
    with graph.inserting_before(follower):
        fused = graph.call_function(_NORMED, (*node.args[:7], residual, True))
        parts = _split(graph, fused, 3)
    parts[_RESULT].meta.update(follower.meta)
    follower.replace_all_uses_with(parts[_RESULT])
    for gone in (follower, *chain):
        graph.erase_node(gone)
    _replace_parts(graph, node, parts)


def _fuse_backward(graph: Graph, node: Node) -> None:
    """Draw the ReLU's gradient, and the sum of two gradients before it, into the backward pass."""
    after = node.args[0]
    if not isinstance(after, Node) or after.target is not _ATEN.threshold_backward.default:
        return
    gradient, result, threshold = after.args
    forward = result.args[0] if isinstance(result, Node) and result.args else None
    if not isinstance(forward, Node) or not isinstance(gradient, Node) or threshold != 0:
        return
    if forward.target is not _NORMED or forward.args[0] is not node.args[2]:
        return
    has_residual = forward.args[7] is not None
    keep = len(after.users) > 1
    if keep and not has_residual:
        return
    second: Any = None
    total = gradient
    if total.target in _ADD and _only_user(total) is after:
        first = total.args[0]
        second = _other_term(total, first)  # type: ignore[arg-type]
        gradient = total if second is None else first
    with graph.inserting_before(after):
        rest = (*node.args[4:8], True, keep)
        inputs = (gradient, second, node.args[2], result if has_residual else None)
        parts = _split(graph, graph.call_function(_BACKWARD, (*inputs, *rest)), 4)
    parts[3].meta.update(after.meta)
    _replace_parts(graph, node, parts)
    after.replace_all_uses_with(parts[3])
    graph.erase_node(after)
    if second is not None:
        graph.erase_node(total)


def _count_together(graph: Graph) -> None:
    """Count all layers' batches by one operator rather than by one each."""
    counts = [
        node
        for node in graph.nodes
        if node.target is _ATEN.add_.Tensor
        and not node.users
        and node.args[0].op == "placeholder"
        and node.args[1:] == (1,)
        and _value(node).numel() == 1
        and len(node.args[0].users) == 1
    ]
    if len(counts) < 2:
        return
    with graph.inserting_before(counts[0]):
        graph.call_function(_ATEN._foreach_add_.Scalar, ([node.args[0] for node in counts], 1))
    for node in counts:
        graph.erase_node(node)


def _calls(graph: Graph, target: object) -> list[Node]:
    return [node for node in graph.nodes if node.target is target]


def _value(node: Any) -> Any:  # noqa: ANN401 - a tensor's stand-in, or None
    return node.meta.get("val") if isinstance(node, Node) else None


def _only_user(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _other_term(total: Node, term: Node) -> Node | None:
    """Return what is added to a term, if both are alike and nothing is scaled."""
    terms = total.args[:2]
    if total.kwargs or len(terms) != 2 or terms[0] is terms[1]:
        return None
    other = terms[1] if terms[0] is term else terms[0]
    mine, its, sum_ = _value(term), _value(other), _value(total)
    if mine is None or its is None or sum_ is None:
        return None
    alike = mine.shape == its.shape == sum_.shape and mine.dtype == its.dtype == sum_.dtype
    return other if alike and isinstance(other, Node) else None


def _parts(node: Node) -> dict[int, Node]:
    found: dict[Any, Node] = {
        user.args[1]: user for user in node.users if user.target is operator.getitem
    }
    return found


def _split(graph: Graph, node: Node, count: int) -> list[Node]:
    return [graph.call_function(operator.getitem, (node, i)) for i in range(count)]


def _replace_parts(graph: Graph, node: Node, parts: list[Node]) -> None:
    for place, part in _parts(node).items():
        part.replace_all_uses_with(parts[place])
        parts[place].meta = {**part.meta, **parts[place].meta}
        graph.erase_node(part)
    graph.erase_node(node)


def replace_slow_convolutions(graph: Graph) -> None:
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
        if user.target is _CONVOLUTION_BACKWARD and user.args[1] is x and user.args[2] is weight
    ]
    return found[0] if len(found) == 1 else None


def _replace(graph: Graph, node: Node, result: Node) -> None:
    result.meta.update(node.meta)
    node.replace_all_uses_with(result)
    graph.erase_node(node)
