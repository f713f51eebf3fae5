from __future__ import annotations

import json

import pytest
from fake_runs import STRATEGIES, make_entry, write_comparison, write_run

from steepest.core.journal import Journal
from steepest.errors import JournalError, RunFolderError
from steepest.experiment.report import read_comparison


def test_a_comparison_is_read_with_all_its_runs(tmp_path):
    comparison = read_comparison(write_comparison(tmp_path, cycles=2))
    assert comparison.strategies == STRATEGIES
    assert comparison.seeds == comparison.complete_seeds("margin") == (0, 1, 2)
    assert comparison.config["data"]["name"] == "digits"
    assert comparison.command.startswith("steepest compare")
    assert len(comparison.runs) == 9
    assert all(run.complete for run in comparison.runs.values())
    assert comparison.runs["margin", 1].budgets.tolist() == [40, 60]
    assert comparison.baseline == "random"


def test_missing_and_unfinished_runs_are_told_apart(tmp_path):
    folder = write_comparison(tmp_path, cut=[("margin", 0)], missing=[("random", 2)])
    comparison = read_comparison(folder)
    assert not comparison.runs["margin", 0].complete
    assert len(comparison.runs["margin", 0].entries) == 3
    assert comparison.runs["random", 2].entries == ()
    assert comparison.complete_seeds("margin") == (1, 2)
    assert comparison.complete_seeds("random") == (0, 1)


def test_a_single_run_is_read_from_its_own_folder(tmp_path):
    comparison = read_comparison(write_run(tmp_path, "margin", 5, cycles=3))
    assert comparison.single
    assert (comparison.strategies, comparison.seeds) == (("margin",), (5,))
    assert comparison.name == "one run"
    assert comparison.baseline is None


def test_a_single_run_without_a_configuration_takes_the_folder_s_name(tmp_path):
    folder = write_run(tmp_path / "tuesday", "margin", 5, cycles=2)
    (folder / "config.json").unlink()
    assert read_comparison(folder).name == "tuesday"


def test_any_other_folder_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(RunFolderError, match="steepest compare") as caught:
        read_comparison(tmp_path)
    assert "\n" not in str(caught.value)
    with pytest.raises(RunFolderError):
        read_comparison(tmp_path / "not there")


def test_a_run_before_its_first_cycle_is_refused(tmp_path):
    (tmp_path / "records.jsonl").touch()
    with pytest.raises(RunFolderError, match="no finished cycle"):
        read_comparison(tmp_path)


def test_a_damaged_record_passes_through(tmp_path):
    folder = write_comparison(tmp_path, cycles=3)
    path = folder / "runs" / "margin" / "seed-0" / "records.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"labelled":40', b'"labelled":41', 1))
    with pytest.raises(JournalError, match="line 1 is damaged"):
        read_comparison(folder)


def test_a_torn_last_record_counts_as_not_there(tmp_path):
    folder = write_run(tmp_path, "margin", 0, cycles=3)
    path = folder / "records.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    run = read_comparison(folder).runs["margin", 0]
    assert len(run.entries) == 2
    assert not run.complete


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cycle": 7}, "is cycle 7 where 0 is due"),
        ({"labelled": None}, "labelled"),
        ({"selected": None}, "selected"),
        ({"metrics": {}}, "accuracy"),
        ({"metrics": {"accuracy": "good"}}, "accuracy"),
        ({"metrics": {"accuracy": 0.5, "per_class_accuracy": [0.5, []]}}, "metrics.per_class_acc"),
        ({"train_metrics": -5}, "train_metrics = -5"),
        ({"training": "long"}, "training = 'long'"),
        ({"training": {"seconds": "x", "peak_bytes": 1}}, "seconds = 'x'"),
        ({"scoring": {"seconds": 10**400, "peak_bytes": 1}}, "too many digits"),
        ({"regime": True}, "regime = True"),
        ({"wanted": [{"id": 1, "score": {}}]}, "score = {}"),
    ],
)
def test_an_entry_that_is_no_record_is_refused(tmp_path, change, said):
    entry = {**make_entry("margin", 0, 0, 2), **change}
    Journal(tmp_path / "records.jsonl").append(entry)
    with pytest.raises(JournalError, match=f"entry 1 .*{said}"):
        read_comparison(tmp_path)


