"""`steepest label-studio` as a user runs it, with a stand-in for the server."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from shell import assert_one_line, contents, finish, run_here, select_args, start

from steepest.cli import label_studio
from steepest.core.http_requests import Patience
from steepest.labelling.project import open_pool

sys.path.insert(0, str(Path(__file__).parents[1] / "labelling" / "label_studio"))
from fake_label_studio import TOKEN, serving

pytestmark = pytest.mark.filterwarnings("ignore::steepest.errors.SteepestWarning")


@pytest.fixture
def server():
    with serving() as state:
        yield state


@pytest.fixture
def loop(workshop, capsys, monkeypatch, server):
    """A loop whose first three picks wait, and an account of the server."""
    monkeypatch.setenv("LABEL_STUDIO_URL", server.url)
    monkeypatch.setenv("LABEL_STUDIO_TOKEN", TOKEN)
    monkeypatch.setattr(label_studio, "PATIENCE", Patience(retries=1, sleep=lambda _: None))
    (workshop / "photos").mkdir()
    rng = np.random.default_rng(0)
    for number in range(6):
        pixels = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(workshop / "photos" / f"{number}.png")
    argv = select_args(pool="photos", more=["--run", "loop", "--classes", "a,b,c,d"])
    assert run_here(capsys, *argv).code == 0
    return workshop / "loop"


def run(capsys, action, *more):
    told = run_here(capsys, "label-studio", action, "--run", "loop", *more)
    assert TOKEN not in told.out + told.err
    return told


def labels_of(loop):
    with open_pool(loop) as pool:
        return dict(zip(*pool.labelled(), strict=True))


def test_push_label_pull(loop, capsys, server):
    told = run(capsys, "push")
    assert (told.code, "3 new tasks, 0 there" in told.out) == (0, True), told.err
    assert f"{server.url}/projects/1" in told.out
    assert server.projects[1]["title"] == "steepest loop"
    first = server.order()[0]
    server.choose(first, "b")
    told = run(capsys, "pull")
    assert (told.code, "1 new label; 2 samples still wait" in told.out) == (0, True), told.err
    assert labels_of(loop) == {first: 1}
    before = contents(loop)
    assert "1 known already" in run(capsys, "pull").out
    assert "0 new tasks, 2 there" in run(capsys, "push").out
    assert contents(loop) == before


def test_the_token_is_taken_from_the_environment_alone(loop, capsys, monkeypatch):
    told = run_here(capsys, "label-studio", "push", "--run", "loop", "--token", "secret")
    assert told.code == 2
    monkeypatch.delenv("LABEL_STUDIO_TOKEN")
    assert_one_line(run(capsys, "push"), "LABEL_STUDIO_TOKEN is not set")
    monkeypatch.setenv("LABEL_STUDIO_TOKEN", "f" * 40)
    told = run(capsys, "push")
    assert_one_line(told, "does not accept the token")
    assert "f" * 40 not in told.err


@pytest.mark.parametrize(
    ("action", "more", "message"),
    [
        ("push", ["--url", "nowhere"], "address"),
        ("push", ["--url", "http://127.0.0.1:1"], "no answer"),
        ("push", ["--title", "x"], "3 to 50"),
        ("push", ["--images", "local"], "--local-root"),
        ("push", ["--pool", "nowhere"], "--pool"),
        ("push", ["--timeout", "0"], "--timeout"),
        ("pull", ["--title", "nobody"], "no project 'nobody'"),
    ],
)
def test_bad_input_is_one_line(loop, capsys, action, more, message):
    before = contents(loop)
    assert_one_line(run(capsys, action, *more), message)
    assert contents(loop) == before


def test_annotators_who_disagree_are_one_line(loop, capsys, server):
    run(capsys, "push")
    sample = server.order()[0]
    for person, name in enumerate("abb"):
        server.choose(sample, name, person=person)
    assert_one_line(run(capsys, "pull"), "disagree.*--disagreement majority")
    assert run(capsys, "pull", "--disagreement", "majority").code == 0
    assert labels_of(loop) == {sample: 1}


def test_a_failing_server_is_one_line(loop, capsys, server):
    server.failures = [500, 500]
    assert_one_line(run(capsys, "push"), "status 500")


def test_watching_until_done(loop, capsys, server, monkeypatch):
    turns = []

    def label_one(_):
        turns.append(1)
        server.choose(server.order()[0], "c")

    monkeypatch.setattr(label_studio, "PATIENCE", Patience(retries=1, sleep=label_one))
    told = run(capsys, "watch", "--until-done", "--interval", "1")
    assert told.code == 0, told.err
    assert len(turns) == 3
    assert told.out.count("1 new label") == 3
    assert set(labels_of(loop).values()) == {2}


@pytest.mark.skipif(os.name != "posix", reason="signals of this kind are POSIX")
def test_watching_ends_by_control_c_with_nothing_lost(loop, server):
    command = ["label-studio", "watch", "--run", "loop", "--interval", "0.05"]
    process = start(*command, cwd=loop.parent)
    assert "watching" in process.stdout.readline()
    assert "3 new tasks" in process.stdout.readline()
    sample = server.order()[0]
    server.choose(sample, "d")
    assert "1 new label;" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    told = finish(process)
    assert told.code == 0, told.err
    assert "stopped" in told.err
    assert "Traceback" not in told.err
    assert labels_of(loop) == {sample: 3}
