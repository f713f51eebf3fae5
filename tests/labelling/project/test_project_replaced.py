"""Files that are replaced under their name do not keep their labels unnoticed."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from small_project import make_names, make_photos, open_project, take_out_doors

from steepest.cli.label import _say_changes
from steepest.errors import InputError
from steepest.labelling.project import contents
from steepest.labelling.project.changed_files import settle_suspected
from steepest.labelling.project.contents import Budget, note_answered, read_content
from steepest.labelling.project.retraining import run_round
from steepest.labelling.project.scanning import look_closely
from steepest.labelling.project.source import SampleFolder
from steepest.labelling.project.store import FILE_NAME

RED, GREEN, BLUE = "red-000.png", "green-001.png", "blue-002.png"


@pytest.fixture
def photos(tmp_path):
    return make_photos(tmp_path / "photos", 6)


def touch(path):
    """Give a file another date."""
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 10**9))


def replace_bytes(path, *, longer=False):
    """Put another content in the place of a file's, with another date."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content) + b"x" * longer)
    touch(path)


def changed_in(project):
    return [state.sample for state in project.queue.samples(state="changed")]


@pytest.mark.parametrize("longer", [False, True])
def test_a_labelled_file_that_was_replaced_is_noticed_and_a_touched_one_is_not(photos, longer):
    with open_project(photos) as project:
        for sample, label in ((RED, "red"), (GREEN, "green")):
            project.queue.answer("ann", sample, [label])
        replace_bytes(photos / RED, longer=longer)
        replace_bytes(photos / BLUE)
        touch(photos / GREEN)
        assert project.rescan().changed == 1
        assert changed_in(project) == [RED]
        assert project.progress().changed == 1
        # Nothing is decided over people's heads.
        assert project.queue.label_of(RED).labels == ("red",)
    with open_project(photos) as project:
        assert project.scan.changed == 1


def test_the_command_says_what_changed_and_asks_more_people_if_it_is_told_to(photos, capsys):
    with open_project(photos) as project:
        project.queue.answer("ann", RED, ["red"])
        replace_bytes(photos / RED)
    with open_project(photos, overlap=2) as project:
        _say_changes(project, ask_more=True)
    said = capsys.readouterr().out
    assert said.startswith("1 file changed since being labelled: decide under Look again")
    assert said.endswith("asked about again: 1 image that was done under a smaller --overlap\n")


def test_a_file_that_comes_back_as_it_was_keeps_its_label(photos):
    before = (photos / RED).read_bytes()
    with open_project(photos) as project:
        project.queue.answer("ann", RED, ["red"])
        replace_bytes(photos / RED, longer=True)
        assert project.rescan().changed == 1
        (photos / RED).write_bytes(before)
        assert project.rescan().changed == 0


def test_asked_again_a_file_comes_first_and_old_answers_stay_in_the_history(photos):
    with open_project(photos, overlap=2) as project:
        for person in ("ann", "bob"):
            project.queue.answer(person, RED, ["red"])
            project.queue.answer(person, GREEN, ["green"])
        replace_bytes(photos / RED)
        project.rescan()
        assert project.ask_again() == 1
        assert (project.progress().changed, project.labels()) == (0, [(GREEN, ("green",))])
        assert [task.sample for task in project.queue.next("ann")] == [RED]
        assert project.queue.undo("ann").sample == GREEN
        assert project.queue.answer("ann", RED, ["blue"]).kind == "label"
        told = project.queue.history(sample=RED)
        assert [(a.labels, a.earlier_file) for a in told] == [
            (("blue",), False),
            (("red",), True),
            (("red",), True),
        ]
        project.queue.undo("ann")
        assert project.queue.label_of(RED).labels is None
        project.queue.answer("ann", RED, ["blue"])
        replace_bytes(photos / RED)
        assert project.rescan().changed == 1


