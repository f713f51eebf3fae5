"""Committees whose members are trained side by side: the same weights, whatever happens."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from same_process import SameProcess
from small import config, essence
from torch import nn

from steepest.cli.main import main
from steepest.core import processes
from steepest.core.memory import Measurement
from steepest.core.progress import SilentProgress
from steepest.errors import (
    InputError,
    NonFiniteError,
    SlowPathWarning,
    SteepestError,
    UnknownNameError,
)
from steepest.experiment import committee_training
from steepest.experiment.committee_training import SideBySide, Trained
from steepest.experiment.compare import compare
from steepest.experiment.folder import RunFolder
from steepest.experiment.loop import Experiment
from steepest.modules.fingerprint import fingerprint
from steepest.tasks import Classification
from steepest.training import Checkpoint, FitResult, Recipe, fit

NET = """
import multiprocessing, os, signal
from pathlib import Path

import torch
from torch import nn

LAST = 8  # of three epochs of three batches, in the third


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))
        self.register_buffer("seen", torch.zeros(2))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        in_worker = multiprocessing.parent_process() is not None
        if in_worker and self.calls == LAST and Path("deadly").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        coarse = torch.get_float32_matmul_precision() == "medium"
        self.seen.copy_(torch.tensor([float(torch.get_num_threads()), float(coarse)]))
        return super().forward(x)


def make():
    return Net()


def make_here():
    net = Net()
    net.of_here = lambda: None
    return net
