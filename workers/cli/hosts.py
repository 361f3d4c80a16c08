"""`fleethook hosts`: the machines that have blocking hooks of their own, and whether their workers run."""

from __future__ import annotations

import click

from workers.cli.common import Context, LazyGroup, common_options, pass_fleet
from workers.runtime.wording import counted


@click.group(cls=LazyGroup)
def hosts() -> None:
    """List the hosts that have hooks of their own; forget one that no longer exists."""


@hosts.command("list")
@common_options
@pass_fleet
def list_hosts(fleet: Context) -> None:
    """List the hosts whose user or project files have blocking hooks, and whether their worker runs."""
    import msgspec

    from bus.hooksets.known_hosts import known_hosts
    from workers.cli.formatting import plain, when

    found = fleet.run(lambda connections: known_hosts(connections, fleet.keys()))
    if fleet.json:
        fleet.data(msgspec.to_builtins(found))
    elif found:
        fleet.table(
            ("HOST", "WORKER", "HOOKS", "POLICIES", "LAST SAID"),
            [
                (
                    plain(host_record.host),
                    "alive" if host_record.alive else "away",
                    host_record.hooks,
                    ", ".join(host_record.policies) or "-",
                    when(host_record.ms),
                )
                for host_record in found
            ],
        )
    else:
        fleet.say("no host has recorded blocking hooks of its own")


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
    hooks = 0 if known is None else known.hooks
    events = f", and give up {counted(waiting, 'event that waits', 'events that wait')} for it" if waiting else ""
    if not fleet.confirm(f"Forget the {hooks} blocking hooks of {name}{events}?", yes):
        fleet.say("nothing was forgotten")
        return
    fleet.run(lambda connections: forget_host(connections, keys, name))
    given_up = fleet.run(
        lambda connections: give_up(
            connections, keys, name, f"host {name!r} was forgotten while this event waited for it"
        )
    )
    if hooks:
        report_losses(fleet, "hosts forget", name, [f"{counted(hooks, 'hook')} of host {name}\nforgotten"])
    if fleet.json:
        fleet.data({"host": name, "forgotten": True, "hooks": hooks, "events": given_up})
    else:
        fleet.data(
            f"{name} is forgotten: the bus does not ask its {counted(hooks, 'hook')} until its worker runs again"
        )


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
            count = HostHooks(own.blocking).count
        except FleethookError:  # the reader of the file reports it
            count = 0
        text = ""
        if count:
            text = (
                f"the fleet does not know of the {count} blocking hooks of this host; "
                "start `fleethook worker host` here, which records them"
            )
    if text:
        fleet.say(fleet.style(f"warning: {text}", "yellow", err=True))
