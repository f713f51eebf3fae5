from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from steepest.data import Streamed, workers
from steepest.data.streamed import default_workers
from steepest.errors import DataError, InputError

COUNT = 11
ORDER = torch.tensor([3, 0, 10, 7, 7, 1, 9])


class Counted:
    """Samples that say their row and draws."""

    draws = 2

    def __call__(self, row, draw):
        extra = torch.zeros(2, dtype=torch.float64) if draw is None else draw
        return torch.cat([torch.tensor([row], dtype=torch.float64), extra])


class Failing(Counted):
    def __init__(self, how):
        self.how = how

    def __call__(self, row, draw):
        if row == 5:
            self.how()
        return super().__call__(row, draw)


def refuse():
    raise DataError("five.png: cannot be read")


def stumble():
    raise KeyError("five")


def give_way():
    os.kill(os.getpid(), signal.SIGKILL)


def leave():
    os._exit(3)


class Shaped(Counted):
    def __init__(self, sample):
        self.sample = sample

    def __call__(self, row, draw):
        return self.sample


class Holding:
    """A reader with large arrays, that says where they are."""

    draws = 0

    def __init__(self):
        self.array = np.arange(5000)
        self.tensor = torch.arange(5000)

    def __call__(self, row, draw):
        changed = int(self.array[0]) + int(self.tensor[0])
        self.array[0] = self.tensor[0] = row + 1
        return torch.tensor([changed])


class Sticky(Counted):
    def __reduce__(self):
        return refuse, ()


def make(reader=None, workers=0, count=COUNT):
    return Streamed(reader or Counted(), count, (3,), torch.float64, workers=workers)


def count_open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def draws(count=COUNT):
    return torch.rand(count, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def read(column, size=3, numbers=None, order=ORDER):
    return torch.cat(list(column.batches(list(torch.split(order, size)), numbers)))


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("size", [1, 3, 20])
def test_samples_do_not_depend_on_workers_or_batch_size(workers, size):
    numbers = draws()
    wanted = torch.cat([ORDER[:, None].double(), numbers[ORDER]], dim=1)
    assert torch.equal(read(make(workers=workers), size, numbers), wanted)
    plain = torch.cat([ORDER[:, None].double(), torch.zeros(len(ORDER), 2)], dim=1)
    assert torch.equal(read(make(workers=workers), size), plain)


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_keep_their_sizes_and_order(workers):
    groups = [torch.tensor([4]), torch.tensor([1, 2, 3]), torch.tensor([], dtype=torch.long), ORDER]
    found = list(make(workers=workers).batches(groups))
    assert [batch[:, 0].long().tolist() for batch in found] == [rows.tolist() for rows in groups]


def test_batches_are_the_callers_own_memory():
    batches = list(make(workers=1).batches([torch.tensor([row]) for row in range(COUNT)]))
    assert [int(batch[0, 0]) for batch in batches] == list(range(COUNT))
    assert not any(batch.is_shared() for batch in batches)


def test_a_thousand_batches_need_no_thousand_file_handles():
    column = make(workers=1, count=1000)
    open_before = count_open_files()
    found = list(column.batches([torch.tensor([row]) for row in range(1000)]))
    assert torch.equal(torch.cat(found)[:, 0].long(), torch.arange(1000))
    assert count_open_files() <= open_before + 6


@pytest.mark.parametrize("workers", [0, 2])
def test_no_batches_are_no_batches(workers):
    assert list(make(workers=workers).batches([])) == []


def test_rows_are_read_here_and_now():
    column = make()
    assert torch.equal(column[torch.tensor([2, 5])][:, 0], torch.tensor([2.0, 5.0]).double())
    assert column[[1]].shape == (1, 3)
    assert column[:].shape == column.shape == (COUNT, 3)
    assert column[torch.tensor([], dtype=torch.long)].shape == (0, 3)
    assert column.draws == 2


@pytest.mark.parametrize("workers", [0, 1])
def test_a_part_of_a_part_keeps_its_samples_and_draws(workers):
    part = make(workers=workers).take([9, 4, 6, 2]).take(torch.tensor([3, 0]))
    assert part.shape == (2, 3)
    assert part.workers == workers
    assert part[:][:, 0].tolist() == [2, 9]
    numbers = draws(2)
    found = read(part, 1, numbers, torch.tensor([1, 0]))
    assert found[:, 0].tolist() == [9, 2]
    assert torch.equal(found[:, 1:], numbers.flip(0))


def test_draws_of_another_shape_are_refused():
    with pytest.raises(InputError, match=r"shape \[11, 3\]; this data takes \[11, 2\]"):
        make().batches([ORDER], torch.zeros(COUNT, 3))
    with pytest.raises(InputError, match="draws"):
        make().take([1]).batches([torch.tensor([0])], draws())


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize(
    ("how", "message"),
    [
        (refuse, "five.png: cannot be read"),
        (stumble, "sample 5 cannot be read (KeyError: 'five')"),
    ],
)
def test_a_sample_that_cannot_be_read_is_one_line_in_its_turn(workers, how, message):
    batches = make(Failing(how), workers).batches(list(torch.arange(COUNT).split(2)))
    assert [int(next(batches)[0, 0]) for _ in range(2)] == [0, 2]
    with pytest.raises(DataError) as caught:
        next(batches)
    assert str(caught.value) == message
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (torch.zeros(4, dtype=torch.float64), r"sample 3 has shape \[4\] where .* \[3\]: give a"),
        (torch.zeros(3), "sample 3 is torch.float32 where others are torch.float64"),
    ],
)
def test_a_sample_of_another_kind_is_refused(workers, sample, message):
    with pytest.raises(DataError, match=message):
        read(make(Shaped(sample), workers))


