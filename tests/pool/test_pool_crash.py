"""A writer killed without warning, and two writers at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import warnings

import pytest

from steepest.errors import DroppedEntryWarning, RunFolderError
from steepest.pool import Pool, State

ENDLESS = """
import sys
from steepest.pool import Pool

pool = Pool.create(range(10), sys.argv[1])
print("ready", flush=True)
turn = 0
while True:
    sample = turn % 10
    pool.label([sample], [turn], cycle=turn, who="child")
    print(turn, flush=True)
    pool.unlabel([sample], cycle=turn, who="child")
    turn += 1
"""


def start_child(path):
    return subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(path)], stdout=subprocess.PIPE, text=True
    )


def test_all_that_a_killed_writer_acknowledged_is_there(tmp_path):
    path = tmp_path / "pool.jsonl"
    with start_child(path) as child:
        acknowledged = [child.stdout.readline() for _ in range(40)]
        with pytest.raises(RunFolderError, match="in use by another process"):
            Pool.open(path)
        child.send_signal(signal.SIGKILL)
        acknowledged += child.stdout.readlines()
    assert child.returncode == -signal.SIGKILL
    assert acknowledged[0] == "ready\n"
    turns = [int(line) for line in acknowledged[1:] if line.endswith("\n")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DroppedEntryWarning)
        pool = Pool.open(path)
    with pool:
        written = [event.label for event in pool.events() if event.verb == "label"]
        assert written[: len(turns)] == turns
        assert len(written) - len(turns) <= 1
        pool.unlabel(pool.ids(State.LABELLED), cycle=0, who="parent")
        assert pool.counts()[State.UNLABELLED] == 10


def test_threads_that_want_the_same_sample_make_one_entry_each_time(tmp_path):
    path = tmp_path / "pool.jsonl"
    refused: list[Exception] = []

    def label_all(name):
        for sample in range(20):
            try:
                pool.label([sample], [name], cycle=0, who=name)
            except Exception as error:  # noqa: BLE001 - every refusal is looked at below
                refused.append(error)

    with Pool.create(range(20), path) as pool:
        threads = [threading.Thread(target=label_all, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(refused) == 60
    assert all("it is labelled" in str(error) for error in refused)
    assert len(list(Pool.replay(path).events())) == 20
