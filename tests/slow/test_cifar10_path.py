"""The whole path on real CIFAR-10, on a CPU: compare, be killed, go on, report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from steepest.experiment.folder import count_records

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("STEEPEST_DATA" not in os.environ, reason="STEEPEST_DATA is not set"),
]

COMMAND = [
    *(sys.executable, "-m", "steepest", "compare", "cifar10-small"),
    *("--strategies", "entropy-gradnorm,margin", "--seeds", "1", "--jobs", "2", "--quiet"),
    *("--set", "loop.cycles=3", "--set", "training.epochs=5", "--out"),
]


def accuracies(folder: Path) -> dict[str, list[float]]:
    return {
        path.parent.parent.name: [
            json.loads(line)["metrics"]["accuracy"] for line in path.read_text().splitlines()
        ]
        for path in sorted(folder.glob("runs/*/seed-0/records.jsonl"))
    }


def test_cifar10_runs_resumes_and_reports(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run([*COMMAND, str(whole)], check=True, capture_output=True)
    started = subprocess.Popen(
        [*COMMAND, str(broken)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    watched = broken / "runs" / "entropy-gradnorm" / "seed-0"
    while count_records(watched) < 1:
        assert started.poll() is None
        time.sleep(0.2)
    os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    subprocess.run([*COMMAND, str(broken)], check=True, capture_output=True)
    found = accuracies(broken)
    assert found == accuracies(whole)
    assert set(found) == {"entropy-gradnorm", "margin", "random"}
    assert all(len(values) == 3 and max(values) > 0.15 for values in found.values())
    page = (broken / "report.html").read_text()
    assert page.count("data:image/png;base64") > 50
