"""Copies follow one label, and where labels differ or files change, nothing is settled unseen."""

from __future__ import annotations

import os

import pytest
from small_project import make_photos, open_project, truth

from steepest.cli.label import _say_changes, _say_import
from steepest.errors import DataError
from steepest.labelling.project.retraining import _list_labelled
from steepest.labelling.project.round import Round
from steepest.labelling.project.scanning import look_closely

RED, GREEN, BLUE = "red-000.png", "green-001.png", "blue-002.png"


@pytest.fixture
def photos(tmp_path):
    """Make a folder in which two files are copies of one."""
    folder = make_photos(tmp_path / "photos", 6)
    for name in ("x-1.png", "x-2.png"):
        (folder / name).write_bytes((folder / RED).read_bytes())
    return folder


def look(project):
    look_closely(project.store, project.source, project.settings)


def replace_bytes(path):
    """Put another content of the same size in the place of a file's, with another date."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**9))


def told(project):
    return [(row.sample, *row.labels, row.copy_of) for row in project.label_rows()]


def test_copies_with_different_labels_are_shown_and_others_follow_neither(photos, capsys):
    with open_project(photos) as project:
        project.queue.answer("ann", "x-1.png", ["green"])
        project.queue.answer("bob", RED, ["red"])
        look(project)
        assert [s.sample for s in project.queue.samples(state="differing")] == [RED, "x-1.png"]
        assert project.progress().differing == 2
        assert told(project) == [(RED, "red", None), ("x-1.png", "green", None)]
        third = project.queue.label_of("x-2.png")
        assert (third.labels, third.disputed, third.copy_of) == (None, True, RED)
        assert project.queue.samples(state="copies")[0].followed is None
        _say_changes(project, ask_more=False)
        assert capsys.readouterr().out.startswith("2 copies have different labels: decide")
        project.queue.answer("ann", "x-1.png", ["red"])
        assert project.progress().differing == 0
        assert told(project)[-1] == ("x-2.png", "red", RED)
        assert project.queue.samples(state="copies")[0].followed == ("red",)


def test_a_file_replaced_before_its_first_answer_gives_its_copies_no_label(photos):
    with open_project(photos) as project:
        look(project)
        replace_bytes(photos / RED)
        project.queue.answer("ann", RED, ["blue"])
        assert told(project) == [(RED, "blue", None)]
        assert project.rescan().changed == 0
        assert project.queue.label_of("x-2.png").copy_of == "x-1.png"


@pytest.mark.parametrize("imported", [False, True])
def test_undoing_an_answer_to_a_new_file_does_not_bring_back_that_to_the_old(
    photos, tmp_path, imported
):
    with open_project(photos) as project:
        if imported:
            (tmp_path / "a.csv").write_text(f"id,label\n{GREEN},green\n")
            project.import_labels(tmp_path / "a.csv")
            look(project)
        else:
            project.queue.answer("ann", GREEN, ["green"])
        replace_bytes(photos / GREEN)
        assert project.rescan().changed == 1
        project.queue.answer("ann", GREEN, ["blue"])
        assert [a.earlier_file for a in project.queue.history(sample=GREEN)] == [False, True]
        project.queue.undo("ann")
        assert project.queue.label_of(GREEN).labels is None
        assert project.queue.next("ann")[0].sample == GREEN


def test_without_its_answer_a_changed_file_is_no_copy_of_what_it_was(photos):
    with open_project(photos) as project:
        project.queue.answer("bob", RED, ["red"])
        project.queue.answer("ann", "x-1.png", ["red"])
        replace_bytes(photos / "x-1.png")
        assert project.rescan().changed == 1
        project.queue.undo("ann")
        project.queue.release("ann")
        look(project)
        assert told(project) == [(RED, "red", None), ("x-2.png", "red", RED)]


def test_answers_about_different_files_are_shown_as_of_a_changed_one(photos):
    before = (photos / RED).read_bytes()
    with open_project(photos, overlap=3) as project:
        project.queue.answer("ann", RED, ["red"])
        look(project)
        assert len(told(project)) == 3
        replace_bytes(photos / RED)
        project.queue.answer("bob", RED, ["red"])
        assert project.progress().changed == 1
        assert told(project) == [(RED, "red", None)]
        (photos / RED).write_bytes(before)
        assert project.rescan().changed == 1


def test_kept_labels_hold_for_the_new_file_alone_and_its_next_change_shows(photos):
    with open_project(photos) as project:
        look(project)
        project.queue.answer("ann", RED, ["red"])
        assert len(told(project)) == 3
        replace_bytes(photos / RED)
        project.rescan()
        assert project.keep_labels() == 1
        assert told(project) == [(RED, "red", None)]
        replace_bytes(photos / RED)
        assert project.rescan().changed == 1
        # What is there now was not looked at, and what is gone cannot be.
        replace_bytes(photos / RED)
        assert project.keep_labels() == 0
        (photos / RED).unlink()
        assert (project.keep_labels(), project.progress().changed) == (0, 1)


def test_labels_that_copies_have_already_are_not_made_their_own(photos, tmp_path):
    with open_project(photos) as project:
        look(project)
        project.queue.answer("ann", RED, ["red"])
        project.export_labels(tmp_path / "a.csv")
        report = project.import_labels(tmp_path / "a.csv")
        assert (report.added, report.unchanged) == (0, 3)
        (tmp_path / "b.csv").write_text("id,label\nx-1.png,blue\n")
        (conflict,) = project.import_labels(tmp_path / "b.csv").conflicts
        assert (conflict.present, conflict.given) == (("red",), ("blue",))
        project.queue.answer("ann", RED, ["green"])
        assert [row[1] for row in told(project)] == ["green"] * 3
    with open_project(photos, folder=tmp_path / "second") as project:
        look(project)
        assert project.import_labels(tmp_path / "b.csv").added == 1
        assert told(project)[0] == (RED, "blue", "x-1.png")


def test_a_file_of_labels_does_not_bring_back_what_was_given_up(photos, tmp_path, capsys):
    (tmp_path / "a.csv").write_text(f"id,label\n{GREEN},green\n")
    with open_project(photos) as project:
        project.import_labels(tmp_path / "a.csv")
        look(project)
        replace_bytes(photos / GREEN)
        project.rescan()
        assert project.ask_again() == 1
        _say_import(tmp_path / "a.csv", project.import_labels(tmp_path / "a.csv"))
        said = capsys.readouterr().out
        assert said.endswith(
            "0 labels added, 1 given up before, about an earlier file (passed over)\n"
        )
        assert project.labels() == []


def test_models_learn_from_renamed_files_and_are_not_tested_on_copies(photos):
    def listed(project, *, held_out):
        with project.store.reading() as connection:
            this = Round(project.store, project.source, "token")
            return [row["id"] for row in _list_labelled(connection, this, held_out)]

    with open_project(photos, validation_share=0.0) as project:
        for name in (RED, GREEN, "x-1.png"):
            project.queue.answer("ann", name, [truth(name) if name != "x-1.png" else "red"])
        (photos / GREEN).rename(photos / "y.png")
        look(project)
        assert project.why_no_model() is None
        assert listed(project, held_out=False) == [RED, "x-1.png", "y.png"]
        with project.store.writing() as connection:
            connection.execute(
                "UPDATE images SET held_out = 1 WHERE id IN ('x-1.png', ?)", (GREEN,)
            )
        assert listed(project, held_out=True) == ["y.png"]


def test_another_copy_is_asked_about_when_the_first_cannot_be_shown(photos):
    with open_project(photos) as project:
        look(project)
        (photos / RED).unlink()
        with pytest.raises(DataError):
            project.pictures.thumbnail(RED)
        assert project.queue.label_of("x-2.png").copy_of == "x-1.png"
        assert "x-1.png" in {task.sample for task in project.queue.next("ann", 9)}


def test_only_images_that_wait_for_more_people_are_said_to_be_asked_again(photos, tmp_path):
    (tmp_path / "a.csv").write_text(f"id,label\n{BLUE},blue\n")
    with open_project(photos) as project:
        project.import_labels(tmp_path / "a.csv")
        project.queue.answer("ann", RED, ["red"])
        for person in ("ann", "bob"):
            project.queue.answer(person, GREEN, ["green"])
    with open_project(photos, overlap=2) as project:
        assert (project.ask_more(), project.ask_more()) == (1, 0)


def test_a_picture_is_made_anew_when_only_the_size_of_its_file_changed(photos):
    with open_project(photos) as project:
        os.utime(photos / RED, (1000, 1000))
        before = project.pictures.thumbnail(RED, 64).etag
        (photos / RED).write_bytes((photos / RED).read_bytes() + b"x")
        os.utime(photos / RED, (1000, 1000))
        assert project.pictures.thumbnail(RED, 64).etag != before
