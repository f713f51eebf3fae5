from __future__ import annotations

import secrets
import warnings
from dataclasses import replace

import pytest
from small_project import CLASSES, make_photos, open_project, truth

from steepest.errors import InputError, RunFolderError, SteepestWarning
from steepest.labelling.project import choosing, retraining, statistics
from steepest.labelling.project.learning import make_model
from steepest.labelling.project.retraining import run_round
from steepest.labelling.project.round import StoreProgress
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.trainings import claim, interrupt, is_due, request
from steepest.models import build
from steepest.modules.weights import load_weights, save_weights
from steepest.selecting.choosing import choose_from
from steepest.selecting.regime import Regime

FAST = {"epochs": 6, "batch_size": 6, "image_size": 12, "lr": 0.01}


@pytest.fixture
def photos(tmp_path):
    return make_photos(tmp_path / "photos", 60)


def run(project):
    project.trainer.request()
    assert run_round(project.store, project.source, secrets.token_hex(4))


def label_next(project, count, annotator="ann"):
    for _ in range(count):
        (task,) = project.queue.next(annotator)
        project.queue.answer(annotator, task.sample, [truth(task.sample)])


def held_out(project):
    with project.store.reading() as connection:
        rows = connection.execute("SELECT id FROM images WHERE held_out = 1")
        return {row["id"] for row in rows}


def test_without_labels_a_spread_of_all_kinds_is_picked(photos):
    with open_project(photos, **FAST) as project:
        run(project)
        picks = project.picks()
        assert (len(picks), project.batch().size, project.batch().finished) == (12, 6, 0)
        assert [pick.rank for pick in picks] == list(range(1, 13))
        chosen = [pick.sample for pick in picks if pick.strategy == "spread"]
        assert {truth(sample) for sample in chosen[:4]} == set(CLASSES)
        tests = {pick.sample: pick.rank for pick in picks if pick.strategy == "validation"}
        assert list(tests.values()) == [5, 10]  # One of five, as validation_share says.
        assert tests.keys() <= held_out(project)
        assert not set(chosen) & held_out(project)
        assert project.trainer.state().last.version is None


def test_picks_are_handed_out_by_rank_with_what_the_model_thinks(photos):
    with open_project(photos, **FAST) as project:
        run(project)
        label_next(project, 6)
        assert project.batch().finished == 6
        run(project)
        picks = project.picks()
        tasks = project.queue.next("ann", 6)
        assert [task.sample for task in tasks] == [pick.sample for pick in picks[:6]]
        assert [task.version for task in tasks] == [1] * 6
        for task in tasks:
            assert {p.name for p in task.predictions} == set(CLASSES)
            assert sum(p.probability for p in task.predictions) == pytest.approx(1, abs=1e-3)
            values = [p.probability for p in task.predictions]
            assert values == sorted(values, reverse=True)
        answer = project.queue.answer("ann", tasks[0].sample, ["red"])
        assert (answer.version, answer.batch) == (1, 2)
        assert answer.predicted == (tasks[0].predictions[0].name,)
        assert answer.probability == tasks[0].predictions[0].probability


def test_models_learn_from_labels_and_never_from_samples_held_out(photos):
    with open_project(photos, validation_share=0.4, **FAST) as project:
        for path in sorted(photos.glob("*.png")):
            project.queue.answer("ann", path.name, [truth(path.name)])
        out = held_out(project)
        assert 10 < len(out) < 40
        run(project)
        (done,) = project.trainings()
        assert (done.labels, done.validation) == (60 - len(out), len(out))
        assert done.correct > 0.6 * len(out)
        assert done.metrics["accuracy"] == done.correct / len(out)
        with project.store.reading() as connection:
            judged = connection.execute(
                "SELECT i.id FROM opinions o JOIN images i ON i.number = o.image"
            ).fetchall()
        assert {row["id"] for row in judged} == out
        assert (project.folder / done.weights).is_file()
        (point,) = statistics.learning_curve(project)
        assert point.low < point.accuracy <= point.high
        model = build("small-cnn", 3, 3, 5)
        load_weights(model, project.folder / done.weights)


