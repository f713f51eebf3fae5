"""One file from a server: whole and checked, or not there."""

from __future__ import annotations

import hashlib
import json
import shutil
from types import SimpleNamespace

import pytest
from full_disk import fill_disk

from steepest.data.download import Patience, Wanted, fetch
from steepest.errors import DataError, InputError

DATA = bytes(range(256)) * 2000
OTHER = DATA[::-1]


def md5_of(data):
    return hashlib.md5(data).hexdigest()


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def target(tmp_path):
    return tmp_path / "file.bin"


@pytest.fixture
def get(server, target, patience):
    """Fetch the server's file; what was told is in ``get.told``."""
    server.files["file.bin"] = DATA
    told = []

    def call(wanted=None, **more):
        settings = {"patience": patience, "tell": told.append, **more}
        return fetch(server.url + "file.bin", target, wanted, **settings)

    call.told = told
    return call


def stop_midway(get, server, after=1000):
    """Leave a part behind, as Ctrl-C does."""
    server.drops = [after]

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get(patience=Patience(sleep=stop))


def test_a_file_comes_whole_and_nothing_else_stays(get, target, tmp_path):
    assert get(Wanted(md5_of(DATA), len(DATA))) == md5_of(DATA)
    assert target.read_bytes() == DATA
    assert names_in(tmp_path) == ["file.bin"]
    assert get.told == []


def test_folders_on_the_way_are_made(server, tmp_path, patience):
    server.files["a"] = b"a"
    fetch(server.url + "a", tmp_path / "new" / "folder" / "a", patience=patience)
    assert (tmp_path / "new" / "folder" / "a").read_bytes() == b"a"


def test_a_dropped_connection_goes_on_where_it_stopped(get, server, target, waits):
    server.drops = [1000]
    get(Wanted(md5_of(DATA)))
    assert target.read_bytes() == DATA
    assert server.asked_ranges == [None, "bytes=1000-"]
    assert server.asked[1][1]["If-Range"] == '"one"'
    assert waits == [1.0]
    assert "the connection was dropped after 1.0 kB; trying again in 1 s (1 of 3)" in get.told[0]


def test_every_new_byte_renews_the_patience(get, server, target, waits):
    server.drops = [100] * 10
    get()
    assert target.read_bytes() == DATA
    assert waits == [1.0] * 10


def test_a_server_that_drops_without_end_is_given_up_with_the_part_kept(get, server, tmp_path):
    waits = []
    server.drops = [1000, 0, 0, 0, 0]
    with pytest.raises(DataError, match=r"dropped, 4 times in a row; run the same command again"):
        get(patience=Patience(retries=3, sleep=waits.append))
    assert waits == [1.0, 2.0, 4.0]
    assert (tmp_path / "file.bin.part").read_bytes() == DATA[:1000]
    assert "file.bin" not in names_in(tmp_path)


def test_a_server_without_ranges_starts_over_and_is_given_up_at_last(get, server, target):
    server.ranges = False
    server.drops = [1000]
    get()
    assert target.read_bytes() == DATA
    assert any("starts over" in line for line in get.told)
    target.unlink()
    server.drops = [1000] * 5
    with pytest.raises(DataError, match="4 times in a row"):
        get()


def test_an_interrupted_download_goes_on_at_the_next_call(get, server, target, tmp_path):
    stop_midway(get, server)
    assert names_in(tmp_path) == ["file.bin.part", "file.bin.part.json"]
    get()
    assert target.read_bytes() == DATA
    assert server.asked_ranges == [None, "bytes=1000-"]
    assert any("going on after 1.0 kB" in line for line in get.told)
    assert names_in(tmp_path) == ["file.bin"]


def test_a_file_that_changed_meanwhile_is_taken_from_the_beginning(get, server, target):
    stop_midway(get, server)
    server.files["file.bin"], server.etag = OTHER, '"two"'
    get(Wanted(md5_of(OTHER)))
    assert target.read_bytes() == OTHER


def test_a_server_that_ignores_versions_is_found_out(get, server, target):
    stop_midway(get, server)
    server.files["file.bin"], server.etag, server.heeds_versions = OTHER, '"two"', False
    get()
    assert target.read_bytes() == OTHER
    assert any("has changed" in line for line in get.told)


def test_another_length_of_the_whole_counts_as_a_change(get, server, target):
    server.etag = server.date = None
    stop_midway(get, server)
    server.files["file.bin"] = OTHER + b"more"
    get(Wanted(md5_of(OTHER + b"more")))
    assert target.read_bytes() == OTHER + b"more"


def test_without_any_version_or_checksum_nothing_is_pieced_together(get, server, target):
    server.etag = server.date = None
    stop_midway(get, server)
    get()
    assert server.asked_ranges == [None, None]
    assert target.read_bytes() == DATA


