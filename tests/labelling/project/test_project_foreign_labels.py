"""Label files as other programs and people make them, with their mistakes."""

from __future__ import annotations

import json

import pytest
from small_project import CLASSES, make_names, make_photos, open_project

from steepest.errors import InputError
from steepest.labelling.exchange.vocabulary import Vocabulary
from steepest.labelling.formats.csv import sheet
from steepest.labelling.formats.jsonl import lines
from steepest.labelling.names import split_names
from steepest.labelling.project import importing
from steepest.labelling.project.classes import ClassList
from steepest.selecting.selection import Selection


@pytest.fixture
def photos(tmp_path):
    return make_names(tmp_path / "photos", 30)


@pytest.mark.parametrize(
    "text",
    [
        "id;label\nred-000.png;red\n",
        "id\tlabel\nred-000.png\tred\n",
        "ID, Label\nred-000.png, red\n",
        'sep;"label";"id"\r\n1;"red ";"red-000.png"\r\n',
        "id,labels\nred-000.png,red\n,\n\n",
    ],
)
def test_tables_of_spreadsheets_of_all_countries_are_taken(tmp_path, photos, text):
    (tmp_path / "a.csv").write_bytes(text.encode())
    with open_project(photos) as project:
        assert project.import_labels(tmp_path / "a.csv").added == 1
        assert project.labels() == [("red-000.png", ("red",))]


def test_ids_are_known_however_a_system_spells_their_accents(tmp_path, photos):
    names = ("e\u0301te\u0301.png", "\u00e9t\u00e9.jpg")
    for name in names:
        (photos / name).touch()
    table = "id,label\n\u00e9t\u00e9.png,red\n/photos/ann/e\u0301te\u0301.jpg,red\n"
    (tmp_path / "a.csv").write_text(table, encoding="utf-8")
    with open_project(photos) as project:
        with pytest.raises(InputError, match=r"did you mean '\u00e9t\u00e9\.jpg'"):
            project.import_labels(tmp_path / "a.csv")
        (tmp_path / "a.csv").write_text(table.replace("/photos/ann/", ""), encoding="utf-8")
        assert project.import_labels(tmp_path / "a.csv").added == 2
        assert project.import_labels(tmp_path / "a.csv").unchanged == 2
        assert {sample for sample, _ in project.labels()} == set(names)


def test_several_classes_in_a_table_with_semicolons_stand_in_quotes(tmp_path, photos):
    (tmp_path / "a.csv").write_text('id;label\nred-000.png;"red;blue"\n')
    (tmp_path / "b.csv").write_text("id;label\nred-003.png;red;blue\n")
    with open_project(photos, multi_label=True) as project:
        project.import_labels(tmp_path / "a.csv")
        assert project.labels() == [("red-000.png", ("red", "blue"))]
        with pytest.raises(InputError, match=r"line 2: has 3 cells .*; put names with ';'"):
            project.import_labels(tmp_path / "b.csv")


def test_a_sheet_that_is_filled_in_by_half_is_taken_and_the_rest_counted(tmp_path, photos):
    ids = ("red-000.png", "green-001.png", "blue-002.png", "red-003.png")
    picks = Selection(ids, (0.9, 0.8, 0.7, float("nan")), "margin")
    filled = sheet(picks).replace("red-000.png,,", "red-000.png,red,")
    filled = filled.replace("blue-002.png,,,", "blue-002.png,,too dark,")
    (tmp_path / "a.csv").write_text(filled)
    (tmp_path / "a.ndjson").write_text(lines(picks).replace("null", '"green"', 1))
    with open_project(photos) as project:
        table = project.import_labels(tmp_path / "a.csv")
        assert (table.added, table.unanswered, table.conflicts) == (1, 3, ())
        assert project.labels() == [("red-000.png", ("red",))]
        told = project.import_labels(tmp_path / "a.ndjson")
        assert (told.added, told.unanswered, len(told.conflicts)) == (0, 3, 1)


