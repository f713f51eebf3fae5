"""A data set as a whole: downloaded, brought in, or found to be there."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from archives import contents, make_zip
from holdings import DATA, make_holding, official, packed, read_tiny

from steepest.data.base import DATASETS
from steepest.data.catalogue import Layout, Source, Unpacking
from steepest.data.download import Effort, obtain
from steepest.errors import DataError, InputError, RunFolderError

ONE = make_holding(official("one.bin"))
TWO = make_holding(official("a.bin"), official("b.bin", DATA + b"b"))
PACKED = make_holding(
    packed(), layouts=(Layout(("tiny",)), Layout(("shards",), (("source", "s"),)))
)
BY_HAND = make_holding(
    official("a.bin", url=""), official("b.bin", DATA + b"b", url=""), source=Source.BY_HAND
)


@pytest.fixture(autouse=True)
def reader(monkeypatch):
    DATASETS.names()
    monkeypatch.setitem(DATASETS._entries, "tiny", read_tiny)


@pytest.fixture
def told():
    return []


@pytest.fixture
def get(server, tmp_path, patience, told):
    """Get a data set from the server, or from a path, into a folder of its own."""
    server.files.update({"one.bin": DATA, "a.bin": DATA, "b.bin": DATA + b"b"})
    server.files["tiny.zip"] = make_zip(tmp_path / "tiny.zip").read_bytes()

    def call(holding, source=None, **more):
        settings = {"url": server.url} if source is None else {"source": source}
        effort = Effort(tell=told.append, patience=patience)
        return obtain(holding, tmp_path / "data", effort=effort, **{**settings, **more})

    return call


@pytest.fixture
def data(tmp_path):
    """What is in the data folder, but for the lock."""

    def look():
        found = contents(tmp_path / "data")
        return {name: found[name] for name in found if not name.endswith(".lock")}

    return look


def test_a_file_is_downloaded_once(get, data, server, tmp_path, told):
    assert get(ONE).paths == (tmp_path / "data" / "one.bin",)
    assert data() == {"one.bin": DATA}
    again = get(ONE)
    assert not again.new
    assert again.paths == (tmp_path / "data" / "one.bin",)
    assert len(server.asked) == 1
    assert told == []


def test_only_what_is_missing_is_downloaded(get, data, server, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.bin").write_bytes(DATA)
    get(TWO)
    assert data() == {"a.bin": DATA, "b.bin": DATA + b"b"}
    assert [path for path, _ in server.asked] == ["b.bin"]


def test_a_damaged_file_is_replaced(get, data, tmp_path, told):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "one.bin").write_bytes(DATA[:-1] + b"x")
    assert get(ONE).new
    assert data() == {"one.bin": DATA}
    assert "its MD5 sum is" in told[0]


def test_an_address_may_name_the_file_itself(get, server, data):
    server.files["elsewhere/renamed"] = DATA
    get(ONE, url=server.url + "elsewhere/renamed")
    assert data() == {"one.bin": DATA}


def test_several_files_need_the_address_of_their_folder(get, server):
    with pytest.raises(InputError, match=r"consists of a.bin and b.bin: .* ending in /"):
        get(TWO, url=server.url + "a.bin")


def test_an_archive_is_unpacked_and_removed(get, data, server, told):
    assert get(PACKED).new
    assert data() == {"tiny/a.txt": b"a" * 1000, "tiny/sub/b.txt": b"b"}
    assert "there is no official one to compare it with" in told[0]
    assert not get(PACKED).new
    assert len(server.asked) == 1


def test_an_archive_of_a_stopped_run_is_not_downloaded_again(get, data, server, tmp_path):
    (tmp_path / "data").mkdir()
    make_zip(tmp_path / "data" / "tiny.zip")
    get(PACKED)
    assert server.asked == []
    assert "tiny/a.txt" in data()


def test_a_page_instead_of_the_archive_does_not_stay(get, data, server):
    server.files["tiny.zip"] = b"<html>please sign in</html>"
    with pytest.raises(DataError, match="not an archive"):
        get(PACKED)
    assert data() == {}


def test_a_folder_that_its_reader_refuses_is_in_the_way(get, data, tmp_path):
    (tmp_path / "data" / "tiny").mkdir(parents=True)
    (tmp_path / "data" / "tiny" / "mine").write_text("mine")
    with pytest.raises(DataError, match=r"a.txt: missing; \S*tiny is in the way: move it"):
        get(PACKED)
    assert data() == {"tiny/mine": b"mine"}


def test_a_part_that_was_there_is_looked_into_before_all_is_said_to_be_there(get, tmp_path):
    both = replace(PACKED, layouts=(Layout(("tiny", "more")),))
    for place in (tmp_path / "copy" / "tiny" / "a.txt", tmp_path / "copy" / "more" / "b.txt"):
        place.parent.mkdir(parents=True)
        place.write_text("whole")
    (tmp_path / "data" / "tiny").mkdir(parents=True)
    with pytest.raises(DataError, match=r"a.txt: missing; \S*tiny is in the way: move it"):
        get(both, tmp_path / "copy")
    (tmp_path / "data" / "tiny").rmdir()
    assert get(both, tmp_path / "copy").missing == ()


def test_a_compact_copy_does_not_stand_in_for_the_official_files(get, data, tmp_path):
    (tmp_path / "data" / "shards").mkdir(parents=True)
    assert get(PACKED).new
    assert "tiny/a.txt" in data()


def test_what_needs_an_account_is_explained(get, data):
    with pytest.raises(DataError) as caught:
        get(BY_HAND, url=None)
    told = str(caught.value)
    assert "\n" not in told
    assert "http://nowhere.invalid/ asks for an account" in told
    assert f"a.bin (10.2 kB, MD5 {BY_HAND.files[0].md5}) and b.bin (" in told
    assert told.endswith("steepest data get tiny --from FOLDER")
    assert data() == {}


def test_a_mirror_may_have_what_otherwise_needs_an_account(get, data):
    get(BY_HAND)
    assert data() == {"a.bin": DATA, "b.bin": DATA + b"b"}


def test_a_folder_of_downloads_is_brought_in(get, data, tmp_path):
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    (downloads / "a.bin").write_bytes(DATA)
    (downloads / "other").write_bytes(b"other")
    first = get(BY_HAND, downloads)
    assert first.missing == ("b.bin",)
    assert first.paths == ()
    (downloads / "b.bin").write_bytes(DATA + b"b")
    assert get(BY_HAND, downloads).missing == ()
    assert data() == {"a.bin": DATA, "b.bin": DATA + b"b"}


def test_a_renamed_file_is_known_by_its_size(get, data, tmp_path):
    (tmp_path / "b (1).bin").write_bytes(DATA + b"b")
    assert get(BY_HAND, tmp_path / "b (1).bin").missing == ("a.bin",)
    assert data() == {"b.bin": DATA + b"b"}


def test_a_file_that_is_not_the_official_one_is_refused(get, data, tmp_path):
    (tmp_path / "a.bin").write_bytes(DATA[::-1])
    with pytest.raises(DataError, match=r"so it is not the official a.bin"):
        get(BY_HAND, tmp_path / "a.bin")
    (tmp_path / "c.bin").write_bytes(b"c")
    with pytest.raises(DataError, match=r"not a file of tiny, .* a.bin and b.bin"):
        get(BY_HAND, tmp_path / "c.bin")
    assert data() == {}


def test_an_archive_is_brought_in_unpacked_and_stays(get, data, tmp_path):
    get(PACKED, tmp_path / "tiny.zip")
    assert sorted(data()) == ["tiny/a.txt", "tiny/sub/b.txt"]
    assert (tmp_path / "tiny.zip").is_file()


@pytest.mark.parametrize("inside", [True, False])
def test_an_unpacked_copy_is_brought_in_after_its_reader_has_read_it(get, data, tmp_path, inside):
    copy = tmp_path / "disk" / "tiny"
    copy.mkdir(parents=True)
    (copy / "b.txt").write_text("b")
    given = copy if inside else copy.parent
    with pytest.raises(DataError, match=r"a.txt: missing"):
        get(PACKED, given)
    assert data() == {}
    (copy / "a.txt").write_text("a")
    get(PACKED, given)
    assert data() == {"tiny/a.txt": b"a", "tiny/b.txt": b"b"}
    assert contents(copy) == {"a.txt": b"a", "b.txt": b"b"}


def test_a_place_with_nothing_of_the_data_set_is_told(get, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no files of tiny in it; looked for tiny or shards"):
        get(PACKED, tmp_path / "empty")
    with pytest.raises(DataError, match="no such file or folder"):
        get(PACKED, tmp_path / "nowhere")


def test_a_file_can_be_brought_in_from_the_data_folder_itself(get, data, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.bin").write_bytes(DATA)
    get(BY_HAND, tmp_path / "data")
    assert data() == {"a.bin": DATA}


def test_a_file_that_sorts_another_must_come_first(get, tmp_path):
    sorting = Unpacking("", "tiny", sorted_by="kit.tar.gz")
    images = official("images.zip", (tmp_path / "tiny.zip").read_bytes(), unpacking=sorting)
    holding = make_holding(images, layouts=(Layout(("tiny",)),))
    with pytest.raises(DataError, match=r"kit.tar.gz is needed to sort it"):
        get(holding, tmp_path / "tiny.zip")


def test_a_second_process_is_refused(get, server, tmp_path, patience):
    server.hold_after = 100
    first = threading.Thread(target=get, args=(ONE,))
    first.start()
    assert server.holding.wait(30)
    with pytest.raises(RunFolderError, match="another process is getting tiny there"):
        get(ONE)
    server.let_go.set()
    first.join()
    assert not get(ONE).new


def test_a_folder_that_cannot_be_written_is_told(get, tmp_path):
    (tmp_path / "data").write_text("a file")
    with pytest.raises(RunFolderError, match="cannot be locked"):
        get(ONE)


def test_what_is_whole_on_a_disk_for_reading_alone_is_there(get, tmp_path):
    # In the place of the lock is what cannot be written, as everything would be.
    (tmp_path / "data" / ".steepest-tiny.lock").mkdir(parents=True)
    with pytest.raises(RunFolderError, match="cannot be locked"):
        get(ONE)
    (tmp_path / "data" / "one.bin").write_bytes(DATA)
    assert get(ONE).paths == (tmp_path / "data" / "one.bin",)


def test_links_in_a_circle_are_told(get, tmp_path):
    (tmp_path / "round").symlink_to(tmp_path / "round")
    with pytest.raises(DataError, match=r"round: (a broken link|no such file)"):
        get(ONE, tmp_path / "round")


def test_what_is_built_in_needs_nothing(tmp_path):
    holding = replace(ONE, source=Source.BUILT_IN, layouts=(), files=())
    assert not obtain(holding, tmp_path / "data").new
    assert not (tmp_path / "data").exists()
