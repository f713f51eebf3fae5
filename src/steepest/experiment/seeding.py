"""Everything a seed decides in an experiment, for the loop and for later analyses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from steepest.core.seeds import SampleId, derive, random_subset

Member = int | Literal["extra"]
"""A model of a run: 0 is the task's own, others are committee members or auxiliary models."""


def initial_ids(ids: Sequence[SampleId], count: int, seed: int) -> list[SampleId]:
    """Return the samples that are labelled before the first training, for every strategy the same.

    Args:
        ids: All of the data set's ids.
        count: How many.
        seed: The run's.
    """
    return [ids[int(row)] for row in random_subset(ids, count, seed, "initial set")]


def selection_seed(seed: int, cycle: int) -> int:
    """Return what the draws of a cycle's selection come from: its candidates, ties and labels."""
    return derive(seed, "selection", cycle)


def extra_seed(seed: int, cycle: int) -> int:
    """Return what the first weights of a head come from that is trained along in a cycle."""
    return derive(seed, "extra", cycle)


def weights_path(run: Path, cycle: int, member: Member = 0) -> Path:
    """Return where a run keeps the weights that a cycle ended with."""
    return run / "weights" / f"cycle-{cycle:03d}{suffix_of(member)}.safetensors"


def suffix_of(member: Member) -> str:
    """Return the suffix of a member's files."""
    return "" if member == 0 else f"-{member}"
