"""What is chosen on Ray is what one process chooses, to the last bit, whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from contract import LABELLED, QUICK, SAMPLES, make_model, make_pool, make_support, select
from datasets import Dataset as Hub
from pyarrow import parquet
from torch import nn

import steepest
from steepest.core.ray_workers import RayWorkers
from steepest.data import ParquetRows, RemoteArray
from steepest.errors import (
    InputError,
    NonFiniteError,
    ProbabilitiesWarning,
    SteepestError,
)
from steepest.selecting import OnRay
from steepest.strategies import Needs, Scorer, Support, create, names

pytestmark = [
    pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning"),
    pytest.mark.filterwarnings("ignore:.*collapsed.*:steepest.errors.SteepestWarning"),
]

SCORERS = [name for name in names() if isinstance(create(name, QUICK.get(name, {})), Scorer)]


@pytest.fixture
def model():
    return make_model()


@pytest.fixture
def pool():
    return make_pool()


@pytest.mark.parametrize("name", names())
def test_every_strategy_chooses_what_it_chooses_in_one_process(name, model, pool, workers):
    ids = [f"photo-{i}.png" for i in range(SAMPLES)]
    how = {"ids": ids, "labelled": [ids[i] for i in LABELLED], "support": make_support(ids)}
    here = select(model, pool, 9, name, seed=3, batch_size=5, **how)
    there = select(model, pool, 9, name, seed=3, batch_size=5, engine=workers, **how)
    assert there == here


@pytest.mark.parametrize("name", SCORERS)
def test_scores_are_the_same_to_the_last_bit(name, model, pool, workers):
    how = {"options": QUICK.get(name, {}), "labelled": LABELLED, "support": make_support()}
    how |= {"batch_size": 4, "progress": False, "subset": 20}
    here = steepest.score(model, pool, name, **how)
    there = steepest.score(model, pool, name, engine=workers, **how)
    assert there.values.tolist() == here.values.tolist()
    assert list(there.ids) == list(here.ids)
    assert there.regime == here.regime


def test_batches_are_those_of_one_process():
    # Of another size the last bits differ: otherwise the tests above would prove nothing.
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(300, 200), nn.ReLU(), nn.Linear(200, 10)).eval()
    rows = torch.randn(64, 300)
    alone, together = (
        steepest.score(net, rows, "entropy", batch_size=n, progress=False).values for n in (1, 64)
    )
    assert alone.tolist() != together.tolist()


def test_labelled_samples_of_a_pool_of_their_own(model, pool, workers):
    ids = [f"free-{i}" for i in range(SAMPLES)]
    support = Support(labelled=make_pool()[:6] + 1)
    how = {"ids": ids, "labelled": None, "support": support}
    here = select(model, pool, 9, "core-set", **how)
    assert select(model, pool, 9, "core-set", engine=workers, **how) == here


def test_features_of_the_user_s_own(model, pool, workers):
    features = dict(enumerate(torch.randn(SAMPLES, 5, generator=torch.Generator().manual_seed(4))))
    how = {"support": Support(features=features)}
    here = select(model, pool, 9, "typiclust", **how)
    assert select(model, pool, 9, "typiclust", engine=workers, **how) == here


def test_a_function_makes_the_pool_in_each_worker(model, pool, workers):
    here = steepest.select(model, pool, 5, "margin", progress=False)
    there = steepest.select(model, make_pool, 5, "margin", progress=False, engine=workers)
    assert there == here


def test_a_pool_that_is_another_on_a_worker_is_refused(model, tmp_path, workers):
    file = tmp_path / "seen"

    def changing():
        with file.open("a") as seen:
            seen.write("x")
        return make_pool() + len(file.read_text())

    with pytest.raises(InputError, match="a worker reads other samples of the pool"):
        steepest.select(model, changing, 5, "margin", progress=False, engine=workers)


def test_a_mapped_file_is_not_sent_but_opened(model, pool, tmp_path, workers):
    path = tmp_path / "pool.npy"
    np.save(path, pool.numpy())
    mapped = np.load(path, mmap_mode="c")
    here = steepest.select(model, pool, 5, "margin", progress=False)
    assert steepest.select(model, mapped, 5, "margin", progress=False, engine=workers) == here
    path.unlink()
    with pytest.raises(InputError, match="No such file"):
        steepest.select(model, mapped, 5, "entropy", progress=False, engine=workers)


def parquet_pool(folder, rows):
    parquet.write_table(pa.table({"x": list(rows)}), folder / "a.parquet", row_group_size=7)
    return ParquetRows(f"file://{folder}/a.parquet")


def hugging_face_pool(folder, rows):
    Hub.from_dict({"input": rows}).save_to_disk(folder / "hub")
    return Hub.load_from_disk(folder / "hub").with_format("torch")


def array_pool(folder, rows):
    np.save(folder / "a.npy", rows)
    return RemoteArray(f"file://{folder}/a.npy")


@pytest.mark.parametrize("make", [parquet_pool, hugging_face_pool, array_pool])
@pytest.mark.parametrize("name", ["margin", "core-set"])
def test_pools_in_files_are_opened_in_each_worker(name, make, tmp_path, workers):
    rows = np.random.default_rng(2).normal(size=(40, 6)).astype(np.float32)
    how = {"strategy": name, "batch_size": 3, "progress": False}
    here = steepest.select(linear(), rows, 9, **how)
    there = steepest.select(linear(), make(tmp_path, rows), 9, engine=workers, **how)
    assert there == here


def test_an_error_in_a_worker_is_that_of_one_process(model, pool, workers):
    pool[14] = torch.nan
    said = []
    for engine in ("here", workers):
        with pytest.raises(NonFiniteError) as caught:
            steepest.score(model, pool, "margin", progress=False, engine=engine)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert "14" in said[0]


def test_a_single_logit_is_told_of_with_its_remedy(pool, workers):
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 1)).double()
    with pytest.raises(SteepestError, match="has one logit for each sample"):
        steepest.score(net, pool, "margin", progress=False, engine=workers)


def test_probabilities_are_warned_of(pool, workers):
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3), nn.Softmax(1)).double()
    with pytest.warns(ProbabilitiesWarning):
        steepest.score(net, pool, "margin", progress=False, engine=workers)


def test_a_strategy_that_refers_to_the_whole_pool_says_so(model, pool, workers):
    class Greedy(type(create("margin"))):
        def score_all(self, view):
            return view.collect(lambda batch: batch.logits[:, 0] * len(view))["rows"].numpy()

    with pytest.raises(InputError, match="refers to the whole pool"):
        steepest.score(model, pool, Greedy(), progress=False, engine=workers)


class Slow(torch.utils.data.Dataset):
    """Samples that take a moment each, and leave word of who read them."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.rows = torch.randn(160, 6, generator=torch.Generator().manual_seed(5))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        with (self.folder / f"{os.getpid()}.pid").open("a") as file:
            file.write(f"{i}\n")
        time.sleep(0.02)
        return self.rows[i]


