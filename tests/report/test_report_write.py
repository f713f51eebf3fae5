from __future__ import annotations

import csv
import json

import pytest
from fake_runs import STRATEGIES, write_comparison, write_run

from steepest.errors import InputError, RunFolderError
from steepest.experiment.report import read_comparison, summary_rows, write_report
from steepest.experiment.statistics import summarise

CSV_COLUMNS = {
    "classification": ["accuracy", "loss", "train_accuracy"],
    "segmentation": ["miou", "pixel_accuracy", "loss", "train_miou"],
    "multi-label": [
        "mean_average_precision", "exact_match", "micro_f1", "loss", "train_mean_average_precision",
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_comparison(tmp_path_factory.mktemp("write"), cycles=3)


@pytest.fixture(scope="module")
def files(folder):
    return write_report(folder)


def test_the_report_lies_in_the_folder_it_is_about(folder, files):
    assert files.html == folder / "report.html"
    assert files.csv == folder / "curves.csv"
    assert files.summary == folder / "summary.json"
    assert [path.relative_to(folder).as_posix() for path in files.figures] == [
        "figures/learning-curves.png",
        "figures/learning-curves.svg",
        "figures/gains.png",
        "figures/gains.svg",
        "figures/penalty.png",
        "figures/penalty.svg",
    ]
    assert all(path.stat().st_size > 1000 for path in files.figures)


def test_no_temporary_file_is_left(folder, files):
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "comparison.json", "runs", "report.html", "curves.csv", "summary.json", "figures",
    }  # fmt: skip
    assert len(list((folder / "figures").iterdir())) == 6


def test_the_same_records_give_the_same_bytes(folder, files, tmp_path):
    again = write_report(folder, tmp_path / "deep" / "out")
    pairs = zip(
        [files.html, files.csv, files.summary, *files.figures],
        [again.html, again.csv, again.summary, *again.figures],
        strict=True,
    )
    for first, second in pairs:
        assert second.is_relative_to(tmp_path)
        assert first.read_bytes() == second.read_bytes()


def test_a_report_can_be_written_again(folder, files):
    files.html.write_text("old")
    write_report(folder)
    assert files.html.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_table_has_one_row_per_cycle(folder, files):
    with files.csv.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 3 * 3
    keys = [(row["strategy"], int(row["seed"]), int(row["cycle"])) for row in rows]
    assert keys == [(name, seed, c) for name in STRATEGIES for seed in range(3) for c in range(3)]
    entry = read_comparison(folder).runs["margin", 1].entries[1]
    row = rows[keys.index(("margin", 1, 1))]
    assert float(row["accuracy"]) == entry["metrics"]["accuracy"]
    assert float(row["loss"]) == entry["metrics"]["loss"]
    assert float(row["train_accuracy"]) == 1.0
    assert float(row["training_seconds"]) == entry["training"]["seconds"]
    assert int(row["scoring_peak_bytes"]) == entry["scoring"]["peak_bytes"]
    assert float(row["rank_correlation"]) == entry["regime"]["rank_correlation"]
    last = rows[keys.index(("margin", 1, 2))]
    assert (last["scoring_seconds"], last["entropy_ratio"]) == ("", "")


def test_what_is_trained_for_a_strategys_sake_has_a_column_where_there_is_any(folder, tmp_path):
    plain = summarise(read_comparison(folder))
    assert "auxiliary" not in str(summary_rows(plain)[0])
    assert "Auxiliary" not in (folder / "report.html").read_text(encoding="utf-8")
    files = write_report(write_comparison(tmp_path, strategies=("vaal", "random"), cycles=3))
    summary = summarise(read_comparison(tmp_path))
    header, rows = summary_rows(summary)
    assert header[-1] == "auxiliary s"
    assert [row[-1] for row in rows] == ["8.00", "–"]
    page = files.html.read_text(encoding="utf-8")
    assert "auxiliary training, s per run" in page
    assert "<span>8.00</span></td>" in page
    with files.csv.open(newline="") as file:
        spent = [row["auxiliary_seconds"] for row in csv.DictReader(file)]
    assert spent[:3] == ["4.0", "4.0", ""]


@pytest.mark.parametrize("task", CSV_COLUMNS)
def test_the_columns_are_the_numbers_that_the_task_records(tmp_path, task):
    files = write_report(write_comparison(tmp_path, seeds=(0,), cycles=2, task=task))
    with files.csv.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "strategy", "seed", "cycle", "labelled", *CSV_COLUMNS[task],
        "training_seconds", "scoring_seconds", "scoring_peak_bytes",
        "auxiliary_seconds", "entropy_ratio", "rank_correlation",
    ]  # fmt: skip
    entry = read_comparison(tmp_path).runs["entropy-gradnorm", 0].entries[0]
    *tested, trained = CSV_COLUMNS[task]
    assert [float(rows[0][key]) for key in tested] == [entry["metrics"][key] for key in tested]
    assert float(rows[0][trained]) == 1.0


def test_the_summary_holds_every_number_and_how_it_was_made(folder, files):
    found = json.loads(files.summary.read_text())
    expected = json.loads(json.dumps(summarise(read_comparison(folder)).to_dict()))
    assert {key: found[key] for key in expected} == expected
    assert found["metric"] == "accuracy"
    assert found["command"] == "steepest compare digits --seeds 3"
    assert found["versions"]["torch"] == "2.13.0"
    assert found["config"]["data"]["name"] == "digits"


def test_one_seed_has_no_penalty_figure(tmp_path):
    files = write_report(write_run(tmp_path, "margin", 0, cycles=2))
    assert [path.name for path in files.figures] == ["learning-curves.png", "learning-curves.svg"]


def test_a_folder_without_records_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(RunFolderError):
        write_report(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_place_that_cannot_be_written_is_an_error_in_one_line(folder, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written") as caught:
        write_report(folder, tmp_path / "file")
    assert "\n" not in str(caught.value)
