"""Files are whole or not there at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from steepest.core.files import write_atomically
from steepest.errors import InputError


@pytest.mark.parametrize(
    ("content", "stored"),
    [("größe\n", "größe\n".encode()), (b"\x00\r\n\xff", b"\x00\r\n\xff"), ("", b"")],
)
def test_text_and_bytes_are_stored_as_they_are(content, stored, tmp_path):
    path = tmp_path / "ü" / "deep er" / "file.txt"
    write_atomically(path, content)
    assert path.read_bytes() == stored
    assert os.listdir(path.parent) == ["file.txt"]  # noqa: PTH208 - nothing hidden either


def test_an_older_file_is_replaced_whole(tmp_path):
    path = tmp_path / "file"
    path.write_text("old and longer")
    reader = path.open()
    write_atomically(path, "new")
    assert path.read_text() == "new"
    with reader:
        assert reader.read() == "old and longer"


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_who_may_read_a_new_file_is_for_the_umask_to_say(umask, mode, tmp_path):
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "file", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == mode


def test_a_file_that_was_made_private_stays_so(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o600)
    write_atomically(path, "new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o600)


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file_and_no_scratch(step, failure, tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("old")

    def fail(*_args):
        raise failure

    owner = "os.fsync" if step == "fsync" else "pathlib.Path.replace"
    monkeypatch.setattr(owner, fail)
    expected = InputError if isinstance(failure, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        write_atomically(path, "new")
    if expected is InputError:
        assert "No space left on device" in str(caught.value)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_killed_writer_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from steepest.core import files\n"
        "files.os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        "files.write_atomically(Path(sys.argv[1]), 'new' * 10000)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    write_atomically(path, "newer")
    assert path.read_text() == "newer"


@pytest.mark.parametrize("place", ["file/below", "folder", "long"])
def test_places_that_cannot_be_written_are_named(place, tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "folder").mkdir()
    path = tmp_path / ("x" * 300 if place == "long" else place)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="cannot be written") as caught:
        write_atomically(path, "new")
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "file").read_text() == "old"
