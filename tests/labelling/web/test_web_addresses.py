"""Which addresses are told to others, and which names are answered to."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from steepest.labelling.web import addresses
from steepest.labelling.web.addresses import list_addresses, own_address, own_names
from steepest.labelling.web.gate import Gate


@pytest.fixture
def network(monkeypatch):
    """A machine with a name and some numbers, one of which is this machine's alone."""
    numbers = ["127.0.1.1", "192.0.2.20", "169.254.3.3", "198.51.100.4", "192.0.2.20"]

    def getaddrinfo(name, port, family, kind):
        assert name == "Desk.lan"
        if family == socket.AF_INET6:
            return [(family, kind, 6, "", ("fe80::1%2", 0, 0, 2))]
        return [(family, kind, 6, "", (number, 0)) for number in numbers]

    def no_route(*_):
        raise OSError("Network is unreachable")

    monkeypatch.setattr(addresses.socket, "gethostname", lambda: "Desk.lan")
    monkeypatch.setattr(addresses.socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(addresses.socket, "socket", no_route)


class Listener:
    def __init__(self, family=socket.AF_INET, only=0):
        self.family = family
        self._only = only

    def getsockopt(self, level, name):
        assert (level, name) == (socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
        return self._only


@pytest.mark.usefixtures("network")
def test_for_all_networks_numbers_come_first_and_the_name_last():
    expected = ["192.0.2.20", "198.51.100.4", "Desk.lan"]
    assert list_addresses("0.0.0.0", Listener()) == expected
    assert list_addresses("::", Listener(socket.AF_INET6)) == expected
    assert list_addresses("::", Listener(socket.AF_INET6, only=1)) == ["Desk.lan"]


@pytest.mark.usefixtures("network")
def test_an_address_that_was_asked_for_is_the_only_one():
    assert list_addresses("192.0.2.9", Listener()) == ["192.0.2.9"]
    assert list_addresses("2001:db8::7", Listener()) == ["[2001:db8::7]"]


@pytest.mark.parametrize(
    ("host", "expected"),
    [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("192.0.2.9", "192.0.2.9")],
)
def test_the_own_browser_needs_no_network(host, expected):
    assert own_address(host) == expected


def test_numbers_of_this_very_machine_are_numbers():
    with socket.socket() as listener:
        *numbers, name = list_addresses("0.0.0.0", listener)
    assert name == socket.gethostname()
    assert not any(ipaddress.ip_address(number).is_loopback for number in numbers)


async def nothing(scope, receive, send):
    raise AssertionError


@pytest.mark.usefixtures("network")
def test_a_server_for_others_answers_to_its_name_in_the_local_network():
    gate = Gate(nothing, token="t", host="0.0.0.0")
    for name in ("desk.local", "Desk.Local:8433", "desk.lan:8433", "192.0.2.20:8433"):
        assert gate._knows_host(name)
    for name in (
        *("other.local", "desk.local.evil.example", "x.desk.local", "desk.localx", "local"),
        *(".local", "", "desk.lan.local", "evil.example"),
    ):
        assert not gate._knows_host(name)


@pytest.mark.usefixtures("network")
def test_a_server_for_this_machine_alone_answers_to_no_name_of_the_network():
    gate = Gate(nothing, token="t", host="127.0.0.1")
    assert not any(map(gate._knows_host, ("desk.local", "desk.lan", "192.0.2.20")))


def test_a_machine_without_a_name_is_not_known_by_an_empty_one(monkeypatch):
    monkeypatch.setattr(addresses.socket, "gethostname", str)
    assert own_names() == set()
    assert not Gate(nothing, token="t", host="0.0.0.0")._knows_host("")
