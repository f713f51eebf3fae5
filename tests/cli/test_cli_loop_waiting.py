"""Nothing that waits for a label is lost, and nothing that people wrote."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from loop_shell import NAMES, begin, fill_in, pool_of, select
from shell import assert_one_line, contents, run_here, select_args

from steepest.labelling.exchange import LoopFolder
from steepest.pool import State

pytestmark = pytest.mark.filterwarnings("ignore::steepest.errors.SteepestWarning")


@pytest.mark.parametrize("format_", ["csv", "jsonl"])
def test_labels_that_were_not_taken_in_are_never_written_over(workshop, capsys, format_):
    out = f"sheet.{format_}"
    words = ("--classes", NAMES, "--format", format_)
    assert select(capsys, *words, out=out).code == 0
    assert select(capsys, *words, out=out).code == 0
    sheet = workshop / out
    empty, filled = (",,,1,", ",owl,,1,") if format_ == "csv" else ("null", '"owl"')
    sheet.write_text(sheet.read_text().replace(empty, filled, 1))
    written = sheet.read_bytes()
    assert b"owl" in written
    for more in ((), ("--more",)):
        assert_one_line(select(capsys, *words, *more, out=out), f"steepest ingest {out} --run loop")
    assert sheet.read_bytes() == written
    assert run_here(capsys, "ingest", out, "--run", "loop").code == 0
    assert select(capsys, *words, out=out).code == 0
    assert b"owl" not in sheet.read_bytes()
    sheet.write_text("half of a tab")
    assert_one_line(select(capsys, *words, out=out), "may hold labels")
    assert sheet.read_text() == "half of a tab"


def test_more_picks_while_people_are_still_at_work(workshop, capsys):
    begin(capsys)
    first = fill_in(workshop / "sheet.csv")
    told = select(capsys, "--more", "--format", "csv").out
    assert "round 1 of loop: 6 samples wait for a label, 3 of them from earlier rounds" in told
    assert "not in sheet.csv: without --more they are" in told
    assert not set(first) & set(fill_in(workshop / "sheet.csv"))
    assert pool_of(workshop).counts()[State.QUERIED] == 6
    assert select(capsys, "--format", "csv").code == 0
    assert fill_in(workshop / "sheet.csv")[:3] == first
    assert len(fill_in(workshop / "sheet.csv")) == 6


@pytest.mark.parametrize("format_", ["csv", "jsonl", None])
def test_what_nobody_has_answered_is_offered_again_first(workshop, capsys, format_):
    out = f"picks.{format_ or 'json'}"
    how = () if format_ is None else ("--format", format_)
    assert select(capsys, "--classes", NAMES, *how, out=out).code == 0
    first = listed(workshop / out)
    (workshop / "one.csv").write_text(f"id,label\n{first[1]},owl\n")
    told = run_here(capsys, "ingest", "one.csv", "--run", "loop")
    assert "2 samples still wait" in told.out
    told = select(capsys, *how, out=out)
    assert "1 of 9 samples chosen" in told.out
    assert "round 1 of loop: 3 samples wait for a label, 2 of them from earlier" in told.out
    assert "mean entropy" in told.out
    second = listed(workshop / out)
    assert second[:2] == [first[0], first[2]]
    assert second[2] not in first
    told = select(capsys, *how, out=out, k="0")
    assert (told.code, listed(workshop / out)) == (0, second), told.err
    assert "nothing new was chosen" in told.out
    assert "mean entropy" not in told.out


def listed(path):
    """The ids of a file of picks, in its order."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".csv":
        return [int(row["id"]) for row in csv.DictReader(text.splitlines())]
    if path.suffix == ".json":
        return json.loads(text)["ids"]
    return [json.loads(line)["id"] for line in text.splitlines()]


@pytest.mark.parametrize("with_loop", [True, False])
@pytest.mark.parametrize("export", [["--format", "csv"], []])
def test_a_sheet_that_is_filled_in_is_kept_whatever_is_to_replace_it(
    workshop, capsys, with_loop, export
):
    loop = ["--run", "loop", "--classes", NAMES] if with_loop else []
    argv = select_args(out="sheet.csv", more=loop)
    assert run_here(capsys, *argv, "--format", "csv").code == 0
    sheet = (workshop / "sheet.csv").read_bytes()
    assert run_here(capsys, *argv, *export).code == 0
    filled = sheet.replace(b",,,1,", b",owl,,1,")
    (workshop / "sheet.csv").write_bytes(filled)
    assert_one_line(run_here(capsys, *argv, *export), "sheet.csv holds labels.*another --out")
    assert (workshop / "sheet.csv").read_bytes() == filled


@pytest.mark.parametrize("more", [(), ("--more",)])
def test_an_array_that_was_changed_is_refused(workshop, capsys, more):
    begin(capsys)
    before = contents(workshop / "loop")
    rows = np.load(workshop / "pool.npy")
    np.save(workshop / "pool.npy", rows[::-1])
    assert_one_line(select(capsys, "--format", "csv", *more), "array .*other values.*another --run")
    assert contents(workshop / "loop") == before
    np.save(workshop / "pool.npy", rows)
    assert select(capsys, "--format", "csv", *more).code == 0


def test_a_loop_from_before_takes_its_array_on_record(workshop, capsys):
    begin(capsys)
    with pool_of(workshop) as pool:
        known = pool.about().array
        pool.change_about(array=None)
    assert select(capsys, "--format", "csv").code == 0
    with pool_of(workshop) as pool:
        assert pool.about().array == known
    assert known["shape"] == [12, 3, 4, 4]


def test_two_who_choose_at_once_are_told_so(workshop, capsys):
    begin(capsys)
    with LoopFolder.open(workshop / "loop").hold():
        assert_one_line(select(capsys, "--format", "csv", "--more"), "in use.*run this one again")
    assert select(capsys, "--format", "csv", "--more").code == 0
