"""The record of one host's own hooks: how many they are, as the user counts them, and which."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.hooksets.host_hooks import HostHooks, own_hooks

GUARDS = "guards: {destructive-commands: true, fleethook-itself: true}\n"
HOOK = "  - {{id: h{0}, on: tool:pre_execute, tool: t{0}, command: 'true'}}\n"


@pytest.mark.req("X-02")
@pytest.mark.parametrize(
    ("text", "count", "says"),
    [
        ("hooks: []\n", 0, ""),
        ("hooks:\n" + HOOK.format(1), 1, "1 blocking hook (h1)"),
        (GUARDS, 2, "2 guard packs (destructive-commands and fleethook-itself)"),
        (
            GUARDS.replace("fleethook-itself: true", "fleethook-itself: false")
            + "hooks:\n"
            + "".join(map(HOOK.format, range(5))),
            6,
            "1 guard pack (destructive-commands) and 5 blocking hooks (h0, h1, h2 and 2 more)",
        ),
    ],
)
def test_a_guard_pack_counts_as_one(tmp_path: Path, text: str, count: int, says: str) -> None:
    """A host with the file of the first `up` was said to have 90 blocking hooks."""
    file = tmp_path / "fleethook.yaml"
    file.write_text(text)
    own, _ = own_hooks(file, tmp_path / "trust", None)
    found = HostHooks(own.blocking)
    assert (found.count, found.text) == (count, says)
