"""The context of every page: the project, the templates, the figures, and who is asking."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, unquote, urlencode

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from steepest.errors import InputError, SteepestError
from steepest.labelling.project import Project
from steepest.labelling.project.answers import check_annotator
from steepest.labelling.project.source import SampleFolder
from steepest.labelling.web.figures import Figures
from steepest.labelling.web.filters import FILTERS
from steepest.labelling.web.gate import read_mark

HOME = Path(__file__).parent
STATIC = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "classes.js": "text/javascript",
    "zoom.js": "text/javascript",
    "htmx.min.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
"""The files that pages are made with, and nothing else, by their media types."""

_KEYS = "1234567890"
_PREVIEW_SIDE, _PREVIEW_LETTERS = 256, 240
MOST_LETTERS = 50_000
"""Letters of a text that are shown."""


@dataclass(frozen=True)
class Choice:
    """A class as something to press.

    Attributes:
        name: The class.
        key: The key for it; None if there are more classes than digits.
    """

    name: str
    key: str | None


@dataclass
class PageContext:
    """One project on one page.

    Attributes:
        project: The project; it stays the caller's to close.
        name: The person who labels, unless the browser says otherwise.
        cookie: The name under which browsers keep who labels.
        browser_cookie: The name under which they keep what tells them from each other.
        figures: The figures about the work so far.
    """

    project: Project
    name: str | None = None
    cookie: str = "steepest-name"
    browser_cookie: str = "steepest-browser"
    figures: Figures = field(init=False)

    def __post_init__(self) -> None:
        if self.name is not None:
            self.name = self.project.queue.find_annotator(self.name)
        self.figures = Figures(self.project)

    def choices(self) -> list[Choice]:
        """Return the classes with the keys that stand for them."""
        names = self.project.classes()
        keys: list[str | None] = [*_KEYS, *[None] * max(0, len(names) - len(_KEYS))]
        return [Choice(name, key) for name, key in zip(names, keys, strict=False)]

    @property
    def noun(self) -> str:
        """The word for one sample."""
        return "text" if self.project.source.kind == "text" else "image"

    @cached_property
    def static(self) -> dict[str, bytes]:
        """The files that pages are made with."""
        return {name: (HOME / "static" / name).read_bytes() for name in STATIC}

    @cached_property
    def _pages(self) -> Environment:
        pages = Environment(
            loader=FileSystemLoader(HOME / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        pages.filters.update(FILTERS)
        pages.globals.update(
            picture=self._picture,
            text_of=self._text,
            preview=self._preview,
            file_mark=self.mark,
            asset=self._asset,
            kind=self.project.source.kind,
            noun=self.noun,
            nouns=f"{self.noun}s",
            has_files=isinstance(self.project.source, SampleFolder),
        )
        return pages

    def _asset(self, name: str) -> str:
        mark = hashlib.sha256(self.static[name]).hexdigest()[:12]
        return f"/static/{name}?{mark}"

    def mark(self, sample: str) -> str:
        """Return the stamp of a sample's file; nothing if it is gone."""
        return self.project.source.mark(sample) or ""

    def _picture(self, sample: str, side: int) -> str:
        """Return where a picture of a sample is: elsewhere if its file is another one now.

        Browsers keep pictures, and would keep showing the earlier one.
        """
        where: dict[str, str | int] = {"sample": sample, "side": side}
        mark = self.mark(sample)
        if mark:
            where["file"] = mark
        return "/picture?" + urlencode(where)

    def _text(self, sample: str, most: int = MOST_LETTERS) -> str:
        """Return a text, or so many letters of it; or the reason it cannot be shown."""
        try:
            text = self.project.pictures.text(sample)
        except SteepestError as error:
            return f"Not shown: {error}"
        return text if len(text) <= most else f"{text[:most].rstrip()} …"

    def _preview(self, sample: str, alt: str | None = None) -> Markup:
        """Return a small picture of a sample in a list, or the beginning of its text."""
        if self.project.source.kind == "text":
            text = self._text(sample, _PREVIEW_LETTERS)
            return Markup('<span class="words" dir="auto">{}</span>').format(text)
        where, named = self._picture(sample, _PREVIEW_SIDE), sample if alt is None else alt
        return Markup('<img loading="lazy" src="{}" alt="{}">').format(where, named)

    def show(
        self,
        template: str,
        values: Mapping[str, object],
        *,
        who: str | None = None,
        events: Mapping[str, object] | None = None,
    ) -> HTMLResponse:
        """Return a page, or a part of one.

        Args:
            template: Its file.
            values: The values inserted into it.
            who: Who it is for.
            events: What the page is told besides.
        """
        text = self._pages.get_template(template).render(
            who=who,
            folder=self.project.photos.name,
            settings=self.project.settings,
            choices=self.choices(),
            **values,
        )
        headers = {} if events is None else {"HX-Trigger": json.dumps(events)}
        return HTMLResponse(text, headers=headers)


async def page_context(request: Request) -> PageContext:
    """Return the context that a request came to."""
    context: PageContext = request.app.state.context
    return context


Here = Annotated[PageContext, Depends(page_context)]


async def visitor_of(request: Request, context: Here) -> str | None:
    """Return who asks; None if that was never said."""
    kept = request.cookies.get(context.cookie)
    if kept is None:
        return context.name
    name = unquote(kept, errors="replace")
    try:
        check_annotator(name)
    except InputError:
        return context.name
    return name


async def annotator_of(who: Annotated[str | None, Depends(visitor_of)]) -> str:
    """Return who asks.

    Raises:
        InputError: If that was never said.
    """
    if who is None:
        raise InputError("say who you are first: open the page and enter a name")
    return who


Visitor = Annotated[str | None, Depends(visitor_of)]
Annotator = Annotated[str, Depends(annotator_of)]


async def browser_of(request: Request, context: Here) -> str:
    """Return a browser's identity among others of the same name."""
    return read_mark(request.cookies.get(context.browser_cookie))


Browser = Annotated[str, Depends(browser_of)]


def keep_name(name: str) -> str:
    """Return a name as a cookie can hold it."""
    return quote(name, safe="")


_CARD = Markup(
    '<section class="card empty"{}><h2>{}, but {}</h2><p class="fault">{}</p>'
    "<p>Nothing is lost.{}</p></section>"
)
_AGAIN = Markup(' hx-get="/task" hx-trigger="every 4s" hx-target="#task" tabindex="-1" data-task')
_CELL = Markup('<div class="cell done" tabindex="0" role="group"><p>{}, but {}.</p></div>')


def show_after_saving(
    show: Callable[[], Response], saved: str, failing: str, *, view: str = "files"
) -> Response:
    """Return the next page, or a message that the change is saved.

    An error would be told as "not saved", and people would answer again.

    Args:
        show: Makes the page.
        saved: The data already on disk.
        failing: What cannot be done, after "but".
        view: Where it is shown: ``one`` looks for the next image by itself.
    """
    try:
        return show()
    except Exception as error:  # noqa: BLE001 - whatever it is, the answer is kept
        reason = str(error) if isinstance(error, SteepestError) else type(error).__name__
        text = _CELL.format(saved, failing)
        if view != "grid":
            looks, words = (
                (_AGAIN, " This page looks again by itself.") if view == "one" else ("", "")
            )
            text = _CARD.format(looks, saved, failing, reason, words)
        return HTMLResponse(text, headers={"HX-Trigger": '{"answered": true}'})
