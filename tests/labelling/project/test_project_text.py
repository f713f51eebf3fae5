from __future__ import annotations

import csv
import json
import secrets

import pytest
from small_texts import make_backbone, make_table, make_texts, review, truth

from steepest.core.progress import SilentProgress
from steepest.errors import DataError, InputError
from steepest.labelling.project import Project, Settings
from steepest.labelling.project.classifier import load_classifier
from steepest.labelling.project.exporting import label_text
from steepest.labelling.project.inputs import FeatureFinder
from steepest.labelling.project.predictions import find_model, list_everything, predict_all
from steepest.labelling.project.retraining import run_round
from steepest.labelling.project.source import SampleFolder, TextTable, find_kind, read_text

CLASSES = ("good", "bad")


@pytest.fixture
def words(monkeypatch):
    found = make_backbone()
    for module in ("inputs", "classifier"):
        where = f"steepest.labelling.project.{module}.find_backbone"
        monkeypatch.setattr(where, lambda *_: found)
    return found.model


@pytest.fixture(params=["table", "folder"])
def texts(request, tmp_path):
    if request.param == "table":
        return make_table(tmp_path / "reviews.csv", 40)
    return make_texts(tmp_path / "reviews", 40)


def open_texts(path, classes=CLASSES, **settings):
    return Project.open(path, classes, settings=Settings(**settings), background=False)


def run(project):
    project.trainer.request()
    assert run_round(project.store, project.source, secrets.token_hex(4))


def label_next(project, count):
    for _ in range(count):
        (task,) = project.queue.next("ann")
        text = project.pictures.text(task.sample)
        mark = project.source.mark(task.sample)
        project.queue.answer("ann", task.sample, [truth(text)], shown=mark)


def rewrite(path, texts):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *texts.items()])


def test_texts_are_picked_learnt_and_predicted_by_their_features(texts, words):
    with open_texts(texts) as project:
        assert (project.settings.kind, project.settings.way) == ("text", "probe")
        assert project.settings.backbone == "all-minilm-l6-v2"
        run(project)
        assert {pick.strategy for pick in project.picks()} == {"spread", "validation"}
        label_next(project, 12)
        run(project)
        assert project.trainings()[-1].labels + project.trainings()[-1].validation == 12
        seen = len(words.seen)
        finder = FeatureFinder(project.store, project.source)
        finder.compute_all(project.settings, SilentProgress())
        predict_all(project.store, project.source, project.settings, finder, SilentProgress())
        rows = list_everything(project.store, project.settings)
        assert len(rows) == 40
        told = {row.sample: row.labels[0] for row in rows}
        right = sum(label == truth(read_text(project.source, s)) for s, label in told.items())
        assert right >= 38
        assert len(words.seen) == 40 >= seen  # each text once


def test_the_rows_of_a_table_are_what_a_reader_of_csv_finds_in_it(tmp_path):
    path = make_table(tmp_path / "reviews.csv", 9)
    with path.open(encoding="utf-8", newline="") as file:
        expected = {row["id"]: row["text"] for row in csv.DictReader(file)}
    table = TextTable(path)
    found = dict(table.walk(tmp_path, [], None))
    assert list(found) == list(expected)
    assert {sample: read_text(table, sample) for sample in found} == expected
    for sample, text in expected.items():
        assert found[sample].size_bytes == len(text.encode())
        assert found[sample] == table.stamp(sample)
    assert len({stamp.place for stamp in found.values()}) == 9


