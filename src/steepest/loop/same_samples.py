"""Checks that row numbers still refer to the same samples as when a loop began."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from steepest.core.files import write_atomically
from steepest.core.parsing import parse_json
from steepest.core.seeds import draws_put_back, keyed_uniform
from steepest.errors import RunFolderError, SteepestError, first_line
from steepest.modules.batches import Inputs, tensors_of
from steepest.selecting.samples import Samples

LOOKED_AT = "samples.json"

Trace = list[list[float]]
"""Fingerprint of a sample: the length and some projections of each of its tensors."""

_MOST_SAMPLES, _LEAST_SAMPLES = 200, 8
_MOST_SECONDS = 5.0
"""Time limit of a check; of samples that are slow to read, fewer are checked."""
_MOST_VALUES = 1 << 14
_WAVES = (1.0, 1.7, 2.3)
_SLACK = 1e-3
"""Tolerance for other machines and precisions, relative to a sample's length."""


def check_same(path: Path, samples: Samples | None) -> None:
    """Refuse a pool in which numbers mean other samples than when the loop began.

    The contents of some samples are recorded on the first call, unless they vary from read to read
    or cannot be read. Names are not checked. The file exists from the first call on, so that a
    project whose labels are lost is not taken for a new one.

    Args:
        path: The folder of the loop.
        samples: The pool; None if only ids are given.

    Raises:
        RunFolderError: If they are others.
    """
    file = path / LOOKED_AT
    if samples is None or isinstance(samples.ids[0], str):
        if not file.exists():
            write_atomically(file, "{}\n")
        return
    known = _read(file)
    with draws_put_back():
        if not known:
            order = np.argsort(keyed_uniform(0, "looked at", samples.ids)[:, 0])
            positions = order[:_MOST_SAMPLES].tolist()
            found = _look_twice(samples, positions)
            if found or known is None:
                traces = {str(samples.ids[p]): t for p, t in zip(positions, found, strict=False)}
                write_atomically(file, json.dumps(traces) + "\n")
            return
        places = {name: place for place, name in enumerate(samples.ids)}
        there = [i for i in known if i in places]
        positions = [places[i] for i in there]
        found = _look(samples, positions)
        pairs = zip(there, found, strict=False)
        changed = [i for i, trace in pairs if not _alike(known[i], trace)]
        if changed and _look_twice(samples, positions):
            raise RunFolderError(_complaint(path, changed, len(found)))


def _complaint(path: Path, changed: Sequence[int], count: int) -> str:
    return (
        f"{path}: {len(changed)} of {count} samples looked at (such as {min(changed)}) are not "
        "what they were when the loop began, and labels would go to the wrong ones: bring the pool "
        f"back in its order, or delete {LOOKED_AT} there if its samples are only prepared otherwise"
    )


def _read(file: Path) -> dict[int, Trace] | None:
    try:
        known = parse_json(file.read_bytes())
        width = 1 + len(_WAVES)
        return {int(i): np.array(t, float).reshape(-1, width).tolist() for i, t in known.items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise RunFolderError(
            f"{file} cannot be read ({first_line(error)}): restore it from a copy, or delete it if "
            "the pool is in the order that it had"
        ) from error


def _look_twice(samples: Samples, positions: Sequence[int]) -> list[Trace]:
    """Return the contents of samples, or nothing if they vary between reads."""
    first, again = _look(samples, positions), _look(samples, positions)
    both = list(zip(first, again, strict=False))
    return [trace for trace, _ in both] if all(_alike(*pair) for pair in both) else []


def _look(samples: Samples, positions: Sequence[int]) -> list[Trace]:
    """Return the contents of the first samples; nothing if they cannot be read."""
    found: list[Trace] = []
    end = time.monotonic() + _MOST_SECONDS
    try:
        for inputs in samples.batches(positions, 1):
            found.append(_trace(inputs))
            if len(found) >= _LEAST_SAMPLES and time.monotonic() > end:
                break
    except SteepestError:
        return []  # Predictions may not need inputs; code that does reports the error.
    return found


def _trace(inputs: Inputs) -> Trace:
    if isinstance(inputs, Mapping):
        return [_project(inputs[name]) for name in sorted(inputs)]
    return [_project(tensor) for tensor in tensors_of(inputs)]


def _project(tensor: Tensor) -> list[float]:
    flat = tensor.detach().flatten()
    flat = flat[:: max(len(flat) // _MOST_VALUES, 1)].cpu()
    flat = torch.view_as_real(flat).flatten() if flat.is_complex() else flat
    values = np.nan_to_num(flat.double().numpy(), posinf=0.0, neginf=0.0)
    waves = np.cos(np.multiply.outer(_WAVES, np.arange(len(values))))
    trace: list[float] = [float(np.linalg.norm(values)), *(waves @ values).tolist()]
    return trace


def _alike(one: Trace, other: Trace) -> bool:
    a, b = np.array(one), np.array(other)
    if a.shape != b.shape:
        return False
    return bool((np.abs(a - b) <= _SLACK * np.maximum(a, b)[:, :1]).all())
