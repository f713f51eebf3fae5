"""Progress goes to standard error and nowhere else."""

from __future__ import annotations

import io
import sys

import pytest

from steepest.core.progress import (
    BarProgress,
    LineProgress,
    SilentProgress,
    as_progress,
    show_progress,
)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def pretend_terminal(monkeypatch) -> Terminal:
    """Put a terminal in place of standard error, which pytest swaps after fixtures are made."""
    made = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", made)
    return made


def work(progress, amounts=(1, 2, 3)):
    with progress.task("score", total=6) as step:
        for amount in amounts:
            step.advance(amount, note=f"batch of {amount}")


def test_silence_writes_nothing(capfd):
    work(SilentProgress())
    assert capfd.readouterr() == ("", "")


def test_lines_say_how_far_the_work_is(capsys):
    work(LineProgress(every_seconds=0.0))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "score: 1/6 batch of 1",
        "score: 3/6 batch of 2",
        "score: 6/6 batch of 3",
    ]


def test_a_line_without_a_note_ends_at_the_count(capsys):
    with LineProgress(every_seconds=0.0).task("train", total=2) as step:
        step.advance()
    assert capsys.readouterr().err == "train: 1/2\n"


def test_work_of_unknown_length_says_what_is_done_alone(capsys, monkeypatch):
    with LineProgress(every_seconds=0.0).task("download", total=0) as step:
        step.advance(12, "of a.zip")
    assert capsys.readouterr().err == "download: 12 of a.zip\n"
    terminal = pretend_terminal(monkeypatch)
    with BarProgress().task("download", total=0) as step:
        step.advance(12)
    assert "0/?" in terminal.getvalue()


def test_short_work_passes_without_a_line(capsys):
    work(LineProgress(every_seconds=3600.0))
    assert capsys.readouterr() == ("", "")


def test_lines_come_no_more_often_than_asked(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("steepest.core.progress.time.monotonic", lambda: now[0])
    with LineProgress(every_seconds=10.0).task("train", total=30) as step:
        for _ in range(30):
            now[0] += 1.0
            step.advance()
    assert capsys.readouterr().err.splitlines() == [f"train: {n}/30" for n in (10, 20, 30)]


def test_what_had_a_line_ends_with_one(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("steepest.core.progress.time.monotonic", lambda: now[0])
    with LineProgress(every_seconds=10.0).task("train", total=13) as step:
        for n in range(13):
            now[0] += 1.0
            step.advance(note=f"epoch {n}")
    assert capsys.readouterr().err.splitlines() == ["train: 10/13 epoch 9", "train: 13/13 epoch 12"]


def test_work_that_was_broken_off_is_not_said_to_have_ended(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("steepest.core.progress.time.monotonic", lambda: now[0])

    def break_off():
        with LineProgress(every_seconds=10.0).task("train", total=3) as step:
            now[0] += 10.0
            step.advance()
            step.advance()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        break_off()
    assert capsys.readouterr().err == "train: 1/3\n"


def test_bars_are_drawn_on_a_terminal_and_nest(monkeypatch, capsys):
    terminal = pretend_terminal(monkeypatch)
    progress = BarProgress()
    with progress.task("cycles", total=2) as outer:
        work(progress)
        outer.advance(note="0.5")
    work(progress)
    drawn = terminal.getvalue()
    assert "cycles" in drawn
    assert "score" in drawn
    assert capsys.readouterr().out == ""


def test_bars_end_with_an_error_in_the_work(monkeypatch):
    terminal = pretend_terminal(monkeypatch)
    progress = BarProgress()
    with pytest.raises(KeyError), progress.task("cycles", total=2):
        raise KeyError
    assert sys.stderr is terminal
    assert terminal.getvalue().count("\x1b[?25h") == terminal.getvalue().count("\x1b[?25l") == 1
    work(progress)


def test_a_terminal_gets_bars(monkeypatch):
    pretend_terminal(monkeypatch)
    assert isinstance(show_progress(), BarProgress)


def test_a_terminal_that_cannot_draw_gets_lines(monkeypatch):
    pretend_terminal(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(show_progress(), LineProgress)


def test_a_pipe_gets_lines_and_nobody_gets_silence(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(show_progress(), LineProgress)
    assert isinstance(show_progress(enabled=False), SilentProgress)
    monkeypatch.setattr(sys, "stderr", None)  # As after `2>&-`, and in a program without a console.
    assert isinstance(show_progress(), SilentProgress)


def test_a_yes_or_no_becomes_progress_and_progress_stays(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    given = SilentProgress()
    assert as_progress(given) is given
    assert isinstance(as_progress(progress=True), LineProgress)
    assert isinstance(as_progress(progress=False), SilentProgress)
