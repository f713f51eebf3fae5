"""HTML as nested calls: text is escaped unless it came out of here, and every tag is closed."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from importlib import resources

_VOID = frozenset({"br", "img", "meta"})


class Safe(str):
    """Text that is HTML already."""

    __slots__ = ()


def escape(text: object) -> Safe:
    """Return text as HTML; HTML is unchanged."""
    return text if isinstance(text, Safe) else Safe(html.escape(str(text)))


def element(tag: str, /, *children: object, **attributes: object) -> Safe:
    """Return one element.

    Args:
        tag: Its name.
        *children: Elements, or text to escape; None is left out.
        **attributes: ``class_`` stands for ``class`` and ``_`` for ``-``; None is left out.
    """
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _VOID:
        return Safe(f"<{tag}{given}>")
    return Safe(f"<{tag}{given}>{join(children)}</{tag}>")


def join(children: Iterable[object]) -> Safe:
    """Return elements one after the other, None left out."""
    return Safe("".join(escape(child) for child in children if child is not None))


def paragraph(text: str, kind: str | None = None, **attributes: object) -> Safe:
    """Return a paragraph in which ``n = 3`` and the like stay on one line."""
    kept = re.sub(r"\b([np]) ([=<]) ", "\\1\u00a0\\2\u00a0", text)
    return element("p", kept, class_=kind, **attributes)


def section(identity: str, title: str, *children: object) -> Safe:
    """Return a section with a heading that links can point at."""
    heading = element("h2", title, id=f"{identity}-title")
    return element("section", heading, *children, id=identity, aria_labelledby=f"{identity}-title")


def table(caption: object, header: Sequence[object], rows: Iterable[Sequence[object]]) -> Safe:
    """Return a table; on a phone each row is shown as a list, and a matrix scrolls sideways.

    Args:
        caption: A description of the table.
        header: Names of the columns.
        rows: The first cell of each heads its row; a cell that is a ready ``td`` is kept.
    """
    head = element("tr", *(element("th", name, scope="col") for name in header))
    body = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(_cell(cell, name) for cell, name in zip(row[1:], header[1:], strict=True)),
        )
        for row in rows
    ]
    matrix = any(" style=" in row for row in body)
    whole = element(
        "table",
        element("caption", element("span", caption)),
        element("thead", head),
        element("tbody", *body),
        class_=None if matrix else "stacked",
    )
    return element("div", whole, class_="scroll", tabindex="0", role="group", aria_label=caption)


def whole_page(title: str, header: Safe, main: Safe, foot: Safe, style: str = "") -> str:
    """Return one file of HTML that needs nothing from outside.

    Args:
        title: The browser's name for it.
        header: The header row.
        main: The page itself.
        foot: What stands below.
        style: CSS beyond that of all pages.
    """
    common = resources.files("steepest.core").joinpath("page.css").read_text("utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Safe(common + style)),
    )
    body = element("body", header, main, element("footer", foot))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def heat_cell(text: object, strength: float) -> Safe:
    """Return a table cell with a blue ground of a strength between 0 and 1.

    The blue is see-through, so that the text keeps its contrast on light and dark pages.
    """
    alpha = 0.04 + 0.36 * min(1.0, max(0.0, strength))
    return element("td", text, style=f"background-color:rgba(0,114,178,{alpha:.2f})")


def _cell(cell: object, column: object) -> Safe:
    ready = isinstance(cell, Safe) and cell.startswith("<td")
    if ready:
        return escape(cell)
    kind = "none" if cell == "–" else None
    return element("td", element("span", cell), class_=kind, data_label=str(column) or None)
