"""Folders as a comparison or a run leaves them, made up but plausible."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from steepest.core.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

# Final accuracy and speed of learning; the weak entropy-gradnorm start is typical.
SHAPES = {"random": (0.93, 70.0), "margin": (0.96, 52.0), "entropy-gradnorm": (0.965, 58.0)}
STRATEGIES = ("entropy-gradnorm", "margin", "random")


def make_metrics(task: str, value: float, per_class: list[float | None]) -> dict[str, Any]:
    """Make what a task records; its other metrics order the strategies the other way round."""
    loss = round(1.2 - value, 4)
    others: dict[str, tuple[str, dict[str, float], str]] = {
        "classification": ("accuracy", {}, "per_class_accuracy"),
        "segmentation": ("miou", {"pixel_accuracy": 1.5 - value}, "per_class_iou"),
        "multi-label": (
            "mean_average_precision",
            {"exact_match": 1.1 - value, "micro_f1": 1.3 - value},
            "per_class_average_precision",
        ),
    }
    headline, more, by_class = others[task]
    return {headline: value, **more, "loss": loss, by_class: per_class}


def make_entry(
    strategy: str, seed: int, cycle: int, cycles: int, task: str = "classification"
) -> dict[str, Any]:
    """Make the record of one cycle; the first cycle is the same for all strategies."""
    start, step = 40, 20
    rng = np.random.default_rng([seed, cycle, zlib.crc32(strategy.encode()) if cycle else 0])
    labelled, last = start + cycle * step, cycle == cycles - 1
    top, scale = SHAPES.get(strategy, (0.94, 60.0)) if cycle else (0.93, 70.0)
    value = round(float(top - 0.6 * np.exp(-labelled / scale) + rng.normal(0, 0.006)), 4)
    per_class = np.clip(value + rng.normal(0, 0.04, 10), 0, 1).round(3).tolist()
    if strategy == "margin":
        per_class[0] = None
    ids = rng.choice(1297, 8 + step, replace=False).tolist()
    scores = np.sort(rng.gamma(2.0, 0.5, 16))[::-1].round(4).tolist()
    pairs = [{"id": i, "score": s} for i, s in zip(ids, scores, strict=False)]
    return {
        "cycle": cycle,
        "strategy": strategy,
        "options": {},
        "seed": seed,
        "labelled": labelled,
        "unlabelled": 1297 - labelled,
        "subset": 200,
        "metrics": make_metrics(task, value, per_class),
        "train_metrics": make_metrics(task, 1.0, []),
        "selected": [] if last else ids[:step],
        "selected_scores": [] if last else scores[:step],
        "wanted": [] if last else pairs[:8],
        "unwanted": [] if last else pairs[8:],
        "regime": None
        if last or strategy == "random"
        else {
            "entropy_ratio": 0.5 - 0.05 * cycle,
            "rank_correlation": -0.2 + 0.15 * cycle,
            "samples": 100,
        },
        "training": {"seconds": 1.2 + cycle, "peak_bytes": 123_000_000, "epochs": 30},
        "scoring": None if last else {"seconds": 0.11, "peak_bytes": 45_000_000 + cycle},
        "auxiliary": {"seconds": 4.0, "peak_bytes": 7} if strategy == "vaal" and not last else None,
        "environment": {
            "steepest": "0.1.0",
            "torch": "2.13.0",
            "python": "3.11.7",
            "device": "cpu",
            "threads": 1,
            "platform": "Linux-6.1-x86_64",
        },
    }


def write_run(
    folder: Path,
    strategy: str,
    seed: int,
    cycles: int,
    done: int | None = None,
    task: str = "classification",
) -> Path:
    """Write the records of a run that has finished ``done`` of its cycles."""
    journal = Journal(folder / "records.jsonl")
    for cycle in range(cycles if done is None else done):
        journal.append(make_entry(strategy, seed, cycle, cycles, task))
    config = {"name": "one run", "data": {"name": "digits"}, "task": {"name": task}}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_comparison(
    folder: Path,
    strategies: Sequence[str] = STRATEGIES,
    seeds: Sequence[int] = (0, 1, 2),
    cycles: int = 4,
    *,
    name: str = "digits",
    data: str = "digits",
    task: str = "classification",
    command: str = "steepest compare digits --seeds 3",
    cut: Collection[tuple[str, int]] = (),
    missing: Collection[tuple[str, int]] = (),
) -> Path:
    """Write a comparison; runs in ``cut`` lack the last cycle, those in ``missing`` all."""
    folder.mkdir(parents=True, exist_ok=True)
    head = {
        "name": name,
        "strategies": list(strategies),
        "seeds": list(seeds),
        "config": {"data": {"name": data}, "loop": {"cycles": cycles}, "task": {"name": task}},
        "command": command,
        "versions": {"steepest": "0.1.0", "torch": "2.13.0", "python": "3.11.7"},
    }
    (folder / "comparison.json").write_text(json.dumps(head))
    for strategy in strategies:
        for seed in seeds:
            if (strategy, seed) not in missing:
                done = cycles - 1 if (strategy, seed) in cut else cycles
                run = folder / "runs" / strategy / f"seed-{seed}"
                write_run(run, strategy, seed, cycles, done, task)
    return folder
