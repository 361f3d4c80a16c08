"""Generated hosts, and every connection that is attempted, seen at the socket: none goes to a private address (G-20)."""

from __future__ import annotations

import random
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, Final

import pytest

from bus.http.address_policy import policy
from bus.http.webhook_client import WebhookClient

PRIVATE_V4: Final = [
    IPv4Network(text)
    for text in (
        "127.0.0.0/8",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "169.254.0.0/16",
        "100.64.0.0/10",
        "0.0.0.0/8",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "192.0.0.0/24",
        "198.18.0.0/15",
        "192.0.2.0/24",
        "203.0.113.0/24",
        "169.254.169.254/32",
        "127.0.0.1/32",
        "100.100.100.200/32",
        "168.63.129.16/32",
        "255.255.255.255/32",
    )
]
PRIVATE_V6: Final = [
    IPv6Network(text)
    for text in (
        "::1/128",
        "::/128",
        "fc00::/7",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
        "fd00:ec2::254/128",
        "2001:db8::/32",
        "100::/64",
        "fd20:ce::254/128",
        "5f00::/16",
        "4000::/3",
    )
]
PUBLIC: Final = ("8.8.8.8", "1.1.1.1", "93.184.215.14", "2606:4700:4700::1111", "2a00:1450:4001:80b::200e")
FULL_WIDTH: Final = {ord(one): ord(one) + 0xFEE0 for one in "0123456789."}
CIRCLED: Final = {ord("1") + digit: 0x2460 + digit for digit in range(9)}

_seen: list[tuple[str, Any]] | None = None
"""Where connections and look-ups are noted while a test watches; an audit hook can never be taken off again."""


def _watch(event: str, details: tuple[Any, ...]) -> None:
    if _seen is None or event not in {"socket.connect", "socket.getaddrinfo"}:
        return
    address = details[1] if event == "socket.connect" else details[0]
    if isinstance(address, str | bytes) and event == "socket.connect":
        return  # a unix socket
    _seen.append((event, address))
    if event == "socket.connect":
        raise ConnectionRefusedError("no test connects to the internet")


sys.addaudithook(_watch)


@contextmanager
def watching() -> Iterator[list[tuple[str, Any]]]:
    """Every connection and look-up of this process that is attempted within; none is made."""
    global _seen  # noqa: PLW0603 - the hook has no other way to learn of it
    found: list[tuple[str, Any]] = []
    _seen = found
    try:
        yield found
    finally:
        _seen = None


def is_private(text: str) -> bool:
    """What the standard library and the lists above, and not our table, say; an address that carries another counts too."""
    address = ip_address(text)
    if address.is_multicast or address.is_reserved or not address.is_global:
        return True
    if isinstance(address, IPv4Address):  # some of ours the standard library calls global
        return any(address in network for network in PRIVATE_V4)
    carried = (address.ipv4_mapped, address.sixtofour, address.teredo, address.is_site_local)
    carrying = (*PRIVATE_V6, IPv6Network("64:ff9b::/32"), IPv6Network("::/16"))
    return any(carried) or any(address in network for network in carrying)


