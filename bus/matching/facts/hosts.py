"""Finds the hosts that a command or a tool call names, and says what kind of host each is. No name is looked up."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import unquote

from bus.events import Event
from bus.lazy.regex import lazy_regex
from bus.matching.facts.kinds import HostKind
from bus.shell.commands import Command
from bus.shell.words import is_hidden
from bus.tool_words import one_spelling, texts_in

_URL: Final = lazy_regex(r"(?i)(?:--?[\w.-]+=)?([a-z][a-z0-9+.-]{1,15})://([^/\s\"'<>|?#\\]+)")
_PLAIN: Final = frozenset({"http", "ftp", "git", "ws", "telnet", "tftp", "svn", "rtsp", "ldap", "smtp"})
_BARE: Final = {
    "curl": "http",
    "wget": "http",
    "http": "http",
    "xh": "http",
    "aria2c": "http",
    "ftp": "ftp",
    "tftp": "tftp",
    "telnet": "telnet",
    "nc": "tcp",
    "ncat": "tcp",
    "netcat": "tcp",
    "dig": "dns",
    "nslookup": "dns",
    "host": "dns",
}
"""Programs whose operand is a host without a scheme, and the scheme that they use then."""
_REMOTE: Final = lazy_regex(r"(?:[^@/:\s]+@)?(\[[0-9a-fA-F:.]+\]|[^@/:\s\[\]]+):.*")
"""What `scp` and `rsync` copy from or to on another machine: `me@host:folder`."""
_COPIERS: Final = frozenset({"scp", "rsync"})
_SSH_VALUES: Final = frozenset("BbcDEeFIiJLlmOopQRSWw")
"""The options of `ssh` that have a value."""
_SWITCH: Final = lazy_regex(
    r"-[fgijklnqrsvzGIJLNOSV0-6#]+|--(?:ssl|tls|ssl-verify|udp|verbose|send-only|recv-only|keep-open|broker|silent|location|fail|insecure|quiet|verbose|head|get)"
)
"""Options without a value, for the programs of `_BARE`: the word behind another option may be its value."""
_HOST: Final = lazy_regex(
    r"(?i)(?:[\w.-]+@)?(\[[0-9a-f:.]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)+|0x[0-9a-f]+|\d{8,10})(?::\d+)?(?:/.*)?"
)
_NUMBER: Final = lazy_regex(r"(?i)[0-9][0-9a-fx.]*")
_LOCAL: Final = tuple(
    map(
        ip_network,
        [
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "::/127",
            "fc00::/7",
            "fe80::/10",
        ],
    )
)
_LOCAL_NAMES: Final = (".localhost", ".local", ".internal", ".lan", ".test", ".home.arpa", ".invalid")
_METADATA: Final = frozenset(
    {
        "169.254.169.254",
        "169.254.169.253",
        "169.254.170.2",
        "169.254.170.23",
        "100.100.100.200",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "metadata.google.internal",
        "metadata.goog",
        "metadata.tencentyun.com",
        "metadata",
        "instance-data",
        "instance-data.ec2.internal",
    }
)
_COLLECTORS: Final = (
    "webhook.site",
    "requestbin.com",
    "requestbin.net",
    "requestcatcher.com",
    "hookbin.com",
    "beeceptor.com",
    "pipedream.net",
    "oastify.com",
    "burpcollaborator.net",
    "interact.sh",
    "interactsh.com",
    "oast.fun",
    "oast.live",
    "oast.pro",
    "oast.me",
    "oast.online",
    "oast.site",
    "dnslog.cn",
    "ceye.io",
    "canarytokens.com",
    "transfer.sh",
    "file.io",
    "0x0.st",
    "ix.io",
    "termbin.com",
    "paste.rs",
    "temp.sh",
    "bashupload.com",
    "gofile.io",
    "catbox.moe",
    "ngrok.io",
    "ngrok.app",
    "ngrok-free.app",
    "ngrok-free.dev",
    "trycloudflare.com",
    "serveo.net",
    "localhost.run",
    "lhr.life",
    *(
        "pastebin.com",
        "hastebin.com",
        "dpaste.com",
        "dpaste.org",
        "paste.ee",
        "rentry.co",
        "controlc.com",
        "sprunge.us",
    ),
    *(
        "clbin.com",
        "p.ip.fi",
        "envs.sh",
        "uguu.se",
        "filebin.net",
        "tmpfiles.org",
        "oshi.at",
        "keep.sh",
        "pixeldrain.com",
    ),
    *(
        "wetransfer.com",
        "requestbin.io",
        "webhook.cool",
        "postb.in",
        "ptsv3.com",
        "requestrepo.com",
        "typedwebhook.tools",
    ),
    *("m.pipedream.com", "localtunnel.me", "tunnelmole.net", "pinggy.link", "pinggy.online", "bore.pub", "loclx.io"),
    "loca.lt",
)
_ADDRESSES: Final = frozenset({"url", "urls", "uri", "link", "href", "endpoint", "address"})


@lru_cache(maxsize=32)
def kinds_of(command: Command) -> frozenset[HostKind]:
    """What kinds of hosts a command names in its arguments; a host that the shell works out is left out."""
    found: set[HostKind] = set()
    for scheme, host in _hosts(command):
        if not is_hidden(host):
            found |= _kinds(scheme, host)
    return frozenset(found)


def kinds_of_call(event: Event) -> frozenset[HostKind]:
    """What kinds of hosts the addresses among a tool call's arguments name."""
    values = [value for name, value in event.input.items() if one_spelling(name) in _ADDRESSES]
    found: set[HostKind] = set()
    for word in (word for value in values for text in texts_in(value) for word in text.split()):
        if (url := _URL.match(word)) is not None:  # an address in the query of another one is not reached
            found |= _kinds(url[1].lower(), url[2])
    return frozenset(found)


