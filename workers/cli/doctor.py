"""`fleethook doctor`: checks whether hooks really run here, and shows how to repair what fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bus.errors import ConfigError, Unreachable
from workers.cli.common import CheckFailed, Context, common_options, pass_fleet

if TYPE_CHECKING:  # 100 ms that `doctor --help` does not need
    from bus.wire.connections import Connections
    from workers.admin.doctor import Check


@click.command()
@click.option("--live", is_flag=True, help="Send an invented dangerous call through the installed command.")
@click.option("--fix", is_flag=True, help="Repair what can be repaired, then check again.")
@click.option("-v", "--verbose", is_flag=True, help="Show each check that passed.")
@common_options
@pass_fleet
def doctor(fleet: Context, live: bool, fix: bool, verbose: bool) -> None:
    """Check everything from the interpreter to the agent's own settings; exit code 1 where something is wrong.

    With --live the proof: a canary goes the whole way of a real tool call, and has to come back denied.
    """
    from workers.cli.fleet_control.notice import say_stops
    from workers.cli.screens.doctor import counts, show_report

    fleet.quiet = True
    say_stops(fleet)
    checks = _redacted(_examine(fleet, live=live))
    fixed = _repair(fleet, checks) if fix else []
    if fixed:
        checks = _redacted(_examine(fleet, live=live))
    number = counts(checks)
    wrong = number["problems"] + number["warnings"]
    if fleet.json:
        fleet.data(
            {"ok": not wrong, "summary": number, "fixed": fixed, "checks": [_check_report(check) for check in checks]}
        )
    else:
        show_report(fleet, checks, verbose=verbose or fleet.verbose)
    if wrong:
        raise CheckFailed("")


def _redacted(checks: Sequence[Check]) -> list[Check]:
    """The checks without secrets: an error may quote a line of a user's file."""
    import msgspec

    from bus.secrets.redaction import redact_text

    return [msgspec.structs.replace(check, what=redact_text(check.what)) for check in checks]


def _check_report(check: Check) -> dict[str, Any]:
    import msgspec

    from workers.admin.doctor import group_of

    return {**msgspec.structs.asdict(check), "group": group_of(check)}


def _repair(fleet: Context, checks: Sequence[Check]) -> list[str]:
    """Repair what `--fix` can repair, and print what was done."""
    from workers.admin.doctor.repairs import repair_findings

    repairable = any(check.repair for check in checks)
    fixed, failed = (
        repair_findings(checks, fleet.settings(), fleet.directories(), Path.cwd()) if repairable else ([], [])
    )
    for text in fixed:
        fleet.say(f"{fleet.style('fixed:', 'green', err=True)} {text}")
    for text in failed:
        fleet.say(f"{fleet.style('not fixed:', 'yellow', err=True)} {text}")
    if not fixed and not failed:
        fleet.say("Nothing was fixed: no finding can be repaired without you.")
    return fixed


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
    files = list(file_checks(settings, places, cwd))
    reported = {check.what for check in files}
    found += [Check(id="settings", status="warn", what=text) for text in loaded.warnings if text not in reported]
    found += files
    agents = agents_here(places, cwd)
    checked = {agent: list(agent_checks(agent, settings, places, cwd)) for agent in agents}

    try:
        url = agent_only_url(settings, places)
    except ConfigError as error:  # of FLEETHOOK_URL, or its token
        found.append(
            Check(id="server", status="fail", what=str(error), fix="correct it; `unset FLEETHOOK_URL` for none")
        )
        return [*found, *(check for agent in agents for check in checked[agent]), *_none_found(agents)]
    if url:
        found = _examine_agent_only(fleet, url, found, checked, cwd, live=live)
        return [*found, *_none_found(agents)]

    async def work(connections: Connections) -> list[Check]:
        from bus.ids import host_name
        from bus.wire.connections import PATIENT_CONNECT_SECONDS
        from bus.wire.connections import Connections as Opened
        from workers.admin.doctor import canary
        from workers.admin.doctor.announced import announced_checks, sets_now, unheard_checks
        from workers.admin.doctor.model import model_checks
        from workers.admin.doctor.server import coverage_check, fleet_guard_check, host_checks, server_checks
        from workers.coverage.waiting import unanswered

        rq = Opened(settings.rq_url, connect=PATIENT_CONNECT_SECONDS) if settings.rq_url else connections
        try:
            seen = await server_checks(connections, rq, fleet.keys(), settings)
        finally:
            if rq is not connections:
                await rq.close()
        away = any(check.id == "server" and check.status == "fail" for check in seen)
        seen.append(await fleet_guard_check(connections, fleet.keys(), settings, places))
        seen += await host_checks(connections, fleet.keys(), settings.host or host_name(), places)
        seen.append(await coverage_check(connections, fleet.keys()))
        seen.append(
            canary.guard_check(await canary.expected(connections, fleet.keys(), settings, places, cwd), away=away)
        )
        seen += await model_checks(connections, fleet.keys(), places, cwd)
        sets = [] if away else await sets_now(connections, fleet.keys(), places)
        for agent in agents:
            seen += checked[agent]
            if not away:
                seen += announced_checks(agent, unanswered(sets, places.state), cwd)
                seen += unheard_checks(agent, sets, cwd)
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
    fleet: Context, url: str, found: list[Check], checked: Mapping[str, list[Check]], cwd: Path, *, live: bool
) -> list[Check]:
    """The checks of a machine that has only agents, made with the rights of hook commands, after those that were `found`."""
    import asyncio

    from bus.wire.connections import PATIENT_CONNECT_SECONDS, Connections
    from workers.admin.agent_setup import agent_only_gateway
    from workers.admin.doctor.agent_only import CHECK_SERVER, adapted, agent_checks_there, fleet_checks
    from workers.admin.doctor.gateway import CHECK_GATEWAY, gateway_checks

    places = fleet.directories()
    gateway = agent_only_gateway(fleet.settings(), places)

    async def work() -> list[Check]:
        connections = Connections(url, connect=PATIENT_CONNECT_SECONDS)
        try:
            if gateway is None:
                seen = await fleet_checks(connections, fleet.keys(), places)
            else:
                seen = gateway_checks(gateway, tuple(checked), places)
        finally:
            await connections.close()
        away = seen[0].status == "fail"
        for agent, checks in checked.items():
            seen += checks
            seen += await agent_checks_there(agent, places, cwd, url, live=live, away=away)
        return seen

    advice = CHECK_SERVER if gateway is None else CHECK_GATEWAY
    old = [check for check in found if check.id != "gateway"]  # the new checks look at it
    return [adapted(check, advice) for check in (*old, *asyncio.run(work()))]


async def _reached(
    fleet: Context, connections: Connections, agent: str, cwd: Path, *, live: bool, away: bool
) -> list[Check]:
    """The checks of an agent's hook commands: their rights and, with `live`, the canary."""
    from workers.admin.agent_setup import installed
    from workers.admin.doctor import Check, canary
    from workers.admin.doctor.rights import rights_checks

    settings, places, here = fleet.settings(), fleet.directories(), installed(agent, project=cwd)
    seen = await rights_checks(agent, places, connections.url if away else "") if here else []
    if live and away and here:  # the canary would only go to the spool
        text = f"{agent}: the canary was not sent, since the server is away"
        return [*seen, Check(id=f"{agent}-live", status="unknown", what=text, agent=agent, cause="server")]
    if live and here:
        verdict = await canary.expected(connections, fleet.keys(), settings, places, cwd, agent)
        for one in here:
            seen += canary.live_checks(one, places, verdict, cwd)
    return seen
