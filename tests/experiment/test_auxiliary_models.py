"""Committees and models of the cycle before, in experiments that run, stop and go on."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import pytest
from killed_run import MEMBER_POINTS, kill_runs
from small import config, essence
from torch import nn

from steepest.core.memory import Measurement
from steepest.experiment import auxiliary_models
from steepest.experiment.loop import Experiment
from steepest.experiment.setup import Setup
from steepest.modules.fingerprint import fingerprint
from steepest.strategies.qbc import Qbc
from steepest.strategies.tod import Tod

QBC = {"strategy__name": "qbc", "strategy__options": {"size": 2}, "loop__keep_weights": "all"}
TOD = {"strategy__name": "tod", "loop__keep_weights": "all"}
KINDS = {"qbc": QBC, "tod": TOD}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Uninterrupted runs by name: folder and records."""
    folder = tmp_path_factory.mktemp("whole")
    return {
        name: (folder / name, Experiment(config(**changes), folder / name).run())
        for name, changes in KINDS.items()
    }


@pytest.fixture
def supports(monkeypatch):
    """What strategies were given beside the model, cycle by cycle."""
    seen = []
    for cls in (Qbc, Tod):
        original = cls.prepare

        def prepare(self, pool, original=original):
            support = pool.support
            seen.append(
                {
                    "model": fingerprint(pool.model),
                    "members": [fingerprint(m) for m in support.members],
                    "previous": support.previous and fingerprint(support.previous),
                    "untrained": support.untrained and fingerprint(support.untrained),
                }
            )
            return original(self, pool)

        monkeypatch.setattr(cls, "prepare", prepare)
    return seen


def member_files(folder):
    return sorted(p.name for p in (folder / "weights").glob("cycle-*-*.safetensors"))


KILLED = [*(("qbc", point) for point in MEMBER_POINTS), ("tod", "between cycles")]


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed")
    kill_runs(*((folder / name / point, point, KINDS[name]) for name, point in KILLED))
    return folder


@pytest.mark.parametrize(("name", "point"), KILLED)
def test_a_killed_run_ends_like_an_uninterrupted_one(name, point, whole, killed):
    folder = killed / name / point
    records = Experiment(config(**KINDS[name]), folder).run()
    assert essence(records) == essence(whole[name][1])
    assert member_files(folder) == member_files(whole[name][0])


def test_members_are_kept_only_where_there_are_some(whole, tmp_path):
    assert member_files(whole["qbc"][0]) == ["cycle-000-1.safetensors", "cycle-001-1.safetensors"]
    assert member_files(whole["tod"][0]) == []
    Experiment(config(strategy__name="entropy"), tmp_path / "entropy").run()
    assert member_files(tmp_path / "entropy") == []


@pytest.mark.parametrize(("name", "paid"), [("qbc", True), ("tod", False)])
def test_what_members_cost_is_on_record(name, paid, monkeypatch, tmp_path):
    @contextmanager
    def measured(_device):
        yield Measurement(seconds=1.0, peak_bytes=1 << 60)

    trained = Setup.fit

    def fit(self, model, pool, checkpoint, purpose, extra=None):
        result = trained(self, model, pool, checkpoint, purpose, extra)
        # What a training says itself holds the time before a restart, too.
        return replace(result, seconds=1000.0) if "member" in purpose else result

    monkeypatch.setattr(auxiliary_models, "measured", measured)
    monkeypatch.setattr(Setup, "fit", fit)
    records = Experiment(config(**KINDS[name]), tmp_path / "run").run()
    assert records[-1].auxiliary is None
    for record in records[:-1]:
        assert (record.auxiliary.seconds >= 1000) is paid
        assert (record.auxiliary.peak_bytes == 1 << 60) is paid


@pytest.mark.parametrize("init", ["warm", "cold"])
def test_members_begin_as_the_model_does(init, supports, monkeypatch, tmp_path):
    begun = []
    original = Setup.fit

    def fit(self, model, *rest, **more):
        begun.append(fingerprint(model))
        return original(self, model, *rest, **more)

    monkeypatch.setattr(Setup, "fit", fit)
    records = Experiment(config(**QBC, loop__init=init), tmp_path / "run").run()
    assert len(begun) == 3 + 2
    assert len(set(begun)) == 5  # nobody begins with the weights of another
    ended = [s["members"][0] for s in supports]
    assert (begun[3] == ended[0]) is (init == "warm")
    assert (begun[2] == records[0].model) is (init == "warm")
    assert [s["model"] for s in supports] == [r.model for r in records[:-1]]
    assert not {s["members"][0] for s in supports} & {s["model"] for s in supports}


def test_a_committee_disagrees_about_what_it_chooses(whole):
    for record in whole["qbc"][1][:-1]:
        assert record.selected_scores[0] > record.selected_scores[-1] > 0


@pytest.mark.parametrize("init", ["warm", "cold"])
def test_the_model_before_is_the_one_that_the_last_cycle_ended_with(init, supports, tmp_path):
    records = Experiment(config(**TOD, loop__init=init), tmp_path / "run").run()
    first, second = supports
    assert first["previous"] is None
    assert first["untrained"] not in {None, first["model"]}
    assert second["previous"] == records[0].model
    assert second["model"] == records[1].model != records[0].model
    assert second["untrained"] is None


def test_the_first_cycle_of_tod_goes_by_entropy(whole, tmp_path):
    entropy = Experiment(config(strategy__name="entropy"), tmp_path / "entropy").run()
    _, records = whole["tod"]
    assert records[0].selected == entropy[0].selected
    assert records[1].selected_scores != entropy[1].selected_scores
    assert 0 <= min(records[1].selected_scores) <= max(records[1].selected_scores) <= 1


def test_models_are_built_with_the_dropout_that_a_strategy_asks_for(tmp_path):
    asked = config(strategy__name="mc-dropout", strategy__options={"draws": 3, "rate": 0.2})
    experiment = Experiment(asked, tmp_path / "run")
    rates = [m.p for m in experiment.setup.fresh_model(0).modules() if isinstance(m, nn.Dropout)]
    assert rates == [0.2]
    assert len(experiment.run()) == 3
    own = config(strategy__name="bald", model__options={"dropout": "blocks"})
    dropouts = Experiment(own, tmp_path / "own").setup.fresh_model(0).modules()
    assert sum(isinstance(m, nn.Dropout) for m in dropouts) == 3
