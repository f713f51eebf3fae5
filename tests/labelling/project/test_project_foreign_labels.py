"""Label files as other programs and people make them, with their mistakes."""

from __future__ import annotations

import pytest
from small_project import make_names, make_photos, open_project

from steepest.errors import InputError


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
    ],
)
def test_tables_of_spreadsheets_of_all_countries_are_taken(tmp_path, photos, text):
    (tmp_path / "a.csv").write_bytes(text.encode())
    with open_project(photos) as project:
        assert project.import_labels(tmp_path / "a.csv").added == 1
        assert project.labels() == [("red-000.png", ("red",))]


def test_several_classes_in_a_table_with_semicolons_stand_in_quotes(tmp_path, photos):
    (tmp_path / "a.csv").write_text('id;label\nred-000.png;"red;blue"\n')
    (tmp_path / "b.csv").write_text("id;label\nred-003.png;red;blue\n")
    with open_project(photos, multi_label=True) as project:
        project.import_labels(tmp_path / "a.csv")
        assert project.labels() == [("red-000.png", ("red", "blue"))]
        with pytest.raises(InputError, match="line 2: the row is too long; put names with ';'"):
            project.import_labels(tmp_path / "b.csv")


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


def test_files_that_systems_put_beside_images_are_passed_over(tmp_path):
    photos = make_photos(tmp_path / "photos", 3)
    for name in ("red/red-000.png", "red/Thumbs.db", "green/desktop.ini", "green/green-001.png"):
        path = tmp_path / "sorted" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with open_project(photos) as project:
        assert project.import_labels(tmp_path / "sorted").added == 2
