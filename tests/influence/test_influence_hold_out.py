from __future__ import annotations

import pytest

from steepest.errors import InputError
from steepest.influence import hold_out


def test_the_split_is_keyed_by_id_and_complete():
    ids = [f"{i}.png" for i in range(20)]
    kept, held = hold_out(ids, share=0.25, seed=3)
    assert len(held) == 5
    assert sorted([*kept.tolist(), *held.tolist()]) == list(range(20))
    turned = ids[::-1]
    _, again = hold_out(turned, share=0.25, seed=3)
    assert {turned[i] for i in again.tolist()} == {ids[i] for i in held.tolist()}
    _, other = hold_out(ids, share=0.25, seed=4)
    assert other.tolist() != held.tolist()


def test_both_parts_of_a_split_hold_at_least_one():
    assert [len(part) for part in hold_out([7, 9], share=0.01)] == [1, 1]
    assert [len(part) for part in hold_out([7, 9], share=0.99)] == [1, 1]
    for ids, share in (([1], 0.5), ([1, 2], 0.0), ([1, 2], 1.0)):
        with pytest.raises(InputError, match="give at least two"):
            hold_out(ids, share=share)
