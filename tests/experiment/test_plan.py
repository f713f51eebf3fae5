"""Plans: read and checked as a whole, run in order, resumable."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest
from same_process import runs_here
from small import TOML, essence

from steepest.core.journal import read_journal
from steepest.errors import ConfigError, RunFolderError
from steepest.experiment.compare import compare, run_missing
from steepest.experiment.comparison_runs import all_runs
from steepest.experiment.record import Record
from steepest.experiment.report.read import read_comparison
from steepest.experiment.study_plan import read_plan

QUICK = ["training.epochs=1", "loop.cycles=2", "loop.subset=20"]
PLAN = f"""
name = "study"

[[group]]
name = "first"
config = "configs/tiny.toml"
set = {json.dumps(QUICK)}
seeds = 2
strategies = ["margin"]

[[group]]
name = "second"
config = "configs/tiny.toml"
set = {json.dumps([*QUICK, "loop.init=cold"])}
seeds = [5]
strategies = ["l2=entropy-gradnorm(norm=l2)", "sum=entropy-gradnorm(norm=tensor-sum)"]
"""
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "cifar10-study.toml"

pytestmark = pytest.mark.usefixtures("same_process")


def write(folder: Path, text: str = PLAN) -> Path:
    (folder / "configs").mkdir(exist_ok=True)
    (folder / "configs" / "tiny.toml").write_text(TOML)
    (folder / "plan.toml").write_text(text)
    return folder / "plan.toml"


def run_plan(plan, out, **how):
    comparisons = plan.below(out)
    run_missing(comparisons, jobs=1, **how)
    return comparisons


def records_of(run):
    where = run.folder / "records.jsonl"
    return [Record.from_table(entry, str(where)) for entry in read_journal(where)[0]]


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planned")
    plan = read_plan(write(folder))
    with runs_here():
        return plan, folder / "out", run_plan(plan, folder / "out", command="steepest …")


def test_a_plan_is_its_groups_in_order_seeds_before_strategies(tmp_path):
    plan = read_plan(write(tmp_path))
    assert plan.name == "study"
    assert [group.name for group in plan.groups] == ["first", "second"]
    assert [group.config.loop.init for group in plan.groups] == ["warm", "cold"]
    runs = [run for group in plan.groups for run in group.below(tmp_path / "out").runs]
    assert [str(run.folder.relative_to(tmp_path / "out")) for run in runs] == [
        "first/runs/margin/seed-0",
        "first/runs/random/seed-0",
        "first/runs/margin/seed-1",
        "first/runs/random/seed-1",
        "second/runs/l2/seed-5",
        "second/runs/sum/seed-5",
        "second/runs/random/seed-5",
    ]
    assert not (tmp_path / "out").exists()


def test_each_group_is_a_comparison_as_compare_writes_it(planned, tmp_path):
    plan, out, comparisons = planned
    assert all(run.complete for comparing in comparisons for run in comparing.runs)
    group = plan.groups[0]
    alone = compare(group.config, ["margin"], [0], tmp_path / "alone", jobs=1)
    runs = {(run.label, run.config.seed): run for run in comparisons[0].runs}
    for run in alone:
        assert essence(records_of(runs[run.label, 0])) == essence(records_of(run))
    names = {path.name for path in (tmp_path / "alone").iterdir()}
    assert {path.name for path in (out / "first").iterdir()} == names
    assert json.loads((out / "first" / "comparison.json").read_text())["command"] == "steepest …"


def test_labels_stand_for_strategies_and_records_keep_name_and_options(planned):
    _, out, comparisons = planned
    found = read_comparison(out / "second")
    assert found.strategies == ("l2", "sum", "random")
    assert found.legend == (
        "l2 = entropy-gradnorm (norm l2)",
        "sum = entropy-gradnorm (norm tensor-sum)",
        "random",
    )
    assert all(run.strategy == label for (label, _), run in found.runs.items())
    first = {run.label: records_of(run)[0] for run in comparisons[1].runs}
    assert (first["l2"].strategy, first["l2"].options["norm"]) == ("entropy-gradnorm", "l2")
    assert first["sum"].options["norm"] == "tensor-sum"
    assert first["l2"].selected_scores != first["sum"].selected_scores


def test_the_first_cycle_of_a_seed_is_trained_once(planned):
    _, _, comparisons = planned
    shared = [[r.training.shared for r in records_of(run)] for run in comparisons[0].runs]
    assert shared == [[False, False], [True, False]] * 2
    assert len({records_of(run)[0].model for run in comparisons[0].runs}) == 2


def test_a_second_call_runs_nothing(planned):
    plan, out, _ = planned
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    run_plan(plan, out, command="steepest … again")
    assert all(path.read_bytes() == content for path, content in before.items())


SAME = f"""
[[group]]
name = "first"
config = "configs/tiny.toml"
set = {json.dumps(QUICK)}
seeds = [1]
strategies = ["entropy"]
"""


def test_groups_of_one_name_are_one_comparison(planned, tmp_path):
    _, out, _ = planned
    shutil.copytree(out, tmp_path / "out")
    plan = read_plan(write(tmp_path, PLAN + SAME))
    comparisons = run_plan(plan, tmp_path / "out")
    runs = all_runs(comparisons)
    assert len(runs) == len({run.folder for run in runs})
    assert [run.label for run in runs if run.group == "first"].count("entropy") == 1
    told = json.loads((tmp_path / "out/first/comparison.json").read_text())
    assert (told["strategies"], told["seeds"]) == (["margin", "random", "entropy"], [0, 1])
    assert all(run.complete for run in runs)


def test_a_new_folder_takes_all_groups_of_its_name(tmp_path):
    plan = read_plan(write(tmp_path, PLAN + SAME))
    run_plan(plan, tmp_path / "out", deadline=time.time() - 1)
    told = json.loads((tmp_path / "out/first/comparison.json").read_text())
    assert (told["strategies"], told["seeds"]) == (["margin", "random", "entropy"], [0, 1])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("loop.cycles=2", "loop.cycles=1"),
        ('"entropy"', '"mine=entropy"'),
        ('name = "first"', 'name = "First"'),
    ],
)
def test_groups_of_one_name_mean_the_same(old, new, tmp_path):
    text = changed('["margin"]', '["mine=margin"]') + SAME.replace(old, new)
    with pytest.raises(ConfigError, match="groups of one name are one comparison"):
        read_plan(write(tmp_path, text))


def test_one_deadline_holds_for_all_groups(tmp_path):
    plan = read_plan(write(tmp_path))
    comparisons = run_plan(plan, tmp_path / "out", deadline=time.time() - 1)
    assert sum(run.done for comparing in comparisons for run in comparing.runs) == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"first", "second"}


def test_a_foreign_folder_of_a_later_group_keeps_the_first_from_beginning(tmp_path):
    plan = read_plan(write(tmp_path))
    (tmp_path / "out" / "second").mkdir(parents=True)
    (tmp_path / "out" / "second" / "notes.txt").write_text("mine")
    with pytest.raises(RunFolderError, match="second is not empty"):
        run_plan(plan, tmp_path / "out")
    assert not (tmp_path / "out" / "first").exists()


def changed(old: str, new: str) -> str:
    assert old in PLAN
    return PLAN.replace(old, new)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "not valid TOML"),
        ('name = "x"', r"has no \[\[group\]\]"),
        ("group = 3", "is not a plan"),
        (changed('name = "study"', ""), "'name' is missing"),
        (changed('name = "study"', 'name = "study"\njobs = 3'), "unknown key 'jobs'"),
        (changed('name = "second"', 'name = "first"'), "two groups 'first'"),
        (changed('name = "second"', 'name = "First"'), "two groups 'First'"),
        (changed('name = "second"', 'name = "../second"'), "group '../second': name"),
        (changed('name = "second"', ""), "group 2: the key 'name' is missing"),
        (changed("tiny.toml", "none.toml"), "group 'first': .*none.toml cannot be read"),
        (changed("configs/tiny.toml", "digit"), "did you mean 'digits'"),
        (changed("loop.init=cold", "loop.init=cool"), "group 'second': .*'cool'"),
        (changed("seeds = 2", "seeds = 0"), "group 'first': seeds = 0"),
        (changed("seeds = 2", 'seeds = "two"'), "group 'first': seeds"),
        (changed("seeds = 2", "seeds = true"), "group 'first': seeds"),
        (changed("[5]", "[5, 5]"), r"group 'second': seeds = \[5, 5\]"),
        (changed("[5]", "[-1]"), "group 'second': seeds"),
        (changed("[5]", "[]"), "group 'second': seeds"),
        (changed("[5]", "[5]\nvariant = 'slow'"), "group 'second': unknown variant 'slow'"),
        (changed("[5]", "[5]\nvariant = 'fast'"), r"has no table \[fast\]: leave 'fast' out"),
        (changed('["margin"]', '["margn"]'), "group 'first': .*did you mean 'margin'"),
        (changed('["margin"]', "[]"), "at least one strategy"),
        (changed("norm=l2)", "norm=l3)"), "group 'second': .*'l3'"),
    ],
)
def test_what_is_wrong_in_a_plan_is_told_in_one_line(text, message, tmp_path):
    with pytest.raises(ConfigError, match=message) as caught:
        read_plan(write(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_plan_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.toml cannot be read"):
        read_plan(tmp_path / "none.toml")


def test_the_example_is_a_plan_of_presets():
    plan = read_plan(EXAMPLE)
    assert [group.name for group in plan.groups] == ["warm", "short", "cold", "warm"]
    # Random is always in.
    assert [len(group.below(Path("x")).runs) for group in plan.groups] == [24, 12, 3, 8]
    assert len(all_runs(group.below(Path("x")) for group in plan.groups)) == 46
    assert all(g.config.training.amp and g.config.training.compile for g in plan.groups)
    options = [run.config.strategy.options for run in plan.groups[3].below(Path("x")).runs]
    assert options == [{"norm": "l2"}, {}, {}, {}, {"epochs": 10}, {"epochs": 10}, {}, {}]
