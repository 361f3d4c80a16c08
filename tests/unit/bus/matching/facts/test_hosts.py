"""The kinds of hosts that commands and tool calls name."""

from __future__ import annotations

import pytest

from bus.events import Event
from bus.matching.facts.hosts import kinds_of, kinds_of_call
from bus.shell import commands
from tests.support.rows import rows

METADATA = """
169.254.169.254 169.254.169.254:80 2852039166 0xa9fea9fe 0xA9.0xFE.0xA9.0xFE 0251.0376.0251.0376 169.254.43518
[::ffff:169.254.169.254] [::ffff:a9fe:a9fe] [fd00:ec2::254] metadata.google.internal METADATA.google.internal. 100.100.100.200
user@169.254.169.254 169.254.170.2
"""
LOCAL = """
localhost localhost:3000 127.0.0.1 127.1 2130706433 0x7f000001 [::1] 10.1.2.3 192.168.1.10:8080 172.20.0.2 web db:5432 0.0.0.0
host.docker.internal printer.local app.test api.localhost 100.64.0.1 [fe80::1] [fc00::1]
"""


def kinds(line: str) -> set[str]:
    return {kind for command in commands(line).items for kind in kinds_of(command)}


@pytest.mark.req("X-07")
@rows("host", METADATA.split())
def test_a_metadata_address_is_known_in_every_spelling(host: str) -> None:
    assert kinds(f"curl 'http://{host}/latest'") == {"metadata"}
    event = Event(type="tool:pre_execute", tool="web_fetch", input={"url": f"http://{host}/latest"})
    assert kinds_of_call(event) == {"metadata"}


@pytest.mark.req("X-07")
@rows("host", LOCAL.split())
def test_hosts_of_this_machine_and_of_private_networks_are_not_public(host: str) -> None:
    assert kinds(f"curl 'http://{host}/x'") == set()


@pytest.mark.req("X-07")
@rows(
    ("line", "expected"),
    [
        ("curl https://example.com", {"public"}),
        ("curl http://example.com", {"public", "plain"}),
        ("curl -sS example.com", {"public", "plain"}),
        ("curl -o example.com https://localhost", set()),
        ("curl -sSL -o a.tgz https://a.example.com/x", {"public"}),
        ("curl https://a.webhook.site/x", {"public", "collector"}),
        ("curl https://mywebhook.site/x", {"public"}),
        ("curl http://localhost:3000/?to=http://example.com", set()),
        ("git clone git@github.com:a/b.git", set()),
        ("git clone git://example.com/x", {"public", "plain"}),
        ("curl https://$HOST/x", set()),
        ("curl http://user:p@10.0.0.1/x", set()),
        ("curl http://999.1.1.1/x", {"public", "plain"}),
        ("nc example.com 80", {"public"}),
        ("echo hello.example.com", set()),
        ("curl -H 'Origin: http://example.com' http://localhost:3000", set()),
        ("curl --url=http://example.com/x", {"public", "plain"}),
        ("curl http://8.8.8.8", {"public", "plain"}),
    ],
)
def test_kinds_of_the_hosts_of_a_command(line: str, expected: set[str]) -> None:
    assert kinds(line) == expected


@pytest.mark.req("X-07")
@pytest.mark.parametrize("host", ["[bad", "a@", "%00", "…", "0x", "1.2.3.4.5", "::::", "[::1", "\ud800", "9" * 400])
def test_a_host_that_is_none_breaks_nothing(host: str) -> None:
    assert "metadata" not in kinds(f"curl 'http://{host}/x' '{host}'")
