"""Kill a real process anywhere, run again: the same selections and metrics."""

from __future__ import annotations

import json
import warnings

import pytest
from killed_run import POINTS, kill_runs
from small import config, essence

from steepest.core.journal import Journal
from steepest.errors import DroppedEntryWarning, JournalError, RunFolderError
from steepest.experiment.building import load_data
from steepest.experiment.loop import Experiment
from steepest.labelling import OracleLabeller
from steepest.pool import FileLock, Pool


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return {
        init: essence(Experiment(config(loop__init=init), folder / init).run())
        for init in ("warm", "shrink-perturb")
    }


TWICE = ("after the record", "after the first weights")
TORN = "in the middle of a record"


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The folder of runs killed at each point, one killed twice, and one with a torn record."""
    folder = tmp_path_factory.mktemp("killed")
    runs = [(folder / point, point, {"loop__init": "warm"}) for point in POINTS]
    runs += [(folder / "twice", point, {"loop__init": "shrink-perturb"}) for point in TWICE]
    kill_runs(*runs, (folder / "torn", TORN, {"loop__init": "warm"}))
    return folder


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_ends_like_an_uninterrupted_one(point, whole, killed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DroppedEntryWarning)
        records = Experiment(config(loop__init="warm"), killed / point).run()
    assert essence(records) == whole["warm"]


def test_a_run_killed_twice_ends_like_an_uninterrupted_one(whole, killed):
    records = Experiment(config(loop__init="shrink-perturb"), killed / "twice").run()
    assert essence(records) == whole["shrink-perturb"]


def test_a_torn_record_is_reported(killed):
    with pytest.warns(DroppedEntryWarning, match=r"records\.jsonl.*half-written"):
        Experiment(config(), killed / "torn").run()
    assert (killed / "torn" / "records.jsonl.dropped").exists()


def test_weights_that_are_not_those_on_record_are_refused(tmp_path):
    """A flipped bit would otherwise change every cycle after it, and nobody would know."""
    what = config(loop__init="warm", training__epochs=1)
    Experiment(what, tmp_path).run(until=2)
    path = tmp_path / "weights" / "cycle-001.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(JournalError, match=r"cycle-001.* not hold .* cycle 1 ended with; restore"):
        Experiment(what, tmp_path).run()
    path.unlink()
    with pytest.raises(JournalError, match=r"no such file; restore .* or remove this run"):
        Experiment(what, tmp_path).run()
    path.write_bytes(whole)
    assert len(Experiment(what, tmp_path).run()) == 3


def test_weights_of_another_version_are_taken_as_they_are(tmp_path, monkeypatch):
    """What it says of layers may differ, and so may the fingerprint of the same weights."""
    what = config(loop__init="warm", training__epochs=1)
    Experiment(what, tmp_path).run(until=2)
    monkeypatch.setattr("steepest.experiment.folder.__version__", "another")
    monkeypatch.setattr("steepest.experiment.folder.fingerprint", lambda _: "another")
    assert len(Experiment(what, tmp_path).run()) == 3


LOSS_HEAD = {"training": "joint", "detach_after": 1}


@pytest.mark.parametrize(
    ("strategy", "options", "file"),
    [("qbc", {"size": 2}, "cycle-000-1"), ("ll4al", LOSS_HEAD, "cycle-000-extra")],
)
def test_weights_beside_the_model_are_held_against_the_record_too(
    strategy, options, file, tmp_path
):
    what = config(
        strategy__name=strategy,
        strategy__options=options,
        loop__init="warm",
        loop__subset=20,
        training__epochs=1,
    )
    Experiment(what, tmp_path).run(until=1)
    path = tmp_path / "weights" / f"{file}.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(JournalError, match=f"{file}.* not hold .* cycle 0 ended with; restore"):
        Experiment(what, tmp_path).run()
    records = Journal(tmp_path / "records.jsonl")
    (old,) = records.entries
    assert list(old.pop("company")) == [file.removeprefix("cycle-000-")]
    records.path.unlink()
    Journal(records.path).append(old)
    assert len(Experiment(what, tmp_path).run(until=2)) == 2  # An older version told nothing of it.


def test_an_empty_pool_is_made_anew_from_the_records(whole, tmp_path):
    what = config(loop__init="warm")
    Experiment(what, tmp_path).run(until=2)
    path = tmp_path / "pool.jsonl"
    before = Pool.replay(path).labelled()
    for left in (0, 20):
        path.write_bytes(path.read_bytes()[:left])
        with pytest.warns(DroppedEntryWarning) as told:
            Experiment(what, tmp_path).run(until=2)
        assert f"{path} was empty, and is made anew from the records" in str(told[-1].message)
        assert path.with_name("pool.jsonl.dropped").exists() == (left > 0)
        assert Pool.replay(path).labelled() == before
    assert essence(Experiment(what, tmp_path).run()) == whole["warm"]


def test_an_empty_pool_that_somebody_else_labelled_is_left_as_it_is(tmp_path):
    """Who answered once may have no answer now, or another one."""
    what = config(training__epochs=1)
    data = load_data(what)

    def experiment():
        return Experiment(what, tmp_path, data=data, labeller=OracleLabeller(data.train_labels))

    experiment().run(until=1)
    path = tmp_path / "pool.jsonl"
    path.write_bytes(b"")
    with pytest.raises(JournalError, match=r"is empty.* restore .*, or delete it, and whoever"):
        experiment().run()
    assert path.read_bytes() == b""


def test_who_comes_second_into_a_new_folder_does_not_take_it_over(tmp_path, monkeypatch):
    """Both may have found it empty; the first may even have ended meanwhile."""
    first, second = config(training__epochs=1), config(training__epochs=2)

    def late(*arguments, **named):
        monkeypatch.undo()
        Experiment(first, tmp_path).run(until=1)
        return FileLock(*arguments, **named)

    monkeypatch.setattr("steepest.experiment.folder.FileLock", late)
    for _ in range(2):  # The second time too: the folder is not left locked.
        with pytest.raises(RunFolderError, match="another configuration"):
            Experiment(second, tmp_path).run()
    assert json.loads((tmp_path / "config.json").read_text())["training"]["epochs"] == 1


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ((0, 2), "entry 2 is cycle 2 where 1"),
        ((1, 2), "entry 1 is cycle 1"),
        ((0, 0, 1), "entry 2"),
    ],
)
def test_records_that_are_missing_doubled_or_out_of_place_are_refused(order, told, tmp_path):
    out = tmp_path / "run"
    what = config(loop__cycles=3, training__epochs=1)
    Experiment(what, out).run()
    path = out / "records.jsonl"
    lines, entries = path.read_bytes().splitlines(keepends=True), Journal(path).entries
    path.unlink()
    for i in order:  # Each whole by itself, as lines of older versions are.
        Journal(path).append(entries[i])
    before = path.read_bytes()
    for _ in range(2):  # The second time too: the folder is not left locked.
        with pytest.raises(JournalError, match=told):
            Experiment(what, out).run()
        assert path.read_bytes() == before
    path.write_bytes(b"".join(lines[i] for i in order))
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(JournalError, match=r"line \d is damaged, or lines before it are miss"):
            Experiment(what, out).run()
    assert path.read_bytes() == before
