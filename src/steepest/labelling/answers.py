"""Answers of a labeller about queried samples."""

from __future__ import annotations

from dataclasses import dataclass, field

from steepest.core.seeds import SampleId
from steepest.errors import InputError
from steepest.pool.values import Label, plain_ids


@dataclass(frozen=True)
class Answers:
    """Labels and refusals; a sample in neither is still waiting.

    Attributes:
        labels: The label of each sample that got one.
        skipped: The samples that nobody can label.

    Raises:
        InputError: If a sample is both labelled and skipped, or skipped twice.
    """

    labels: dict[SampleId, Label] = field(default_factory=dict)
    skipped: tuple[SampleId, ...] = ()

    def __post_init__(self) -> None:
        for sample in plain_ids(self.skipped):
            if sample in self.labels:
                raise InputError(f"sample {sample!r} is labelled and skipped; decide on one")
