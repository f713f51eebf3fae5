"""The service for several processes on one GPU is started where there is one, and stopped."""

from __future__ import annotations

import os

import pytest

from steepest.training.gpu_sharing import shared_gpu

VARIABLES = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")


@pytest.fixture
def control(tmp_path, monkeypatch):
    """Stand in for the service's program: it writes down what it is told."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    told = tmp_path / "told"

    def install(code=0):
        program = tmp_path / "nvidia-cuda-mps-control"
        program.write_text(f'#!/bin/sh\necho "$@ $(cat)" >> {told}\nexit {code}\n')
        program.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return install, told


def test_it_is_started_and_stopped(control):
    install, told = control
    install()
    with shared_gpu() as shared:
        assert shared
        folders = [os.environ[name] for name in VARIABLES]
        assert all(os.path.isdir(folder) for folder in folders)  # noqa: PTH112
    assert told.read_text().split() == ["-d", "quit"]
    assert not any(name in os.environ for name in VARIABLES)
    assert not any(os.path.exists(folder) for folder in folders)  # noqa: PTH110


def test_it_is_stopped_after_an_error(control):
    install, told = control
    install()
    with pytest.raises(RuntimeError, match="mine"), shared_gpu():
        raise RuntimeError("mine")
    assert told.read_text().split() == ["-d", "quit"]


def test_one_that_cannot_be_started_is_done_without(control):
    install, told = control
    install(code=1)
    with shared_gpu() as shared:
        assert not shared
        assert not any(name in os.environ for name in VARIABLES)
    assert told.read_text().split() == ["-d"]


def test_without_the_program_nothing_happens(control):
    with shared_gpu() as shared:
        assert not shared


def test_the_service_of_somebody_else_is_left_alone(control, monkeypatch):
    install, told = control
    install()
    monkeypatch.setenv(VARIABLES[0], "theirs")
    with shared_gpu() as shared:
        assert shared
    assert os.environ[VARIABLES[0]] == "theirs"
    assert not told.exists()


@pytest.mark.parametrize(("chosen", "within"), [("2,0", "0,1"), ("GPU-8f", "GPU-8f"), (None, None)])
def test_gpus_are_numbered_as_the_service_numbers_them(chosen, within, control, monkeypatch):
    """Who asked it for its second GPU of one would find none."""
    install, _ = control
    install()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if chosen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    with shared_gpu():
        assert os.environ.get("CUDA_VISIBLE_DEVICES") == within
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == chosen
    install(code=1)
    with shared_gpu():
        assert os.environ.get("CUDA_VISIBLE_DEVICES") == chosen
