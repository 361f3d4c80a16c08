"""Whether an agent's hook commands reach the gateway that they ask, and may."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from bus import shim
from bus.shim.answer_file import RedisServer, read_answer_file
from bus.system.directories import Directories
from workers.admin.agent_setup import url_of
from workers.admin.doctor import INSTALL, Check

_SECONDS: Final = 2.0
_REFUSES: Final = "refuses: "
CHECK_GATEWAY: Final = "check the address, the network, and the fleet's gateway (`fleethook status` there)"
_RENEW: Final = "make a token there (`fleethook tokens create NAME`) and set FLEETHOOK_URL and FLEETHOOK_TOKEN"


def gateway_rights_check(agent: str, path: Path) -> Check:
    """Check that the agent's hook commands may publish at their gateway."""
    name, where = f"{agent}-rights", url_of(read_answer_file(path).server)
    if trouble := _trouble(path):
        text = f"{agent}: its hook commands ask the gateway at {where}, which {trouble}"
        return Check(id=name, status="fail", what=text, fix=_fix(trouble, agent), agent=agent)
    text = f"{agent}: its hook commands may publish at the gateway at {where}, and have no credentials of Redis"
    return Check(id=name, status="ok", what=text, agent=agent)


def gateway_checks(server: RedisServer, agents: tuple[str, ...], places: Directories) -> list[Check]:
    """Check the gateway of a machine that has only agents, as their hook commands reach it."""
    where = url_of(server)
    paths = [path for agent in agents if (path := places.answer_file(agent)).exists()]
    if not paths:
        text = f"this machine has agents only; they ask the gateway at {where} once `{INSTALL}` has connected them"
        return [Check(id="server", status="ok", what=text, brief="the fleet's gateway")]
    began = time.perf_counter()
    if trouble := _trouble(paths[0]):
        return [Check(id="server", status="fail", what=f"the gateway at {where} {trouble}", fix=_fix(trouble, "AGENT"))]
    took = (time.perf_counter() - began) * 1000
    text = f"the gateway at {where} answers in {took:.1f} ms; this machine has agents only"
    return [Check(id="server", status="ok", what=text, brief="the fleet's gateway")]


def _fix(trouble: str, agent: str) -> str:
    """What to do about a gateway that cannot be reached, or that refuses the token."""
    return f"{_RENEW}, then `{INSTALL} {agent}`" if trouble.startswith(_REFUSES) else CHECK_GATEWAY


def _trouble(path: Path) -> str:
    """Why a hook command with this answer file gets no answer; empty if it gets one."""
    try:
        plan = shim.AnswerPlan(str(path))
        link = shim.open_link(plan, time.monotonic() + _SECONDS)
        try:
            link.add(plan.prefix)  # no entries: only whether it may
        finally:
            link.sock.close()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return f"cannot be reached: {reason}"
    except shim.NoAnswer as error:
        return f"{_REFUSES}{str(error).removeprefix('gateway refused: ')}"
    return ""
