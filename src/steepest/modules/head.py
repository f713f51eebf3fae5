"""Finding the layer that makes a model's logits, whose input is the model's last feature."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.utils import _pytree as pytree

from steepest.errors import ModelError
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.modules.preserve import evaluating, removing


def declared_layers(model: nn.Module, attribute: str) -> tuple[str, ...]:
    """Return the layers that a model names in an attribute; none if it has no such names."""
    named = getattr(model, attribute, None)
    if not isinstance(named, (tuple, list)) or not all(isinstance(n, str) for n in named):
        return ()
    return tuple(named)


def find_penultimate(model: nn.Module, inputs: Inputs) -> str:
    """Return the name of the layer that makes the logits, out of the penultimate feature.

    That is the first of the model's ``head_layers`` if it has some. Otherwise two samples are run,
    and the graph of the logits is followed back to the nearest layers with weight matrices: one
    linear layer, or one convolution of width 1, is the head. What comes after it, such as a
    temperature, a softmax or a mean over positions, does not matter. The model is left unchanged.

    Args:
        model: Any module that returns logits, or carries them in its output.
        inputs: A batch that it takes.

    Returns:
        A name for ``model.get_submodule``; empty if the model itself is such a layer.

    Raises:
        ModelError: If there is not exactly one such layer; with the remedy.
    """
    model = getattr(model, "_orig_mod", model)
    declared = declared_layers(model, "head_layers")
    if declared:
        return declared[0]
    made: dict[Any, str] = {}
    few = batches.detached(batches.take(inputs, slice(0, 2)))
    with evaluating(model), torch.inference_mode(mode=False), torch.enable_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point() and not parameter.is_inference():
                parameter.requires_grad_(True)
        with _noting_outputs(model, made):
            logits = batches.logits_of(batches.call(model, few))
        nearest, matrices = _follow_back(logits.grad_fn, made)
    return _only_head(model, nearest, matrices)


@contextmanager
def _noting_outputs(model: nn.Module, made: dict[Any, str]) -> Iterator[None]:
    """File the graph nodes of every weighted layer's outputs under the layer's name."""

    def note_as(path: str) -> Any:  # noqa: ANN401 - a hook
        def note(_: nn.Module, __: object, output: object) -> None:
            for tensor in pytree.tree_leaves(output):
                if isinstance(tensor, Tensor) and tensor.grad_fn is not None:
                    made[tensor.grad_fn] = path
                    # A linear layer's output over positions is a view: changed in place behind it,
                    # it gets another node, and that of the whole stays.
                    whole = tensor._base  # noqa: SLF001 - nothing else reveals views
                    if whole is not None and whole.grad_fn is not None:
                        made.setdefault(whole.grad_fn, path)

        return note

    handles = [
        module.register_forward_hook(note_as(path))
        for path, module in model.named_modules()
        if _is_weighted(module)
    ]
    with removing(handles):
        yield


def _is_weighted(module: nn.Module) -> bool:
    if isinstance(module, (nn.Linear, _ConvNd)):
        return True
    own = module.parameters(recurse=False)
    return not any(module.children()) and any(parameter.ndim > 1 for parameter in own)


def _follow_back(end: Any, made: dict[Any, str]) -> tuple[list[str], int]:  # noqa: ANN401
    """Walk from the logits to the nearest outputs of layers.

    Returns:
        The layers, one entry per call, and how many weight matrices were met outside of them.
    """
    nearest: list[str] = []
    matrices = 0
    seen, waiting = set(), [end]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node in made:
            nearest.append(made[node])
            continue
        variable = getattr(node, "variable", None)
        matrices += isinstance(variable, nn.Parameter) and variable.ndim > 1
        waiting += [before for before, _ in node.next_functions]
    return nearest, matrices


def _only_head(model: nn.Module, nearest: Sequence[str], matrices: int) -> str:
    if len(nearest) == 1 and not matrices:
        layer = model.get_submodule(nearest[0])
        narrow = isinstance(layer, _ConvNd) and set(layer.kernel_size) == {1}
        if narrow or isinstance(layer, nn.Linear):
            return nearest[0]
    found = _list_some(nearest) if nearest else "none"
    raise ModelError(
        f"no single linear layer makes the model's logits (nearest layers: {found}): name the one "
        "whose input is the feature, as by model.head_layers = ('fc',), or by penultimate='fc' of "
        "extract_features"
    )


def _list_some(paths: Iterable[str]) -> str:
    named = sorted({path or "the model itself" for path in paths})
    return ", ".join(named[:4]) + (" …" if len(named) > 4 else "")
