"""Watching: every turn is whole, problems pass, and stopping loses nothing."""

from __future__ import annotations

import pytest
from small_loop import add_round, journal

from steepest.errors import InputError
from steepest.labelling.label_studio.pull import Reading
from steepest.labelling.label_studio.push import Pictures
from steepest.labelling.label_studio.watch import watch


@pytest.fixture
def turns(project, folder):
    waits = []
    looking = watch(folder, project, Pictures(), Reading(), interval_seconds=7, sleep=waits.append)
    looking_and_waits = (looking, waits)
    yield looking_and_waits
    looking.close()


def test_each_turn_sends_new_picks_and_takes_in_new_answers(server, folder, turns):
    looking, waits = turns
    first = next(looking)
    assert (first.pushed, first.pulled.waiting, waits) == (3, 3, [])
    server.choose("1.png", "cat")
    assert next(looking).pulled.new == 1
    add_round(folder, ["0.png"])
    third = next(looking)
    assert (third.pushed, third.pulled.anything, waits) == (1, False, [7, 7])


def test_a_problem_is_told_and_the_next_turn_tries_again(server, folder, turns):
    looking, _ = turns
    next(looking)
    server.choose("1.png", "cat", person=1)
    server.choose("1.png", "owl", person=2)
    assert "disagree" in str(next(looking).problem)
    server.task_of("1.png")["annotations"].pop()
    assert next(looking).pulled.new == 1


def test_a_server_that_is_away_is_waited_for_and_others_may_use_the_pool(server, folder, turns):
    looking, _ = turns
    next(looking)
    server.failures = [500] * 3
    assert "500" in str(next(looking).problem)
    server.choose("1.png", "cat")
    with folder.open_pool() as pool:
        pool.label(["3.png"], [0], cycle=0, who="ana")
        assert next(looking).pulled.new == 1


def test_stopping_during_the_wait_leaves_the_pool_free_and_whole(server, folder, project):
    def stop(_):
        raise KeyboardInterrupt

    looking = watch(folder, project, Pictures(), Reading(), sleep=stop)
    next(looking)
    before = journal(folder)
    with pytest.raises(KeyboardInterrupt):
        next(looking)
    assert journal(folder) == before
    folder.open_pool().close()


def test_an_interval_of_nothing_is_refused(folder, project):
    with pytest.raises(InputError, match="--interval"):
        next(watch(folder, project, Pictures(), Reading(), interval_seconds=0))
