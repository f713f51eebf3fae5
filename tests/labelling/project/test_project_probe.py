from __future__ import annotations

import json
import secrets
import time

import numpy as np
import pytest
import torch
from small_project import CLASSES, make_photos, open_project, truth

from steepest.core.progress import SilentProgress
from steepest.errors import DataError, InputError
from steepest.labelling.project import Settings, learning
from steepest.labelling.project import settings as settings_module
from steepest.labelling.project.learning import learn, to_targets
from steepest.labelling.project.retraining import run_round
from steepest.labelling.project.settings import load_settings
from steepest.models.backbones import Backbone
from steepest.training.probes import fit_probe

PATIENCE_SECONDS = 120


class Looks(torch.nn.Module):
    """The mean colours of the upper and the lower half, as features."""

    def __init__(self):
        super().__init__()
        self.seen = 0

    def forward(self, x):
        self.seen += len(x)
        return x.reshape(len(x), 3, 2, 4, 8).mean(dim=(3, 4)).flatten(1)


def prepare(image):
    pixels = np.asarray(image.resize((8, 8)), dtype=np.float32)
    return torch.from_numpy(pixels.transpose(2, 0, 1) / 255)


@pytest.fixture
def net(monkeypatch):
    """A backbone that costs nothing, by the name of the embedded one."""
    looks = Looks()
    found = Backbone("looks", looks.eval(), prepare, "halves")
    monkeypatch.setattr("steepest.labelling.project.inputs.find_backbone", lambda *_: found)
    return looks


@pytest.fixture
def photos(tmp_path):
    return make_photos(tmp_path / "photos", 60)


def run(project):
    project.trainer.request()
    assert run_round(project.store, project.source, secrets.token_hex(4))


def label_next(project, count):
    for _ in range(count):
        (task,) = project.queue.next("ann")
        project.queue.answer("ann", task.sample, [truth(task.sample)])


def test_a_project_learns_a_probe_on_features_unless_a_net_is_named(monkeypatch):
    assert Settings().way == "probe"
    assert Settings(strategy="margin", batch_size=3).way == "probe"
    for own in ({"model": "resnet18"}, {"weights": "a.pt"}, {"epochs": 3}, {"image_size": 64}):
        assert Settings(**own).way == "scratch"
        assert Settings(learn="probe", **own).way == "probe"
    monkeypatch.setattr(settings_module, "find_spec", lambda name: None)
    assert Settings().way == "scratch"
    assert Settings(backbone="own.nets:make").way == "probe"
    with pytest.raises(InputError, match="did you mean"):
        Settings(learn="prob")


def test_projects_from_before_there_were_backbones_keep_their_net(photos):
    with open_project(photos) as project:
        with project.store.writing() as connection:
            connection.execute("DELETE FROM settings WHERE name IN ('learn', 'backbone')")
        with project.store.reading() as connection:
            assert load_settings(connection).way == "scratch"


def test_a_probe_learns_from_every_few_answers_and_from_more_as_labels_grow():
    usual = Settings(learn="probe")
    found = [usual.answers_per_round(n) for n in (0, 50, 100, 200, 1000, 10**5)]
    assert found == [5, 5, 5, 10, 50, 100]
    assert Settings(learn="probe", batch_size=7).answers_per_round(10**5) == 7
    assert Settings(learn="scratch").answers_per_round(10**5) == 20


def test_a_round_picks_by_features_and_learns_a_probe(photos, net):
    with open_project(photos, batch_size=6) as project:
        run(project)
        first = [pick for pick in project.picks() if pick.strategy == "spread"]
        assert {truth(pick.sample) for pick in first[:3]} == set(CLASSES)
        assert net.seen == 60 - len({p.name for p in photos.iterdir()} & held_out(project))
        label_next(project, 6)
        run(project)
        (done,) = [t for t in project.trainings() if t.version]
        assert done.labels == 5
        assert all(p.strategy in (project.settings.strategy, "validation") for p in project.picks())
        assert all(len(p.predictions) == 3 for p in project.picks())
        right = [p.predictions[0].name == truth(p.sample) for p in project.picks()]
        assert sum(right) >= 0.9 * len(right)
        assert "picks" in done.metrics["verdict"]


def held_out(project):
    with project.store.reading() as connection:
        return {row["id"] for row in connection.execute("SELECT id FROM images WHERE held_out = 1")}


