"""File format of a measurement of training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from steepest.bench.storage import Stored


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
        threads: CPU threads.
        model: The model.
        image_shape: One image's shape.
        batch: Images in one step.
        precision: ``"fp32"`` or ``"bf16"`` on all sides.
        workers: Processes of the data loader.
        rounds: Interleaved rounds; the best counts.
        flops_per_image: Operations of the products of one image's step, counted by torch.
        peak_flops: Operations a second of a large matrix product, measured.
        measurements: One for each way to train.
    """

    threads: int
    model: str
    image_shape: tuple[int, ...]
    batch: int
    precision: str
    workers: int
    rounds: int
    flops_per_image: float
    peak_flops: float
    measurements: tuple[TrainingMeasurement, ...]
