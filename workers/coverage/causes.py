"""Why a tool call ran without its pre-hook event, where that can be seen: in the agent's settings, or in what else came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, Literal, get_args

import msgspec

from bus.agents import find
from bus.events import PRE_TOOL
from bus.installs.base import NAMES
from workers.coverage.installs import InstalledHooks
from workers.coverage.marks import UncoveredCall
from workers.coverage.reports import AgentReport

CauseName = Literal[
    "removed",
    "not_installed",
    "disabled",
    "untrusted",
    "fallback",
    "unreadable",
    "matcher",
    "http",
    "stopped",
    "started_before",
    "never",
    "unknown",
]
CAUSES: Final[tuple[CauseName, ...]] = get_args(CauseName)

_NEAR_MS: Final = 10 * 60_000
"""How long before a call a lost event may have caused its gap: as long as a hook command may wait."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Why no pre-hook event came: a name for programs, a sentence for people, and what they can do."""

    name: CauseName
    text: str
    fix: str = ""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a call without its pre-hook event, its session, and its host."""

    call: UncoveredCall
    agent: str
    host: str
    started: int = 0
    """When the session's start was seen (ms since 1970); 0: it was not."""
    last_pre: int = 0
    """When the session's last pre-hook event came; 0: it had none."""
    tools: frozenset[str] = frozenset()
    """The tools for which its pre-hook events came."""
    reports: Sequence[AgentReport] = ()
    """What this agent reported from this host."""
    installs: Sequence[InstalledHooks] = ()
    """Its hooks in the files of this host; none where no worker of its user says it."""


def explain(known: Evidence) -> Cause:
    """The cause of one gap: the surest one first."""
    return next(_causes(known))


def _causes(known: Evidence) -> Iterator[Cause]:
    call, agent, host = known.call, known.agent, known.host
    install = (
        f"run `fleethook install {agent}` on {host}" if agent in NAMES else f"install the hooks of {agent} on {host}"
    )
    yield from _in_settings(known, install)
    near = [one for one in known.reports if call.ms - _NEAR_MS <= one.fallback_at <= call.ms]
    if near:
        why = max(near, key=lambda one: one.fallback_at).fallback_why
        yield Cause(
            name="fallback",
            text=f"the hook command on {host} gave its own answer ({why}), and the event did not arrive later",
            fix="`fleethook doctor` there shows whether it reaches the server",
        )
    if any(call.ms - _NEAR_MS <= one.unreadable_at <= call.ms for one in known.reports):
        yield Cause(
            name="unreadable",
            text=f"an event of {agent} on {host} could not be read shortly before",
            fix="`fleethook dead list` shows it",
        )
    if known.tools and call.tool not in known.tools:
        seen = ", ".join(sorted(known.tools)[:5])
        or_else = "" if known.last_pre > call.ms else ", or its hooks were changed while it ran"
        yield Cause(
            name="matcher",
            text=f"pre-hook events of this session come for {seen} and not for {call.tool}: "
            f"the matcher of its pre-tool hook is too narrow{or_else}",
            fix=f"widen the matcher to all tools, or {install}",
        )
    if known.last_pre and call.by.startswith("gateway/"):
        yield Cause(
            name="http",
            text="its hooks are of type http, which lose an event where the gateway cannot be reached",
            fix=f"keep a gateway running on {host}, or install without --http",
        )
    if known.last_pre and known.last_pre < call.ms:
        yield Cause(
            name="stopped",
            text=f"pre-hook events of this session came until {_moment(known.last_pre)}, and then no more: its hooks were "
            "changed while it ran, or one event was lost",
            fix=install,
        )
    if not known.last_pre and any(one.pre for one in known.reports):
        if known.started:
            text = f"other sessions of {agent} on {host} have pre-hook events, and this one has none"
            yield Cause(name="unknown", text=text, fix=f"compare its settings and options, or {install}")
        yield Cause(
            name="started_before",
            text=f"no pre-hook event of this session came, and its start was not seen: {agent} was started "
            "before its hooks were installed",
            fix=f"start {agent} again",
        )
    if not known.last_pre:
        yield Cause(name="never", text=f"no pre-hook event of {agent} ever came from {host}", fix=install)
    yield Cause(name="unknown", text="the cause cannot be seen", fix="`fleethook doctor` on that host may show it")


def _in_settings(known: Evidence, install: str) -> Iterator[Cause]:
    """The causes in the agent's own settings files, as a worker of the host read them."""
    agent = known.agent
    if not known.installs or agent not in NAMES:  # its hooks are those of another user: the call was reported
        return
    wanted = {name for name, can in find(agent).capabilities.items() if can.type in PRE_TOOL}
    for file in known.installs:
        if lost := sorted(wanted & set(file.removed)):
            yield Cause(
                name="removed", text=f"{', '.join(lost)} was removed from {file.path} since the install", fix=install
            )
    if not any(wanted & set(file.events) for file in known.installs):
        paths = ", ".join(file.path for file in known.installs)
        names = " or ".join(sorted(wanted))
        yield Cause(name="not_installed", text=f"no hook of Fleethook is installed for {names} in {paths}", fix=install)
    for file in known.installs:
        for problem in file.disabled:
            yield Cause(name="disabled", text=problem.what, fix=problem.fix)
        for problem in file.untrusted:
            yield Cause(name="untrusted", text=problem.what, fix=problem.fix)


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