def test_the_same_labels_give_the_same_model_and_picks(tmp_path, photos):
    found = []
    for name in ("first", "second"):
        with open_project(photos, folder=tmp_path / name, **FAST) as project:
            run(project)
            label_next(project, 6)
            run(project)
            picks = project.picks()
            found.append((project.batch().fingerprint, [(p.sample, p.score) for p in picks]))
    assert found[0] == found[1]


def test_one_class_alone_is_not_trained_on(photos):
    with open_project(photos, **FAST) as project:
        for path in sorted(photos.glob("red-*"))[:8]:
            project.queue.answer("ann", path.name, ["red"])
        run(project)
        assert project.batch().strategy == "spread"
        assert project.trainings()[0].version is None
        assert not {p.sample for p in project.picks()} & {
            state.sample for state in project.queue.samples(state="labelled")
        }


def test_several_classes_can_be_learnt(photos):
    with open_project(photos, multi_label=True, **FAST) as project:
        for path in sorted(photos.glob("*.png"))[:40]:
            labels = [truth(path.name)] if truth(path.name) != "blue" else []
            project.queue.answer("ann", path.name, labels)
        run(project)
        (done,) = project.trainings()
        assert done.version == 1
        assert "exact_match" in done.metrics
        assert all(0 <= p.probability <= 1 for pick in project.picks() for p in pick.predictions)


def test_unreadable_images_are_marked_and_left_out_of_training(photos):
    (photos / "red-000.png").write_bytes(b"broken")
    with open_project(photos, validation_share=0.0, **FAST) as project:
        for path in sorted(photos.glob("*.png")):
            project.queue.answer("ann", path.name, [truth(path.name)])
        run(project)
        assert project.trainings()[0].labels == 59
        assert [s.sample for s in project.queue.samples(state="unreadable")] == ["red-000.png"]


def test_wrong_labels_are_found_by_models_that_never_saw_them(photos):
    with open_project(photos, folds=3, **{**FAST, "epochs": 20}) as project:
        for path in sorted(photos.glob("*.png")):
            wrong = path.name in ("red-030.png", "green-031.png")
            project.queue.answer("ann", path.name, ["blue" if wrong else truth(path.name)])
        run(project)
        doubts = statistics.suspicious(project, margin=0.0)
        top = {doubt.sample for doubt in doubts[:4]}
        assert {"red-030.png", "green-031.png"} <= top
        doubt = next(d for d in doubts if d.sample == "red-030.png")
        assert (doubt.labels, doubt.predicted) == (("blue",), ("red",))
        assert doubt.source in ("fold", "validation")
        project.queue.answer("ann", "red-030.png", ["blue"])
        later = statistics.suspicious(project, margin=0.0)
        assert "red-030.png" not in {d.sample for d in later}


def test_a_class_that_came_later_is_learnt_next_time(photos):
    with open_project(photos, validation_share=0.0, **FAST) as project:
        label_next(project, 12)
        run(project)
        project.add_class("violet")
        task = project.queue.next("ann")[0]
        assert len(task.predictions) == 3
        project.queue.answer("ann", task.sample, ["violet"])
        run(project)
        assert len(project.queue.next("bob")[0].predictions) == 4


def test_a_process_that_lost_its_training_writes_nothing(photos):
    with open_project(photos, **FAST) as project:
        project.trainer.request()
        with project.store.writing() as connection:
            claim(connection, "old", 0.0)
            assert interrupt(connection, 1.0)
        late = StoreProgress(project.store, "old")
        with pytest.raises(RunFolderError, match="taken over"), late.task("train", 3):
            pass
        assert run_round(project.store, project.source, "new")
        assert not run_round(project.store, project.source, "newer")
        assert project.batch().number == 1


