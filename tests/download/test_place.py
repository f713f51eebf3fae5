"""Files brought in from the same machine: linked or copied, whole or not at all."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from archives import contents
from full_disk import fill_disk

from steepest.data.download.files import place
from steepest.errors import DataError


@pytest.fixture
def tree(tmp_path):
    """A folder with two files, one of them in a subfolder."""
    folder = tmp_path / "tree"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_bytes(b"a" * 1000)
    (folder / "sub" / "b.txt").write_bytes(b"b")
    return folder


@pytest.fixture
def no_links(monkeypatch):
    def refuse(self, target):
        raise OSError(errno.EXDEV, "another disk")

    monkeypatch.setattr(Path, "hardlink_to", refuse)


def test_a_file_on_the_same_disk_shares_its_bytes(tree, tmp_path):
    target = tmp_path / "data" / "a"
    place(tree / "a.txt", target)
    assert target.samefile(tree / "a.txt")
    assert list(target.parent.iterdir()) == [target]


def test_a_file_on_another_disk_is_copied(tree, tmp_path, no_links):
    target = tmp_path / "data" / "a"
    place(tree / "a.txt", target)
    assert target.read_bytes() == b"a" * 1000
    assert not target.samefile(tree / "a.txt")


def test_an_older_file_is_replaced(tree, tmp_path):
    (tmp_path / "a").write_text("older")
    place(tree / "a.txt", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"a" * 1000


@pytest.mark.parametrize("linked", [True, False])
def test_a_folder_comes_with_all_its_files(tree, tmp_path, request, linked):
    if not linked:
        request.getfixturevalue("no_links")
    target = tmp_path / "data" / "copy"
    place(tree, target)
    assert contents(target) == contents(tree)
    assert (target / "a.txt").samefile(tree / "a.txt") is linked


def test_links_to_files_are_followed_and_links_to_folders_refused(tree, tmp_path):
    (tree / "link.txt").symlink_to(tree / "a.txt")
    place(tree, tmp_path / "copy")
    assert not (tmp_path / "copy" / "link.txt").is_symlink()
    assert (tmp_path / "copy" / "link.txt").read_bytes() == b"a" * 1000
    (tree / "round").symlink_to(tree)
    with pytest.raises(DataError, match="round: a link to a folder; give the folder itself"):
        place(tree, tmp_path / "second")
    assert not (tmp_path / "second").exists()


def test_a_link_that_leads_nowhere_is_refused(tree, tmp_path):
    (tree / "dead").symlink_to(tree / "nowhere")
    with pytest.raises(DataError, match="dead: neither a file nor a folder"):
        place(tree, tmp_path / "copy")


def test_a_folder_is_not_put_into_itself(tree):
    with pytest.raises(DataError, match="lies within"):
        place(tree, tree / "sub" / "copy")
    assert not (tree / "sub" / "copy").exists()


def test_an_empty_folder_is_told(tmp_path):
    (tmp_path / "empty" / "sub").mkdir(parents=True)
    with pytest.raises(DataError, match="nothing in it"):
        place(tmp_path / "empty", tmp_path / "copy")


def test_a_full_disk_is_told_and_nothing_stays(tree, tmp_path, no_links, monkeypatch):
    fill_disk(monkeypatch, 500)
    with pytest.raises(DataError, match="the disk is full"):
        place(tree, tmp_path / "data" / "copy")
    assert list((tmp_path / "data").iterdir()) == []


def test_room_is_needed_only_for_copies(tree, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
    place(tree, tmp_path / "copy")
    monkeypatch.setattr("steepest.data.download.files._device", lambda _: -1)
    with pytest.raises(DataError, match=r"1.0 kB are needed and 10 bytes are free"):
        place(tree, tmp_path / "second")


def test_what_a_kill_left_behind_is_cleared(tree, tmp_path):
    (tmp_path / ".steepest-copy").mkdir()
    (tmp_path / ".steepest-copy" / "half").write_text("half")
    place(tree, tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(tree)
    assert not (tmp_path / ".steepest-copy").exists()
