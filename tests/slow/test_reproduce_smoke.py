"""Everything at once: every artefact of the paper on a CPU, from runs to pages, twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from steepest.paper.artefact import all_artefacts

pytestmark = pytest.mark.slow


def reproduce(out, *more):
    command = [*(sys.executable, "-m", "steepest", "reproduce", "all", "--smoke")]
    environment = {k: v for k, v in os.environ.items() if k != "STEEPEST_DATA"}
    whole = [*command, "--jobs", "2", "--quiet", "--out", str(out), *more]
    return subprocess.run(whole, check=True, capture_output=True, text=True, env=environment).stdout


def test_every_artefact_is_made_and_the_second_time_from_what_is_there(tmp_path):
    told = reproduce(tmp_path / "out")
    numbers = {}
    for one in all_artefacts():
        folder = tmp_path / "out" / one.name
        data = json.loads((folder / "data.json").read_text())
        assert data["state"] == "complete", (one.name, data["missing"])
        assert all(row.get("difference") is None for row in data["rows"])
        assert "nothing here is a result" in (folder / "page.html").read_text()
        numbers[one.name] = data["rows"]
    assert "goes on" not in told
    assert f'href="{one.name}/page.html"' in (tmp_path / "out" / "index.html").read_text()
    before = sorted((tmp_path / "out").rglob("records.jsonl"))
    times = [path.stat().st_mtime_ns for path in before]
    reproduce(tmp_path / "out", "--minutes", "0")
    assert [path.stat().st_mtime_ns for path in before] == times
    for name, rows in numbers.items():
        again = json.loads((tmp_path / "out" / name / "data.json").read_text())["rows"]
        assert again == rows