def test_labels_of_changed_files_can_be_kept_one_by_one(photos):
    with open_project(photos) as project:
        for sample in (RED, GREEN):
            project.queue.answer("ann", sample, ["red"])
            replace_bytes(photos / sample)
        assert project.rescan().changed == 2
        assert project.keep_labels([GREEN, BLUE]) == 1
        with pytest.raises(InputError, match="no sample"):
            project.ask_again(["none.png"])
        assert changed_in(project) == [RED]
        assert project.ask_again([RED]) == 1
        assert project.rescan().changed == 0
        look_closely(project.store, project.source, project.settings)
        replace_bytes(photos / GREEN)
        assert project.rescan().changed == 1


def test_an_answer_to_the_new_file_settles_it_unless_others_saw_the_old_one(photos):
    with open_project(photos) as project:
        project.queue.answer("ann", RED, ["red"])
        project.queue.answer("ann", GREEN, ["green"])
        project.queue.answer("bob", GREEN, ["green"])
        for sample in (RED, GREEN):
            replace_bytes(photos / sample)
        project.rescan()
        for sample in (RED, GREEN):
            project.queue.answer("ann", sample, ["blue"])
        assert changed_in(project) == [GREEN]
        assert project.rescan().changed == 1


def test_labels_of_files_and_skips_are_noted_by_the_next_training(photos, tmp_path):
    (tmp_path / "a.csv").write_text(f"id,label\n{RED},red\n")
    with open_project(photos) as project:
        project.import_labels(tmp_path / "a.csv")
        project.queue.skip("ann", GREEN)
        note_answered(project.store, project.source)
        for sample in (RED, GREEN):
            replace_bytes(photos / sample)
        assert project.rescan().changed == 2


def test_without_a_note_another_size_says_that_a_file_changed(photos, tmp_path):
    (tmp_path / "a.csv").write_text(f"id,label\n{RED},red\n{GREEN},green\n")
    with open_project(photos) as project:
        project.import_labels(tmp_path / "a.csv")
        replace_bytes(photos / RED, longer=True)
        touch(photos / GREEN)
        project.rescan()
        assert changed_in(project) == [RED]
        touch(photos / RED)
        assert project.rescan().changed == 1


def test_only_files_with_another_date_are_read_and_no_more_than_somebody_waits_for(
    photos, monkeypatch
):
    read = []
    whole = read_content
    monkeypatch.setattr(
        "steepest.labelling.project.changed_files.read_content",
        lambda folder, sample, budget: read.append(sample) or whole(folder, sample, budget),
    )
    with open_project(photos) as project:
        for sample in (RED, GREEN, BLUE):
            project.queue.answer("ann", sample, ["red"])
        project.rescan()
        assert read == []
        for sample in (GREEN, BLUE):
            replace_bytes(photos / sample)
        monkeypatch.setattr("steepest.labelling.project.scanning._QUICK_FILES", 1)
        assert project.rescan().changed == 1
        assert RED not in read
        settle_suspected(project.store, project.source)
        assert len(changed_in(project)) == 2


def test_large_files_are_left_to_the_training_and_odd_ones_are_no_error(photos, tmp_path):
    np.save(photos / "a.npy", np.zeros((4, 4)))
    assert read_content(SampleFolder(photos), "a.npy", Budget(size_bytes=10)) is None
    assert read_content(SampleFolder(photos), "gone.png") is None
    (tmp_path / "secret.png").write_bytes(b"x")
    assert read_content(SampleFolder(photos), "../secret.png") is None
    seen = read_content(SampleFolder(photos), "a.npy")
    assert contents.size_of(seen.text) == seen.stamp.size_bytes == (photos / "a.npy").stat().st_size