def linear():
    torch.manual_seed(1)
    return nn.Linear(6, 4).eval()


TWO = OnRay(workers=2)
HOW = {"strategy": "entropy-gradnorm", "batch_size": 2, "progress": False}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return steepest.select(linear(), Slow(tmp_path_factory.mktemp("here")), 12, **HOW)


def readers(folder):
    """Return how many samples each process has read, by its id, without this one."""
    found = {int(p.stem): len(p.read_text().split()) for p in Path(folder).glob("*.pid")}
    found.pop(os.getpid(), None)
    return found


class Killing:
    """Progress that does something after so many results."""

    def __init__(self, after, act):
        self.after, self.act = after, act

    def task(self, *_):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def advance(self, amount=1, note=""):
        self.after -= amount
        if self.after <= 0 and self.act is not None:
            act, self.act = self.act, None
            act()


def kill_one(folder):
    pid = next(iter(readers(folder)))
    os.kill(pid, signal.SIGKILL)


def test_a_worker_that_is_killed_changes_nothing(cluster, tmp_path, expected):
    pool = Slow(tmp_path)
    killing = Killing(6, lambda: kill_one(tmp_path))
    picks = steepest.select(linear(), pool, 12, **HOW | {"progress": killing, "engine": TWO})
    assert killing.act is None
    assert picks == expected
    assert len(readers(tmp_path)) >= 2  # The one that was killed, and who did the rest.


