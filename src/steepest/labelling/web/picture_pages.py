"""Pictures of samples, by their ids alone, and the files that pages are made with."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import PlainTextResponse, Response

from steepest.errors import DataError, InputError
from steepest.labelling.web.page_context import STATIC, Here

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
