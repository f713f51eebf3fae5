"""Greedy and exact k-centre against slow versions that are plain to read."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from steepest.errors import InputError
from steepest.strategies.algorithms import k_centre as greedy_module
from steepest.strategies.algorithms import points as points_module
from steepest.strategies.algorithms.k_centre import count_outliers, k_centre
from steepest.strategies.algorithms.k_centre_exact import k_centre_exact
from steepest.strategies.algorithms.points import Points, nearest_to_mean


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def plain_greedy(points, k, centres=None):
    """One pick after another, with straight differences; ties go to the lowest position."""
    points = points.double()
    picks, radii = [], []
    if centres is None:
        picks = [int((points - points.mean(0)).square().sum(1).argmin())]
        nearest = (points - points[picks[0]]).square().sum(1)
        radii = [nearest.max()]
        nearest[picks[0]] = -1
    else:
        nearest = torch.stack([(points - c).square().sum(1) for c in centres.double()]).amin(0)
    while len(picks) < k:
        best = int(nearest.numpy().argmax())
        picks.append(best)
        radii.append(nearest[best].clone())
        nearest = torch.minimum(nearest, (points - points[best]).square().sum(1))
        nearest[torch.tensor(picks)] = -1
    return picks, torch.stack(radii).sqrt().numpy()


def best_radius(points, k, centres=None, spared=0):
    """Try every choice."""
    given = points[:0] if centres is None else centres
    radii = []
    for chosen in itertools.combinations(range(len(points)), k):
        all_centres = torch.cat([given, points[list(chosen)]])
        nearest = torch.cdist(points, all_centres).amin(1).sort().values
        radii.append(float(nearest[len(points) - 1 - spared]))
    return min(radii)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few points and tiles of a few rows, so that little data needs many of them."""
    monkeypatch.setattr(greedy_module, "_SMALLEST", 4)
    monkeypatch.setattr(greedy_module, "_LARGEST", 16)
    monkeypatch.setattr(points_module, "TILE_BYTES", 2000)
    monkeypatch.setattr(points_module, "_CENTRES", 7)


@pytest.mark.usefixtures("small_blocks")
class TestGreedy:
    @pytest.mark.parametrize("width", [1, 2, 5, 40])
    @pytest.mark.parametrize("known", [0, 1, 30])
    def test_the_sequence_is_that_of_the_plain_algorithm(self, width, known):
        points = normal(150, width)
        centres = normal(known, width, seed=1) if known else None
        found = k_centre(points, 120, centres=centres)
        picks, radii = plain_greedy(points, 120, centres)
        assert found.positions.tolist() == picks
        np.testing.assert_allclose(found.scores, radii, rtol=1e-10, atol=1e-14)

    @pytest.mark.parametrize("seed", range(6))
    def test_ties_and_duplicates_keep_the_sequence(self, seed):
        grid = torch.randint(0, 5, (200, 2), generator=torch.Generator().manual_seed(seed))
        points = grid.double()
        centres = points[:3] + torch.tensor([1.0, 0.0])
        found = k_centre(points, 200, centres=centres)
        picks, radii = plain_greedy(points, 200, centres)
        assert found.positions.tolist() == picks
        np.testing.assert_allclose(found.scores, radii, rtol=1e-15)

    def test_equal_points_are_taken_from_the_lowest_position_on(self):
        found = k_centre(torch.ones(50, 3), 50, centres=torch.ones(1, 3))
        assert found.positions.tolist() == list(range(50))
        assert not found.scores.any()

    def test_more_ties_at_the_top_than_a_block_holds(self):
        points = torch.eye(60, dtype=torch.float64)
        found = k_centre(points, 60, centres=torch.zeros(1, 60, dtype=torch.float64))
        assert found.positions.tolist() == list(range(60))
        np.testing.assert_array_equal(found.scores, 1.0)

    def test_points_that_are_not_kept_in_float64_give_the_same(self, monkeypatch):
        points = normal(90, 4).float() + 100
        whole = k_centre(points, 60, centres=points[:5] + 0.01)
        monkeypatch.setattr(points_module, "KEPT_BYTES", 0)
        tiled = k_centre(points, 60, centres=points[:5] + 0.01)
        assert tiled.positions.tolist() == whole.positions.tolist()

    def test_single_precision_far_from_the_origin_is_no_trouble(self):
        points = normal(150, 8).float() + 1000
        centres = normal(10, 8, seed=1).float() + 1000
        picks, radii = plain_greedy(points, 100, centres)
        found = k_centre(points, 100, centres=centres)
        assert found.positions.tolist() == picks
        np.testing.assert_allclose(found.scores, radii, rtol=1e-9)

    def test_radii_never_rise_and_no_point_is_taken_twice(self):
        points = normal(80, 3).repeat(2, 1)
        found = k_centre(points, 160)
        assert sorted(found.positions.tolist()) == list(range(160))
        assert (np.diff(found.scores) <= 0).all()
        assert (found.scores[:80] > 0).all()
        assert not found.scores[80:].any()

    def test_a_duplicate_of_a_centre_is_never_taken_before_any_other(self):
        points = normal(40, 6).float()
        found = k_centre(points, 40, centres=points[[7, 21]])
        assert set(found.positions[-2:].tolist()) == {7, 21}

    def test_turning_the_space_changes_nothing(self):
        points, centres = normal(100, 12), normal(8, 12, seed=1)
        turn = torch.linalg.qr(normal(12, 12, seed=2)).Q
        straight = k_centre(points, 50, centres=centres)
        turned = k_centre(points @ turn, 50, centres=centres @ turn)
        assert turned.positions.tolist() == straight.positions.tolist()

    def test_the_first_without_centres_is_nearest_the_mean(self):
        points = normal(30, 2)
        mean = points.mean(0)
        first = int((points - mean).norm(dim=1).argmin())
        assert nearest_to_mean(points) == first
        assert k_centre(points, 3).positions[0] == first
        assert k_centre(points, 3, centres=points[:0]).positions[0] == first

    def test_outliers_are_left_out(self):
        points = torch.cat([normal(97, 2), torch.full((3, 2), 1e3, dtype=torch.float64)])
        centres = torch.zeros(1, 2, dtype=torch.float64)
        assert k_centre(points, 1, centres=centres).positions[0] >= 97
        robust = k_centre(points, 97, centres=centres, outliers=0.03)
        assert sorted(robust.positions.tolist()) == list(range(97))

    def test_outliers_are_taken_if_there_are_too_few_others(self):
        assert len(set(k_centre(normal(10, 2), 10, outliers=0.5).positions.tolist())) == 10

    @pytest.mark.parametrize("k", [0, 6])
    def test_a_number_that_cannot_be_picked_is_refused(self, k):
        with pytest.raises(InputError, match="at most all of the 5 points"):
            k_centre(normal(5, 2), k)

    def test_a_share_of_all_is_refused(self):
        with pytest.raises(InputError, match="below 1"):
            k_centre(normal(5, 2), 1, outliers=1.0)


