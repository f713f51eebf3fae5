"""After a restart, a number must still mean the sample that it meant."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from loop_parts import Trainer, make_points
from torch.utils.data import TensorDataset

import steepest
from steepest.errors import RunFolderError
from steepest.loop import same_samples
from steepest.loop.same_samples import LOOKED_AT

POINTS, CLASSES = make_points()


def begin(folder, pool, **options):
    """Make a loop on a folder, let it go at once, and say whether it took note of samples."""
    trainer = Trainer(POINTS)
    steepest.ActiveLoop(pool, fit=trainer.fit, folder=folder, progress=False, **options).close()
    return (folder / LOOKED_AT).read_text() != "{}\n"


class Items:
    """A data set whose items are made when they are asked for."""

    def __init__(self, rows, make):
        self.rows, self.make = rows, make

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, row):
        return self.make(self.rows[row], row)


def in_dicts(rows):
    return Items(rows, lambda x, row: {"first": x[:1], "rest": x[1:], "label": row})


@pytest.mark.parametrize(
    "form",
    [
        lambda x: x,
        lambda x: x.numpy(),
        lambda x: torch.complex(x, x.flip(1)),
        lambda x: torch.where(x > 3, torch.nan, x).bfloat16(),
        lambda x: TensorDataset(x, torch.arange(len(x))),
        lambda x: Items(x, lambda item, row: (item, row)),
        in_dicts,
    ],
)
def test_samples_in_another_order_are_refused_and_the_same_are_not(tmp_path, form):
    assert begin(tmp_path, form(POINTS))
    before = (tmp_path / LOOKED_AT).read_bytes()
    begin(tmp_path, form(POINTS))
    for other in (POINTS.flip(0), POINTS.roll(1, 0)):
        with pytest.raises(RunFolderError, match=r"samples looked at .* bring the pool back"):
            begin(tmp_path, form(other))
    begin(tmp_path, form(POINTS))  # Nothing holds the folder after an error.
    assert (tmp_path / LOOKED_AT).read_bytes() == before


def test_a_part_of_a_large_pool_that_moved_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(same_samples, "_MOST_SAMPLES", 20)
    begin(tmp_path, POINTS)
    moved = torch.cat([POINTS[:40], POINTS[40:].roll(1, 0)])
    with pytest.raises(RunFolderError, match=r"[1-9] of 20 samples looked at \(such as [45]\d\)"):
        begin(tmp_path, moved)


def test_slow_samples_are_looked_at_in_part(tmp_path, monkeypatch):
    monkeypatch.setattr(same_samples, "_MOST_SECONDS", -1.0)
    begin(tmp_path, POINTS)
    with pytest.raises(RunFolderError, match="8 of 8 samples"):
        begin(tmp_path, POINTS.flip(0))


def test_another_precision_another_machine_and_other_labels_are_no_other_samples(tmp_path):
    begin(tmp_path, in_dicts(POINTS))
    begin(tmp_path, in_dicts(POINTS.double() * (1 + 1e-5)))
    begin(tmp_path, Items(POINTS, lambda x, _: {"label": 0, "rest": x[1:], "first": x[:1]}))


@pytest.mark.parametrize(
    "draw", [lambda: torch.rand(()), random.random, lambda: np.random.default_rng().random()]
)
def test_random_augmentation_is_not_compared(tmp_path, draw):
    augmented = Items(POINTS, lambda x, _: x + draw())
    assert not begin(tmp_path, augmented)
    assert not begin(tmp_path, augmented)
    assert begin(tmp_path, POINTS)
    begin(tmp_path, augmented)


def test_looking_draws_nothing_from_the_global_generators(tmp_path):
    def drawn():
        return torch.rand(()).item(), random.random(), np.random.rand()  # noqa: NPY002

    def seed():
        torch.manual_seed(0), random.seed(0), np.random.seed(0)  # noqa: NPY002

    seed()
    expected = drawn()
    for _ in range(2):
        seed()
        begin(tmp_path, Items(POINTS, lambda x, _: x + sum(drawn())))
        assert drawn() == expected


def test_names_and_numbers_that_move_along_keep_their_samples(tmp_path):
    begin(tmp_path / "numbers", POINTS, ids=range(60))
    begin(tmp_path / "numbers", POINTS.flip(0), ids=range(59, -1, -1))
    assert not begin(tmp_path / "names", POINTS, ids=[f"{i}.png" for i in range(60)])


def test_a_pool_that_is_never_read_may_be_unreadable(tmp_path):
    texts = Items(["good", "bad"] * 30, lambda text, _: text)
    for _ in range(2):
        assert not begin(tmp_path, texts, predict=Trainer(POINTS).predict)


def test_without_its_file_a_folder_goes_on_and_a_damaged_file_is_named(tmp_path):
    begin(tmp_path, POINTS)
    (tmp_path / LOOKED_AT).unlink()
    assert begin(tmp_path, POINTS.flip(0))
    for damage in ("{", "[]", '{"0": 3}', '{"0": [["a"]]}'):
        (tmp_path / LOOKED_AT).write_text(damage)
        with pytest.raises(RunFolderError, match=r"samples\.json cannot be read .*delete it"):
            begin(tmp_path, POINTS)
