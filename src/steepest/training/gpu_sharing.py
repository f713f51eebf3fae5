"""Several processes on one GPU at the same time, through NVIDIA's Multi-Process Service.

Without it, a GPU gives each process its own turns, and small models leave most of it idle.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

_CONTROL = "nvidia-cuda-mps-control"
_PIPES = "CUDA_MPS_PIPE_DIRECTORY"
_LOGS = "CUDA_MPS_LOG_DIRECTORY"
_GPUS = "CUDA_VISIBLE_DEVICES"
_SECONDS = 30


@contextmanager
def shared_gpu() -> Iterator[bool]:
    """Let processes that are started within use the GPUs side by side.

    A service that somebody else has started is used and left alone. Where there is none, one is
    started, and stopped in the end; where it cannot be had, nothing happens.

    Yields:
        Whether there is such a service.
    """
    if os.environ.get(_PIPES):
        yield True
        return
    control = shutil.which(_CONTROL)
    if control is None:
        yield False
        return
    before = {name: os.environ.get(name) for name in (_PIPES, _LOGS, _GPUS)}
    folder = tempfile.mkdtemp(prefix="steepest-mps-")
    started = False
    try:
        os.environ.update({_PIPES: folder, _LOGS: folder})
        started = _tell(control, "-d")
        if started:
            _count_gpus_anew()
        else:
            _put_back(before)
        yield started
    finally:
        if started:
            _tell(control, words="quit\n")
        _put_back(before)
        shutil.rmtree(folder, ignore_errors=True)


def _count_gpus_anew() -> None:
    """Number the chosen GPUs from 0 on: a service that was started with some has no others."""
    chosen = os.environ.get(_GPUS, "").split(",")
    if all(name.strip().isdigit() for name in chosen):
        os.environ[_GPUS] = ",".join(str(place) for place in range(len(chosen)))


def _tell(control: str, *arguments: str, words: str = "") -> bool:
    """Return whether the command to the service succeeded."""
    try:
        done = subprocess.run(  # noqa: S603 - found on the path under its own name
            [control, *arguments],
            input=words,
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _put_back(before: dict[str, str | None]) -> None:
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
