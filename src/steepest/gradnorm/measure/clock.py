"""Times the routes on this machine once and remembers the fastest."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from steepest.core.files import write_atomically
from steepest.core.memory import is_out_of_memory
from steepest.errors import InputError

_ROUNDS = 3


class StopWatch:
    """Measures routes in turns, and keeps a file of winners per device and version of torch.

    Args:
        path: The file; by default in the user's cache folder, or what ``STEEPEST_CACHE`` names.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or _default_path()
        self._winners: dict[str, str] = _read(self.path)

    def fastest(self, key: str, routes: Mapping[str, Callable[[], Tensor]]) -> str:
        """Return the name of the fastest route for a layer described by ``key``."""
        full = f"{_machine()} {key} {'/'.join(sorted(routes))}"
        known = self._winners.get(full, "")
        if known not in routes:
            known = _raced(routes)
            self._winners[full] = known
            self._write()
        return known

    def _write(self) -> None:
        # Two processes may measure at once: neither should lose what the other found.
        self._winners = {**_read(self.path), **self._winners}
        text = json.dumps(self._winners, indent=0, sort_keys=True)
        # Without a place to keep them, the winners are known to this process alone.
        with contextlib.suppress(InputError):
            write_atomically(self.path, text)


def _raced(routes: Mapping[str, Callable[[], Tensor]]) -> str:
    """Return the fastest of several rounds; a route for which memory runs out loses.

    Raises:
        The error of the last route, if memory runs out for all of them.
    """
    best = dict.fromkeys(routes, float("inf"))
    for turn in range(_ROUNDS + 1):
        for name in list(best):
            try:
                seconds = _seconds(routes[name])
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error) or len(best) == 1:
                    raise
                del best[name]
                continue
            if turn:  # The first round warms up.
                best[name] = min(best[name], seconds)
    return min(best, key=best.__getitem__)


def _seconds(run: Callable[[], Tensor]) -> float:
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    if cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start


def _machine() -> str:
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor()
    return f"torch {torch.__version__} {where or platform.machine()} {torch.get_num_threads()}"


def _default_path() -> Path:
    folder = os.environ.get("STEEPEST_CACHE")
    if folder:
        return Path(folder) / "routes.json"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "steepest" / "routes.json"


def _read(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}  # A cache that cannot be read is made again.
    if not isinstance(found, dict):
        return {}
    return {str(key): str(value) for key, value in found.items()}
