"""List the strategies that can be named."""

from __future__ import annotations

import argparse
import inspect

from steepest.report.text_table import text_table
from steepest.strategies.base import STRATEGIES
from steepest.tables import to_table

NAME = "strategies"
HELP = "list the strategies and their options"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""


def execute(arguments: argparse.Namespace) -> int:  # noqa: ARG001
    """Run the command."""
    rows = []
    for name in STRATEGIES.names():
        cls = STRATEGIES.get(name)
        idea = (inspect.getdoc(cls) or "").splitlines()[0]
        options = ", ".join(f"{key}={value}" for key, value in to_table(cls()).items())
        rows.append([name, idea, options])
    print(text_table(["strategy", "idea", "options"], rows))
    return 0
