"""Which clients get a message: by pattern and condition, each once (issue 12, item 3)."""

from __future__ import annotations

from bus.events import Event
from tests.support.rows import rows
from workers.gateway.live.cursors import Cursor
from workers.gateway.live.messages import FeedMessage
from workers.gateway.live.subscriptions import Router, Subscriptions

EVENT = Event(type="tool:pre_execute", tool="bash", session="s1", host="h", input={"command": "ls"})


def message(event: Event = EVENT, decision: str = "deny") -> FeedMessage:
    return FeedMessage(Cursor(), True, "event", "{}", event, {"decision": decision, "reason": ""})


@rows(
    ("where", "fits"),
    [
        ("", True),
        ('event.session == "s1"', True),
        ('event.session == "s2"', False),
        ("event.session=='s1' && verdict.decision == 'deny'", True),
        ("event.session == 's1' && verdict.decision == 'allow'", False),
        ('event.session == "s2" || event.tool == "bash"', True),
        ('event.session == "s2" ? false : true', True),
        ('event.session == "s2" == false', True),
        ('event.session == "s2" && event.data.such == 1', False),
        ('event.session == "\\u0073\\u0031"', True),
        ('!(event.session == "s2")', True),
        ('event.input.command == "ls"', True),
        ('event.input.path == "x"', False),
        ('event.tool == "bash" && event.host == "h"', True),
    ],
)
def test_a_condition_means_the_same_however_it_is_looked_up(where: str, fits: bool) -> None:
    subscriptions = Subscriptions()
    subscriptions.subscribe(["tool:*"], where)
    router = Router([("client", subscriptions.current), ("other", ())])
    assert list(router.clients(message())) == (["client"] if fits else [])


def test_a_client_with_several_subscriptions_that_fit_gets_a_message_once() -> None:
    both, everything = Subscriptions(), Subscriptions()
    both.subscribe(["tool:*", "*"])
    both.subscribe(["tool:pre_execute:bash"], 'event.session == "s1"')
    router = Router([("both", both.current), ("everything", everything.current)])
    assert sorted(router.clients(message())) == ["both", "everything"]


def test_a_condition_that_is_costly_for_an_event_counts_as_true() -> None:
    """It could stop the feed of all clients; nothing is missed."""
    subscriptions = Subscriptions()
    subscriptions.subscribe(["*"], "event.input.all.exists(a, event.input.all.exists(b, a == b + 'x'))")
    router = Router([("client", subscriptions.current)])
    many = Event(type="tool:pre_execute", input={"all": [str(number) for number in range(3000)]})
    few = Event(type="tool:pre_execute", input={"all": ["a", "b"]})
    assert list(router.clients(message(many))) == ["client"]
    assert list(router.clients(message(few))) == []
