"""`fleethook hosts` and `fleethook sessions`: the machines of the fleet, and the agents that report from them."""

from __future__ import annotations

from collections.abc import Sequence

import click

from workers.cli.common import Context, LazyGroup, common_options, pass_fleet
from workers.runtime.wording import counted


@click.group(cls=LazyGroup)
def hosts() -> None:
    """List the hosts and the agents that report from them; forget the hooks of a host that no longer exists."""


@hosts.command("list")
@common_options
@pass_fleet
def list_hosts(fleet: Context) -> None:
    """List the hosts: the agents that report from each, their last event and verdict, its workers, and its own blocking hooks.

    UNCOVERED counts tool calls that ran without their pre-hook event, so no hook was asked; `fleethook sessions --gaps` has
    the causes. HOOKS are blocking hooks of the user's and projects' files, which need the host's own worker.
    """
    import msgspec

    from bus.hooksets.known_hosts import known_hosts
    from bus.wire.connections import PATIENT_CONNECT_SECONDS, Connections
    from workers.cli.fleet_control.notice import say_stops
    from workers.cli.formatting import plain
    from workers.cli.screens.rows import list_times
    from workers.coverage.hosts import Host, HostAgent
    from workers.coverage.hosts import hosts as read_hosts
    from workers.records.status import read_roles

    settings = fleet.settings()

    async def read(connections: Connections) -> list[Host]:
        rq = Connections(settings.rq_url, connect=PATIENT_CONNECT_SECONDS) if settings.rq_url else connections
        try:
            roles = await read_roles(connections, rq, fleet.keys(), settings)
            live = {one.role: one.who for one in roles}
            return await read_hosts(connections, fleet.keys(), await known_hosts(connections, fleet.keys()), live)
        finally:
            if rq is not connections:
                await rq.close()

    def row(host: Host, agent: HostAgent | None, last: str) -> tuple[object, ...]:
        return (
            plain(host.host),
            plain(f"{agent.agent} {agent.version}".strip()) if agent is not None else "-",
            (agent.uncovered or "-") if agent is not None else "-",
            (agent.verdict or "-") if agent is not None else "-",
            last if agent is not None else "-",
            f"{host.hooks}{'' if host.alive else ', worker away'}" if host.hooks else "-",
            ", ".join(sorted(host.workers)) or "-",
        )

    say_stops(fleet)
    found = fleet.run(read)
    if fleet.json:
        fleet.data(msgspec.to_builtins(found))
    elif found:
        pairs = [(host, agent) for host in found for agent in host.agents or (None,)]
        newest = max((agent.last for _, agent in pairs if agent is not None), default=0)
        times = list_times([agent.last if agent is not None else newest for _, agent in pairs])
        rows = [row(host, agent, last) for (host, agent), last in zip(pairs, times, strict=True)]
        fleet.table(("HOST", "AGENT", "UNCOVERED", "VERDICT", "LAST EVENT", "HOOKS", "PROCESSES"), rows)
    else:
        fleet.say("no host has reported anything")


@hosts.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_fleet
def forget(fleet: Context, name: str, yes: bool) -> None:
    """Forget the hooks of a host that no longer exists or has a new name; the bus then treats it as a host without hooks."""
    from bus.config.validation import suggestion
    from bus.errors import FleethookError, NotFound
    from bus.hooksets.known_hosts import forget_host, known_hosts
    from workers.cli.guard_reports import report_losses
    from workers.runtime.kept_events import give_up, kept_events

    keys = fleet.keys()
    recorded = fleet.run(lambda connections: known_hosts(connections, keys))
    known = next((host_record for host_record in recorded if host_record.host == name), None)
    kept = fleet.run(lambda connections: kept_events(connections, keys))
    waiting = sum(host_record.events for host_record in kept if host_record.host == name)
    if known is None and not waiting:
        near = suggestion(
            name, {host_record.host for host_record in recorded} | {host_record.host for host_record in kept}
        )
        hint = near or "`fleethook hosts list` shows the known hosts"
        raise NotFound(f"no hooks of a host {name!r} are recorded; {hint}")
    if known is not None and known.alive:
        raise FleethookError(
            f"`fleethook worker host` runs on {name!r} and would record its hooks again; stop it first"
        )
    fleet.require_person("hosts forget", published=True)
    hooks, which = (0, "the hooks") if known is None else (known.hooks, known.which)
    events = f", and give up {counted(waiting, 'event that waits', 'events that wait')} for it" if waiting else ""
    if not fleet.confirm(f"Forget {which} of {name}{events}?", yes):
        fleet.say("nothing was forgotten")
        return
    fleet.run(lambda connections: forget_host(connections, keys, name))
    given_up = fleet.run(
        lambda connections: give_up(
            connections, keys, name, f"host {name!r} was forgotten while this event waited for it"
        )
    )
    if hooks:
        report_losses(fleet, "hosts forget", name, [f"{which} of host {name}\nforgotten"])
    if fleet.json:
        fleet.data({"host": name, "forgotten": True, "hooks": hooks, "events": given_up})
    else:
        fleet.data(f"{name} is forgotten: the bus asks none of its hooks until its worker runs again")


