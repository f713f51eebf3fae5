"""The versions and the hardware that a measurement depends on."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from steepest.experiment.environment import describe_environment

ENGINE = 3
"""Version of the gradient-norm engine, raised with each change of its speed.

``docs/benchmarks.md`` lists the versions; records without one are of engine 1.
"""

_PEERS = ("opacus", "backpack-for-pytorch", "scikit-activeml", "scikit-learn")


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Return the environment, the engine, the processor and the versions of the peers."""
    return {
        **describe_environment(device),
        "engine": ENGINE,
        "processor": _processor(),
        "cores": os.cpu_count(),
        "cuda": torch.version.cuda,
        **{name: _version(name) for name in _PEERS},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str | None:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        return None
    return None
