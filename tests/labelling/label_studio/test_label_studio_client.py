"""Requests: the token stays where it belongs, failures are repeated or told in one line."""

from __future__ import annotations

import pytest
from fake_label_studio import PERSONAL, TOKEN, serving
from small_loop import make_client

from steepest.errors import InputError
from steepest.labelling.label_studio.client import (
    Account,
    ServerError,
    UnavailableError,
    check_address,
    find_account,
)

QUERY = {"page": 1, "page_size": 10}


def told_once(error):
    text = str(error.value)
    assert TOKEN not in text
    assert PERSONAL not in text
    assert "\n" not in text
    return text


def test_the_token_goes_into_one_header_and_nowhere_else(server, client):
    assert client.get("/api/projects/", **QUERY) == {"results": [], "next": None}
    _, path, headers = server.asked[0]
    assert headers["Authorization"] == f"Token {TOKEN}"
    assert TOKEN not in path
    assert TOKEN not in repr(client)
    assert TOKEN not in repr(client.account)


def test_a_personal_token_is_exchanged_and_again_once_its_pass_has_run_out(server):
    client = make_client(server.url, PERSONAL)
    client.get("/api/projects/", **QUERY)
    client.get("/api/projects/", **QUERY)
    assert server.exchanges == 1
    server.bearer = "another"
    client.get("/api/projects/", **QUERY)
    assert server.exchanges == 2
    assert "pass-" not in repr(client)


def test_failures_of_the_server_are_waited_out(server, client):
    server.failures = [502, 503]
    assert client.get("/api/projects/", **QUERY)["results"] == []
    assert client.waits == [1.0, 2.0]


def test_after_the_last_retry_the_failure_is_told_without_the_token(server, client):
    server.failures = [500, 500, 500]
    with pytest.raises(UnavailableError, match="status 500") as error:
        client.get("/api/projects/", **QUERY)
    assert "on strike" in told_once(error)
    assert len(server.asked) == 3


def test_what_makes_something_is_never_repeated_blindly(server, client):
    server.failures = [500]
    with pytest.raises(UnavailableError):
        client.post("/api/projects/", {})
    assert len(server.asked) == 1


def test_a_server_that_is_not_there_is_told_of(server):
    client = make_client("http://127.0.0.1:1", retries=0)
    with pytest.raises(UnavailableError, match="no answer") as error:
        client.get("/api/projects/", **QUERY)
    told_once(error)


@pytest.mark.parametrize(("status", "words"), [(401, "token"), (403, "may not"), (404, "404")])
def test_a_refusal_is_not_repeated(server, client, status, words):
    server.failures = [status]
    with pytest.raises(ServerError, match=words) as error:
        client.get("/api/projects/", **QUERY)
    told_once(error)
    assert len(server.asked) == 1


def test_a_redirect_to_another_host_does_not_carry_the_token(server, client):
    with serving() as other:
        server.redirect = other.url
        for ask in (lambda: client.get("/api/projects/"), lambda: client.post("/api/x/", {})):
            with pytest.raises(ServerError, match=r"redirects to http://127\.0\.0\.1:\d") as error:
                ask()
            told_once(error)
        assert other.asked == []


@pytest.mark.parametrize("place", ["http://h:port", "http://h:99999", "http://[bad"])
def test_a_redirect_to_what_is_no_address_is_told_of(place, server, client):
    server.redirect = place
    for ask in (lambda: client.get("/api/projects/"), lambda: client.post("/api/x/", {})):
        with pytest.raises(ServerError, match="redirects to an address that cannot") as error:
            ask()
        told_once(error)


def test_something_that_is_no_label_studio_is_told_of(server, client, monkeypatch):
    monkeypatch.setattr("fake_label_studio.json.dumps", lambda _: "<html>a shop</html>")
    with pytest.raises(ServerError, match="as Label Studio does") as error:
        client.get("/api/projects/", **QUERY)
    told_once(error)


@pytest.mark.parametrize(
    "url",
    ["", "ftp://host", "host:8080", "http://", "http://a b", "http://u:p@host", "http://h?q=1"],
)
def test_an_address_that_cannot_be_used_is_refused_without_being_shown(url):
    with pytest.raises(InputError) as error:
        check_address(url)
    assert "u:p" not in str(error.value)


def test_address_and_token_come_from_the_environment():
    known = {"LABEL_STUDIO_URL": "http://a/", "LABEL_STUDIO_TOKEN": f" {TOKEN}\n"}
    assert find_account(None, known) == Account("http://a", TOKEN)
    assert find_account("https://b:8443/ls", known).url == "https://b:8443/ls"
    with pytest.raises(InputError, match="--url"):
        find_account(None, {"LABEL_STUDIO_TOKEN": TOKEN})
    with pytest.raises(InputError, match="LABEL_STUDIO_TOKEN is not set"):
        find_account("http://a", {})
    with pytest.raises(InputError, match="no token has") as error:
        find_account("http://a", {"LABEL_STUDIO_TOKEN": "ab\r\nHost: evil"})
    assert "evil" not in str(error.value)
