"""The address policy against a published table of cases, generated disguises, and two independent opinions."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

import pytest

from bus.errors import ConfigError, TargetRefused
from bus.http.address_policy import AddressPolicy, check_address, parse_target, policy, vet
from tests.support.rows import rows

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "golden" / "ssrf-cases.json").read_text(encoding="utf-8")
)
NOTHING = policy([])

# These need a socket, a resolver that hangs or a process environment; the webhook sender's tests prove them.
CONNECTION_LEVEL = {
    ("connect", "refuse"): 3,
    ("redirect", "no_follow"): 5,
    ("response", "bounded"): 3,
    ("config", "no_env_proxy"): 1,
    ("resolve", "fail_fast"): 1,
}
EXPRESSIBLE = [case for case in CASES if (case["stage"], case["expect"]) not in CONNECTION_LEVEL]

# What a resolver inside a network answers for the names of the table that bring no answer of their own.
ANSWERS = {
    "localhost": ["127.0.0.1", "::1"],
    "foo.localhost": ["127.0.0.1"],
    "metadata.google.internal": ["169.254.169.254"],
    "metadata": ["169.254.169.254"],
    "169.254.169.254.nip.io": ["169.254.169.254"],
    "kubernetes.default.svc": ["10.96.0.1"],
    "host.docker.internal": ["192.168.65.254"],
}


def connectable(url: str, allowed: AddressPolicy = NOTHING, answers: list[str] | None = None) -> list[str]:
    target = parse_target(url)
    return vet(target, [str(target.literal)] if target.literal else (answers or ANSWERS[target.host]), allowed)


def refused(url: str, allowed: AddressPolicy = NOTHING, answers: list[str] | None = None) -> bool:
    try:
        connectable(url, allowed, answers)
    except TargetRefused:
        return True
    return False


def test_cases_left_out_are_exactly_the_ones_that_need_a_connection() -> None:
    left_out = [(case["stage"], case["expect"]) for case in CASES if case not in EXPRESSIBLE]
    assert {key: left_out.count(key) for key in CONNECTION_LEVEL} == CONNECTION_LEVEL
    assert len(EXPRESSIBLE) + sum(CONNECTION_LEVEL.values()) == len(CASES) == 122


@rows("case", EXPRESSIBLE, ids=lambda case: f"{case['stage']}-{ascii(case['url'])[:50]}")
def test_published_case(case: dict[str, Any]) -> None:
    answers = case.get("dns", [None])[0]
    if case["stage"] == "parse" and case["expect"] == "refuse":
        with pytest.raises(TargetRefused):
            parse_target(case["url"])
        return
    parse_target(case["url"])  # a case of a later stage must not be refused by an earlier one
    assert refused(case["url"], policy(case.get("allow", [])), answers) == (case["expect"] == "refuse")


@pytest.mark.parametrize(
    "address",
    [
        "198.18.0.1",
        "198.19.255.255",
        "168.63.129.16",
        "2001:2::1",
        "2001:20::1",
        "2001:1ff::1",
        "3ffe::1",
        "3fff:fff::1",
    ],
)
def test_ranges_that_the_published_cases_do_not_touch(address: str) -> None:
    with pytest.raises(TargetRefused):
        check_address(parse_target("https://hooks.example/"), address, NOTHING)


@pytest.mark.parametrize("name", ["rebind.test", "retryrebind.test"])
def test_a_second_answer_is_judged_afresh(name: str) -> None:
    first, second = next(case["dns"] for case in CASES if name in case["url"])
    target = parse_target(f"http://{name}/hook")
    assert vet(target, first, NOTHING) == first
    with pytest.raises(TargetRefused):
        vet(target, second, NOTHING)


def test_idn_is_sent_in_its_ascii_form() -> None:
    target = parse_target("HTTPS://Bücher.Example:443?x=1")
    assert (target.url, target.host, target.port) == (
        "https://xn--bcher-kva.example/?x=1",
        "xn--bcher-kva.example",
        443,
    )


@pytest.mark.parametrize("host", ["stra\u00dfe.example", "\u03bb\u03cc\u03b3\u03bf\u03c2.example", "\u212aube.example"])
def test_letters_that_idna_versions_read_differently_are_refused(host: str) -> None:
    with pytest.raises(TargetRefused, match="IDNA"):
        parse_target(f"https://{host}/")


@rows(
    "url",
    [
        "https://example.com:/",
        "https://example.com:080/",
        "https://example.com:+80/",
        "https://example.com:\u0664\u0664\u0663/",
        "https://example..com/",
        "https://-example.com/",
        "https://example.com./",
        "https://[::1/",
        "https://[::1]x/",
        "https://[::1]:/",
        "https://a\udc80.example/",
        "https://e\u200bxample.com/",
        "https:///example.com/",
        "ws://example.com/",
        f"https://{'a' * 64}.example/",
        f"https://{'a.' * 127}example/",
    ],
)
def test_unclear_urls_are_refused(url: str) -> None:
    with pytest.raises(TargetRefused):
        parse_target(url)


def test_given_ports_and_schemes_are_the_only_ones() -> None:
    assert parse_target("https://example.com:6379/", ports={6379}).port == 6379
    with pytest.raises(TargetRefused, match="port 443"):
        parse_target("https://example.com/", ports={8443})
    with pytest.raises(TargetRefused, match="https://"):
        parse_target("http://example.com/", schemes=("https",))


# --- generated -------------------------------------------------------------------------------------------------------


def _private(rng: random.Random) -> IPv4Address:
    network, bits = rng.choice(
        [(0x0A000000, 24), (0xAC100000, 20), (0xC0A80000, 16), (0x7F000000, 24), (0xA9FE0000, 16), (0x64400000, 22)]
    )
    return IPv4Address(network | rng.getrandbits(bits))


WRAPPERS: dict[str, Callable[[int, random.Random], int]] = {
    "mapped": lambda v4, _: 0xFFFF << 32 | v4,
    "compatible": lambda v4, _: v4,
    "siit": lambda v4, _: 0xFFFF0000 << 32 | v4,
    "isatap": lambda v4, rng: rng.getrandbits(64) << 64 | rng.choice([0x5EFE, 0x02005EFE]) << 32 | v4,
    "isatap-global": lambda v4, rng: 0x2606 << 112 | rng.getrandbits(48) << 64 | 0x5EFE << 32 | v4,
    "nat64": lambda v4, _: 0x64FF9B << 96 | v4,
    "nat64-local": lambda v4, rng: 0x64FF9B0001 << 80 | rng.getrandbits(48) << 32 | v4,
    "6to4": lambda v4, rng: 0x2002 << 112 | v4 << 80 | rng.getrandbits(80),
    "teredo": lambda v4, rng: 0x20010000 << 96 | rng.getrandbits(64) << 32 | (v4 ^ 0xFFFFFFFF),
}


@pytest.mark.parametrize("form", WRAPPERS)
def test_no_disguise_of_a_private_address_passes(form: str) -> None:
    rng = random.Random(f"ssrf {form}")
    name = parse_target("https://hooks.example/")
    nat64_open = policy(["64:ff9b::/96"])
    for _ in range(600):
        wrapped = IPv6Address(WRAPPERS[form](int(_private(rng)), rng))
        assert refused(f"https://[{rng.choice([str(wrapped), wrapped.exploded])}]/"), wrapped
        for allowed in (NOTHING, nat64_open):
            with pytest.raises(TargetRefused):
                check_address(name, str(wrapped), allowed)


def test_metadata_stays_shut_in_every_form_whatever_is_listed() -> None:
    rng = random.Random("metadata")
    everything = policy(["0.0.0.0/0", "::/0", "hooks.internal", "localhost"])
    for metadata in ("169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16"):
        wrapped = [str(IPv6Address(wrap(int(IPv4Address(metadata)), rng))) for wrap in WRAPPERS.values()]
        for address in (metadata, *wrapped):
            assert refused("https://hooks.internal/", everything, [address]), address
    assert refused("https://hooks.internal/", everything, ["fd00:ec2::254"])
    assert refused("https://metadata.google.internal/", everything, ["10.0.0.1"])


def _spelling(address: IPv4Address, rng: random.Random) -> str:
    """One of the many spellings that inet_aton reads as this address, or a near miss."""
    parts = rng.randint(1, 4)
    octets = address.packed
    numbers = [*octets[: parts - 1], int.from_bytes(octets[parts - 1 :], "big")]
    spell: list[Callable[[int], str]] = [
        str,
        lambda number: f"0{number:o}",
        hex,
        lambda number: f"0X{number:X}",
        lambda number: f"00{number}",
    ]
    text = ".".join(rng.choice(spell)(number) for number in numbers)
    return text + rng.choice(["", "", "", ".", ".0", "x"])


def test_whatever_inet_aton_reads_is_refused_or_read_the_same() -> None:
    rng = random.Random("inet_aton")
    disagreements = 0
    for _ in range(4000):
        text = _spelling(IPv4Address(rng.getrandbits(32)), rng)
        try:
            libc = IPv4Address(socket.inet_aton(text))
        except OSError:
            libc = None
        try:
            literal = parse_target(f"http://{text}/").literal
        except TargetRefused:
            disagreements += libc is not None
            continue
        assert literal == libc, text
    assert disagreements > 500  # the generator does make spellings that libc accepts and we refuse


def test_never_looser_than_the_standard_library() -> None:
    rng = random.Random("is_global")
    target = parse_target("https://hooks.example/")
    for version in (4, 6):
        passed = 0
        for _ in range(4000):
            number = rng.getrandbits(32) if version == 4 else rng.choice([0x2, 0x3, rng.getrandbits(4)]) << 124
            address = ip_address(number) if version == 4 else IPv6Address(number | rng.getrandbits(124))
            try:
                vet(target, [str(address)], NOTHING)
            except TargetRefused:
                continue
            passed += 1
            assert address.is_global, address
            assert not address.is_multicast, address
        assert passed > 1000, "the public internet is still reachable"


# --- the allow list --------------------------------------------------------------------------------------------------


@rows(
    ("entry", "url", "answers", "passes"),
    [
        ("localhost:9000", "http://localhost:9000/", ["127.0.0.1", "::1"], True),
        ("localhost:9000", "http://127.0.0.1:9000/", None, True),
        ("localhost:9000", "http://[::1]:9000/", None, True),
        ("localhost:9000", "http://localhost:9001/", ["127.0.0.1"], False),
        ("localhost:9000", "http://localhost:9000/", ["10.0.0.1"], False),
        ("localhost:9000", "http://localhost:9000/", ["93.184.216.34"], False),
        ("localhost", "http://127.0.0.2:9000/", None, False),
        ("agent.localhost", "http://agent.localhost/", ["127.0.0.1"], True),
        ("127.0.0.0/8", "http://127.9.9.9:8080/", None, True),
        ("127.0.0.1", "http://evil.example/", ["127.0.0.1"], True),
        ("10.1.2.0/24:8443", "https://10.1.2.9:8443/", None, True),
        ("10.1.2.0/24:8443", "https://10.1.2.9/", None, False),
        ("10.1.2.0/24:8443", "https://10.1.3.9:8443/", None, False),
        ("hooks.internal", "http://HOOKS.internal/", ["10.0.0.1", "fd12::1"], True),
        ("hooks.internal:8080", "http://hooks.internal:8080/", ["10.0.0.1"], True),
        ("hooks.internal:8080", "http://hooks.internal/", ["10.0.0.1"], False),
        ("hooks.internal", "http://hooks.internal/", ["10.0.0.1", "127.0.0.1"], False),
        ("hooks.internal", "http://hooks.internal/", ["169.254.169.254"], False),
        ("hooks.internal", "http://other.internal/", ["10.0.0.1"], False),
        ("hooks.internal", "http://x.hooks.internal/", ["10.0.0.1"], False),
        ("10.0.0.0/8", "http://hooks.internal/", ["10.0.0.1"], True),
        ("10.0.0.0/8", "http://hooks.internal/", ["93.184.216.34"], False),
        ("[fd00::/8]:8443", "https://[fd12::1]:8443/", None, True),
        ("fd00::/8", "https://[fd00:ec2::254]/", None, False),
        ("64:ff9b::/96", "https://[64:ff9b::808:808]/", None, True),
        ("::/0", "https://[2002:808:808::1]/", None, False),
        ("0.0.0.0/0", "https://0.0.0.0/", None, False),
        ("0.0.0.0/0", "https://[::]/", None, False),
    ],
)
def test_allow_list(entry: str, url: str, answers: list[str] | None, passes: bool) -> None:
    assert refused(url, policy([entry]), answers) != passes


def test_nat64_needs_both_the_prefix_and_the_private_address_listed() -> None:
    url = "https://[64:ff9b::10.0.0.1]/"
    assert refused(url, policy(["64:ff9b::/96"]))
    assert refused(url, policy(["10.0.0.0/8"]))
    assert not refused(url, policy(["64:ff9b::/96", "10.0.0.0/8"]))


def test_vet_returns_what_to_connect_to() -> None:
    target = parse_target("https://hooks.example/")
    assert vet(target, ["93.184.216.34", "2606:4700::1111", "93.184.216.34"], NOTHING) == [
        "93.184.216.34",
        "2606:4700::1111",
    ]
    assert connectable("http://[::ffff:10.1.2.3]/", policy(["10.0.0.0/8"])) == ["10.1.2.3"]
    literal = parse_target("https://93.184.216.34/")
    for answers in ([], ["8.8.8.8"], ["93.184.216.34", "8.8.8.8"], ["nonsense"], ["fe80::1%eth0"]):
        with pytest.raises(TargetRefused):
            vet(literal, answers, NOTHING)


@rows(
    "entry",
    [
        "",
        "*.internal",
        "http://localhost:9000",
        "localhost:",
        "localhost:0",
        "localhost:70000",
        "localhost:http",
        "127.1",
        "10.1.2.3/24",
        "10.0.0.0/33",
        "[::1",
        "[localhost]:80",
        "169.254.169.254",
        "169.254.0.0/16",
        "169.254.170.2:80",
        "fe80::/10",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "100.100.100.200",
        "metadata.google.internal",
        "0.0.0.0",
        "224.0.0.1",
        "2002::/16",
        "2001::/32",
        "3ffe::/16",
        "100::/64",
        "5f00::/16",
        "fec0::/10",
        "ff02::1",
        "fd20:ce::254",
        "64:ff9b:1::/48",
        "::ffff:10.0.0.0/104",
        "user@localhost",
    ],
)
def test_entries_that_are_wrong_or_can_never_be_allowed(entry: str) -> None:
    with pytest.raises(ConfigError, match="allow list entry"):
        policy([entry])
