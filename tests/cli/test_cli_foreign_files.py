"""Files and folders that came from others, made to confuse: one line, code 2."""

from __future__ import annotations

import pytest
from shell import assert_one_line, run_here

DEEP = "[" * 100_000
ESCAPE = "\x1b]0;a title\x07"


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("given.toml", ["run", "given.toml", "--out", "x"]),
        ("plan.toml", ["compare", "--plan", "plan.toml", "--out", "x"]),
        ("made/comparison.json", ["report", "made"]),
        ("made/records.jsonl", ["report", "made"]),
        ("made/config.json", ["run", "digits", "--out", "made"]),
        ("made/loop.json", ["ingest", "labels.csv", "--run", "made"]),
    ],
)
def test_brackets_without_end_are_no_traceback(name, command, workshop, capsys):
    (workshop / "made").mkdir()
    (workshop / "made" / "pool.jsonl").touch()
    (workshop / "labels.csv").write_text("id,label\n0,a\n")
    begin = "a = " if name.endswith(".toml") else ""
    (workshop / name).write_text(f"{begin}{DEEP}\n{{}}\n")
    assert_one_line(run_here(capsys, *command), "not valid TOML|cannot be read|damaged")


def test_no_message_steers_the_terminal(workshop, capsys):
    told = run_here(capsys, "report", f"folder{ESCAPE}\x9b")
    assert_one_line(told, r"folder\\x1b\]0;a title\\x07\\x9b holds neither")
    assert told.err.rstrip("\n").isprintable()


def test_a_number_beyond_all_numbers_is_no_traceback(workshop, capsys):
    (workshop / "given.toml").write_text(f"seed = {'9' * 5000}\n")
    assert_one_line(run_here(capsys, "run", "given.toml", "--out", "x"), "not valid TOML")
