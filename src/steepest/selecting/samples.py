"""One view of every kind of pool: ids, and batches of inputs without labels."""

from __future__ import annotations

import functools
import mmap
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    default_collate,
)

from steepest.core.seeds import SampleId
from steepest.core.wording import counted
from steepest.data.texts import ids_of_table, is_table
from steepest.errors import InputError, SettingWarning, SteepestError, in_one_line
from steepest.modules.batches import Inputs, count, tensors_of
from steepest.pool.values import plain_id, plain_list
from steepest.selecting.collation import LABEL_KEYS, collate_rows, is_ragged

PoolLike = Any
"""A Dataset, a DataLoader, a tensor, an array, or the path of a folder of images."""

_KINDS_OF_NUMPY = frozenset(
    {torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8}
)


_NEAR_ONE = 1e-3


class Samples:
    """A pool as ids and a way to load inputs by position.

    Args:
        ids: Ids [N]; distinct.
        load: Maps positions and a batch size to batches of inputs, in order.
        read_ahead: Whether samples may be loaded once more than needed, to inspect them. False if
            each load calls the user's own code.
        origin: The argument from which ``as_samples`` makes the same samples, in this process or
            another; None if unknown.

    Attributes:
        whole: The pool that these samples are a part of, or all of.
        positions: Positions in it [N].
        has_measurements: Whether labels that were read are real numbers, as for a regression.
    """

    def __init__(
        self,
        ids: Sequence[SampleId],
        load: Callable[[Sequence[int], int], Iterator[Inputs]],
        *,
        read_ahead: bool = True,
        origin: PoolLike = None,
    ) -> None:
        if len(ids) == 0:
            raise InputError("the pool is empty: there is nothing to choose from")
        if not isinstance(ids, range) and len(set(ids)) != len(ids):
            twice = Counter(ids).most_common(1)[0][0]
            raise InputError(
                f"the ids of a pool must be distinct, and {twice!r} is there more than once"
            )
        self.ids = ids
        self.read_ahead = read_ahead
        self.whole: Samples = self
        self.positions: Sequence[int] = range(len(ids))
        self.has_measurements = False
        self._load = load
        self._origin = origin

    def __len__(self) -> int:
        return len(self.ids)

    def __reduce__(self) -> tuple[Callable[..., Samples], tuple[PoolLike, range]]:
        """Pickle as the origin, without ids, which are long."""
        if self._origin is None:
            raise InputError("this pool cannot be sent to other processes: give it as a Dataset")
        return as_samples, (self._origin, range(len(self)))

    def part(self, positions: Sequence[int], ids: Sequence[SampleId] | None = None) -> Samples:
        """Return some of the samples as a separate pool, under other ids if any are given."""
        if ids is None and isinstance(positions, range) and positions == range(len(self)):
            return self

        def load(chosen: Sequence[int], size: int) -> Iterator[Inputs]:
            return self._load(_taken(positions, chosen), size)

        found = Samples(
            [self.ids[p] for p in positions] if ids is None else ids,
            load,
            read_ahead=self.read_ahead,
        )
        found.whole, found.positions = self.whole, _taken(self.positions, positions)
        return found

    def batches(self, positions: Sequence[int], size: int) -> Iterator[Inputs]:
        """Yield the inputs at these positions, in batches, labels left out.

        Raises:
            InputError: If samples cannot be read, or some of them are missing: their
                successors would be taken for them.
        """
        done = 0
        for inputs in _readable(self._load(positions, size)):
            wanted, found = min(size, len(positions) - done), count(inputs)
            if found != wanted:
                raise InputError(
                    f"a batch holds {counted(found, 'sample')} where {wanted} were asked for: the "
                    "pool's collation must keep every sample; leave out bad ones beforehand"
                )
            done += found
            yield inputs
        if done < len(positions):
            raise InputError(f"the pool gave {done} of the {len(positions)} samples asked for")


