from __future__ import annotations

import json
import sqlite3

import pytest
from small_project import CLASSES, make_names, make_photos, open_project, truth

from steepest.errors import InputError
from steepest.labelling.project.importing import Given


@pytest.fixture
def photos(tmp_path):
    photos = make_photos(tmp_path / "photos", 6)
    (photos / "sub, folder").mkdir()
    (photos / "red-000.png").rename(photos / "sub, folder" / "red-000.png")
    return photos


def labels_of(project):
    states = project.queue.samples(state="labelled", limit=1000)
    return {state.sample: state.labels for state in states}


@pytest.mark.parametrize("name", ["labels.csv", "labels.jsonl", "labels"])
@pytest.mark.parametrize("multi_label", [False, True])
def test_what_is_exported_can_be_imported_elsewhere(tmp_path, photos, name, multi_label):
    out = tmp_path / "out" / name
    with open_project(photos, multi_label=multi_label) as project:
        for state in project.queue.samples():
            also = ["blue"] if multi_label and "green" in state.sample else []
            project.queue.answer("ann", state.sample, [truth(state.sample), *also])
        report = project.export_labels(out)
        assert (report.samples, report.left_out) == (6, 0)
        expected = labels_of(project)
    with open_project(photos, folder=tmp_path / "second", multi_label=multi_label) as project:
        report = project.import_labels(out)
        assert (report.added, report.unchanged, report.conflicts) == (6, 0, ())
        assert labels_of(project) == expected
        assert project.progress().open == 0
        again = project.import_labels(out)
        assert (again.added, again.unchanged) == (0, 6)
        assert len(project.queue.history(limit=100)) == 6


def test_the_formats_are_plain(tmp_path, photos):
    with open_project(photos) as project:
        project.queue.answer("ann", "sub, folder/red-000.png", ["red"])
        project.export_labels(tmp_path / "a.csv")
        project.export_labels(tmp_path / "a.jsonl")
        project.export_labels(tmp_path / "folders", format="folder")
    assert (tmp_path / "a.csv").read_text() == 'id,label\n"sub, folder/red-000.png",red\n'
    entry = {"id": "sub, folder/red-000.png", "labels": ["red"]}
    assert json.loads((tmp_path / "a.jsonl").read_text()) == entry
    copied = tmp_path / "folders" / "red" / "sub, folder" / "red-000.png"
    assert copied.read_bytes() == (photos / "sub, folder" / "red-000.png").read_bytes()


def test_an_export_never_writes_over_what_is_there_unasked(tmp_path, photos):
    with open_project(photos) as project:
        out = tmp_path / "a.csv"
        out.write_text("mine")
        with pytest.raises(InputError, match="there already"):
            project.export_labels(out)
        assert out.read_text() == "mine"
        project.export_labels(out, replace=True)
        assert out.read_text() == "id,label\n"
        (tmp_path / "folders").mkdir()
        with pytest.raises(InputError, match="there already"):
            project.export_labels(tmp_path / "folders", replace=True)
        with pytest.raises(InputError, match="would become samples"):
            project.export_labels(photos / "folders")


def test_split_votes_and_missing_files_are_left_out_and_counted(tmp_path, photos):
    with open_project(photos) as project:
        project.queue.answer("ann", "green-001.png", ["green"])
        project.queue.answer("bob", "green-001.png", ["red"])
        project.queue.answer("ann", "blue-002.png", ["blue"])
        project.queue.answer("ann", "red-003.png", ["red"])
        (photos / "red-003.png").unlink()
        table = project.export_labels(tmp_path / "a.csv")
        assert (table.samples, table.left_out) == (2, 1)
        folders = project.export_labels(tmp_path / "folders")
        assert (folders.samples, folders.left_out) == (1, 2)
    assert not (tmp_path / "folders" / "red").exists()


