"""The cause of a gap: the surest one that can be seen (X-15)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.rows import rows
from workers.coverage.causes import CAUSES, Cause, Evidence, explain
from workers.coverage.installs import InstalledHooks, InstallFault
from workers.coverage.marks import UncoveredCall
from workers.coverage.reports import AgentReport

pytestmark = pytest.mark.req("X-15")

NOW = 10_000_000
CALL = UncoveredCall("s", "toolu_1", "bash", "e1", NOW, "hook-command/0.1.0")
REPORT = AgentReport(host="build-7", agent="claude", pre=5)
FILE = InstalledHooks(agent="claude", path="/h/.claude/settings.json", events=("PreToolUse", "PostToolUse"))
KNOWN = Evidence(call=CALL, agent="claude", host="build-7", started=NOW - 60_000, reports=[REPORT])


def cause(**more: Any) -> Cause:
    """The cause where this is known too."""
    return explain(msgspec.structs.replace(KNOWN, **more))


def report(**more: Any) -> list[AgentReport]:
    return [msgspec.structs.replace(REPORT, **more)]


def file(**more: Any) -> list[InstalledHooks]:
    return [msgspec.structs.replace(FILE, **more)]


SEEN = {"last_pre": NOW - 5_000, "tools": frozenset({"bash", "read"})}
CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "removed": (
        {"installs": file(events=("PostToolUse",), removed=("PreToolUse",))},
        "removed",
        "PreToolUse was removed from /h/.claude/settings.json since the install",
    ),
    "none in this user's settings, so another's": ({"installs": [], **SEEN}, "stopped", "and then no more"),
    "not for this event": (
        {"installs": file(events=("PostToolUse",))},
        "not_installed",
        "no hook of Fleethook is installed for PreToolUse in /h/.claude/settings.json",
    ),
    "switched off": (
        {"installs": file(disabled=(InstallFault("`disableAllHooks` is true", "take it out"),))},
        "disabled",
        "disableAllHooks",
    ),
    "not trusted": (
        {
            "agent": "codex",
            "installs": file(agent="codex", untrusted=(InstallFault("2 of 9 hooks are not trusted yet", "/hooks"),)),
        },
        "untrusted",
        "not trusted yet",
    ),
    "a fallback before it": (
        {"reports": report(fallback_at=NOW - 3_000, fallback_why="no answer in time"), **SEEN},
        "fallback",
        "its own answer (no answer in time)",
    ),
    "a fallback long before it": (
        {"reports": report(fallback_at=NOW - 3_600_000, fallback_why="no answer in time"), **SEEN},
        "stopped",
        "and then no more",
    ),
    "an event that could not be read": ({"reports": report(unreadable_at=NOW - 1_000), **SEEN}, "unreadable", "read"),
    "a narrow matcher": (
        {**SEEN, "tools": frozenset({"read", "edit"})},
        "matcher",
        "is too narrow, or its hooks were changed while it ran",
    ),
    "a matcher that is surely narrow": (
        {"last_pre": NOW + 5_000, "tools": frozenset({"read"})},
        "matcher",
        "come for read and not for bash: the matcher of its pre-tool hook is too narrow",
    ),
    "hooks of type http": ({**SEEN, "call": msgspec.structs.replace(CALL, by="gateway/0.1.0")}, "http", "type http"),
    "it had them": (SEEN, "stopped", "until 1970-01-01 02:46:35 UTC"),
    "started before the install": ({"started": 0}, "started_before", "was started before its hooks were installed"),
    "others have them": ({}, "unknown", "other sessions of claude on build-7 have pre-hook events"),
    "nobody ever": ({"reports": report(pre=0)}, "never", "no pre-hook event of claude ever came from build-7"),
    "an agent that is not installed by us": ({"agent": "pigo", "installs": [], "reports": []}, "never", "pigo"),
}


@rows("case", CASES)
def test_each_cause_is_named_with_what_was_seen(case: str) -> None:
    more, name, words = CASES[case]
    found = cause(**more)
    assert (found.name, found.name in CAUSES) == (name, True), found
    assert words in found.text
    assert found.fix


def test_hooks_that_are_in_order_leave_the_cause_to_what_came() -> None:
    assert cause(installs=file(), **SEEN).name == "stopped"