@pytest.mark.parametrize(
    ("share", "points", "count"),
    # In floating point 0.29 of 100 and 0.57 of 100 are a little less than 29 and 57.
    [(0.29, 100, 29), (0.57, 100, 57), (0.299, 100, 29), (0.0, 100, 0), (0.999, 2, 1), (0.4, 1, 0)],
)
def test_a_share_is_a_number_of_points_rounded_down(share, points, count):
    assert count_outliers(share, points) == count


@pytest.mark.parametrize("seed", range(4))
def test_greedy_is_within_twice_the_best_and_exact_is_the_best(seed):
    points, centres = normal(11, 2, seed=seed), normal(2, 2, seed=seed + 50)
    best = best_radius(points, 3, centres)
    greedy = k_centre(points, 3, centres=centres)
    after = float(torch.cdist(points, torch.cat([centres, points[greedy.positions]])).amin(1).max())
    assert best <= after * (1 + 1e-12)
    assert after <= 2 * best
    exact = k_centre_exact(points, 3, centres=centres)
    assert exact.proved
    assert exact.radius == pytest.approx(best, rel=1e-9)
    assert exact.radius <= after * (1 + 1e-12)


class TestExact:
    @pytest.mark.parametrize("seed", range(3))
    def test_outliers_need_not_be_covered(self, seed):
        points = normal(11, 2, seed=seed)
        exact = k_centre_exact(points, 2, outliers=0.2)
        assert exact.radius == pytest.approx(best_radius(points, 2, spared=2), rel=1e-9)
        assert exact.radius < k_centre_exact(points, 2).radius

    def test_it_beats_greedy_where_greedy_errs(self):
        points = torch.arange(9, dtype=torch.float64)[:, None]
        exact = k_centre_exact(points, 3)
        assert sorted(exact.picks.positions.tolist()) == [1, 4, 7]
        assert exact.radius == 1
        greedy = points[k_centre(points, 3).positions]
        assert torch.cdist(points, greedy).amin(1).max() == 2

    def test_picks_are_distinct_and_radii_never_rise(self):
        points = normal(40, 3)
        exact = k_centre_exact(points, 12, centres=normal(3, 3, seed=1))
        assert len(set(exact.picks.positions.tolist())) == 12
        assert (np.diff(exact.picks.scores) <= 0).all()

    def test_all_points_leave_no_distance(self):
        points = normal(7, 2)
        assert k_centre_exact(points, 7).radius == 0
        assert k_centre_exact(points[:1], 1).picks.positions.tolist() == [0]

    def test_too_many_points_are_refused(self):
        with pytest.raises(InputError, match="at most 2000 points, not 2001"):
            k_centre_exact(torch.zeros(2001, 1), 1)


def test_distances_of_products_are_those_of_the_outer_products():
    left, right = normal(30, 4), normal(30, 6, seed=1)
    outer = torch.einsum("nc,nd->ncd", left, right).flatten(1)
    space = Points(left, right)
    torch.testing.assert_close(space.squares, outer.square().sum(1), rtol=1e-12, atol=0)
    table = torch.cdist(outer, outer).square().fill_diagonal_(0)
    torch.testing.assert_close(space.squared_distances(), table, rtol=1e-10, atol=1e-12)
    nearest = space.nearest_squares(space.take(slice(0, 5)))
    torch.testing.assert_close(nearest, table[:, :5].amin(1), rtol=1e-10, atol=1e-12)


def test_points_of_unequal_number_are_refused():
    with pytest.raises(InputError, match="a row for each"):
        Points(normal(3, 2), normal(4, 2))
