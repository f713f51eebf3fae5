"""A small project behind its pages, without a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.testclient import TestClient

from steepest.labelling.project import Project, Settings
from steepest.labelling.web.app import create_app

TOKEN = "a-token-that-nobody-guesses"
ADDRESS = "http://127.0.0.1:8433"
CLASSES = ("cat", "dog", "owl")


@contextmanager
def open_pages(
    photos: Path, *, classes=CLASSES, name: str | None = "ann", host="127.0.0.1", **settings
) -> Iterator[tuple[Project, TestClient]]:
    """Open a project and a browser that was let in."""
    with Project.open(photos, classes, settings=Settings(**settings), background=False) as project:
        app = create_app(project, token=TOKEN, name=name, host=host)
        with TestClient(app, base_url=ADDRESS, raise_server_exceptions=False) as client:
            client.headers["X-Steepest"] = "1"
            assert client.get(f"/?token={TOKEN}").status_code == 200
            yield project, client


def stranger(client: TestClient) -> TestClient:
    """Return a browser that was not let in, at the same server."""
    return TestClient(client.app, base_url=ADDRESS, raise_server_exceptions=False)


def is_one_line(text: str) -> bool:
    return (
        text.endswith("\n") and text.count("\n") == 1 and len(text) > 5 and "Traceback" not in text
    )
