"""Answers outlive a power cut once they were acknowledged, and wait for the disk together."""

from __future__ import annotations

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from small_project import make_names, open_project

from steepest.errors import DataError
from steepest.labelling.project import store as store_module

PEOPLE = 8


class Disk:
    """What is on the disk: the project's files as they were when it was last waited for."""

    def __init__(self, project, kept, slow=0.0):
        self.folder, self.kept, self.slow = project.folder, kept, slow
        self.waits = 0
        self.guard = threading.Lock()

    def sync(self, path):
        if path != self.folder / "labels.sqlite-wal":
            return  # of what was found after a power cut
        with self.guard:
            self.waits += 1
            now = self.kept / f"{self.waits:03d}"
        shutil.copytree(self.folder, now)
        time.sleep(self.slow)

    def after_a_power_cut(self, photos, where):
        """Return a project on what was on the disk, whose photos are the same."""
        shutil.copytree(max(self.kept.iterdir()), where)
        (where / "labels.sqlite-shm").unlink(missing_ok=True)
        return open_project(photos, folder=where)


@pytest.fixture
def photos(tmp_path):
    return make_names(tmp_path / "photos", 80)


def test_what_was_acknowledged_is_on_the_disk(photos, tmp_path, monkeypatch):
    with open_project(photos) as project:
        disk = Disk(project, tmp_path / "kept")
        monkeypatch.setattr(store_module, "sync_file", disk.sync)
        for number in range(3):
            (task,) = project.queue.next("ann")
            project.queue.answer("ann", task.sample, ["red"])
            with disk.after_a_power_cut(photos, tmp_path / f"cut-{number}") as found:
                assert found.queue.answer_of("ann", task.sample).labels == ("red",)
        project.queue.undo("ann")
        with disk.after_a_power_cut(photos, tmp_path / "cut-undo") as found:
            assert found.queue.answer_of("ann", task.sample) is None
            assert found.progress().labelled == 2


def test_asking_does_not_wait_for_the_disk(photos, tmp_path, monkeypatch):
    with open_project(photos) as project:
        disk = Disk(project, tmp_path / "kept")
        monkeypatch.setattr(store_module, "sync_file", disk.sync)
        (task,) = project.queue.next("ann")
        project.queue.renew("ann", [task.sample], seconds=9.0)
        project.queue.release("ann")
        assert disk.waits == 0


def test_many_people_wait_for_the_disk_together(photos, tmp_path, monkeypatch):
    with open_project(photos) as project:
        disk = Disk(project, tmp_path / "kept", slow=0.02)
        monkeypatch.setattr(store_module, "sync_file", disk.sync)

        def label(person):
            for _ in range(5):
                (task,) = project.queue.next(f"p{person}")
                project.queue.answer(f"p{person}", task.sample, ["green"])

        with ThreadPoolExecutor(PEOPLE) as people:
            list(people.map(label, range(PEOPLE)))
        assert disk.waits < 5 * PEOPLE / 2
        with disk.after_a_power_cut(photos, tmp_path / "cut") as found:
            assert found.progress().labelled == 5 * PEOPLE


def test_after_an_error_of_the_disk_nothing_is_acknowledged_any_more(photos, monkeypatch):
    def fail(path):
        raise OSError(5, "Input/output error")

    with open_project(photos) as project:
        with monkeypatch.context() as broken:
            broken.setattr(store_module, "sync_file", fail)
            with pytest.raises(DataError, match="Input/output error"):
                project.queue.answer("ann", "red-000.png", ["red"])
        with pytest.raises(DataError, match="end steepest"):
            project.queue.answer("ann", "green-001.png", ["red"])
