"""The check before commands that weaken the guards: a person may run them, an agent may not.

It stops mistakes and bad advice. It does not stop a program that fakes a terminal and types the word (docs/security.md).
"""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bus.errors import FleethookError
from bus.system.calling_agent import CallingAgent, calling_agent, user_homes

TEST_VARIABLE: Final = "FLEETHOOK_TEST_CONFIRMS"
"""For tests: `1` counts as a person's confirmation, but only if all folders and the server are in a temporary folder and
outside the user's home."""

WORD: Final = "confirm"
WAIT_SECONDS: Final = 120.0

_TEMPORARY: Final = ("/tmp", "/var/tmp", "/private/tmp", "/private/var/tmp", "/var/folders", "/private/var/folders")  # noqa: S108 - compared, never written
"""A fixed list and not TMPDIR: an agent that sets TEST_VARIABLE could set TMPDIR, too."""


class PersonNeeded(FleethookError):
    """An agent ran a command that only a person may run, and no person confirmed it on a terminal."""


def require_person(
    command: str, *, touched: Iterable[Path] = (), server: str = "", environ: Mapping[str, str] | None = None
) -> CallingAgent | None:
    """Raise PersonNeeded if an agent runs `command` and no person confirms it by typing a word on the terminal.

    Returns the agent that runs it with a person's confirmation; None if no agent runs it. `touched` are the folders and
    files that the command changes, `server` is its Redis URL: TEST_VARIABLE works only if all of them are temporary.
    """
    environ = os.environ if environ is None else environ
    agent = calling_agent(environ)
    if agent is None or _is_test(environ, touched, server) or _confirmed(command, agent):
        return agent
    raise PersonNeeded(
        f"`fleethook {command}` can weaken this machine's guards, and an agent runs it ({agent.agent}: "
        f"{agent.evidence}). Nothing was changed. A person has to run it in a terminal of their own, or type "
        f"{WORD!r} where it asks; an agent should tell the user what to run and why, and go on without it"
    )


def _is_test(environ: Mapping[str, str], touched: Iterable[Path], server: str) -> bool:
    home = environ.get("FLEETHOOK_HOME", "")
    if environ.get(TEST_VARIABLE) != "1" or not home:
        return False
    parts = urlsplit(server)
    if server and parts.scheme != "unix":
        return False
    temporary = [os.path.realpath(folder) for folder in _TEMPORARY]
    # In containers and in CI a user's home can be in a temporary folder, or be one (HOME=/tmp), which takes nothing away.
    homes = [real for real in map(os.path.realpath, user_homes()) if _is_below(real, temporary)]
    paths = map(os.path.realpath, (home, *map(str, touched), *([parts.path] if server else [])))
    return all(_is_below(path, temporary) and path not in homes and not _is_below(path, homes) for path in paths)


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(f"{folder}/") for folder in folders)


def _confirmed(command: str, agent: CallingAgent) -> bool:
    """Whether a person types the word on this process's terminal; False without a terminal or without an answer in time."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return False
    question = (
        f"fleethook: this runs below {agent.agent} ({agent.evidence}), and `fleethook {command}` can weaken the guards.\n"
        f"Are you a person, and do you want it? Type {WORD} and Enter: "
    )
    try:
        with contextlib.suppress(OSError):
            os.write(terminal, question.encode())
            ready, _, _ = select.select([terminal], [], [], WAIT_SECONDS)
            return bool(ready) and os.read(terminal, 256).decode("utf-8", "replace").strip().lower() == WORD
        return False
    finally:
        os.close(terminal)
