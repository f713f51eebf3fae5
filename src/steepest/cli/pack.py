"""Pack the records of a run or a comparison into one small file.

Configurations, metrics and choices are kept, which is all that reports and the paper's tables need;
weights are left out. `report` and `reproduce --from` read the archive as it is, and
`tar -xf` unpacks it, to add seeds or strategies.
"""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLES = ("steepest pack comparisons/digits",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of run or compare")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="the archive (default: DIR.tar.xz)"
    )


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from steepest.core.wording import counted
    from steepest.experiment.report.store import open_store, pack

    file = pack(arguments.folder, arguments.out)
    runs = open_store(file).runs()
    print(f"{file}: {counted(len(runs), 'run')}, {file.stat().st_size:,} bytes")
    return 0
