"""A self-contained page with pictures of the picks and the reasons for them."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from steepest.core.markup import Safe, element, join, paragraph, section, whole_page
from steepest.core.seeds import SampleId
from steepest.core.wording import counted
from steepest.data.image_decoding import read_picture
from steepest.data.texts import TextRows
from steepest.errors import SteepestError
from steepest.selecting.pretrained import PretrainedChoice
from steepest.version import __version__

if TYPE_CHECKING:  # Pillow is imported by the first picture
    from PIL import Image

MOST_PICTURES = 500
"""Picks beyond these are in the list of picks alone: a page of 10 MB opens slowly."""

_SIDE = 240
_QUALITY = 80
_MOST_CLASSES = 40
_LETTERS = 600
_WORTH_SAYING = 0.05

_STYLE = """
body { max-width: 82rem; }
.picks { display: grid; gap: 0.9rem; list-style: none; margin: 0; padding: 0;
  grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); }
.picks figure { margin: 0; border: 1px solid var(--line); border-radius: 0.5rem; overflow: hidden;
  background: var(--paper); height: 100%; display: flex; flex-direction: column; }
.picks .frame { aspect-ratio: 1; display: grid; place-items: center; background: var(--line); }
.picks img { width: 100%; height: 100%; object-fit: contain; display: block; }
.picks figcaption { padding: 0.45rem 0.6rem 0.55rem; font-size: 0.78rem; line-height: 1.4;
  overflow-wrap: anywhere; }
.picks .rank { float: right; color: var(--quiet); font-variant-numeric: tabular-nums; }
.picks .guess { font-weight: 600; display: block; }
.picks .name, .picks .why { color: var(--quiet); display: block; }
.picks.texts { grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); }
.picks .text { flex: 1; white-space: pre-line;
  padding: 0.7rem; font-size: 0.82rem; align-self: start; overflow-wrap: anywhere; }
.spread { width: auto; min-width: min(34rem, 100%); }
.spread td.bar { width: 16rem; padding-right: 0; }
.spread .track { position: relative; height: 0.8rem; background: var(--paper); }
.spread .fill { position: absolute; inset: 0 auto 0 0; background: var(--blue);
  border-radius: 0.15rem; }
.spread .chance { position: absolute; top: -0.15rem; bottom: -0.15rem; width: 2px;
  background: var(--ink); }
