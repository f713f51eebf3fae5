from __future__ import annotations

import csv
import json
import secrets

import pytest
import torch
from small_project import CLASSES, Clock, make_photos, open_project, truth
from test_project_probe import Looks, prepare

import steepest
from steepest.core.progress import SilentProgress
from steepest.errors import InputError
from steepest.labelling.project import statistics
from steepest.labelling.project.inputs import FeatureFinder
from steepest.labelling.project.predictions import (
    find_model,
    list_everything,
    list_predictions,
    predict_all,
    write_predictions,
)
from steepest.labelling.project.retraining import run_round
from steepest.models.backbones import Backbone


@pytest.fixture
def net(monkeypatch):
    found = Backbone("looks", Looks().eval(), prepare, "halves")
    for module in ("inputs", "classifier"):
        monkeypatch.setattr(f"steepest.labelling.project.{module}.find_backbone", lambda *_: found)
    return found


@pytest.fixture
def project(tmp_path, net):
    """Sixty images, a third of them labelled, a model and its predictions of the others."""
    photos = make_photos(tmp_path / "photos", 60)
    with open_project(photos, clock=Clock()) as project:
        for path in sorted(photos.glob("*.png"), key=lambda path: path.stem[-3:])[:24]:
            project.queue.answer("ann", path.name, [truth(path.name)])
        train(project)
        yield project


def train(project):
    project.trainer.request()
    assert run_round(project.store, project.source, secrets.token_hex(4))
    predict(project)


def predict(project, stop=lambda: False):
    finder = FeatureFinder(project.store, project.source)
    settings = project.settings
    if settings.way == "probe":
        kept = finder.find(settings)
        with SilentProgress().task("", 0) as step:
            kept.compute(kept.missing([path.name for path in project.photos.glob("*.png")]), step)
    return predict_all(project.store, project.source, settings, finder, SilentProgress(), stop)


def labelled(project):
    return dict(project.labels())


def test_every_image_without_a_label_has_a_prediction(project):
    version, rows = list_predictions(project.store, project.settings)
    assert version == 1
    assert {row.sample for row in rows} | set(labelled(project)) == {
        path.name for path in project.photos.glob("*.png")
    }
    assert all(row.labels == (truth(row.sample),) for row in rows)
    assert all(1 / 3 < row.probability <= 1 for row in rows)
    # Whoever labels an image takes it out of what is predicted.
    project.queue.answer("ann", rows[0].sample, ["red"])
    assert len(list_predictions(project.store, project.settings)[1]) == len(rows) - 1


def test_a_pass_that_is_stopped_keeps_what_was_there(project):
    before = list_predictions(project.store, project.settings)
    assert predict(project, stop=lambda: True) is None
    assert list_predictions(project.store, project.settings) == before


def test_damaged_predictions_are_none(project):
    (project.folder / "models/predictions.safetensors").write_bytes(b"damaged")
    assert list_predictions(project.store, project.settings) == (None, [])


def test_labels_and_predictions_are_exported_with_their_source(project, tmp_path):
    version, rows = project.accepting.candidates(0.9)
    project.accepting.accept("bob", [rows[0].sample], version, 0.9)
    assert write_predictions(project.store, project.settings, tmp_path / "all.csv") == 60
    with (tmp_path / "all.csv").open() as file:
        found = {row["id"]: row for row in csv.DictReader(file)}
    assert found[rows[0].sample]["source"] == "accepted"
    assert found["red-000.png"] == {
        "id": "red-000.png",
        "label": "red",
        "probability": "",
        "source": "person",
    }
    assert found[rows[1].sample]["source"] == "model"
    assert float(found[rows[1].sample]["probability"]) == pytest.approx(
        rows[1].probability, abs=1e-5
    )
    write_predictions(project.store, project.settings, tmp_path / "all.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert {line["id"]: line["source"] for line in lines} == {
        name: row["source"] for name, row in found.items()
    }
    for name, words in (("all.csv", "there already"), ("all.txt", "as .csv or .jsonl")):
        with pytest.raises(InputError, match=words):
            write_predictions(project.store, project.settings, tmp_path / name)


def test_accepted_predictions_are_answers_of_who_looked_at_them(project):
    version, rows = project.accepting.candidates(0.9)
    chosen = [row.sample for row in rows[:5]]
    assert project.accepting.accept("bob", chosen, version, 0.9) == 5
    assert all(labelled(project)[sample] == (truth(sample),) for sample in chosen)
    answer = project.queue.answer_of("bob", chosen[0])
    assert (answer.version, answer.predicted, answer.annotator) == (1, answer.labels, "bob")
    assert answer.probability == pytest.approx(rows[0].probability)
    (accepted,) = project.accepting.latest()
    assert (accepted.annotator, accepted.accepted, accepted.standing) == ("bob", 5, 5)
    assert project.decisions(chosen[0])[0].kind == "accept predictions"
    # They say nothing about people's speed, nor about how often models are right.
    assert "bob" not in statistics.speed(project).annotators
    assert statistics.agreement_with_predictions(project).answers == 0
    assert statistics.hint_certainty(project) is None


