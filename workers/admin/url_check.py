"""Checks a URL against the address policy and explains the result, for `webhooks check` and before a URL is written (G-20)."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bus.errors import TargetRefused
from bus.http.address_policy import AddressPolicy, Target, parse_target, vet
from bus.http.proxies import is_named, proxy_for


class UrlCheck(NamedTuple):
    """Whether a URL may be used, and why; `addresses` are those that a carrier would connect to."""

    allowed: bool
    reason: str
    addresses: tuple[str, ...] = ()
    unresolved: bool = False
    """Whether it was refused only because its name cannot be resolved here and now."""
    place: str = ""
    """The allow-list entry that would allow it, `host:port`; empty if the URL cannot be parsed."""


def look(url: str, policy: AddressPolicy, names: Mapping[str, Sequence[str]], proxy: str = "") -> UrlCheck:
    """Check a URL as a carrier does; `names` has the addresses of host names (lower case), and other names are resolved.

    `proxy` is the value of `network.proxy`. Raises ProxyFailed if the environment names a proxy that cannot be used.
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
            return UrlCheck(True, "the allow list has its name, and the proxy resolves it", place=place)
        return UrlCheck(False, f"the name cannot be resolved: {error.strerror or error}", unresolved=True, place=place)
    return UrlCheck(True, "all of its addresses are allowed", tuple(found), place=place)


def _addresses(target: Target, names: Mapping[str, Sequence[str]]) -> Sequence[str]:
    if target.literal is not None:
        return [str(target.literal)]
    if target.host in names:
        return names[target.host]
    answers = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    return [str(answer[4][0]) for answer in answers]
