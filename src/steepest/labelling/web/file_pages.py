"""Labels out of the project and into it, as files."""

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
from steepest.labelling.project.all_predictions import list_predictions
from steepest.labelling.project.exporting import label_text, need_folder
from steepest.labelling.project.label_files import SUFFIXES
from steepest.labelling.project.store import FILE_NAME
from steepest.labelling.web.after_saving import show_after_saving
from steepest.labelling.web.folder_zip import read_folders, stream_folders
from steepest.labelling.web.page_context import Annotator, Here, PageContext

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
    """Show what can be taken out and in."""
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
