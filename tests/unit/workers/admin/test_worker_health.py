"""Whose processes a probe counts: those of this machine by their names."""

from __future__ import annotations

import pytest

from workers.admin.worker_health import host_of


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("evaluator-node-123-abcdef", "node"),
        ("carrier-node-2-123-abcdef", "node-2"),
        ("dispatcher-fleethook-dispatcher-7d9f-x2x-1-00ff00", "fleethook-dispatcher-7d9f-x2x"),
        ("odd", ""),
    ],
)
def test_the_host_in_the_name_of_a_process(name: str, host: str) -> None:
    """A host whose name begins with ours is another one."""
    assert host_of(name) == host
