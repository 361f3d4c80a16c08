"""Repairs findings that need no decision of a person (`doctor --fix`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from bus.config.settings import Settings
from bus.errors import FleethookError
from bus.installs.manifest import record_events, records
from bus.system.directories import Directories, make_private
from bus.wire.connections import Connections
from bus.wire.embedded_server import bus_url
from bus.wire.keys import Keys
from workers.admin.agent_setup import answers_for, connect, empty_spool, installed, plan_again
from workers.admin.doctor import Check
from workers.admin.doctor.machine import credential_files
from workers.runtime.spool_drain import drain_spools
from workers.runtime.wording import counted


def _chosen_events(places: Directories) -> dict[Path, tuple[str, ...]]:
    """The events that installs wrote into each file; older versions did not record them."""
    return {path: tuple(record.events) for path, record in records(places.state).items() if record.events}


class RepairReport(NamedTuple):
    """What was repaired, and what was tried and could not be."""

    done: list[str]
    failed: list[str]


def repair_findings(checks: Iterable[Check], settings: Settings, places: Directories, cwd: Path) -> RepairReport:
    """Repair the findings that can be repaired."""
    found = [check for check in checks if check.status in {"warn", "fail"} and check.repair]
    done, failed = list[str](), list[str]()
    if any(check.repair == "modes" for check in found):
        for folder in (places.data, places.state):
            make_private(folder, narrow=True)
        for path in credential_files(places):
            if path.exists():
                path.chmod(0o600)
        done.append("took back the rights of other users")
    agents = dict.fromkeys(check.agent for check in found if check.repair == "install")
    chosen = _chosen_events(places) if agents else {}
    for agent in agents:
        here = installed(agent, project=cwd)
        closed = any(install.closed for install in here)  # all of them read the same answer file
        for install in here:
            change = plan_again(install, settings, places, cwd)
            connect(change, answers_for(agent, settings, places, closed=closed)[0], places)
            done.append(f"installed {agent} again in {install.path}")
    record_events(
        places.state, chosen
    )  # the record keeps the chosen events, so the finding about an entry that a person removed stays
    spools = dict.fromkeys(check.agent for check in found if check.repair == "spool")
    if "" in spools:
        sent, text = _send_programs_spools(settings, places)
        (done if sent else failed).append(text)
    for agent in filter(None, spools):
        left = empty_spool(places.answer_file(agent), places.spool(agent))
        if left:
            failed.append(f"{counted(left, 'event')} of {agent} still {'waits' if left == 1 else 'wait'}")
        else:
            done.append(f"sent what waited for {agent}")
    return RepairReport(done, failed)


def _send_programs_spools(settings: Settings, places: Directories) -> tuple[int, str]:
    """Send the events that programs left on this disk for the server that is set; returns how many, and the message."""

    async def work() -> int:
        connections = Connections(bus_url(settings, "admin", places), connect=1.0)
        try:
            return await drain_spools(places, connections.url, Keys(settings.namespace), connections)
        finally:
            await connections.close()

    try:
        sent = asyncio.run(work())
    except (FleethookError, OSError) as error:
        return 0, f"the events of programs still wait: {error}"
    if not sent:
        return 0, "the events of programs still wait: they are for another server, whose workers send them"
    return sent, f"sent {counted(sent, 'event')} that waited for programs"