@media (max-width: 40rem) {
  .picks { grid-template-columns: repeat(auto-fill, minmax(7.5rem, 1fr)); gap: 0.6rem; }
  .spread thead th { min-width: 0; }
  .spread td.bar { width: 5rem; }
}
"""

Shown = Callable[[SampleId], "Image.Image | str | None"]
"""Returns the picture of a sample, its text, or None if it has neither."""


def folder_pictures(root: Path) -> Shown:
    """Return a function that opens the images of a folder by relative path."""

    def show(sample: SampleId) -> Image.Image | None:
        try:
            return read_picture(root / str(sample), _SIDE)
        except SteepestError:
            return None  # Gone since its features were computed.

    return show


def text_cards(rows: TextRows) -> Shown:
    """Return a function that shows the texts of rows, shortened if long."""
    places = {sample: row for row, sample in enumerate(rows.ids)}

    def show(sample: SampleId) -> str:
        text = rows.texts[places[sample]]
        return text if len(text) <= _LETTERS else f"{text[:_LETTERS]} …"

    return show


def contact_sheet(choice: PretrainedChoice, shown: Shown, *, pool: str, command: str = "") -> str:
    """Return the page as HTML.

    Args:
        choice: The chosen samples.
        shown: Returns the picture or the text of a sample.
        pool: The name of the pool.
        command: The command that made the choice, to be copied.
    """
    picks = choice.selection
    title = f"{counted(len(picks), 'pick')} from {pool}"
    header = element(
        "header",
        paragraph("What to label next", "kicker"),
        element("h1", title),
        paragraph(str(picks.verdict), "headline") if picks.verdict is not None else None,
        *_left_out(choice),
        _facts(choice, pool, command),
    )
    cards = [_card(choice, row, shown) for row in range(min(len(picks), MOST_PICTURES))]
    more = len(picks) - len(cards)
    wide = " texts" if picks.ids and isinstance(shown(picks.ids[0]), str) else ""
    grid = section(
        "picks",
        "Picks, the most wanted first",
        element("ul", *cards, class_=f"picks{wide}"),
        paragraph(f"{counted(more, 'more pick')} not shown.", "note") if more else None,
    )
    foot = paragraph(f"Made by steepest {__version__}. The page needs no network and no files.")
    return whole_page(title, header, element("main", grid, _spread(choice)), foot, _STYLE)


def _left_out(choice: PretrainedChoice) -> list[Safe]:
    skipped = choice.table.skipped
    if not skipped:
        return []
    listed = "; ".join(f"{name} ({why})" for name, why in skipped[:5])
    more = f" and {len(skipped) - 5} more" if len(skipped) > 5 else ""
    said = f"{counted(len(skipped), 'file')} could not be used: {listed}{more}"
    return [paragraph(said, "warning", role="note")]


def _facts(choice: PretrainedChoice, pool: str, command: str) -> Safe:
    picks, report = choice.selection, choice.probe and choice.probe.report
    labels = counted(len(choice.labels), "label")
    if report is not None:
        labels += (
            f" of {counted(len(choice.classes), 'class', 'classes')}; {report.accuracy:.0%} right "
            "in cross-validation"
        )
    facts: list[tuple[str, object]] = [
        ("pool", f"{pool}, {counted(picks.candidates, 'candidate')}"),
        ("features", choice.table.backbone),
        ("labels", labels if choice.labels else "none yet"),
        ("strategy", picks.strategy),
        ("command", element("code", command) if command else None),
    ]
    known = [(name, value) for name, value in facts if value]
    return element(
        "dl", *(element("div", element("dt", name), element("dd", value)) for name, value in known)
    )


def _spread(choice: PretrainedChoice) -> Safe | None:
    verdict = choice.selection.verdict
    if verdict is None or not verdict.spread:
        return None
    counts = verdict.spread[:_MOST_CLASSES]
    longest = max(max(one.picks, one.expected) for one in counts)
    rows = []
    for one in counts:
        fill = element("div", class_="fill", style=f"width:{100 * one.picks / longest:.1f}%")
        mark = element("div", class_="chance", style=f"left:{100 * one.expected / longest:.1f}%")
        bar = element("td", element("div", fill, mark, class_="track"), class_="bar")
        name = element("th", one.name or f"class {one.label}", scope="row")
        rows.append(
            element("tr", name, element("td", one.picks), element("td", f"{one.expected:.1f}"), bar)
        )
    heads = ("predicted class", "picks", "at random", "")
    head = element("tr", *(element("th", text, scope="col") for text in heads))
    table = element("table", element("thead", head), element("tbody", *rows), class_="spread")
    said = (
        "How often each class is predicted among the picks; "
        "the mark is the share among random picks."
    )
    more = len(verdict.spread) - len(counts)
    return section(
        "spread",
        "Spread over the classes",
        paragraph(said),
        element("div", table, class_="scroll"),
        paragraph(f"{counted(more, 'more class', 'more classes')} not shown.", "note")
        if more
        else None,
    )


def _card(choice: PretrainedChoice, row: int, shown: Shown) -> Safe:
    sample = choice.selection.ids[row]
    found = shown(sample)
    if isinstance(found, str):
        view = element("div", found, class_="text")
    elif found is None:
        view = element("div", class_="frame")
    else:
        image = element("img", src=_uri(found), alt=str(sample), loading="lazy")
        view = element("div", image, class_="frame")
    caption = join(
        (
            element("span", f"#{row + 1}", class_="rank"),
            element("span", _guess(choice, row), class_="guess"),
            element("span", why(choice, row), class_="why"),
            element("span", sample, class_="name"),
        )
    )
    return element("li", element("figure", view, element("figcaption", caption)))


def _guess(choice: PretrainedChoice, row: int) -> str | None:
    if choice.probabilities is None:
        return None
    best = torch.topk(choice.probabilities[row], min(2, len(choice.classes)))
    pairs = list(zip(best.values.tolist(), best.indices.tolist(), strict=True))
    told = [pair for pair in pairs if pair[0] >= _WORTH_SAYING] or pairs[:1]
    return " or ".join(f"{choice.classes[at]} {share:.0%}" for share, at in told)


def why(choice: PretrainedChoice, row: int) -> str:
    """Describe how many other candidates the label of a pick informs."""
    count = choice.stands_for[row]
    if count <= 1:
        return "stands for itself"
    return f"stands for {counted(count, 'candidate')}"


def _uri(picture: Image.Image) -> str:
    picture = picture.convert("RGB")
    picture.thumbnail((_SIDE, _SIDE))
    buffer = io.BytesIO()
    picture.save(buffer, format="JPEG", quality=_QUALITY, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
