"""`limits list` and `limits reset` below an agent: sessions, and subagents that count for their parents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.memory.charges import session_key
from bus.wire.connections import sync_client
from bus.wire.keys import Keys
from tests.cli_kit import Result, fleethook, namespace, run, workers
from tests.support.servers import Server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("X-13")

HOOKS = """
hooks:
  - {id: twice, on: tool:pre_execute:bash, rule: {decision: deny, limit: 2 per hour, reason: twice}}
  - {id: each, on: tool:pre_execute:bash, rule: {decision: deny, limit: 9 per hour per agent, reason: nine}}
"""


def test_a_session_is_reset_with_its_subagents_and_no_other(
    server: Server, keys: Keys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    run(server.url, lambda connections: apply(connections, keys, parse_hook_file(HOOKS, "fleet")))

    def ask(session: str, parent: str = "") -> str:
        event: dict[str, Any] = {"type": "tool:pre_execute", "source": "codex", "tool": "bash", "session": session}
        data = {"parent_session": parent} if parent else {}
        given = {**event, "input": {"command": "ls"}, "data": data}
        return str(fleethook("request", stdin=json.dumps(given)).json["decision"])

    def counts() -> dict[str, int]:
        """The counters; the root's may be listed by the name that its subagent has for its own parent."""
        found = fleethook("limits", "list", "--json").json
        names = {"sub-7777": "root-1111"}
        return {f"{one['scope']} {names.get(one['whose'], one['whose'])}": one["count"] for one in found}

    def reset(*words: str) -> Result:
        return fleethook("limits", "reset", "twice", *words)

    with workers(server.url, keys, tmp_path / "home", "evaluator", "dispatcher"), sync_client(server.url) as client:
        assert ask("sub-7777", "root-1111") == "abstain"
        known = keys("family", session_key("codex", "sub-7777"))
        wait_until(lambda: client.exists(known), "the dispatcher has noted whose subagent it is")
        assert ask("grandchild-1", "sub-7777") == "abstain"
        assert ask("root-1111") == "deny", "its subagent and the subagent's own one have used it up"
        assert [ask("root-2222"), ask("other-3333")] == ["abstain"] * 2
        assert counts() == {"session root-1111": 2, "session root-2222": 1, "session other-3333": 1, "agent codex": 4}

        both = reset("--whose", "root")
        assert both.code == 2
        assert "several sessions begin with 'root': root-1111, root-2222" in both.err
        assert reset("--whose", "nobody").code == 1
        assert sum(counts().values()) == 8, "nothing was reset"
        assert reset("--whose", "root-1").code == 0
        assert "session root-1111" not in counts()
        assert [ask("sub-7777", "root-1111"), ask("root-1111"), ask("grandchild-1")] == ["abstain"] * 2 + ["deny"]
        assert reset("--whose", "grandchild-1").code == 1, "it has counted for its parent only, by that one's name"
        assert reset("--whose", "root-1111").code == 0
        assert ask("grandchild-1") == "abstain"
        left = counts()
        assert (left["session root-2222"], left["session other-3333"], left["agent codex"]) == (1, 1, 7)
        assert reset("--whose", "codex").code == 0
        assert [name for name in counts() if name.startswith("session")] == []
        assert counts() == {"agent codex": 7}, "another rule's counter stays"
