"""Published hook sets: versions that are applied, refused, rolled back and forgotten."""

from __future__ import annotations

import json

import pytest

from bus.errors import ConfigError, FleethookError, NotFound
from bus.hooksets.published import KEPT_VERSIONS, current_version, history, load_version, rollback
from bus.wire.streams import ScriptCall
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


async def test_old_versions_end(place: Place) -> None:
    args = (place.keys("hookset", ""), json.dumps({"hooks": []}), "", KEPT_VERSIONS, 1000, "by", "me")
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
