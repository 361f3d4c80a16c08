"""One file for each agent: how to find it, where its hook settings are, their format, and what keeps hooks from running."""

from __future__ import annotations

import importlib
import shutil
from functools import cache
from pathlib import Path
from typing import Final, cast

from bus.errors import ConfigError
from bus.events import source_name
from bus.installs.base import NAMES, InstallScope, Program, Scope

_FOLDER_TEXT: Final = "its folder {} is here"


def find(agent: str) -> Program:
    """The installation data of an agent, by any spelling of its name; raises ConfigError for an unknown one."""
    name = source_name(agent)
    if name not in NAMES:
        raise ConfigError(f"install does not know the agent {agent!r}", hint=f"it knows {', '.join(NAMES)}")
    return _program(name)


@cache
def _program(name: str) -> Program:
    return cast("Program", importlib.import_module(f"bus.installs.{name}").PROGRAM)


def here() -> InstallScope:
    """This user, this folder, this environment."""
    import os

    return InstallScope(Path.home(), Path.cwd(), os.environ)


def evidence(program: Program, where: InstallScope) -> str:
    """The sign that this agent is on this machine; empty if there is none."""
    for binary in program.binaries:
        found = shutil.which(binary, path=where.environ.get("PATH"))
        if found:
            return found
    folder = program.folder(where)
    return _FOLDER_TEXT.format(folder) if folder.is_dir() else ""


def present(where: InstallScope) -> tuple[str, ...]:
    """The agents that seem to be on this machine."""
    return tuple(name for name in NAMES if evidence(find(name), where))


def place(program: Program, scope: Scope, where: InstallScope) -> Path:
    """The file of this scope; raises ConfigError if the agent has no such scope."""
    if scope not in program.places:
        has = ", ".join(program.places)
        raise ConfigError(f"{program.label} has no settings of scope {scope!r}", hint=f"it has {has}")
    return program.places[scope](where)