def test_with_a_checksum_pieces_are_tried_and_dropped_if_they_do_not_fit(get, server, target):
    server.etag = server.date = None
    stop_midway(get, server)
    server.files["file.bin"] = OTHER
    get(Wanted(md5_of(OTHER)))
    assert target.read_bytes() == OTHER
    assert server.asked_ranges == [None, "bytes=1000-", None]
    assert "the pieces do not make the official file; starting over" in get.told[-1]


def test_a_weak_tag_does_not_vouch_for_bytes(get, server):
    server.etag = 'W/"one"'
    stop_midway(get, server)
    get()
    assert server.asked[1][1]["If-Range"] == "Sun, 09 Sep 2001 01:46:40 GMT"


def test_the_part_of_another_address_is_not_used(get, server, target, patience):
    stop_midway(get, server)
    server.files["other.bin"] = OTHER
    fetch(server.url + "other.bin", target, patience=patience)
    assert target.read_bytes() == OTHER
    assert server.asked_ranges == [None, None]


@pytest.mark.parametrize(
    "notes", [None, b"", b"[]", b'{"url": 3}', b'{"validator": 1}', b"\xff"], ids=repr
)
def test_a_part_without_readable_notes_is_not_used(get, server, target, tmp_path, notes):
    stop_midway(get, server)
    path = tmp_path / "file.bin.part.json"
    path.unlink() if notes is None else path.write_bytes(notes)
    get()
    assert server.asked_ranges == [None, None]
    assert target.read_bytes() == DATA


def test_a_complete_part_needs_no_request(get, server, target, tmp_path):
    stop_midway(get, server)
    (tmp_path / "file.bin.part").write_bytes(DATA)
    get(Wanted(md5_of(DATA)))
    assert len(server.asked) == 1
    assert target.read_bytes() == DATA


def test_a_part_that_is_too_long_is_dropped(get, server, target, tmp_path):
    stop_midway(get, server)
    (tmp_path / "file.bin.part").write_bytes(DATA + b"more")
    get()
    assert server.asked_ranges == [None, None]
    assert target.read_bytes() == DATA


def test_a_file_that_shrank_is_taken_from_the_beginning(get, server, target, tmp_path):
    stop_midway(get, server)
    notes = tmp_path / "file.bin.part.json"
    notes.write_text(json.dumps({**json.loads(notes.read_text()), "total_bytes": None}))
    server.files["file.bin"], server.heeds_versions = DATA[:500], False
    get()
    assert target.read_bytes() == DATA[:500]
    assert any("a shorter file" in line for line in get.told)


def test_a_wrong_checksum_leaves_nothing_behind(get, tmp_path):
    with pytest.raises(DataError, match=f"MD5 sum is {md5_of(DATA)} instead of {'0' * 32}"):
        get(Wanted("0" * 32))
    assert names_in(tmp_path) == []


def test_a_wrong_checksum_leaves_the_older_file_alone(get, target):
    target.write_bytes(b"older")
    with pytest.raises(DataError, match="MD5"):
        get(Wanted("0" * 32))
    assert target.read_bytes() == b"older"


def test_another_size_is_refused_before_a_byte_is_taken(get, tmp_path):
    with pytest.raises(DataError, match="512000 bytes instead of 7, so it is not the official"):
        get(Wanted(size_bytes=7))
    assert names_in(tmp_path) == []


def test_an_answer_without_a_length_is_taken_to_its_end(get, server, target):
    server.tells_length = False
    assert get() == md5_of(DATA)
    assert target.read_bytes() == DATA


def test_an_answer_without_a_length_may_not_outgrow_the_wanted_size(get, server, tmp_path):
    server.tells_length = False
    with pytest.raises(DataError, match="more than 1000 bytes come"):
        get(Wanted(size_bytes=1000))
    assert names_in(tmp_path) == []


def test_an_answer_in_chunks_that_breaks_off_is_not_taken_for_whole(get, server, target):
    server.chunked, server.drops = True, [1000]
    get()
    assert target.read_bytes() == DATA
    assert server.asked_ranges == [None, "bytes=1000-"]
    assert any("the connection failed" in line for line in get.told)


def test_the_length_may_be_told_later(get, server, target):
    server.chunked, server.drops = True, [1000]

    def sleep(_):
        server.chunked, server.drops = False, [500] if len(server.asked) == 1 else []

    get(patience=Patience(sleep=sleep))
    assert target.read_bytes() == DATA
    assert server.asked_ranges == [None, "bytes=1000-", "bytes=1500-"]


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_refusal_is_not_asked_twice(get, server, waits, status):
    server.statuses = [status]
    with pytest.raises(DataError, match=rf"answers {status} .*--url.*--from"):
        get()
    assert len(server.asked) == 1
    assert waits == []


