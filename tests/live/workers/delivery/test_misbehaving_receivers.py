"""A zoo of receivers that misbehave: one carrier, a deadline each, the outcome of the table, memory that stays flat."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bus.events import Event
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.chaos.fleet import Fleet
from tests.support.delivering import publish, turn_end
from tests.support.memory import MIB, cpu_seconds, peak_rss
from tests.support.running import publish_hooks
from tests.support.servers import Server
from tests.support.waiting import until
from tests.support.zoo import SECONDS, Animal, Zoo, zoo
from workers.delivery.deliveries import Delivery, deliveries
from workers.delivery.filters import Filter

SLACK_MS = 1_500
"""What a shared machine may add to a deadline."""


def hooks(kept: Zoo) -> str:
    """An endpoint for each animal, with no second attempt in the next minutes."""
    ports = ", ".join(f'"127.0.0.1:{url.split(":")[2].split("/")[0]}"' for url in kept.urls.values())
    lines = "\n".join(
        f'  - {{id: {name}, url: "{url}", events: ["turn:end"], timeout: {SECONDS}, retry: [600]}}'
        for name, url in kept.urls.items()
    )
    return f"network: {{allow: [{ports}]}}\nendpoints:\n{lines}\n"


async def tried(connections: Connections, keys: Keys, event: Event, most: int) -> dict[str, Delivery]:
    """The deliveries of an event by endpoint, as soon as each was tried once."""
    await publish(connections, keys, event)
    found: dict[str, Delivery] = {}

    async def all_tried() -> bool:
        found.update({one.hook: one for one in await deliveries(connections, keys, Filter(event=event.id), most=most)})
        return len(found) == most and all(one.log for one in found.values())

    await until(all_tried, "each was tried once")
    return found


@pytest.mark.req("B-06", "G-09", "G-10", "X-05")
async def test_each_has_the_outcome_of_the_table_in_its_time_and_none_costs_memory(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    async with zoo() as kept:
        await publish_hooks(connections, keys, hooks(kept))
        with Fleet(server.url, keys, tmp_path / "fleet") as fleet:
            fleet.start("dispatcher")
            (carrier,) = fleet.start("carrier")
            await until(_ready(fleet), "the fleet is ready")
            rounds: list[dict[str, Delivery]] = []
            peaks: list[int] = []
            used: list[float] = [cpu_seconds(carrier.popen.pid)]
            for _ in range(2):
                rounds.append(await tried(connections, keys, turn_end(), len(kept.animals)))
                peaks.append(peak_rss(carrier.popen.pid))
                used.append(cpu_seconds(carrier.popen.pid))
    wrong = [
        f"round {turn}, {animal.name}: {found[animal.name].state} {found[animal.name].log[0]}"
        for turn, found in enumerate(rounds)
        for animal in kept.animals
        if not fits(animal, found[animal.name], turn)
    ]
    assert not wrong, "\n".join(wrong)
    due = rounds[0]["refuses-for-years"]
    assert due.due - due.log[0].ms <= 86_410_000, "a wish for years counts as one for a day"
    taken = {name: count for name, count in kept.poured.items() if name.startswith("endless")}
    assert len(taken) == 11
    # 128 KiB are read; what else was taken lay in the system's buffers, which grow to some megabytes.
    assert max(taken.values()) / len(rounds) < 12 * MIB, "those that pour until the deadline pour hundreds"
    assert used[2] - used[1] < SECONDS * 0.6, "those that pour until the deadline would keep it busy until then"
    assert peaks[0] < 90 * MIB
    assert peaks[1] - peaks[0] < 16 * MIB, "flat: a receiver that pours would cost it far more"


def fits(animal: Animal, one: Delivery, turn: int) -> bool:
    """Whether the delivery came to what is promised, in its time, without telling more than it should."""
    (attempt,) = one.log
    if turn and animal.later:
        return one.state == animal.later
    return (
        one.state == animal.outcome
        and animal.says in attempt.error
        and animal.status in {None, attempt.status}
        and attempt.took <= SECONDS * 1000 + SLACK_MS
        and len(attempt.head) + len(attempt.output) <= 4096
        and f"/{animal.name}" not in attempt.error
    )


def _ready(fleet: Fleet) -> Callable[[], Awaitable[bool]]:
    async def ready() -> bool:
        return all(worker.ready for kind in ("dispatcher", "carrier") for worker in fleet.of(kind))

    return ready
