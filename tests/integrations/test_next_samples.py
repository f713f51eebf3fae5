"""What callbacks share: rounds in a project, chosen as the loop in Python chooses them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import steepest
from steepest.errors import InputError, ModelError, PoolError, SettingWarning
from steepest.integrations import NextSamples
from steepest.labelling.project import open_pool

POOL = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))


def make_model(seed=0):
    torch.manual_seed(seed)
    return nn.Linear(6, 3)


@pytest.fixture
def make(tmp_path):
    def build(**options):
        given = {"strategy": "margin", "progress": False, **options}
        return NextSamples(POOL, given.pop("k", 5), tmp_path / "project", **given)

    return build


def test_rounds_are_those_of_a_loop_in_python(make, tmp_path):
    callback, models = make(seed=3), [make_model(seed) for seed in range(3)]
    trained = iter(models)
    loop = steepest.ActiveLoop(
        POOL, fit=lambda *_: next(trained), strategy="margin", seed=3, progress=False
    )
    for model in [None, *models]:
        picks = callback.choose(model, {"accuracy": 0.5})
        assert picks.ids == loop.ask(5).ids
        answers = {i: int(i) % 3 for i in picks.ids}
        callback.tell(answers)
        loop.tell(answers)
        assert callback.labelled() == loop.pool.labelled()
    kept = steepest.ActiveLoop(
        POOL, fit=lambda *_: None, folder=tmp_path / "project", progress=False
    )
    assert [record.labelled for record in kept.records] == [5, 10, 15]
    assert kept.records[0].metrics == {"accuracy": 0.5}
    kept.close()


def test_samples_that_wait_are_counted_in_whoever_asked(make, tmp_path):
    callback = make()
    first = callback.choose()
    assert callback.choose() is None
    assert callback.summary().startswith("No new samples were chosen: 5 samples wait")
    with open_pool(tmp_path / "project", "sheet") as pool:
        free = [i for i in range(40) if i not in first.ids]
        pool.query(free[:2], cycle=0, who="ann")
        pool.label(first.ids[:4], [0, 1, 2, 0], cycle=0, who="ann")
    second = callback.choose(make_model())
    assert len(second) == 2
    assert not set(second.ids) & {*first.ids, *free[:2]}
    assert callback.counts() == {"steepest/labelled": 4, "steepest/queried": 5}


def test_a_trained_model_chooses_though_the_project_has_no_labels(make):
    model = make_model()
    expected = steepest.select(model, POOL, 5, "margin", progress=False)
    assert set(make().choose(model).ids) == set(expected.ids)


def test_metrics_that_are_no_numbers_are_left_out(make, tmp_path):
    callback = make(labels={0: 1})
    told = {"a": torch.tensor(0.25), "b": float("nan"), "c": "text", "d": 1, "e": torch.ones(2)}
    callback.choose(make_model(), told)
    loop = steepest.ActiveLoop(
        POOL, fit=lambda *_: None, folder=tmp_path / "project", progress=False
    )
    assert loop.records[0].metrics == {"a": 0.25, "d": 1.0}
    loop.close()


def test_labels_without_a_model_are_refused(make):
    with pytest.raises(InputError, match="has labels: give the model"):
        make(labels={0: 1}).choose()


def test_a_failure_after_training_is_a_warning(make):
    callback = make(strategy="vaal")
    with pytest.warns(SettingWarning, match="the model is trained, but no samples were chosen"):
        callback.after_training(make_model(), {})


def test_a_pool_that_does_not_fit_the_model_shows_before_training(make):
    make().rehearse(make_model())
    with pytest.raises(ModelError):
        make().rehearse(nn.Linear(7, 3))


@pytest.mark.parametrize("options", [{"fit": len}, {"k": 0}, {"k": True}, {"start": "margin"}])
def test_options_that_cannot_be_used_are_refused(make, options):
    with pytest.raises(InputError):
        make(**options)


def test_an_answer_that_contradicts_is_refused(make):
    callback = make()
    callback.tell({0: 1})
    with pytest.raises(PoolError):
        callback.tell({0: 2})