def test_a_server_out_of_order_is_asked_again_when_it_says(get, server, target, waits):
    server.statuses, server.more_headers = [503, 500], {"Retry-After": "7"}
    get()
    assert target.read_bytes() == DATA
    assert waits == [7.0, 7.0]


def test_nobody_waits_longer_than_a_minute():
    assert Patience().wait_seconds(2, asked_seconds=99999) == 60
    assert Patience().wait_seconds(50) == 60


def test_a_redirect_is_followed_with_the_range(get, server, target):
    stop_midway(get, server)
    server.files["moved.bin"] = DATA
    server.redirects["file.bin"] = server.url + "moved.bin"
    get()
    assert target.read_bytes() == DATA
    assert server.asked_ranges[-1] == "bytes=1000-"


@pytest.mark.parametrize("place", ["file:///etc/hostname", "ftp://127.0.0.1/x", "data:,x"])
def test_a_redirect_out_of_the_web_is_refused(get, server, tmp_path, place):
    server.redirects["file.bin"] = place
    with pytest.raises(DataError, match=f"redirects to {place}, which is refused"):
        get()
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("place", ["http://[::1", "http://a..b/x"])
def test_a_redirect_to_what_is_no_address_is_told(get, server, place):
    server.redirects["file.bin"] = place
    with pytest.raises(DataError, match=r"or where it redirects to, cannot be asked .*--url"):
        get()


def test_an_address_may_have_letters_of_any_kind(server, target, patience):
    server.files["%C3%BC.bin"] = DATA
    fetch(server.url + "ü.bin", target, patience=patience)
    assert target.read_bytes() == DATA


def test_a_password_in_an_address_is_neither_used_nor_shown(target):
    with pytest.raises(
        InputError, match=r"of h\.org that names a user cannot be.*--from"
    ) as caught:
        fetch("https://me:secret@h.org/x", target)
    assert "secret" not in str(caught.value)


def test_a_proxy_that_fails_is_named_without_its_password(target, patience, monkeypatch):
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", "http://me:secret@127.0.0.1:9")
    with pytest.raises(DataError, match=r"through the proxy 127\.0\.0\.1:9 failed") as caught:
        fetch("http://example.org/x", target, patience=patience)
    assert "secret" not in str(caught.value)


def test_redirects_in_a_circle_end(get, server):
    server.redirects["file.bin"] = server.url + "file.bin"
    with pytest.raises(DataError, match="answers 302"):
        get()


def test_a_redirect_from_https_to_http_is_refused():
    from email.message import Message
    from urllib.request import Request

    from steepest.core.http_requests import _Redirects

    headers = Message()
    headers["Location"] = "http://example.org/file"
    with pytest.raises(DataError, match=r"redirects to http://example.org/file, which"):
        _Redirects().http_error_302(
            Request("https://example.org/file"), None, 302, "moved", headers
        )


@pytest.mark.parametrize(
    "url", ["file:///etc/hostname", "ftp://h/x", "", "x", "http://", "http://h:x/", "http://h/a b"]
)
def test_an_address_that_is_not_of_the_web_is_refused(url, target):
    with pytest.raises(InputError, match="http:// or https://"):
        fetch(url, target)


def test_nobody_at_home_is_told_after_the_last_try(server, target, waits, patience):
    url = "http://127.0.0.1:9/x"  # the port of a service that nobody runs
    with pytest.raises(DataError, match=r"the connection failed \(.*refused.*\), 4 times in a row"):
        fetch(url, target, patience=patience)
    assert waits == [1.0, 2.0, 4.0]


def test_a_silent_connection_is_left_and_taken_up_again(get, server, target):
    server.hold_after = 1000

    def go_on(_):
        server.hold_after = None

    get(patience=Patience(timeout_seconds=0.2, sleep=go_on))
    assert target.read_bytes() == DATA
    assert server.asked_ranges == [None, "bytes=1000-"]


def test_a_full_disk_keeps_the_part_for_the_next_time(get, server, target, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        fill_disk(patched, 5000, suffix=".part")
        with pytest.raises(DataError, match=r"the disk is full \(5.0 kB are kept in file.bin.part"):
            get()
    assert (tmp_path / "file.bin.part").read_bytes() == DATA[:5000]
    get()
    assert target.read_bytes() == DATA
    assert server.asked_ranges == [None, "bytes=5000-"]


def test_too_little_room_is_told_before_the_first_byte(get, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(DataError, match=r"512.0 kB are needed and 1.0 kB are free; make room"):
        get()
    assert "file.bin" not in names_in(tmp_path)


def test_a_folder_that_cannot_be_made_is_told(server, tmp_path, patience):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="cannot be written"):
        fetch(server.url + "x", tmp_path / "file" / "x", patience=patience)