@click.command()
@click.option("--source", metavar="AGENT", default="", help="Only sessions of one agent.")
@click.option("--host", metavar="HOST", default="", help="Only sessions on one machine.")
@click.option("--gaps", is_flag=True, help="Only sessions with tool calls that ran without their pre-hook event.")
@common_options
@pass_fleet
def sessions(fleet: Context, source: str, host: str, gaps: bool) -> None:
    """List the sessions of the newest 5,000 events, and how many tool calls ran without their pre-hook event.

    No hook is asked about such a call. Below the list is the cause for each session, where it can be seen.
    """
    import msgspec

    from workers.cli.formatting import plain
    from workers.cli.screens.rows import list_times
    from workers.records.sessions import sessions as read_sessions

    found = [
        one
        for one in fleet.run(lambda connections: read_sessions(connections, fleet.keys()))
        if source in {"", one.source} and host in {"", one.host} and (one.uncovered or not gaps)
    ]
    if fleet.json:
        fleet.data(msgspec.to_builtins(found))
        return
    if not found:
        fleet.say("no session has a gap" if gaps else "no session is known")
        return
    fleet.table(
        ("SESSION", "AGENT", "HOST", "UNCOVERED", "CALLS", "DENIED", "LAST EVENT"),
        [
            (
                plain(one.id)[:36],
                plain(f"{one.source} {one.version}".strip()),
                plain(one.host),
                one.uncovered or "-",
                one.calls or "-",
                one.denied or "-",
                last,
            )
            for one, last in zip(found, list_times([one.last for one in found]), strict=True)
        ],
    )
    for one in found:
        for gap in one.gaps:
            calls = "1 call" if gap.calls == 1 else f"{gap.calls} calls"
            fleet.say(fleet.style(f"{plain(one.id)[:36]}: {calls}: {plain(gap.text)}", "yellow"))


def record_host(fleet: Context) -> None:
    """Record which hooks this host has now, and warn if no worker here can answer for them."""
    from bus.errors import FleethookError
    from bus.hooksets.host_hooks import HostHooks, own_hooks
    from bus.hooksets.known_hosts import record_now
    from bus.ids import host_name
    from bus.system.directories import config_file

    places, host = fleet.directories(), fleet.settings().host or host_name()
    try:
        known = fleet.run(lambda connections: record_now(connections, fleet.keys(), places, host))
        text = (
            ""
            if known is None or known.alive
            else f"{known.text}; `fleethook up` or `fleethook worker host` here runs them"
        )
    except FleethookError:
        try:
            own, _ = own_hooks(config_file(places.config), places.trust_file, places.last_good)
            which = HostHooks(own.blocking).text
        except FleethookError:  # the reader of the file reports it
            which = ""
        text = ""
        if which:
            text = (
                f"the fleet does not know of {which} of this host; "
                "start `fleethook worker host` here, which records them"
            )
    if text:
        fleet.say(fleet.style(f"warning: {text}", "yellow", err=True))


def warn_of_other_bus(fleet: Context) -> None:
    """For `up`: say that this machine's agents ask another bus, if that is so, since no event would come to the new one."""
    import contextlib

    from bus.errors import FleethookError
    from bus.secrets.redaction import redact_url
    from workers.admin.agent_setup import agent_only_url

    url = ""
    with contextlib.suppress(FleethookError):  # a wrong FLEETHOOK_URL is for `install` and `doctor` to report
        url = agent_only_url(fleet.settings(), fleet.directories())
    if url:
        fleet.warn(
            f"warning: this machine's agents ask {redact_url(url)}, so this bus gets no event from them. To run this machine's "
            "own hooks for that fleet, use `fleethook worker host` with a FLEETHOOK_REDIS_URL of the role worker instead; "
            "`fleethook doctor` checks what the agents ask"
        )


def warn_of_gateway(fleet: Context, agents: Sequence[str]) -> None:
    """For `install`: say that the gateway, which these agents ask now, refuses the token or cannot be reached."""
    import contextlib

    from bus.errors import FleethookError
    from workers.admin.agent_setup import agent_only_gateway
    from workers.admin.doctor.gateway import gateway_checks

    with contextlib.suppress(FleethookError):
        gateway = agent_only_gateway(fleet.settings(), fleet.directories())
        for check in gateway_checks(gateway, tuple(agents), fleet.directories()) if gateway is not None else ():
            if check.status == "fail":
                fleet.warn(f"warning: {check.what}, so no hook of the fleet runs for these agents yet: {check.fix}")
