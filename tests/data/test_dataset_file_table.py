from __future__ import annotations

import os
import pickle

import pytest

from steepest.data.file_table import list_files, list_folders
from steepest.errors import DataError


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")


def names(table):
    return [table.name(row) for row in range(len(table))]


@pytest.fixture
def tree(tmp_path):
    for name in [
        "b/2.jpg",
        "b/10.JPG",
        "b/deep/1.jpg",
        "a/ü.jpg",
        "a/.hidden.jpg",
        "a/x.txt",
        "c/",
    ]:
        if name.endswith("/"):
            (tmp_path / name).mkdir()
        else:
            touch(tmp_path / name)
    return tmp_path


def test_files_are_in_the_order_of_folders_and_names(tree):
    table = list_files(tree, ["a", "b", "c"], (".jpg",))
    assert names(table) == ["a/ü.jpg", "b/10.JPG", "b/2.jpg", "b/deep/1.jpg"]
    assert table.folder_of.tolist() == [0, 1, 1, 1]
    assert table.path(0) == tree / "a" / "ü.jpg"
    assert names(pickle.loads(pickle.dumps(table))) == names(table)


def test_folders_are_taken_as_they_are_named(tree):
    assert names(list_files(tree, ["b", "a"], ("2.jpg", "ü.jpg"))) == ["b/2.jpg", "a/ü.jpg"]
    assert len(list_files(tree, [], (".jpg",))) == 0
    assert len(list_files(tree, ["c"], (".jpg",))) == 0


def test_names_take_little_more_than_their_letters(tmp_path):
    for number in range(300):
        touch(tmp_path / "n01440764" / f"n01440764_{number:05}.JPEG")
    table = list_files(tmp_path, ["n01440764"], (".jpeg",))
    assert table.names.nbytes == 300 * 20
    assert len(pickle.dumps(table)) < 300 * 20 + 300 * 16 + 1000


def test_a_name_that_is_not_text_is_found_again(tmp_path):
    (tmp_path / "a").mkdir()
    raw = os.fsencode(tmp_path / "a") + b"/\xff.jpg"
    with open(raw, "wb") as file:  # noqa: PTH123 - the name is bytes
        file.write(b"here")
    assert list_files(tmp_path, ["a"], (".jpg",)).path(0).read_bytes() == b"here"


def test_links_to_folders_are_followed_for_classes_alone(tree):
    (tree / "link").symlink_to(tree / "b")
    (tree / "b" / "round").symlink_to(tree / "b")
    assert list_folders(tree) == ["a", "b", "c", "link"]
    assert names(list_files(tree, ["link"], (".jpg",)))[0] == "link/10.JPG"
    assert len(list_files(tree, ["b"], (".jpg",))) == 3


@pytest.mark.parametrize("kind", ["pipe", "broken link"])
def test_what_is_no_file_is_named(tree, kind):
    odd = tree / "a" / "odd.jpg"
    if kind == "pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to(tree / "nowhere.jpg")
    with pytest.raises(DataError, match=r"odd\.jpg: not a file"):
        list_files(tree, ["a"], (".jpg",))


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match="gone: cannot be listed"):
        list_files(tmp_path, ["gone"], (".jpg",))
    with pytest.raises(DataError, match="gone: cannot be listed"):
        list_folders(tmp_path / "gone")
