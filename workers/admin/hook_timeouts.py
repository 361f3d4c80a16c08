"""How long a hook may really take: its declared timeout, cut to the time that the agents installed here wait (B6)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from fnmatch import fnmatchcase

from bus.agents import find
from bus.errors import ConfigError
from bus.hooks import Hook
from bus.installs.base import NAMES
from bus.matching.patterns import parse_pattern
from bus.requests import MOST_BUDGET_MS
from bus.shim.answer_file import EventLine, read_answer_file
from bus.system.directories import Directories
from workers.runtime.slow_hooks import hook_seconds

Granted = Mapping[str, Mapping[str, float]]
"""The seconds that hooks get, by agent and event type."""


def granted_here(places: Directories) -> Granted:
    """How long each agent that is installed here waits for hooks, by event type."""
    found: dict[str, Mapping[str, float]] = {}
    for agent in NAMES:
        with contextlib.suppress(ConfigError):  # it is not installed, or `doctor` reports what is wrong
            lines = read_answer_file(places.answer_file(agent)).events
            found[agent] = _by_type(agent, lines)
    return found


def declared(hook: Hook) -> float | None:
    """The seconds that a hook gets from an agent that waits as long as the bus allows; None for a rule."""
    return None if hook.kind == "rule" else min(hook.timeout, MOST_BUDGET_MS / 1000)


def effective(hook: Hook, granted: Granted) -> dict[str, float]:
    """The seconds that a hook gets from each agent, the least of its events; empty if no agent waits for it."""
    most = declared(hook)
    if most is None or not hook.blocking:
        return {}
    patterns = [pattern.type for text in hook.on for pattern in parse_pattern(text)]
    found: dict[str, float] = {}
    for agent, by_type in granted.items():
        if agent == "claude" and hook.own.get("itself"):
            continue  # Claude Code runs this hook itself
        waits = [seconds for kind, seconds in by_type.items() if any(fnmatchcase(kind, one) for one in patterns)]
        if waits:
            found[agent] = min(most, *waits)
    return found


def _by_type(agent: str, lines: tuple[EventLine, ...]) -> Mapping[str, float]:
    can = find(agent).capabilities
    found: dict[str, float] = {}
    for line in lines:
        if line.mode == "request" and line.name in can:
            kind, seconds = can[line.name].type, hook_seconds(max(line.deadline_ms, line.patience_ms) / 1000)
            found[kind] = min(seconds, found.get(kind, seconds))
    return found
