"""Ctrl-C before a command has begun."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from steepest.cli.terminal import ending_at_once

PRESSED = """
import os, runpy, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)

class Finger:
    def find_spec(self, name, path=None, target=None):
        if name == {moment!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finger())
sys.argv = ["steepest", "run", "digits", "--out", "nowhere"]
runpy.run_module("steepest", run_name="__main__")
"""


@pytest.mark.parametrize(
    "moment", ["shlex", "steepest.cli.run", "numpy.matrixlib", "torch.nn", "steepest.experiment"]
)
def test_ctrl_c_while_a_command_is_imported_says_nothing(moment, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PRESSED.format(moment=moment)],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_is_handed_back_and_a_handler_of_someone_else_is_left_alone():
    before = signal.getsignal(signal.SIGINT)
    own = signal.SIG_IGN
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with ending_at_once():
            assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGINT, own)
        with ending_at_once():
            assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_can_import_commands():
    passed = []

    def work():
        with ending_at_once():
            passed.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert passed == [True]
