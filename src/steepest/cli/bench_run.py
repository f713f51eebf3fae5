"""What the benchmarks of the command line have in common: run, show, save, stop."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from steepest.errors import InputError

_INTERRUPTED = 130


class Saved(Protocol):
    """Numbers that can be written to a file."""

    def save(self, path: Path) -> None:
        """Write them."""


Result = TypeVar("Result", bound=Saved)
Known_co = TypeVar("Known_co", bound=Saved, covariant=True)


class Bench(Protocol[Known_co]):
    """A benchmark that tells what it knows at any time."""

    def run(self, after_each: Callable[[Known_co], None] | None = None) -> Known_co:
        """Measure everything."""

    def result(self) -> Known_co:
        """Return what is known so far."""


def given(value: int | None, default: int) -> int:
    """Return what was given, or the default; 0 is given too."""
    return default if value is None else value


def read_numbers(text: str, option: str) -> tuple[int, ...]:
    """Read numbers separated by commas; what is said twice counts once.

    Raises:
        InputError: Naming the option.
    """
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError as error:
        raise InputError(f"{option} {text!r}: give numbers separated by commas") from error


def run_bench(bench: Bench[Result], describe: Callable[[Result], str], out: Path | None) -> int:
    """Run a benchmark, print its table and save its numbers, also those of a part.

    Returns:
        The exit code: 0, or 130 after Ctrl-C.
    """
    try:
        result = bench.run(None if out is None else lambda known: known.save(out))
    except KeyboardInterrupt:
        known = bench.result()
        print(describe(known))
        if out is not None:
            known.save(out)
        kept = "" if out is None else f"; what was measured so far is in {out}"
        print(f"steepest: stopped{kept}", file=sys.stderr)
        return _INTERRUPTED
    print(describe(result))
    if out is not None:
        print(f"\nNumbers: {out}")
    return 0