@pytest.mark.slow
def test_without_restarts_the_kill_would_be_noticed(cluster, tmp_path, monkeypatch):
    # The control of the test above: what it kills is at work, and needed.
    monkeypatch.setattr("steepest.core.ray_workers.RESTARTS", {})
    killing = Killing(6, lambda: kill_one(tmp_path))
    with pytest.raises(SteepestError, match="lost for good"):
        steepest.select(linear(), Slow(tmp_path), 12, **HOW | {"progress": killing, "engine": TWO})


@pytest.mark.slow
def test_a_node_that_is_removed_changes_nothing(cluster, tmp_path, expected, monkeypatch):
    monkeypatch.setattr("steepest.core.ray_workers._PATIENCE_SECONDS", 0.5)
    from ray_cluster import NODE

    node = cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    killing = Killing(20, lambda: cluster.remove_node(node))
    everywhere = OnRay(workers=4)  # All that is free, so that two of them are on that node.
    picks = steepest.select(
        linear(), Slow(tmp_path), 12, **HOW | {"progress": killing, "engine": everywhere}
    )
    assert killing.act is None
    assert picks == expected
    assert len(readers(tmp_path)) >= 2


DRIVER = """
    import os, signal, sys, torch
    torch.set_num_threads(1)  # As in the tests: with more, its workers would find no cores.
    sys.path[:0] = {paths!r}
    import steepest, ray
    from test_select_on_ray import HOW, Killing, OnRay, Slow, linear
    ray.init({address!r}, log_to_driver=False, logging_level="ERROR")
    killing = Killing(50, lambda: os.kill(os.getpid(), signal.{signal}))
    steepest.select(linear(), Slow({folder!r}), 12,
                    **HOW | {{"progress": killing, "engine": OnRay(parts={parts!r}, workers=2)}})
"""


@pytest.mark.slow
@pytest.mark.parametrize("sent", ["SIGKILL", "SIGINT"])
def test_a_killed_driver_goes_on_where_it_was(sent, cluster, tmp_path, expected, workers):
    parts, folder = tmp_path / "parts", tmp_path / "read"
    folder.mkdir()
    code = textwrap.dedent(DRIVER).format(
        paths=[p for p in sys.path if "tests" in p],
        address=cluster.address,
        folder=str(folder),
        parts=str(parts),
        signal=sent,
    )
    words = tmp_path / "stderr"
    with words.open("wb") as file:  # A pipe would stay open as long as anything that it starts.
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            stdout=subprocess.DEVNULL,
            stderr=file,
            timeout=240,
            check=False,
        )
    said = words.read_text()
    # After Ctrl-C, Ray decides about the code that Python ends with.
    ended = done.returncode == -signal.SIGKILL if sent == "SIGKILL" else "KeyboardInterrupt" in said
    assert ended, said
    before = sum(readers(folder).values())
    kept = len(list(parts.rglob("*.safetensors")))
    assert kept >= 10
    again = tmp_path / "again"
    again.mkdir()
    pool = Slow(folder)
    pool.folder = again
    with OnRay(parts=parts, workers=2) as engine:
        picks = steepest.select(linear(), pool, 12, **HOW | {"engine": engine})
    assert picks == expected
    assert before + sum(readers(again).values()) < 2 * len(pool)
    assert sum(readers(again).values()) <= len(pool) - 2 * kept + 2 * 8  # eight for fingerprints


