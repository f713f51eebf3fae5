"""What a seed decides, where a run keeps its weights, and what its records say of a choice."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from steepest.core.memory import Measurement
from steepest.core.seeds import derive
from steepest.experiment.record import Cost, Wish
from steepest.experiment.seeding import extra_seed, initial_ids, selection_seed, weights_path
from steepest.experiment.selection import fields_of
from steepest.experiment.setup import Setup
from steepest.selecting.choosing import Outcome
from steepest.selecting.selection import Selection


def fresh_model(seed):
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    torch.nn.init.normal_(model[0].weight, generator=torch.Generator().manual_seed(seed % 2**32))
    return model


def begin(init, cycle, previous=None, member=0, seed=5) -> Any:
    loop = SimpleNamespace(init=init, shrink=0.4, perturb=0.1)
    config = SimpleNamespace(loop=loop, seed=seed)
    experiment: Any = SimpleNamespace(config=config, fresh_model=fresh_model)
    folder: Any = None  # Nothing is read from disk.
    return Setup.starting_model(experiment, folder, cycle, previous, member)


def test_the_first_samples_are_drawn_by_the_seed_alone():
    ids = [f"{n}.png" for n in range(50)]
    drawn = initial_ids(ids, 10, seed=3)
    assert len(set(drawn)) == 10
    assert set(drawn) <= set(ids)
    assert set(initial_ids(ids[::-1], 10, seed=3)) == set(drawn)
    assert set(initial_ids(ids, 10, seed=4)) != set(drawn)


def test_every_cycle_has_draws_of_its_own_that_old_runs_had_too():
    seeds = [make(3, cycle) for make in (selection_seed, extra_seed) for cycle in (0, 1)]
    purposes = [(name, cycle) for name in ("selection", "extra") for cycle in (0, 1)]
    assert seeds == [derive(3, *purpose) for purpose in purposes]


@pytest.mark.parametrize(("member", "name"), [(0, ""), (2, "-2"), ("extra", "-extra")])
def test_weights_are_found_by_cycle_and_member(member, name):
    found = weights_path(Path("run"), 7, member)
    assert found == Path("run", "weights", f"cycle-007{name}.safetensors")
    assert weights_path(Path("run"), 7) == Path("run/weights/cycle-007.safetensors")


def test_fresh_weights_follow_seed_cycle_and_member():
    seeds = {
        (0, 0): 5,
        (2, 0): derive(5, "fresh weights", 2),
        (0, 1): derive(5, "member", 1),
        (2, 1): derive(derive(5, "member", 1), "fresh weights", 2),
    }
    for (cycle, member), seed in seeds.items():
        begun = begin("cold", cycle, nn.Identity(), member)
        assert torch.equal(begun[0].weight, fresh_model(seed)[0].weight)


def test_warm_weights_are_those_of_the_cycle_before():
    previous = fresh_model(9)
    assert begin("warm", 1, previous) is previous
    assert begin("warm", 0, previous) is not previous


def test_shrunk_weights_are_mixed_with_fresh_ones_and_statistics_begin_anew():
    previous, fresh = fresh_model(9), fresh_model(derive(5, "fresh weights", 1))
    previous[1].running_mean += 3
    begun = begin("shrink-perturb", 1, previous)
    mixed = 0.4 * previous[0].weight + 0.1 * fresh[0].weight
    torch.testing.assert_close(begun[0].weight, mixed)
    torch.testing.assert_close(begun[1].weight, torch.full((3,), 0.5))
    assert begun[1].running_mean.tolist() == [0, 0, 0]


def test_a_record_keeps_the_most_and_the_least_wanted_samples():
    chosen = Selection(tuple(range(10)), tuple(range(20, 10, -1)), "margin", candidates=60)
    lowest = tuple((40 + n, n / 10) for n in range(8))
    outcome = Outcome(chosen, lowest, Measurement(2.0, 70), Measurement(1.0, 50))
    fields = fields_of(outcome, Cost(seconds=3.0, peak_bytes=90))
    assert fields["wanted"] == tuple(Wish(id=n, score=20 - n) for n in range(8))
    assert fields["unwanted"] == tuple(Wish(id=40 + n, score=n / 10) for n in range(8))
    assert (fields["subset"], fields["selected"]) == (60, tuple(range(10)))
    assert fields["scoring"] == Cost(seconds=1.0, peak_bytes=50)
    assert fields["auxiliary"] == Cost(seconds=5.0, peak_bytes=90)
    assert fields_of(Outcome(chosen, (), None, Measurement()), None)["auxiliary"] is None
    assert fields.keys() == fields_of(None, None).keys()
