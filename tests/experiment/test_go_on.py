"""Which changes of a configuration a folder goes on with, and how a run is made longer."""

from __future__ import annotations

import json

import pytest
from small import config, essence

from steepest.errors import RunFolderError
from steepest.experiment.compare import run_missing
from steepest.experiment.comparison_file import FASTER, GOING_ON, to_go_on, without
from steepest.experiment.comparison_runs import Comparing
from steepest.experiment.config import Config
from steepest.experiment.loop import Experiment
from steepest.experiment.selection import choose_after_the_end

QUICK = {"training__epochs": 1, "loop__cycles": 2}
HARMLESS = {
    "name": {"name": "other"},
    "device": {"device": "auto"},
    "weights": {"loop__keep_weights": "all"},
    "graph": {"training__cuda_graph": False},
}


def run(folder, **changes):
    return Experiment(config(**{**QUICK, **changes}), folder / "run").run()


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
@pytest.mark.usefixtures("no_gpu")
def test_a_folder_goes_on_with_what_changes_no_number(change, tmp_path):
    Experiment(config(**QUICK), tmp_path / "run").run(until=1)
    records = run(tmp_path, **change)
    assert [record.cycle for record in records] == [0, 1]
    (key,) = change
    stored = json.loads((tmp_path / "run/config.json").read_text())
    for name in key.split("__"):
        stored = stored[name]
    assert stored == change[key]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"threads": 2}, "threads is 1 there and 2 here"),
        ({"training__amp": True}, r"training\.amp"),
        ({"training__channels_last": False}, r"training\.channels_last"),
        ({"training__epochs": 2}, r"training\.epochs"),
        ({"seed": 4}, "seed"),
        ({"loop__cycles": 1}, r"loop\.cycles is 2 there and 1 here"),
    ],
)
def test_a_folder_refuses_what_changes_numbers(change, message, tmp_path):
    run(tmp_path)
    with pytest.raises(RunFolderError, match=message):
        run(tmp_path, **change)


def test_workers_are_no_difference_and_other_options_are(monkeypatch):
    one = {"data": {"name": "folder", "options": {"path": "a", "workers": 2}}, "device": "cpu"}
    other = {"data": {"name": "folder", "options": {"path": "a"}}, "device": "cpu"}
    before, now = to_go_on(one, other)
    assert before == now
    assert one["data"]["options"]["workers"] == 2  # What is handed in stays as it is.
    before, now = to_go_on(one, {**other, "data": {"name": "folder", "options": {"path": "b"}}})
    assert before != now


def test_a_device_that_is_not_here_is_another_one(no_gpu):
    table = config().to_table()
    gpu, any_device = {**table, "device": "cuda"}, {**table, "device": "auto"}
    before, now = to_go_on(gpu, any_device)
    assert before != now
    before, now = to_go_on(any_device, table)
    assert before == now


def test_every_setting_that_may_differ_is_one():
    table = config(data__options={"workers": 1}, data__name="own:data").to_table()
    for key in (*GOING_ON, *FASTER):
        assert without(table, [key]) != table
    assert without(table, ["loop.nothing", "nothing.at.all", "name.deeper"]) == table
    assert isinstance(config(), Config)


@pytest.mark.parametrize("init", ["warm", "cold", "shrink-perturb"])
def test_a_longer_run_is_what_it_would_have_been_from_the_beginning(init, tmp_path):
    whole = Experiment(config(loop__init=init), tmp_path / "whole").run()
    Experiment(config(loop__init=init, loop__cycles=2), tmp_path / "run").run()
    records = Experiment(config(loop__init=init), tmp_path / "run").run()
    assert essence(records) == essence(whole)
    again = Experiment(config(loop__init=init), tmp_path / "run").run()
    assert [r.to_table() for r in again] == [r.to_table() for r in records]


def test_a_kill_between_the_choice_and_its_labels_loses_nothing(tmp_path, monkeypatch):
    whole = Experiment(config(), tmp_path / "whole").run()
    Experiment(config(loop__cycles=2), tmp_path / "run").run()

    def killed(*arguments):
        choose_after_the_end(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("steepest.experiment.loop.choose_after_the_end", killed)
        with pytest.raises(KeyboardInterrupt):
            Experiment(config(), tmp_path / "run").run()
    assert essence(Experiment(config(), tmp_path / "run").run()) == essence(whole)


@pytest.mark.parametrize("strategy", ["qbc", "ll4al", "tod"])
def test_a_strategy_that_needs_more_models_cannot_be_made_longer(strategy, tmp_path):
    run(tmp_path, strategy__name=strategy)
    files = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}
    with pytest.raises(RunFolderError, match=f"{strategy} needs more models to choose than"):
        run(tmp_path, strategy__name=strategy, loop__cycles=3)
    assert {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()} == files
    run(tmp_path, strategy__name=strategy)


def test_more_cycles_than_there_are_samples_are_refused(tmp_path):
    run(tmp_path)
    with pytest.raises(ValueError, match="lower initial, k or cycles"):
        run(tmp_path, loop__cycles=500)


@pytest.mark.usefixtures("no_gpu", "same_process")
def test_a_comparison_goes_on_likewise_and_keeps_its_cycles(tmp_path):
    def go(seeds, **changes):
        what = config(**{**QUICK, **changes})
        run_missing([Comparing(what, ["margin"], seeds, tmp_path / "out")], jobs=1)
        return json.loads((tmp_path / "out/comparison.json").read_text())

    first = go([0])
    more = go([0, 1], name="renamed", device="auto", loop__keep_weights="all")
    assert (more["name"], more["seeds"]) == ("renamed", [0, 1])
    assert more["config"] == {**first["config"], "name": "renamed"}
    with pytest.raises(RunFolderError, match=r"loop\.cycles is 2 there and 3 here"):
        go([0], loop__cycles=3)
