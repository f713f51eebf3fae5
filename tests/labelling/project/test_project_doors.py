"""A page, sheets and a Python loop on the same project: together, and with kills."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from small_project import CLASSES, make_names, make_photos, open_project, truth

import steepest
from steepest.errors import InputError, PoolError, UnknownNameError
from steepest.labelling.exchange.folder import LoopFolder, Settings
from steepest.labelling.exchange.ingest import ingest
from steepest.labelling.exchange.rounds import Round
from steepest.labelling.project.opening import open_pool
from steepest.pool import State
from steepest.selecting.selection import Selection

SCRIPT = Path(__file__).with_name("door_process.py")


@pytest.fixture
def photos(tmp_path):
    return make_photos(tmp_path / "photos", 9)


@pytest.fixture
def folder(tmp_path, photos):
    """Return a project that a sheet has begun, in whose first round two samples were asked for."""
    ids = sorted(path.name for path in photos.iterdir())
    folder = LoopFolder(tmp_path / "team", Settings("classification", CLASSES, str(photos)))
    folder.begin(ids)
    folder.commit(Round(Selection(("red-003.png", "blue-002.png"), (2.0, 1.0), "margin")))
    return folder


def give(folder, text, tmp_path, **how):
    file = tmp_path / "given.csv"
    file.write_text("id,label\n" + text)
    return ingest(file, folder, **how)


def test_what_a_sheet_waits_for_is_asked_first_on_the_page(photos, folder, tmp_path):
    with open_project(photos, folder=folder.path) as project:
        tasks = project.queue.next("ann", 3)
        assert [task.sample for task in tasks][:2] == ["red-003.png", "blue-002.png"]
        project.queue.answer("ann", "red-003.png", ["red"])
        assert give(folder, "red-003.png,red\nblue-002.png,blue\n", tmp_path).known == 1
        assert project.queue.next("bob", 9)[0].sample != "blue-002.png"
        assert project.progress().labelled == 2
        assert project.scan.changed == project.progress().changed == 0


def test_what_somebody_looks_at_is_not_chosen(photos, folder):
    with open_project(photos, folder=folder.path) as project:
        held = {task.sample for task in project.queue.next("ann", 4)}
        assert held <= set(folder.read_pool().taken())
        project.queue.release("ann")
        assert set(folder.read_pool().taken()) == {"red-003.png", "blue-002.png"}


def test_a_sheet_that_contradicts_the_page_is_refused_or_replaces_it(photos, folder, tmp_path):
    with open_project(photos, folder=folder.path) as project:
        project.queue.answer("ann", "red-003.png", ["green"])
        with pytest.raises(PoolError, match="'green' on record and 'red' here"):
            give(folder, "red-003.png,red\nblue-002.png,blue\n", tmp_path)
        assert project.queue.label_of("blue-002.png").votes == 0
        assert give(folder, "red-003.png,red\n", tmp_path, relabel=True, who="ben").changed == 1
        found = project.queue.label_of("red-003.png")
        assert (found.labels, found.votes) == (("red",), 1)
        assert project.queue.answer_of("ann", "red-003.png") is None
        past = [(e.who, e.label) for e in folder.read_pool().history("red-003.png")][1:]
        assert past == [("ann", 1), ("ben", 0)]


def test_the_page_takes_back_its_own_answers_alone(photos, folder, tmp_path):
    with open_project(photos, folder=folder.path) as project:
        project.queue.answer("ann", "green-001.png", ["green"], "a browser")
        give(folder, "red-003.png,red\n", tmp_path, who="ann")
        assert project.queue.undo("ann", "a browser").sample == "green-001.png"
        assert project.queue.undo("ann", "a browser") is None
        assert folder.read_pool().label_of("red-003.png") == 0
        project.queue.answer("ann", "blue-002.png", ["blue"], "a browser")
        project.queue.undo("ann", "a browser")
        # It was asked for, and waits again.
        assert folder.read_pool().state("blue-002.png") is State.QUERIED


def test_a_split_is_settled_by_a_sheet(photos, folder, tmp_path):
    with open_project(photos, folder=folder.path, overlap=2) as project:
        project.queue.answer("ann", "green-001.png", ["green"])
        project.queue.answer("bob", "green-001.png", ["red"])
        assert folder.read_pool().state("green-001.png") is State.QUERIED
        give(folder, "green-001.png,green\n", tmp_path, who="eve")
        assert project.queue.label_of("green-001.png").labels == ("green",)
        assert folder.read_pool().label_of("green-001.png") == 1


def test_sheets_follow_classes_that_the_page_adds_and_renames(photos, folder, tmp_path):
    give(folder, "red-003.png,red\n", tmp_path)
    with open_project(photos, folder=folder.path) as project:
        project.rename_class("red", "crimson")
        project.add_class("grey")
        assert give(folder, "blue-002.png,grey\ngreen-001.png,crimson\n", tmp_path).new == 2
    assert (folder.path / "labels.csv").read_text() == (
        "id,label\nblue-002.png,grey\ngreen-001.png,crimson\nred-003.png,crimson\n"
    )


def test_copies_are_labelled_with_what_they_are_copies_of(photos, folder, tmp_path):
    (photos / "red-000.png").write_bytes((photos / "red-003.png").read_bytes())
    with open_project(photos, folder=folder.path) as project:
        project.queue.answer("ann", "red-003.png", ["red"])
        project.rescan()
        from steepest.labelling.project.copies import find_copies

        find_copies(project.store, project.source, project.settings)
        pool = folder.read_pool()
        assert pool.label_of("red-000.png") == 0
        with folder.open_pool() as changing, pytest.raises(PoolError, match="same bytes"):
            changing.unlabel(["red-000.png"], cycle=0, who="ben")
        give(folder, "blue-002.png,blue\n", tmp_path)
        give(folder, "red-003.png,green\n", tmp_path, relabel=True)
        assert give(folder, "green-001.png,green\n", tmp_path).new == 1
        assert folder.read_pool().label_of("red-000.png") == 1


def loop_on(folder, ids, **more):
    return steepest.ActiveLoop(
        ids=ids,
        fit=lambda *_: None,
        predict=lambda asked: np.full((len(asked), 3), 1 / 3),
        folder=folder,
        progress=False,
        **more,
    )


def test_a_loop_speaks_of_a_pages_classes_by_name_or_number(photos, folder):
    ids = folder.read_pool().ids()
    with loop_on(folder.path, ids) as loop:
        assert loop.waiting == ()
        asked = loop.ask(2).ids
        assert not set(asked) & {"red-003.png", "blue-002.png"}
        loop.tell({asked[0]: "green", asked[1]: 2})
        loop.tell({asked[0]: "green"})
        assert [loop.pool.label_of(sample) for sample in asked] == [1, 2]
        with pytest.raises(UnknownNameError, match="purple"):
            loop.tell({"red-003.png": "purple"})
        with pytest.raises(InputError, match="use 0 to 2"):
            loop.tell({"red-003.png": 3})
        assert folder.read_pool().counts()[State.QUERIED] == 2
        assert {*folder.rounds()} == {0}


def test_samples_that_are_labelled_while_a_loop_chooses_are_chosen_anew(photos, folder):
    ids = folder.read_pool().ids()
    calls = []
    with loop_on(folder.path, ids, labels={"green-001.png": 1, "red-000.png": 0}) as loop:
        choose = loop._learner.choose

        def slow(k, **given):
            picks = choose(k, **given)
            if not calls:
                with folder.open_pool() as pool:
                    pool.label(picks.ids[:1], [0], cycle=0, who="ann")
            calls.append(picks.ids)
            return picks

        loop._learner.choose = slow
        asked = loop.ask(2).ids
        assert len(calls) == 2
        assert calls[0][0] not in asked
        assert loop.waiting == asked


def test_a_loop_with_texts_becomes_a_page(photos, tmp_path):
    ids = sorted(path.name for path in photos.iterdir())
    with loop_on(tmp_path / "own", ids) as loop:
        loop.tell({sample: truth(sample) for sample in ids[:4]})
        assert set(loop.pool.labelled()[1]) == {"blue", "green"}
        with open_project(photos, folder=tmp_path / "own") as project:
            assert project.classes()[:2] == ("blue", "green")
            assert project.progress().labelled == 4
            project.queue.answer("ann", "red-000.png", ["red"])
        assert loop.pool.label_of("red-000.png") == "red"
        with pytest.raises(InputError, match="none of the project's classes"):
            loop.tell({"red-003.png": "a/b"})


def test_projects_that_a_page_cannot_show_are_refused(photos, tmp_path):
    with loop_on(tmp_path / "rows", range(4)) as loop:
        loop.tell({0: 1})
    with pytest.raises(InputError, match="rows of an array"):
        open_project(photos, folder=tmp_path / "rows")
    maps = LoopFolder(tmp_path / "maps", Settings("segmentation", CLASSES, str(photos)))
    maps.begin(["red-000.png"])
    with pytest.raises(InputError, match="label maps"):
        open_project(photos, folder=tmp_path / "maps")
    ids = sorted(path.name for path in photos.iterdir())
    with loop_on(tmp_path / "odd", ids) as loop:
        loop.tell({ids[0]: "../../escape"})
    with pytest.raises(InputError, match="from Python alone"):
        open_project(photos, folder=tmp_path / "odd")
    with pytest.raises(InputError, match="from Python alone"):
        LoopFolder.open(tmp_path / "odd")
    names = LoopFolder(tmp_path / "names", Settings("classification", ("../x", "b"), str(photos)))
    names.begin(ids)
    with pytest.raises(InputError, match="no leading dot"):
        open_project(photos, folder=tmp_path / "names")
    make_photos(tmp_path / "others", 3)
    names = LoopFolder(tmp_path / "good", Settings("classification", CLASSES, str(photos)))
    names.begin(ids)
    with pytest.raises(InputError, match="is the project of"):
        open_project(tmp_path / "others", folder=tmp_path / "good")


def start(door, photos, folder):
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), door, str(photos), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_three_ways_at_once_with_kills_lose_and_double_no_answer(tmp_path):
    photos = make_names(tmp_path / "photos", 900)
    ids = sorted(path.name for path in photos.iterdir())
    folder = LoopFolder(tmp_path / "team", Settings("classification", CLASSES, str(photos)))
    folder.begin(ids)
    doors = {"page": "ann", "sheet": "ben", "python": "label"}
    said = {door: [] for door in doors}
    for _ in range(2):
        processes = {door: start(door, photos, folder.path) for door in doors}
        # Nobody waits for ever for what does not come.
        alarm = threading.Timer(120, lambda now=processes: [p.kill() for p in now.values()])
        alarm.start()
        for process in processes.values():
            assert process.stdout.readline() == "ready\n"
        for process in processes.values():
            process.stdin.write("go\n")
            process.stdin.flush()
        for door, process in processes.items():
            said[door] += [process.stdout.readline().strip() for _ in range(25)]
        for process in processes.values():
            process.kill()
        alarm.cancel()
        for door, process in processes.items():
            rest = process.communicate()[0].splitlines()
            said[door] += [line for line in rest if line in ids]
    pool = folder.read_pool()
    for door, who in doors.items():
        assert len(said[door]) >= 50
        assert all(CLASSES[pool.label_of(sample)] == truth(sample) for sample in said[door])
        if door == "page":
            answered = {e.id for e in pool.events() if e.who == who and e.label is not None}
            assert set(said[door]) <= answered
            assert len(answered - set(said[door])) <= 2  # Not yet said when it was killed.
    with closing(sqlite3.connect(folder.path / "labels.sqlite")) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        twice = """SELECT image, annotator FROM answers WHERE kind = 'label'
            GROUP BY image, annotator HAVING count(*) > 1"""
        assert file.execute(twice).fetchall() == []
        asked = "SELECT image FROM questions WHERE kind = 'ask' GROUP BY image HAVING count(*) > 1"
        assert file.execute(asked).fetchall() == []
        people = {row[0] for row in file.execute("SELECT DISTINCT annotator FROM answers")}
        assert people == set(doors.values())
        rounds = file.execute("SELECT count(*) FROM rounds WHERE door = 'loop'").fetchone()[0]
    with steepest.ActiveLoop(
        ids=ids,
        fit=lambda *_: None,
        predict=lambda asked: np.full((len(asked), 3), 1 / 3),
        folder=folder.path,
        progress=False,
    ) as loop:
        assert len(loop.records) == rounds > 0
    assert open_pool(folder.path).labelled()[0] == pool.labelled()[0]
