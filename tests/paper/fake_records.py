"""Runs as the loop leaves them, made up: every record, and no training."""

from __future__ import annotations

import json
from pathlib import Path

from steepest.core.journal import Journal
from steepest.experiment.config import Config
from steepest.experiment.record import Cost, Record
from steepest.paper.level import Effort, Level, Setting, load_level
from steepest.paper.workspace import Workspace

ENVIRONMENT = {"device": "cpu", "threads": 1}


def small_level(**changes) -> Level:
    """The trial level: what is asked for is on digits."""
    return load_level("smoke", **changes)


def level_of(settings: dict[str, Setting], name: str = "paper", seeds: int = 2) -> Level:
    """A level whose numbers count, on whatever experiments."""
    effort = Effort(dampings=(1.0,), iterations=2, learnt=10)
    return Level(
        name=name, seeds=seeds, deeper="small-cnn", effort=effort, strategies={}, settings=settings
    )


def accuracy(strategy: str, seed: int, cycle: int) -> float:
    return 0.5 + 0.1 * cycle + 0.01 * seed + (0.05 if strategy == "entropy-gradnorm" else 0.0)


def make_record(config: Config, cycle: int) -> Record:
    loop, strategy = config.loop, config.strategy.name
    last = cycle + 1 == loop.cycles
    value = accuracy(strategy, config.seed, cycle)
    first = loop.initial + cycle * loop.k
    return Record(
        cycle=cycle,
        strategy=strategy,
        options=dict(config.strategy.options),
        seed=config.seed,
        labelled=first,
        unlabelled=1_500_000 - first,
        subset=0 if last else loop.candidates,
        metrics={"accuracy": value, "loss": 1.0, "per_class_accuracy": [value, None, 1.0]},
        train_metrics={"accuracy": 0.9},
        selected=() if last else tuple(range(first, first + loop.k)),
        selected_scores=() if last else (0.5,) * loop.k,
        wanted=(),
        unwanted=(),
        regime=None,
        model="0" * 16,
        training=Cost(seconds=3600.0, peak_bytes=1),
        scoring=None if last else Cost(seconds=360.0, peak_bytes=1),
        auxiliary=None if last or strategy != "vaal" else Cost(seconds=7200.0, peak_bytes=1),
        environment=ENVIRONMENT,
    )


def write_run(folder: Path, config: Config, cycles: int | None = None) -> Path:
    """Write a run of so many cycles; None means all."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config.to_table()))
    journal = Journal(folder / "records.jsonl")
    for cycle in range(config.loop.cycles if cycles is None else cycles):
        journal.append(make_record(config, cycle).to_table())
    return folder


def fill(work: Workspace, needs, strategies=None, seeds=None, where: Path | None = None) -> None:
    """Write every run of some needs, in the workspace's own folder or another."""
    for need in needs:
        for strategy in need.strategies if strategies is None else strategies:
            for seed in work.level.seeds_of(need.setting) if seeds is None else seeds:
                base = work.comparison(need) if where is None else where / need.setting
                folder = base / "runs" / strategy / f"seed-{seed}"
                if not folder.exists():
                    write_run(folder, work.wanted(need, strategy, seed))
