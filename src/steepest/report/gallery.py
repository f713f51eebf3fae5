"""The most and the least wanted samples of each cycle, as small pictures."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from steepest.errors import SteepestError
from steepest.experiment.outcomes import Comparison, Run
from steepest.journal import Entry
from steepest.report.markup import Safe, element, paragraph, section
from steepest.seeds import SampleId

LARGEST_SIDE = 48


class Pictures:
    """Pictures of the training samples, or the reason why there are none.

    Args:
        config: The configuration, whose ``data`` table names the data set.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.classes: tuple[str, ...] = ()
        self.problem = ""
        self._images: npt.NDArray[np.uint8] | None = None
        self._rows: Mapping[SampleId, int] = {}
        self._made: dict[SampleId, str] = {}
        data = config.get("data")
        table = data if isinstance(data, dict) else {}
        try:
            self._load(table)
        except SteepestError as error:
            self.problem = str(error)

    def uri(self, sample: SampleId) -> str | None:
        """Return a sample's picture as a data URI, None if there is none."""
        row = self._rows.get(sample)
        if self._images is None or row is None:
            return None
        if sample not in self._made:
            self._made[sample] = _encode(self._images[row])
        return self._made[sample]

    def _load(self, table: Mapping[str, Any]) -> None:
        name = table.get("name")
        if not name:
            self.problem = "the configuration names no data set"
            return
        from steepest import datasets

        loaded = datasets.load(str(name))
        self.classes = tuple(loaded.classes)
        self._images = loaded.train_images.numpy()
        self._rows = {sample: row for row, sample in enumerate(loaded.ids)}


def gallery(comparison: Comparison, pictures: Pictures) -> Safe:
    """Return the section with the samples of each strategy's first seed."""
    runs = [comparison.begun_runs(name)[:1] for name in comparison.strategies]
    parts = [_strategy(run[0], pictures) for run in runs if run]
    told = (
        "The samples each strategy wanted most and least in each cycle, with id and score. "
        "Scores of different strategies have different scales."
    )
    missing = None
    if pictures.problem:
        missing = paragraph(f"Ids only: the pictures need the data ({pictures.problem}).", "note")
    return section("gallery", "Most and least wanted samples", paragraph(told), missing, *parts)


def _strategy(run: Run, pictures: Pictures) -> Safe:
    cycles = [_cycle(entry, pictures) for entry in run.entries if entry.get("wanted")]
    title = element("summary", f"{run.strategy}, seed {run.seed}: {len(cycles)} cycles")
    return element("details", title, *cycles)


def _cycle(entry: Entry, pictures: Pictures) -> Safe:
    return element(
        "div",
        element("h3", f"Cycle {entry['cycle']}, {entry['labelled']} labels"),
        _strip("most wanted", entry["wanted"], pictures),
        _strip("least wanted", entry.get("unwanted") or [], pictures),
        class_="cycle",
    )


def _strip(title: str, samples: list[dict[str, Any]], pictures: Pictures) -> Safe | None:
    if not samples:
        return None
    items = (_sample(sample["id"], sample["score"], pictures) for sample in samples)
    return element("div", element("h4", title), element("ul", *items, class_="samples"))


def _sample(sample: SampleId, score: float, pictures: Pictures) -> Safe:
    uri = pictures.uri(sample)
    image = None
    if uri is not None:
        image = element("img", src=uri, alt=f"sample {sample}", width=LARGEST_SIDE)
    return element(
        "li",
        image,
        element("span", sample, class_="id"),
        element("span", f"{score:.3g}", class_="score"),
    )


def _encode(image: npt.NDArray[np.uint8]) -> str:
    """Return an image [C, H, W] as the data URI of a PNG, made smaller if it is large."""
    from PIL import Image

    channels = image.transpose(1, 2, 0)
    picture = Image.fromarray(channels[..., 0] if channels.shape[-1] < 3 else channels[..., :3])
    picture.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