def test_copies_are_asked_about_once_and_take_the_label_of_the_one(photos, tmp_path):
    (photos / "copy.png").write_bytes((photos / RED).read_bytes())
    (photos / "again.png").write_bytes((photos / RED).read_bytes())
    alike = bytearray((photos / RED).read_bytes())
    alike[-1] ^= 1
    (photos / "alike.png").write_bytes(alike)
    with open_project(photos) as project:
        look_closely(project.store, project.source, project.settings)
        counts = project.progress()
        assert (counts.open, counts.copies) == (7, 2)
        (one,) = {"copy.png", "again.png", RED} & {t.sample for t in project.queue.next("ann", 9)}
        project.queue.answer("ann", one, ["red"])
        copies = sorted({"copy.png", "again.png", RED} - {one})
        assert [(row.sample, row.labels, row.copy_of) for row in project.label_rows()] == sorted(
            [(one, ("red",), None), *((copy, ("red",), one) for copy in copies)]
        )
        assert project.queue.label_of(copies[0]).copy_of == one
        report = project.export_labels(tmp_path / "a.csv")
        assert (report.samples, report.copies) == (3, 2)
        assert f"{copies[0]},red,{one}\n" in (tmp_path / "a.csv").read_text()
        project.export_labels(tmp_path / "a.jsonl")
        assert f'"labels": ["red"], "copy_of": "{one}"' in (tmp_path / "a.jsonl").read_text()
        project.export_labels(tmp_path / "folders")
        assert (tmp_path / "folders" / "red" / copies[0]).is_file()
        assert f"{copies[0]},{one}\n" in (tmp_path / "folders" / "copies.csv").read_text()
        project.queue.undo("ann")
        assert project.labels() == []
    with open_project(photos, folder=tmp_path / "second") as project:
        assert project.import_labels(tmp_path / "a.csv").added == 3


def test_a_copy_with_an_answer_of_its_own_or_another_content_stands_for_itself(photos):
    for name in ("copy.png", "other.png"):
        (photos / name).write_bytes((photos / RED).read_bytes())
    with open_project(photos) as project:
        look_closely(project.store, project.source, project.settings)
        copies = [state.sample for state in project.queue.samples(state="copies")]
        project.queue.answer("ann", copies[0], ["blue"])
        replace_bytes(photos / copies[1])
        project.rescan()
        original = ({RED, "copy.png", "other.png"} - set(copies)).pop()
        # The one that was to be asked about is now a copy of the labelled one.
        assert project.queue.label_of(original).copy_of == copies[0]
        assert [s.sample for s in project.queue.samples(state="copies")] == [original]
        assert copies[1] in {task.sample for task in project.queue.next("bob", 9)}


def test_a_renamed_file_has_the_label_of_the_one_that_is_gone(photos):
    with open_project(photos) as project:
        project.queue.answer("ann", RED, ["red"])
        (photos / RED).rename(photos / "renamed.png")
        project.rescan()
        look_closely(project.store, project.source, project.settings)
        assert project.queue.label_of("renamed.png").labels == ("red",)
        project.queue.undo("ann")
        project.rescan()
        assert project.progress().copies == 0


def test_copies_can_be_asked_about_one_by_one(photos):
    (photos / "copy.png").write_bytes((photos / RED).read_bytes())
    with open_project(photos) as project:
        look_closely(project.store, project.source, project.settings)
        assert project.progress().copies == 1
        project.change_settings(ask_copies=True)
        look_closely(project.store, project.source, project.settings)
        assert (project.progress().copies, project.progress().open) == (0, 7)


def test_empty_files_and_those_of_a_size_of_their_own_are_never_read(tmp_path, monkeypatch):
    photos = make_names(tmp_path / "photos", 3)
    (photos / "long.png").write_bytes(b"abc")
    monkeypatch.setattr(
        "steepest.labelling.project.contents.read_content",
        lambda *_: pytest.fail("a file was read"),
    )
    with open_project(photos) as project:
        look_closely(project.store, project.source, project.settings)
        assert project.progress().copies == 0


def test_no_two_copies_are_in_one_batch(photos, monkeypatch):
    for number in range(4):
        (photos / f"copy-{number}.png").write_bytes((photos / RED).read_bytes())
    # Where all files have the same size, most are not read before they are picked.
    monkeypatch.setattr("steepest.labelling.project.scanning._ALIKE_FILES", 0)
    with open_project(photos, batch_size=10) as project:
        project.trainer.request("test")
        assert run_round(project.store, project.source, "token")
        picked = [pick.sample for pick in project.picks()]
        assert len(picked) == 6
        assert sum(sample == RED or "copy" in sample for sample in picked) == 1