class Hosts:
    """Generates hosts as an attacker writes them, and is the resolver that he controls."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.answers: dict[str, list[list[str]]] = {}
        self.kinds: list[Callable[[], str]] = [
            self.v4,
            self.v4,
            self.v6,
            self.v6,
            self.name,
            self.name,
            self.trick,
            self.open,
        ]

    def url(self) -> str:
        """One URL."""
        pick = self.random
        host = pick.choice(self.kinds)()
        port = pick.choice(["", "", "", ":80", ":443", ":8080", ":9000", ":6379", ":080", ":"])
        path = pick.choice(["/", "", "/x?y", "?@8.8.8.8", "/@1.1.1.1"])
        return f"{pick.choice(['http', 'https', 'HTTP'])}://{host}{port}{path}"

    async def lookup(self, host: str, port: int) -> list[str]:
        """As glibc: numbers of every spelling are addresses; a name's answer changes from one question to the next."""
        try:
            return [socket.inet_ntoa(socket.inet_aton(host))]
        except OSError:
            pass
        answers = self.answers.get(host.rstrip("."))
        if answers is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def inside(self) -> IPv4Address:
        """A private IPv4 address."""
        network = self.random.choice(PRIVATE_V4)
        return network[self.random.randrange(network.num_addresses)]

    def inside6(self) -> IPv6Address:
        """A private IPv6 address, or one that carries a private IPv4 address in one of the transition forms."""
        low, pick = int(self.inside()), self.random
        forms = (
            0xFFFF << 32 | low,
            low,
            0x64FF9B << 96 | low,
            0x0064FF9B0001 << 80 | low,
            0x2002 << 112 | low << 80,
            0x20010000 << 96 | (low ^ 0xFFFFFFFF),
            0xFFFF << 48 | low,
            0xFE80 << 112 | 0x5EFE << 32 | low,
            0x20010DB8 << 96 | 0x02005EFE << 32 | low,
            0x2A00 << 112 | 0x5EFE << 32 | low,
        )
        if pick.random() < 0.7:
            return IPv6Address(pick.choice(forms))
        network = pick.choice(PRIVATE_V6)
        return IPv6Address(int(network[0]) + pick.randrange(min(network.num_addresses, 1 << 64)))

    def v4(self) -> str:
        """A private IPv4 address in some spelling that some parser takes."""
        address, pick = self.inside(), self.random
        number, parts = int(address), list(address.packed)
        number_of = (str, hex, lambda n: f"0{n:o}", lambda n: f"{n:03}", lambda n: f"0X{n:X}", lambda n: f"0x{n:08x}")
        spell = pick.choice(number_of)
        return pick.choice(
            [
                str(address),
                f"{address}.",
                spell(number),
                ".".join(map(spell, parts)),
                ".".join(pick.choice(number_of)(part) for part in parts),
                f"{spell(parts[0])}.{spell(number & 0xFFFFFF)}",
                f"{parts[0]}.{parts[1]}.{number & 0xFFFF}",
                ".".join(str(part + 256) for part in parts),
                str(number + (1 << 32)),
                str(address).translate(FULL_WIDTH),
                str(address).translate(CIRCLED),
                str(address).replace(".", "。"),
                "".join(f"%{ord(c):02x}" for c in str(address)),
                f"{address}%00.example",
                f" {address}",
                f"{address}\t",
                f"{address}%20",
                f"{address}\u200b",
                f"0{address}",
            ]
        )

    def v6(self) -> str:
        """A private IPv6 address in some spelling."""
        address, pick = self.inside6(), self.random
        dotted = f"::ffff:{IPv4Address(int(address) & 0xFFFFFFFF)}"
        whole, short = address.exploded, str(address)
        return pick.choice(
            [
                f"[{short}]",
                f"[{whole}]",
                f"[{short.upper()}]",
                f"[{dotted}]",
                f"[{short}%25eth0]",
                f"[{short}%eth0]",
                short,
                f"[{short}",
                f"[[{short}]]",
            ]
        )

    def name(self) -> str:
        """A name with a private address among its answers, or with one only at the second question."""
        pick, host = (
            self.random,
            f"n{len(self.answers)}.{self.random.choice(['example.com', 'nip.io', 'Local', 'localhost'])}",
        )
        bad = [str(pick.choice([self.inside, self.inside6])()) for _ in range(pick.randrange(1, 3))]
        mixed = [*bad, *pick.sample(PUBLIC, pick.randrange(3))]
        pick.shuffle(mixed)
        good = pick.sample(PUBLIC, pick.randrange(1, 3))
        self.answers[host.lower()] = pick.choice([[mixed], [mixed], [good, mixed], [bad, good]])
        return host + pick.choice(["", "", "."])

    def trick(self) -> str:
        """An authority that two parsers read differently."""
        inside, outside = self.inside(), self.random.choice(PUBLIC[:3])
        return self.random.choice(
            [
                f"{outside}@{inside}",
                f"{inside}@{outside}",
                f"{outside}\\@{inside}",
                f"{inside}#@{outside}",
                f"{outside}:80@{inside}",
                f"{outside}%2f@{inside}",
                f"{inside}\r\nHost: {outside}",
                f"{outside}\n@{inside}",
                f"{outside},{inside}",
                f"{outside};{inside}",
                f"localhost%00.{outside}",
                "localhost",
                "LOCALHOST.",
                "\u24dbocalhost",
                "localho\u017ft",
                "metadata.google.internal",
                "metadata",
            ]
        )

    def open(self) -> str:
        """A public host: without these, nothing would be seen at the socket at all."""
        if self.random.random() < 0.5:
            address = self.random.choice(PUBLIC)
            return f"[{address}]" if ":" in address else address
        host = f"p{len(self.answers)}.example.com"
        self.answers[host] = [self.random.sample(PUBLIC, 2)]
        return host


@pytest.mark.req("G-20")
@pytest.mark.parametrize("many", [2_000, pytest.param(100_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
async def test_no_connection_to_a_private_address_is_even_attempted(many: int) -> None:
    hosts, outcomes = Hosts(seed=many), Counter[str]()
    with watching() as seen:
        async with WebhookClient(policy([]), lookup=hosts.lookup) as client:
            for _ in range(many):
                url = hosts.url()
                for _ in range(2):  # what a name answers changes after the first look
                    reply = await client.post(url, b"{}", {}, seconds=5)
                    outcomes[reply.error] += 1
                    assert reply.status == 0, url
    connected = [str(address[0]) for event, address in seen if event == "socket.connect"]
    assert [address for address in connected if is_private(address)] == []
    assert [details for event, details in seen if event == "socket.getaddrinfo"] == [], (
        "every look-up is the vetted one"
    )
    assert set(connected) == set(PUBLIC), "public ones are connected to, so the socket is really watched"
    assert outcomes["refused"] > many, outcomes
    assert outcomes["connect"] > many / 8, outcomes
    assert set(outcomes) <= {"refused", "connect", "dns"}, outcomes


def test_the_opinion_that_judges_is_not_blind() -> None:
    """The independent judge knows every private address that the generator makes."""
    hosts = Hosts(seed=1)
    assert all(is_private(str(hosts.inside())) for _ in range(2_000))
    kept = [text for text in (str(hosts.inside6()) for _ in range(2_000)) if not is_private(text)]
    assert all("5efe" in text for text in kept), "ISATAP under a public prefix looks public to the standard library"
    assert not any(map(is_private, PUBLIC))
