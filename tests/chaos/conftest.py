"""Fixtures of the chaos tests: a fleet and a counter on the shared server, or on a server of the test's own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bus.wire.keys import Keys
from tests.chaos.counting import Counts
from tests.chaos.fleet import Fleet
from tests.support.servers import Server

Owned = tuple[Server, Keys, Fleet, Counts]


@pytest.fixture
def counts(server: Server, keys: Keys) -> Iterator[Counts]:
    """What is in the test's namespace; nothing undeclared may be left in it."""
    made = Counts(server.url, keys)
    yield made
    strays = made.strays()
    made.close()
    assert not strays, "\n".join(strays)


@pytest.fixture
def fleet(server: Server, keys: Keys, counts: Counts, tmp_path: Path) -> Iterator[Fleet]:
    """An empty fleet on the shared server; gone before the keys are looked at."""
    with Fleet(server.url, keys, tmp_path / "fleet") as made:
        yield made


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Callable[..., Owned]]:
    """A maker of servers of the test's own, each with a fleet and a counter; the keys are looked at in the end."""
    with ExitStack() as stack:

        def make(*, fsync: str = "everysec", persistent: bool = True, seed: int = 0) -> Owned:
            server, keys = Server(fsync=fsync, persistent=persistent), Keys(f"t-{uuid.uuid4().hex[:12]}")
            server.start()
            stack.callback(server.stop)
            counts = Counts(server.url, keys)
            stack.callback(_look, counts)
            fleet = stack.enter_context(Fleet(server.url, keys, tmp_path / "fleet", seed=seed))
            return server, keys, fleet, counts

        yield make


def _look(counts: Counts) -> None:
    strays = counts.strays()
    counts.close()
    assert not strays, "\n".join(strays)
