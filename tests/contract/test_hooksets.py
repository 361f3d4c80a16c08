"""Published hook sets: versions that are applied, refused, rolled back and forgotten."""

from __future__ import annotations

import json

import msgspec
import pytest

from bus.errors import ConfigError, FleethookError, NotFound
from bus.events import Event
from bus.hooksets.guard_changes import GuardChange, Loss, read_changes, report
from bus.hooksets.published import KEPT_VERSIONS, SetMoved, current_version, history, load_version, rollback
from bus.wire.codec import decode_body
from bus.wire.streams import ScriptCall, flat
from tests.support.places import Place
from tests.support.running import do, publish_hooks


@pytest.mark.req("B-04", "X-08")
async def test_a_set_is_a_version_and_a_stale_publisher_is_refused(place: Place) -> None:
    one, two = (f"hooks: [{{id: h, on: '*', command: 'echo {n}'}}]" for n in "12")
    assert await current_version(place.connections, place.keys) == 0
    assert await publish_hooks(place.connections, place.keys, one, expected=0, message="first") == 1
    with pytest.raises(ConfigError, match="version 1 was published meanwhile"):
        await publish_hooks(place.connections, place.keys, two, expected=0)
    assert await publish_hooks(place.connections, place.keys, two, expected=1) == 2
    assert await publish_hooks(place.connections, place.keys, two) == 3
    assert await rollback(place.connections, place.keys, 1) == 4
    assert [hook.command for hook in (await load_version(place.connections, place.keys, 4)).hooks] == ["echo 1"]
    log = await history(place.connections, place.keys)
    assert [change.version for change in log] == [4, 3, 2, 1]
    assert (log[0].message, log[-1].message, log[0].digest) == ("rollback to 1", "first", log[-1].digest)
    for wrong in (0, 9):
        with pytest.raises(NotFound):
            await rollback(place.connections, place.keys, wrong)
    assert await current_version(place.connections, place.keys) == 4


@pytest.mark.req("X-09")
async def test_who_weakens_the_guards_is_announced_in_the_step_that_publishes(place: Place) -> None:
    guard, nothing = "hooks: [{id: h, on: 'tool:pre_execute', command: check}]", "hooks: []"
    await publish_hooks(place.connections, place.keys, guard, expected=0)
    change = GuardChange(how="hooks apply", where="", losses=(Loss("h", "removed"),), by="ana", host="here")
    with pytest.raises(SetMoved):
        await publish_hooks(place.connections, place.keys, nothing, expected=0, change=change)
    assert await do(place.connections, "XLEN", place.keys("events")) == 0, "what is not published is not announced"
    assert await publish_hooks(place.connections, place.keys, nothing, expected=1, change=change) == 2
    noticed = msgspec.structs.replace(change, how="published", where="version 2", about="version 2", by="")
    assert not await report(place.connections, place.keys, noticed), "a worker that notices it later is silent"
    (entry,) = await do(place.connections, "XRANGE", place.keys("events"), "-", "+")
    event = decode_body(flat(entry[1])[b"body"])
    assert isinstance(event, Event)
    data = event.data
    assert (data["how"], data["by"], data["where"]) == ("hooks apply", "ana", "version 2")
    (listed,) = await read_changes(place.connections, place.keys, 3)
    assert (listed.by, listed.text) == ("ana", "hooks apply (version 2) by ana: h removed")


async def test_old_versions_end(place: Place) -> None:
    args = (place.keys("hookset", ""), json.dumps({"hooks": []}), "", KEPT_VERSIONS, 1000, 1, 2, "by", "me")
    names = (place.keys("hookset", "current"), place.keys("hookset", "log"))
    await place.run(*[ScriptCall("apply", names, args)] * (KEPT_VERSIONS + 5))
    exists = [
        int(await do(place.connections, "EXISTS", place.keys("hookset", str(n)))) for n in (5, 6, KEPT_VERSIONS + 5)
    ]
    assert exists == [0, 1, 1]


@pytest.mark.parametrize("raw", [b"not json", b"[]", b'{"hooks": 1}', b"[" * 5000, b"\xff"])
async def test_a_version_that_cannot_be_read_is_an_error_of_ours(place: Place, raw: bytes) -> None:
    await do(place.connections, "SET", place.keys("hookset", "1"), raw)
    with pytest.raises(FleethookError):
        await load_version(place.connections, place.keys, 1)
    await do(place.connections, "SET", place.keys("hookset", "current"), raw)
    with pytest.raises(FleethookError):
        await current_version(place.connections, place.keys)
