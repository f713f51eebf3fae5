"""Fair comparisons: paired, complete, resumable, and clear about what failed."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from small import config, essence

from steepest.core.journal import read_journal
from steepest.core.lock import InUseError
from steepest.core.progress import SilentProgress
from steepest.errors import (
    FailedRunsError,
    InputError,
    RunFolderError,
    SteepestError,
    UnknownNameError,
)
from steepest.experiment.compare import compare
from steepest.experiment.comparison_runs import Comparing
from steepest.experiment.record import Record
from steepest.experiment.report.read import read_comparison

compare_module = sys.modules["steepest.experiment.compare"]

SEEDS = (4, 7)
STRATEGIES = ("margin", "entropy-gradnorm")
pytestmark = pytest.mark.usefixtures("same_process")


def quick(**changes):
    return config(**{"training__epochs": 1, "loop__cycles": 2, "loop__subset": 20, **changes})


def go(out: Path, *, strategies=STRATEGIES, seeds=SEEDS, jobs=2, what=None, **more):
    return compare(
        what or quick(), strategies, seeds, out, progress=SilentProgress(), jobs=jobs, **more
    )


def records_of(run):
    where = run.folder / "records.jsonl"
    entries, torn = read_journal(where)
    assert not torn
    return [Record.from_table(entry, str(where)) for entry in entries]


def by_name(runs):
    return {(run.config.strategy.name, run.config.seed): run for run in runs}


def files_below(folder: Path):
    """When each file was written, and what it holds."""
    return {
        path.relative_to(folder): (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def described(out: Path):
    return json.loads((out / "comparison.json").read_text())


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A comparison in processes of its own, two side by side."""
    out = tmp_path_factory.mktemp("compared") / "out"
    return out, go(out, command="steepest compare …")


def test_a_worker_loads_a_data_set_once_for_all_its_runs(tmp_path, monkeypatch):
    loaded = []
    load = compare_module.load_data

    def count(what):
        loaded.append(what.data.limit)
        return load(what)

    monkeypatch.setattr(compare_module, "load_data", count)
    for limit in (300, 400):
        go(tmp_path / str(limit), what=quick(data__limit=limit, loop__cycles=1), seeds=(4, 7))
    in_parent_and_worker = 2
    assert loaded == [300] * in_parent_and_worker + [400] * in_parent_and_worker


def test_every_strategy_meets_every_seed_and_random_is_among_them(compared):
    _, runs = compared
    names = {*STRATEGIES, "random"}
    assert set(by_name(runs)) == {(name, seed) for name in names for seed in SEEDS}
    assert all(run.complete for run in runs)
    for (name, seed), run in by_name(runs).items():
        assert [(r.strategy, r.seed, r.cycle) for r in records_of(run)] == [
            (name, seed, 0),
            (name, seed, 1),
        ]


@pytest.mark.parametrize("seed", SEEDS)
def test_strategies_of_a_seed_begin_with_the_same_model_and_labels(seed, compared):
    _, runs = compared
    first = [records_of(run)[0] for run in runs if run.config.seed == seed]
    assert len(first) == 3
    assert len({record.model for record in first}) == 1
    assert all(record.metrics == first[0].metrics for record in first)
    assert all(record.train_metrics == first[0].train_metrics for record in first)
    assert {record.labelled for record in first} == {30}
    assert len({record.selected for record in first}) == 3


def test_seeds_begin_with_different_models(compared):
    _, runs = compared
    assert len({records_of(run)[0].model for run in runs}) == len(SEEDS)


def test_the_comparison_says_what_it_is(compared):
    out, _ = compared
    found = described(out)
    assert found["strategies"] == [*STRATEGIES, "random"]
    assert found["seeds"] == list(SEEDS)
    assert found["name"] == "tiny"
    assert found["command"] == "steepest compare …"
    assert found["config"] == json.loads(json.dumps(quick().to_table()))
    assert {"steepest", "torch", "python"} <= set(found["versions"])


def test_runs_one_after_another_give_the_same_as_side_by_side(compared, tmp_path):
    _, together = compared
    alone = by_name(go(tmp_path / "alone", seeds=SEEDS[:1], jobs=1))
    for key, run in alone.items():
        assert essence(records_of(run)) == essence(records_of(by_name(together)[key]))


def test_complete_runs_start_no_process_and_stay_as_they_are(compared, monkeypatch):
    out, _ = compared
    before = files_below(out / "runs")
    monkeypatch.setattr(
        compare_module, "SpawnedWorkers", lambda *_, **__: pytest.fail("started processes")
    )
    runs = go(out)
    assert all(run.complete for run in runs)
    assert files_below(out / "runs") == before


