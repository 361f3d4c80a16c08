"""Where the bus may connect: one strict URL parser, one table of address ranges, one allow list.

The author of a configuration names a webhook's URL, and the machine that posts to it can often reach addresses that the
author cannot. So: parse once and strictly, check *every* address that the resolver returned, connect to exactly the
addresses that `vet` returns, and repeat all of it at the next attempt, since DNS answers may change in between.

The ranges follow IANA's special-purpose registries and are spelled out, because `ipaddress.is_global` differs by patch
version (CVE-2024-4032) and calls multicast, NAT64, 6to4 and mapped CGNAT addresses global on 3.11.7.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from bus.errors import ConfigError, TargetRefused

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

URL_LIMIT = 2048
DEFAULT_PORTS = {"http": 80, "https": 443}

# Ports where an HTTP request is never a webhook but may be understood as something else: the "bad ports" of the
# WHATWG Fetch standard, and data stores and control planes that agents' machines run (Redis executes a POST's lines).
BLOCKED_PORTS = frozenset(
    {0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109}
    | {110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 445, 465, 512, 513, 514, 515, 526}
    | {530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 873, 989, 990, 993, 995, 1433, 1521, 1719, 1720, 1723}
    | {2049, 2181, 2375, 2376, 2379, 2380, 3306, 3389, 3659, 4045, 4190, 5060, 5061, 5432, 5672, 5900, 6000, 6379}
    | {6380, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 9042, 9092, 10080, 10250, 11211, 16379, 26379, 27017}
)

# (range, what it is, whether the allow list may open it). The first match decides, so narrow rows come first.
_RANGES_V4: tuple[tuple[IPv4Network, str, bool], ...] = tuple(
    (IPv4Network(cidr), what, listable)
    for cidr, what, listable in (
        ("0.0.0.0/8", "this network", False),
        ("100.100.100.200/32", "cloud metadata", False),  # Alibaba, inside CGNAT
        ("168.63.129.16/32", "cloud metadata", False),  # Azure's WireServer: a public address, only seen from inside
        ("169.254.0.0/16", "link-local, cloud metadata", False),
        ("192.0.0.0/24", "protocol assignments", False),  # holds Oracle's older metadata address, 192.0.0.192
        ("192.88.99.0/24", "6to4 relay", False),
        ("224.0.0.0/4", "multicast", False),
        ("240.0.0.0/4", "reserved or broadcast", False),
        ("127.0.0.0/8", "loopback", True),
        ("10.0.0.0/8", "private", True),
        ("172.16.0.0/12", "private", True),
        ("192.168.0.0/16", "private", True),
        ("100.64.0.0/10", "shared (carrier NAT)", True),
        ("192.0.2.0/24", "documentation", True),
        ("198.51.100.0/24", "documentation", True),
        ("203.0.113.0/24", "documentation", True),
        ("198.18.0.0/15", "benchmarking", True),
    )
)
_RANGES_V6: tuple[tuple[IPv6Network, str, bool], ...] = tuple(
    (IPv6Network(cidr), what, listable)
    for cidr, what, listable in (
        ("::1/128", "loopback", True),
        ("64:ff9b::/96", "NAT64", True),  # the address inside it has to satisfy the table above as well
        ("::/8", "unspecified, compatible or reserved", False),
        ("100::/8", "discard-only", False),
        ("2001:db8::/32", "documentation", True),
        ("2001::/23", "Teredo or protocol assignments", False),
        ("2002::/16", "6to4", False),
        ("3fff::/20", "documentation", True),
        ("3ffe::/16", "retired 6bone", False),
        ("fd00:ec2::/32", "cloud metadata", False),  # AWS: fd00:ec2::254 and its neighbours
        ("fd20:ce::254/128", "cloud metadata", False),  # Google
        ("fc00::/7", "private", True),
        ("fe80::/10", "link-local", False),
        ("fec0::/10", "site-local", False),
        ("ff00::/8", "multicast", False),
    )
)
_GLOBAL_V6 = IPv6Network("2000::/3")  # all that IANA has allocated; no other address can be a target
_LOOPBACKS = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))
_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")

_METADATA_NAMES = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
    | {"metadata.azure.internal", "metadata.packet.net", "metadata.platformequinix.com", "metadata.tencentyun.com"}
)
# Names that only a private resolver answers; a public answer for one is a search-domain accident or an attack.
_PRIVATE_SUFFIXES = (
    *(".internal", ".local", ".localdomain", ".localhost", ".lan", ".home", ".home.arpa", ".corp", ".intranet"),
    *(".private", ".svc", ".cluster.local"),
)

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_NUMBER = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)\Z")  # what WHATWG and inet_aton take for a number
_PORT = re.compile(r"[1-9][0-9]{0,4}\Z|0\Z")


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed URL; `url` is its canonical spelling, which is used instead of the configured text.

    `host` is lower-case ASCII (IDNA applied, no brackets); `literal` is the address if the host is an address.
    """

    url: str
    scheme: str
    host: str
    port: int
    literal: Address | None


