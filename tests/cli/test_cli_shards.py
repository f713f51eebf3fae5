"""A pool that several commands score in parts, and one command that chooses."""

from __future__ import annotations

import numpy as np
from loop_shell import NAMES, pool_of
from shell import run_here, select_args

BATCHES = ["--batch-size", "4", "--strategy", "entropy"]


def run(capsys, *more, **changes):
    return run_here(capsys, *select_args(**changes, more=[*BATCHES, *more]))


def score_parts(capsys, *more, count=3):
    files = [f"part-{n}.npz" for n in range(1, count + 1)]
    for n, file in enumerate(files, start=1):
        told = run(capsys, "--shard", f"{n}/{count}", *more, out=file)
        assert told.code == 0, told.err
        assert told.out == f"4 samples of shard {n}/3 scored by entropy: {file}\n"
    return files


def test_parts_are_chosen_from_as_the_whole_is(workshop, capsys):
    whole = run(capsys, out="whole.csv")
    files = score_parts(capsys)
    merged = run(capsys, "--scores", *reversed(files), out="merged.csv")
    assert merged.code == 0, merged.err
    assert merged.out == whole.out.replace("whole.csv", "merged.csv")
    assert (workshop / "merged.csv").read_text() == (workshop / "whole.csv").read_text()


def test_parts_serve_a_labelling_loop(workshop, capsys):
    loop = ["--run", "loop", "--classes", NAMES]
    assert run(capsys, *loop, out="first.csv").code == 0
    asked = pool_of(workshop).taken()
    parts = [f"{n}.npz" for n in (1, 2)]
    for n, file in enumerate(parts, start=1):
        told = run(capsys, *loop, "--shard", f"{n}/2", out=file)
        assert told.code == 0, told.err
    told = run(capsys, *loop, "--more", "--scores", *parts, out="second.csv")
    assert told.code == 0, told.err
    assert "3 of 9 samples chosen by entropy" in told.out
    assert len(set(pool_of(workshop).taken()) - set(asked)) == 3
    stale = run(capsys, *loop, "--more", "--scores", *parts, out="third.csv")
    assert stale.code == 2
    assert "other samples than can be chosen now (3 samples differ" in stale.err
    assert len(stale.lines) == 1


def test_scores_that_would_not_be_made_now_are_refused(workshop, capsys):
    files = score_parts(capsys)
    np.save("other.npy", 2 * np.load("pool.npy"))
    for more, said in (
        (["--scores", *files[:2]], "scores of shard 3/3 are missing"),
        (["--scores", *files, "--seed", "1"], "made with seed 0, which is 1 now"),
        (["--scores", *files, "--strategy", "margin"], "made with strategy 'entropy'"),
        (["--scores", *files, "--subset", "8"], "of other samples than can be chosen now"),
        (["--scores", *files, "--pool", "other.npy"], "of another pool, or of one that was read"),
        (["--scores", "nothing.npz"], "nothing.npz cannot be read: No such file"),
    ):
        told = run(capsys, *more)
        assert (told.code, len(told.lines)) == (2, 1), told.err
        assert said in told.err


def test_what_does_not_go_together_is_said_at_once(workshop, capsys):
    for more, out, said in (
        (["--shard", "1/2"], "picks.csv", "picks.csv: scores are saved as .npz"),
        (["--shard", "3/2"], "part.npz", "such as 1/4"),
        (["--shard", "1/2", "--scores", "a.npz"], "part.npz", "leave out one"),
        (["--shard", "1/2", "--format", "csv"], "part.npz", "give it with --scores"),
        (["--shard", "1/9"], "part.npz", "make no more than 3"),
        (["--shard", "1/2", "--strategy", "core-set"], "part.npz", "core-set looks at more"),
    ):
        told = run(capsys, *more, out=out)
        assert (told.code, len(told.lines)) == (2, 1), told.err
        assert said in told.err
    assert not (workshop / "part.npz").exists()
