"""Run commands as a user does: within this process where that is enough, or in one of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
import torch
from same_process import runs_here
from torch import nn

from steepest.cli.main import main
from steepest.core.journal import read_journal
from steepest.models import save_weights

TINY = """
name = "tiny"
seed = 3
device = "cpu"

[data]
name = "digits"

[model]
name = "small-cnn"

[strategy]
name = "margin"

[loop]
initial = 20
k = 5
cycles = 3
subset = 20

[training]
epochs = 2
batch_size = 16
optimizer = "adam"
lr = 0.005
schedule = "constant"
"""

CLASSES = 4

MODELS = f'''
import torch
from torch import nn


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(48, {CLASSES})

    def forward(self, x):
        return "cat"


class Raises(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(48, {CLASSES})

    def forward(self, x):
        raise RuntimeError("no luck\\nat all")


class Narrow(nn.Module):
    """Three outputs, whatever the data set has."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 3)

    def forward(self, x):
        return self.layer(x.flatten(1))


def make():
    return nn.Sequential(nn.Flatten(), nn.Linear(48, 8), nn.Tanh(), nn.Linear(8, {CLASSES}))


def raises():
    raise RuntimeError("first line\\nsecond line")


def number():
    return 3
'''


@dataclass(frozen=True)
class Outcome:
    """What a command left on the terminal."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.err.splitlines()


def run_here(capsys, *argv: str | Path) -> Outcome:
    """Run a command within this process."""
    capsys.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        try:
            code = main([str(part) for part in argv])
        except SystemExit as leaving:  # argparse's own errors
            code = leaving.code
    shown = capsys.readouterr()
    return Outcome(code, shown.out, shown.err)


def run_within(*argv: str | Path, cwd: Path) -> Outcome:
    """Run a command in a folder and within this process, for what many tests share."""
    out, err = StringIO(), StringIO()
    with (
        chdir(cwd),
        runs_here(),
        redirect_stdout(out),
        redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        code = main([str(part) for part in argv])
    return Outcome(code, out.getvalue(), err.getvalue())


def start(*argv: str | Path, cwd: Path, **more) -> subprocess.Popen:
    """Start a command in a process of its own."""
    settings = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "steepest", *map(str, argv)],
        cwd=cwd,
        env=settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def finish(process: subprocess.Popen) -> Outcome:
    """Wait for a command to end."""
    out, err = process.communicate(timeout=300)
    return Outcome(process.returncode, out, err)


def run_apart(*argv: str | Path, cwd: Path) -> Outcome:
    """Run a command in a process of its own, as from a shell."""
    return finish(start(*argv, cwd=cwd))


def assert_one_line(outcome: Outcome, message: str) -> None:
    """The contract of bad input: code 2, one line that says what is wrong, warnings aside."""
    assert outcome.code == 2, outcome.err
    errors = [line for line in outcome.lines if not line.startswith("steepest: warning: ")]
    assert len(errors) == 1, outcome.err
    assert errors[0].startswith("steepest: error: ")
    assert re.search(message, errors[0]), outcome.err
    assert outcome.out == ""


def select_args(**changes: str | list[str]) -> list[str]:
    """A select command that works, with some of its options replaced."""
    options = {
        "model": "user_models:make",
        "weights": "weights.safetensors",
        "pool": "pool.npy",
        "k": "3",
        "out": "picks.csv",
    }
    options.update({name: value for name, value in changes.items() if name != "more"})
    argv = ["select", "--quiet"]
    for name, value in options.items():
        argv += [f"-{name}" if name == "k" else f"--{name}", value]
    return [*argv, *changes.get("more", [])]


def small_model() -> nn.Module:
    """The model that ``user_models:make`` builds."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 8), nn.Tanh(), nn.Linear(8, CLASSES))
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) * 0.5
    return model


def small_pool(samples: int = 12) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(samples, 3, 4, 4)).astype(np.float32)


def fill_workshop(folder: Path) -> None:
    """Put a user's models, weights, a pool and a configuration into a folder."""
    (folder / "user_models.py").write_text(MODELS)
    (folder / "tiny.toml").write_text(TINY)
    save_weights(small_model(), folder / "weights.safetensors")
    np.save(folder / "pool.npy", small_pool())


def essence(run: Path) -> list[dict]:
    """What must not depend on how a run was interrupted: all but time, memory and machine."""
    entries, torn = read_journal(run / "records.jsonl")
    assert not torn
    skip = {"training", "scoring", "environment"}
    return [{k: v for k, v in entry.items() if k not in skip} for entry in entries]


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a folder: when it was written, and what it holds."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
