"""Random choices by seed and purpose.

Two kinds of randomness, neither of which touches the global state:

* a *stream* for one purpose: ``generator(seed, "initial set")`` or
  ``generator(seed, "shuffle", cycle, epoch)``. Streams of different purposes are independent,
  so asking for one more never shifts another.
* *keyed* values, one per sample: ``keyed_uniform(seed, "ties", ids)`` depends on the sample's id
  alone, so it is the same for any batch size, order, subset or number of workers.
"""

from __future__ import annotations

import hashlib
import operator
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from steepest.errors import InputError

SampleId = int | str
"""A data set's own name for a sample: an index, or a relative path."""

_MASK = (1 << 64) - 1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def check_seed(seed: Any) -> int:  # noqa: ANN401
    """Return a seed as a plain number.

    Raises:
        InputError: If it is no whole number: it could not be written down and read again.
    """
    try:
        number = None if isinstance(seed, (bool, np.bool_)) else operator.index(seed)
    except TypeError:
        number = None
    if number is None:
        raise InputError(f"seed must be a whole number, not {seed!r}")
    return number


def derive(seed: int, *purpose: str | int) -> int:
    """Return the 63-bit seed of one purpose.

    Raises:
        InputError: If the seed is no whole number.
    """
    text = "\x1f".join([str(check_seed(seed)), *map(str, purpose)])
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    """Return a CPU generator for one purpose.

    Draws are made on the CPU and moved, so that every device sees the same numbers.
    """
    return torch.Generator().manual_seed(derive(seed, *purpose))


def sample_keys(ids: Sequence[SampleId]) -> npt.NDArray[np.uint64]:
    """Map ids to 64-bit keys: an index to itself, a path to its hash.

    Each by its own kind, whatever the others are: they may be another batch's.

    Returns:
        Keys [N].
    """
    plain = _plain_keys(ids)
    return np.array([_key(i) for i in ids], dtype=np.uint64) if plain is None else plain


def _key(name: SampleId) -> int:
    if isinstance(name, (int, np.integer)):
        # Python's own arithmetic: an id may be a hash beyond 63 bits.
        return int(name) & _MASK
    digest = hashlib.blake2b(str(name).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _plain_keys(ids: Sequence[SampleId]) -> npt.NDArray[np.uint64] | None:
    """Return the keys of indices that an array holds as they are: a million at a time."""
    if isinstance(ids, range):
        return np.arange(ids.start, ids.stop, ids.step, dtype=np.int64).astype(np.uint64)
    if len(ids) == 0 or not isinstance(ids[0], int):
        return None
    found = np.asarray(ids)
    # Anything else was mixed with texts or is beyond 64 bits, and would have been changed.
    return found.astype(np.uint64) if found.dtype.kind in "iu" else None


def keyed_uniform(
    seed: int, purpose: str, ids: Sequence[SampleId], columns: int = 1
) -> npt.NDArray[np.float64]:
    """Return numbers in [0, 1) that depend on the seed, the purpose and each id alone.

    Returns:
        Uniform draws [N, columns].
    """
    stream = np.array(derive(seed, purpose, "keyed"), dtype=np.uint64)
    rows = _mix(sample_keys(ids) ^ stream)
    steps = np.arange(1, columns + 1, dtype=np.uint64) * _GOLDEN
    bits = _mix(rows[:, None] + steps[None, :])
    uniform: npt.NDArray[np.float64] = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return uniform


@contextmanager
def draws_put_back() -> Iterator[None]:
    """Restore the global generators: other people's data sets draw from them."""
    before = random.getstate(), np.random.get_state()  # noqa: NPY002 - it is not ours
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scramble 64-bit integers (the finaliser of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@contextmanager
def seeded(seed: int, purpose: str) -> Iterator[None]:
    """Let layers draw their weights by a seed; the global random state is unchanged."""
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would reach into every other device's generator too.
        torch.default_generator.manual_seed(derive(seed, purpose))
        yield


def random_subset(
    ids: Sequence[SampleId], size: int, seed: int, purpose: str = "subset"
) -> npt.NDArray[np.intp]:
    """Return the positions of a uniform subset without replacement, in pool order.

    Args:
        ids: Ids [N].
        size: Number of items; all if there are fewer.
        seed: Seeds the draw, which is keyed by sample id.
        purpose: Keeps draws for different ends apart.

    Returns:
        Positions [min(size, N)].
    """
    draws = keyed_uniform(seed, purpose, ids)[:, 0]
    return np.sort(np.argsort(draws, kind="stable")[:size])
