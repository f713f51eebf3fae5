"""Under which names and numbers this machine is reached."""

from __future__ import annotations

import ipaddress
import socket

_ANY = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound to
_SOMEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses that are nobody's, to ask which of our own would be used to get there."""


def own_names() -> set[str]:
    """Return the names that other machines may have for this one, in small letters.

    The second is found without a name server, by asking all machines of the same network.
    """
    name = socket.gethostname().lower()
    # Without one, a request that names no machine would be let in.
    return {name, f"{name.partition('.')[0]}.local"} if name else set()


def list_addresses(host: str, listener: socket.socket) -> list[str]:
    """Return host names for addresses of the page, the most reliable first.

    Args:
        host: The address that is listened on.
        listener: The port.
    """
    if host not in _ANY:
        return [_bracketed(host)]
    families = [socket.AF_INET]
    if listener.family == socket.AF_INET6:
        only = listener.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
        families = [socket.AF_INET6] if only else [socket.AF_INET, socket.AF_INET6]
    # Others often cannot find the name, so that numbers come first.
    numbers = [_bracketed(number) for family in families for number in _own_numbers(family)]
    return [*numbers, socket.gethostname() or own_address(host)]


def own_address(host: str) -> str:
    """Return the host name for an address opened on this machine."""
    if host in _ANY:
        return "[::1]" if host == "::" else "127.0.0.1"
    return _bracketed(host)


def _own_numbers(family: socket.AddressFamily) -> list[str]:
    """Return numbers under which others reach this machine; none if it has no network."""
    found = []
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((_SOMEWHERE[family], 9))  # sends nothing
            found.append(probe.getsockname()[0])
    except OSError:
        pass
    try:
        known = socket.getaddrinfo(socket.gethostname(), None, family, socket.SOCK_STREAM)
        found += [str(entry[4][0]) for entry in known]
    except OSError:
        pass
    return [number for number in dict.fromkeys(found) if _is_for_others(number)]


def _is_for_others(number: str) -> bool:
    address = ipaddress.ip_address(number)
    return not (address.is_loopback or address.is_link_local or address.is_unspecified)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
