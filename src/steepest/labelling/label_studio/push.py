"""Send picks to Label Studio; existing tasks are skipped."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from steepest.errors import InputError, UnknownNameError
from steepest.labelling.exchange.folder import LoopFolder
from steepest.labelling.exchange.next_round import find_waiting
from steepest.labelling.exchange.vocabulary import SEGMENTATION
from steepest.labelling.label_studio.client import ServerError
from steepest.labelling.label_studio.pictures import Gallery, Picture, local_files_url
from steepest.labelling.label_studio.project import Project
from steepest.labelling.label_studio.tasks import ID, KEY, Pick, Task, make_task, picks_of
from steepest.labelling.project.ledger import ProjectPool

IMAGES = ("upload", "embed", "local")
_MOST_TASKS, _MOST_BYTES = 50, 32 << 20
"""Limits of one request: servers refuse large ones."""

Shown = tuple[Pick, Picture | None]
"""A pick, and its picture if that has to be looked at."""


@dataclass(frozen=True)
class Pictures:
    """The way pictures reach the people who label.

    Attributes:
        how: ``"upload"`` sends the files, ``"embed"`` writes them into the tasks, ``"local"``
            names files that the server itself can read.
        pool: The location of the samples; None takes the place that the loop knows.
        root: The folder that the server may read, for ``"local"``.
    """

    how: str = "upload"
    pool: Path | None = None
    root: Path | None = None

    def __post_init__(self) -> None:
        if self.how not in IMAGES:
            raise UnknownNameError("way to send images", self.how, IMAGES)
        if self.how == "local" and self.root is None:
            raise InputError("--images local needs --local-root, Label Studio's document root")


def push(folder: LoopFolder, project: Project, pictures: Pictures) -> tuple[int, int]:
    """Make a task of each sample that waits for a label and has none.

    Returns:
        The number of new tasks, and of those that were there.

    Raises:
        RunFolderError: If the samples are rows of an array that is not the one they were picked
            from; then no task is made.
        ServerError: If the server refuses; the same call resumes.
    """
    pool = folder.read_pool()
    waiting = _waiting(folder, pool)
    if not waiting:
        return 0, 0
    gallery = Gallery(pictures.pool or folder.source)
    key = folder.key(pool)

    def send(picks: Sequence[Pick]) -> None:
        needed = pictures.how != "local" or folder.vocabulary.task == SEGMENTATION
        for batch in _batches(picks, gallery if needed else None):
            _send(batch, folder, project, pictures, gallery, key)

    missing = _missing(waiting, project, key)
    if missing:
        # A row number says nothing about what is in the row: people would label other samples.
        folder.check_array(gallery.identity())
        # A batch without an answer may have arrived all the same: look before each further try.
        project.client.insist(
            lambda: send(missing), again=lambda: send(_missing(waiting, project, key))
        )
    project.put_in_order()
    return len(missing), len(waiting) - len(missing)


def _waiting(folder: LoopFolder, pool: ProjectPool) -> list[Pick]:
    """Return the waiting samples of all rounds; unscored ones come first."""
    return [pick for number, part in find_waiting(folder, pool) for pick in picks_of(part, number)]


def _missing(picks: Sequence[Pick], project: Project, key: str) -> list[Pick]:
    """Return the picks that have no task.

    Raises:
        InputError: If the project holds tasks of another pool.
    """
    there = set()
    for task in project.tasks():
        data = task.get("data", {})
        if ID in data:
            if data.get(KEY, key) != key:
                raise InputError(
                    f"project {project.title!r} holds tasks of another pool; choose another --title"
                )
            there.add(str(data[ID]))
    return [pick for pick in picks if str(pick.id) not in there]


def _batches(picks: Sequence[Pick], gallery: Gallery | None) -> Iterator[list[Shown]]:
    batch: list[Shown] = []
    held_bytes = 0
    for pick in picks:
        shown = None if gallery is None else gallery.picture(pick.id)
        size_bytes = 0 if shown is None else len(shown.content)
        if batch and (len(batch) == _MOST_TASKS or held_bytes + size_bytes > _MOST_BYTES):
            yield batch
            batch, held_bytes = [], 0
        batch.append((pick, shown))
        held_bytes += size_bytes
    if batch:
        yield batch


def _send(
    batch: Sequence[Shown],
    folder: LoopFolder,
    project: Project,
    pictures: Pictures,
    gallery: Gallery,
    key: str,
) -> None:
    places: Mapping[str, str] = {}
    if pictures.how == "upload":
        places = _upload([shown for _, shown in batch if shown is not None], project)
    tasks: list[Task] = []
    for pick, shown in batch:
        if shown is None or pictures.how == "local":
            url = local_files_url(gallery.path(pick.id), pictures.root or Path())
        else:
            url = places[shown.name] if places else shown.data_url
        tasks.append(make_task(pick, url, shown.size if shown else None, folder, key))
    project.client.post(f"/api/projects/{project.id}/import", tasks)


def _upload(pictures: Sequence[Picture], project: Project) -> Mapping[str, str]:
    """Send the pictures that are not there and return each one's address by name."""
    there = _uploaded(project)
    missing = {p.name: p for p in pictures if p.name not in there}
    if missing:
        body, kind = _form(list(missing.values()))
        # Without this, each file would become its own task.
        path = f"/api/projects/{project.id}/import?commit_to_project=false"
        project.client.post_form(path, body, kind)
        there = _uploaded(project)
    lost = next((p.name for p in pictures if p.name not in there), None)
    if lost is not None:
        raise ServerError(f"{project.client.account.url}: did not keep the upload {lost}")
    return there


def _uploaded(project: Project) -> dict[str, str]:
    """Return addresses of our uploads by the names that we gave them."""
    path = f"/api/projects/{project.id}/file-uploads"
    files = [str(entry["file"]) for entry in project.client.get(path, all="true")]
    # The server puts some letters and a dash in front of a name.
    return {
        "steepest-" + file.rsplit("steepest-", 1)[1]: f"/data/{file}"
        for file in files
        if "steepest-" in file
    }


def _form(pictures: Sequence[Picture]) -> tuple[bytes, str]:
    """Return files as a form of the web, and the kind of content that it is."""
    border = secrets.token_hex(16)
    parts = []
    for number, picture in enumerate(pictures):
        head = (
            f'--{border}\r\nContent-Disposition: form-data; name="file{number}"; '
            f'filename="{picture.name}"\r\nContent-Type: {picture.media_type}\r\n\r\n'
        )
        parts.append(head.encode() + picture.content + b"\r\n")
    body = b"".join([*parts, f"--{border}--\r\n".encode()])
    return body, f"multipart/form-data; boundary={border}"
