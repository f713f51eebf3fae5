from __future__ import annotations

import os
import sqlite3

import pytest
from small_project import make_names, open_project

from steepest.errors import DataError, InputError, RunFolderError
from steepest.labelling.project import Project, Settings


@pytest.mark.parametrize("each", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_thousands_of_files_are_listed_and_handed_out(each, tmp_path):
    photos = tmp_path / "photos"
    for folder in range(20):
        (photos / f"day {folder:02d}").mkdir(parents=True)
        for number in range(each):
            (photos / f"day {folder:02d}" / f"{number:04d}.jpg").touch()
    with open_project(photos, batch_size=5) as project:
        assert project.scan.added == project.scan.total == 20 * each
        tasks = project.queue.next("ann", 100)
        assert len({task.sample.split("/")[0] for task in tasks}) > 10
        project.queue.answer("ann", "day 07/0042.jpg", ["red"])
        assert project.progress().open == 20 * each - 1
    with open_project(photos, batch_size=5) as project:
        assert (project.scan.added, project.scan.missing, project.scan.total) == (0, 0, 20 * each)


def test_new_files_are_added_and_gone_ones_marked_until_they_are_back(tmp_path):
    photos = make_names(tmp_path / "photos", 4)
    with open_project(photos) as project:
        project.queue.answer("ann", "red-000.png", ["red"])
        (photos / "red-000.png").rename(tmp_path / "kept")
        (photos / "sub").mkdir()
        (photos / "sub" / "new.JPG").touch()
        found = project.rescan()
        assert (found.added, found.missing, found.back, found.total) == (1, 1, 0, 4)
        assert [s.sample for s in project.queue.samples(state="missing")] == ["red-000.png"]
        assert "sub/new.JPG" in {task.sample for task in project.queue.next("ann", 9)}
        (tmp_path / "kept").rename(photos / "red-000.png")
        found = project.rescan()
        assert (found.added, found.missing, found.back, found.total) == (0, 0, 1, 5)
        assert project.queue.label_of("red-000.png").labels == ("red",)
        assert project.progress().open == 4


def test_links_out_of_the_folder_and_hidden_files_are_left_out(tmp_path):
    photos = make_names(tmp_path / "photos", 2)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.png").touch()
    (photos / "link.png").symlink_to(outside / "secret.png")
    (photos / "folder").symlink_to(outside)
    (photos / "inside.png").symlink_to(photos / "red-000.png")
    (photos / "nowhere.png").symlink_to(photos / "gone.png")
    (photos / "._red-000.png").touch()
    (photos / ".git").mkdir()
    (photos / ".git" / "x.png").touch()
    (photos / "notes.txt").touch()
    os.mkfifo(photos / "pipe.png")
    with open_project(photos) as project:
        samples = [state.sample for state in project.queue.samples()]
        assert samples == ["green-001.png", "inside.png", "red-000.png"]
        assert project.scan.refused == ("folder", "link.png", "nowhere.png", "pipe.png")


def test_a_visible_project_folder_among_the_images_is_not_listed(tmp_path):
    photos = make_names(tmp_path / "photos", 2)
    place = photos / "project"
    (place / "thumbnails").mkdir(parents=True)
    (place / "thumbnails" / "x.jpg").touch()
    with open_project(photos, folder=place) as project:
        assert project.scan.total == 2
        assert (place / "labels.sqlite").is_file()


def test_everything_is_kept_on_opening_again(tmp_path):
    photos = make_names(tmp_path / "photos", 4)
    with open_project(photos, overlap=2, seed=7) as project:
        project.queue.answer("ann", "red-000.png", ["red"])
    with Project.open(photos, background=False) as project:
        assert project.settings == Settings(overlap=2, seed=7)
        assert project.classes() == ("red", "green", "blue")
        assert project.queue.label_of("red-000.png").labels == ("red",)


def test_settings_that_are_set_once_cannot_be_changed(tmp_path):
    photos = make_names(tmp_path / "photos", 4)
    open_project(photos).close()
    with pytest.raises(InputError, match="multi_label is False in this project"):
        open_project(photos, multi_label=True)
    with open_project(photos, overlap=2) as project:
        with pytest.raises(InputError, match="seed"):
            project.change_settings(seed=3)
        with pytest.raises(InputError, match="unknown setting 'overlop'"):
            project.change_settings(overlop=3)
        with pytest.raises(InputError, match="unknown strategy"):
            project.change_settings(strategy="guess")
        assert project.settings == Settings(overlap=2)


def test_more_overlap_is_for_what_is_asked_from_then_on(tmp_path):
    photos = make_names(tmp_path / "photos", 3)
    with open_project(photos) as project:
        project.queue.answer("ann", "red-000.png", ["red"])
        project.change_settings(overlap=2)
        assert project.progress().open == 2
        project.queue.answer("ann", "green-001.png", ["green"])
        assert {task.sample for task in project.queue.next("bob", 9)} == {
            "green-001.png",
            "blue-002.png",
        }
    with open_project(photos, overlap=3) as project:
        assert project.progress().open == 2
        assert project.ask_more() == 1
        assert project.progress().open == 3
        project.change_settings(overlap=1)
        assert project.progress().open == 1


def test_a_done_image_whose_answer_is_taken_back_is_asked_as_all_others_are(tmp_path):
    photos = make_names(tmp_path / "photos", 1)
    with open_project(photos) as project:
        project.queue.answer("ann", "red-000.png", ["red"])
    with open_project(photos, overlap=2) as project:
        assert project.queue.next("bob") == []
        project.queue.undo("ann")
        project.queue.answer("ann", "red-000.png", ["red"])
        assert len(project.queue.next("bob")) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"overlap": 0},
        {"batch_size": True},
        {"folds": 1},
        {"lease_seconds": float("nan")},
        {"validation_share": 0.6},
        {"lr": -1.0},
        {"augmentation": "twist"},
        {"mean": (0.5, 0.5, 0.5)},
        {"mean": (0.5,), "std": (0.5,)},
        {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.0)},
    ],
)
def test_settings_that_cannot_be_used_are_refused(wrong):
    with pytest.raises(InputError):
        Settings(**wrong)


