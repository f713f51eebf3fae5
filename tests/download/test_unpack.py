"""Archives: unpacked whole, or refused with nothing left behind."""

from __future__ import annotations

import random
import shutil
import tarfile
from types import SimpleNamespace

import pytest
from archives import MEMBERS, SYMLINK, contents, make_tar, make_zip, tar_bytes
from full_disk import fill_disk

from steepest.data.download import unpack
from steepest.data.download.unpack import Limits, check_archive
from steepest.errors import DataError

NOISE = random.Random(0).randbytes(50_000)
MAKERS = [make_zip, make_tar]
both = pytest.mark.parametrize("make", MAKERS, ids=["zip", "tar"])


@pytest.fixture
def target(tmp_path):
    return tmp_path / "data" / "target"


@pytest.fixture
def refused(target, tmp_path):
    """Check that an archive is refused, and that no trace of it stays."""

    def check(archive, message, **more):
        before = contents(tmp_path)
        with pytest.raises(DataError, match=message):
            unpack(archive, target, **more)
        assert contents(tmp_path) == before
        assert not target.parent.exists() or list(target.parent.iterdir()) == []

    return check


@both
def test_everything_is_unpacked(make, tmp_path, target):
    assert unpack(make(tmp_path / "archive"), target) == 3
    assert contents(target) == MEMBERS
    assert [path.name for path in target.parent.iterdir()] == ["target"]


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_tar_archives_of_any_compression_are_read(mode, tmp_path, target):
    unpack(make_tar(tmp_path / "archive", mode=mode), target)
    assert contents(target) == MEMBERS


@both
def test_one_folder_can_be_taken_out(make, tmp_path, target):
    unpack(make(tmp_path / "archive"), target, folder="top")
    assert contents(target) == {"a.txt": b"a" * 1000, "sub/b.txt": b"b"}
    with pytest.raises(DataError, match="no files in to"):
        unpack(make(tmp_path / "archive"), target.parent / "other", folder="to")


@both
def test_an_archive_within_an_archive_can_be_meant(make, tmp_path, target):
    inner = tar_bytes({"top/c.txt": b"c"})
    archive = make(tmp_path / "archive", {"x/y": b"", "x/inner.tar.gz": inner, "x/z": b""})
    unpack(archive, target, inner="x/inner.tar.gz", folder="top")
    assert contents(target) == {"c.txt": b"c"}


def test_archives_in_a_tar_become_folders(tmp_path, target):
    members = {
        "n1.tar": tar_bytes({"x.JPEG": b"x"}, "w"),
        "n2.tar": tar_bytes({"y.JPEG": b"y"}, "w"),
    }
    unpack(make_tar(tmp_path / "archive", members, mode="w"), target, nested=True)
    assert contents(target) == {"n1/x.JPEG": b"x", "n2/y.JPEG": b"y"}


def test_a_path_that_leads_out_of_an_archive_in_a_tar_is_refused(tmp_path, refused):
    archive = make_tar(tmp_path / "archive", {"n1.tar": tar_bytes({"../../x": b"x"}, "w")})
    refused(archive, "leads out of the folder", nested=True)


def test_files_can_be_sorted_into_folders_by_name(tmp_path, target):
    archive = make_tar(tmp_path / "archive", {"a.JPEG": b"a", "b.JPEG": b"b"})
    unpack(archive, target, folders={"a.JPEG": "n2", "b.JPEG": "n1"})
    assert contents(target) == {"n1/b.JPEG": b"b", "n2/a.JPEG": b"a"}


def test_a_file_that_nobody_can_sort_is_told(tmp_path, refused):
    archive = make_tar(tmp_path / "archive", {"a.JPEG": b"a"})
    refused(archive, "the class of a.JPEG is unknown", folders={})


@both
def test_a_missing_inner_archive_is_told(make, tmp_path, refused):
    refused(make(tmp_path / "archive"), "inner.tar.gz is not in it", inner="inner.tar.gz")


