"""The scope of a stop: never weaker than it was meant, and resolved without the event where that is sound (X-12)."""

from __future__ import annotations

from typing import Any

import pytest

from bus.errors import PatternError
from bus.events import Event
from bus.matching.scopes import scope_of
from tests.support.rows import rows

pytestmark = pytest.mark.req("X-12")

KNOWN: dict[str, Any] = {"host": "h1", "source": "claude", "type": "tool:pre_execute"}


@rows(
    ("where", "decided"),
    [
        ("", True),
        ('event.host == "h1"', True),
        ('event.host == "h2"', False),
        ('event.host == "h2" && event.session == "s"', False),
        ('event.host == "h1" || event.session == "s"', True),
        ('event.session == "s" || event.host == "h1"', True),
        ('event.host == "h1" && event.session == "s"', None),
        ('event.session == "s"', None),
        ('event.type == "user:prompt_submit"', False),
        ('has(event.input.path) && event.host == "h1"', None),
        ("!has(event.session)", None),
        ("event.input.exists(name, name == 'path')", None),
        ("'session' in event", None),
        ("size(event) == 3", None),
        ('event.host == "event.session"', False),
        ("event.host", True),
        ("event.host.nothing == 1", True),
    ],
)
def test_what_is_known_without_the_event_decides_only_where_the_rest_cannot(where: str, decided: bool | None) -> None:
    assert scope_of(where).of_known(KNOWN) is decided


EVENTS: list[dict[str, Any]] = [
    {},
    {"session": "s"},
    {"session": "t", "input": {"path": "x"}},
    {"session": "", "cwd": "/srv", "data": {"prompt": "p"}},
]


@pytest.mark.parametrize(
    "where",
    [
        'event.host == "h1" ? event.session == "s" : true',
        'event.session == "s" && event.host != "h1"',
        'event.input.path == "x" || event.source == "codex"',
        'event.source == "claude" && !(event.input.path == "x")',
        'event.cwd.startsWith("/srv") || event.host == "h1"',
        '[event.host, event.session].exists(one, one == "h1")',
        '{"a": event.host}.a == "h1" && event.data.prompt == "p"',
    ],
)
def test_what_is_known_never_differs_from_what_the_whole_event_says(where: str) -> None:
    scope = scope_of(where)
    decided = scope.of_known(KNOWN)
    for more in EVENTS:
        fits = scope.fits(Event(**KNOWN, **more))
        assert decided in {None, fits}, (more, fits)


def test_a_large_input_is_no_cost_for_a_condition_that_does_not_read_it() -> None:
    event = Event(**KNOWN, input={"text": "x" * 5_000_000})
    assert not scope_of('event.host == "h2"').fits(event)
    assert scope_of('event.input.text == "y"').fits(event), "what would take long counts as a fit"


@pytest.mark.parametrize("where", ["event.host ==", "event.hots == 'h1'", "verdict.decision == 'deny'", "host == 'h1'"])
def test_a_condition_that_says_nothing_of_an_event_is_refused(where: str) -> None:
    with pytest.raises(PatternError):
        scope_of(where)
