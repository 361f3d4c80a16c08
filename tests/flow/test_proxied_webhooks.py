"""Webhooks through a proxy, from the configuration to the record: what goes where, and what is never shown (G-20)."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked
from tests.cli_kit import Result, fleethook, namespace, run, workers
from tests.support.beside import beside
from tests.support.forward import ForwardProxy, forwarding
from tests.support.receivers import Receiver, receiving
from tests.support.servers import Server
from tests.support.waiting import wait_until

PASSWORD = "hunter2/hunter2"
HOOKS = """
endpoints:
  - {{id: far, url: "http://hooks.corp:{port}/x", events: "turn:end", retry: [0]}}
network:
  allow: ["hooks.corp:{port}"]
  proxy: "http://agent:${{PROXY_PASSWORD}}@{proxy}"
"""


@pytest.fixture
def proxy() -> Iterator[ForwardProxy]:
    """A proxy that wants a login; it alone knows where `hooks.corp` is."""
    with beside(forwarding) as one:
        one.login = f"agent:{PASSWORD}"
        yield one


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Where `hooks.corp` is."""
    with beside(receiving) as one:
        yield one


@pytest.fixture
def home(server: Server, keys: Keys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The command line is set to this fleet; returns FLEETHOOK_HOME."""
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    monkeypatch.setenv("PROXY_PASSWORD", PASSWORD)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def state_of(name: str) -> str:
    """A delivery's state, as the command line says it."""
    shown = fleethook("deliveries", "show", name, "--json")
    return str(shown.json["state"]) if shown.code == 0 else ""


async def everything(connections: Connections, keys: Keys) -> str:
    """All that Redis keeps of the hook sets."""
    with connections.lease() as connection:
        replies = await connection.exchange(
            [("GET", keys("hookset", "1")), ("XRANGE", keys("hookset", "log"), "-", "+")]
        )
    return " ".join(str(checked(one, "reading")) for one in replies)


@pytest.mark.req("G-20", "G-09")
def test_the_fleets_webhooks_go_through_its_proxy_and_the_password_is_nowhere_to_be_seen(
    server: Server,
    keys: Keys,
    home: Path,
    proxy: ForwardProxy,
    receiver: Receiver,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    Path("fleet.yaml").write_text(HOOKS.format(port=receiver.port, proxy=proxy.place))
    shown: list[Result] = [fleethook("hooks", "check", "fleet.yaml"), fleethook("config", "check", "fleet.yaml")]
    assert shown[0].code == 0, shown[0].err
    shown.append(fleethook("hooks", "apply", "fleet.yaml", "--yes"))
    assert (shown[-1].code, proxy.place in shown[-1].out) == (0, True), "the diff shows which proxy it is"
    with workers(server.url, keys, home, "dispatcher", "carrier"):
        first = f"{fleethook('publish', stdin=json.dumps({'type': 'turn:end'})).out.strip()}.far"
        wait_until(lambda: state_of(first) == "delivered", "it is delivered")
        shown.append(fleethook("webhooks", "test", "far"))
        assert shown[-1].code == 0
        assert [one.path for one in receiver.got] == ["/x"] * 2
        assert not any("proxy-authorization" in one.headers for one in receiver.got)
        assert proxy.asked == [f"POST http://hooks.corp:{receiver.port}/x HTTP/1.1"] * 2

        proxy.login = "agent:changed"
        second = f"{fleethook('publish', stdin=json.dumps({'type': 'turn:end'})).out.strip()}.far"
        wait_until(lambda: state_of(second) == "dead", "it is given up")
        letter = fleethook("dead", "show", second)
        assert f"proxy: {proxy.place}: it answered the request with 407" in letter.out
        tried = fleethook("deliveries", "show", second)
        assert "attempt 2" in tried.out, "what the proxy refuses is tried again"
        shown += [letter, tried, fleethook("webhooks", "test", "far")]
        assert "proxy: " in shown[-1].out
        monkeypatch.delenv("PROXY_PASSWORD")
        shown.append(fleethook("webhooks", "test", "far"))
        assert "PROXY_PASSWORD is not set" in shown[-1].out
    assert len(receiver.got) == 2
    shown += [
        fleethook(*line.split())
        for line in (
            "config show --origin",
            "config show --json",
            "webhooks show far",
            "webhooks show far --json",
            "hooks history",
            "webhooks list",
            "deliveries list --json",
            "dead list --json",
            "hooks diff fleet.yaml 0",
            "hooks list",
            "status",
        )
    ]
    shown.append(fleethook("deliveries", "show", first, "--json"))
    kept = run(server.url, lambda connections: everything(connections, keys))
    for text in (*(one.out + one.err for one in shown), caplog.text, kept):
        assert "hunter2" not in text
    assert "${PROXY_PASSWORD}" in kept


@pytest.mark.req("X-05")
def test_a_projects_file_with_a_proxy_is_a_config_error_with_its_place(home: Path, proxy: ForwardProxy) -> None:
    Path("fleethook.yaml").write_text(f"hooks: []\nnetwork:\n  proxy: {proxy.url()}\n")
    said = fleethook("config", "check")
    assert said.code == 4
    assert "fleethook.yaml:3:" in said.out
    assert "a project's file may not name the proxy" in said.out


def test_the_users_own_file_names_one_too(
    server: Server, keys: Keys, home: Path, proxy: ForwardProxy, receiver: Receiver
) -> None:
    mine = home / "config" / "fleethook.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_text(HOOKS.format(port=receiver.port, proxy=proxy.place))
    assert fleethook("webhooks", "test", "far").code == 0
    looks = [fleethook("webhooks", "check", f"http://{name}.corp:{receiver.port}/") for name in ("hooks", "other")]
    assert [one.code for one in looks] == [0, 1]
    assert "the proxy resolves it" in looks[0].out
    assert len(proxy.asked) == len(receiver.got) == 1
