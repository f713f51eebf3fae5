from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from steepest.data.cryoet import Simulator
from steepest.data.cryoet.volumes import VolumeReader, make_volumes, open_or_make
from steepest.errors import DataError, InputError, UnknownNameError

CLASSES = torch.tensor([0, 3, 1, 4, 2, 2, 0])
NAME = "set-train"


@pytest.fixture
def simulator(templates, small):
    return Simulator(templates, small, seed=1)


@pytest.fixture
def usual(simulator):
    return make_volumes(simulator, CLASSES, "memory", name=NAME)


def files(root):
    return sorted(path.name for path in (root / "cache").iterdir())


def test_volumes_in_memory_are_those_of_the_simulator(simulator, usual):
    assert usual.shape == (7, 1, 16, 16, 16)
    assert usual.dtype == torch.float32
    assert torch.equal(usual[:, 0], simulator(CLASSES, torch.arange(7)))


def test_every_storage_gives_the_same(simulator, usual, tmp_path):
    mapped = make_volumes(simulator, CLASSES, "map", name=NAME, root=tmp_path)
    assert torch.equal(mapped, usual)
    streamed = make_volumes(simulator, CLASSES, "stream", name=NAME)
    assert streamed.shape == usual.shape
    assert torch.equal(streamed[[5, 0]], usual[[5, 0]])


@pytest.mark.parametrize("storage", ["memory", "stream"])
def test_worker_processes_give_the_same(simulator, usual, storage):
    made = make_volumes(simulator, CLASSES, storage, name=NAME, workers=1)
    if storage == "stream":
        made = torch.cat(list(made.batches([torch.tensor([4, 1]), torch.tensor([6])])))
        usual = usual[[4, 1, 6]]
    assert torch.equal(made, usual)


def test_batches_are_put_together_in_order(simulator, usual, monkeypatch):
    monkeypatch.setattr("steepest.data.cryoet.volumes._BATCH", 3)
    assert torch.equal(make_volumes(simulator, CLASSES, "memory", name=NAME), usual)


def test_a_reader_travels_to_other_processes(simulator, usual):
    reader = pickle.loads(pickle.dumps(VolumeReader(simulator, CLASSES)))
    assert reader.draws == 0
    assert torch.equal(reader(3, None), usual[3])


def test_a_map_is_written_once_and_used_again(simulator, usual, tmp_path, monkeypatch):
    make_volumes(simulator, CLASSES, "map", name=NAME, root=tmp_path)
    (written,) = files(tmp_path)
    assert written.startswith("set-train-")
    monkeypatch.setattr(Simulator, "__call__", lambda *_: pytest.fail("simulated again"))
    again = make_volumes(simulator, CLASSES, "map", name=NAME, root=tmp_path)
    assert torch.equal(again, usual)
    again[0] = 0.0
    unspoilt = make_volumes(simulator, CLASSES, "map", name=NAME, root=tmp_path)
    assert torch.equal(unspoilt, usual), "a change in memory must not reach the file"


def test_other_settings_have_files_of_their_own(templates, small, tmp_path):
    for seed, classes in ((1, CLASSES), (2, CLASSES), (1, CLASSES.flip(0))):
        simulator = Simulator(templates, small, seed=seed)
        mapped = make_volumes(simulator, classes, "map", name=NAME, root=tmp_path)
        assert torch.equal(mapped[:, 0], simulator(classes, torch.arange(7)))
    assert len(files(tmp_path)) == 3


@pytest.mark.parametrize("keep", [0, 50, 5000, -4])
def test_a_torn_file_is_made_again(simulator, usual, tmp_path, keep):
    make_volumes(simulator, CLASSES, "map", name=NAME, root=tmp_path)
    (name,) = files(tmp_path)
    path = tmp_path / "cache" / name
    path.write_bytes(path.read_bytes()[:keep])
    assert torch.equal(make_volumes(simulator, CLASSES, "map", name=NAME, root=tmp_path), usual)


def test_a_run_that_breaks_off_leaves_no_file(tmp_path):
    def parts():
        yield torch.ones(2, 3)
        raise KeyboardInterrupt

    path = tmp_path / "cache" / "a.npy"
    with pytest.raises(KeyboardInterrupt):
        open_or_make(path, (4, 3), parts())
    assert files(tmp_path) == []
    mapped = open_or_make(path, (4, 3), [torch.ones(2, 3), torch.zeros(2, 3)])
    assert mapped.tolist() == [[1.0] * 3] * 2 + [[0.0] * 3] * 2


def test_too_few_rows_are_not_taken_for_whole(tmp_path):
    with pytest.raises(DataError, match=r"a\.npy: cannot be read after writing"):
        open_or_make(tmp_path / "a.npy", (4, 3), [torch.ones(2, 3)])


@pytest.mark.parametrize(
    "other",
    [np.ones((4, 2), np.float32), np.ones((4, 3)), np.asfortranarray(np.ones((4, 3), "f4"))],
)
def test_a_file_of_another_kind_is_written_anew(tmp_path, other):
    np.save(tmp_path / "a.npy", other)
    found = open_or_make(tmp_path / "a.npy", (4, 3), [torch.zeros(4, 3)])
    assert found.tolist() == [[0.0] * 3] * 4


def test_a_place_that_cannot_be_written_to_is_named(simulator, tmp_path):
    (tmp_path / "cache").write_text("a file in the way")
    with pytest.raises(DataError, match=r"cannot be written .*storage = 'memory'"):
        make_volumes(simulator, CLASSES, "map", name=NAME, root=tmp_path)
    with pytest.raises(DataError, match="set STEEPEST_DATA"):
        make_volumes(simulator, CLASSES, "map", name=NAME)


def test_options_that_do_not_go_together_are_refused(simulator):
    with pytest.raises(UnknownNameError, match="'memory'"):
        make_volumes(simulator, CLASSES, "memori", name=NAME)
    simulator.device = torch.device("cuda")
    for storage, workers in (("stream", 0), ("memory", 2)):
        with pytest.raises(InputError, match="simulate on the CPU"):
            make_volumes(simulator, CLASSES, storage, name=NAME, workers=workers)
