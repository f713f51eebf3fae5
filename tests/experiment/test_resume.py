"""Kill a real process anywhere, run again: the same selections and metrics."""

from __future__ import annotations

import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from killed_run import POINTS
from small import config, essence

from steepest.errors import DroppedEntryWarning, JournalError
from steepest.experiment.loop import Experiment

SCRIPT = Path(__file__).with_name("killed_run.py")


def kill_at(point: str, out: Path, init: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(out), point, init], capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return {
        init: essence(Experiment(config(loop__init=init), folder / init).run())
        for init in ("warm", "shrink-perturb")
    }


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_ends_like_an_uninterrupted_one(point, whole, tmp_path):
    kill_at(point, tmp_path / "run", "warm")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DroppedEntryWarning)
        records = Experiment(config(loop__init="warm"), tmp_path / "run").run()
    assert essence(records) == whole["warm"]


def test_a_run_killed_twice_ends_like_an_uninterrupted_one(whole, tmp_path):
    kill_at("after the record", tmp_path / "run", "shrink-perturb")
    kill_at("after the first weights", tmp_path / "run", "shrink-perturb")
    records = Experiment(config(loop__init="shrink-perturb"), tmp_path / "run").run()
    assert essence(records) == whole["shrink-perturb"]


def test_a_torn_record_is_reported(tmp_path):
    kill_at("in the middle of a record", tmp_path / "run", "warm")
    with pytest.warns(DroppedEntryWarning, match=r"records\.jsonl.*half-written"):
        Experiment(config(), tmp_path / "run").run()
    assert (tmp_path / "run" / "records.jsonl.dropped").exists()


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ((0, 2), "entry 2 is cycle 2 where 1"),
        ((1, 2), "entry 1 is cycle 1"),
        ((0, 0, 1), "entry 2"),
    ],
)
def test_records_that_are_missing_doubled_or_out_of_place_are_refused(order, told, tmp_path):
    out = tmp_path / "run"
    what = config(loop__cycles=3, training__epochs=1)
    Experiment(what, out).run()
    path = out / "records.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("".join(f"{lines[i]}\n" for i in order))
    before = path.read_bytes()
    for _ in range(2):  # The second time too: the folder is not left locked.
        with pytest.raises(JournalError, match=told):
            Experiment(what, out).run()
    assert path.read_bytes() == before
