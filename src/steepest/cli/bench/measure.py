"""Runs a benchmark, prints its table and saves its numbers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from steepest.cli.arguments import add_shared
from steepest.cli.terminal import INTERRUPTED
from steepest.core.progress import Progress
from steepest.errors import InputError


class Saved(Protocol):
    """Numbers that can be written to a file."""

    def save(self, path: Path) -> None:
        """Write them."""


Result = TypeVar("Result", bound=Saved)
Known_co = TypeVar("Known_co", bound=Saved, covariant=True)


class Bench(Protocol[Known_co]):
    """A benchmark that can report its results at any time."""

    def run(self, after_each: Callable[[Known_co], None] | None = None) -> Known_co:
        """Measure everything."""

    def result(self) -> Known_co:
        """Return the results so far."""


def add_numbers(parser: argparse.ArgumentParser) -> None:
    """Add the file for the numbers, and the switch that silences progress."""
    parser.add_argument("--out", type=Path, metavar="FILE", help="write all numbers as JSON")
    add_shared(parser, "--quiet")


def given(value: int | None, default: int) -> int:
    """Return a value, or the default for None; 0 is a value."""
    return default if value is None else value


def read_numbers(text: str, option: str) -> tuple[int, ...]:
    """Read numbers separated by commas; duplicates count once.

    Raises:
        InputError: Naming the option.
    """
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError as error:
        raise InputError(f"{option} {text!r}: give numbers separated by commas") from error


def run_bench(
    arguments: argparse.Namespace,
    make: Callable[[Progress], Bench[Result]],
    describe: Callable[[Result], str],
) -> int:
    """Run a benchmark, print its table and save its numbers, also those of a part.

    Args:
        arguments: Those of ``add_numbers``.
        make: Makes the benchmark, which shows how far it is.
        describe: Makes its table.

    Returns:
        The exit code: 0, or 130 after Ctrl-C.
    """
    from steepest.core.files import check_writable
    from steepest.core.progress import show_progress

    out: Path | None = arguments.out
    if out is not None:
        check_writable(out)
    bench = make(show_progress(enabled=not arguments.quiet))
    try:
        result = bench.run(None if out is None else lambda known: known.save(out))
    except KeyboardInterrupt:
        known = bench.result()
        print(describe(known))
        if out is not None:
            known.save(out)
        kept = "" if out is None else f"; what was measured so far is in {out}"
        print(f"steepest: stopped{kept}", file=sys.stderr)
        return INTERRUPTED
    print(describe(result))
    if out is not None:
        print(f"\nNumbers: {out}")
    return 0
