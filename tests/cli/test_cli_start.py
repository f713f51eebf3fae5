"""How the command line starts: nothing heavy before it is known what to do."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from importlib import import_module

import pytest
from shell import assert_one_line, run_here

from steepest.cli.main import SUMMARIES, main, make_parser

REPORT = """
import sys
from steepest.cli.main import SUMMARIES, main
try:
    code = main(sys.argv[1:])
except SystemExit as leaving:
    code = leaving.code
heavy = {"torch", "numpy", "PIL", "matplotlib", "scipy", "rich"} & set(sys.modules)
print(code, sorted(heavy), [c for c in SUMMARIES if f"steepest.cli.{c}" in sys.modules])
"""


def start(*argv):
    """Return the exit code, the heavy packages and the commands that were imported."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", REPORT, *argv],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("argv", "code"),
    [(["--help"], 0), (["--version"], 0), ([], 2), (["selekt"], 2), (["--verbos"], 2)],
)
def test_help_version_and_bad_commands_import_nothing_heavy(argv, code):
    assert start(*argv) == f"{code} [] []"


def test_only_the_chosen_command_is_imported():
    assert start("report", "--help") == "0 [] ['report']"


def test_a_chosen_command_reads_its_own_arguments_and_the_others_are_bare():
    words = ["strategies", "badge"]
    assert make_parser("strategies")[0].parse_args(words).strategy == "badge"
    with pytest.raises(SystemExit):
        make_parser("report")[0].parse_args(words)
    assert make_parser()[0].parse_args(words).strategy == "badge"


@pytest.mark.parametrize("name", SUMMARIES)
def test_every_command_is_in_the_help_and_has_one_of_its_own(name, capsys):
    assert f"\n  {name} " in run_here(capsys, "--help").out
    told = run_here(capsys, name, "--help")
    assert told.code == 0
    assert told.out.startswith(f"usage: steepest {name} ")
    assert len(told.out.splitlines()) > 5
    for example in import_module(f"steepest.cli.{name.replace('-', '_')}").EXAMPLES:
        assert f"\n  {example}\n" in told.out
        assert make_parser(name)[0].parse_args(shlex.split(example)[1:]).execute


def test_an_unknown_option_is_one_line_that_leads_to_the_help_of_its_command(capsys):
    told = run_here(capsys, "report", "out", "--basline", "margin")
    assert_one_line(told, "--basline margin; `steepest report --help` shows")
    told = run_here(capsys, "data", "list", "--every one")
    assert_one_line(told, "'--every one'; `steepest data --help` shows")


def test_a_stream_that_is_closed_leads_nowhere_and_stops_nothing(monkeypatch, tmp_path):
    """As after ``2>&-``: the next file to be opened would get its number, and what is said."""
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    for stream in (sys.stdout, sys.stderr):
        assert os.get_inheritable(stream.fileno())
        stream.close()


def test_no_command_at_all_shows_the_commands(capsys):
    assert main([]) == 2
    shown = capsys.readouterr()
    assert not shown.out
    assert "choose and label:" in shown.err
    assert all(name in shown.err for name in SUMMARIES)


def test_usage_names_what_is_required_and_leaves_the_rest_to_the_help(capsys):
    told = run_here(capsys, "compare", "digits")
    assert told.err.splitlines() == [
        "usage: steepest compare [options] --out DIR [CONFIG_OR_PRESET]",
        "steepest compare: error: the following arguments are required: --out",
    ]


def test_help_has_colours_on_a_terminal_alone(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    parser, _ = make_parser("report")
    plain, coloured = io.StringIO(), Terminal()
    parser.print_help(plain)
    parser.print_help(coloured)
    assert "\x1b[" in coloured.getvalue()
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured.getvalue()) == plain.getvalue()
