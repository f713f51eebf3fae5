"""Which stored runs count as the experiment that is wanted."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from fake_records import level_of, make_record, small_level, write_run

from steepest.core.journal import Journal
from steepest.errors import InputError
from steepest.experiment.config import StrategyPart, load_config
from steepest.paper.finished_runs import find_run, stored_runs
from steepest.paper.level import Setting, load_level
from steepest.paper.needed_runs import Need
from steepest.paper.workspace import Workspace

RESULTS = Path(__file__).resolve().parents[2] / "results"


@pytest.fixture
def config():
    return load_config("cifar10")


def look(folder, wanted, *, weights=False):
    return find_run("cifar10", "entropy-gradnorm", wanted, stored_runs([folder]), weights=weights)


def test_what_only_makes_a_run_faster_is_told_and_does_not_matter(tmp_path, config):
    faster = replace(config, threads=4, training=replace(config.training, amp=True))
    write_run(tmp_path / "seed-0", faster)
    found = look(tmp_path, config)
    assert found.differences == (
        "threads 4 instead of 1",
        "training.amp true instead of false",
    )
    assert [record.cycle for record in found.records] == list(range(7))


@pytest.mark.parametrize(
    "other",
    [
        lambda c: replace(c, seed=1),
        lambda c: replace(c, training=replace(c.training, epochs=100)),
        lambda c: replace(c, loop=replace(c.loop, init="cold")),
        lambda c: replace(c, data=replace(c.data, limit=100)),
        lambda c: replace(c, strategy=StrategyPart(name="entropy-gradnorm")),
        lambda c: replace(c, strategy=StrategyPart(name="entropy")),
    ],
)
def test_another_protocol_seed_or_strategy_is_another_run(tmp_path, config, other):
    write_run(tmp_path / "seed-0", other(config))
    assert look(tmp_path, config) is None


def test_a_run_with_the_wanted_weights_to_begin_with_is_found_wherever_they_were(tmp_path, config):
    def beginning_with(path):
        return replace(config, model=replace(config.model, weights=path))

    write_run(tmp_path / "seed-0", beginning_with("C:\\nets\\resnet18.pth"))
    (told,) = look(tmp_path, beginning_with("/data/resnet18.pth")).differences
    assert told == "model.weights C:\\nets\\resnet18.pth instead of /data/resnet18.pth"
    assert look(tmp_path, beginning_with("/data/resnet34.pth")) is None
    assert look(tmp_path, config) is None
    write_run(tmp_path / "plain" / "seed-0", config)
    assert look(tmp_path, config).folder == tmp_path / "plain" / "seed-0"


def test_options_that_stand_at_their_default_need_not_be_written(tmp_path, config):
    wanted = replace(config, strategy=StrategyPart(name="entropy-gradnorm", options={"norm": "l2"}))
    write_run(tmp_path / "seed-0", replace(wanted, strategy=StrategyPart(name="entropy-gradnorm")))
    assert look(tmp_path, wanted) is not None


def test_a_run_without_its_last_cycle_or_weights_does_not_count(tmp_path, config):
    write_run(tmp_path / "part", config, cycles=6)
    assert look(tmp_path, config) is None
    whole = write_run(tmp_path / "whole", config)
    assert look(tmp_path, config) is not None
    assert look(tmp_path, config, weights=True) is None
    (whole / "weights").mkdir()
    for cycle in range(7):
        (whole / "weights" / f"cycle-{cycle:03d}.safetensors").touch()
    assert look(tmp_path, config, weights=True).has_weights


def test_the_run_that_differs_least_is_taken(tmp_path, config):
    write_run(tmp_path / "a", replace(config, threads=4))
    write_run(tmp_path / "b", config)
    write_run(tmp_path / "c", replace(config, threads=3))
    assert look(tmp_path, config).folder == tmp_path / "b"


def test_other_runs_of_the_same_seed_are_told(tmp_path, config):
    write_run(tmp_path / "a" / "seed-0", replace(config, threads=4))
    write_run(tmp_path / "b" / "seed-0", config)
    both = stored_runs([tmp_path, tmp_path / "b"])
    found = find_run("cifar10", "entropy-gradnorm", config, both, weights=False)
    assert found.folder == tmp_path / "b" / "seed-0"
    assert found.not_taken == (tmp_path / "a" / "seed-0",)


def test_folders_that_are_damaged_are_passed_over(tmp_path, config):
    folder = write_run(tmp_path / "seed-0", config)
    (folder / "config.json").write_text("{")
    assert stored_runs([tmp_path]) == []


def test_a_source_that_is_no_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        stored_runs([tmp_path / "nowhere"])


def test_records_of_an_older_version_in_results_are_read(tmp_path):
    work = Workspace(load_level("paper"), tmp_path, sources=[RESULTS / "cifar10-study"])
    runs = work.runs(Need("cifar10", ("entropy-gradnorm", "random"), seeds=1))
    assert [(run.strategy, run.seed) for run in runs] == [("entropy-gradnorm", 0), ("random", 0)]
    assert runs[0].records[-1].metrics["accuracy"] == pytest.approx(0.9404)
    assert any("training.amp" in told for told in runs[0].differences)


def test_older_configurations_lack_settings_that_were_added_since(tmp_path, config):
    folder = write_run(tmp_path / "seed-0", config)
    table = json.loads((folder / "config.json").read_text())
    del table["training"]["compile"], table["model"]["layers"]
    (folder / "config.json").write_text(json.dumps(table))
    assert look(tmp_path, config).differences == ()


def test_own_runs_go_before_those_of_other_folders(tmp_path):
    level = level_of({"cifar10": Setting(config="cifar10")}, seeds=1)
    work = Workspace(level, tmp_path / "out", sources=[tmp_path / "others"])
    need = Need("cifar10", ("random",))
    wanted = work.wanted(need, "random", 0)
    write_run(tmp_path / "others" / "seed-0", wanted)
    assert work.runs(need)[0].folder == tmp_path / "others" / "seed-0"
    own = write_run(work.comparison(need) / "runs" / "random" / "seed-0", wanted)
    assert work.runs(need)[0].folder == own


def test_settings_that_stand_in_for_others_share_their_runs(tmp_path):
    work = Workspace(small_level(), tmp_path)
    one, other = Need("cifar10", ("random",)), Need("svhn", ("random",))
    assert work.comparison(one) == work.comparison(other)
    assert work.wanted(one, "random", 0) == work.wanted(other, "random", 0)


def test_a_run_that_was_made_again_with_other_models_has_another_key(tmp_path, config):
    first = write_run(tmp_path / "first" / "seed-0", config)
    second = write_run(tmp_path / "second" / "seed-0", config)
    assert look(first, config).key == look(second, config).key
    other = make_record(config, cycle=6)
    journal = Journal(tmp_path / "third" / "records.jsonl")
    for cycle in range(6):
        journal.append(make_record(config, cycle).to_table())
    journal.append(replace(other, model="f" * 16).to_table())
    shutil.copy(second / "config.json", tmp_path / "third" / "config.json")
    changed = look(tmp_path / "third", config).key
    assert changed != look(first, config).key
    assert changed.startswith("cifar10-warm/entropy-gradnorm/seed-0-")