@dataclass(frozen=True, slots=True)
class AllowedAddress:
    """One line of the allow list: a network or a host name, on one port (0: on every port)."""

    network: Network | None
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """The allow list, as written and as parsed; made by `policy`."""

    allow: tuple[str, ...] = ()
    entries: tuple[AllowedAddress, ...] = ()


def parse_target(
    url: str, *, schemes: Collection[str] = ("https", "http"), ports: Collection[int] | None = None
) -> Target:
    """Parse a URL, or raise TargetRefused for one that another parser could read differently.

    `ports` are the only ports accepted; without it every port but BLOCKED_PORTS is. A URL may hold no userinfo, no
    fragment, no zone, no percent sign in its host, no space, control character or backslash: parsers disagree on these.
    """
    if len(url) > URL_LIMIT:
        raise TargetRefused(f"the URL has {len(url)} characters, more than {URL_LIMIT}")
    if not url.isprintable() or any(character in url for character in " \\#"):
        raise TargetRefused("the URL holds a space, a control character, a backslash or a fragment")
    scheme, separator, rest = url.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in schemes or scheme not in DEFAULT_PORTS:
        raise TargetRefused(f"the URL has to begin with {' or '.join(f'{name}://' for name in schemes)}")
    cut = re.search(r"[/?]", rest)
    authority, path = (rest[: cut.start()], rest[cut.start() :]) if cut else (rest, "")
    if "@" in authority:
        raise TargetRefused("the URL holds a user name or password; use headers with secrets instead")
    host, port, literal = _split_authority(authority)
    port = DEFAULT_PORTS[scheme] if port is None else port
    if port > 65535 or (port not in ports if ports is not None else port in BLOCKED_PORTS):
        raise TargetRefused(f"port {port} is not allowed for webhooks")
    place = f"[{host}]" if isinstance(literal, IPv6Address) else host
    place = place if port == DEFAULT_PORTS[scheme] else f"{place}:{port}"
    return Target(f"{scheme}://{place}{path if path.startswith('/') else '/' + path}", scheme, host, port, literal)


def policy(entries: Iterable[str]) -> AddressPolicy:
    """Compile an allow list; ConfigError names the entry that is wrong or that can never be allowed.

    An entry is a host name, an address or a CIDR, each with an optional port: `localhost:9000`, `10.1.2.0/24:8443`,
    `[fd00::/8]:8443`. A name opens private addresses; loopback is opened by `localhost` and by addresses alone.
    """
    allow = tuple(entries)
    return AddressPolicy(allow, tuple(entry for text in allow for entry in _entries(text)))


def check_address(target: Target, address: str | Address, allowed: AddressPolicy) -> None:
    """Raise TargetRefused unless this address, an answer for the target's host, may be connected to."""
    _judge(target, address, allowed)


_NEVER = "which can never be a target"


def vet(target: Target, addresses: Sequence[str], allowed: AddressPolicy) -> list[str]:
    """Return the addresses to connect to, in their order and without repeats; refuse the target if any is bad.

    For a literal host pass the literal itself. A mapped address comes back as the IPv4 address inside it.
    """
    if not addresses:
        raise TargetRefused(f"{target.host} has no address")
    return list(dict.fromkeys(str(_judge(target, address, allowed)) for address in addresses))


def never(target: Target) -> str:
    """Why no allow list can open a target, by its URL alone; empty if an allow list may open it."""
    if target.literal is None and target.host not in _METADATA_NAMES:
        return ""
    try:
        _judge(target, target.literal or "", policy([]))
    except TargetRefused as error:
        return error.reason if target.literal is None or error.reason.endswith(_NEVER) else ""
    return ""


