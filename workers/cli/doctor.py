"""`fleethook doctor`: whether hooks really run here, and how to mend what does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from bus.errors import ConfigError, Unreachable
from workers.cli.common import Context, Findings, common_options, pass_fleet
from workers.cli.output import Colour
from workers.runtime.wording import counted

if TYPE_CHECKING:  # 100 ms that `doctor --help` does not need
    from bus.wire.connections import Connections
    from workers.admin.doctor import Check

_MARKS: Final[dict[str, tuple[str, Colour]]] = {
    "ok": (" ok ", "green"),
    "warn": (" !! ", "yellow"),
    "fail": ("FAIL", "red"),
    "unknown": (" ?? ", "bright_black"),
}


@click.command()
@click.option("--live", is_flag=True, help="Send a dangerous call that nobody makes through the installed command.")
@click.option("--fix", is_flag=True, help="Mend what can be mended, then look again.")
@common_options
@pass_fleet
def doctor(fleet: Context, live: bool, fix: bool) -> None:
    """Check everything from the interpreter to the agent's own settings; exit code 1 where something is wrong.

    With --live the proof: a canary goes the whole way of a real tool call, and has to come back denied.
    """
    found = _examine(fleet, live=live)
    if fix and any(check.mend for check in found):
        from workers.admin.doctor.mending import mend

        for text in mend(found, fleet.settings(), fleet.directories(), Path.cwd()):
            fleet.say(f"mended: {text}")
        found = _examine(fleet, live=live)
    wrong = sum(check.status in {"warn", "fail"} for check in found)
    if fleet.json:
        fleet.data({"ok": not wrong, "checks": found})
    else:
        for check in found:
            _show(fleet, check)
        unseen = sum(check.status == "unknown" for check in found)
        fleet.say(f"{counted(len(found), 'check')}: {wrong} found something, {unseen} could not be seen.")
    if wrong:
        raise Findings("")


def _show(fleet: Context, check: Check) -> None:
    text, colour = _MARKS[check.status]
    fleet.data(f"{fleet.style(text, colour)}  {check.id}: {check.what}")
    if check.fix:
        fleet.data(f"          fix: {check.fix}")


def _examine(fleet: Context, *, live: bool) -> list[Check]:
    from workers.admin.agent_setup import agent_only_url
    from workers.admin.doctor import Check
    from workers.admin.doctor.agents import agent_checks, agents_here
    from workers.admin.doctor.machine import file_checks, package_checks

    found, cwd = list(package_checks()), Path.cwd()
    try:
        loaded = fleet.loaded()
    except ConfigError as error:
        return [*found, Check(id="settings", status="fail", what=str(error), fix="fleethook config check")]
    settings, places = loaded.settings, fleet.directories()
    found += [Check(id="settings", status="warn", what=text) for text in loaded.warnings]
    found += file_checks(settings, places, cwd)
    agents = agents_here(places, cwd)
    checked = {agent: list(agent_checks(agent, settings, places, cwd)) for agent in agents}

    if url := agent_only_url(settings, places):
        from workers.admin.doctor.agent_only import adapted

        found += _examine_agent_only(fleet, url, checked, cwd, live=live)
        return [*map(adapted, found), *_none_found(agents)]

    async def work(connections: Connections) -> list[Check]:
        from bus.ids import host_name
        from bus.wire.connections import Connections as Opened
        from workers.admin.doctor import canary
        from workers.admin.doctor.server import fleet_guard_check, host_checks, server_checks

        rq = Opened(settings.rq_url, connect=1.0) if settings.rq_url else connections
        try:
            seen = await server_checks(connections, rq, fleet.keys(), settings)
        finally:
            if rq is not connections:
                await rq.close()
        away = any(check.id == "server" and check.status == "fail" for check in seen)
        seen.append(await fleet_guard_check(connections, fleet.keys(), settings, places))
        seen += await host_checks(connections, fleet.keys(), settings.host or host_name(), places)
        seen.append(canary.guard_check(await canary.expected(connections, fleet.keys(), settings, places, cwd)))
        for agent in agents:
            seen += checked[agent]
            seen += await _reached(fleet, connections, agent, cwd, live=live, away=away)
        return seen

    try:
        found += fleet.run(work)
    except Unreachable as error:  # this machine never had a server: nothing behind it can be seen
        found.append(Check(id="server", status="fail", what=str(error), fix="fleethook up"))
        found += [check for agent in agents for check in checked[agent]]
    return [*found, *_none_found(agents)]


def _none_found(agents: Sequence[str]) -> list[Check]:
    from workers.admin.doctor import Check

    text = "no coding agent was found here, and none is installed"
    return [] if agents else [Check(id="agents", status="warn", what=text, fix="fleethook install AGENT")]


def _examine_agent_only(
    fleet: Context, url: str, checked: Mapping[str, list[Check]], cwd: Path, *, live: bool
) -> list[Check]:
    """The fleet's server and the agents of a machine that has no bus, with the rights of hook commands."""
    import asyncio

    from bus.wire.connections import Connections
    from workers.admin.doctor.agent_only import agent_checks_there, fleet_checks

    async def work() -> list[Check]:
        connections, places = Connections(url, connect=1.0), fleet.directories()
        try:
            seen = await fleet_checks(connections, fleet.keys(), places)
        finally:
            await connections.close()
        away = seen[0].status == "fail"
        for agent, checks in checked.items():
            seen += checks
            seen += await agent_checks_there(agent, places, cwd, live=live, away=away)
        return seen

    return asyncio.run(work())


async def _reached(
    fleet: Context, connections: Connections, agent: str, cwd: Path, *, live: bool, away: bool
) -> list[Check]:
    """What an agent's hook commands may do, and the proof that they do it."""
    from workers.admin.agent_setup import installed
    from workers.admin.doctor import Check, canary
    from workers.admin.doctor.rights import rights_checks

    settings, places, here = fleet.settings(), fleet.directories(), installed(agent, project=cwd)
    seen = await rights_checks(agent, places) if here else []
    if live and away and here:  # it would only end up in the spool
        text = f"{agent}: the canary was not sent, since the server is away"
        return [*seen, Check(id=f"{agent}-live", status="unknown", what=text, fix="fleethook up", agent=agent)]
    if live and here:
        verdict = await canary.expected(connections, fleet.keys(), settings, places, cwd, agent)
        for one in here:
            seen += canary.live_checks(one, places, verdict, cwd)
    return seen
