"""Hook commands that the agent does not wait for: they announce the event, and nothing of it is lost (X-14)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bus.shim.answer import HookAnswer
from bus.shim.answer_file import RedisServer, compile_shim
from bus.wire.codec import decode_body
from tests.shim_kit import World, connect, running_server

pytestmark = [pytest.mark.live, pytest.mark.req("X-14"), pytest.mark.usefixtures("each_shim")]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Any]]:
    compile_shim()
    path = tmp_path_factory.mktemp("r") / "s"
    with running_server(path), connect(path) as client:
        yield path, client


def test_an_event_that_would_be_asked_about_is_announced(house: tuple[Path, Any], tmp_path: Path) -> None:
    """No evaluator runs: a command that asks would give its fallback, which blocks here."""
    world = World(tmp_path, *house)
    world.install()
    assert world.hook(b'{"n": 1}', later=True) == HookAnswer()
    assert world.entries("requests") == []
    (event,) = world.entries("events")
    assert (event[b"event"], decode_body(event[b"body"])) == (b"PreToolUse", b'{"n": 1}')


def test_without_a_server_it_is_kept_and_nothing_is_said(house: tuple[Path, Any], tmp_path: Path) -> None:
    world = World(tmp_path, *house)
    world.install(RedisServer(kind="unix", address=str(tmp_path / "nobody")))
    assert world.hook(b'{"n": 2}', later=True) == HookAnswer()
    (event,) = world.recorded()
    assert (event[b"event"], decode_body(event[b"body"])) == (b"PreToolUse", b'{"n": 2}')
