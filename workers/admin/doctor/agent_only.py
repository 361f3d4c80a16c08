"""Checks of a machine with agents and no bus: its hook commands use the fleet's server with the rights of the role `shim`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import msgspec

from bus.errors import ConfigError, FleethookError
from bus.hooksets.host_hooks import HostHooks, own_hooks
from bus.secrets.redaction import redact_url
from bus.system.directories import Directories, config_file
from bus.wire.connections import START_HINT, Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked
from workers.admin.agent_setup import SHIM_URL, installed
from workers.admin.doctor import Check, canary
from workers.admin.doctor.rights import rights_checks

CHECK_SERVER: Final = f"check {SHIM_URL}, the network, and the fleet's server and workers (`fleethook status` there)"


async def fleet_checks(connections: Connections, keys: Keys, places: Directories) -> list[Check]:
    """Check the fleet's server and workers, as far as the rights of hook commands allow."""
    where = redact_url(connections.url)
    try:
        with connections.lease() as connection:
            began = time.perf_counter()
            pong, alive = await connection.exchange([("PING",), ("EXISTS", keys("alive", "evaluator"))])
            took = (time.perf_counter() - began) * 1000
        checked(pong, "asking the fleet's server")
    except FleethookError as error:
        return [Check(id="server", status="fail", what=f"the fleet's server at {where}: {error}", fix=CHECK_SERVER)]
    text = f"the fleet's server at {where} answers in {took:.1f} ms; this machine has agents only"
    found = [Check(id="server", status="ok", what=text, brief="the fleet's server")]
    if isinstance(alive, Exception):
        text = "whether an evaluator is alive cannot be seen with these rights"
        found.append(Check(id="evaluator", status="unknown", what=text))
    elif alive == 1:
        found.append(Check(id="evaluator", status="ok", what="an evaluator of the fleet is alive", brief="evaluator"))
    else:
        text = "no evaluator of the fleet is alive: agents get their fallback"
        fix = "start `fleethook worker evaluator` on a machine of the fleet"
        found.append(Check(id="evaluator", status="fail", what=text, fix=fix))
    return [*found, *_own_hooks(places)]


def _own_hooks(places: Directories) -> list[Check]:
    """Check the hooks of this machine's own files, which an evaluator elsewhere cannot read."""
    try:
        host_hooks, _ = own_hooks(config_file(places.config), places.trust_file, places.last_good)
    except ConfigError:
        return []  # another check reports it
    own = HostHooks(host_hooks.blocking)
    if not own.count:
        return []
    text = f"{own.text} of this user's and projects' files: not in force, since no `fleethook worker host` runs here"
    fix = "run `fleethook worker host` here with FLEETHOOK_REDIS_URL of the role worker (`fleethook acl`)"
    return [Check(id="hosts", status="warn", what=text, fix=fix)]


async def agent_checks_there(
    agent: str, places: Directories, cwd: Path, url: str, *, live: bool, away: bool
) -> list[Check]:
    """Check the rights of an agent's hook commands at the fleet's server and, with `live`, send the canary through them."""
    here = installed(agent, project=cwd)
    found = await rights_checks(agent, places, url if away else "") if here else []
    if live and away and here:
        text = f"{agent}: the canary was not sent, since the fleet's server is away"
        return [*found, Check(id=f"{agent}-live", status="unknown", what=text, agent=agent, cause="server")]
    for install in here if live else ():
        found += canary.live_checks(install, places, None, cwd, elsewhere=True)
    return found


def adapted(check: Check, advice: str) -> Check:
    """A check with this advice, for a machine that has only agents, instead of advice to start a bus on this machine."""
    what, fix = check.what.replace(START_HINT, ""), check.fix
    if "fleethook up" in fix:
        fix = "--fix sends them once the fleet answers" if check.repair == "spool" else advice
    return msgspec.structs.replace(check, what=what, fix=fix)