def make_alike(folder):
    """Make files of the same size and date, two in each of two folders."""
    rng = np.random.default_rng(0)
    for name in ("a/0.npy", "a/1.npy", "b/0.npy", "b/1.npy"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, rng.integers(0, 255, (9, 9), dtype=np.uint8))
        os.utime(path, ns=(10**18, 10**18))
    return folder


def exchange(first, second):
    """Give two files or folders each other's name, as a tool that renumbers does."""
    aside = first.with_name("aside")
    first.rename(aside)
    second.rename(first)
    aside.rename(second)


@pytest.mark.parametrize("imported", [False, True])
@pytest.mark.parametrize("names", [("a/0.npy", "b/1.npy"), ("a", "b")])
def test_files_that_exchange_names_are_noticed_though_sizes_and_dates_are_equal(
    tmp_path, names, imported
):
    photos = make_alike(tmp_path / "photos")
    labels = {"a/0.npy": "red", "a/1.npy": "green", "b/1.npy": "blue"}
    with open_project(photos, ask_copies=True) as project:
        if imported:
            rows = [f"{sample},{label}" for sample, label in labels.items()]
            (tmp_path / "l.csv").write_text("\n".join(["id,label", *rows]))
            assert project.import_labels(tmp_path / "l.csv").added == 3
        else:
            for sample, label in labels.items():
                project.queue.answer("ann", sample, [label])
        shown = project.pictures.thumbnail("a/0.npy", 64)
        exchange(*(photos / name for name in names))
        expected = sorted({"a/0.npy", "b/1.npy"} if "/" in names[0] else labels)
        assert project.rescan().changed == len(expected)
        assert changed_in(project) == expected
        assert project.pictures.thumbnail("a/0.npy", 64).etag != shown.etag
        exchange(*(photos / name for name in names))
        assert project.rescan().changed == 0


def test_a_file_that_took_the_name_of_the_one_on_the_page_is_not_answered(tmp_path):
    photos = make_alike(tmp_path / "photos")
    shown = SampleFolder(photos).mark("a/0.npy")
    with open_project(photos) as project:
        exchange(photos / "a/0.npy", photos / "a/1.npy")
        with pytest.raises(InputError, match="was replaced while"):
            project.queue.answer("ann", "a/0.npy", ["red"], shown=shown)


def test_other_rights_alone_change_no_label_and_forget_no_copies(tmp_path):
    photos = make_alike(tmp_path / "photos")
    with open_project(photos) as project:
        project.queue.answer("ann", "a/0.npy", ["red"])
        for path in photos.glob("*/*.npy"):
            path.chmod(0o600)
        assert project.rescan().changed == 0
        assert project.labels() == [("a/0.npy", ("red",))]


def test_an_upgraded_project_compares_what_was_exchanged_before(tmp_path):
    photos = make_alike(tmp_path / "photos")
    with open_project(photos) as project:
        for sample in ("a/0.npy", "a/1.npy", "b/0.npy"):
            project.queue.answer("ann", sample, ["red"])
    exchange(photos / "a/0.npy", photos / "a/1.npy")
    with open_project(photos) as project:
        assert changed_in(project) == ["a/0.npy", "a/1.npy"]
        project.keep_labels()
    exchange(photos / "a/0.npy", photos / "a/1.npy")
    with closing(sqlite3.connect(photos / ".steepest" / FILE_NAME)) as file:
        take_out_doors(file)
        file.execute("ALTER TABLE images DROP COLUMN place")
        file.execute("PRAGMA user_version = 6")
        file.commit()
    with open_project(photos) as project:
        assert changed_in(project) == ["a/0.npy", "a/1.npy"]
