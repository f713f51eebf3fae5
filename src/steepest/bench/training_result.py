"""What a measurement of training is on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from steepest.bench.storage import Stored, load_result

SCHEMA = 1


@dataclass(frozen=True)
class TrainingMeasurement:
    """One way to train.

    Attributes:
        contender: Its name.
        status: How it went.
        note: What to know of it, or why there are no numbers.
        runs: Trainings side by side.
        images_per_second: Of all runs together.
        ratio: As a multiple of the loop with a data loader.
        step_ms: Milliseconds of one step of one run.
        host_share: Share of a step that the host takes to start it.
        peak_share: Of the measured rate of matrix products.
        setup_seconds: Until the first steps were done.
    """

    contender: str
    status: Literal["measured", "unsupported", "failed", "unfinished"]
    note: str = ""
    runs: int = 1
    images_per_second: float | None = None
    ratio: float | None = None
    step_ms: float | None = None
    host_share: float | None = None
    peak_share: float | None = None
    setup_seconds: float | None = None


@dataclass(frozen=True)
class TrainingResult(Stored):
    """A whole run of ``steepest bench training``.

    Attributes:
        schema: The form of this table.
        command: What was typed.
        environment: Versions and hardware.
        device: ``"cpu"`` or ``"cuda"``.
        threads: CPU threads.
        model: The model.
        image_shape: One image's shape.
        batch: Images in one step.
        precision: ``"fp32"`` or ``"bf16"`` on all sides.
        workers: Processes of the data loader.
        rounds: Interleaved rounds; the best counts.
        flops_per_image: Operations of the products of one image's step, counted by torch.
        peak_flops: Operations a second of a large matrix product, measured.
        seed: Decides weights, images and order.
        complete: False after Ctrl-C, and as long as the run goes on.
        measurements: One for each way to train.
    """

    schema: int
    command: str
    environment: Mapping[str, Any]
    device: str
    threads: int
    model: str
    image_shape: tuple[int, ...]
    batch: int
    precision: str
    workers: int
    rounds: int
    flops_per_image: float
    peak_flops: float
    seed: int
    complete: bool
    measurements: tuple[TrainingMeasurement, ...]


def read_training_result(path: Path) -> TrainingResult:
    """Read what ``save`` wrote, checked field by field.

    Raises:
        InputError: If the file is not of this form.
    """
    return load_result(TrainingResult, path, SCHEMA)
