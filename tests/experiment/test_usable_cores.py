"""Counting the cores that a process may use, for everything that splits work."""

from __future__ import annotations

import argparse
import os
import sys

import pytest
import torch
from PIL import Image
from small import config

from steepest.cli.bench import training as bench_training
from steepest.core import devices
from steepest.core.devices import usable_cores
from steepest.data import image_files
from steepest.experiment.loop import Experiment


@pytest.fixture
def pinned(monkeypatch):
    """Let this process have one core of many."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5}, raising=False)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_cores_that_this_process_may_not_use_are_not_counted():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert usable_cores() == len(before)


@pytest.mark.parametrize(("counted", "wanted"), [(12, 12), (None, 1)])
def test_all_cores_count_where_there_is_no_affinity(monkeypatch, counted, wanted):
    monkeypatch.delattr(devices.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(devices.os, "cpu_count", lambda: counted)
    assert usable_cores() == wanted


@pytest.mark.parametrize(("cores", "wanted"), [(9, 4), (1, 1)])
def test_runs_side_by_side_share_the_usable_cores(monkeypatch, cores, wanted):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(cores), raising=False)
    compare = sys.modules["steepest.experiment.compare"]
    assert compare._jobs(None, [config(threads=2)], missing=99) == wanted


@pytest.mark.usefixtures("pinned")
def test_a_run_takes_no_more_threads_than_usable_cores(tmp_path, monkeypatch):
    told = []
    experiment = Experiment(config(threads=8), tmp_path / "run")
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    experiment.run(until=0)
    assert told[0] == 1


@pytest.mark.usefixtures("pinned")
def test_images_are_decoded_by_as_many_threads_as_usable_cores(tmp_path, monkeypatch):
    asked = []
    threads = image_files.ThreadPoolExecutor
    monkeypatch.setattr(image_files, "ThreadPoolExecutor", lambda n: asked.append(n) or threads(n))
    Image.new("L", (4, 4)).save(tmp_path / "a.png")
    image_files.read_label_maps([tmp_path / "a.png"])
    assert asked == [1]


@pytest.mark.usefixtures("pinned")
def test_a_benchmark_of_training_reads_by_as_many_workers_as_usable_cores():
    parser = argparse.ArgumentParser()
    bench_training.add_arguments(parser)
    parser.set_defaults(command_line="steepest bench training")
    settings = bench_training._settings(parser.parse_args(["--device", "cpu"]))
    assert settings.load.workers == 1
