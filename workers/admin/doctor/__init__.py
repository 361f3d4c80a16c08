"""The checks of `fleethook doctor`: whether hooks really run here, what is wrong, and how to repair it.

A check that could not be made has the state `unknown`, which is neither good nor bad.
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
    """For a check that is ok: a few words for the line of its group."""
    cause: str = ""
    """The id of the failed check that kept this one from being made; empty if none did."""


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
_FLEET: Final = frozenset({"hooks", "fleet-guards", "hosts", "coverage"})


def group_of(check: Check) -> str:
    """An agent's name; else `bus` (its server and workers), `fleet` (what all machines share) or `machine`."""
    if check.agent:
        return check.agent
    return "bus" if check.id in _BUS else "fleet" if check.id in _FLEET else "machine"


def by_group(checks: Iterable[Check]) -> Mapping[str, list[Check]]:
    """The checks by group: this machine, bus, fleet, then each agent in the order of its checks."""
    groups: dict[str, list[Check]] = {group: [] for group in _LABELS}
    for check in checks:
        groups.setdefault(group_of(check), []).append(check)
    return {group: found for group, found in groups.items() if found}


def label_of(group: str) -> str:
    """The name of a group on a screen."""
    return _LABELS.get(group) or (find(group).label if group in NAMES else group)
