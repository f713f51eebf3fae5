"""The runs of a comparison: one for each strategy and seed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from steepest.errors import InputError
from steepest.experiment.comparison import BASELINE
from steepest.experiment.comparison_file import (
    adding_to,
    describe,
    is_written,
    write_description,
)
from steepest.experiment.config import Config
from steepest.experiment.folder import count_records
from steepest.experiment.variants import Variant, parse_variants


@dataclass(frozen=True)
class Run:
    """One strategy under one seed, in ``runs/LABEL/seed-N`` of its comparison."""

    config: Config
    folder: Path

    @property
    def label(self) -> str:
        """Label of the strategy with its options in this comparison."""
        return self.folder.parent.name

    @property
    def group(self) -> str:
        """Name of the comparison's folder."""
        return self.folder.parents[2].name

    @property
    def shared(self) -> Path:
        """Folder in which runs of this seed share the training of the first cycle."""
        out = self.folder.parents[2]
        return out / "shared" / self.folder.name / "cycle-000.safetensors"

    @property
    def done(self) -> int:
        """Number of recorded cycles."""
        return count_records(self.folder)

    @property
    def complete(self) -> bool:
        """Whether all cycles are recorded."""
        return self.done >= self.config.loop.cycles


@dataclass(frozen=True)
class Comparing:
    """A comparison: configuration, strategies, seeds and folder.

    Args:
        config: The experiment; its strategy and seed are replaced.
        strategies: Names, ``LABEL=NAME(OPTION=VALUE,…)`` or variants; ``random`` is added.
        seeds: One run of each strategy per seed.
        out: The comparison's folder.

    Raises:
        UnknownNameError: For an unknown strategy or option.
        InputError: If there is nothing to compare, or a label cannot be one.
    """

    config: Config
    strategies: Sequence[str | Variant]
    seeds: Sequence[int]
    out: Path

    def __post_init__(self) -> None:
        if not self.variants or not self.seeds:
            raise InputError("a comparison needs at least one strategy and one seed")

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        """Every strategy with its options, the baseline among them."""
        found = parse_variants(self.strategies)
        if not found or any(variant.label == BASELINE for variant in found):
            return found
        return (*found, Variant(BASELINE, BASELINE))

    @cached_property
    def runs(self) -> list[Run]:
        """All runs, seed by seed, so that an interrupted comparison is paired as far as it came."""
        return [
            Run(
                variant.config(self.config, seed),
                self.out / "runs" / variant.label / f"seed-{seed}",
            )
            for seed in dict.fromkeys(self.seeds)
            for variant in self.variants
            if self.includes(variant.label, seed)
        ]

    def includes(self, label: str, seed: int) -> bool:  # noqa: ARG002 - for those who choose
        """Return whether a strategy is run under a seed; here each is under each."""
        return True

    def check(self, command: str = "") -> dict[str, Any]:
        """Return the folder's description, or say why this cannot go there."""
        running = any(not run.complete for run in self.runs)
        return describe(self.config, self.variants, self.seeds, self.out, command, running=running)

    def record(self, command: str = "") -> None:
        """Write the folder's description, if this call adds to it."""
        if is_written(self.check(command), self.out):
            return
        with adding_to(self.out):
            # Once more: another process may have added to the folder meanwhile.
            write_description(self.check(command), self.out)


def all_runs(comparisons: Iterable[Comparing]) -> list[Run]:
    """Return the runs of some comparisons, each once though several ask for it."""
    found: dict[Path, Run] = {}
    for comparing in comparisons:
        for run in comparing.runs:
            found.setdefault(run.folder, run)
    return list(found.values())
