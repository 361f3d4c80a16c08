"""A newcomer's path: read the files in the order of their numbers, each shows one idea with all parts real.

There is one fleet for all of them: a Redis-compatible server, an evaluator (gives verdicts), a dispatcher (turns events
into deliveries) and a carrier (an RQ worker that carries them), as `fleethook up` starts them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bus import SyncBus
from tests.support.fleet import Fleet
from tests.support.fleet import fleet as started


@pytest.fixture(scope="package")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The fleet; `fleet.publish_hooks(...)` does what `fleethook hooks apply` does."""
    with started(tmp_path_factory.mktemp("fleet"), "evaluator", "dispatcher", "carrier") as one:
        yield one


@pytest.fixture
def bus(fleet: Fleet) -> Iterator[SyncBus]:
    """The bus as a program uses it, with synchronous calls."""
    with fleet.bus().sync() as one:
        yield one