def test_features_are_computed_once_and_stay_for_the_next_start(photos, net):
    with open_project(photos, batch_size=6) as project:
        run(project)
        label_next(project, 6)
        run(project)
        seen = net.seen
    with open_project(photos, batch_size=6) as project:
        run(project)
        run(project)
    assert net.seen == seen <= 60
    with open_project(photos, folder=photos / "elsewhere", batch_size=6) as project:
        run(project)
    assert net.seen > seen


def test_picks_do_not_come_near_labels_that_came_during_the_round(photos, net, monkeypatch):
    with open_project(photos, batch_size=6) as project:
        run(project)
        label_next(project, 6)
        from steepest.labelling.project import choosing

        listed = choosing._list_samples

        def list_and_answer(this):
            found = listed(this)
            label_next(project, 3)
            return found

        monkeypatch.setattr(choosing, "_list_samples", list_and_answer)
        run(project)
        assert project.trainer.state().last.status == "done"
        assert project.batch().version == 1


def test_damaged_images_are_marked_and_those_that_are_gone_come_back(photos, net):
    (photos / "red-000.png").write_bytes(b"broken")
    with open_project(photos, validation_share=0.0, batch_size=6) as project:
        (photos / "green-001.png").rename(photos.parent / "away.png")
        run(project)
        assert [s.sample for s in project.queue.samples(state="unreadable")] == ["red-000.png"]
        assert [s.sample for s in project.queue.samples(state="missing")] == ["green-001.png"]
        (photos.parent / "away.png").rename(photos / "green-001.png")
        run(project)
        assert not project.queue.samples(state="missing")
        for path in photos.iterdir():
            if path.is_file():
                path.unlink()
        with pytest.raises(DataError, match="bring them back"):
            run(project)


def test_several_classes_are_learnt_one_by_one():
    rows = torch.randn(80, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    has = [[k for k in range(2) if rows[i, k] > 0] for i in range(80)]
    settings = Settings(multi_label=True, learn="probe")
    learnt = learn(rows.float(), [json.dumps(h) for h in has], 3, settings, SilentProgress())
    found = torch.tensor(learnt.probabilities(rows.float()))
    targets = to_targets(learnt.task, [json.dumps(h) for h in has])
    for k in range(2):
        one = fit_probe(
            rows.float(), targets[:, k].long(), 2, seed=learning.derive(0, "labelling model", "")
        )
        assert torch.allclose(found[:, k].double(), one.probabilities(rows)[:, 1], atol=1e-4)
    # A class that no label has is as probable as half a sample more would make it.
    assert found[:, 2] == pytest.approx(torch.full((80,), 0.5 / 81), abs=1e-4)


def test_the_backbone_itself_can_be_tuned():
    tuned = Settings(learn="fine-tune").as_net()
    assert (tuned.model, tuned.side, tuned.way) == ("efficientnet-lite0", 160, "fine-tune")
    assert tuned.weights is not None
    assert learning.make_model(tuned, 3, seed=0)._fc.out_features == 3
    with pytest.raises(InputError, match="--learn probe"):
        Settings(learn="fine-tune", backbone="own.nets:make").as_net()


def test_a_process_computes_features_between_trainings(photos):
    with open_project(photos, background=True, batch_size=3, cold_start_images=8) as project:
        assert project.trainer.wait(PATIENCE_SECONDS)
        label_next(project, 3)
        assert project.trainer.wait(PATIENCE_SECONDS)
        number = project.trainer.process_id
        label_next(project, 3)
        assert project.trainer.wait(PATIENCE_SECONDS)
        assert project.trainer.process_id == number is not None
        assert project.trainer.state().last.status == "done"
        assert project.trainer.features is not None


def test_answers_that_came_during_a_training_are_learnt_from_without_a_further_one(photos):
    with open_project(photos, background=True, batch_size=3, cold_start_images=8) as project:
        assert project.trainer.wait(PATIENCE_SECONDS)
        label_next(project, 3)
        while project.trainer.state().status != "running":
            time.sleep(0.01)
        label_next(project, 3)
        end = time.monotonic() + PATIENCE_SECONDS
        while project.trainings()[-1].labels < 4 and time.monotonic() < end:
            time.sleep(0.05)
        assert project.trainings()[-1].labels >= 4