def test_labels_that_differ_are_reported_and_not_taken(tmp_path, photos):
    table = tmp_path / "a.csv"
    table.write_text("id,label\ngreen-001.png,red\nblue-002.png,blue\n")
    with open_project(photos) as project:
        project.queue.answer("ann", "green-001.png", ["green"])
        report = project.import_labels(table)
        assert (report.added, len(report.conflicts)) == (1, 1)
        conflict = report.conflicts[0]
        assert (conflict.sample, conflict.present) == ("green-001.png", ("green",))
        assert (conflict.given, conflict.line) == (("red",), f"{table}, line 2")
        assert project.queue.label_of("green-001.png").labels == ("green",)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "id,label\ngreen-001.png,green\nnone.png,red\n", "line 3: no sample 'none.png'"),
        ("a.csv", "id,label\nx\\photos\\red-003.png,red\n", "did you mean 'red-003.png'"),
        ("a.csv", "id,label\ngreen-001.png,gren\n", "line 2: unknown class 'gren'"),
        ("a.csv", "name,label\n", "line 1: needs one column named 'id'"),
        ("a.csv", "", "is empty; give a file with labels"),
        ("a.csv", f"id,label,{'x' * 140_000}\n", r"line 1: is malformed \(field larger"),
        ("a.csv", "id,label\ngreen-001.png\n", "line 2: has 1 cell where the header has 2$"),
        ("a.csv", "id,label\nred-003.png,red, dark\n", "line 2: has 3 cells .* in quotes"),
        (
            "a.csv",
            "id,label,label\nred-003.png,red,blue\n",
            "line 1: needs one column named 'label'",
        ),
        ("a.csv", "id,label,labels\nred-003.png,red,red\n", "line 1: needs one column"),
        ("a.csv", "id,label,skip\nred-003.png,red,dark\n", "line 2: labelled and skipped"),
        ("a.csv", "id,label\nred-003.png,red\nred-003.png,blue\n", "line 3: 'red-003.png' has"),
        ("a.csv", b"id,label\n\xff\xfe,red\n", "UTF-8"),
        ("a.jsonl", '{"id": "red-003.png", "label": "red"}\nnonsense\n', "line 2: is no JSON"),
        ("a.jsonl", '{"id": null, "label": "red"}\n', "line 1: id and labels must be texts"),
        ("a.jsonl", '{"id": "red-003.png", "labels": 3}\n', "line 1: id and labels"),
        ("a.jsonl", '{"id": "red-003.png"}\n', "line 1: is not of the form"),
        ("a.jsonl", '{"id": "red-003.png", "label": "red", "labels": ["red"]}\n', "leave one"),
        ("a.jsonl", '{"id": "red-003.png", "label": "red", "skip": true}\n', "decide on one"),
        ("a.jsonl", '{"id": "red-003.png", "labels": ["red", "blue"]}\n', "exactly one"),
        ("a.txt", "x", "labels are .csv"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_its_line(tmp_path, photos, name, text, said):
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with open_project(photos) as project:
        with pytest.raises(InputError, match=said) as caught:
            project.import_labels(file)
        assert "\n" not in str(caught.value)
        assert project.progress().labelled == 0


def test_files_that_are_not_there_are_refused(tmp_path, photos):
    with open_project(photos) as project:
        for name in ("none.csv", "none.jsonl", "none"):
            with pytest.raises(InputError, match="none"):
                project.import_labels(tmp_path / name)


def test_subfolders_of_the_images_themselves_can_be_the_labels(tmp_path):
    photos = tmp_path / "photos"
    for name in ("red", "green", "unsorted"):
        make_names(photos / name, 2)
    with open_project(photos) as project:
        assert project.import_labels(photos).added == 4
        assert labels_of(project)["green/red-000.png"] == ("green",)
        assert project.progress().open == 2


def test_unknown_classes_of_another_folder_are_refused_by_their_file(tmp_path, photos):
    (tmp_path / "other" / "violet").mkdir(parents=True)
    (tmp_path / "other" / "violet" / "green-001.png").touch()
    with open_project(photos) as project:
        with pytest.raises(InputError, match=r"violet/green-001\.png: unknown class 'violet'"):
            project.import_labels(tmp_path / "other")
        assert project.progress().labelled == 0


@pytest.mark.parametrize("name", ["labels.csv", "labels.jsonl", "labels"])
def test_any_name_of_a_file_survives_an_export(tmp_path, name):
    photos = tmp_path / "photos # 1?"
    photos.mkdir()
    odd = ["a\rb", "a\nb", "a\r\nb", 'a "b', "a;b,c|d", " a", "a\tb", "\u2028ü%41", "=1+1"]
    for stem in odd:
        (photos / f"{stem}.png").touch()
    out = tmp_path / name
    with open_project(photos) as project:
        for number, state in enumerate(project.queue.samples()):
            project.queue.answer("ann", state.sample, [CLASSES[number % 3]])
        project.export_labels(out)
        expected = labels_of(project)
    assert len(expected) == len(odd)
    with open_project(photos, folder=tmp_path / "second") as project:
        project.import_labels(out)
        assert labels_of(project) == expected


def test_an_image_of_no_class_is_not_an_image_without_a_label(tmp_path, photos):
    out = tmp_path / "a.csv"
    with open_project(photos, multi_label=True) as project:
        project.queue.answer("ann", "red-003.png", [])
        project.export_labels(out)
        assert out.read_text() == "id,label\nred-003.png,;\n"
    with open_project(photos, folder=tmp_path / "second", multi_label=True) as project:
        project.import_labels(out)
        assert labels_of(project) == {"red-003.png": ()}
        out.write_text("id,label\ngreen-001.png,\n")
        assert (project.import_labels(out).added, project.progress().labelled) == (0, 1)


def test_a_person_corrects_and_confirms_what_a_file_says(tmp_path, photos):
    table = tmp_path / "a.csv"
    table.write_text("id,label\ngreen-001.png,red\nblue-002.png,blue\n")
    with open_project(photos) as project:
        project.import_labels(table)
        assert project.queue.answer("ann", "green-001.png", ["green"]).kind == "relabel"
        assert project.queue.answer("ann", "blue-002.png", ["blue"]).kind == "relabel"
        assert labels_of(project) == {"green-001.png": ("green",), "blue-002.png": ("blue",)}
        assert project.progress().disputed == 0
        assert project.import_labels(table).conflicts[0].present == ("green",)
        project.queue.answer("bob", "green-001.png", ["blue"])
        assert project.queue.label_of("green-001.png").disputed
        for name in ("ann", "ann", "bob"):
            project.queue.undo(name)
        assert labels_of(project) == {"green-001.png": ("red",), "blue-002.png": ("blue",)}


def test_the_mark_that_some_programs_put_first_is_passed_over(tmp_path, photos):
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfid,label\r\nred-003.png,red\r\n")
    line = b'\xef\xbb\xbf{"id": "green-001.png", "label": "green"}\r\n'
    (tmp_path / "a.jsonl").write_bytes(line)
    with open_project(photos) as project:
        assert project.import_labels(tmp_path / "a.csv").added == 1
        assert project.import_labels(tmp_path / "a.jsonl").added == 1


def test_people_can_answer_while_a_large_file_is_read(photos):
    with open_project(photos) as project:

        def read_slowly(_classes):
            for number, colour in ((3, "red"), (1, "green")):
                other = sqlite3.connect(project.store.path, timeout=0)
                other.execute("BEGIN IMMEDIATE")  # refused if the file is being written to
                other.close()
                yield Given(f"line {number}", f"{colour}-00{number}.png", [colour])
            project.queue.answer("ann", "red-003.png", ["blue"])

        report = project.import_given(read_slowly)
        assert (report.added, [c.sample for c in report.conflicts]) == (1, ["red-003.png"])
        assert project.queue.label_of("red-003.png").labels == ("blue",)


def test_labels_of_images_that_are_gone_are_passed_over_if_asked_for(tmp_path, photos):
    out = tmp_path / "a.csv"
    with open_project(photos) as project:
        for state in project.queue.samples():
            project.queue.answer("ann", state.sample, [truth(state.sample)])
        (photos / "green-001.png").unlink()
        (photos / "blue-002.png").unlink()
        project.rescan()
        assert project.export_labels(out).samples == 6
    with open_project(photos, folder=tmp_path / "second") as project:
        with pytest.raises(InputError, match=r"and 1 more .*: no sample .* say known only"):
            project.import_labels(out)
        report = project.import_labels(out, known_only=True)
        assert (report.added, report.passed_over, report.conflicts) == (4, 2, ())
        again = project.import_labels(out, known_only=True)
        assert (again.added, again.unchanged, again.passed_over) == (0, 4, 2)


def test_of_known_images_everything_must_be_right(tmp_path, photos):
    table = tmp_path / "a.csv"
    table.write_text("id,label\ngone.png,violet\ngreen-001.png,violet\n")
    with open_project(photos) as project:
        with pytest.raises(InputError, match="line 3: unknown class 'violet'"):
            project.import_labels(table, known_only=True)
        assert project.progress().labelled == 0
