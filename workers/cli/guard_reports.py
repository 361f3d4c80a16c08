"""Reports a command that weakens guards as an event `guard:changed`: who ran it, which command, which guards."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from workers.cli.common import Context

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.hooksets.guard_changes import GuardChange, Loss
    from bus.hooksets.hookfile import HookFile


def set_change(command: str, before: HookFile, after: HookFile) -> GuardChange | None:
    """The guards that the published set loses with the content `after`; None if it loses none."""
    from workers.admin.published_changes import guard_losses

    losses = guard_losses(before, after)
    return _change(command, "", losses) if losses else None


def report_file_change(
    fleet: Context, command: str, path: Path, before: HookFile, after: HookFile, written: Path
) -> None:
    """Report which of its guards a file loses, once its new content is in the file `written`, which is renamed to it next."""
    from bus.hooksets.guard_changes import file_mark
    from bus.ids import host_name
    from workers.admin.published_changes import guard_losses

    losses = guard_losses(before, after)
    if losses:
        times = {str(path): written.stat().st_mtime_ns}
        mark = file_mark(str(path), after.digest, (one.path for one in after.imports), times)
        lost = [f"{loss.guard}\n{loss.how}" for loss in losses]
        report_losses(fleet, command, str(path), lost, about=f"{host_name()}\n{mark}")


def report_losses(fleet: Context, command: str, where: str, lost: Iterable[str], *, about: str = "") -> None:
    """Report losses (guard, line break, how) now, or through the spool if the server is away. Never raises."""
    from bus.errors import FleethookError, Unreachable
    from bus.hooksets.guard_changes import Loss, report
    from bus.ids import event_id

    losses = tuple(Loss(guard, how) for guard, _, how in (one.partition("\n") for one in lost))
    change = _change(command, where, losses, about or event_id())
    try:
        fleet.run(lambda connections: report(connections, fleet.keys(), change))
    except Unreachable as error:
        kept = _keep(fleet, change)
        why = "this machine has agents only" if _has_agents_only(fleet) else str(error)
        fleet.say(f"this change of the guards is {'announced later' if kept else 'not announced to the fleet'}: {why}")
    except FleethookError as error:
        fleet.say(f"this change of the guards is not announced: {error}")


def _change(command: str, where: str, losses: tuple[Loss, ...], about: str = "") -> GuardChange:
    """A change that this user makes now on this machine."""
    import getpass
    import time

    from bus.hooksets.guard_changes import GuardChange
    from bus.ids import host_name
    from bus.system.calling_agent import calling_agent

    agent = calling_agent()
    return GuardChange(
        how=command,
        where=where,
        losses=losses,
        by=getpass.getuser(),
        agent=agent.agent if agent is not None else "",
        about=about,
        host=host_name(),
        ms=time.time_ns() // 10**6,
    )


def _keep(fleet: Context, change: GuardChange) -> bool:
    """Add the event to the spool of programs for this server, which its workers send; returns whether that worked."""
    from bus.errors import Unreachable
    from bus.events import Event, EventType
    from bus.hooksets.guard_changes import event_data
    from bus.ids import event_id
    from bus.shim.answer_file import program_spool
    from bus.shim.spool import append
    from bus.system.directories import make_private
    from bus.wire.codec import encode_event

    kind, name = EventType.GUARD_CHANGED.value, event_id()
    event = Event(
        type=kind,
        id=name,
        source="fleethook",
        host=change.host,
        time=change.ms,
        data={**event_data(change), "about": change.about},
    )
    fields = ("id", name, "source", "fleethook", "event", kind, "host", change.host, "body", encode_event(event))
    try:
        spool = program_spool(fleet.directories(), fleet.url(), fleet.keys().prefix)
    except Unreachable:  # this machine never had a server of its own
        return False
    make_private(spool.parent, narrow=True)
    return append(spool, "events", fields)


def _has_agents_only(fleet: Context) -> bool:
    """Whether this machine has agents and no bus, so that nobody here could announce anything to the fleet."""
    from bus.errors import FleethookError
    from workers.admin.agent_setup import agent_only_url

    try:
        return bool(agent_only_url(fleet.settings(), fleet.directories()))
    except FleethookError:
        return False
