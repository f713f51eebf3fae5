"""Compare strategies in Python: a small comparison, its table and its report.

Run it with ``python examples/compare_in_python.py [FOLDER]``. Without a folder the results go to a
temporary one and are gone at the end. Runs are processes of their own, so the ``__main__`` guard at
the end is needed.
"""
# ruff: noqa: INP001, T201

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from steepest.experiment import compare, load_config
from steepest.experiment.statistics import summarise
from steepest.progress import show_progress
from steepest.report import read_comparison, summary_rows, text_table, write_report


def run(folder: Path) -> None:
    """Compare two strategies with random on a few digits, over two seeds."""
    config = load_config(
        "digits", ["loop.initial=20", "loop.k=10", "loop.cycles=3", "training.epochs=5"]
    )
    compare(config, ["margin", "entropy-gradnorm"], [0, 1], folder, progress=show_progress())

    summary = summarise(read_comparison(folder))
    print(text_table(*summary_rows(summary)))
    for contrast in summary.contrasts:
        test = contrast.test
        print(
            f"{contrast.strategy} less {contrast.baseline} in {contrast.measure}: "
            f"{test.mean_difference:+.3f} (n = {test.n})"
        )
    print(f"report: {write_report(folder).html}")


def main() -> None:
    """Use the folder that was given, or a temporary one."""
    if len(sys.argv) > 1:
        run(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder) / "comparison")


if __name__ == "__main__":
    main()