def test_strategies_and_seeds_can_be_added_later(compared, tmp_path):
    """Only what is new is run; the description grows."""
    out = Path(shutil.copytree(compared[0], tmp_path / "out"))
    before = files_below(out / "runs")
    runs = go(out, strategies=["entropy"], seeds=[SEEDS[0], 1])
    after = files_below(out / "runs")
    assert {name: after[name] for name in before} == before
    assert all(run.complete for run in runs)
    assert set(by_name(runs)) == {
        (name, seed) for name in ("entropy", "random") for seed in (SEEDS[0], 1)
    }
    assert described(out)["strategies"] == [*STRATEGIES, "random", "entropy"]
    assert described(out)["seeds"] == [1, *SEEDS]


def test_a_single_run_added_later_is_paired_with_those_before(compared, tmp_path):
    out = Path(shutil.copytree(compared[0], tmp_path / "out"))
    added = by_name(go(out, strategies=["entropy"], seeds=SEEDS[:1]))["entropy", SEEDS[0]]
    before = by_name(compared[1])["margin", SEEDS[0]]
    assert records_of(added)[0].model == records_of(before)[0].model
    assert records_of(added)[0].metrics == records_of(before)[0].metrics


def test_duplicates_count_once_and_the_configured_options_are_kept(tmp_path):
    options = {"norm": "tensor-sum"}
    what = quick(strategy={"name": "entropy-gradnorm", "options": options})
    names = ["random", "margin", "random", "entropy-gradnorm", "margin"]
    runs = Comparing(what, names, [1], tmp_path).runs
    assert [run.config.strategy.name for run in runs] == ["random", "margin", "entropy-gradnorm"]
    assert [run.config.strategy.options for run in runs] == [{}, {}, options]
    assert {run.config.seed for run in runs} == {1}
    assert len({run.folder for run in runs}) == 3


def test_repeated_seeds_count_once(tmp_path):
    runs = Comparing(quick(), ["margin"], [1, 1], tmp_path).runs
    assert len(runs) == len({run.folder for run in runs})


def test_an_interrupted_comparison_is_paired_as_far_as_it_came(tmp_path):
    runs = Comparing(quick(), ["margin", "entropy"], [0, 1], tmp_path).runs
    assert [run.config.seed for run in runs] == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("strategies", "seeds", "error", "message"),
    [
        (["margin", "entrpy"], [0], UnknownNameError, "did you mean 'entropy'"),
        ([], [0], InputError, "at least one strategy"),
        (["margin"], [], InputError, "one seed"),
    ],
)
def test_what_cannot_be_compared_fails_before_anything_begins(
    strategies, seeds, error, message, tmp_path
):
    with pytest.raises(error, match=message):
        go(tmp_path / "out", strategies=strategies, seeds=seeds)
    assert not (tmp_path / "out").exists()


def test_another_configuration_or_a_foreign_folder_is_refused(compared, tmp_path):
    out, _ = compared
    before = (out / "comparison.json").read_bytes()
    with pytest.raises(RunFolderError, match="another configuration"):
        go(out, what=quick(loop__k=9))
    assert (out / "comparison.json").read_bytes() == before
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunFolderError, match="is not empty"):
        go(tmp_path)
    with pytest.raises(RunFolderError, match="is not empty"):
        go(tmp_path / "notes.txt")


def test_the_message_of_a_failing_run_reaches_the_caller_in_one_line(tmp_path):
    what = quick(loop__initial=1290, loop__k=10, loop__subset=10)
    with pytest.raises(SteepestError, match="asks for 1300 labels") as caught:
        go(tmp_path / "out", strategies=["margin"], seeds=[5], what=what)
    assert "\n" not in str(caught.value)


FAILING = """
import os
from dataclasses import dataclass
from pathlib import Path

from steepest.strategies import Scorer


@dataclass(frozen=True)
class Late(Scorer):
    def score(self, batch):
        if len(batch) > 2 and Path("broken").exists():  # The look before the run is at two samples.
            raise RuntimeError("a bug\\nof my own")
        return batch.logits[:, 0]


@dataclass(frozen=True)
class Lost(Late):
    def score(self, batch):
        lost = len(batch) > 2 and Path("broken").exists()
        return batch.logits[:, 0] * (float("nan") if lost else 1.0)
"""


