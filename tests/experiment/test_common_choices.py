"""What strategies chose in common, worked out by hand."""

from __future__ import annotations

import json

import pytest

from steepest.experiment.comparison import Comparison, Run
from steepest.experiment.overlap import common_choices
from steepest.experiment.statistics import summarise


def compared(choices, seeds=(0, 1)):
    """Make a comparison from what each strategy chose: a list of choices by seed."""
    runs = {
        (name, seed): Run(name, seed, tuple(entries(by_seed.get(seed))))
        for name, by_seed in choices.items()
        for seed in seeds
    }
    return Comparison("made", tuple(choices), seeds, runs, {})


def entries(cycles):
    if cycles is None:
        return
    for cycle, selected in enumerate([*cycles, []]):
        yield {
            "cycle": cycle,
            "labelled": 10 + 2 * cycle,
            "metrics": {"accuracy": 0.5 + cycle / 10},
            "selected": selected,
        }


WHOLE = {
    "margin": {0: [[1, 2], [3, 4]], 1: [[1, 2], [5, 6]]},
    "entropy": {0: [[1, 3], [2, 9]], 1: [[7, 8], [1, 2]]},
    "random": {0: [[5, 6], [7, 8]], 1: [[9, 10], [11, 12]]},
}


def test_shares_are_means_over_seeds_of_the_first_choice_and_of_all():
    common = common_choices(compared(WHOLE))
    assert common.strategies == ("margin", "entropy", "random")
    # Margin and entropy: 1 of 2 and 0 of 2 at first, 3 of 4 and 2 of 4 in the end.
    assert common.first == ((None, 0.25, 0.0), (0.25, None, 0.0), (0.0, 0.0, None))
    assert common.whole == ((None, 0.625, 0.0), (0.625, None, 0.0), (0.0, 0.0, None))
    assert common.other_seed == (0.5, 0.5, 0.0)
    assert common.n == ((2, 2, 2), (2, 2, 2), (2, 2, 2))


def test_a_pair_is_compared_on_the_seeds_that_both_have():
    choices = {**WHOLE, "entropy": {1: WHOLE["entropy"][1]}, "late": {}}
    common = common_choices(compared(choices))
    assert common.strategies == ("margin", "entropy", "random")
    assert common.whole[0] == (None, 0.5, 0.0)
    assert common.n[0] == (2, 1, 2)
    assert common.other_seed[1] is None


def test_of_different_sizes_it_is_a_share_of_the_fewer():
    common = common_choices(compared({"a": {0: [["x"]]}, "b": {0: [["x", "y"]]}}))
    assert common.whole[0][1] == common.whole[1][0] == 1.0


@pytest.mark.parametrize(
    "choices",
    [
        {"a": {0: [[1]], 1: [[2]]}},
        {"a": {0: [[1]]}, "b": {1: [[1]]}},
        {"a": {0: []}, "b": {0: []}},
    ],
)
def test_without_a_pair_that_chose_something_under_one_seed_there_is_nothing(choices):
    assert common_choices(compared(choices)) is None


def test_it_is_in_the_summary_as_plain_numbers():
    told = json.loads(json.dumps(summarise(compared(WHOLE)).to_dict()))
    assert told["common"]["whole"][0][1] == 0.625
    assert told["common"]["other_seed"] == [0.5, 0.5, 0.0]