def _taken(row: Sequence[int], positions: Sequence[int]) -> Sequence[int]:
    """Return the items at some positions of a sequence; of a range a range if possible."""
    if isinstance(positions, range) and positions.step == 1:
        return row[positions.start : positions.stop]
    return [row[p] for p in positions]


def as_samples(pool: PoolLike, ids: Sequence[SampleId] | None = None) -> Samples:
    """Take a pool as users have it.

    Args:
        pool: A Dataset (items are inputs, ``(inputs, label, …)`` or dicts; labels are dropped), a
            DataLoader (its data set, collation and workers are used), a tensor or array [N, ...],
            the path of a folder of images, or a function that returns one of these.
        ids: The samples' names [N]; None takes the pool's own (paths of a folder, an ``ids``
            attribute) or else the index.

    Raises:
        InputError: If the pool is empty or of no known kind.
    """
    if isinstance(pool, Samples):
        return pool
    origin: PoolLike = None
    if _is_function(pool):
        origin, pool = pool, _made_by(pool)
    if isinstance(pool, (str, Path)):
        from steepest.data.folder import ImageFolder

        pool = ImageFolder(Path(pool))
    _warn_if_not_normalised(pool)
    if origin is None:
        origin = _open_mapped(pool) if isinstance(pool, np.memmap) else pool
    if isinstance(pool, np.ndarray):
        pool = _tensor_of(pool)
    if isinstance(pool, (tuple, Mapping)) or (isinstance(pool, Tensor) and pool.ndim == 0):
        raise InputError(
            f"a pool of type {type(pool).__name__} is not a collection of samples: pass a tensor "
            "[N, ...] or a TensorDataset"
        )
    _check_kind(pool)
    if isinstance(pool, Tensor):
        return Samples(_ids(pool, ids, len(pool)), _tensor_loader(pool), origin=_as_array(origin))
    if isinstance(pool, DataLoader):
        return _from_dataset(_sampled(pool), ids, _workers_of(pool), origin)
    if hasattr(pool, "__getitem__") or isinstance(pool, IterableDataset):
        return _from_dataset(pool, ids, {"collate_fn": _collated}, origin)
    raise InputError(
        f"a pool of type {type(pool).__name__} is not known: pass a Dataset, a DataLoader, "
        "a tensor, an array or a folder of images"
    )


def _is_function(pool: PoolLike) -> bool:
    """Say whether a pool has to be made by a call."""
    return callable(pool) and not hasattr(pool, "__getitem__")


def _made_by(function: Callable[[], PoolLike]) -> PoolLike:
    try:
        return function()
    except OSError as error:
        raise InputError(
            f"the pool cannot be opened ({in_one_line(error)}): see that it is there, under the "
            "same name on every machine"
        ) from error


def _open_mapped(pool: np.memmap[Any, Any]) -> Callable[[], npt.NDArray[Any]] | npt.NDArray[Any]:
    """Return a function that opens a mapped file again, so that its rows need not be sent."""
    path = getattr(pool, "filename", None)
    if path is None or (pool.base is not None and not isinstance(pool.base, mmap.mmap)):
        return pool  # A part of a file, or computed from one.
    order: Literal["C", "F"] = "C" if pool.flags.c_contiguous else "F"
    return functools.partial(
        np.memmap, path, pool.dtype, "c", offset=pool.offset, shape=pool.shape, order=order
    )


def _as_array(pool: PoolLike) -> PoolLike:
    """Return a tensor as an array, which processes of one machine may share where it lies."""
    plain = isinstance(pool, Tensor) and pool.device.type == "cpu" and not pool.requires_grad
    if not plain or pool.dtype not in _KINDS_OF_NUMPY or pool.is_neg():
        return pool
    return pool.numpy()


