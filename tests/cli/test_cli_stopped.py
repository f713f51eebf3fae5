"""After Ctrl-C a command says what the same words would do next."""

import pytest
from shell import run_here


@pytest.mark.parametrize(
    ("words", "goal"),
    [
        (
            ["select", "--model", "m:net", "--pool", "p.npy", "-k", "1", "--out", "a.csv"],
            "begin again",
        ),
        (["strategies"], "begin again"),
        (["run", "digits", "--out", "a"], "go on"),
    ],
)
def test_a_command_promises_to_go_on_only_if_it_does(words, goal, capsys, monkeypatch):
    def stop(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"steepest.cli.{words[0]}.execute", stop)
    told = run_here(capsys, *words)
    assert told.code == 130
    assert told.err == f"steepest: stopped; run the same command again to {goal}\n"
