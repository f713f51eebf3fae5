"""Choose on a Ray cluster, here one of two processes on this machine, and go on after a kill.

Run it with ``python examples/select_on_ray.py``; it takes ``pip install 'steepest[ray,files]'``.
Stop it with Ctrl-C and run it again: it goes on with the parts in the folder ``parts``. It writes
the pool and ``picks.csv`` into the current folder too, and needs no data.
"""
# ruff: noqa: INP001, T201

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import torch
from pyarrow import parquet
from torch import nn

import steepest
from steepest.data import ParquetRows
from steepest.selecting import OnRay

SAMPLES, FEATURES, CLASSES = 50_000, 32, 5


def write_pool(path: Path) -> None:
    """Write rows of features with a name each."""
    rows = torch.randn(SAMPLES, FEATURES, generator=torch.Generator().manual_seed(1))
    names = [f"row-{i}" for i in range(SAMPLES)]
    table = pa.table({"name": names, "features": list(rows.numpy())})
    parquet.write_table(table, path, row_group_size=5_000)


def main() -> None:
    """Choose here and on Ray, which has to be the same."""
    path = Path("rows.parquet")
    write_pool(path)
    pool = ParquetRows(path, ids="name")  # Each process opens the file itself.
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, CLASSES))
    # OnRay("auto") is a cluster that runs on this machine already, OnRay("ray-head:6379") another.
    engine = OnRay("local", workers=2, parts="parts")
    picks = steepest.select(model, pool, k=100, strategy="margin", engine=engine)
    picks.save("picks.csv")
    print(picks)
    alone = steepest.select(model, pool, k=100, strategy="margin")
    print("the same as in one process:", picks == alone)


if __name__ == "__main__":
    main()