@pytest.mark.parametrize(
    ("said", "classes"),
    [
        ("red|blue", ("red", "blue")),
        (" red ; blue|", ("red", "blue")),
        ("red;green|blue", ("red", "green", "blue")),
        ("|", ()),
        (";", ()),
        ("blue", ("blue",)),
    ],
)
def test_both_separators_are_read_by_the_page_and_by_the_loop(tmp_path, photos, said, classes):
    (tmp_path / "a.csv").write_text(f'id,label\nred-000.png,"{said}"\n')
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "red-000.png", "label": said}))
    with open_project(photos, multi_label=True) as project:
        assert project.import_labels(tmp_path / "a.csv").added == 1
        assert project.labels() == [("red-000.png", classes)]
        assert project.import_labels(tmp_path / "a.jsonl").unchanged == 1
    numbers = [CLASSES.index(name) for name in classes]
    assert Vocabulary("multi-label", CLASSES).from_text(said) == numbers


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("a;b|c", ["a;b", "c"]),
        ("a|b;c", ["a|b", "c"]),
        ("a;b", ["a;b"]),
        ("c;d", ["c", "d"]),
        ("x;y|z", ["x", "y", "z"]),
    ],
)
def test_a_class_with_a_separator_in_its_name_stays_whole(said, names):
    assert split_names(said, {"a;b", "a|b", "c", "d"}) == names


def test_all_wrong_lines_are_said_at_once(tmp_path, photos):
    rows = ["id,label", "red-000.png,red", "green-001.png,gren", "x.png,red", "blue-002.png,blue"]
    (tmp_path / "few.csv").write_text("\n".join([*rows, "blue-002.png,red"]))
    (tmp_path / "many.csv").write_text("id,label\n" + "x.png,red\n" * 12)
    with open_project(photos) as project:
        with pytest.raises(InputError) as few:
            project.import_labels(tmp_path / "few.csv")
        with pytest.raises(InputError) as many:
            project.import_labels(tmp_path / "many.csv")
        assert project.labels() == []
    few_said, many_said = str(few.value), str(many.value)
    assert "few.csv, line 3, and 2 more (line 4, line 6): unknown class 'gren'" in few_said
    assert "line 2, and 11 more (line 3, line 4, line 5, line 6, line 7, …): no sample" in many_said


def test_a_file_with_nothing_but_mistakes_is_given_up_early(tmp_path, photos, monkeypatch):
    (tmp_path / "wrong.csv").write_text("id,label\n" + "red-000.png,nope\n" * 5000)
    with open_project(photos) as project:
        looked = []
        encode = ClassList.encode
        monkeypatch.setattr(ClassList, "encode", lambda *a: (looked.append(1), encode(*a))[1])
        with pytest.raises(InputError, match=r"line 2, and at least 999 more \(line 3, .*, …\)"):
            project.import_labels(tmp_path / "wrong.csv")
    assert len(looked) == 1000


def test_a_path_of_any_length_is_looked_for_in_the_folder(tmp_path, photos, monkeypatch):
    (tmp_path / "long.csv").write_text("id,label\n" + "/" * 100_000 + "red-000.png,red\n")
    with open_project(photos) as project:
        looked = []
        find = importing.find_image
        monkeypatch.setattr(importing, "find_image", lambda *a: (looked.append(1), find(*a))[1])
        with pytest.raises(InputError, match=r"did you mean 'red-000\.png'"):
            project.import_labels(tmp_path / "long.csv")
    assert len(looked) < 20_000


def test_files_that_systems_put_beside_images_are_passed_over(tmp_path):
    photos = make_photos(tmp_path / "photos", 3)
    for name in ("red/red-000.png", "red/Thumbs.db", "green/desktop.ini", "green/green-001.png"):
        path = tmp_path / "sorted" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with open_project(photos) as project:
        assert project.import_labels(tmp_path / "sorted").added == 2
