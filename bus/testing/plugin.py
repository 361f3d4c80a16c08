"""The pytest plugin: the fixtures `memory_bus` and `hook_plugin` open buses in this process and close them after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # pytest loads plugins early, so the import of the bus waits for the first test that needs it
    from bus.testing.memory_bus import SyncMemoryBus


def pytest_configure() -> None:
    """Let tests of plugins that were written for Gobby import its names."""
    from bus.testing.gobby_names import add_finder

    add_finder()


@pytest.fixture
def memory_bus() -> Iterator[Callable[..., SyncMemoryBus]]:
    """`memory_bus("fleethook.yaml")` or `memory_bus(text="hooks: …")`: a bus with these hooks, and no server."""
    from bus.testing.memory_bus import MemoryBus

    opened: list[SyncMemoryBus] = []

    def open_bus(*args: object, **options: object) -> SyncMemoryBus:
        opened.append(MemoryBus(*args, **options).sync())  # type: ignore[arg-type]  # as MemoryBus takes them
        return opened[-1]

    yield open_bus
    for bus in opened:
        bus.close()


@pytest.fixture
def hook_plugin(memory_bus: Callable[..., SyncMemoryBus]) -> Callable[..., SyncMemoryBus]:
    """`hook_plugin("guard.py", config={…})`: a bus with the plugins of this file, loaded in this process; needs no server."""
    import json
    from pathlib import Path

    from bus.hooksets.plugins.classes import plugin_classes

    def open_plugin(path: str | Path, config: dict[str, object] | None = None) -> SyncMemoryBus:
        file = Path(path).absolute()
        names = [found.name for found in plugin_classes(file.read_text(encoding="utf-8"), str(file))]
        if not names:
            raise ValueError(f"{file} has no plugin: a subclass of HookPlugin with a name")
        entries = {name: {"path": str(file), "config": config or {}} for name in names}
        return memory_bus(text=json.dumps({"plugins": entries}))

    return open_plugin
