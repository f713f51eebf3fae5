"""Run one experiment: train, score, choose, label, again. The same command resumes it."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from steepest.cli.arguments import add_config, add_shared, config_of, deadline_of
from steepest.core.progress import show_progress
from steepest.experiment import Config, Experiment
from steepest.experiment.report.numbers import words_of
from steepest.experiment.report.tables import text_table
from steepest.tasks import TASKS

if TYPE_CHECKING:
    from steepest.experiment.tracking import Tracking

EXAMPLES = (
    "steepest run digits --out runs/digits",
    "steepest run cifar10 --fast --set strategy.name=margin --out runs/cifar10",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_config(parser)
    add_shared(parser, "--out", required=True)
    add_shared(parser, "--seed", default=None, help="random seed (default: the configuration's)")
    add_shared(parser, "--member-jobs", "--minutes", "--track", "--quiet")


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    config = config_of(arguments)
    if arguments.seed is not None:
        config = replace(config, seed=arguments.seed)
    progress = show_progress(enabled=not arguments.quiet)
    tracking = None if arguments.track is None else _tracking(arguments, config)
    experiment = Experiment(
        config,
        arguments.out,
        progress=progress,
        member_jobs=arguments.member_jobs,
        on_record=None if tracking is None else lambda _: tracking.update(followed),
    )
    followed = [(arguments.out.resolve().name, arguments.out, config)]
    try:
        records = experiment.run(deadline_of(arguments))
        if tracking is not None:  # Records that an earlier call could not send.
            tracking.update(followed)
    finally:
        if tracking is not None:
            tracking.close()
    metric = TASKS.get(config.task.name).headline
    rows = [
        [
            str(r.cycle),
            str(r.labelled),
            f"{r.metrics[metric]:.4f}",
            f"{r.training.seconds:.1f}",
            "" if r.scoring is None else f"{r.scoring.seconds:.1f}",
        ]
        for r in records
    ]
    header = ["cycle", "labels", words_of(metric).name, "training s", "scoring s"]
    print(text_table(header, rows))
    print(f"\nRecords: {arguments.out / 'records.jsonl'}")
    print(f"Report:  {shlex.join(['steepest', 'report', str(arguments.out)])}")
    return 0


def _tracking(arguments: argparse.Namespace, config: Config) -> Tracking:
    from steepest.experiment.tracking import Tracking

    return Tracking(arguments.track, arguments.out, config.name)
