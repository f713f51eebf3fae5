"""Images per second of the feature cache, beside a plain loop over a DataLoader."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from steepest.bench.machine import describe_machine
from steepest.bench.storage import SCHEMA, Stored, Table, name_place
from steepest.core.devices import usable_cores
from steepest.core.progress import Progress
from steepest.core.seeds import generator
from steepest.data.folder import walk_images
from steepest.data.image_decoding import IMAGE_FORMATS
from steepest.features import folder_features
from steepest.features.passes import usual_batch_size
from steepest.models.backbones import Backbone, find_backbone

CACHE, AGAIN, LOOP = "cache", "cache, again", "DataLoader loop"
_WIDTH, _HEIGHT, _QUALITY = 500, 375, 90
_COARSEST = 5


@dataclass(frozen=True)
class FeatureTiming:
    """One way to get the features of all images.

    Attributes:
        way: The cache when it is empty, the cache when it is full, or the plain loop.
        images_per_second: On the clock, in each round.
        core_seconds: Of all processes together, in each round.
    """

    way: str
    images_per_second: tuple[float, ...]
    core_seconds: tuple[float, ...]


@dataclass(frozen=True)
class FeaturesResult(Stored):
    """A whole run of ``steepest bench features``.

    Attributes:
        backbone: Its name.
        images: How many.
        cores: Usable ones; the loop has as many worker processes.
        batch_size: Images at once.
        likeness: The smallest cosine between the cache's and the loop's features of an image;
            large JPEG files are decoded smaller for the cache.
        timings: One for each way.
    """

    backbone: str
    images: int
    cores: int
    batch_size: int
    likeness: float
    timings: tuple[FeatureTiming, ...]

    def text(self) -> str:
        """Return the result as a plain table."""
        return self.table().text()

    def table(self) -> Table:
        """Return a row for each timing."""
        return Table(
            f"{self.backbone}, {self.images:,} images, batches of {self.batch_size}, "
            f"{self.cores} cores; {name_place(self, self.environment['threads'])}; smallest cosine "
            f"between the features of both {self.likeness:.4f}",
            ("way", "images/s", "range", "core ms/image"),
            [_row(timing, self.images) for timing in self.timings],
            [""] * len(self.timings),
            [timing.way for timing in self.timings],
        )


def _row(timing: FeatureTiming, images: int) -> list[str]:
    speeds = timing.images_per_second
    cores = 1000 * median(timing.core_seconds) / images
    return [
        timing.way,
        f"{median(speeds):,.0f}",
        f"{min(speeds):,.0f} to {max(speeds):,.0f}",
        f"{cores:.2f}",
    ]


class FeaturesBench:
    """Measures the cache and the plain loop in turns.

    Args:
        backbone: The name of a net for images.
        folder: Images; None makes ``images`` JPEG files.
        images: How many to make.
        rounds: How often each way is measured.
        device: The device.
        seed: Decides the images.
        progress: Updated after each pass.
        command: As typed, for the record.
    """

    def __init__(
        self,
        backbone: str,
        folder: Path | None,
        images: int,
        rounds: int,
        device: torch.device,
        seed: int,
        progress: Progress,
        command: str,
    ) -> None:
        self._backbone = find_backbone(backbone, "images")
        self._folder = folder
        self._images = images
        self._rounds = rounds
        self._device = device
        self._seed = seed
        self._progress = progress
        self._command = command
        self._likeness = 1.0
        self._spent: dict[str, list[tuple[float, float]]] = {CACHE: [], AGAIN: [], LOOP: []}

    def run(self, after_each: Callable[[FeaturesResult], None] | None = None) -> FeaturesResult:
        """Measure everything."""
        with tempfile.TemporaryDirectory(prefix="steepest-") as scratch:
            folder = self._folder or make_photographs(
                Path(scratch, "images"), self._images, self._seed
            )
            names = sorted(name for name, reason in walk_images(folder) if not reason)
            self._images = len(names)
            loop_over([folder / name for name in names[:8]], self._backbone, self._device)
            with self._progress.task("rounds", self._rounds) as step:
                for number in range(self._rounds):
                    self._measure(folder, names, Path(scratch, f"store-{number}"))
                    step.advance()
                    if after_each is not None:
                        after_each(self.result())
        return self.result()

    def _measure(self, folder: Path, names: list[str], store: Path) -> None:
        for way in (CACHE, AGAIN):
            with _clocked(self._spent[way]):
                table = folder_features(
                    folder, self._backbone, store=store, device=self._device, progress=False
                )
        with _clocked(self._spent[LOOP]):
            rows = loop_over([folder / name for name in names], self._backbone, self._device)
        alike = torch.nn.functional.cosine_similarity(table.of(names), rows)
        self._likeness = min(self._likeness, float(alike.min()))

    def result(self) -> FeaturesResult:
        """Return the results so far."""
        done = min(map(len, self._spent.values()))
        return FeaturesResult(
            schema=SCHEMA,
            command=self._command,
            environment=describe_machine(self._device),
            device=self._device.type,
            seed=self._seed,
            complete=done == self._rounds,
            backbone=self._backbone.name,
            images=self._images,
            cores=usable_cores(),
            batch_size=usual_batch_size(self._device),
            likeness=self._likeness,
            timings=tuple(
                FeatureTiming(
                    way,
                    tuple(self._images / seconds for seconds, _ in spent),
                    tuple(core for _, core in spent),
                )
                for way, spent in self._spent.items()
                if spent
            ),
        )


class _Photographs(Dataset[Tensor]):
    def __init__(self, paths: list[Path], backbone: Backbone) -> None:
        self._paths = paths
        self._prepare = backbone.prepare

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, place: int) -> Tensor:
        with Image.open(self._paths[place], formats=IMAGE_FORMATS) as opened:
            prepared: Tensor = self._prepare(opened.convert("RGB"))
        return prepared


def loop_over(paths: list[Path], backbone: Backbone, device: torch.device) -> Tensor:
    """Return features [N, D] as a short script would compute them."""
    model = backbone.model.to(device).eval()
    loader = DataLoader(
        _Photographs(paths, backbone),
        batch_size=usual_batch_size(device),
        num_workers=usable_cores(),
        pin_memory=device.type == "cuda",
    )
    with torch.inference_mode():
        return torch.cat([model(batch.to(device)).float().cpu() for batch in loader])


def make_photographs(folder: Path, images: int, seed: int) -> Path:
    """Write JPEG files of 500 x 375 with shapes of all sizes; return their folder."""
    folder.mkdir(parents=True)
    for number in range(images):
        draws = np.random.default_rng(generator(seed, "photograph", number).initial_seed())
        total = np.zeros((_HEIGHT, _WIDTH, 3))
        for level in range(_COARSEST):
            side = 2 ** (level + 2)
            coarse = draws.integers(0, 256, (side, side, 3), dtype=np.uint8)
            scaled = Image.fromarray(coarse).resize((_WIDTH, _HEIGHT), Image.Resampling.BICUBIC)
            total += np.asarray(scaled, dtype=np.float64) / 2 ** (level + 1)
        picture = Image.fromarray(total.clip(0, 255).astype(np.uint8))
        picture.save(folder / f"{number:06d}.jpg", quality=_QUALITY)
    return folder


@contextmanager
def _clocked(spent: list[tuple[float, float]]) -> Iterator[None]:
    began, before = time.perf_counter(), _core_seconds()
    yield
    spent.append((time.perf_counter() - began, _core_seconds() - before))


def _core_seconds() -> float:
    """Return the processor time of this process and of those that it started and that ended."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = map(resource.getrusage, kinds)
    return sum(one.ru_utime + one.ru_stime for one in used)