def _judge(target: Target, address: str | Address, allowed: AddressPolicy) -> Address:
    if target.host in _METADATA_NAMES:
        raise TargetRefused(f"{target.host} is a cloud metadata name")
    try:
        candidate = ip_address(address) if isinstance(address, str) else address
    except ValueError:
        raise TargetRefused(f"the resolver's answer for {target.host} is not an address") from None
    if isinstance(candidate, IPv6Address) and candidate.scope_id is not None:
        raise TargetRefused(f"{candidate} has a zone")
    if target.literal is not None and candidate != target.literal:
        raise TargetRefused(f"{candidate} is not the address {target.literal} that the URL names")
    effective, wrapped = _unwrap(candidate)
    what, listable = _classify(effective)
    shown = f"{effective} ({what or 'public'})"
    shown = f"{candidate} ({wrapped}) holding {shown}" if wrapped else shown
    if target.literal is None:
        shown = f"{target.host} is at {shown}"
    if not listable or wrapped not in ("", "IPv4-mapped", "NAT64"):
        raise TargetRefused(f"{shown}, {_NEVER}")
    if wrapped == "NAT64" and not _listed(target, candidate, allowed):
        raise TargetRefused(f"{shown}; allow {_NAT64} if this network has NAT64")
    needs_listing = bool(what) or wrapped == "IPv4-mapped" or (target.literal is None and _is_private_name(target.host))
    if needs_listing and not _listed(target, effective, allowed):
        raise TargetRefused(f"{shown}, which is not in the allow list for port {target.port}")
    return candidate if wrapped == "NAT64" else effective


def _unwrap(address: Address) -> tuple[Address, str]:
    """The IPv4 address that a transition form carries, and the form's name; the address itself and "" otherwise."""
    if isinstance(address, IPv4Address):
        return address, ""
    number = int(address)
    low, top = number & 0xFFFFFFFF, number >> 32
    if address in _MAPPED:
        return IPv4Address(low), "IPv4-mapped"
    if address in _NAT64:
        return IPv4Address(low), "NAT64"
    if number >> 80 == 0x0064FF9B0001:  # RFC 8215; the position of the IPv4 address depends on the network
        return IPv4Address(low), "local NAT64"
    if number >> 112 == 0x2002:
        return IPv4Address(number >> 80 & 0xFFFFFFFF), "6to4"
    if number >> 96 == 0x20010000:
        return IPv4Address(low ^ 0xFFFFFFFF), "Teredo"
    if top == 0xFFFF0000:
        return IPv4Address(low), "SIIT"
    if top & 0xFDFFFFFF == 0x00005EFE:  # RFC 5214, under whatever prefix; the u bit may be set
        return IPv4Address(low), "ISATAP"
    if top == 0 and low > 1:
        return IPv4Address(low), "IPv4-compatible"
    return address, ""


def _classify(address: Address) -> tuple[str, bool]:
    """What range an address is in, and whether an allow list may open it; ("", True) for public unicast."""
    table: Sequence[tuple[Network, str, bool]] = _RANGES_V4 if isinstance(address, IPv4Address) else _RANGES_V6
    for network, what, listable in table:
        if address in network:
            return what, listable
    if isinstance(address, IPv6Address) and address not in _GLOBAL_V6:
        return "not global unicast", False
    return "", True


def _listed(target: Target, address: Address, allowed: AddressPolicy) -> bool:
    for entry in allowed.entries:
        if entry.port not in (0, target.port):
            continue
        if entry.network is not None:
            if address in entry.network:
                return True
        # A name does not open loopback: the owner of its DNS zone could point it at this machine.
        elif entry.host == target.host and (entry.host.endswith(".localhost") or not _is_loopback(address)):
            return True
    return False


def _is_loopback(address: Address) -> bool:
    return any(address in network for network in _LOOPBACKS)


def _is_private_name(host: str) -> bool:
    return "." not in host or host.endswith(_PRIVATE_SUFFIXES)


