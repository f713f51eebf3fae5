"""Completion scripts: what bash offers for words that were begun, and fish's lines."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest
from shell import run_here

from steepest.strategies.base import STRATEGIES


def offer(capsys, *words, shell="bash"):
    """Return what a shell offers for the last word."""
    script = run_here(capsys, "completion", shell).out
    typed = " ".join(map(shlex.quote, ["steepest", *words]))
    ask = (
        f"{script}\nCOMP_WORDS=({typed}); COMP_CWORD={len(words)}\n"
        """f=$(complete -p steepest); f=${f#*-F }; ${f%% *}; printf "%s\\n" "${COMPREPLY[@]}\""""
    )
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_completes_commands_options_and_choices(capsys):
    assert offer(capsys, "lab") == ["label", "label-studio"]
    assert offer(capsys, "compare", "--see") == ["--seeds"]
    assert offer(capsys, "bench", "gradnorm", "--precis") == ["--precision"]
    assert offer(capsys, "ingest", "--disagreement", "ma") == ["majority"]
    assert offer(capsys, "select", "--strategy", "") == list(STRATEGIES.names())
    assert offer(capsys, "select", "photos") == []  # bash goes on with files


def test_zsh_loads_the_same_script_through_its_bash_completion(capsys):
    first, rest = run_here(capsys, "completion", "zsh").out.split("\n", 1)
    assert first == "autoload -U +X bashcompinit && bashcompinit"
    assert rest == run_here(capsys, "completion", "bash").out


def test_fish_has_a_line_for_each_command_and_option(capsys):
    lines = run_here(capsys, "completion", "fish").out.splitlines()
    seen = "complete -c steepest -n '__fish_seen_subcommand_from ingest'"
    assert any(line.startswith(f"{seen} -l disagreement -r -a 'refuse majority'") for line in lines)
    assert all(len(shlex.split(line.replace("\\'", ""))) > 5 for line in lines)


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_reads_its_script(capsys, tmp_path):
    script = tmp_path / "steepest.fish"
    script.write_text(run_here(capsys, "completion", "fish").out)
    command = f"source {script}; complete -C 'steepest compare --see'"
    done = subprocess.run(["fish", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("--seeds")
    assert not done.stderr