def _hosts(command: Command) -> Iterator[tuple[str, str]]:
    """Schemes and hosts among the arguments, each host as it is written."""
    if command.program in _COPIERS and command.words:
        target = _REMOTE.fullmatch(command.words[-1])
        if target is not None and "://" not in command.words[-1]:
            yield "ssh", target[1]
    elif command.program == "ssh" and (host := _ssh_host(command.words)):
        yield "ssh", host
    bare = _BARE.get(command.program)
    before = ""
    for word in command.words:
        if "://" in word:  # not in a header's value, nor in the query of another address
            if (url := _URL.match(word)) is not None:
                yield url[1].lower(), url[2]
        elif bare and word[:1] != "-" and (not before or before[:1] != "-" or _SWITCH.fullmatch(before)):
            found = _HOST.fullmatch(word)
            if found is not None:
                yield bare, found[1]
        before = word


def _ssh_host(words: tuple[str, ...]) -> str:
    """The machine that `ssh` connects to; empty where it is an address with a scheme, or missing."""
    value = False
    for word in words:
        if value:
            value = False
        elif word[:1] == "-" and len(word) > 1:
            value = len(word) == 2 and word[1] in _SSH_VALUES
        else:
            return "" if "://" in word else word
    return ""


@lru_cache(maxsize=1024)
def _kinds(scheme: str, host: str) -> frozenset[HostKind]:
    name = _name(host)
    if not name or name in _METADATA:
        return frozenset(["metadata"]) if name else frozenset()
    address = _address(name)
    if address is not None:
        if str(address) in _METADATA:
            return frozenset(["metadata"])
        if any(address.version == network.version and address in network for network in _LOCAL):
            return frozenset()
    elif ("." not in name and scheme != "ssh") or name == "localhost" or name.endswith(_LOCAL_NAMES):
        return frozenset()
    found: set[HostKind] = {"public"}
    if scheme in _PLAIN:
        found.add("plain")
    if any(name == service or name.endswith(f".{service}") for service in _COLLECTORS):
        found.add("collector")
    return frozenset(found)


def _name(host: str) -> str:
    """A host without login, port, brackets and final dot, in small letters."""
    plain = unquote(host).rpartition("@")[2].lower()
    if plain[:1] == "[":
        return plain[1:].partition("]")[0]
    return re.sub(r":\d*\Z", "", plain).rstrip(".")


def _address(name: str) -> IPv4Address | IPv6Address | None:
    """The address that a name is, also written as one number, in hexadecimal or in octal; None for any other name."""
    with suppress(ValueError):
        address = ip_address(name)
        return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
    if _NUMBER.fullmatch(name):
        with suppress(OSError):
            return IPv4Address(socket.inet_aton(name))
    return None
