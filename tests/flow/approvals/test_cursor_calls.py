"""Cursor announces one call by two events: a person is asked once (X-03)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.support.fleet import Fleet
from tests.support.gateway import Gateway
from tests.support.held import Held
from tests.support.waiting import PATIENCE
from workers.approvals.decisions import Verb

pytestmark = [pytest.mark.flow, pytest.mark.req("X-03", "B-08")]


class Cursor:
    """Cursor's side of a call: its two events, one after the other."""

    def __init__(self, world: Fleet, client: httpx.Client) -> None:
        self._held, self._client, self._pool = Held(world), client, ThreadPoolExecutor(2)

    def _says(self, native: str, fields: dict[str, Any]) -> str:
        payload = {"hook_event_name": native, "conversation_id": "c1", "workspace_roots": ["/srv"], **fields}
        said = self._client.post(f"/v1/hooks/cursor/{native}", json=payload, timeout=PATIENCE)
        assert said.status_code == 200
        return str(said.json().get("permission", ""))

    def before_tool(self, command: str, call: str, generation: str = "g1") -> str:
        fields = {"tool_name": "Shell", "tool_input": {"command": command, "cwd": "", "timeout": 30_000}, "cwd": ""}
        return self._says("preToolUse", {**fields, "tool_use_id": call, "generation_id": generation})

    def before_shell(self, command: str, generation: str = "g1") -> str:
        return self._says("beforeShellExecution", {"command": command, "cwd": "/srv", "generation_id": generation})

    def answered(self, verb: Verb, event: Callable[..., str], command: str, *more: str) -> str:
        """What an event gets whose question a person answers."""
        said = self._pool.submit(event, command, *more)
        self._held.answer(self._held.question(command), verb)
        return said.result(PATIENCE)


@pytest.fixture(scope="module")
def cursor(world: Fleet, gateway: Gateway) -> Iterator[Cursor]:
    with gateway.tcp(gateway.token("cursor")) as client:
        yield Cursor(world, client)


def test_a_yes_at_the_first_event_counts_at_the_second(world: Fleet, cursor: Cursor) -> None:
    assert cursor.answered("approve", cursor.before_tool, "deploy by cursor", "t1") == "allow"
    assert cursor.before_shell("deploy by cursor") == "allow"
    asked = [seen.event.data["summary"] for seen in world.events(types=("approval:requested",))]
    assert asked.count("deploy by cursor") == 1
    second = next(seen for seen in world.events() if seen.event.native == "beforeShellExecution")
    assert second.verdict is not None
    assert second.verdict.approval is not None
    assert (second.verdict.approval.by, second.verdict.approval.ticket) == ("ana", False)


def test_it_counts_once_and_for_no_other_call(cursor: Cursor) -> None:
    assert cursor.answered("approve", cursor.before_tool, "deploy once by cursor", "t2") == "allow"
    assert cursor.answered("deny", cursor.before_shell, "deploy another by cursor") == "deny"
    assert cursor.answered("deny", cursor.before_shell, "deploy once by cursor", "g2") == "deny", "of another turn"
    assert cursor.before_shell("deploy once by cursor") == "allow"
    assert cursor.answered("deny", cursor.before_shell, "deploy once by cursor") == "deny"
    assert cursor.answered("deny", cursor.before_tool, "deploy once by cursor", "t3") == "deny", "a call of its own"
