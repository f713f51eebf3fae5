"""What a torch function moves to other places, along which dimensions, and what decides that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from steepest.modules.batches import tensors_in

Named = Mapping[str, Any]
"""Arguments of a call by name, as far as the names matter."""


@dataclass(frozen=True)
class Shift:
    """Something that may change places.

    Attributes:
        base: What it is part of, or becomes part of.
        dims: The dimensions of that along which places change.
        moved: What changes places.
        how: What decides where to: indices, masks, sizes.
    """

    base: Tensor
    dims: tuple[int, ...]
    moved: Any
    how: Any


def shifts_of(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Shift]:
    """Return what a call may move; nothing for most functions.

    Args:
        name: The function, by its plain name.
        args: Its positional arguments.
        kwargs: Its named arguments.
    """
    if name not in _ARGUMENTS:
        return []
    order, find = _ARGUMENTS[name]
    names = order.split()
    given = dict(zip(names, args, strict=False))
    given |= {_SAME.get(key, key): value for key, value in kwargs.items()}
    given["rest"] = args[len(names) :]
    try:
        return find(name, given)
    except (KeyError, ValueError, TypeError, AttributeError, IndexError):
        # Written in a way that is not known here, it may do anything.
        tensors = tensors_in((args, dict(kwargs)))
        return [Shift(t, tuple(range(t.ndim)), t, tensors) for t in tensors]


def _looked_up(name: str, given: Named) -> list[Shift]:
    base, index = given["input"], given["index"]
    moved = given.get("values", base)
    if not name.startswith("__"):  # There a whole dimension is left open by None.
        index = tuple(slice(None) if item is None else item for item in index)
    return [Shift(base, dims, moved, item) for dims, item in _indexed(base, index)]


def _picked(name: str, given: Named) -> list[Shift]:
    base = given["input"]
    how = [value for key, value in given.items() if key not in {"input", "dim", "dims"}]
    if name == "repeat_interleave" and not tensors_in(how):
        return []  # Neighbours stay neighbours.
    return [Shift(base, _dims(name, given), base, how)]


def _written(name: str, given: Named) -> list[Shift]:
    moved = given.get("src", given.get("source"))
    return [Shift(given["input"], _dims(name, given), moved, given.get("index"))]


def _sorted(name: str, given: Named) -> list[Shift]:
    base = given["input"]
    return [Shift(base, _dims(name, given), base, base)]


def _table(_: str, given: Named) -> list[Shift]:
    return [Shift(given["weight"], (0,), given["weight"], given["input"])]


def _sampled(_: str, given: Named) -> list[Shift]:
    base = given["input"]
    return [Shift(base, tuple(range(2, base.ndim)), base, given.get("index", given.get("grid")))]


def _product(_: str, given: Named) -> list[Shift]:
    """Rows of one factor are added up as the other says: a permutation may be a matrix."""
    left, right = given["input"], given["weight" if "weight" in given else "other"]
    return [Shift(left, (left.ndim - 1,), left, right)]


def _summed(_: str, given: Named) -> list[Shift]:
    equation, *rest = given["rest"]
    factors = tensors_in(rest)
    if not isinstance(equation, str):
        return [Shift(t, tuple(range(t.ndim)), t, factors) for t in tensors_in(given["rest"])]
    terms, arrow, result = equation.replace(" ", "").partition("->")
    kept = set(result if arrow else (c for c in terms if terms.count(c) == 1))
    found = []
    for term, factor in zip(terms.split(","), factors, strict=False):
        before, _, after = term.partition("...")
        at = [*enumerate(before), *((factor.ndim - len(after) + i, c) for i, c in enumerate(after))]
        dims = tuple(d for d, letter in at if letter not in kept)
        others = [other for other in factors if other is not factor]
        found.append(Shift(factor, dims, factor, others))
    return found


def _dims(name: str, given: Named) -> tuple[int, ...]:
    """Return along which dimensions a call works; all if it does not say."""
    sizes = max(given["input"].ndim, 1)
    dim = given.get("dim", given.get("dims", _DEFAULT_DIM.get(name)))
    if isinstance(dim, int):
        dim = (dim, *given["rest"]) if name == "flip" else (dim,)
    if isinstance(dim, tuple | list):
        return tuple(d % sizes for d in dim)
    return tuple(range(given["input"].ndim))


def _indexed(base: Tensor, index: Any) -> list[tuple[tuple[int, ...], Any]]:  # noqa: ANN401
    """Return the dimensions that an index picks from, with what picks; whole ones are left out."""
    nested = isinstance(index, list) and any(isinstance(i, Tensor | slice) for i in index)
    items = list(index) if isinstance(index, tuple) or nested else [index]
    free = base.ndim - sum(map(_width, items))
    found: list[tuple[tuple[int, ...], Any]] = []
    dim = 0
    for item in items:
        width = free if item is ... else _width(item)
        if width and item is not ... and not is_whole(item):
            found.append((tuple(range(dim, dim + width)), item))
        dim += width
    return found


def _width(item: Any) -> int:  # noqa: ANN401
    """Return how many dimensions an item of an index takes up."""
    if item is None or item is ... or isinstance(item, bool):
        return 0
    masks = str(getattr(item, "dtype", "")).rpartition(".")[2] in {"bool", "uint8"}
    return int(item.ndim) if masks else 1


def is_whole(item: Any) -> bool:  # noqa: ANN401
    """Say whether an item of an index takes all of a dimension as it is."""
    if not isinstance(item, slice) or tensors_in(item):
        return False
    return item.start in {None, 0} and item.stop is None and item.step in {None, 1}


def stays_within_samples(shift: Shift, samples: int) -> bool:
    """Say whether what is picked by number comes from its own sample, or goes there.

    So it is with graphs and clouds of points: neighbours are picked out of all the points of a
    batch [N · P, D], of which the first P are those of the first sample, and so on. So it is with
    a mask that picks as many places of each sample, as one for the last word of a sentence does.

    Args:
        shift: The only one of a call.
        samples: The number of samples N.
    """
    indices = tensors_in(shift.how)
    if shift.dims[:1] != (0,) or len(indices) != 1 or not isinstance(shift.moved, Tensor):
        return False
    (index,) = indices
    if index.dtype == torch.bool and shift.moved is shift.base and index.ndim == len(shift.dims):
        return _picks_evenly(index, samples)
    numbers = index.ndim > 0 and not index.is_floating_point() and not is_mask(index)
    if shift.dims != (0,) or not numbers or shift.moved.ndim == 0:
        return False
    places, size = len(index), len(shift.base)
    if places % samples or size % samples or not index.numel():
        return False
    if max(places, size) == samples or (
        shift.moved is not shift.base and len(shift.moved) != places
    ):
        return False  # Whole samples change places, or something goes to many.
    owners = torch.arange(places, device=index.device) // (places // samples)
    return bool((index.movedim(0, -1) % size // (size // samples) == owners).all())


def _picks_evenly(mask: Tensor, samples: int) -> bool:
    """Say whether a mask with the samples first picks as many places of each of them."""
    if mask.numel() <= samples or len(mask) % samples:
        return False  # One that picks samples.
    picked = mask.reshape(samples, -1).sum(1)
    return bool((picked == picked[0]).all()) and bool(picked[0] > 0)


def numbers_samples(shift: Shift, samples: int) -> bool:
    """Say whether one of several indices is the number of each sample, as often as of any other.

    So it is where places are found by ``nonzero``: x[rows, columns] has those of the first sample
    first, then those of the second.

    Args:
        shift: One of several of a call.
        samples: The number of samples N.
    """
    indices = tensors_in(shift.how)
    if len(shift.dims) != 1 or len(indices) != 1 or not isinstance(shift.moved, Tensor):
        return False
    (index,), size = indices, shift.base.shape[shift.dims[0]]
    whole = index.ndim == 1 and not index.is_floating_point() and not is_mask(index)
    if not whole or size != samples or not len(index) or len(index) % samples:
        return False
    if shift.moved is not shift.base and shift.moved.shape[:1] != index.shape:
        return False
    owners = torch.arange(len(index), device=index.device) // (len(index) // samples)
    return bool((index % size == owners).all())


def puts_in_order(shift: Shift) -> bool:
    """Say whether indices pick as many places along a dimension as there are."""
    indices = tensors_in(shift.how)
    if len(shift.dims) != 1 or len(indices) != 1 or indices[0].is_floating_point():
        return False
    return indices[0].ndim > 0 and len(indices[0]) == shift.base.shape[shift.dims[0]]


def is_mask(how: Any) -> bool:  # noqa: ANN401
    """Say whether the number of places depends on values."""
    return any(t.dtype in {torch.bool, torch.uint8} for t in tensors_in(how))


_SAME = {"self": "input", "mat1": "input", "batch1": "input", "mat2": "other", "batch2": "other",
         "vec": "other", "tensor": "other", "indices": "index"}  # fmt: skip
_DEFAULT_DIM = {"sort": -1, "topk": -1, "msort": 0, "unbind": 0, "split": 0, "split_with_sizes": 0,
                "chunk": 0, "tensor_split": 0}  # fmt: skip

_ARGUMENTS: dict[str, tuple[str, Callable[[str, Named], list[Shift]]]] = {
    "__getitem__": ("input index", _looked_up),
    "index": ("input index", _looked_up),
    "__setitem__": ("input index values", _looked_up),
    "index_put": ("input index values", _looked_up),
    "index_select": ("input dim index", _picked),
    "gather": ("input dim index", _picked),
    "take_along_dim": ("input index dim", _picked),
    "take": ("input index", _picked),
    "masked_select": ("input mask", _picked),
    "select": ("input dim index", _picked),
    "narrow": ("input dim start length", _picked),
    "unbind": ("input dim", _picked),
    "split": ("input size dim", _picked),
    "split_with_sizes": ("input sizes dim", _picked),
    "chunk": ("input chunks dim", _picked),
    "tensor_split": ("input sections dim", _picked),
    "roll": ("input shifts dims", _picked),
    "flip": ("input dims", _picked),
    "flipud": ("input", _picked),
    "fliplr": ("input", _picked),
    "rot90": ("input", _picked),
    "repeat_interleave": ("input repeats dim", _picked),
    "scatter": ("input dim index src", _written),
    "scatter_add": ("input dim index src", _written),
    "scatter_reduce": ("input dim index src", _written),
    "index_add": ("input dim index source", _written),
    "index_copy": ("input dim index source", _written),
    "index_reduce": ("input dim index source", _written),
    "put": ("input index source", _written),
    "sort": ("input dim", _sorted),
    "topk": ("input k dim", _sorted),
    "msort": ("input", _sorted),
    "unique": ("input sorted return_inverse return_counts dim", _sorted),
    "unique_consecutive": ("input return_inverse return_counts dim", _sorted),
    "_pack_padded_sequence": ("input", _sorted),
    "_pad_packed_sequence": ("input", _sorted),
    "embedding": ("input weight", _table),
    "embedding_bag": ("input weight", _table),
    "grid_sample": ("input index", _sampled),
    "grid_sampler": ("input index", _sampled),
    "max_unpool1d": ("input index", _sampled),
    "max_unpool2d": ("input index", _sampled),
    "max_unpool3d": ("input index", _sampled),
    "matmul": ("input other", _product),
    "mm": ("input other", _product),
    "bmm": ("input other", _product),
    "mv": ("input other", _product),
    "dot": ("input other", _product),
    "linear": ("input weight bias", _product),
    "addmm": ("added input other", _product),
    "baddbmm": ("added input other", _product),
    "__matmul__": ("input other", _product),
    "__rmatmul__": ("other input", _product),
    "einsum": ("", _summed),
}
"""The names of a function's arguments, in order, and how to tell what it moves."""
