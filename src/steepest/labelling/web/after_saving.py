"""The message shown when a change is saved but the page that follows it fails."""

from __future__ import annotations

from collections.abc import Callable

from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup

from steepest.errors import SteepestError

_CARD = Markup(
    '<section class="card empty"{}><h2>{}, but {}</h2><p class="fault">{}</p>'
    "<p>Nothing is lost.{}</p></section>"
)
_AGAIN = Markup(' hx-get="/task" hx-trigger="every 4s" hx-target="#task" tabindex="-1" data-task')
_CELL = Markup('<div class="cell done" tabindex="0" role="group"><p>{}, but {}.</p></div>')


def show_after_saving(
    show: Callable[[], Response], saved: str, failing: str, *, view: str = "files"
) -> Response:
    """Return the page that follows, or say that what went before is kept.

    An error would be told as "not saved", and people would answer again.

    Args:
        show: Makes the page.
        saved: What is on disk.
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
