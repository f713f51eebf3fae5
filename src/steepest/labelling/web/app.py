"""The application: all pages, with errors in one line, behind the gate."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, Response
from starlette.exceptions import HTTPException

from steepest.errors import DataError, InputError, RunFolderError, SteepestError
from steepest.labelling.project import Project
from steepest.labelling.web import (
    accept_pages,
    file_pages,
    labelling_pages,
    list_pages,
    people_pages,
    picture_pages,
    progress_pages,
)
from steepest.labelling.web.gate import Gate, browser_cookie
from steepest.labelling.web.page_context import PageContext

_STATUS: dict[type[SteepestError], int] = {InputError: 400, DataError: 500, RunFolderError: 503}


def create_app(
    project: Project,
    *,
    token: str,
    host: str = "127.0.0.1",
    name: str | None = None,
    cookie: str = "steepest",
) -> Gate:
    """Put a project on pages.

    Args:
        project: What is labelled; the caller closes it, after the pages.
        token: Who knows it may come in.
        host: The address that is listened on.
        name: Who labels, unless the browser says otherwise; None asks.
        cookie: What the browser's cookies are called, to keep two projects apart.

    Returns:
        An ASGI application.

    Raises:
        InputError: If the name cannot be a person's.
    """
    app = FastAPI(title="steepest", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.context = PageContext(project, name, f"{cookie}-name", browser_cookie(cookie))
    for pages in (
        labelling_pages,
        progress_pages,
        list_pages,
        picture_pages,
        people_pages,
        accept_pages,  # before the exports of any kind
        file_pages,
    ):
        app.include_router(pages.router)
    for kind in _STATUS:
        app.add_exception_handler(kind, _explain)
    app.add_exception_handler(RequestValidationError, _explain_form)
    app.add_exception_handler(HTTPException, _explain_route)
    app.add_exception_handler(Exception, _explain_fault)
    return Gate(app, token=token, host=host, cookie=cookie)


async def _explain(request: Request, error: Exception) -> Response:
    del request
    status = next(code for kind, code in _STATUS.items() if isinstance(error, kind))
    return _line(str(error), status)


async def _explain_form(request: Request, error: Exception) -> Response:
    del request
    first = error.errors()[0] if isinstance(error, RequestValidationError) else {}
    where = " ".join(str(part) for part in first.get("loc", ())[1:])
    return _line(f"{where or 'request'}: {first.get('msg', 'cannot be understood')}", 422)


async def _explain_route(request: Request, error: Exception) -> Response:
    del request
    status = error.status_code if isinstance(error, HTTPException) else 500
    said = error.detail if isinstance(error, HTTPException) else "something went wrong"
    return _line(str(said), status)


async def _explain_fault(request: Request, error: Exception) -> Response:
    del request
    return _line(f"something went wrong here ({type(error).__name__}); try again", 500)


def _line(text: str, status: int) -> Response:
    return PlainTextResponse(" ".join(text.split()) + "\n", status)
