"""The lock that lets one holder in."""

from __future__ import annotations

import gc
import os
import sys

import pytest

from steepest.core.lock import _give_up
from steepest.errors import RunFolderError
from steepest.pool import FileLock


def held_elsewhere(path):
    try:
        FileLock(path).release()
    except RunFolderError:
        return True
    return False


def test_a_second_holder_is_refused_until_the_first_lets_go(tmp_path):
    lock = FileLock(tmp_path / "run")
    assert lock.held
    with pytest.raises(RunFolderError, match=r"run is in use by another process .*close it"):
        FileLock(tmp_path / "run")
    assert not held_elsewhere(tmp_path / "other")
    lock.release()
    lock.release()
    assert not lock.held
    assert not held_elsewhere(tmp_path / "run")


def test_a_folder_is_named_and_not_the_file_in_it_that_is_locked(tmp_path):
    lock = FileLock(tmp_path / "two" / "run", shown=tmp_path / "two")
    with pytest.raises(RunFolderError, match=r"two is in use by another process"):
        FileLock(tmp_path / "two" / "run", shown=tmp_path / "two")
    lock.release()


def test_the_end_of_a_with_block_lets_go_also_after_an_error(tmp_path):
    lock = FileLock(tmp_path / "run")  # kept, or garbage collection would let go of it
    with pytest.raises(KeyError), lock:
        raise KeyError
    assert not lock.held
    assert not held_elsewhere(tmp_path / "run")


def test_letting_go_leaves_no_descriptor_open(tmp_path):
    lock = FileLock(tmp_path / "run")
    descriptor = lock._finalizer.peek()[2][0]
    os.fstat(descriptor)
    lock.release()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_garbage_collection_lets_go(tmp_path):
    lock = FileLock(tmp_path / "run")
    del lock
    gc.collect()
    assert not held_elsewhere(tmp_path / "run")


def copy_descriptor(lock):
    """Return what a forked child would have: a second descriptor of the same hold."""
    return os.dup(lock._finalizer.peek()[2][0])


def test_a_forked_copy_that_goes_away_leaves_the_hold_with_its_owner(tmp_path):
    lock = FileLock(tmp_path / "run")
    _give_up(copy_descriptor(lock), owner_pid=os.getpid() + 1)
    assert held_elsewhere(tmp_path / "run")
    lock.release()


def test_a_forked_copy_that_lives_on_does_not_keep_the_hold(tmp_path):
    lock = FileLock(tmp_path / "run")
    inherited = copy_descriptor(lock)
    lock.release()
    assert not held_elsewhere(tmp_path / "run")
    os.close(inherited)


def test_a_folder_that_cannot_be_written_to_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunFolderError, match=r"cannot be locked .* choose a folder"):
        FileLock(tmp_path / "file" / "run")


def test_a_platform_without_locks_runs_unguarded(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with FileLock(tmp_path / "run"), FileLock(tmp_path / "run") as second:
        assert second.held


def test_a_link_in_the_place_of_the_lock_makes_no_file_elsewhere(tmp_path):
    (tmp_path / "pool.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunFolderError, match="cannot be locked"):
        FileLock(tmp_path / "pool")
    assert not (tmp_path / "elsewhere").exists()