def test_a_refused_project_can_be_opened_after_all(tmp_path):
    photos = make_names(tmp_path / "photos", 2)
    with pytest.raises(InputError):
        Project.open(photos, ["a/b"], background=False)
    with pytest.raises(InputError, match="unknown model"):
        open_project(photos, model="smal-cnn")
    with open_project(photos), pytest.raises(RunFolderError, match="in use"):
        open_project(photos)
    open_project(photos).close()


def test_damaged_and_foreign_files_are_refused(tmp_path):
    photos = make_names(tmp_path / "photos", 2)
    with pytest.raises(DataError, match="no such folder"):
        open_project(tmp_path / "nowhere")
    with pytest.raises(InputError, match="folder of its own"):
        open_project(photos, folder=photos)
    place = photos / ".steepest"
    place.mkdir()
    file = place / "labels.sqlite"
    file.write_bytes(b"no database at all" * 100)
    with pytest.raises(DataError, match="restore it"):
        open_project(photos)
    file.unlink()
    other = sqlite3.connect(file)
    other.execute("CREATE TABLE mine (x)")
    other.close()
    with pytest.raises(DataError, match="something else"):
        open_project(photos)
    other = sqlite3.connect(file)
    other.execute("PRAGMA user_version = 99")
    other.close()
    with pytest.raises(DataError, match="later steepest"):
        open_project(photos)


def test_a_closed_project_says_so(tmp_path):
    project = open_project(make_names(tmp_path / "photos", 2))
    project.close()
    with pytest.raises(RunFolderError, match="closed"):
        project.progress()


def test_a_project_kept_elsewhere_is_of_one_folder(tmp_path):
    ours = make_names(tmp_path / "ours", 2)
    theirs = make_names(tmp_path / "theirs", 2)
    place = tmp_path / "project"
    with open_project(ours, folder=place) as project:
        project.queue.answer("ann", "red-000.png", ["red"])
    with pytest.raises(InputError, match=r"is the project of .*ours"):
        open_project(theirs, folder=place)
    with open_project(ours, folder=place) as project:
        assert project.queue.label_of("red-000.png").labels == ("red",)
    moved = ours.rename(tmp_path / "moved")
    (place / "photos.txt").unlink()
    with open_project(moved, folder=place) as project:
        assert project.queue.label_of("red-000.png").labels == ("red",)


def test_other_files_and_links_to_folders_are_counted(tmp_path):
    photos = make_names(tmp_path / "photos", 2)
    for name in ("a.heic", "b.HEIC", "notes", ".hidden.heic"):
        (photos / name).touch()
    (tmp_path / "elsewhere").mkdir()
    (photos / "linked").symlink_to(tmp_path / "elsewhere")
    with open_project(photos) as project:
        assert project.scan.others == ((".heic", 2), ("", 1))
        assert (project.scan.refused, project.scan.total) == (("linked",), 2)
