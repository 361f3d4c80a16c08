"""The capability tables for people and programs: they say what the dialects decide by, and the page is up to date."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bus.agents import find
from bus.agents.base import Capability
from bus.agents.capability_table import COMMAND, HEAD, about, page, record, row, rows
from bus.events import SOURCES, EventType
from tests.cli_kit import fleethook

PAGE = Path(__file__).parents[4] / "docs" / "agents.md"


@pytest.mark.req("B-08")
def test_the_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page() + "\n", f"run: {COMMAND} > docs/agents.md"


@pytest.mark.req("B-08")
def test_every_agent_has_a_table_and_says_what_it_is() -> None:
    for source in SOURCES:
        assert rows(source), source
        assert find(source).name == source
        assert about(source)[0].strip()
        assert all(len(line) == len(HEAD) for line in rows(source))


@pytest.mark.req("B-08")
@pytest.mark.parametrize(
    ("can", "words"),
    [
        (
            {"block": True, "ask": True, "rewrite": True, "context": True},
            ("blocks", "asks", "said", "applied, or asks", "-", "taken", "600 s"),
        ),
        (
            {"ask_else": "deny", "allow": False, "rewrite": True, "rewrite_as": "alone", "timeout": 1.5},
            ("-", "denies", "silence", "applied", "-", "-", "1.5 s"),
        ),
        (
            {"asks_anyway": True, "rewrite": True, "rewrite_as": "deny", "unit": "ms", "timeout": 60.0},
            ("-", "asks anyway", "said", "applied, or denies", "-", "-", "60000 ms"),
        ),
        (
            {"deny_else": "context", "context": True, "context_limit": 3999, "rewrite_else": "deny"},
            ("as context", "-", "said", "denies", "-", "taken, up to 3,999", "600 s"),
        ),
        ({"elsewhere": frozenset({"ask", "rewrite"})}, ("-", "elsewhere", "said", "elsewhere", "-", "-", "600 s")),
        ({"output": "mcp"}, ("-", "-", "said", "-", "of MCP tools", "-", "600 s")),
        ({"output": "block"}, ("-", "-", "said", "-", "as a block", "-", "600 s")),
    ],
)
def test_a_capability_in_words(can: dict[str, object], words: tuple[str, ...]) -> None:
    known = msgspec.structs.replace(Capability(type=EventType.TOOL_PRE_EXECUTE.value, waits=True), **can)
    assert row("PreToolUse", known) == ("PreToolUse", "tool:pre_execute", *words)


@pytest.mark.req("B-08")
def test_the_command_shows_them() -> None:
    shown = fleethook("hooks", "agents", "codex-cli")
    assert shown.code == 0, shown.err
    assert shown.out.startswith("Codex CLI: ")
    assert "PreToolUse" in shown.out
    plain = fleethook("hooks", "agents", "codex", "qwen", "--json").json
    assert [one["agent"] for one in plain["agents"]] == ["codex", "qwen"]
    assert plain["agents"][0] == record("codex")
    assert plain["agents"][0]["events"]["SessionEnd"]["waits"] is False
    assert fleethook("hooks", "agents", "--markdown").out == page() + "\n"
    unknown = fleethook("hooks", "agents", "nobody")
    assert unknown.code == 2
    assert "no agent is called 'nobody'" in unknown.err