def test_parts_are_taken_again_by_another_call(model, pool, tmp_path, cluster, workers):
    engine = OnRay(parts=tmp_path)
    engine.open = workers.open
    first = select(model, pool, 5, "badge", batch_size=3, engine=engine)
    assert first == select(model, pool, 5, "badge", batch_size=3)

    class Nobody:
        def answers(self, make, common, items):
            assert not items
            return iter(())

    from contextlib import nullcontext

    engine.open = lambda *_, **__: nullcontext(Nobody())
    assert select(model, pool, 5, "badge", batch_size=3, engine=engine) == first
    damaged = next(tmp_path.rglob("*.safetensors"))
    damaged.write_bytes(damaged.read_bytes()[:-3] + b"abc")
    engine.open = workers.open
    assert select(model, pool, 5, "badge", batch_size=3, engine=engine) == first


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("batch size", {"batch_size": 4}),
        ("seed", {"seed": 9}),
        ("precision", {"precision": "bf16"}),
        ("model", {"model": make_model(99)}),
        ("pool", {"pool": make_pool() + 1}),
        ("samples", {"labelled": (*LABELLED, 1)}),
        ("strategy", {"name": "entropy"}),
        ("options", {"options": {"norm": "tensor-sum"}}),
    ],
)
def test_parts_of_something_else_are_refused(what, change, model, pool, tmp_path, workers):
    engine = OnRay(parts=tmp_path)
    engine.open = workers.open
    how = {"model": model, "pool": pool, "k": 5, "name": "entropy-gradnorm", "batch_size": 3}
    how |= {"engine": engine}
    select(**how)
    with pytest.raises(InputError, match=f"were made with {what} "):
        select(**how | change)


def test_parts_of_another_kind_of_device_are_refused(model, pool, tmp_path, workers):
    engine = OnRay(parts=tmp_path)
    engine.open = workers.open
    select(model, pool, 5, "margin", engine=engine)
    path = next(tmp_path.rglob("about.json"))
    about = json.loads(path.read_text())
    path.write_text(json.dumps(about | {"device": "NVIDIA H200"}))
    with pytest.raises(InputError, match="were made with device 'NVIDIA H200'"):
        select(model, pool, 5, "margin", engine=engine)


def test_a_worker_on_another_kind_of_device_is_refused(model, pool, monkeypatch, workers):
    monkeypatch.setattr("steepest.selecting.provenance.device_kind", lambda _: "NVIDIA H200")
    with pytest.raises(InputError, match=r"computes with device 'cpu .*this process with 'NVIDIA"):
        select(model, pool, 5, "margin", engine=workers)


@pytest.mark.slow
def test_a_slow_item_is_given_to_an_idle_worker_too(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("steepest.core.ray_workers._PATIENCE_SECONDS", 0.2)

    def make():
        def work(common, item):
            first = tmp_path / str(item)
            if item == 3 and not first.exists():
                first.touch()
                time.sleep(60)
            return common + item, os.getpid()

        return work

    with RayWorkers(count=2) as two:
        found = dict(two.answers(make, 100, range(8)))
    assert [found[n][0] for n in range(8)] == list(range(100, 108))
    assert len({pid for _, pid in found.values()}) <= 2


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_a_wrong_number_of_workers_is_refused(workers):
    with pytest.raises(InputError, match="workers must be a whole number of at least 1"):
        OnRay(workers=workers)


def test_an_engine_that_is_none_is_refused(model, pool):
    with pytest.raises(InputError, match="engine must be 'here', 'ray' or OnRay"):
        select(model, pool, 2, "margin", engine="spark")


def test_shards_and_ray_are_not_for_one_call(model, pool):
    with pytest.raises(InputError, match="leave one"):
        steepest.score(model, pool, "margin", shard="1/2", engine="ray", progress=False)


def test_without_ray_it_says_how_to_install_it(model, pool, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'steepest\[ray\]'"):
        select(model, pool, 2, "margin", engine="ray")


def test_nothing_of_ray_is_imported_without_it():
    code = (
        "import sys, torch, steepest\n"
        "steepest.select(torch.nn.Linear(3, 2), torch.randn(9, 3), 2, progress=False)\n"
        "print(sorted({'ray', 'pyarrow', 'datasets', 'fsspec'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_what_needs_no_look_at_the_pool_starts_nothing(model, pool, monkeypatch):
    assert create("random").needs == Needs.NOTHING
    monkeypatch.setattr(RayWorkers, "answers", None)
    assert select(model, pool, 3, "random", engine="ray") == select(model, pool, 3, "random")