def _warn_if_not_normalised(pool: PoolLike) -> None:
    """Warn about images in a folder that are not normalised as in the model's training."""
    while isinstance(pool, (DataLoader, Subset)):
        pool = pool.dataset
    # Not by its class, which would have to be imported.
    if getattr(pool, "normalised", None) is False:
        warnings.warn(
            f"the images of {getattr(pool, 'root', 'the pool')} were scaled to 0..1 only: give "
            "steepest.data.ImageFolder(folder, mean=…, std=…) with those of the model's "
            "training as the pool, or with mean 0 and std 1 for each channel if it saw that",
            SettingWarning,
            stacklevel=4,
        )


def _check_kind(pool: PoolLike) -> None:
    """Raise if the rows of a pool cannot be passed to a model.

    Raises:
        InputError: With the type to pass instead.
    """
    if isinstance(pool, Tensor) and pool.is_meta:
        raise InputError("the pool is on the device 'meta' and holds no values: load it first")
    sparse = isinstance(pool, Tensor) and pool.layout != torch.strided
    if sparse or hasattr(pool, "tocsr"):
        raise InputError("the pool is sparse: pass .to_dense() of a tensor, .toarray() of a matrix")
    if isinstance(pool, list) and pool and isinstance(pool[0], (str, Path)):
        raise InputError(
            "the pool is a list of names: pass the folder that they are in, or a Dataset that "
            "opens them, with the names as ids="
        )


def inputs_of(item: Any) -> Inputs:  # noqa: ANN401
    """Return the inputs of a collated batch, without the labels beside them."""
    if isinstance(item, Mapping):
        return {name: value for name, value in item.items() if name not in LABEL_KEYS}
    if isinstance(item, (tuple, list)):
        return inputs_of(item[0])
    inputs: Inputs = item
    return inputs


def holds_measurements(item: Any) -> bool:  # noqa: ANN401
    """Say whether the labels of a collated batch are real numbers and not classes.

    Classes are whole numbers, or shares that add up to 1 for each sample.
    """
    if isinstance(item, Mapping):
        labels = next((value for name, value in item.items() if name in LABEL_KEYS), None)
    else:
        labels = item[1] if isinstance(item, (tuple, list)) and len(item) > 1 else None
    if not isinstance(labels, Tensor) or not labels.is_floating_point() or not labels.numel():
        return False
    if labels.ndim > 1 and labels.shape[1] > 1:
        shares = labels.double()
        return not bool((shares >= 0).all() and ((shares.sum(1) - 1).abs() < _NEAR_ONE).all())
    return not bool((labels == labels.round()).all())


def _ids(pool: object, given: Sequence[SampleId] | None, total: int) -> Sequence[SampleId]:
    if given is None:
        return _own_ids(pool, total)
    if isinstance(given, range) and len(given) == total:
        return given
    names = [plain_id(i) for i in plain_list(given, "ids")]
    if len(names) != total:
        raise InputError(f"{len(names)} ids for {total} samples: one id each is needed")
    return names


def _own_ids(pool: object, total: int) -> Sequence[SampleId]:
    own = getattr(pool, "ids", None)
    if own is not None:
        names = [plain_id(i) for i in plain_list(own, "the pool's ids")]
        if len(names) != total:
            raise InputError(f"the pool has {len(names)} ids for {total} samples: one id each")
        return names
    if is_table(pool) and (named := ids_of_table(pool)) is not None:
        return named
    if isinstance(pool, Subset):
        # Part of a data set: its samples keep the names they have in the whole.
        parent = pool.dataset
        whole = _own_ids(parent, len(parent) if hasattr(parent, "__len__") else 0)
        return [whole[int(i)] for i in pool.indices]
    return range(total)


def _sampled(loader: DataLoader[Any]) -> Dataset[Any]:
    """Return the data set of a loader, restricted to the samples that its sampler draws from."""
    sampler = loader.sampler
    if isinstance(sampler, SubsetRandomSampler):
        return Subset(loader.dataset, sorted(int(i) for i in sampler.indices))
    whole = isinstance(sampler, SequentialSampler) or (
        isinstance(sampler, RandomSampler)
        and not sampler.replacement
        and sampler.num_samples == len(sampler.data_source)
    )
    if isinstance(loader.dataset, IterableDataset) or (
        whole and type(loader.batch_sampler) in (BatchSampler, type(None))
    ):
        return loader.dataset
    raise InputError(
        f"a loader with a {type(sampler).__name__} does not say which samples are in the pool: "
        "pass its data set, and leave samples out by labelled="
    )