@pytest.mark.parametrize(("how", "reason"), [(give_way, "signal 9"), (leave, "exit code 3")])
def test_a_worker_that_dies_is_an_error_and_not_a_wait(how, reason):
    batches = make(Failing(how), 2).batches(list(torch.arange(COUNT).split(2)))
    assert len(next(batches)) == 2
    with pytest.raises(DataError, match=rf"worker process ended .*\({reason}\).*workers = 0"):
        list(batches)
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("how", ["close", "drop"])
def test_stopping_early_ends_the_workers(how):
    batches = make(workers=2).batches([torch.tensor([row]) for row in range(COUNT)])
    next(batches)
    assert len(multiprocessing.active_children()) == 2
    if how == "close":
        batches.close()
    else:
        del batches
        gc.collect()
    assert multiprocessing.active_children() == []


def test_no_process_and_no_file_is_left_behind():
    column = make(workers=2)
    read(column)
    before = count_open_files()
    for _ in range(3):
        read(column)
    assert multiprocessing.active_children() == []
    assert count_open_files() == before


def test_reading_draws_nothing_from_the_global_generator():
    before = torch.random.get_rng_state()
    read(make(workers=1))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_columns_are_picklable():
    column = pickle.loads(pickle.dumps(make(workers=1).take([5, 2])))
    assert column[:][:, 0].tolist() == [5, 2]
    assert (column.workers, column.dtype, column.shape) == (1, torch.float64, (2, 3))


def test_workers_leave_the_arrays_of_this_process_alone():
    reader = Holding()
    column = Streamed(reader, 4, (1,), torch.int64, workers=1)
    found = torch.cat(list(column.batches([torch.tensor([row]) for row in range(4)])))
    assert found[:, 0].tolist() == [0, 2, 4, 6]
    assert int(reader.array[0]) == int(reader.tensor[0]) == 0
    assert not reader.tensor.is_shared()


def test_a_reader_that_cannot_be_sent_is_said_before_any_process_starts():
    column = make(Shaped(lambda: None), workers=1)
    with pytest.raises(DataError, match=r"cannot be sent to worker processes \(.*workers = 0"):
        read(column)


def test_a_reader_that_cannot_be_rebuilt_is_one_line():
    with pytest.raises(DataError, match=r"rebuilt in a worker process .five.png.*workers = 0"):
        read(make(Sticky(), workers=1))


def test_a_daemon_reads_by_itself(monkeypatch):
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)
    assert len(read(make(workers=2))) == len(ORDER)


def test_without_a_fork_server_workers_are_spawned(monkeypatch):
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    assert workers._context().get_start_method() == "spawn"


