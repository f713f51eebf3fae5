"""The project on the server: found by its title, or made."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from steepest.errors import InputError, SettingWarning
from steepest.labelling.exchange.folder import LoopFolder
from steepest.labelling.exchange.vocabulary import Vocabulary
from steepest.labelling.label_studio.client import Client, ServerError
from steepest.labelling.label_studio.tasks import MODEL_VERSION, find_difference, make_config

SAMPLING = "Uncertainty sampling"
_PAGE = 100
_LONGEST_TITLE = 50


@dataclass(frozen=True)
class Project:
    """A project of a server.

    Attributes:
        client: The server.
        id: The project's number there.
        title: Its name.
    """

    client: Client
    id: int
    title: str

    @property
    def url(self) -> str:
        """The address at which people label."""
        return f"{self.client.account.url}/projects/{self.id}"

    def tasks(self) -> Iterator[dict[str, Any]]:
        """Yield all tasks with their data, without annotations."""
        seen, page = 0, 1
        while True:
            query = {"project": self.id, "page": page, "page_size": _PAGE}
            answer = self.client.get("/api/tasks", **query, fields="task_only")
            yield from answer["tasks"]
            seen += len(answer["tasks"])
            page += 1
            if not answer["tasks"] or seen >= answer["total"]:
                return

    def export(self) -> list[dict[str, Any]]:
        """Return all tasks with their annotations.

        Raises:
            ServerError: If the server sends something else.
        """
        path = f"/api/projects/{self.id}/export"
        tasks = self.client.get(path, exportType="JSON", download_all_tasks="true")
        if not isinstance(tasks, list):
            raise ServerError(f"{self.client.account.url}: sent no tasks; check the address")
        return tasks

    def put_in_order(self) -> None:
        """Make the server serve tasks by our predictions' scores; it must have some."""
        path = f"/api/projects/{self.id}/"
        described = self.client.get(path)
        if described.get("model_version") != MODEL_VERSION:
            self.client.patch(path, {"model_version": MODEL_VERSION})
        if described.get("sampling") != SAMPLING:
            warnings.warn(
                f"project {self.title!r} does not serve tasks by uncertainty, and so not in our "
                "order; choose uncertainty sampling in its settings",
                SettingWarning,
                stacklevel=2,
            )


def default_title(folder: LoopFolder) -> str:
    """Return the title of a loop's project if none is given."""
    return f"steepest {folder.path.resolve().name}"[:_LONGEST_TITLE].strip()


def find_project(client: Client, title: str, words: Vocabulary) -> Project | None:
    """Return the project of that title, or None if there is none.

    Raises:
        InputError: If there are several, or it asks for other classes.
    """
    found = [p for p in _all_projects(client, title) if p["title"] == title]
    if len(found) > 1:
        raise InputError(f"there are {len(found)} projects {title!r} on the server; rename one")
    if not found:
        return None
    if why := find_difference(found[0].get("parsed_label_config") or {}, words):
        raise InputError(
            f"project {title!r} does not ask what this loop asks: {why}; choose another --title"
        )
    return Project(client, int(found[0]["id"]), title)


def ensure_project(client: Client, title: str, words: Vocabulary) -> Project:
    """Return the project of that title, made if it is not there.

    Raises:
        InputError: If the title cannot be used.
        ServerError: If the server refuses.
    """
    if not 3 <= len(title) <= _LONGEST_TITLE:
        raise InputError(f"--title {title!r}: use 3 to {_LONGEST_TITLE} letters")
    settings = {
        "title": title,
        "label_config": make_config(words),
        "sampling": SAMPLING,
        "show_collab_predictions": True,
    }
    find = partial(find_project, client, title, words)
    make = partial(client.post, "/api/projects/", settings)
    while (project := find()) is None:
        # Without an answer, it may have been made all the same: look before trying again.
        client.insist(make, again=lambda: find() or make())
    return project


def _all_projects(client: Client, title: str) -> Iterator[dict[str, Any]]:
    page = 1
    while True:
        answer = client.get("/api/projects/", title=title, page=page, page_size=_PAGE)
        try:
            yield from answer["results"]
            more = answer["next"]
        except (KeyError, TypeError):
            raise ServerError(
                f"{client.account.url}: did not answer as Label Studio does; check the address"
            ) from None
        if not more:
            return
        page += 1
