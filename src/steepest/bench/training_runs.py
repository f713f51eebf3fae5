"""Several trainings side by side, each in a separate process.

They begin to measure together, once all of them are ready.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict
from typing import IO

import torch

from steepest.bench.measuring import choose_clock
from steepest.bench.storage import last_line
from steepest.bench.training_loops import Workload, our_loop
from steepest.core.torch_settings import own_randomness

_WARM_UP = 8


class RunError(RuntimeError):
    """A process did not finish; says why in one line."""


def measure_runs(
    name: str, load: Workload, device: torch.device, runs: int, steps: int, threads: int
) -> tuple[float, float]:
    """Train side by side.

    Args:
        name: One of our steps.
        load: What each of them trains.
        device: Where.
        runs: How many.
        steps: Steps of each.
        threads: CPU threads of each.

    Returns:
        Seconds from the first one's start to the last one's end, and seconds of set-up.

    Raises:
        RunError: If one of them failed.
    """
    job = {
        "name": name,
        "load": asdict(load),
        "device": str(device),
        "steps": steps,
        "threads": threads,
    }
    started = time.monotonic()
    command = [sys.executable, "-P", "-m", "steepest.bench.training_runs", json.dumps(job)]
    children = [
        subprocess.Popen(  # noqa: S603 - this very interpreter and module
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(runs)
    ]
    try:
        for child in children:
            _read(child)
        setup = time.monotonic() - started
        for child in children:
            _pipe(child.stdin).write("go\n")
            _pipe(child.stdin).flush()
        spans = [json.loads(_read(child)) for child in children]
    finally:
        for child in children:
            child.kill()
            child.communicate()
    return max(end for _, end in spans) - min(start for start, _ in spans), setup


def _read(child: subprocess.Popen[str]) -> str:
    line = _pipe(child.stdout).readline()
    if not line:
        raise RunError(f"a run ended early: {last_line(_pipe(child.stderr).read())}")
    return line


def _pipe(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise RunError("a run has no pipe")
    return stream


def main(text: str) -> None:
    """Take steps as a job says: make ready, wait for a word, and tell from when to when."""
    job = json.loads(text)
    torch.set_num_threads(job["threads"])
    device = torch.device(job["device"])
    clock = choose_clock(device, job["threads"])
    load = Workload(**job["load"])
    with own_randomness(load.seed, device):
        take = our_loop(job["name"], load, device)
        for _ in range(_WARM_UP):
            take()
        clock.wait()
        _say("ready")
        sys.stdin.readline()
        start = time.time()
        for _ in range(job["steps"]):
            take()
        clock.wait()
        _say(json.dumps([start, time.time()]))


def _say(words: str) -> None:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
