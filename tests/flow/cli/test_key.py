"""Sealed secrets on several machines: deliveries wait for the key, status says for which, and they go on when it comes."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.http.signing import generate_secret
from bus.ids import host_name
from bus.secrets.sealing import key_ids
from bus.wire.keys import Keys
from tests.cli_kit import fleethook, namespace, run, workers
from tests.support.beside import beside
from tests.support.receivers import receiving
from tests.support.servers import Server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("X-10")

HOOKS = """
endpoints: [{{id: chat, url: "{url}chat", secret: "{secret}"}}]
network: {{allow: ["127.0.0.1:{port}"]}}
"""


def states() -> dict[str, int]:
    """How many attempts each delivery has had, by state."""
    found = fleethook("deliveries", "list", "--json").lines
    return {one["state"]: one["attempts"] for one in found}


def test_deliveries_wait_for_the_key_and_go_on_when_it_comes(
    server: Server, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    monkeypatch.setenv("FLEETHOOK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FLEETHOOK_TEST_CONFIRMS", "1")
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        receiver = stack.enter_context(beside(receiving))
        text = HOOKS.format(url=receiver.url(), port=receiver.port, secret=generate_secret())
        monkeypatch.setenv("FLEETHOOK_SECRET_KEY_FILE", str(tmp_path / "publisher.key"))
        run(server.url, lambda connections: apply(connections, keys, parse_hook_file(text, "fleet")))
        (key,) = key_ids()
        handed = fleethook("key", "export")
        assert handed.code == 0, handed.err
        monkeypatch.setenv("FLEETHOOK_SECRET_KEY_FILE", str(tmp_path / "carrier.key"))
        stack.enter_context(workers(server.url, keys, tmp_path / "home", "dispatcher", "carrier"))
        assert fleethook("publish", stdin=json.dumps({"type": "turn:end"})).code == 0
        wait_until(lambda: states() == {"parked": 0}, "it waits, and no attempt counts")
        wait_until(lambda: f"does not have key {key}" in fleethook("status").out, "status says for which key")
        (use,) = fleethook("status", "--json").json["missing_keys"]
        assert (use["key"], use["host"], use["endpoint"]) == (key, host_name(), "chat")
        assert receiver.got == []
        imported = fleethook("key", "import", stdin=handed.out)
        assert (imported.code, key in imported.out) == (0, True), imported.err
        wait_until(lambda: states() == {"delivered": 1}, "it goes on by itself")
        assert len(receiver.got) == 1
        wait_until(lambda: not fleethook("status", "--json").json["missing_keys"], "nothing is said to wait")
    assert (tmp_path / "carrier.key").stat().st_mode & 0o777 == 0o600
    assert fleethook("key", "list", "--json").json["keys"] == [key]


def test_an_agent_hands_no_key_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLEETHOOK_TEST_CONFIRMS", raising=False)
    monkeypatch.setenv("FLEETHOOK_SECRET_KEY_FILE", str(tmp_path / "secret.key"))
    monkeypatch.setenv("CLAUDECODE", "1")
    for word in ("export", "import"):
        refused = fleethook("key", word, stdin="x")
        assert refused.code == 1
        assert refused.out == ""
        assert "an agent runs it" in refused.err
