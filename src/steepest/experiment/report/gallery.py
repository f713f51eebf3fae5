"""The highest and lowest scored samples of each cycle, as small pictures."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from steepest.core.journal import Entry
from steepest.core.markup import Safe, element, paragraph, section
from steepest.core.seeds import SampleId
from steepest.core.wording import counted
from steepest.data.alterations import long_tailed, with_wrong_labels
from steepest.data.base import ImageSet
from steepest.data.identity import TEST_CONTENT, comparable, identify
from steepest.errors import SteepestError
from steepest.experiment.comparison import Comparison, Run

LARGEST_SIDE = 48


class Pictures:
    """Pictures of the training samples, or the reason why there are none.

    Only the samples that are requested are read.

    Args:
        config: The configuration, whose ``data`` table names the data set.
        own_code: Whether to run code that the configuration names; a folder of results may be
            anybody's.
        made_with: The identity of the data of the runs, if it is on record: a name or a
            relative path may by now lead to something else.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        own_code: bool = False,
        made_with: Mapping[str, Any] | None = None,
    ) -> None:
        self._own_code = own_code
        self._made_with = dict(made_with or {})
        self.classes = tuple(map(str, self._made_with.get("classes") or ()))
        self.problem = ""
        self._data: ImageSet | None = None
        self._made: dict[SampleId, str | None] = {}
        data = config.get("data")
        table = data if isinstance(data, dict) else {}
        try:
            self._load(table)
        except SteepestError as error:
            self.problem = str(error)

    @property
    def any_made(self) -> bool:
        """Whether at least one sample has a picture."""
        return any(uri is not None for uri in self._made.values())

    def uri(self, sample: SampleId) -> str | None:
        """Return a sample's picture as a data URI, None if there is none."""
        if self._data is None:
            return None
        if sample not in self._made:
            self._made[sample] = None
            try:
                self._made[sample] = self._encode(sample, self._data)
            except (SteepestError, OSError) as error:
                self.problem = self.problem or str(error)
        return self._made[sample]

    def _encode(self, sample: SampleId, data: ImageSet) -> str | None:
        ids: Sequence[SampleId] = data.ids
        if sample not in ids:
            return None
        # Rows as a tensor: what is streamed or memory-mapped reads that one alone.
        rows = torch.tensor([ids.index(sample)])
        image = data.train_images[rows][0]
        if image.ndim == 1:
            self.problem = f"{data.name} has features, which are no picture"
            return None
        return encode_picture(image)

    def _load(self, table: Mapping[str, Any]) -> None:
        name = table.get("name")
        if not name:
            self.problem = "the configuration names no data set"
            return
        if ":" in str(name) and not self._own_code:
            self.problem = (
                f"{name} is code, which a mere report does not run; `steepest compare` does"
            )
            return
        from steepest import data as datasets

        options, limit = table.get("options"), table.get("limit")
        found = datasets.load(str(name), options=options, limit=limit)
        found = long_tailed(found, table.get("imbalance") or 1.0)
        labelled = with_wrong_labels(found, table.get("label_noise") or 0.0)
        if not self._is_of_the_runs(labelled, in_features=bool(table.get("backbone"))):
            self.problem = f"what is now found as {name} is not what the runs were made with"
            return
        self._data = found
        self.classes = tuple(found.classes)

    def _is_of_the_runs(self, found: ImageSet, *, in_features: bool) -> bool:
        if not self._made_with:
            return True
        if list(found.classes) != self._made_with.get("classes"):
            return False
        try:
            identity = identify(found)
        except SteepestError:
            return True  # An image is damaged: those that are not can be shown.
        made_with = self._made_with
        if in_features:
            # Runs saw features of these images: their number and the test labels are the same.
            counts = [sides[0] for sides in (identity["train"], made_with["train"])]
            same_labels = identity[TEST_CONTENT] == made_with.get(TEST_CONTENT)
            return bool(counts[0] == counts[1] and same_labels)
        return comparable(identity, made_with) == made_with


def gallery(comparison: Comparison, pictures: Pictures) -> Safe:
    """Return the section with the samples of each strategy's first seed."""
    runs = [comparison.begun_runs(name)[:1] for name in comparison.strategies]
    parts = [_strategy(run[0], pictures) for run in runs if run]
    text = (
        "The samples each strategy wanted most and least in each cycle, with id and score. "
        "Scores of different strategies have different scales."
    )
    missing = None
    if pictures.problem:
        told_first = "Some pictures are missing" if pictures.any_made else "Ids only"
        missing = paragraph(
            f"{told_first}: the pictures need the data ({pictures.problem}).", "note"
        )
    return section("gallery", "Most and least wanted samples", paragraph(text), missing, *parts)


def _strategy(run: Run, pictures: Pictures) -> Safe:
    cycles = [_cycle(entry, pictures) for entry in run.entries if entry.get("wanted")]
    title = element("summary", f"{run.strategy}, seed {run.seed}: {counted(len(cycles), 'cycle')}")
    return element("details", title, *cycles)


def _cycle(entry: Entry, pictures: Pictures) -> Safe:
    return element(
        "div",
        element("h3", f"Cycle {entry['cycle']}, {counted(entry['labelled'], 'label')}"),
        _strip("most wanted", entry["wanted"], pictures),
        _strip("least wanted", entry.get("unwanted") or [], pictures),
        class_="cycle",
    )


def _strip(title: str, samples: list[dict[str, Any]], pictures: Pictures) -> Safe | None:
    if not samples:
        return None
    items = (_sample(sample, pictures.uri(sample["id"])) for sample in samples)
    return element("div", element("h4", title), element("ul", *items, class_="samples"))


def _sample(sample: dict[str, Any], uri: str | None) -> Safe:
    image = None
    if uri is not None:
        image = element("img", src=uri, alt=f"sample {sample['id']}", width=LARGEST_SIDE)
    return element(
        "li",
        image,
        element("span", sample["id"], class_="id"),
        element("span", f"{sample['score']:.3g}", class_="score"),
    )


def encode_picture(image: Tensor) -> str:
    """Return a sample as the data URI of a PNG, made smaller if it is large.

    Of a volume the central slice is shown, of many channels the first three, and of two the
    first. Numbers that are not bytes have no scale of their own: each picture then reaches from
    its least value in black to its greatest in white.

    Args:
        image: An image [C, H, W] or a volume [C, D, H, W].
    """
    from PIL import Image

    flat = image[:, image.shape[1] // 2] if image.ndim == 4 else image
    shown = flat[:3] if len(flat) >= 3 else flat[:1]
    channels = _to_bytes(shown).permute(1, 2, 0).contiguous().numpy()
    picture = Image.fromarray(channels[..., 0] if channels.shape[-1] == 1 else channels)
    picture.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _to_bytes(values: Tensor) -> Tensor:
    """Return values stretched over the bytes; bytes are unchanged."""
    if values.dtype == torch.uint8:
        return values
    exact = values.double()
    finite = exact[exact.isfinite()]
    if not len(finite):
        return torch.zeros(values.shape, dtype=torch.uint8)
    low, high = finite.min(), finite.max()
    span = high - low if high > low else torch.ones_like(high)
    known = exact.nan_to_num(nan=float(low), posinf=float(high), neginf=float(low))
    return (255 * (known - low) / span).round().to(torch.uint8)
