from __future__ import annotations

import numpy as np

from steepest.labelling.project.batches import Candidate, interleave, split_sizes
from steepest.labelling.project.cold_start import choose_spread, describe
from steepest.labelling.project.learning import choose_recipe
from steepest.labelling.project.settings import Settings


def test_few_samples_get_many_passes_and_many_get_few():
    epochs = [choose_recipe(n, Settings()).epochs for n in (4, 200, 5000)]
    assert epochs == sorted(epochs, reverse=True)
    assert epochs[0] == 150
    assert choose_recipe(4, Settings(epochs=3)).epochs == 3
    assert choose_recipe(2, Settings()).batch_size == 2


def test_every_part_of_a_batch_has_its_share_of_random_draws():
    learn = [Candidate(n, 1.0, "margin") for n in range(16)]
    test = [Candidate(100 + n, None, "validation") for n in range(4)]
    mixed = interleave(learn, test, 0.2)
    assert [n for n, pick in enumerate(mixed) if pick.score is None] == [4, 9, 14, 19]
    assert len(interleave([], test, 0.2)) == 4
    assert interleave(learn, [], 0.2) == learn
    assert split_sizes(20, 0.2) == (16, 4)
    assert split_sizes(20, 0.0) == (20, 0)


def test_a_spread_has_the_middle_of_each_cluster():
    noise = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    sizes = (30, 20, 10)
    points = np.concatenate(
        [c + noise.normal(0, 0.5, (n, 2)) for c, n in zip(centres, sizes, strict=True)]
    )
    rows = choose_spread(points, 3, seed=1)
    assert [0 <= rows[0] < 30, 30 <= rows[1] < 50, 50 <= rows[2] < 60] == [True] * 3
    assert rows == choose_spread(points, 3, seed=1)
    assert choose_spread(points[:2], 3, seed=1) == [0, 1]
    same = choose_spread(np.zeros((5, 2)), 3, seed=1)
    assert len(set(same)) == 3


def test_features_tell_colours_brightness_and_edges_apart():
    squares = np.zeros((4, 3, 32, 32), np.uint8)
    squares[0, 0] = 200
    squares[1, 1] = 200
    squares[2, :, :, ::4] = 255
    squares[3, :, ::4, :] = 255
    features = describe(squares)
    assert features.shape == (4, 120)
    gaps = np.linalg.norm(features[:, None] - features[None], axis=-1)
    assert gaps[~np.eye(4, dtype=bool)].min() > 0.5
    assert (features == describe(squares)).all()
