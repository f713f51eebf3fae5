"""List the data sets: what is in them, and whether they are in the data folder."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from steepest.data.base import DATA_VARIABLE, data_root
from steepest.data.catalogue import Holding, Layout, Source, catalogue, find_layout
from steepest.data.loading import names
from steepest.experiment.report.tables import text_table

NAME = "list"
HELP = "list the data sets and where they are"

_UNKNOWN = "–"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "--json", action="store_true", help="print everything that is known, for programs"
    )


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    root = data_root()
    holdings = {holding.name: holding for holding in catalogue()}
    entries = [_describe(name, holdings.get(name), root) for name in names()]
    if arguments.json:
        print(json.dumps(entries, indent=2, ensure_ascii=False))
        return 0
    columns = ("name", "task", "train_count", "test_count", "classes", "where")
    rows = [[_show(entry.get(column)) for column in columns] for entry in entries]
    print(text_table(["name", "task", "training", "test", "classes", "where"], rows))
    if root is None:
        print(f"steepest: {DATA_VARIABLE} names no data folder", file=sys.stderr)
    return 0


def _describe(name: str, holding: Holding | None, root: Path | None) -> dict[str, Any]:
    if holding is None:  # a reader of whatever one has
        return {"name": name, "where": "your files"}
    layout = None if root is None else find_layout(holding, root)
    entry = asdict(holding)
    entry["where"] = _say_where(holding, layout)
    entry["paths"] = [str(root / path) for path in layout.paths] if root and layout else []
    return entry


def _say_where(holding: Holding, layout: Layout | None) -> str:
    if holding.source in (Source.BUILT_IN, Source.SIMULATED):
        return str(holding.source)
    if layout is None:
        return "not here"
    options = ", ".join(f"{key} = {value}" for key, value in layout.options)
    return f"here ({options})" if options else "here"


def _show(value: object) -> str:
    if value is None:
        return _UNKNOWN
    return f"{value:,}" if isinstance(value, int) else str(value)