def test_an_acceptance_is_taken_back_as_a_whole_by_who_gave_it(project):
    version, rows = project.accepting.candidates(0.9)
    chosen = [row.sample for row in rows[:4]]
    before = labelled(project)
    project.accepting.accept("bob", chosen, version, 0.9)
    project.queue.answer("bob", chosen[0], ["blue"])
    # The key for one answer does not take back one of many.
    assert project.queue.undo("bob") is not None
    assert project.queue.undo("bob", "a browser") is None
    (accepted,) = project.accepting.latest()
    with pytest.raises(InputError, match="nothing of that"):
        project.accepting.undo("ann", accepted.number)
    assert project.accepting.undo("bob", accepted.number) == 4
    assert labelled(project) == before
    assert project.accepting.latest()[0].standing == 0
    with pytest.raises(InputError, match="nothing of that"):
        project.accepting.undo("bob", accepted.number)
    assert {row.sample for row in project.accepting.candidates(0.9)[1]} >= set(chosen)


def test_what_was_answered_anew_stays_when_an_acceptance_is_taken_back(project):
    version, rows = project.accepting.candidates(0.9)
    chosen = [row.sample for row in rows[:2]]
    project.accepting.accept("bob", chosen, version, 0.9)
    project.queue.answer("bob", chosen[0], ["blue"])
    (accepted,) = project.accepting.latest()
    assert project.accepting.undo("bob", accepted.number) == 1
    assert labelled(project)[chosen[0]] == ("blue",)
    assert chosen[1] not in labelled(project)


def test_only_what_was_shown_by_the_latest_model_is_accepted(project):
    version, rows = project.accepting.candidates(0.9)
    with project.store.reading() as connection:
        out = {row["id"] for row in connection.execute("SELECT id FROM images WHERE held_out = 1")}
    assert out
    assert not {row.sample for row in rows} & out
    project.queue.answer("ann", rows[0].sample, ["blue"])
    assert project.accepting.accept("bob", [rows[0].sample, *out, "none.png"], version, 0.9) == 0
    assert labelled(project)[rows[0].sample] == ("blue",)
    train(project)
    with pytest.raises(InputError, match="newer model"):
        project.accepting.accept("bob", [rows[1].sample], version, 0.9)
    with pytest.raises(InputError, match="90%"):
        project.accepting.candidates(0.5)


def test_a_model_is_loaded_from_its_file_and_says_the_same(project):
    version, path = find_model(project.store)
    assert version == 1
    model = steepest.load_classifier(path)
    assert model.classes == CLASSES
    _, rows = list_predictions(project.store, project.settings)
    found = model.classify([project.photos / row.sample for row in rows])
    assert [name for name, _ in found] == [row.labels[0] for row in rows]
    assert [p for _, p in found] == pytest.approx([r.probability for r in rows], abs=1e-5)
    assert model.classify([]) == []
    table = model.probabilities([str(project.photos / rows[0].sample)])
    assert table.shape == (1, 3)
    assert float(table.sum()) == pytest.approx(1)


def test_a_net_is_loaded_with_its_pixels(tmp_path):
    photos = make_photos(tmp_path / "photos", 24)
    with open_project(photos, epochs=4, image_size=12, lr=0.01) as project:
        for path in sorted(photos.glob("*.png"))[:16]:
            project.queue.answer("ann", path.name, [truth(path.name)])
        train(project)
        model = steepest.load_classifier(find_model(project.store)[1])
        _, rows = list_predictions(project.store, project.settings)
        assert len(rows) == 8
        found = model.classify([photos / row.sample for row in rows])
        assert [p for _, p in found] == pytest.approx([r.probability for r in rows], abs=1e-5)


def test_files_that_are_no_classifier_are_refused_in_a_line(project, tmp_path, net):
    _, path = find_model(project.store)
    with pytest.raises(InputError, match="no such file"):
        steepest.load_classifier(tmp_path / "none.safetensors")
    (tmp_path / "odd.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(InputError, match="no file of weights"):
        steepest.load_classifier(tmp_path / "odd.safetensors")
    from steepest.modules.weights import save_weights

    save_weights(torch.nn.Linear(2, 2), tmp_path / "plain.safetensors")
    with pytest.raises(InputError, match="without classes"):
        steepest.load_classifier(tmp_path / "plain.safetensors")
    data = path.read_bytes()
    strange = data.replace(b"looks", b"a:bcd")
    (tmp_path / "code.safetensors").write_bytes(strange)
    with pytest.raises(InputError, match="give code='a:bcd'"):
        steepest.load_classifier(tmp_path / "code.safetensors")
    steepest.load_classifier(tmp_path / "code.safetensors", code="a:bcd")
    other = data.replace(net.identity.encode(), b"0" * len(net.identity))
    (tmp_path / "other.safetensors").write_bytes(other)
    with pytest.raises(InputError, match="another one here"):
        steepest.load_classifier(tmp_path / "other.safetensors").classify(["a.png"])


def test_everything_is_listed_once(project):
    rows = list_everything(project.store, project.settings)
    assert len({row.sample for row in rows}) == len(rows) == 60
