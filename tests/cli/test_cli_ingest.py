"""The loop by files, as a team has it: select, send, ingest, train, select again."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest
from loop_shell import NAMES, begin, fill_in, pool_of, select
from PIL import Image
from safetensors.torch import load_file, save_file
from shell import assert_one_line, contents, finish, run_here, select_args, start

from steepest.pool import State

pytestmark = pytest.mark.filterwarnings("ignore::steepest.errors.SteepestWarning")


def test_two_rounds_of_the_loop(workshop, capsys):
    begin(capsys)
    first = fill_in(workshop / "sheet.csv")
    told = run_here(capsys, "ingest", "filled.csv", "--run", "loop", "--who", "ana")
    assert (told.code, "3 new labels; 0 samples still wait" in told.out) == (0, True), told.err
    # The loop knows its classes by now.
    told = select(capsys, "--format", "csv")
    assert (told.code, "round 1 of loop" in told.out) == (0, True), told.err
    second = fill_in(workshop / "sheet.csv", "cat")
    assert not set(first) & set(second)
    assert run_here(capsys, "ingest", "filled.csv", "--run", "loop").code == 0
    ids, labels = pool_of(workshop).labelled()
    assert dict(zip(ids, labels, strict=True)) == {
        **dict.fromkeys(first, 2),
        **dict.fromkeys(second, 0),
    }
    table = (workshop / "loop" / "labels.csv").read_text().splitlines()
    assert table[0] == "id,label"
    assert len(table) == 7


def test_the_same_commands_again_change_nothing(workshop, capsys):
    begin(capsys)
    sheet = (workshop / "sheet.csv").read_bytes()
    before = contents(workshop / "loop")
    (workshop / "sheet.csv").unlink()
    told = begin(capsys)
    assert "nothing new was chosen" in told.out
    assert (workshop / "sheet.csv").read_bytes() == sheet
    assert contents(workshop / "loop") == before
    fill_in(workshop / "sheet.csv")
    run_here(capsys, "ingest", "filled.csv", "--run", "loop")
    before = contents(workshop / "loop")
    told = run_here(capsys, "ingest", "filled.csv", "--run", "loop")
    assert (told.code, "3 known already" in told.out) == (0, True)
    assert contents(workshop / "loop") == before


@pytest.mark.parametrize(("strategy", "option"), [("tod", "--previous"), ("qbc", "--member")])
def test_a_round_tells_which_other_models_were_asked(workshop, capsys, strategy, option):
    weights = load_file(workshop / "weights.safetensors")
    save_file({name: -value for name, value in weights.items()}, workshop / "other.safetensors")
    asked = ["--strategy", strategy, option]
    begin(capsys, *asked, "weights.safetensors")
    begin(capsys, *asked, "other.safetensors", "--more")
    with pool_of(workshop) as pool:
        first, second = (made["request"]["other models"] for made in pool.rounds().values())
    assert first != second


def test_a_label_is_corrected_only_on_request(workshop, capsys):
    begin(capsys)
    fill_in(workshop / "sheet.csv")
    run_here(capsys, "ingest", "filled.csv", "--run", "loop")
    fill_in(workshop / "sheet.csv", "dog")
    before = contents(workshop / "loop")
    told = run_here(capsys, "ingest", "filled.csv", "--run", "loop")
    assert_one_line(told, "line 2: .*labelled 'owl'.*--relabel")
    assert contents(workshop / "loop") == before
    told = run_here(capsys, "ingest", "filled.csv", "--run", "loop", "--relabel")
    assert (told.code, "3 changed" in told.out) == (0, True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("id,label\n1\n", "line 2: has 1 cell where"),
        ("id,label\n1,cat\n77,cat\n", "line 3: there is no sample '77'"),
        ("id,label\n1,cat\n2,cow\n", "line 3: unknown class 'cow'"),
        ("id,label\n1,cat\n1,dog\n", "line 3: 'dog' for sample 1, but 'cat' at line 2"),
    ],
)
def test_bad_files_are_one_line_and_change_nothing(workshop, capsys, content, message):
    begin(capsys)
    (workshop / "bad.csv").write_text(content)
    before = contents(workshop / "loop")
    assert_one_line(run_here(capsys, "ingest", "bad.csv", "--run", "loop"), message)
    assert contents(workshop / "loop") == before


@pytest.mark.parametrize(
    ("changes", "more", "message"),
    [
        ({}, [], "needs the classes"),
        ({}, ["--classes", "cat,dog"], "4 outputs, but there are 2 classes"),
        ({}, ["--classes", "cat,dog,cat,owl"], "'cat' is there twice"),
        ({}, ["--classes", NAMES, "--num-classes", "3"], "4 class names"),
        ({}, ["--classes", NAMES, "--task", "segmentation"], "not segmentation"),
        ({"k": "13"}, ["--classes", NAMES], "only 12 samples"),
        ({"out": "picks.txt"}, ["--classes", NAMES, "--format", "jsonl"], "ends in .jsonl"),
    ],
)
def test_a_loop_that_cannot_begin_leaves_no_folder(workshop, capsys, changes, more, message):
    assert_one_line(select(capsys, *more, **changes), message)
    assert not (workshop / "loop").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--more"], "add --run"),
        (["--format", "label-studio"], "needs --run"),
    ],
)
def test_options_of_a_loop_need_one(workshop, capsys, more, message):
    out = "picks.json" if "label-studio" in more else "picks.csv"
    assert_one_line(run_here(capsys, *select_args(out=out, more=more)), message)


def test_without_a_loop_picks_can_be_exported_too(workshop, capsys):
    told = run_here(capsys, *select_args(out="lines.jsonl", more=["--format", "jsonl"]))
    assert told.code == 0, told.err
    lines = [json.loads(line) for line in (workshop / "lines.jsonl").read_text().splitlines()]
    assert [line["rank"] for line in lines] == [1, 2, 3]
    argv = [part for part in select_args() if part not in ("--out", "picks.csv")]
    assert_one_line(run_here(capsys, *argv), "--out FILE")


def test_tasks_for_label_studio_hold_pictures_and_guesses(workshop, capsys):
    (workshop / "photos").mkdir()
    rng = np.random.default_rng(0)
    for number in range(6):
        pixels = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(workshop / "photos" / f"{number}.png")
    more = ["--classes", NAMES, "--format", "label-studio"]
    assert select(capsys, *more, pool="photos", out="tasks.json").code == 0
    tasks = json.loads((workshop / "tasks.json").read_text())
    assert [task["data"]["steepest_rank"] for task in tasks] == [1, 2, 3]
    assert all(task["data"]["image"].startswith("data:image/png;base64,") for task in tasks)
    assert all(task["predictions"][0]["result"] for task in tasks)
    scores = [task["predictions"][0]["score"] for task in tasks]
    assert scores == sorted(scores)
    assert "<Choices" in (workshop / "loop" / "label-studio.xml").read_text()
    for number, task in enumerate(tasks):
        task.update(id=number, annotations=[{"result": task["predictions"][0]["result"]}])
    (workshop / "export.json").write_text(json.dumps(tasks))
    told = run_here(capsys, "ingest", "export.json", "--run", "loop")
    assert (told.code, "3 new labels" in told.out) == (0, True), told.err


def test_a_loop_that_is_none_is_one_line(workshop, capsys):
    (workshop / "l.csv").write_text("id,label\n1,cat\n")
    assert_one_line(run_here(capsys, "ingest", "l.csv", "--run", "nowhere"), "no labelling loop")
    (workshop / "other").mkdir()
    (workshop / "other" / "config.json").write_text("{}")
    assert_one_line(run_here(capsys, "ingest", "l.csv", "--run", "other"), "something else")
    begin(capsys)
    for who in (" ", "label-studio:ana"):
        assert_one_line(run_here(capsys, "ingest", "l.csv", "--run", "loop", "--who", who), "--who")
    told = run_here(capsys, "ingest", "l.csv", "--run", "loop", "--background", "cat")
    assert told.code == 0
    told = run_here(capsys, "ingest", "l.csv", "--run", "loop", "--npz", "m.npz")
    assert (told.code, "no maps" in told.err) == (2, True)


def test_labels_come_in_while_others_have_the_pool_open(workshop, capsys):
    begin(capsys)
    (workshop / "l.csv").write_text("id,label\n1,cat\n")
    with pool_of(workshop) as pool:
        assert run_here(capsys, "ingest", "l.csv", "--run", "loop").code == 0
        assert pool.label_of(1) == 0


def test_a_killed_choice_is_made_again_by_the_same_command(workshop, capsys):
    argv = select_args(more=["--run", "loop", "--classes", NAMES])
    process = start(*argv, cwd=workshop)
    process.send_signal(signal.SIGKILL)
    finish(process)
    assert run_here(capsys, *argv).code == 0
    assert pool_of(workshop).counts()[State.QUERIED] == 3


def test_strategies_that_learn_from_labels_get_those_of_the_loop(workshop, capsys, monkeypatch):
    from steepest.cli import select as command

    begin(capsys)
    first = fill_in(workshop / "sheet.csv")
    assert run_here(capsys, "ingest", "filled.csv", "--run", "loop").code == 0
    given, choose = {}, command.select
    monkeypatch.setattr(command, "select", lambda *a, **k: given.update(k) or choose(*a, **k))
    assert select(capsys, "--format", "csv").code == 0
    assert given["support"].targets == dict.fromkeys(first, 2)
    assert given["labelled"] == set(first)
