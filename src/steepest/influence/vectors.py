"""Vectors of parameter space: one tensor for each parameter, by its name."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from steepest.core.seeds import generator
from steepest.errors import InputError, NonFiniteError

Vector = dict[str, Tensor]
"""Tensors by the names of the parameters whose shape they have."""


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
