"""Random choices that depend on the seed and the purpose alone."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from scipy import stats

from steepest.core.seeds import check_seed, derive, generator, keyed_uniform, sample_keys
from steepest.errors import InputError


def draw(*purpose, seed=0, count=4):
    return torch.rand(count, generator=generator(seed, *purpose))


def test_the_same_seed_and_purpose_give_the_same_stream():
    assert torch.equal(draw("shuffle", 3, 1), draw("shuffle", 3, 1))


def test_seeds_are_the_same_on_every_machine():
    assert derive(0, "initial set") == 3741084156057682235
    assert derive(1, "shuffle", 2, 3) == 6410025890685604300


def test_keyed_values_are_the_same_on_every_machine():
    values = keyed_uniform(0, "ties", [0, "a.png"], columns=2)
    assert values.tolist() == [
        [0.3243715167702411, 0.770922346997499],
        [0.6985959958258363, 0.9314677006441354],
    ]


@pytest.mark.parametrize("seed", [1.5, 3.0, None, "3", True, np.bool_(1), np.float64(1), [3]])
def test_a_seed_that_is_no_whole_number_is_refused_wherever_one_is_drawn_by(seed):
    for use in (check_seed, lambda s: derive(s, "a"), lambda s: keyed_uniform(s, "a", [1])):
        with pytest.raises(InputError, match="seed must be a whole number, not"):
            use(seed)


@pytest.mark.parametrize("seed", [3, np.int64(3), np.uint8(3), np.array(3), torch.tensor(3)])
def test_whole_numbers_of_every_kind_are_the_same_seed(seed):
    assert type(check_seed(seed)) is int
    assert derive(seed, "shuffle") == derive(3, "shuffle")


def test_every_part_of_a_purpose_makes_another_stream():
    purposes: list[tuple[str | int, ...]] = [
        (),
        ("shuffle",),
        ("shuffle", 0),
        ("shuffle", 1),
        ("shuffle", 0, 0),
        ("shuffle", 1, 0),
        ("shuffle", 10),
        ("shuffle1", 0),
        ("initial set",),
    ]
    seeds = [derive(seed, *purpose) for seed in (0, 1, 10, -1) for purpose in purposes]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_asking_for_one_more_stream_shifts_no_other():
    first = generator(0, "a")
    before = torch.rand(2, generator=first)
    generator(0, "b")
    torch.rand(7, generator=generator(0, "c"))
    after = torch.rand(2, generator=first)
    assert torch.equal(torch.cat([before, after]), draw("a"))


def test_streams_of_different_purposes_are_not_correlated():
    columns = [draw("noise", cycle, count=4000).numpy() for cycle in range(6)]
    columns += [draw(name, count=4000).numpy() for name in ("ties", "augmentation")]
    columns += [draw("ties", seed=seed, count=4000).numpy() for seed in (1, 2)]
    correlation = np.corrcoef(columns) - np.eye(len(columns))
    assert abs(correlation).max() < 5 / np.sqrt(4000)


def test_keyed_values_depend_on_the_id_alone():
    ids = list(range(50))
    whole = keyed_uniform(0, "ties", ids, columns=3)
    order = np.random.default_rng(1).permutation(50)
    assert np.array_equal(keyed_uniform(0, "ties", order.tolist(), columns=3), whole[order])
    pieces = [keyed_uniform(0, "ties", ids[start : start + 7], 3) for start in range(0, 50, 7)]
    assert np.array_equal(np.concatenate(pieces), whole)
    assert np.array_equal(keyed_uniform(0, "ties", ids), whole[:, :1])


def test_keyed_values_of_names_depend_on_the_name_alone():
    ids = ["a.png", "b.png", "ü.png", ""]
    whole = keyed_uniform(0, "ties", ids)
    assert np.array_equal(keyed_uniform(0, "ties", ids[::-1]), whole[::-1])
    assert len(np.unique(whole)) == 4


def test_numpy_ids_count_as_the_numbers_they_are():
    ids = [3, 2**40, -1]
    expected = keyed_uniform(0, "ties", ids)
    assert np.array_equal(keyed_uniform(0, "ties", list(np.array(ids))), expected)
    assert np.array_equal(sample_keys([0, 7]), np.array([0, 7], dtype=np.uint64))


@pytest.mark.parametrize("ids", [range(20_000), [f"folder/{n}.png" for n in range(5_000)]])
def test_keyed_values_are_uniform(ids):
    values = keyed_uniform(0, "ties", ids, columns=4)
    assert values.shape == (len(ids), 4)
    assert values.min() >= 0.0
    assert values.max() < 1.0
    for column in values.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-3
        counts = np.histogram(column, bins=64, range=(0, 1))[0]
        assert stats.chisquare(counts).pvalue > 1e-3


def test_keyed_columns_neighbours_purposes_and_seeds_are_not_correlated():
    ids = range(20_000)
    columns = list(keyed_uniform(0, "ties", ids, columns=4).T)
    columns.append(np.roll(columns[0], 1))
    columns.append(keyed_uniform(0, "dropout", ids)[:, 0])
    columns.append(keyed_uniform(1, "ties", ids)[:, 0])
    correlation = np.corrcoef(columns) - np.eye(len(columns))
    assert abs(correlation).max() < 5 / np.sqrt(20_000)


def test_no_ids_give_no_values():
    assert keyed_uniform(0, "ties", [], columns=2).shape == (0, 2)


def test_the_global_generators_are_left_alone():
    before = (random.getstate(), str(np.random.get_state()), torch.get_rng_state())  # noqa: NPY002
    torch.rand(3, generator=generator(0, "a"))
    keyed_uniform(0, "ties", range(10), columns=2)
    assert random.getstate() == before[0]
    assert str(np.random.get_state()) == before[1]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[2])


@pytest.mark.parametrize(
    "ids", [[1, 2, -5], range(3, 20, 4), range(-3, 3), [2**63, 5], [2**63, -1], [2**70, 1], []]
)
def test_the_key_of_an_index_is_its_last_64_bits(ids):
    wanted = [int(i) & (2**64 - 1) for i in ids]
    assert sample_keys(ids).tolist() == wanted


@pytest.mark.parametrize("first", [0, "a", 2**70, np.int64(3)])
def test_the_key_of_an_id_does_not_depend_on_the_others(first):
    ids = [first, 7, "b", -1, np.int64(12), "12", 2**64 + 5]
    assert sample_keys(ids).tolist() == [int(sample_keys([i])[0]) for i in ids]
    assert len(set(sample_keys(ids).tolist())) == len(ids)


def test_the_keys_of_names_are_the_same_on_every_machine():
    assert sample_keys(["a.png", "ü"]).tolist() == [6266261796961190882, 3976460501203677525]