def _split_authority(authority: str) -> tuple[str, int | None, Address | None]:
    """Host, port and literal of `host[:port]`; raises TargetRefused if two parsers could read it differently."""
    if authority.startswith("["):
        inside, bracket, tail = authority[1:].partition("]")
        try:
            literal: Address = IPv6Address(inside)
        except ValueError:
            raise TargetRefused("what is in the brackets is not an IPv6 address") from None
        if not bracket or "%" in inside or (tail and not tail.startswith(":")):
            raise TargetRefused("an IPv6 address is written in brackets, without a zone, and only a port may follow")
        return str(literal), _port(tail[1:]) if tail else None, literal
    name, colon, digits = authority.partition(":")
    if ":" in digits:
        raise TargetRefused("an IPv6 address needs brackets")
    host = _ascii_host(name)
    return host, _port(digits) if colon else None, _ipv4(host)


def _port(digits: str) -> int:
    if not _PORT.match(digits):
        raise TargetRefused("the port is not a plain number")
    return int(digits)


def _ascii_host(name: str) -> str:
    """A host name in lower-case ASCII; non-ASCII labels only where IDNA maps them there and back unchanged.

    Full-width and enclosed digits, ideographic full stops and letters such as ß that IDNA 2003 and 2008 treat
    differently all fail that round trip.
    """
    if not name or len(name) > 253:
        raise TargetRefused("the URL has no host, or one longer than 253 characters")
    labels = []
    for typed in name.split("."):
        label = typed.lower()
        if not typed.isascii():
            try:
                label = typed.encode("idna").decode("ascii")
                unchanged = label.startswith("xn--") and label.encode("ascii").decode("idna") == typed.lower()
            except UnicodeError:
                unchanged = False
            if not unchanged:
                raise TargetRefused("the host holds characters that IDNA turns into others")
        if not _LABEL.match(label):
            raise TargetRefused("the host is not letters, digits, hyphens and single dots")
        labels.append(label)
    host = ".".join(labels)
    if len(host) > 253:
        raise TargetRefused("the host is longer than 253 characters")
    if _NUMBER.match(labels[-1]) and _ipv4(host) is None:
        raise TargetRefused("the host looks like a number but is not a plain dotted quad")
    return host


def _ipv4(host: str) -> IPv4Address | None:
    try:
        return IPv4Address(host)
    except ValueError:
        return None


def _entries(text: str) -> tuple[AllowedAddress, ...]:
    where = f"allow list entry {text!r}"
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::(.*))?", text)
    if bracketed:
        place, digits = bracketed[1], bracketed[2]
    elif text.count(":") >= 2:  # a bare IPv6 address or network; a port would need brackets
        place, digits = text, None
    else:
        place, colon, tail = text.partition(":")
        digits = tail if colon else None
    if digits is not None and not (_PORT.match(digits) and 0 < int(digits) <= 65535):
        raise ConfigError(f"{where}: the port is not a number from 1 to 65535", hint="write host:port or [IPv6]:port")
    port = int(digits) if digits else 0
    if "/" in place or bracketed or ":" in place or _ipv4(place) is not None:
        return (AllowedAddress(_network(place, where), "", port),)
    try:
        host = _ascii_host(place)
    except TargetRefused as error:
        raise ConfigError(f"{where}: {error.reason}", hint="write a host name, an address or a CIDR") from error
    if host in _METADATA_NAMES:
        raise ConfigError(f"{where}: a cloud metadata name can never be allowed")
    if host == "localhost":  # in any spelling of the URL it is this machine
        return (AllowedAddress(ip_network("127.0.0.1"), "", port), AllowedAddress(ip_network("::1"), "", port))
    return (AllowedAddress(None, host, port),)


def _network(place: str, where: str) -> Network:
    try:
        network = ip_network(place)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}", hint="write an address or a CIDR without host bits") from error
    if "%" in place:
        raise ConfigError(f"{where}: an address with a zone can never be allowed")
    if isinstance(network, IPv6Network):
        if network.subnet_of(_MAPPED):
            raise ConfigError(f"{where}: an IPv4-mapped range", hint="write the IPv4 range, it covers the mapped form")
        rows = [(what, listable) for cover, what, listable in _RANGES_V6 if network.subnet_of(cover)]
    else:
        rows = [(what, listable) for cover, what, listable in _RANGES_V4 if network.subnet_of(cover)]
    if isinstance(network, IPv6Network) and not rows and not network.overlaps(_GLOBAL_V6):
        rows = [("what is not global unicast", False)]
    if rows and not rows[0][1]:
        raise ConfigError(f"{where}: {rows[0][0]} can never be allowed")
    return network
