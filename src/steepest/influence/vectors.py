"""Vectors of parameter space: one tensor for each selected parameter, by its name."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from typing import Literal

import torch
from torch import Tensor, nn

from steepest.core.seeds import generator
from steepest.errors import InputError, ModelError, NonFiniteError

Vector = dict[str, Tensor]
"""Tensors by the names of the parameters whose shape they have."""
Layers = Literal["all", "no-vectors"] | Callable[[str, Tensor], bool] | Collection[str]
"""All trainable parameters, all but one-dimensional ones, those named, or those a function keeps.

One-dimensional parameters are biases, and the scales and shifts of normalisation.
"""


def dot(a: Vector, b: Vector) -> float:
    """Return the inner product, summed in double precision."""
    # A GPU is waited for once, not once for each tensor.
    parts = [(a[name].double() * b[name].double()).sum() for name in a]
    return float(torch.stack(parts).sum()) if parts else 0.0


def norm(a: Vector) -> float:
    """Return the Euclidean norm of the whole vector."""
    return math.sqrt(dot(a, a))


def axpy(factor: float, x: Vector, y: Vector) -> Vector:
    """Return ``factor · x + y`` as a new vector."""
    return {name: torch.add(y[name], x[name], alpha=factor) for name in y}


def scaled(factor: float, x: Vector) -> Vector:
    """Return ``factor · x`` as a new vector."""
    return {name: factor * tensor for name, tensor in x.items()}


def zeros_like(x: Vector) -> Vector:
    """Return a vector of zeros."""
    return {name: torch.zeros_like(tensor) for name, tensor in x.items()}


def add_in_place(total: Vector, part: Vector) -> None:
    """Add a vector to another one, which is changed."""
    for name, tensor in total.items():
        tensor.add_(part[name])


def mean_of(vectors: Iterable[Vector]) -> Vector:
    """Return the mean of some vectors, at least one."""
    found = list(vectors)
    return {name: torch.stack([v[name] for v in found]).mean(0) for name in found[0]}


def size(x: Vector) -> int:
    """Return the number of entries in all."""
    return sum(tensor.numel() for tensor in x.values())


def flatten(x: Vector) -> Tensor:
    """Return all entries one after another [P], in the order of the names."""
    return torch.cat([tensor.reshape(-1) for tensor in x.values()])


def unflatten(flat: Tensor, like: Vector) -> Vector:
    """Cut entries [P] into tensors with the names, shapes and kind of another vector."""
    parts = torch.split(flat, [tensor.numel() for tensor in like.values()])
    return {
        name: part.reshape(tensor.shape).to(tensor)
        for (name, tensor), part in zip(like.items(), parts, strict=True)
    }


def draw_normal(like: Vector, seed: int, *purpose: str | int) -> Vector:
    """Return independent normal entries, the same on every device."""
    draws = torch.randn(size(like), generator=generator(seed, *purpose), dtype=torch.float64)
    return unflatten(draws, like)


def check_vector(given: Vector, like: Vector) -> None:
    """Raise if a vector does not belong to these parameters.

    Raises:
        InputError: If names, shapes or devices differ; names the first.
        NonFiniteError: If an entry is NaN or infinite.
    """
    for name in [*like, *given]:
        if name not in given or name not in like:
            where = "parameter" if name in given else "vector"
            raise InputError(
                f"{name!r} has no {where} to match: use the same model and the same layers "
                "for the curvature and the gradient"
            )
        if given[name].shape != like[name].shape:
            raise InputError(
                f"{name!r} has shape {list(given[name].shape)} where the parameter has "
                f"{list(like[name].shape)}: use the gradient of the same model"
            )
        if given[name].device != like[name].device:
            raise InputError(
                f"{name!r} is on {given[name].device} where the parameter is on "
                f"{like[name].device}: bring both to one device"
            )
        if not bool(torch.isfinite(given[name]).all()):
            raise NonFiniteError(
                f"the vector's {name!r} holds NaN or infinity: look at the model's outputs"
            )


def choose_parameters(model: nn.Module, layers: Layers = "all") -> tuple[Vector, tuple[str, ...]]:
    """Return the parameters that take part, by name, and the names of trainable ones that do not.

    The tensors share the model's memory, so that they follow its training.

    Args:
        model: Any module; frozen parameters never take part.
        layers: Which of the others do.

    Raises:
        InputError: If there are none, or a name is not there.
        ModelError: If their precision is too low for differences of gradients.
    """
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    keep = _keeper(layers, trained)
    chosen = {name: p.detach() for name, p in trained.items() if keep(name, p)}
    if not chosen:
        raise InputError("no trainable parameter takes part: set requires_grad, or change 'layers'")
    for name, parameter in chosen.items():
        if parameter.dtype not in (torch.float32, torch.float64):
            raise ModelError(
                f"the parameter {name!r} is {parameter.dtype}, too coarse for curvature: call "
                "model.float() first"
            )
    return chosen, tuple(name for name in trained if name not in chosen)


def _keeper(layers: Layers, trained: dict[str, nn.Parameter]) -> Callable[[str, Tensor], bool]:
    if layers == "all":
        return lambda _name, _parameter: True
    if layers == "no-vectors":
        return lambda _name, parameter: parameter.ndim != 1
    if callable(layers):
        return layers
    if isinstance(layers, str) or not isinstance(layers, Collection):
        raise InputError(
            f"layers is {layers!r}: give 'all', 'no-vectors', names of parameters or a function"
        )
    wanted = set(layers)
    if unknown := sorted(wanted - trained.keys()):
        raise InputError(f"the model trains no parameter {unknown[0]!r}: named_parameters() lists")
    return lambda name, _parameter: name in wanted