def test_runs_that_fail_do_not_keep_the_others_from_being_run(tmp_path, monkeypatch):
    (tmp_path / "failing.py").write_text(FAILING)
    (tmp_path / "broken").touch()
    monkeypatch.chdir(tmp_path)
    out, text = tmp_path / "out", ["late=failing:Late,lost=failing:Lost,margin"]
    with pytest.raises(FailedRunsError, match="and 3 more") as caught:
        go(out, strategies=text, seeds=[4, 5])
    assert "\n" not in "".join(caught.value.problems)
    assert [p.split(": ")[1] for p in caught.value.problems].count("RuntimeError") == 2
    runs = {(r.label, r.config.seed): r for r in Comparing(quick(), text, [4, 5], out).runs}
    done = {key for key, run in runs.items() if run.complete}
    assert done == {(label, seed) for label in ("margin", "random") for seed in (4, 5)}
    trace = runs["late", 4].folder / "error.txt"
    assert 'raise RuntimeError("a bug' in trace.read_text()
    assert not (runs["lost", 4].folder / "error.txt").exists()
    (tmp_path / "broken").unlink()
    assert all(run.complete for run in go(out, strategies=text, seeds=[4, 5]))
    assert not trace.exists()


def test_the_baseline_may_be_written_as_a_variant(tmp_path):
    runs = Comparing(quick(), ["random=random(),margin"], [0], tmp_path).runs
    assert [run.label for run in runs] == ["random", "margin"]


def test_labels_name_folders_and_the_description_says_what_they_are(tmp_path):
    text = "few=egl(draws=2),margin"
    runs = go(tmp_path / "out", strategies=[text], seeds=[4])
    assert [run.folder.parent.name for run in runs] == ["few", "margin", "random"]
    assert {r.strategy for r in records_of(runs[0])} == {"egl"}
    assert {r.options["draws"] for r in records_of(runs[0])} == {2}
    found = described(tmp_path / "out")
    assert found["strategies"] == ["few", "margin", "random"]
    assert found["variants"]["few"] == {"name": "egl", "options": {"draws": 2}}
    assert found["variants"]["random"] == {"name": "random", "options": {}}
    before = files_below(tmp_path / "out")
    with pytest.raises(RunFolderError, match=r"another 'few'.*draws is 2 there and 3 here"):
        go(tmp_path / "out", strategies=["few=egl(draws=3)"], seeds=[4])
    assert files_below(tmp_path / "out") == before


def test_a_folder_from_before_there_were_labels_goes_on(compared, tmp_path):
    out = Path(shutil.copytree(compared[0], tmp_path / "out"))
    old = described(out)
    del old["variants"]
    (out / "comparison.json").write_text(json.dumps(old))
    before = files_below(out / "runs")
    assert read_comparison(out).legend == (*STRATEGIES, "random")
    runs = go(out, strategies=["margin,sum=entropy-gradnorm(norm=tensor-sum)"], seeds=SEEDS[:1])
    after = files_below(out / "runs")
    assert {name: after[name] for name in before} == before
    assert all(run.complete for run in runs)
    assert described(out)["strategies"] == [*STRATEGIES, "random", "sum"]
    assert described(out)["variants"]["entropy-gradnorm"]["options"] == {}
    with pytest.raises(RunFolderError, match="another 'entropy-gradnorm'"):
        go(out, strategies=["entropy-gradnorm=entropy-gradnorm(norm=l2)"], seeds=SEEDS[:1])


def test_every_strategy_is_tried_before_anything_is_written(tmp_path, monkeypatch):
    tried = []
    monkeypatch.setattr(compare_module, "_run_all", lambda *_: None)
    monkeypatch.setattr(
        compare_module,
        "Experiment",
        lambda config, *_, **__: tried.append((config.strategy.name, config.seed)),
    )
    go(tmp_path / "out")
    assert sorted(tried) == [("entropy-gradnorm", 4), ("margin", 4), ("random", 4)]


class Held:
    """A run that another process holds for a while."""

    def __init__(self, times):
        self.times = times

    def run(self, deadline):
        self.times -= 1
        if self.times >= 0:
            raise InUseError


def test_a_run_that_another_comparison_makes_is_waited_for_as_long_as_there_is_time(monkeypatch):
    naps = []
    monkeypatch.setattr(compare_module.time, "sleep", naps.append)
    for deadline, waits in ((None, 3), (compare_module.time.time() + 60, 3), (0.0, 0)):
        naps.clear()
        compare_module._run_alone(Held(3), deadline)
        assert len(naps) == waits


def test_a_failure_names_its_folder_once(tmp_path, monkeypatch):
    def fail(self, deadline):
        raise SteepestError(f"{self.out}/weights: no room")

    monkeypatch.setattr("steepest.experiment.loop.Experiment.run", fail)
    with pytest.raises(FailedRunsError) as caught:
        go(tmp_path, strategies=("margin",), seeds=(0,))
    assert caught.value.problems[0] == f"{tmp_path}/runs/margin/seed-0/weights: no room"
