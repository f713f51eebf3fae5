"""A process that dies while scoring is an error in one line, after a second attempt."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from steepest.bench import child
from steepest.bench.child import ChildError, Job, score_in_child, score_pool
from steepest.core.progress import SilentProgress
from steepest.models import build

JOB = Job("small-cnn", 3, 1, "l2", "bf16", 1)


@pytest.fixture
def endings(monkeypatch):
    """Let the processes end in a given way, one after the other; returns their variables."""
    monkeypatch.delenv(child.ISA_VARIABLE, raising=False)
    seen = []

    def end(*codes, last_words=""):
        left = list(codes)

        def fake(command, *, env, **_):
            seen.append(env.get(child.ISA_VARIABLE))
            code = left.pop(0)
            if code == 0:
                np.save(Path(command[-1]) / "norms.npy", np.ones(4))
            return subprocess.CompletedProcess(command, code, "", last_words)

        monkeypatch.setattr(child.subprocess, "run", fake)
        return seen

    return end


def score():
    return score_in_child(JOB, build("small-cnn", 3, 1, 0), torch.zeros(4, 1, 8, 8))


def test_another_process_gives_the_same_scores():
    model = build("small-cnn", 3, 1, 5).eval()
    pool = torch.randn(70, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    found, note = score_in_child(Job("small-cnn", 3, 1, "tensor-sum", "fp32", 1), model, pool)
    wanted = score_pool(model, pool, "tensor-sum", "fp32", SilentProgress())
    assert note == ""
    assert found.shape == (70,)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_an_illegal_instruction_is_answered_by_safer_ones(endings):
    seen = endings(-signal.SIGILL, 0)
    norms, note = score()
    assert seen == [None, "AVX512_CORE_BF16"]
    assert norms.tolist() == [1.0] * 4
    assert note == (
        "with ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16; without it, the scoring process ended by SIGILL"
    )


def test_a_second_illegal_instruction_is_an_error(endings):
    endings(-signal.SIGILL, -signal.SIGILL)
    with pytest.raises(ChildError, match="ended by SIGILL"):
        score()


def test_what_the_user_set_is_not_changed(endings, monkeypatch):
    seen = endings(-signal.SIGILL, 0)
    monkeypatch.setitem(os.environ, child.ISA_VARIABLE, "AVX2")
    with pytest.raises(ChildError):
        score()
    assert seen == ["AVX2"]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (1, "ended with code 1: ValueError: no"),
        (-signal.SIGKILL, "ended by SIGKILL$"),
        (-99, "ended by signal 99$"),
    ],
)
def test_other_ends_are_told_with_the_last_words(endings, code, message):
    seen = endings(code, last_words="Traceback …\nValueError: no\n")
    with pytest.raises(ChildError, match=message):
        score()
    assert len(seen) == 1
