"""The pool of a project beside the pool in memory: the same verbs give the same pool."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steepest.errors import InputError, PoolError
from steepest.labelling.project.metadata import About
from steepest.labelling.project.opening import begin_project, open_pool
from steepest.pool import Pool, Verb

TEXTS = ("a.png", "b.png", "c.png", "d.png")
LABELS = {
    "numbers": st.integers(0, 3),
    "odd numbers": st.sampled_from([-1, 5, 10**12]),
    "texts": st.sampled_from(["cat", "dog", "a/b", " odd", "Cat", "", "7"]),
    "lists": st.lists(st.integers(0, 3), unique=True).map(sorted),
    "mixed": st.sampled_from([1, "cat", [0, 2], "1", -3]),
}


def steps(labels, ids):
    ask = st.tuples(st.sampled_from(list(Verb)), st.lists(st.sampled_from(ids), unique=True))
    return st.lists(st.tuples(ask, st.lists(labels, min_size=4, max_size=4)), max_size=25)


def carry_out(pool, step, cycle):
    (verb, ids), labels = step
    more = {"cycle": cycle, "who": "ann" if cycle % 2 else "ben"}
    if verb in (Verb.LABEL, Verb.RELABEL):
        return getattr(pool, verb)(ids, labels[: len(ids)], **more)
    if verb is Verb.SKIP:
        more["reason"] = "dark"
    return getattr(pool, verb)(ids, **more)


def past_of(pool):
    return [(e.time, e.verb, e.who, e.cycle, e.id, e.label, e.reason) for e in pool.events()]


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("ids", [TEXTS, (3, 1, 20, 0)], ids=["names", "rows"])
def test_a_project_is_the_pool_in_memory(kind, ids):
    @settings(max_examples=12, deadline=None)
    @given(steps(LABELS[kind], ids))
    def check(drawn):
        memory = Pool.create(ids)
        with tempfile.TemporaryDirectory() as folder:
            about = About(named=None, classes="free", numbered=ids is not TEXTS)
            assert begin_project(Path(folder), ids, about)
            stored = open_pool(folder)
            for cycle, step in enumerate(drawn):
                outcomes = []
                for pool in (memory, stored):
                    try:
                        outcomes.append(carry_out(pool, step, cycle))
                    except PoolError as error:
                        outcomes.append(str(error))
                assert outcomes[0] == outcomes[1]
            for pool in (stored, open_pool(folder)):
                assert pool.ids() == memory.ids()
                assert pool.counts() == memory.counts()
                assert pool.taken() == memory.taken()
                assert pool.labelled() == memory.labelled()
                for sample in ids:
                    assert pool.state(sample) is memory.state(sample)
                    assert pool.cycle_of(sample) == memory.cycle_of(sample)
                    assert sample in pool
                told = [event[1:] for event in past_of(pool)]
                assert sorted(map(repr, told)) == sorted(repr(e[1:]) for e in past_of(memory))
                pool.close()

    check()


def test_strange_ids_are_refused_and_a_closed_pool_can_be_read(tmp_path):
    begin_project(tmp_path, TEXTS, About())
    pool = open_pool(tmp_path)
    for strange in ("e.png", 3):
        assert strange not in pool
        with pytest.raises(InputError, match="is not in the pool"):
            pool.state(strange)
    pool.query(["a.png"], cycle=0, who="ann")
    pool.close()
    assert pool.counts()["queried"] == 1
    with pytest.raises(PoolError, match="is closed"):
        pool.query(["b.png"], cycle=0, who="ann")


def test_a_transaction_is_all_or_nothing(tmp_path):
    begin_project(tmp_path, TEXTS, About(), ("cat", "dog"))
    with open_pool(tmp_path) as pool, open_pool(tmp_path) as other:

        def change():
            with pool.transaction():
                pool.label(["a.png"], [0], cycle=0, who="ann")
                assert pool.state("a.png") == "labelled"
                assert other.state("a.png") == "unlabelled"
                pool.relabel(["b.png"], [1], cycle=0, who="ann")

        with pytest.raises(PoolError, match="cannot relabel"):
            change()
        assert pool.state("a.png") == other.state("a.png") == "unlabelled"
        pool.label(["a.png"], [0], cycle=0, who="ann")
        assert other.label_of("a.png") == 0
        with pytest.raises(InputError, match="use 0 to 1"):
            pool.label(["b.png"], [2], cycle=0, who="ann")


def test_only_one_of_two_beginnings_holds(tmp_path):
    assert begin_project(tmp_path, TEXTS, About())
    assert not begin_project(tmp_path, TEXTS[:2], About())
    assert len(open_pool(tmp_path)) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["labels.sqlite"]
