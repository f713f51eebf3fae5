"""Only the page itself, opened with the right token, is let in."""

from __future__ import annotations

import pytest
from drawn_shapes import draw_shapes
from starlette.testclient import TestClient
from web_pages import ADDRESS, TOKEN, is_one_line, open_pages, stranger

from steepest.labelling.web.gate import MOST_BYTES, MOST_UPLOAD_BYTES, Gate


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    photos = draw_shapes(tmp_path_factory.mktemp("gate") / "photos", 4)
    with open_pages(photos) as (project, client):
        yield project, client


def refused(answer, status=403):
    return answer.status_code == status and is_one_line(answer.text)


def test_nothing_is_shown_without_the_token(pages):
    outside = stranger(pages[1])
    sample = pages[0].queue.samples()[0].sample
    for address in ("/", "/task", "/static/page.js", f"/picture?sample={sample}", "/export/csv"):
        assert refused(outside.get(address))
    assert refused(outside.get("/?token=wrong"))
    assert refused(outside.get("/?token="))
    assert refused(outside.get("/", headers={"cookie": "steepest=wrong"}))
    assert refused(outside.get("/", headers={"cookie": b"steepest=\xff; ="}))


def own_cookie(client):
    return f"steepest={client.cookies['steepest']}"


def test_the_token_is_exchanged_for_a_cookie_and_leaves_the_address(pages):
    entered = stranger(pages[1]).get(f"/?token={TOKEN}", follow_redirects=False)
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    cookies = entered.headers.get_list("set-cookie")
    assert all("httponly" in one.lower() and "samesite=strict" in one.lower() for one in cookies)
    assert "max-age" not in cookies[0].lower()  # ends with the browser, if not earlier
    assert TOKEN not in str(entered.headers)
    assert entered.headers["cache-control"] == "no-store"
    assert TOKEN not in pages[1].get("/").text


def test_the_token_is_no_cookie(pages):
    assert refused(stranger(pages[1]).get("/task", headers={"cookie": f"steepest={TOKEN}"}))


def test_a_cookie_dies_with_its_server(pages):
    async def nothing(scope, receive, send):
        raise AssertionError

    later = TestClient(Gate(nothing, token=TOKEN), base_url=ADDRESS)
    assert refused(later.get("/task", headers={"cookie": own_cookie(pages[1])}))


def test_a_browser_is_not_redirected_from_the_address_which_it_would_remember(pages):
    browser = stranger(pages[1])
    accept = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    entered = browser.get(f"/?token={TOKEN}", headers=accept, follow_redirects=False)
    assert (entered.status_code, entered.headers["refresh"]) == (403, "0; url=/")
    assert TOKEN not in entered.text + str(entered.headers)
    assert browser.get("/task").status_code == 200
    wrong = browser.get("/?token=wrong", headers=accept)
    assert refused(wrong)
    assert "refresh" not in wrong.headers


@pytest.mark.parametrize(
    "other", [b'seen={"a": 1}', b"two words=1", b"caf\xe9=1", b'open="', b"=", b"alone"]
)
def test_cookies_of_other_programs_on_this_machine_lock_nobody_out(pages, other):
    own = own_cookie(pages[1]).encode()
    for cookies in (other + b"; " + own, own + b"; " + other):
        assert stranger(pages[1]).get("/", headers={"cookie": cookies}).status_code == 200


def test_a_ticket_opens_once(pages):
    gate: Gate = pages[1].app
    ticket = gate.issue_ticket()
    first, second = stranger(pages[1]), stranger(pages[1])
    assert first.get(f"/?token={ticket}").status_code == 200
    assert refused(second.get(f"/?token={ticket}"))
    assert first.get("/task").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"origin": "http://[::1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_another_site_is_refused_even_with_the_cookie(pages, headers):
    assert refused(pages[1].get("/task", headers=headers))
    assert refused(pages[1].post("/undo", headers=headers))


def test_a_plain_form_cannot_change_anything(pages):
    project, client = pages
    bare = stranger(client)
    bare.get(f"/?token={TOKEN}")
    sample = project.queue.samples()[0].sample
    assert refused(bare.post("/answer", data={"sample": sample, "label": "cat"}))
    assert project.queue.label_of(sample).labels is None


def test_the_own_origin_is_let_in(pages):
    own = {"origin": "http://127.0.0.1:8433", "sec-fetch-site": "same-origin"}
    assert pages[1].get("/task", headers=own).status_code == 200
    tunnel = {"host": "localhost:9000", "origin": "http://localhost:9000"}
    cookie = {"cookie": own_cookie(pages[1])}
    assert stranger(pages[1]).get("/task", headers={**tunnel, **cookie}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8433", "192.0.2.7:8433", "", "[::1"]
)
def test_a_name_that_was_made_to_lead_here_is_refused(pages, host):
    cookie = {"cookie": own_cookie(pages[1])}
    assert refused(stranger(pages[1]).get("/task", headers={"host": host, **cookie}))


def test_a_server_for_others_answers_to_numbers_and_its_own_name_alone():
    async def nothing(scope, receive, send):
        raise AssertionError

    gate = Gate(nothing, token=TOKEN, host="0.0.0.0")
    assert gate._knows_host("192.0.2.7:8433")
    assert gate._knows_host("localhost:1")
    assert not gate._knows_host("evil.example:8433")


def test_what_is_too_large_or_of_unknown_length_is_refused(pages):
    client = pages[1]
    assert refused(client.post("/answer", content=b"x" * (MOST_BYTES + 1)), 413)
    long = {"content-length": str(MOST_UPLOAD_BYTES + 1)}
    assert refused(client.post("/import", content=b"", headers=long), 413)
    assert refused(client.post("/answer", content=iter([b"sample=a"])), 411)
    assert refused(client.post("/answer", headers={"content-length": "many"}), 400)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_refused(pages, method):
    assert refused(pages[1].request(method, "/task"), 405)


def test_every_answer_is_kept_from_being_embedded_sniffed_or_stored(pages):
    sample = pages[0].queue.samples()[0].sample
    for address in ("/", "/task", "/nowhere", f"/picture?sample={sample}"):
        headers = pages[1].get(address).headers
        assert headers["content-security-policy"].startswith("default-src 'self';")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        kept = headers["cache-control"]
        assert kept.startswith("private") if "/picture" in address else kept == "no-store"


def test_pages_hold_no_script_or_style_of_their_own_and_load_nothing_from_elsewhere(pages):
    for address in ("/", "/grid", "/progress", "/review", "/history", "/images", "/files"):
        page = pages[1].get(address).text
        assert "<script>" not in page
        assert " style=" not in page
        assert "onclick" not in page
        assert "://" not in page
