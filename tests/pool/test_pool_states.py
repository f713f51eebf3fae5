"""Verbs, the states they lead between, and what the pool answers about them."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
import torch

from steepest.errors import InputError, PoolError
from steepest.pool import Pool, State, Verb

ALLOWED = {
    ("query", "unlabelled"): "queried",
    ("label", "unlabelled"): "labelled",
    ("label", "queried"): "labelled",
    ("skip", "unlabelled"): "skipped",
    ("skip", "queried"): "skipped",
    ("relabel", "labelled"): "labelled",
    ("unlabel", "queried"): "unlabelled",
    ("unlabel", "labelled"): "unlabelled",
    ("unlabel", "skipped"): "unlabelled",
}
REFUSED = sorted(set(itertools.product(Verb, State)) - set(ALLOWED))
WAY = {"unlabelled": None, "queried": "query", "labelled": "label", "skipped": "skip"}
LABELLING = {"label", "relabel"}


def do(pool, verb, ids, label=1):
    labels = ([label] * len(ids),) if verb in LABELLING else ()
    getattr(pool, verb)(ids, *labels, cycle=0, who="ann")


def pool_with_first_sample(state):
    pool = Pool.create(range(3))
    if WAY[state]:
        do(pool, WAY[state], [0])
    return pool


@pytest.mark.parametrize(("verb", "state"), ALLOWED)
def test_an_allowed_verb_leads_to_its_state_and_touches_no_other_sample(verb, state):
    pool = pool_with_first_sample(state)
    do(pool, verb, [0], label=7)
    assert pool.state(0) == ALLOWED[verb, state]
    assert pool.ids(State.UNLABELLED)[-2:] == [1, 2]
    assert pool.history(0)[-1].label == (7 if verb in LABELLING else None)


@pytest.mark.parametrize(("verb", "state"), REFUSED)
def test_a_refused_verb_names_sample_state_and_a_verb_that_fits(verb, state):
    pool = pool_with_first_sample(state)
    before = list(pool.events())
    with pytest.raises(PoolError, match=rf"cannot {verb} sample 0: it is {state}; use ") as caught:
        do(pool, verb, [1, 0] if verb in {"query", "label", "skip"} else [0])
    assert list(pool.events()) == before
    assert pool.state(0) == state
    assert pool.state(1) is State.UNLABELLED
    suggested = str(caught.value).rsplit("use ", 1)[1].split(" or ")
    assert suggested
    for fitting in suggested:
        do(pool_with_first_sample(state), fitting, [0])


@pytest.mark.parametrize("verb", Verb)
def test_nothing_to_do_writes_nothing(verb, tmp_path):
    with Pool.create(range(2), tmp_path / "pool.jsonl") as pool:
        before = (tmp_path / "pool.jsonl").read_bytes()
        do(pool, verb, [])
        assert (tmp_path / "pool.jsonl").read_bytes() == before
        assert list(pool.events()) == []


@pytest.mark.parametrize(
    ("ids", "labels", "message"),
    [
        ([0, 9], [1, 1], "sample 9 is not in the pool"),
        (["0"], [1], "sample '0' is not in the pool"),
        ([0, 1, 0], [1, 1, 1], "sample 0 is there twice"),
        ([0, 1], [1], "2 ids but 1 labels"),
        ([0], [1.5], "label 1.5"),
        ([0], [None], "label None"),
        ([0], [True], "label True"),
        ([0], [[[1]]], "label"),
        ([0], ["\ud800"], "not valid Unicode"),
        ([0.0], [1], "id 0.0"),
        ([True], [1], "id True"),
        ("0", [1], "ids are a str; give a list"),
        ({0}, [1], "ids are a set; give a list"),
        ([0], {0: 1}, "labels are a dict; give a list"),
        (0, [1], "ids are a int; give a list"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_changes(ids, labels, message, tmp_path):
    path = tmp_path / "pool.jsonl"
    with Pool.create(range(3), path) as pool:
        before = path.read_bytes()
        with pytest.raises(InputError, match=message):
            pool.label(ids, labels, cycle=0, who="ann")
        assert path.read_bytes() == before
        assert pool.counts()[State.UNLABELLED] == 3


@pytest.mark.parametrize(
    "change", [{"cycle": -1}, {"cycle": True}, {"cycle": "1"}, {"who": ""}, {"who": "\udcff"}]
)
def test_cycle_and_who_are_checked(change):
    pool = Pool.create(range(3))
    with pytest.raises(InputError, match=next(iter(change))):
        pool.query([0], **{"cycle": 0, "who": "ann", **change})


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([], "at least one"),
        ([1, 2, 1], "sample 1 is there twice"),
        ([1, "a"], "mixed"),
        ([1.0], "id 1.0"),
        (["\udcff.png"], "not valid Unicode"),
    ],
)
def test_ids_that_make_no_pool_are_refused(ids, message):
    with pytest.raises(InputError, match=message):
        Pool.create(ids)


def test_arrays_and_tensors_become_plain_values():
    pool: Any = Pool.create(np.arange(6).tolist())
    pool.label(np.array([0, 1]), torch.tensor([4, 5]), cycle=0, who="ann")
    pool.label([np.int64(2)], [torch.tensor(6)], cycle=0, who="ann")
    pool.label(torch.tensor([3, 4]), [np.array([1, 2]), (np.int32(3),)], cycle=0, who="ann")
    ids, labels = pool.labelled()
    assert ids == [0, 1, 2, 3, 4]
    assert labels == [4, 5, 6, [1, 2], [3]]
    assert {type(value) for value in [*ids, *labels[:3], *labels[3]]} == {int}
    assert Pool.create(torch.arange(3)).ids() == [0, 1, 2]  # type: ignore[arg-type]
    assert pool.state(np.int64(5)) is pool.state(torch.tensor(5)) is State.UNLABELLED


def test_changing_a_label_that_was_read_does_not_change_the_pool():
    pool: Any = Pool.create(range(2))
    given = [1, 2]
    pool.label([0], [given], cycle=0, who="ann")
    for read in (given, pool.label_of(0), pool.labelled()[1][0], pool.history(0)[0].label):
        read.append(9)
    assert pool.label_of(0) == pool.history(0)[0].label == [1, 2]


def test_listings_are_in_pool_order_and_counts_add_up():
    pool = Pool.create(["d", "a", "c", "b"])
    pool.label(["b", "d"], ["x", "y"], cycle=0, who="ann")
    pool.skip(["c"], cycle=1, who="bob", reason="blurred")
    assert pool.ids() == ["d", "a", "c", "b"]
    assert pool.labelled() == (["d", "b"], ["y", "x"])
    assert pool.ids(State.UNLABELLED) == ["a"]
    assert pool.taken() == ["d", "c", "b"]
    assert pool.dropped == 0
    assert pool.counts() == {"unlabelled": 1, "queried": 0, "labelled": 2, "skipped": 1}
    assert len(pool) == 4
    assert "a" in pool
    assert "z" not in pool
    assert 0 not in pool
    assert None not in pool
    assert "1 unlabelled, 0 queried, 2 labelled, 1 skipped" in repr(pool)


def test_questions_about_a_sample_that_is_not_there_are_refused():
    pool = Pool.create(range(3))
    for ask in (pool.state, pool.label_of, pool.history, pool.cycle_of):
        with pytest.raises(InputError, match="sample 3 is not in the pool"):
            ask(3)


@pytest.mark.parametrize("state", ["unlabelled", "queried", "skipped"])
def test_only_a_labelled_sample_has_a_label(state):
    with pytest.raises(PoolError, match=f"no label: it is {state}"):
        pool_with_first_sample(state).label_of(0)


def test_a_label_is_gone_after_unlabel():
    pool = pool_with_first_sample("labelled")
    pool.unlabel([0], cycle=1, who="bob")
    with pytest.raises(PoolError, match="no label"):
        pool.label_of(0)
    assert pool.labelled() == ([], [])


def test_history_remembers_both_labels_of_a_relabelled_sample():
    start = datetime.now(UTC)
    pool = Pool.create(range(3))
    pool.query([1, 2], cycle=1, who="loop")
    pool.label([2, 1], [7, 8], cycle=1, who="ann")
    pool.relabel([1], [9], cycle=3, who="bob")
    past = pool.history(1)
    assert [(e.sequence, e.verb, e.who, e.cycle, e.id, e.label) for e in past] == [
        (1, "query", "loop", 1, 1, None),
        (2, "label", "ann", 1, 1, 8),
        (3, "relabel", "bob", 3, 1, 9),
    ]
    assert start <= past[0].time <= past[1].time <= past[2].time <= datetime.now(UTC)
    assert pool.label_of(1) == 9
    assert [pool.cycle_of(i) for i in range(3)] == [None, 3, 1]
    assert [(e.sequence, e.id) for e in pool.events()] == [(1, 1), (1, 2), (2, 2), (2, 1), (3, 1)]


def test_the_reason_of_a_skip_is_remembered():
    pool = Pool.create(range(2))
    pool.skip([1], cycle=0, who="ann", reason="too dark")
    with pytest.raises(InputError, match=r"reason .* not valid Unicode"):
        pool.skip([0], cycle=0, who="ann", reason="\udcff")
    assert pool.history(1)[0].reason == "too dark"
    assert pool.history(0) == []
