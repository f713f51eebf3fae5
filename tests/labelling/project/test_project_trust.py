"""A folder of images may come from anybody, with a project in it: opening it does no harm."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from small_project import CLASSES, make_names, open_project

from steepest.errors import InputError
from steepest.labelling.project import Project, trainer
from steepest.labelling.project.pictures import trim
from steepest.labelling.project.settings import change as change_settings
from steepest.labelling.project.settings import save_settings


@pytest.fixture
def photos(tmp_path):
    return make_names(tmp_path / "photos", 3)


def store(photos, **settings):
    """Put settings into a project as somebody else might, unchecked."""
    with open_project(photos) as project, project.store.writing() as connection:
        save_settings(connection, change_settings(project.settings, settings))


@pytest.mark.parametrize("name", ["model", "strategy", "weak_strategy"])
def test_code_that_only_the_project_names_is_not_run(name, photos):
    store(photos, **{name: "subprocess:Popen"})
    with pytest.raises(InputError, match=f"'subprocess:Popen' run as its {name}.* --set {name}="):
        Project.open(photos, background=False)


def test_code_that_is_named_anew_is_the_users_own(photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_net.py").write_text("def net(classes): ...\n")
    for _ in range(2):
        with open_project(photos, model="my_net:net") as project:
            assert project.settings.model == "my_net:net"
    with pytest.raises(InputError, match="my_net:net"):
        Project.open(photos, background=False)


@pytest.mark.parametrize(
    "name", ["thumbnails", "training.log", "project.lock", "labels.sqlite", "models"]
)
def test_nothing_in_a_project_may_lead_elsewhere(name, photos, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("years of work")
    (photos / ".steepest").mkdir()
    (photos / ".steepest" / name).symlink_to(precious)
    with pytest.raises(InputError, match=f"{name} is a link"):
        Project.open(photos, CLASSES, background=False)
    assert precious.read_text() == "years of work"


def test_files_that_are_no_pictures_of_ours_are_never_trimmed(tmp_path):
    documents = tmp_path / "documents"
    documents.mkdir()
    for name in ("thesis.txt", "holiday.jpg", f"{'0' * 32}.jpg.bak"):
        (documents / name).write_bytes(bytes(1000))
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "00").symlink_to(documents)
    trim(cache, 100)
    assert len(os.listdir(documents)) == 3  # noqa: PTH208 - nothing but names


def test_modules_of_the_current_directory_are_not_imported_for_a_training(
    photos, tmp_path, monkeypatch
):
    asked = []

    class Noted:
        stdin, pid = None, 0

        def __init__(self, command, **_):
            asked.append(command)

        def wait(self, timeout=None):
            del timeout
            return 0

    monkeypatch.setattr(trainer.subprocess, "Popen", Noted)
    with open_project(photos, background=True) as project:
        project.trainer.request()
        assert project.trainer.wait(10)
    monkeypatch.undo()
    (tmp_path / "steepest").mkdir()
    (tmp_path / "steepest" / "__init__.py").write_text("raise SystemExit('code of the folder')\n")
    as_started = asked[0][: asked[0].index("-m")]
    done = subprocess.run(
        [*as_started, "-c", "import steepest; print(steepest.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert str(tmp_path) not in done.stdout
    assert as_started[0] == sys.executable
