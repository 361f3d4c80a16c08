"""Whether the hooks that ask a model have one that can be asked from this machine."""

from __future__ import annotations

from pathlib import Path

from bus.errors import FleethookError
from bus.system.directories import Directories
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.admin.doctor import Check
from workers.admin.dry_run import hooks_here
from workers.admin.model_health import model_health
from workers.runtime.wording import counted


async def model_checks(connections: Connections, keys: Keys, places: Directories, cwd: Path) -> list[Check]:
    """One check if a hook in force in this folder asks a model, else none. No request is made: it would cost money."""
    try:
        health = model_health(await hooks_here(connections, keys, places, cwd))
    except FleethookError:  # the checks of the server and of the files say what is wrong
        return []
    if health is None:
        return []
    asking = counted(len(health.hooks), "hook asks", "hooks ask")
    named = ", ".join(health.hooks[:5]) + (" …" if len(health.hooks) > 5 else "")
    if health.trouble:
        fix = "name it as docs/prompt-hooks.md shows; a key has to be set where the workers run"
        return [Check(id="model", status="warn", what=f"{asking} a model ({named}): {health.text}", fix=fix)]
    text = f"{asking} the model {health.text} ({named})"
    return [Check(id="model", status="ok", what=text, brief=f"model {health.name}")]