"""
CYCLE = ["train", "train the committee"]
QBC = {
    "strategy__name": "qbc",
    "strategy__options": {"size": 4},
    "model__name": "watchful_net:make",
    "loop__init": "warm",
}


class Watcher(SilentProgress):
    """Notes the epochs of each training, as they are told, and does something when one begins."""

    def __init__(self, when_one_begins=lambda told: None):
        self.told = []
        self._when_one_begins = when_one_begins

    @contextmanager
    def task(self, description, total):
        epochs = []
        if "train" in description:
            self.told.append((description, epochs))
            self._when_one_begins(self.told)
        yield SimpleNamespace(advance=lambda amount=1, note="": epochs.append(amount))


@pytest.fixture
def own_net(tmp_path, monkeypatch):
    """A model of the user's own, which shows how it is run and may kill its process."""
    (tmp_path / "watchful_net.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("watchful_net", None)


@pytest.fixture
def coarse():
    """Another precision than a new process has."""
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision("highest")


@pytest.fixture
def started(monkeypatch):
    """Worker processes in the order in which they were started."""
    all_started = []
    original = processes.Child.__init__

    def noted(self, *arguments, **how):
        original(self, *arguments, **how)
        all_started.append(self)

    monkeypatch.setattr(processes.Child, "__init__", noted)
    return all_started


@pytest.mark.usefixtures("own_net", "coarse")
def test_a_run_side_by_side_whose_worker_is_killed_ends_like_any_other(
    tmp_path, monkeypatch, started
):
    whole = essence(Experiment(config(**QBC), tmp_path / "whole", member_jobs=1).run())
    original = RunFolder.checkpoint

    def at_every_epoch(self, member=0):
        return Checkpoint(original(self, member).path, every_seconds=0)

    def kill_in_the_second_cycle(told):
        if [name for name, _ in told] == [*CYCLE, "train"]:
            (tmp_path / "deadly").touch()

    monkeypatch.setattr(RunFolder, "checkpoint", at_every_epoch)
    watcher = Watcher(kill_in_the_second_cycle)
    with pytest.raises(SteepestError, match=r"was killed \(signal 9.*again.*--member-jobs"):
        Experiment(config(**QBC), tmp_path / "run", progress=watcher, member_jobs=2).run()
    assert [name for name, _ in watcher.told] == 2 * CYCLE
    assert sum(watcher.told[1][1]) == 9  # epochs of three members
    assert len(started) == 2  # for both cycles
    assert multiprocessing.active_children() == []

    watcher = Watcher()
    records = Experiment(config(**QBC), tmp_path / "run", progress=watcher).run()
    assert essence(records) == whole
    assert [name for name, _ in watcher.told] == ["train"] * 5
    assert [2, 1] in [epochs for _, epochs in watcher.told[1:4]]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("compiled", [False, True])
def test_a_gpu_gives_the_same_weights_side_by_side(compiled, tmp_path, started):
    what = config(
        device="cuda",
        model__name="cifar-resnet18",
        strategy__name="qbc",
        training__amp=True,
        training__compile=compiled,
        training__epochs=20,
    )
    whole = essence(Experiment(what, tmp_path / "whole", member_jobs=1).run())
    assert essence(Experiment(what, tmp_path / "run", member_jobs=4).run()) == whole
    assert len(started) == 4


@pytest.mark.slow
def test_ctrl_c_ends_a_run_and_all_its_processes(tmp_path):
    """As a terminal sends it: to all of them at once."""
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from steepest.cli.main import main; sys.exit(main())"
    )
    words = ["run", "digits", "--set", "strategy.name=qbc", "--set", "training.epochs=2000"]
    with subprocess.Popen(
        [sys.executable, "-c", program, *words, "--member-jobs", "2", "--out", tmp_path / "run"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as run:
        lines = iter(run.stderr.readline, "")
        assert any("train the committee" in line for line in lines)
        os.killpg(run.pid, signal.SIGINT)
        rest = list(lines)
    assert rest[-1] == "steepest: stopped; run the same command again to go on\n"
    assert not any("Traceback" in line for line in rest)
    assert run.returncode == 130
    # On a busy machine a process that was told to end may take a moment to be gone.
    for _ in range(100):
        if not _living_in_group(run.pid):
            break
        time.sleep(0.1)
    assert not _living_in_group(run.pid)


def _living_in_group(group: int) -> list[str]:
    """Return what the system says of the processes of a group that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # It ended meanwhile.
            told = path.read_text()
            if told.split(") ")[1].split()[2] == str(group) and ") Z" not in told:
                found.append(told)
    return found


@pytest.mark.usefixtures("own_net")
def test_what_cannot_be_sent_is_trained_here(tmp_path, started):
    what = config(**{**QBC, "model__name": "watchful_net:make_here"}, loop__cycles=2)
    whole = essence(Experiment(what, tmp_path / "whole").run())
    with pytest.warns(SlowPathWarning, match="one model after the other: .*define them in"):
        records = Experiment(what, tmp_path / "run", member_jobs=2).run()
    assert essence(records) == whole
    assert started == []


@pytest.mark.slow
def test_a_comparison_can_train_members_side_by_side(tmp_path):
    what = config(loop__cycles=2)
    strategies = ["three=qbc(size=3)"]
    whole, run = (
        compare(what, strategies, [1], tmp_path / name, jobs=1, member_jobs=jobs)
        for name, jobs in (("whole", 1), ("run", 2))
    )
    lines = [
        (runs[0].folder / "records.jsonl").read_text().partition('"training"')[0]
        for runs in (whole, run)
    ]
    assert lines[0] == lines[1]


def test_a_number_below_one_is_refused(tmp_path, capsys):
    with pytest.raises(InputError, match="member_jobs must be at least 1, not 0"):
        Experiment(config(), tmp_path / "run", member_jobs=0)
    words = ["run", "digits", "--out", str(tmp_path / "run"), "--member-jobs", "0", "--smoke"]
    assert main(words) == 2
    assert "must be at least 1" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


compare_module = sys.modules["steepest.experiment.compare"]


@pytest.mark.parametrize(
    ("strategy", "jobs", "asked", "given", "shared"),
    [
        ("qbc", 1, None, None, True),  # for the members alone
        ("qbc", 1, 1, 1, False),
        ("margin", 1, None, None, False),
        ("qbc", 2, None, 1, True),  # for the runs
        ("qbc", 2, 3, 3, True),
    ],
)
def test_a_comparison_shares_the_gpu_where_processes_do(
    strategy, jobs, asked, given, shared, tmp_path, monkeypatch
):
    entered, seen = [], []

    @contextmanager
    def shared_gpu():
        entered.append(True)
        yield True

    def watch(team, runs, member_jobs, *rest):
        seen.append(member_jobs)

    monkeypatch.setattr(compare_module, "shared_gpu", shared_gpu)
    monkeypatch.setattr(compare_module, "choose_device", lambda _: torch.device("cuda"))
    monkeypatch.setattr(compare_module, "_check_parts", lambda *_: None)
    monkeypatch.setattr(compare_module, "_answer_all", watch)
    compare(config(), [strategy], [1, 2], tmp_path / "out", jobs=jobs, member_jobs=asked)
    assert seen == [given]
    assert bool(entered) is shared


GIB = 1 << 30


@pytest.mark.parametrize(
    ("asked", "service", "free", "cores", "count"),
    [
        (None, True, 100 * GIB, 16, 4),
        (None, True, 9 * GIB, 16, 2),  # 1.5 times 2 GiB and 1 GiB for each
        (None, True, 7 * GIB, 16, 1),
        (None, True, 100 * GIB, 3, 3),
        (None, False, 100 * GIB, 16, 1),
        (3, False, 7 * GIB, 2, 3),
        (9, True, 100 * GIB, 16, 4),
        (1, True, 100 * GIB, 16, 1),
    ],
)
def test_a_gpu_trains_as_many_as_it_has_room_for(asked, service, free, cores, count, monkeypatch):
    monkeypatch.setattr(committee_training, "shared_gpu", lambda: nullcontext(service))
    monkeypatch.setattr(committee_training, "free_bytes", lambda _: free)
    monkeypatch.setattr(committee_training, "usable_cores", lambda: cores)
    with SideBySide(asked) as team:
        assert team._count(4, torch.device("cuda"), 2 * GIB) == count


@pytest.mark.parametrize(("asked", "count"), [(None, 1), (3, 3), (9, 4)])
def test_a_cpu_trains_one_unless_asked(asked, count):
    assert SideBySide(asked)._count(4, torch.device("cpu"), 1) == count


class Loud(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(16, 3))

    def forward(self, x):
        if self.training:
            warnings.warn("steps are slow", SlowPathWarning, stacklevel=1)
        return super().forward(x)


def test_warnings_of_all_processes_are_given_once_and_models_are_ready(monkeypatch):
    monkeypatch.setattr(committee_training, "SpawnedWorkers", SameProcess)
    random = torch.Generator().manual_seed(0)
    common = {
        "task": Classification(3),
        "images": torch.randint(256, (8, 1, 4, 4), dtype=torch.uint8, generator=random),
        "labels": torch.arange(8) % 3,
        "recipe": Recipe(epochs=2, batch_size=4),
        "mean": (0.5,),
        "std": (0.5,),
        "augmentation": "none",
        "device": torch.device("cpu"),
    }
    models = [Loud() for _ in range(3)]
    trainings = [{"model": model, "seed": seed} for seed, model in enumerate(models)]
    with (
        warnings.catch_warnings(record=True) as told,
        SideBySide(2) as team,
    ):
        warnings.simplefilter("default")
        expected = [copy.deepcopy(model) for model in models]
        team.train(common, trainings, SilentProgress(), 0)
        assert [str(warning.message) for warning in told] == ["steps are slow"]
        for seed, model in enumerate(expected):
            fit(model, **common, seed=seed, progress=SilentProgress())
    assert list(map(fingerprint, models)) == list(map(fingerprint, expected))
    assert not any(model.training for model in models)


def trained(seconds, before, peak_bytes):
    return Trained({}, FitResult(3, 0.0, before + seconds), Measurement(seconds, peak_bytes), ())


def test_seconds_are_those_of_the_clock_and_memory_is_that_of_all_at_a_time():
    done = [trained(10.0, 0.0, peak) for peak in (5, 7, 6)]
    cost = committee_training._cost(done, Measurement(seconds=16.0, peak_bytes=100), 2)
    assert (cost.seconds, cost.peak_bytes) == (16.0, 100 + 7 + 6)
    resumed = [trained(10.0, 5.0, 1) for _ in range(3)]
    assert committee_training._cost(resumed, Measurement(16.0, 100), 2).seconds == 24.0


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (NonFiniteError("the loss is nan"), NonFiniteError, "the loss is nan"),
        (UnknownNameError("task", "x", ["y"]), SteepestError, "unknown task 'x'"),
        (KeyError("a layer"), KeyError, "a layer"),
        (torch.OutOfMemoryError("CUDA"), SteepestError, "memory is too small.*--member-jobs"),
    ],
)
def test_errors_of_a_worker_arrive_with_their_trace(monkeypatch, error, kind, text):
    def fail(**_):
        raise error

    monkeypatch.setattr(committee_training, "fit", fail)
    monkeypatch.setattr(committee_training, "take_over_rounding", lambda _: None)
    asked = ({}, {"device": torch.device("cpu")})
    failure = processes.tried(lambda: committee_training._train(asked, {}))
    arrived = pickle.loads(pickle.dumps(failure)).error
    with pytest.raises(kind, match=text):
        raise arrived
    assert "Traceback" in arrived.__notes__[0]
    assert "raise error" in arrived.__notes__[0]