def test_a_project_is_kept_beside_its_table_and_numbers_are_ids_too(tmp_path):
    path = tmp_path / "reviews.jsonl"
    lines = [{"id": 7, "text": "a fine day"}, {"id": 9, "text": ""}, {"id": 12, "text": "a b"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    given = tmp_path / "given.jsonl"
    given.write_text('{"id": 7, "labels": ["good"]}\n', encoding="utf-8")
    with open_texts(path) as project:
        assert project.folder == tmp_path / "reviews.jsonl.steepest"
        assert project.scan.refused == ("9",)
        assert project.import_labels(given).added == 1
        assert label_text(project.label_rows(), "csv") == "id,label\n7,good\n"
    with Project.open(path, settings=Settings(overlap=2), background=False) as project:
        assert (project.settings.kind, project.settings.overlap) == ("text", 2)
        assert project.labels() == [("7", ("good",))]


def test_copies_are_asked_about_once_and_rows_that_come_later_join_in(tmp_path, words):
    path = tmp_path / "reviews.csv"
    texts = {"a": "a good one", "b": "a bad one", "c": "a good one"}
    rewrite(path, texts)
    with open_texts(path, validation_share=0.0) as project:
        run(project)
        assert project.progress().copies == 1
        label_next(project, 2)
        assert project.queue.next("ann") == []
        assert dict(project.labels()) == {"a": ("good",), "b": ("bad",), "c": ("good",)}
        rewrite(path, {**texts, "d": "a dull one"})
        assert project.rescan().added == 1
        assert project.queue.next("ann")[0].sample == "d"


def test_labels_do_not_slide_when_rows_are_renumbered(tmp_path):
    path = make_table(tmp_path / "reviews.csv", 6)
    with open_texts(path) as project:
        for number in range(6):
            project.queue.answer("ann", f"r{number}", [truth(review(number))])
        # Equal lengths, and as many rows as before.
        rewrite(path, {f"r{number}": review((number + 1) % 6) for number in range(6)})
        assert project.rescan().changed == 6
        rewrite(path, {f"r{number}": review(number) for number in range(6)})
        assert project.rescan().changed == 0


def test_a_text_that_was_replaced_while_it_was_shown_is_not_answered(tmp_path):
    path = make_table(tmp_path / "reviews.csv", 3)
    with open_texts(path) as project:
        shown = project.source.mark("r1")
        rewrite(path, {"r1": "something else"})
        with pytest.raises(InputError, match="r1 was replaced while it was shown"):
            project.queue.answer("ann", "r1", ["good"], shown=shown)
        with pytest.raises(DataError, match="r2: the row is gone"):
            project.pictures.text("r2")
        assert project.queue.samples(state="missing")[0].sample == "r2"


def test_a_table_that_is_away_marks_nothing(tmp_path):
    path = make_table(tmp_path / "reviews.csv", 3)
    with open_texts(path) as project:
        aside = path.rename(tmp_path / "aside.csv")
        assert project.pictures.is_away("r1")
        with pytest.raises(DataError, match="no such file; bring it back"):
            project.rescan()
        assert project.progress().missing == 0
        aside.rename(path)
        assert project.rescan().total == 3
        assert not project.pictures.is_away("r1")


def test_files_that_hold_no_text_are_named_and_not_asked_about_again(tmp_path):
    folder = make_texts(tmp_path / "notes", 3)
    (folder / "r0.txt").write_bytes(b"\xff\xfe\x00bad")
    (folder / "r1.txt").write_text("  \n", encoding="utf-8")
    (folder / "r2.txt").write_text("\ufeffa good one", encoding="utf-8")
    with open_texts(folder) as project:
        for sample, why in (("r0.txt", "is no UTF-8"), ("r1.txt", "no text in it")):
            with pytest.raises(DataError, match=why):
                project.pictures.text(sample)
        assert project.pictures.text("r2.txt") == "a good one"
        assert [task.sample for task in project.queue.next("ann", 3)] == ["r2.txt"]


def test_texts_longer_than_anybody_reads_are_refused(tmp_path):
    folder = make_texts(tmp_path / "notes", 1)
    (folder / "r0.txt").write_bytes(b"a" * ((4 << 20) + 1))
    with pytest.raises(DataError, match="longer than 4 MB"):
        read_text(SampleFolder(folder, "text"), "r0.txt")


def test_texts_are_labelled_where_there_are_no_images(tmp_path):
    folder = make_texts(tmp_path / "notes", 2)
    assert find_kind(folder) == "text"
    (folder / "a.png").touch()
    assert find_kind(folder) == "images"
    (tmp_path / "empty").mkdir()
    assert find_kind(tmp_path / "empty") == "images"
    assert find_kind(tmp_path / "reviews.tsv") == "text"
    with open_texts(folder, kind="text") as project:
        assert [row.sample for row in project.queue.samples()] == ["r0.txt", "r1.txt"]


@pytest.mark.parametrize(
    "own", [{"model": "resnet18"}, {"learn": "fine-tune"}, {"weights": "a.pt"}, {"epochs": 3}]
)
def test_nets_for_images_are_refused_for_texts(own):
    with pytest.raises(InputError, match="learns from texts: leave out"):
        Settings(kind="text", **own)


def test_rows_of_a_table_are_not_exported_as_files(tmp_path):
    path = make_table(tmp_path / "reviews.csv", 3)
    refused = pytest.raises(InputError, match="rows of a table are no files")
    with open_texts(path) as project, refused:
        project.export_labels(tmp_path / "out")


def test_a_column_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match="there is no column 'txt'"):
        open_texts(make_table(tmp_path / "reviews.csv", 3), text_column="txt")


def test_copies_have_the_predictions_of_the_one_that_is_asked_about(tmp_path, words):
    path = tmp_path / "reviews.csv"
    rewrite(path, {f"r{n}": review(n % 20) for n in range(25)})
    with open_texts(path) as project:
        run(project)
        label_next(project, 10)
        run(project)
        finder = FeatureFinder(project.store, project.source)
        finder.compute_all(project.settings, SilentProgress())
        predict_all(project.store, project.source, project.settings, finder, SilentProgress())
        rows = {row.sample: row for row in list_everything(project.store, project.settings)}
        assert len(rows) == 25
        for n in range(5):
            assert rows[f"r{n}"].labels == rows[f"r{n + 20}"].labels


def test_the_model_of_texts_is_loaded_and_classifies_others(texts, words):
    with open_texts(texts, validation_share=0.0) as project:
        run(project)
        label_next(project, 12)
        run(project)
        version, path = find_model(project.store)
    model = load_classifier(path)
    assert (version, model.description.kind, model.classes) == (1, "text", CLASSES)
    others = ["a lovely day", "a dull day", "a poor show", "a warm welcome"]
    assert [label for label, _ in model.classify(others)] == ["good", "bad", "bad", "good"]
