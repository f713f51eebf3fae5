"""Compare a strategy with random in Python, and print what the paired seeds say.

Run it with ``python examples/compare_in_python.py [FOLDER]``. With a folder, runs are kept (the
same call resumes) and a report is written; without one, everything goes to a temporary folder.
Runs are processes of their own, so the ``__main__`` guard at the end is needed.
"""
# ruff: noqa: INP001, T201

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from steepest.core.progress import show_progress
from steepest.experiment import compare, load_config
from steepest.experiment.report import read_comparison, summary_rows, text_table, write_report
from steepest.experiment.statistics import summarise


def run(folder: Path) -> None:
    """Compare margin with random on few digits, over two seeds."""
    config = load_config("digits", ["loop.initial=40", "loop.k=40", "loop.cycles=2"])
    compare(config, ["margin"], [0, 1], folder, progress=show_progress())

    summary = summarise(read_comparison(folder))
    print(text_table(*summary_rows(summary)))
    for contrast in summary.contrasts:
        test = contrast.test
        print(
            f"{contrast.strategy} less {contrast.baseline} in {contrast.measure}: "
            f"{test.mean_difference:+.3f} (n = {test.n})"
        )


def main() -> None:
    """Use the folder that was given, or a temporary one."""
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        run(folder)
        print(f"report: {write_report(folder).html}")
        return
    with tempfile.TemporaryDirectory() as temporary:
        run(Path(temporary) / "comparison")


if __name__ == "__main__":
    main()
