"""Files and settings: labels out of the project and into it, classes, names and hints."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated, BinaryIO, Literal

from fastapi import APIRouter, File, Form, UploadFile
from fastapi.responses import HTMLResponse, Response, StreamingResponse

from steepest.core.files import SCRATCH_PREFIX
from steepest.core.wording import counted
from steepest.errors import InputError
from steepest.labelling.project import ImportReport
from steepest.labelling.project.exporting import label_text, need_folder
from steepest.labelling.project.importing import SUFFIXES
from steepest.labelling.project.predictions import list_predictions
from steepest.labelling.project.store import FILE_NAME
from steepest.labelling.web.folder_zip import read_folders, stream_folders
from steepest.labelling.web.gate import YEAR_SECONDS
from steepest.labelling.web.page_context import (
    Annotator,
    Browser,
    Here,
    PageContext,
    Visitor,
    keep_name,
    show_after_saving,
)

router = APIRouter()

_MOST_CONFLICTS = 20
_CHUNK_BYTES = 1 << 20
_TYPES = {
    "csv": "text/csv",
    "jsonl": "application/jsonl",
    "zip": "application/zip",
    "answers": "text/csv",
}
_NAMES = {
    "csv": "labels.csv",
    "jsonl": "labels.jsonl",
    "zip": "labelled.zip",
    "answers": "answers.csv",
}


@router.get("/files")
def files(context: Here, who: Annotator) -> HTMLResponse:
    """Show the exports and imports."""
    values = {
        "page": "files",
        "place": str(context.project.folder),
        "figure": context.figures.look(),
        "work": context.figures.work(),
        "predicted": list_predictions(context.project.store, context.project.settings),
    }
    return context.show("files.html", values, who=who)


@router.get("/export/{kind}")
def export(context: Here, kind: Literal["csv", "jsonl", "zip", "answers", "sqlite"]) -> Response:
    """Give out all labels, each person's answers, or the project's file."""
    if kind == "sqlite":
        return _copy_of_project(context)
    name = _NAMES[kind]
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    if kind == "zip":
        need_folder(context.project.source)
        pieces = stream_folders(context.project)
        return StreamingResponse(pieces, media_type=_TYPES[kind], headers=headers)
    # Not by way of the disk: when it is full, people want their labels most.
    if kind == "answers":
        text = context.project.answers_table()
    else:
        text = label_text(context.project.label_rows(), kind)
    return Response(text.encode(), media_type=_TYPES[kind], headers=headers)


def _copy_of_project(context: PageContext) -> Response:
    # Removed while it is still open: nothing stays behind, however the download ends.
    with tempfile.TemporaryDirectory(
        dir=context.project.folder, prefix=SCRATCH_PREFIX, ignore_cleanup_errors=True
    ) as folder:
        path = Path(folder, FILE_NAME)
        context.project.store.copy_to(path)
        copy, size_bytes = path.open("rb"), path.stat().st_size
    headers = {
        "content-disposition": f'attachment; filename="{FILE_NAME}"',
        "content-length": str(size_bytes),
    }
    return StreamingResponse(_pieces(copy), media_type="application/vnd.sqlite3", headers=headers)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while piece := file.read(_CHUNK_BYTES):
            yield piece


@router.post("/import")
def take_in(
    context: Here,
    who: Annotator,
    file: Annotated[UploadFile, File()],
    known_only: Annotated[bool, Form()] = False,
) -> Response:
    """Take labels from a file: all of them, or none if one cannot be understood."""
    name = PurePosixPath((file.filename or "").replace("\\", "/")).name
    suffix = PurePosixPath(name).suffix.lower()
    if suffix == ".zip":
        zipped = file.file
        report = context.project.import_given(
            lambda classes: read_folders(zipped, name, classes, context.project.source.kind),
            known_only=known_only,
        )
    elif suffix in SUFFIXES:
        report = _import(context, name, suffix, file.file, known_only=known_only)
    else:
        raise InputError(
            f"labels come as {', '.join(SUFFIXES)}, or a .zip with a folder for each class"
        )
    values = {
        "report": report,
        "conflicts": report.conflicts[:_MOST_CONFLICTS],
        "name": name,
    }

    def show() -> Response:
        return context.show("imported.html", values, who=who, events={"answered": True})

    added = f"Imported: {counted(report.added, 'label')} of {name}"
    return show_after_saving(show, added, "the page cannot be shown")


def _import(
    context: PageContext, name: str, suffix: str, given: BinaryIO, *, known_only: bool
) -> ImportReport:
    folder = _scratch(context)
    path = folder / f"labels{suffix}"
    try:
        with path.open("wb") as copy:
            shutil.copyfileobj(given, copy)
        return context.project.import_labels(path, known_only=known_only)
    except InputError as error:
        # People know the file by their own name for it.
        raise InputError(str(error).replace(str(path), name)) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _scratch(context: PageContext) -> Path:
    return Path(tempfile.mkdtemp(dir=context.project.folder, prefix=SCRATCH_PREFIX))


@router.post("/name")
def name(
    context: Here, before: Visitor, browser: Browser, name: Annotated[str, Form(max_length=200)]
) -> Response:
    """Remember who labels in this browser; images held under another name are returned."""
    name = context.project.queue.find_annotator(name.strip())
    if before is not None and before != name:
        context.project.queue.release(before, browser)
    answer = Response(status_code=204, headers={"HX-Redirect": "/"})
    answer.set_cookie(
        context.cookie, keep_name(name), max_age=YEAR_SECONDS, httponly=True, samesite="strict"
    )
    return answer


@router.post("/classes")
def add_class(
    context: Here, who: Annotator, name: Annotated[str, Form(max_length=200)]
) -> Response:
    """Add a class."""
    context.project.add_class(name.strip(), by=who)
    return Response(status_code=204, headers={"HX-Redirect": "/files"})


@router.post("/rename")
def rename_class(
    context: Here,
    who: Annotator,
    old: Annotated[str, Form(max_length=200)],
    new: Annotated[str, Form(max_length=200)],
) -> Response:
    """Rename a class."""
    context.project.rename_class(old, new.strip(), by=who)
    return Response(status_code=204, headers={"HX-Redirect": "/files"})


@router.post("/hints")
def hints(context: Here, who: Annotator, *, shown: Annotated[bool, Form()] = False) -> Response:
    """Set whether people see the model's prediction before they answer."""
    del who
    context.project.change_settings(hints=shown)
    return Response(status_code=204, headers={"HX-Redirect": "/files"})
