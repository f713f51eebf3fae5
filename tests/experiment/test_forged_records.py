"""A record with a valid digest that no run writes is refused, before anything follows from it."""

from __future__ import annotations

import copy
import shutil

import pytest
from small import config

from steepest import Experiment
from steepest.core.journal import Journal, read_journal
from steepest.errors import JournalError

CONFIG = config(loop__cycles=2, training__epochs=1)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("forged") / "run"
    Experiment(CONFIG, out).run(until=1)
    return out


def forge(run, folder, *path, value=None):
    """Copy the run with one field of its record changed; without a value it is left out."""
    shutil.copytree(run, folder)
    (entry,) = copy.deepcopy(read_journal(folder / "records.jsonl")[0])
    place = entry
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value[0]
    (folder / "records.jsonl").unlink()
    Journal(folder / "records.jsonl").append(entry)
    return folder


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("metrics", "accuracy"), None, "it has no accuracy"),
        (("metrics", "accuracy"), [None], "metrics.accuracy is None"),
        (("metrics", "accuracy"), ["0.9"], "metrics.accuracy is '0.9'"),
        (("metrics", "accuracy"), [True], "metrics.accuracy is True"),
        (("metrics", "accuracy"), [[]], r"metrics.accuracy is \[\]"),
        (("metrics", "per_class_accuracy"), [[0.5, "1"]], "metrics.per_class_accuracy"),
        (("train_metrics", "loss"), [{}], "train_metrics.loss is {}"),
        (("unlabelled",), [-1], "unlabelled is -1"),
        (("subset",), [-1], "subset is -1"),
        (("seed",), [4], "seed is 4 there and 3 here"),
        (("strategy",), ["random"], "strategy is 'random' there"),
    ],
)
def test_what_no_run_writes_is_refused(run, tmp_path, path, value, says):
    folder = forge(run, tmp_path / "run", *path, value=value)
    with pytest.raises(JournalError, match=says):
        Experiment(CONFIG, folder).run()
    assert len(read_journal(folder / "records.jsonl")[0]) == 1


def test_a_class_that_does_not_occur_has_no_value(run, tmp_path):
    parts = [[None] * 3 + [0.5] * 7]
    folder = forge(run, tmp_path / "run", "metrics", "per_class_accuracy", value=parts)
    assert len(Experiment(CONFIG, folder).run()) == 2