@both
@pytest.mark.parametrize(
    "name", ["../evil", "top/../../evil", "/evil", "top\\..\\evil", "C:/evil", "a/../b"]
)
def test_a_path_that_leads_out_is_refused(make, name, tmp_path, refused):
    archive = make(tmp_path / "archive", {**MEMBERS, name: b"evil"})
    refused(archive, "leads out of the folder; refused: remove it and get it from elsewhere")
    refused(archive, "leads out of the folder; refused", folder="top")


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (tarfile.SYMTYPE, "link"),
        (tarfile.LNKTYPE, "link"),
        (tarfile.FIFOTYPE, "special file"),
        (tarfile.CHRTYPE, "special file"),
    ],
)
def test_links_and_devices_in_a_tar_are_refused(kind, word, tmp_path, refused):
    refused(make_tar(tmp_path / "archive", odd=kind), f"odd is a {word}; refused")


def test_links_in_a_zip_are_refused(tmp_path, refused):
    refused(make_zip(tmp_path / "archive", odd=SYMLINK), "odd is a link; refused")


@both
def test_a_file_in_the_place_of_a_folder_is_refused(make, tmp_path, refused):
    refused(make(tmp_path / "archive", {"a": b"", "a/b": b""}), "cannot be written")


@both
def test_two_files_of_one_name_are_refused(make, tmp_path, refused):
    twice = {"a": b"1", "./a": b"2"}
    refused(make(tmp_path / "archive", twice), "archive: ./a is in it twice; refused")


@both
def test_a_bomb_is_refused_by_what_comes_out_of_it(make, tmp_path, refused):
    archive = make(tmp_path / "archive", {"zeros": b"\0" * 3_000_000})
    assert archive.stat().st_size < 10_000
    refused(archive, "unpacks to more than 1.0 MB; refused")


@both
def test_too_many_members_are_refused(make, tmp_path, refused):
    archive = make(tmp_path / "archive", {f"f{i}": b"" for i in range(6)})
    refused(archive, "more than 5 members", limits=Limits(members=5))


@both
def test_a_truncated_archive_is_refused(make, tmp_path, refused):
    archive = make(tmp_path / "archive", {"noise": NOISE})
    archive.write_bytes(archive.read_bytes()[:-300])
    refused(archive, "not an archive, or damaged .*; remove it and get it again")
    with pytest.raises(DataError, match="damaged"):
        check_archive(archive)


def test_a_flipped_byte_in_a_zip_is_found(tmp_path, refused):
    archive = make_zip(tmp_path / "archive", {"noise": NOISE})
    data = bytearray(archive.read_bytes())
    data[500] ^= 1
    archive.write_bytes(data)
    refused(archive, "damaged")
    with pytest.raises(DataError, match="damaged"):
        check_archive(archive)


@pytest.mark.parametrize("data", [b"", b"<html>no such file</html>" * 100])
def test_what_is_no_archive_is_refused(data, tmp_path, refused):
    (tmp_path / "archive").write_bytes(data)
    refused(tmp_path / "archive", "not an archive, or damaged")


@both
def test_a_whole_archive_passes_the_check(make, tmp_path):
    check_archive(make(tmp_path / "archive"))


def test_what_is_there_already_is_left_alone(tmp_path, target):
    target.mkdir(parents=True)
    (target / "mine").write_text("mine")
    with pytest.raises(DataError, match="already there"):
        unpack(make_zip(tmp_path / "archive"), target)
    assert contents(target) == {"mine": b"mine"}


def test_what_a_kill_left_behind_is_cleared(tmp_path, target):
    scratch = target.parent / ".steepest-target"
    scratch.mkdir(parents=True)
    (scratch / "half").write_text("half of a file")
    unpack(make_zip(tmp_path / "archive"), target)
    assert contents(target) == MEMBERS


@both
def test_a_full_disk_is_told_and_nothing_stays(make, tmp_path, refused, monkeypatch):
    archive = make(tmp_path / "archive")
    fill_disk(monkeypatch, 500, suffix="a.txt")
    refused(archive, "the disk is full; make room")


def test_too_little_room_is_told_beforehand(tmp_path, refused, monkeypatch):
    archive = make_zip(tmp_path / "archive")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
    refused(archive, "10 bytes are free")


def test_nothing_half_unpacked_stays_after_an_interruption(tmp_path, target):
    class Stops:
        def task(self, description, total):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unpack(make_zip(tmp_path / "archive"), target, progress=Stops())
    assert list(target.parent.iterdir()) == []
