"""Background hooks of a host that is away: their events wait for its worker, and after a while become dead letters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bus import host_requests
from bus.config.settings import Settings
from bus.events import Event
from bus.hooksets.known_hosts import forget_host
from bus.ids import event_id
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.live.workers.test_host import LAPTOP, hooks, hosting, rule
from tests.support.delivering import dispatching, publish
from tests.support.running import do, publish_hooks
from tests.support.servers import Server
from tests.support.waiting import until
from workers.delivery.dead_letters import dead_letters
from workers.delivery.deliveries import deliveries
from workers.housekeeping import tidy_all
from workers.runtime.kept_events import kept_events

pytestmark = [pytest.mark.live, pytest.mark.req("P-11", "X-10")]


@pytest.fixture(autouse=True)
def looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a host is away is looked at for each event, and not every half second."""
    monkeypatch.setattr(host_requests, "_KNOWN_SECONDS", 0.0)


async def waiting(connections: Connections, keys: Keys) -> list[tuple[str, int]]:
    """For which hosts that are away how many events wait."""
    return [(one.host, one.events) for one in await kept_events(connections, keys)]


def laptop_event(kind: str = "turn:end", **more: Any) -> Event:
    """An event of the laptop that nobody waits for."""
    return Event(id=event_id(), type=kind, source="generic", host=LAPTOP, **more)


async def dispatched(connections: Connections, keys: Keys, *events: Event) -> list[str]:
    """Publish events, and return their ids when the dispatcher has let go of them all."""
    names = [await publish(connections, keys, event) for event in events]

    async def done() -> bool:
        (group,) = await do(connections, "XINFO", "GROUPS", keys("events"))
        stream = await do(connections, "XINFO", "STREAM", keys("events"))
        facts, whole = (dict(zip(row[::2], row[1::2], strict=True)) for row in (group, stream))
        return bool(facts[b"pending"] == 0 and facts[b"last-delivered-id"] == whole[b"last-generated-id"])

    await until(done, "all are dispatched")
    return names


BACKGROUND = {"hooks": [{"id": "logs", "on": "turn:end", "command": "true", "blocking": False}]}


async def test_events_of_a_host_that_is_away_wait_for_its_background_hooks(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    user = tmp_path / "fleethook.yaml"
    rules = [rule("mine", "make") | {"on": "tool:*"}, {"id": "asked", "on": "user:prompt_submit", "command": "true"}]
    user.write_text(json.dumps({"hooks": BACKGROUND["hooks"] + rules}))
    await publish_hooks(connections, keys, hooks(rule("fleets", "rm")))
    async with dispatching(server.url, keys):
        await dispatched(connections, keys, laptop_event())
        assert await waiting(connections, keys) == [], "a host that never said that it has hooks has none"
        async with hosting(server.url, keys, user):
            pass
        names = await dispatched(
            connections, keys, laptop_event(), laptop_event("turn:start"), laptop_event("user:prompt_submit")
        )
        assert await waiting(connections, keys) == [(LAPTOP, 2)], "what fits none of its hooks does not wait"
        await tidy_all(connections, keys, Settings())
        assert await waiting(connections, keys) == [(LAPTOP, 2)]
        async with hosting(server.url, keys, user):

            async def there() -> bool:
                return {(one.event, one.hook) for one in await deliveries(connections, keys)} == {
                    (names[0], "logs"),
                    (names[2], "asked"),
                }

            await until(there, "it runs them when it is back")

            async def gone() -> bool:
                return bool(await do(connections, "XLEN", keys("events", LAPTOP)) == 0)

            await until(gone, "and nothing waits any more")
    await tidy_all(connections, keys, Settings())
    assert await do(connections, "EXISTS", keys("kept")) == 0


async def test_what_waited_too_long_for_a_host_becomes_a_dead_letter_that_says_why(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    user = tmp_path / "fleethook.yaml"
    endpoint = {"id": "told", "url": "https://a.example", "events": "turn:*"}
    user.write_text(json.dumps({"endpoints": [endpoint]}))
    await publish_hooks(connections, keys, hooks(rule("fleets", "rm")))
    async with hosting(server.url, keys, user):
        pass
    async with dispatching(server.url, keys):
        (name,) = await dispatched(connections, keys, laptop_event(session="s1"))
    assert await waiting(connections, keys) == [(LAPTOP, 1)]
    await tidy_all(connections, keys, Settings(deliveries_keep=0.0))
    (letter,) = await dead_letters(connections, keys)
    assert (letter.event, letter.type, letter.session) == (name, "turn:end", "s1")
    assert "no `fleethook worker host` ran on 'laptop'" in letter.reason
    assert "background hooks were not run" in letter.reason
    assert await waiting(connections, keys) == []
    assert await do(connections, "EXISTS", keys("kept")) == 0
    assert await forget_host(connections, keys, LAPTOP)
    async with dispatching(server.url, keys):
        await dispatched(connections, keys, laptop_event())
    assert await waiting(connections, keys) == [], "a host that was forgotten has no hooks to wait for"
