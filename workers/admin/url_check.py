"""What the address policy says to a URL, in words: before it is written into a file, and on the command line (G-20)."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bus.errors import TargetRefused
from bus.http.address_policy import AddressPolicy, Target, parse_target, vet
from bus.http.proxies import is_named, proxy_for


class UrlCheck(NamedTuple):
    """A verdict on a URL; `addresses` are those that would be connected to."""

    allowed: bool
    reason: str
    addresses: tuple[str, ...] = ()
    unresolved: bool = False
    """Refused only because its name has no address here and now."""
    place: str = ""
    """What would open it in the allow list: `host:port`; empty where nothing can be read of it."""


def look(url: str, policy: AddressPolicy, names: Mapping[str, Sequence[str]], proxy: str = "") -> UrlCheck:
    """Judge a URL as a carrier would; a name in `names` (lower case) has those addresses, any other is looked up.

    `proxy` is what `network.proxy` says; ProxyFailed where the environment names one that cannot be used.
    """
    try:
        target = parse_target(url)
    except TargetRefused as error:
        return UrlCheck(False, error.reason)
    place = f"[{target.host}]:{target.port}" if ":" in target.host else f"{target.host}:{target.port}"
    try:
        found = vet(target, _addresses(target, names), policy)
    except TargetRefused as error:
        return UrlCheck(False, error.reason, place=place)
    except OSError as error:
        if is_named(target, policy) and proxy_for(proxy, target) is not None:
            return UrlCheck(True, "the proxy resolves its name, which the allow list has", place=place)
        return UrlCheck(False, f"the name cannot be resolved: {error.strerror or error}", unresolved=True, place=place)
    return UrlCheck(True, "every address of it may be connected to", tuple(found), place=place)


def _addresses(target: Target, names: Mapping[str, Sequence[str]]) -> Sequence[str]:
    if target.literal is not None:
        return [str(target.literal)]
    if target.host in names:
        return names[target.host]
    answers = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    return [str(answer[4][0]) for answer in answers]
