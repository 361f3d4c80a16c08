"""What a condition may say of a session, and what it reads (X-13)."""

from __future__ import annotations

from typing import Any

import pytest

from bus.errors import PatternError
from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.matching.conditions import compile_condition
from bus.memory.deeds import Deed
from bus.memory.facts import Memory, fact_texts, session_value

pytestmark = pytest.mark.req("X-13")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('session.rann("x").ok', "no function 'rann'"),
        ("session.read_secrets", "did you mean read_secret"),
        ("session.ran(event.tool).ok", "with one text"),
        ('event.ran("x").ok', "with one text"),
        ('session.ran("x").exitt == 0', "did you mean exit"),
        ('session.ran("x").earlier(session.ran("y"))', "no function"),
        ('session.wrote("").found', "1 to 200 characters"),
        ("session == event.session", "session alone"),
        ('session.ran("x", "y").ok', "with one text"),
        (" && ".join(f'session.ran("{n}").ok' for n in range(17)), "16 is the most"),
    ],
)
def test_what_does_not_exist_is_refused(text: str, says: str) -> None:
    with pytest.raises(PatternError) as caught:
        compile_condition(text)
    assert says in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    "entry",
    [
        "hooks:\n  - {on: tool:*, blocking: false, command: ls, when: session.read_secret}",
        'endpoints:\n  - {url: "https://x.example", when: session.read_secret}',
    ],
)
def test_only_blocking_hooks_read_them(entry: str) -> None:
    (problem,) = parse_hook_file(entry, "fleet").problems
    assert "only a blocking hook reads facts of the session" in problem.message
    assert problem.line == 2
    assert problem.column > 1


def holds(text: str, *deeds: tuple[Deed, int], **more: Any) -> bool:
    """Whether a condition holds in a session that did this, the last first."""
    condition = compile_condition(text)
    memory = Memory([(deed.member, ms) for deed, ms in deeds], **more)
    event = Event(type="agent:stop", session="s", cwd="/w")
    value = session_value(memory, condition.facts, event)
    assert len(fact_texts(condition, value)) >= len(condition.facts)
    return condition({"event": event.facts(), "verdict": {}, "session": value})


PASSED, FAILED = Deed("ran", "pytest -q", 0), Deed("ran", "pytest -q", 1)
WROTE = Deed("wrote", "/w/src/a.py")


def test_the_last_deed_of_a_kind_counts() -> None:
    assert holds('session.ran("pytest").exit == 0', (PASSED, 9), (FAILED, 5))
    assert not holds('session.ran("pytest").ok', (FAILED, 9), (PASSED, 5))
    assert holds('session.ran("pytest").exit == -1 && !session.ran("pytest").found')
    assert holds('session.wrote("src/**").after(session.ran("pytest"))', (WROTE, 9), (PASSED, 5))
    assert not holds('session.wrote("src/**").after(session.ran("pytest"))', (PASSED, 9), (WROTE, 5))
    assert not holds('session.wrote("docs/**").after(session.ran("pytest"))', (WROTE, 9))
    assert holds('session.ran("pytest").before(session.wrote("src/**"))', (WROTE, 9), (PASSED, 5))
    assert not holds('session.ran("pytest").before(session.wrote("src/**"))', (WROTE, 9))
    assert holds("session.read_secret", secrets=[(Deed("secret", "/w/.env").member, 3)])
    assert holds("session.repeats >= 3 && session.tokens == 10", repeats=3, tokens=10)
    assert holds('session.called("mcp__*").found', (Deed("called", "mcp__x__y"), 2))


def test_an_event_named_session_is_no_fact() -> None:
    condition = compile_condition('event.session == "s" && event.data.session == 1')
    assert not condition.uses_session
