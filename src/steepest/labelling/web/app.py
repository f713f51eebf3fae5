"""The application: all pages, pictures and static files, behind the gate."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, FastAPI, Query, Request
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
    progress_pages,
)
from steepest.labelling.web.gate import Gate, browser_cookie
from steepest.labelling.web.page_context import STATIC, Here, PageContext

router = APIRouter()

_KEEP_PICTURE = "private, max-age=600"
_KEEP_ASSET = "private, max-age=86400"


@router.get("/picture")
def picture(
    request: Request,
    context: Here,
    sample: Annotated[str, Query(max_length=4096)],
    side: Annotated[int, Query(ge=16, le=2048)] = 1024,
) -> Response:
    """Show a sample."""
    try:
        found = context.project.pictures.thumbnail(sample, side)
    except InputError as error:
        return PlainTextResponse(f"{error}\n", 404)
    except DataError as error:
        return PlainTextResponse(f"{error}\n", 422)
    headers = {"etag": f'"{found.etag}"', "cache-control": _KEEP_PICTURE}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(found.data, media_type=found.media_type, headers=headers)


@router.get("/static/{name}")
async def static(context: Here, name: str) -> Response:
    """Give out one of the files that pages are made with."""
    if name not in STATIC:
        return PlainTextResponse("no such file\n", 404)
    return Response(
        context.static[name], media_type=STATIC[name], headers={"cache-control": _KEEP_ASSET}
    )


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
        project: The project to label; the caller closes it, after the pages.
        token: Who knows it may come in.
        host: The address that is listened on.
        name: The person who labels, unless the browser says otherwise; None asks.
        cookie: The name of the browser's cookies, to keep two projects apart.

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
        accept_pages,  # before the exports of any kind
        file_pages,
    ):
        app.include_router(pages.router)
    app.include_router(router)
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
