"""Which names a client of Gobby's WebSocket has subscribed to (G-23)."""

from __future__ import annotations

import pytest

from workers.gateway.gobby.broadcast import Chosen

pytestmark = pytest.mark.req("G-23")


@pytest.mark.parametrize("spelling", ["pre-tool-use", "before_tool", "PreToolUse", "tool_call"])
def test_a_name_is_removed_in_whichever_spelling_it_was_added(spelling: str) -> None:
    chosen = Chosen(["*"])
    chosen.subscribe(["pre-tool-use", "session_start"], "")
    chosen.unsubscribe([spelling])
    assert chosen.names == ["session_start"]


@pytest.mark.parametrize("names", [[], ["*"], ["stop", "*"]])
def test_everything_is_removed_and_nothing_comes_then(names: list[str]) -> None:
    chosen = Chosen(["*"])
    chosen.subscribe(["pre-tool-use", "session_start"], "")
    chosen.unsubscribe(names)
    assert (chosen.names, chosen.rules) == ([], ())
