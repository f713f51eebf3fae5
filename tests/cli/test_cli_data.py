"""The data command as a user types it: lists, gets, checks, and says what is wrong in one line."""

from __future__ import annotations

import hashlib
import io
import json
import signal
import time
import zipfile
from dataclasses import replace

import pytest
import torch
from file_server import serving
from shell import assert_one_line, finish, run_here, start

from steepest.cli import data as command
from steepest.data import DATASETS, ImageSet, SealedLabels, catalogue
from steepest.data.catalogue import find_holding
from steepest.data.download import Patience
from steepest.data.streamed import Streamed
from steepest.errors import DataError

DATA = bytes(range(256)) * 4000
CAMVID = find_holding("camvid")


def make_camvid():
    """An archive with the folder that is taken out, and a file that is not."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{CAMVID.files[0].unpacking.folder}/train/a.png", DATA)
        archive.writestr("readme", "read me")
    return file.getvalue()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(command, "PATIENCE", Patience(retries=1, sleep=lambda _: None))
    with serving() as state:
        state.files = {"cifar-10-python.tar.gz": DATA, "camvid-segnet.zip": make_camvid()}
        yield state


@pytest.fixture
def data(tmp_path, monkeypatch):
    """The data folder that the environment names."""
    folder = tmp_path / "data"
    monkeypatch.setenv("STEEPEST_DATA", str(folder))
    return folder


@pytest.fixture
def small_cifar10(monkeypatch):
    """CIFAR-10 as if its official file were the one that the server has."""
    real = find_holding("cifar10")
    md5 = hashlib.md5(DATA).hexdigest()
    file = replace(real.files[0], md5=md5, size_bytes=len(DATA))
    small = replace(real, files=(file,))
    monkeypatch.setitem(catalogue._HOLDINGS._entries, "cifar10", small)
    return file


@pytest.fixture
def tiny(monkeypatch):
    """Register a data set of two images, the reader of which may be replaced."""
    DATASETS.names()

    def register(read=None, classes=("a", "b")):
        images = torch.zeros(2, 1, 2, 2, dtype=torch.uint8)
        train = images if read is None else Streamed(read, 2, (1, 2, 2), torch.uint8)

        def reader(root=None, *, side=2):
            return ImageSet(
                name="tiny",
                classes=classes,
                train_images=train,
                train_labels=SealedLabels(torch.tensor([0, 1])),
                test_images=images,
                test_labels=torch.tensor([1, 0]),
                mean=(0.0,),
                std=(1.0,),
            )

        monkeypatch.setitem(DATASETS._entries, "tiny", reader)

    return register


def rows_of(shown):
    return {line.split()[0]: line for line in shown.splitlines()[2:]}


def test_the_list_says_what_there_is_and_where(capsys, data):
    (data / "cifar10").mkdir(parents=True)
    shown = run_here(capsys, "data", "list")
    assert shown.code == 0
    assert shown.err == ""
    rows = rows_of(shown.out)
    assert set(rows) == set(DATASETS.names())
    assert rows["cifar10"].split() == [
        "cifar10",
        "classification",
        "50,000",
        "10,000",
        "10",
        "here",
    ]
    assert rows["digits"].endswith("10  built in")
    assert rows["cifar100"].endswith("100  not here")
    assert rows["npz"].endswith("your files")


def test_the_list_shows_compact_copies_with_their_option(capsys, data):
    (data / "camvid_240x180").mkdir(parents=True)
    assert rows_of(run_here(capsys, "data", "list").out)["camvid"].endswith("(source = shards)")


def test_the_list_without_a_data_folder_says_so(capsys, monkeypatch):
    monkeypatch.delenv("STEEPEST_DATA", raising=False)
    shown = run_here(capsys, "data", "list")
    assert shown.code == 0
    assert "STEEPEST_DATA names no data folder" in shown.err
    assert rows_of(shown.out)["cifar10"].endswith("not here")


def test_the_list_for_programs_has_everything(capsys, data):
    (data / "cifar10").mkdir(parents=True)
    entries = {e["name"]: e for e in json.loads(run_here(capsys, "data", "list", "--json").out)}
    assert entries["cifar10"]["where"] == "here"
    assert entries["cifar10"]["paths"] == [str(data / "cifar10")]
    assert entries["cifar10"]["files"][0]["md5"] == "c58f30108f718f92721af3b95e74349a"
    assert entries["svhn"]["where"] == "not here"
    assert entries["svhn"]["paths"] == []
    assert entries["svhn"]["terms"]


def test_a_data_set_is_downloaded_and_then_found_to_be_there(capsys, data, server, small_cifar10):
    argv = ("data", "get", "cifar10", "--quiet", "--url", server.url)
    first = run_here(capsys, *argv)
    assert first.code == 0, first.err
    place = data / "cifar-10-python.tar.gz"
    assert first.out.splitlines() == [
        f"cifar10 is there: {place}",
        f"Terms: {find_holding('cifar10').terms}",
    ]
    assert place.read_bytes() == DATA
    again = run_here(capsys, *argv)
    assert again.out == f"cifar10 is already there and whole: {place}\n"
    assert again.code == 0
    assert len(server.asked) == 1


def test_another_folder_is_used_and_named_for_later(capsys, data, server, tmp_path, small_cifar10):
    other = tmp_path / "other"
    shown = run_here(capsys, "data", "get", "cifar10", "--to", other, "--url", server.url)
    assert shown.code == 0
    assert (other / "cifar-10-python.tar.gz").is_file()
    assert f"export STEEPEST_DATA={other}" in shown.out
    assert not data.exists()


def test_a_dropped_connection_is_told_and_survived(capsys, data, server, small_cifar10):
    server.drops = [1000]
    shown = run_here(capsys, "data", "get", "cifar10", "--quiet", "--url", server.url)
    assert shown.code == 0
    assert "dropped after 1.0 kB; trying again in 1 s (1 of 1)" in shown.err


def test_a_missing_checksum_is_made_up_for_by_showing_one(capsys, data, server):
    shown = run_here(capsys, "data", "get", "camvid", "--quiet", "--url", server.url)
    assert shown.code == 0, shown.err
    md5 = hashlib.md5(server.files["camvid-segnet.zip"]).hexdigest()
    assert f"MD5 sum {md5}; there is no official one" in shown.err
    assert (data / "CamVid" / "train" / "a.png").read_bytes() == DATA
    assert not (data / "camvid-segnet.zip").exists()


@pytest.mark.parametrize("name", ["digits", "50c-clean"])
def test_what_needs_no_files_has_nothing_to_get(capsys, monkeypatch, name):
    monkeypatch.delenv("STEEPEST_DATA", raising=False)
    shown = run_here(capsys, "data", "get", name)
    assert shown.code == 0
    assert "there is nothing to get" in shown.out


def test_a_file_of_this_machine_is_brought_in(capsys, data, tmp_path, small_cifar10):
    (tmp_path / "from a friend.tar.gz").write_bytes(DATA)
    shown = run_here(capsys, "data", "get", "cifar10", "--from", tmp_path / "from a friend.tar.gz")
    assert shown.code == 0
    assert (data / "cifar-10-python.tar.gz").read_bytes() == DATA


def test_half_of_a_data_set_is_told_as_such(capsys, data, tmp_path, monkeypatch):
    real = find_holding("svhn")
    files = tuple(
        replace(file, md5=hashlib.md5(DATA).hexdigest(), size_bytes=len(DATA))
        for file in real.files
    )
    monkeypatch.setitem(catalogue._HOLDINGS._entries, "svhn", replace(real, files=files))
    (tmp_path / "train_32x32.mat").write_bytes(DATA)
    shown = run_here(capsys, "data", "get", "svhn", "--from", tmp_path)
    assert shown.code == 0
    assert "svhn is not complete" in shown.out
    assert "test_32x32.mat still to come" in shown.out


BAD = {
    "unknown data set": (["get", "cifar-10"], "did you mean 'cifar10'"),
    "unknown data set to check": (["check", "cifar-10"], "did you mean 'cifar10'"),
    "files of one's own": (["get", "npz"], "files of your own"),
    "an account": (
        ["get", "imagenet"],
        "by hand.*steepest data get imagenet --from",
    ),
    "an account, too": (["get", "cityscapes"], "leftImg8bit_trainvaltest.zip .*MD5 0a6e97e9"),
    "no such path": (["get", "cifar10", "--from", "nowhere"], "no such file or folder"),
    "a file address": (["get", "cifar10", "--url", "file:///etc/hostname"], "http:// or https://"),
    "one address for two": (["get", "svhn", "--url", "http://h/x"], "ending in /"),
    "no address": (["get", "svhn", "--url", "http://"], "http:// or https://"),
    "nobody's home": (["get", "cifar10", "--to", "~no-such-user/x"], "no such home folder"),
    "not there": (["check", "cifar10"], "steepest data get cifar10"),
    "unknown option": (["check", "digits", "--set", "size=3"], "unknown option"),
}


@pytest.mark.parametrize(("argv", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line(capsys, data, argv, message):
    assert_one_line(run_here(capsys, "data", *argv), message)


def test_two_origins_are_refused(capsys, data):
    shown = run_here(capsys, "data", "get", "cifar10", "--from", "x", "--url", "http://h/x")
    assert shown.code == 2
    assert "not allowed with" in shown.err


def test_no_data_folder_is_one_line(capsys, monkeypatch):
    monkeypatch.delenv("STEEPEST_DATA", raising=False)
    shown = run_here(capsys, "data", "get", "cifar10")
    assert_one_line(shown, "set STEEPEST_DATA, or give one with --to DIR")


def test_another_file_on_the_server_is_one_line(capsys, data, server):
    shown = run_here(capsys, "data", "get", "cifar10", "--quiet", "--url", server.url)
    assert_one_line(shown, "1024000 bytes instead of 170498071")
    assert not (data / "cifar-10-python.tar.gz").exists()


def test_a_missing_file_on_the_server_is_one_line(capsys, data, server):
    shown = run_here(capsys, "data", "get", "cifar10", "--url", server.url + "x/")
    assert_one_line(shown, "answers 404")


def test_a_redirect_to_a_file_is_one_line(capsys, data, server):
    server.redirects["cifar-10-python.tar.gz"] = "file:///etc/hostname"
    shown = run_here(capsys, "data", "get", "cifar10", "--url", server.url)
    assert_one_line(shown, "redirects to file:///etc/hostname, which is refused")


def test_a_whole_data_set_is_said_to_be_whole(capsys, tiny):
    tiny()
    shown = run_here(capsys, "data", "check", "tiny")
    assert shown.code == 0
    assert shown.out == (
        "tiny is whole: 2 training and 2 test samples of 1x2x2, 2 classes, classification\n"
    )


def test_the_built_in_data_set_is_whole(capsys):
    assert "1,297 training and 500 test samples" in run_here(capsys, "data", "check", "digits").out


class Damaged:
    """A reader of images that are damaged from some row on."""

    draws = 0

    def __init__(self, first):
        self.first = first

    def __call__(self, row, draw):
        if row >= self.first:
            raise DataError(f"{row}.png: truncated")
        return torch.zeros(1, 2, 2, dtype=torch.uint8)


def test_images_that_cannot_be_read_are_named(capsys, tiny):
    tiny(Damaged(1))
    shown = run_here(capsys, "data", "check", "tiny", "--quiet")
    assert_one_line(shown, r"tiny: 1 sample cannot be read: 1\.png: truncated$")
    assert run_here(capsys, "data", "check", "tiny", "--quick").code == 0
    tiny(Damaged(2))
    assert run_here(capsys, "data", "check", "tiny", "--quiet").code == 0


@pytest.fixture
def begin(server, data, tmp_path):
    """Start a download in a process of its own, and wait until half a megabyte has come."""
    server.hold_after = 500_000
    argv = ("data", "get", "camvid", "--to", data, "--url", server.url)
    processes = []

    def call():
        process = start(*argv, cwd=tmp_path)
        processes.append(process)
        part = data / "camvid-segnet.zip.part"
        while not part.exists() or part.stat().st_size < 500_000:
            assert process.poll() is None, finish(process).err
            time.sleep(0.01)
        return process, part

    yield call
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["kill", "Ctrl-C"])
def test_a_download_that_was_stopped_goes_on(capsys, data, server, begin, how):
    process, part = begin()
    second = run_here(capsys, "data", "get", "camvid", "--url", server.url)
    assert_one_line(second, "another process is getting camvid there")
    process.send_signal(how)
    ended = finish(process)
    assert ended.code == (130 if how == signal.SIGINT else -signal.SIGKILL)
    if how == signal.SIGINT:
        assert "run the same command again to go on" in ended.err
    assert part.stat().st_size == 500_000
    assert not (data / "camvid-segnet.zip").exists()
    assert not (data / "CamVid").exists()
    server.hold_after = None
    shown = run_here(capsys, "data", "get", "camvid", "--quiet", "--url", server.url)
    assert shown.code == 0, shown.err
    assert server.asked_ranges[-1] == "bytes=500000-"
    assert "going on after 500.0 kB" in shown.err
    assert (data / "CamVid" / "train" / "a.png").read_bytes() == DATA