@pytest.mark.parametrize(
    ("task", "metric"), [("segmentation", "miou"), ("multi-label", "mean_average_precision")]
)
def test_a_record_without_the_metric_of_its_task_is_refused(tmp_path, task, metric):
    folder = write_comparison(tmp_path, ("margin",), seeds=(0,), cycles=2, task=task)
    assert read_comparison(folder).metric == metric
    path = folder / "comparison.json"
    path.write_text(path.read_text().replace(task, "classification"))
    with pytest.raises(JournalError, match="entry 1 has no finite accuracy; restore"):
        read_comparison(folder)


def test_options_that_are_no_table_are_left_out(tmp_path):
    path = write_comparison(tmp_path, cycles=2) / "comparison.json"
    forged = {"variants": {"margin": {"name": "margin", "options": 3}}}
    path.write_text(json.dumps({**json.loads(path.read_text()), **forged}))
    assert read_comparison(path.parent).variants == {"margin": {"name": "margin", "options": {}}}


def test_a_task_that_is_not_known_counts_by_accuracy(tmp_path):
    folder = write_comparison(tmp_path, ("margin",), seeds=(0,), cycles=2)
    path = folder / "comparison.json"
    path.write_text(path.read_text().replace('"classification"', '"my own"'))
    comparison = read_comparison(folder)
    assert (comparison.metric, comparison.per_class_metric) == ("accuracy", "per_class_accuracy")


def test_an_unknown_task_without_accuracy_asks_for_its_module(tmp_path):
    folder = write_comparison(tmp_path, ("margin",), seeds=(0,), cycles=2, task="segmentation")
    path = folder / "comparison.json"
    path.write_text(path.read_text().replace('"segmentation"', '"my own"'))
    with pytest.raises(JournalError, match="import the module that registers task 'my own'"):
        read_comparison(folder)


@pytest.mark.parametrize("text", ["{", "[]", '{"strategies": 3, "seeds": [0]}', '{"seeds": [0]}'])
def test_a_damaged_description_is_refused(tmp_path, text):
    (tmp_path / "comparison.json").write_text(text)
    with pytest.raises(JournalError, match=r"comparison\.json"):
        read_comparison(tmp_path)


def test_a_description_may_leave_out_what_is_only_shown(tmp_path):
    (tmp_path / "comparison.json").write_text(json.dumps({"strategies": ["margin"], "seeds": [0]}))
    comparison = read_comparison(tmp_path)
    assert (comparison.name, comparison.command) == (tmp_path.name, "")


@pytest.mark.parametrize("task", ["classification", "segmentation", "multi-label"])
def test_a_task_of_the_user_s_own_code_is_measured_as_the_one_that_it_varies(task, tmp_path):
    folder = write_comparison(tmp_path, ("margin",), seeds=(0,), cycles=2, task=task)
    plain = read_comparison(folder)
    path = folder / "comparison.json"
    path.write_text(path.read_text().replace(f'"{task}"', '"nowhere:Own"'))
    own = read_comparison(folder)
    assert (own.metric, own.per_class_metric) == (plain.metric, plain.per_class_metric)


def test_a_task_of_the_user_s_own_code_with_another_headline_is_told_as_such(tmp_path):
    folder = write_comparison(tmp_path, ("margin",), seeds=(0,), cycles=2)
    for path in (folder / "comparison.json", *folder.rglob("records.jsonl")):
        path.unlink()
    run = folder / "runs" / "margin" / "seed-0"
    entry = {**make_entry("margin", 0, 0, 2), "metrics": {"dice": 0.5}}
    Journal(run / "records.jsonl").append(entry)
    (run / "config.json").write_text('{"task": {"name": "nowhere:Own"}}')
    with pytest.raises(JournalError, match="'nowhere:Own' has a headline that no task"):
        read_comparison(run)