def test_too_little_shared_memory_is_said(monkeypatch):
    def refuse_sharing(self):
        raise RuntimeError("unable to allocate shared memory(shm)")

    monkeypatch.setattr(torch.Tensor, "share_memory_", refuse_sharing)
    with pytest.raises(DataError, match=r"MB of shared memory .* fewer workers"):
        read(make(workers=1))


def test_a_process_that_cannot_be_started_is_said(monkeypatch):
    def refuse_start(self):
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(multiprocessing.context.ForkServerProcess, "start", refuse_start)
    with pytest.raises(DataError, match=r"cannot be started .*unavailable.*workers = 0"):
        read(make(workers=1))


@pytest.mark.parametrize("count", [-1, 1.5, True, "2"])
def test_a_number_of_workers_that_cannot_be_used_is_refused(count):
    with pytest.raises(InputError, match="workers is"):
        make(workers=count)


@pytest.mark.parametrize(("cores", "wanted"), [(1, 0), (2, 1), (5, 4), (64, 8)])
def test_one_core_is_left_by_default(monkeypatch, cores, wanted):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(cores), raising=False)
    assert default_workers() == wanted


USE = """
import torch
from steepest.data import Streamed
{reader}
column = Streamed(Reader(), 6, (), torch.int64, workers=2)
print(torch.cat(list(column.batches(list(torch.arange(6).split(2))))).tolist())
"""
OWN_READER = """
class Reader:
    draws = 0
    def __call__(self, row, draw):
        return torch.tensor(row * 2)
"""
IMPORTED_READER = "from doubling import Reader"


def run(arguments, folder, stdin=None):
    # What a user's own warnings do is not this test's business.
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        input=stdin,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "doubling.py").write_text("import torch\n" + OWN_READER)
    return tmp_path


@pytest.mark.parametrize("how", ["file", "stdin"])
def test_programs_without_a_main_guard_can_use_workers(folder, how):
    program = USE.format(reader=IMPORTED_READER)
    (folder / "script.py").write_text(program)
    done = run(["-"], folder, program) if how == "stdin" else run(["script.py"], folder)
    assert done.stdout == "[0, 2, 4, 6, 8, 10]\n", done.stderr
    assert done.stderr == ""


def test_a_guarded_script_can_define_what_it_reads_with(folder):
    head, tail = USE.format(reader=OWN_READER).split("column =")
    guarded = "\n".join("    " + line for line in f"column ={tail}".splitlines())
    (folder / "script.py").write_text(f"{head}\nif __name__ == '__main__':\n{guarded}\n")
    done = run(["script.py"], folder)
    assert done.stdout == "[0, 2, 4, 6, 8, 10]\n", done.stderr


def test_an_unguarded_script_that_defines_it_is_told_of_the_guard(folder):
    (folder / "script.py").write_text(USE.format(reader=OWN_READER))
    done = run(["script.py"], folder)
    assert done.returncode == 1
    assert "if __name__ ==" in done.stderr.splitlines()[-1]
    assert "steepest.errors.DataError" in done.stderr.splitlines()[-1]


def test_what_comes_from_the_standard_input_cannot_be_read_with(folder):
    done = run(["-"], folder, USE.format(reader=OWN_READER))
    assert done.returncode == 1
    assert "defined in a notebook or typed in" in done.stderr.splitlines()[-1]


def test_what_is_typed_in_is_refused_before_any_process_starts(monkeypatch):
    typed = ModuleType("__main__")
    typed.Counted = Counted
    monkeypatch.setitem(sys.modules, "__main__", typed)
    monkeypatch.setattr(Counted, "__module__", "__main__")
    with pytest.raises(DataError, match="defined in a notebook or typed in"):
        read(make(workers=1))


def test_workers_end_with_a_program_that_is_killed(folder):
    program = (
        USE.format(reader=IMPORTED_READER)
        + """
import multiprocessing, os, signal
batches = column.batches([torch.tensor([0])] * 9)
next(batches)
print(len(multiprocessing.active_children()), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    # The workers hold the standard output: were they to stay, it would not end in time.
    done = run(["-c", program], folder)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.endswith("]\n2\n")
