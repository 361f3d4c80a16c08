"""The checks of `fleethook doctor`: whether hooks really run here, what is wrong, and how to repair it.

`unknown` is a state of its own: what could not be seen is neither well nor ill.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

from bus.installs import find
from bus.installs.base import NAMES

State = Literal["ok", "warn", "fail", "unknown"]
Repair = Literal["", "modes", "install", "spool"]

INSTALL: Final = "fleethook install"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check: `fix` is what a person can do, `repair` is what `doctor --fix` does."""

    id: str
    status: State
    what: str
    fix: str = ""
    repair: Repair = ""
    agent: str = ""
    """The agent that it is about; empty if it is about none."""
    brief: str = ""
    """A few words on what is in order, for the line of its group."""
    cause: str = ""
    """The id of the failed check because of which this one could not be made; empty if it says something of its own."""


_LABELS: Final = {"machine": "This machine", "bus": "Bus", "fleet": "Fleet"}
_BUS: Final = frozenset(
    {
        "server",
        "appendonly",
        "maxmemory-policy",
        "memory",
        "default-user",
        "append-only-user",
        "streams",
        "evaluator",
        "dispatcher",
        "host",
        "carrier",
        "chores",
        "gateway",
    }
)
_FLEET: Final = frozenset({"hooks", "fleet-guards", "hosts"})


def group_of(check: Check) -> str:
    """An agent's name; else `bus` (its server and workers), `fleet` (what all machines share) or `machine`."""
    if check.agent:
        return check.agent
    return "bus" if check.id in _BUS else "fleet" if check.id in _FLEET else "machine"


def by_group(checks: Iterable[Check]) -> Mapping[str, list[Check]]:
    """The checks by group: this machine, bus, fleet, then each agent in the order in which it was looked at."""
    groups: dict[str, list[Check]] = {group: [] for group in _LABELS}
    for check in checks:
        groups.setdefault(group_of(check), []).append(check)
    return {group: found for group, found in groups.items() if found}


def label_of(group: str) -> str:
    """What a group is called on a screen."""
    return _LABELS.get(group) or (find(group).label if group in NAMES else group)
