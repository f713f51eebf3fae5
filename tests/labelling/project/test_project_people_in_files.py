"""What files say in people's names is theirs, and a name in other capitals is the same person."""

from __future__ import annotations

import pytest
from small_project import Clock, make_names, open_project

from steepest.errors import InputError
from steepest.labelling.project.consensus import IMPORTED_BY


@pytest.fixture
def photos(tmp_path):
    return make_names(tmp_path / "photos", 9)


def test_two_projects_are_brought_together_without_loss(photos, tmp_path):
    table = tmp_path / "others.csv"
    with open_project(photos, folder=tmp_path / "one", clock=Clock(5000.0)) as other:
        other.queue.answer("Zoë", "red-000.png", ["red"])
        other.queue.answer("Ben", "green-001.png", ["blue"])
        other.queue.skip("Ben", "blue-002.png")
        other.queue.answer("Ann", "red-003.png", ["green"])
        table.write_text(other.answers_table(), encoding="utf-8")
    with open_project(photos, folder=tmp_path / "two", overlap=2, clock=Clock(9000.0)) as project:
        project.queue.answer("Ann", "green-001.png", ["green"])
        project.queue.answer("ann", "red-003.png", ["red"])
        report = project.import_labels(table)
        assert (report.added, report.unchanged, len(report.conflicts)) == (4, 0, 0)
        assert project.queue.answer_of("Zoë", "red-000.png").labels == ("red",)
        assert project.queue.answer_of("Ben", "blue-002.png").labels is None
        assert project.queue.label_of("green-001.png").disputed
        assert {a.at for a in project.queue.history("Ben")} == {5000.0}
        assert not project.queue.history(IMPORTED_BY)
        again = project.import_labels(table)
        assert (again.added, again.unchanged, len(again.conflicts)) == (0, 4, 0)


def test_an_answer_of_the_same_person_stays(photos, tmp_path):
    table = tmp_path / "a.jsonl"
    table.write_text('{"id": "red-000.png", "label": "blue", "annotator": "ANN"}\n')
    with open_project(photos) as project:
        project.queue.answer("Ann", "red-000.png", ["red"])
        (conflict,) = project.import_labels(table).conflicts
        assert (conflict.present, conflict.given) == (("red",), ("blue",))
        assert project.queue.answer_of("Ann", "red-000.png").labels == ("red",)


def test_labels_of_files_go_on_without_a_person(photos, tmp_path):
    table = tmp_path / "a.csv"
    table.write_text(
        "id,annotator,label,skip,at\nred-000.png,import,red,,\nred-003.png,,red,,\nred-006.png,,,yes,\n"
    )
    with open_project(photos) as project:
        report = project.import_labels(table)
        assert (report.added, report.unanswered) == (2, 1)
        assert len(project.queue.history(IMPORTED_BY)) == 2


def test_a_time_to_come_or_none_is_now(photos, tmp_path):
    table = tmp_path / "a.csv"
    rows = ("red-000.png,Ann,red,9999-01-01", "red-003.png,Ann,red,soon")
    table.write_text("id,annotator,label,at\n" + "\n".join(rows))
    with open_project(photos, clock=Clock(5000.0)) as project:
        assert project.import_labels(table).added == 2
        assert {a.at for a in project.queue.history("Ann")} == {5000.0}


def test_two_rows_of_one_person_have_to_agree(photos, tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("id,annotator,label\nred-000.png,Ann,red\nred-000.png,Ben,blue\n")
    with open_project(photos) as project:
        assert project.import_labels(table).added == 2
        table.write_text("id,annotator,label\nred-003.png,Ann,red\nred-003.png,Ann,blue\n")
        with pytest.raises(InputError, match="another label in"):
            project.import_labels(table)
        table.write_text(f"id,annotator,label\nred-003.png,{'n' * 99},red\n")
        with pytest.raises(InputError, match="line 2: annotator"):
            project.import_labels(table)


@pytest.mark.parametrize("name", ["ann lee", "ANN  LEE", "Ann Lee"])
def test_a_name_in_other_capitals_is_the_same_person(photos, name):
    with open_project(photos) as project:
        project.queue.answer("Ann Lee", "red-000.png", ["red"])
        assert project.queue.find_annotator(name) == "Ann Lee"
        assert project.queue.find_annotator("Anne Lee") == "Anne Lee"
