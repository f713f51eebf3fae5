"""One strategy on one pool, in a separate process: its memory is nobody else's."""

from __future__ import annotations

import copy
import json
import resource
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from steepest.bench.feature_pool import make_head, make_pool
from steepest.bench.other_implementations import STRAIGHTFORWARD, choose_by_skactiveml, load_package
from steepest.bench.storage import brief
from steepest.core.devices import choose_device
from steepest.core.memory import Measurement, is_out_of_memory, measured
from steepest.core.progress import SilentProgress
from steepest.errors import SteepestError
from steepest.selecting.choosing import choose_from
from steepest.selecting.options import SelectionOptions
from steepest.selecting.samples import as_samples
from steepest.strategies import Strategy, Support, create

_MIB = 2**20


def run_trial(job: Mapping[str, Any]) -> dict[str, Any]:
    """Do one trial and return its numbers.

    Args:
        job: ``strategy``, ``kind``, ``options``, ``pool``, ``labelled``, ``k``, ``features``,
            ``classes``, ``seed``, ``device`` and ``threads``.

    Returns:
        ``status`` with ``note``, or with seconds, memory and the positions of the ``picks``.
    """
    torch.set_num_threads(job["threads"])
    device = choose_device(job["device"])
    model = make_head(job["features"], job["classes"], job["seed"]).to(device)
    pool = make_pool(job["pool"] + job["labelled"], job["features"], job["seed"]).to(device)
    if job["kind"] == "skactiveml":
        load_package()
    work = _ours if job["kind"] == "ours" else _public
    rest = _held(device)
    try:
        preparing, choosing, picks = work(job, model, pool)
    except SteepestError as error:
        return {"status": "refused", "note": brief(error)}
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return {"status": "out-of-memory", "note": brief(error)}
    peak = max(choosing.peak_bytes, 0 if preparing is None else preparing.peak_bytes)
    # Other work on the machine does not count against a single thread.
    by_core = device.type == "cpu" and job["threads"] == 1

    def seconds(m: Measurement) -> float:
        return m.core_seconds if by_core else m.seconds

    return {
        "status": "measured",
        "prepare_seconds": None if preparing is None else seconds(preparing),
        "choose_seconds": seconds(choosing),
        "peak_mib": max(0, peak - rest) / _MIB,
        "picks": picks,
    }


def _ours(
    job: Mapping[str, Any], model: nn.Module, pool: Tensor
) -> tuple[Measurement | None, Measurement, list[int]]:
    known = range(job["labelled"])
    random = torch.Generator().manual_seed(job["seed"])
    support = Support(
        targets={i: i % job["classes"] for i in known},
        members=[_shaken(model, random) for _ in range(4)],
        previous=_shaken(model, random),
    )
    how = SelectionOptions(
        labelled=known,
        seed=job["seed"],
        batch_size=4096,
        progress=SilentProgress(),
        support=support,
    )
    strategy = create(job["strategy"], job["options"])
    if type(strategy).prepare is Strategy.prepare:
        # The first call of anything imports and sets up: that is no matter of the pool.
        few = as_samples(pool[: job["labelled"] + 2 * job["k"]])
        choose_from(model, few, job["k"], strategy, how)
    outcome = choose_from(model, as_samples(pool), job["k"], strategy, how)
    # A tensor's ids are its positions.
    picks = [int(position) for position in outcome.selection.ids]
    return outcome.preparing, outcome.choosing, picks


def _public(
    job: Mapping[str, Any], model: nn.Module, pool: Tensor
) -> tuple[None, Measurement, list[int]]:
    if job["kind"] == "straightforward":
        choose = STRAIGHTFORWARD[job["strategy"]]
    else:
        choose = partial(choose_by_skactiveml, job["strategy"])
    # Warm as ours is: what the first call sets up is no matter of the pool.
    choose(model, pool[: job["labelled"] + 2 * job["k"]], job["labelled"], min(2, job["k"]))
    with measured(pool.device) as choosing:
        picks = choose(model, pool, job["labelled"], job["k"])
    return None, choosing, picks


def _shaken(model: nn.Module, random: torch.Generator) -> nn.Module:
    """Return another model of the kind: the same weights, a little off."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            noise = torch.randn(parameter.shape, generator=random).to(parameter)
            parameter.add_(0.01 * noise)
    return other


def _held(device: torch.device) -> int:
    """Return the bytes that are held before the work."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * resource.getpagesize()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run_trial(json.loads(sys.argv[1]))) + "\n")