def test_a_process_that_loses_its_training_at_the_very_end_writes_nothing(photos, monkeypatch):
    with open_project(photos, **FAST) as project:

        def lose(this):
            picks = choosing.pick_spread(this)
            with project.store.writing() as connection:
                assert interrupt(connection, 1.0)
            return picks

        monkeypatch.setattr(retraining, "pick_spread", lose)
        project.trainer.request()
        with pytest.raises(RunFolderError, match="taken over"):
            run_round(project.store, project.source, "old")
        assert project.batch() is None
        assert project.picks() == []
        assert project.trainer.state().status == "wanted"


def test_a_training_is_due_at_first_and_after_each_finished_batch(photos):
    with open_project(photos, **FAST) as project:

        def due():
            with project.store.reading() as connection:
                return is_due(connection, 6)

        assert due()
        run(project)
        assert not due()
        label_next(project, 5)
        assert not due()
        (task,) = project.queue.next("ann")
        project.queue.skip("ann", task.sample)
        assert due()
        project.trainer.request()
        assert not due()


def test_after_a_failure_new_answers_are_awaited(photos):
    with open_project(photos, background=True, **FAST) as project:
        assert project.trainer.wait(120)
        project.change_settings(weights=str(photos / "none.safetensors"))
        label_next(project, 6)
        assert project.trainer.wait(120)
        state = project.trainer.state()
        assert (state.status, state.last.status) == ("idle", "failed")
        assert "none.safetensors" in state.error
        with project.store.reading() as connection:
            assert not is_due(connection, 6)
        label_next(project, 1)
        assert project.trainer.state().status == "idle"
        project.change_settings(weights=None)
        project.trainer.request()
        assert project.trainer.wait(120)
        assert project.trainer.state().last.version == 1


def test_requests_that_wait_are_one(photos):
    with open_project(photos) as project, project.store.writing() as connection:
        assert request(connection, "a", 0.0) == request(connection, "b", 1.0)


def test_given_weights_look_at_the_first_samples_too(tmp_path, photos):
    save_weights(build("small-cnn", 7, 3, 1), tmp_path / "w.safetensors")
    weights = str(tmp_path / "w.safetensors")
    with open_project(photos, weights=weights, **FAST) as project:
        run(project)
        chosen = [pick.sample for pick in project.picks() if pick.strategy == "spread"]
        assert {truth(sample) for sample in chosen[:5]} == set(CLASSES)


def test_weights_of_other_classes_give_their_features(tmp_path):
    other = build("small-cnn", 7, 3, 1)
    save_weights(other, tmp_path / "w.safetensors")
    settings = Settings(weights=str(tmp_path / "w.safetensors"))
    model = make_model(settings, 3, 0)
    assert (model.features[0].weight == other.features[0].weight).all()
    assert model.fc.out_features == 3
    with pytest.raises(InputError):
        make_model(Settings(weights=str(tmp_path / "none.safetensors")), 3, 0)


def test_a_strategy_upside_down_is_replaced_and_other_warnings_are_heard(photos, monkeypatch):
    upside_down = Regime(entropy_ratio=0.97, rank_correlation=-0.6, samples=9)

    def turned(model, samples, k, strategy, how):
        warnings.warn("its codes have collapsed", SteepestWarning, stacklevel=2)
        found = choose_from(model, samples, k, strategy, how)
        return replace(found, selection=replace(found.selection, regime=upside_down))

    monkeypatch.setattr(choosing, "choose_from", turned)
    for weak, expected in (("margin", "margin"), (None, "entropy-gradnorm")):
        with open_project(
            photos, strategy="entropy-gradnorm", weak_strategy=weak, **FAST
        ) as project:
            if not project.progress().labelled:
                label_next(project, 12)
            with pytest.warns(SteepestWarning, match="collapsed"):
                run(project)
            assert project.batch().strategy == expected
            assert {pick.strategy for pick in project.picks()} == {expected, "validation"}
            assert "samples last" in project.trainings()[-1].metrics["regime"]


def test_one_label_for_each_pick_finishes_a_batch_also_with_overlap(photos):
    with open_project(photos, overlap=2, **FAST) as project:
        run(project)
        label_next(project, 6)
        assert project.batch().finished == 6
