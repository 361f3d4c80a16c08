"""Which events say what a model has used, and that each answer counts once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bus.agents import find
from bus.events import Event
from bus.memory.replayed import ReplayedMemory
from bus.memory.spending import spent_by

pytestmark = pytest.mark.req("X-13")


def amounts(event: Event) -> dict[str, int]:
    found = spent_by(event, event.time, "1")
    return {} if found is None else dict(found.amounts)


def gemini(total: int, finish: str = "") -> Event:
    candidate = {"content": {"role": "model", "parts": []}, "index": 0, **({"finishReason": finish} if finish else {})}
    response = {"text": "", "candidates": [candidate], "usageMetadata": {"totalTokenCount": total}}
    payload = {"hook_event_name": "AfterModel", "session_id": "s", "cwd": "/w", "llm_response": response}
    return find("gemini").read("AfterModel", json.dumps(payload).encode())


def opencode(**info: Any) -> Event:
    whole = {"id": "msg_1", "sessionID": "ses_1", "role": "assistant", "cost": 0.25, **info}
    tokens = {"input": 10, "output": 5, "reasoning": 1, "cache": {"read": 100, "write": 4}}
    event = {
        "type": "message.updated",
        "properties": {"sessionID": "ses_1", "info": {"tokens": tokens, **whole}},
    }
    payload = {"hook": "event", "directory": "/w", "input": {"event": event}}
    return find("opencode").read("message.updated", json.dumps(payload).encode())


def test_only_the_last_part_of_geminis_answer_counts() -> None:
    assert amounts(gemini(7)) == {}, "each part has what the whole answer has used so far"
    assert amounts(gemini(9, "STOP")) == {"tokens": 9}


def test_a_whole_answer_of_opencode_counts_once() -> None:
    assert amounts(opencode(time={"created": 1})) == {}
    assert amounts(opencode(role="user", time={"created": 1, "completed": 2})) == {}
    whole = opencode(time={"created": 1, "completed": 2})
    assert amounts(whole) == {"tokens": 120, "USD": 250_000}
    again, other = opencode(time={"created": 1, "completed": 3}), opencode(id="msg_2", time={"completed": 4})
    names = [found.event for event in (whole, again, other) if (found := spent_by(event, 0, "1")) is not None]
    assert names[0] == names[1] != names[2]
    memory = ReplayedMemory()
    for event in (whole, again, other):
        memory.note(event, denied=False)
    (session,) = [fields for key, fields in memory._spent.items() if ":session:" in key]
    assert session["tokens:all"] == 240


def test_a_programs_own_events_count_by_their_usage() -> None:
    def said(**data: Any) -> dict[str, int]:
        return amounts(Event(type="llm:post_response", id="e", source="generic", session="s", data=data))

    assert said(usage={"input_tokens": 3, "output_tokens": 4, "cost": 0.5}) == {"tokens": 7, "USD": 500_000}
    assert said(tokens=5, cost=1, currency="EUR") == {"tokens": 5, "EUR": 1_000_000}
    assert said(text="hello") == {}
    assert amounts(Event(type="tool:post_execute", id="e", source="generic", data={"tokens": 5})) == {}