def _workers_of(loader: DataLoader[Any]) -> dict[str, Any]:
    """Return how a loader reads and collates its data set."""
    plain = loader.num_workers == 0 and loader.collate_fn is default_collate
    kept = {"collate_fn": _collated if plain else loader.collate_fn}
    names = ["num_workers"]
    if loader.num_workers > 0:
        names += ["worker_init_fn", "multiprocessing_context", "prefetch_factor", "timeout"]
    return kept | {name: getattr(loader, name) for name in names}


def _collated(items: list[Any]) -> Any:  # noqa: ANN401
    """Collate items as torch does, but for rows of plain numbers: those would be transposed."""
    first = items[0]
    if is_ragged(first):
        return collate_rows(items)
    if isinstance(first, list) and first and all(isinstance(v, (int, float)) for v in first):
        raise InputError(
            "an item of the pool is a list of plain numbers, and only the first would be used: "
            "make it a tensor"
        )
    return default_collate(items)


def _readable(loaded: Iterator[Inputs]) -> Iterator[Inputs]:
    """Yield the samples that can be loaded; report the others as ours."""
    while True:
        try:
            inputs = next(loaded)
            tensors_of(inputs)
        except StopIteration:
            return
        except SteepestError:
            raise
        except OSError as error:
            raise InputError(
                f"the pool cannot be read ({in_one_line(error)}): look at that file or disk, or "
                "leave such samples out"
            ) from error
        except Exception as error:
            raise InputError(
                f"the pool cannot be read ({in_one_line(error)}): its items must be "
                "tensors of one shape, or (tensor, label), or dicts of tensors; those of several "
                "shapes take batch_size=1, or a DataLoader(collate_fn=…) that pads them"
            ) from error
        yield inputs


def _tensor_of(array: npt.NDArray[Any]) -> Tensor:
    if array.dtype.kind not in "fiub":
        raise InputError(f"the pool holds {array.dtype} and not numbers: pass an array of floats")
    if np.ma.is_masked(array):
        raise InputError("the pool is an array with masked values: fill or leave out such samples")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    with warnings.catch_warnings():
        # Nothing is ever written to the pool, so that it may be a file open for reading alone.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(np.ascontiguousarray(array))


def _tensor_loader(data: Tensor) -> Callable[[Sequence[int], int], Iterator[Inputs]]:
    if data.dtype == torch.uint8:
        raise InputError(
            "the pool holds raw bytes (uint8): convert it to float and normalise it as in training"
        )

    def load(positions: Sequence[int], size: int) -> Iterator[Inputs]:
        for start in range(0, len(positions), size):
            chosen = positions[start : start + size]
            if isinstance(chosen, range) and chosen.step == 1:
                yield data[chosen.start : chosen.stop].clone()  # A model may write into it.
            else:
                yield data[torch.as_tensor(chosen, dtype=torch.long).to(data.device)]

    return load


def _from_dataset(
    dataset: Dataset[Any],
    ids: Sequence[SampleId] | None,
    workers: Mapping[str, Any],
    origin: PoolLike,
) -> Samples:
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise InputError(
            "a pool must have a length and an index, so that its samples have ids: "
            "use a map-style Dataset"
        )

    def load(positions: Sequence[int], size: int) -> Iterator[Inputs]:
        part = Subset(dataset, list(positions))
        for item in DataLoader(part, batch_size=size, shuffle=False, **workers):
            made.has_measurements = made.has_measurements or holds_measurements(item)
            yield inputs_of(item)

    made = Samples(_ids(dataset, ids, len(dataset)), load, origin=origin)
    return made
