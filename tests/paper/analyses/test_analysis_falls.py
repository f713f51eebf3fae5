"""A.2: counts of falling norms, with controls that were not trained on."""

from __future__ import annotations

import json

import numpy as np
import pytest
from analysis_nets import TASK, net, part, points, trained

from steepest.core.tables import to_table
from steepest.errors import InputError
from steepest.influence import Examples
from steepest.paper.analyses import sample_norms
from steepest.paper.analyses.ranking import highest
from steepest.paper.artefacts.table_4 import (
    DRAWN,
    NEXT,
    SELECTED,
    UNSELECTED,
    control_groups,
    count_falls,
)

IDS = list(range(100, 140))
VALUES = np.linspace(4, 1, 40)


def falls(before, after, groups):
    return count_falls(
        IDS[: len(before)], before, after, groups, cycle=0, loss="entropy", norm="l2"
    )


def test_groups_are_what_was_chosen_and_three_of_what_was_not():
    groups = control_groups(IDS, VALUES, IDS[2:8], cycle=1, seed=0)
    assert tuple(groups) == (SELECTED, UNSELECTED, DRAWN, NEXT)
    assert groups[SELECTED] == frozenset(IDS[2:8])
    assert groups[UNSELECTED] == frozenset(IDS) - groups[SELECTED]
    assert groups[NEXT] == frozenset([*IDS[:2], *IDS[8:12]])
    assert len(groups[DRAWN]) == 6
    assert groups[DRAWN] < groups[UNSELECTED]


def test_the_random_group_depends_on_seed_and_cycle_and_not_on_the_order():
    def drawn(order, **about):
        rows = [IDS.index(i) for i in order]
        return control_groups(order, VALUES[rows], IDS[:9], **about)[DRAWN]

    first = drawn(IDS, cycle=1, seed=0)
    assert drawn(IDS[::-1], cycle=1, seed=0) == first
    assert drawn(IDS, cycle=2, seed=0) != first
    assert drawn(IDS, cycle=1, seed=1) != first


def test_a_norm_that_stays_counts_as_fallen_as_in_the_paper():
    before, after = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.5, 2.0])
    (row,) = falls(before, after, {SELECTED: IDS[:3]})
    assert (row.fallen, row.samples, row.share) == (2, 3, 2 / 3)
    assert (row.before, row.after) == (2.0, pytest.approx(5.5 / 3))
    json.dumps(to_table(row), allow_nan=False)


def test_selected_samples_fall_since_they_are_trained_on():
    """Training lowers the norms of what it sees; the controls fall less often."""
    learnt, pool = points(15), points(60, seed=2)
    ids = list(range(60))
    before_model = trained(net(), learnt)
    before = sample_norms(before_model, TASK, pool, ["entropy"], ["l2"])["entropy", "l2"]
    chosen = highest(before, ids, 12, 0)
    new = part(pool, sorted(chosen))
    both = [np.concatenate([getattr(e, f) for e in (learnt, new)]) for f in ("inputs", "targets")]
    union = Examples(*(new.inputs.new_tensor(v) if v.dtype == float else
                       new.targets.new_tensor(v) for v in both))  # fmt: skip
    after_model = trained(before_model, union, steps=400)
    after = sample_norms(after_model, TASK, pool, ["entropy"], ["l2"])["entropy", "l2"]
    groups = control_groups(ids, before, chosen, cycle=0, seed=0)
    rows = count_falls(ids, before, after, groups, cycle=0, loss="entropy", norm="l2")
    shares = {row.group: row.share for row in rows}
    assert shares[SELECTED] > shares[UNSELECTED]
    assert [row.samples for row in rows] == [12, 48, 12, 12]


def test_groups_that_cannot_be_compared_are_refused():
    with pytest.raises(InputError, match="without a label"):
        control_groups(IDS, VALUES, [1], cycle=0, seed=0)
    with pytest.raises(InputError, match="nothing to compare"):
        control_groups(IDS, VALUES, IDS, cycle=0, seed=0)
    with pytest.raises(InputError, match="different samples"):
        falls(VALUES[:3], VALUES[:2], {})
    with pytest.raises(InputError, match="'some' is empty"):
        falls(VALUES[:3], VALUES[:3], {"some": [7]})
