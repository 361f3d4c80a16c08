"""A command in a terminal of its own: what a person sees, and what is typed when something is on the screen."""

from __future__ import annotations

import os
import pty
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support.forked import Fleethook
from tests.support.waiting import PATIENCE

NOT_A_PERSON = ("CI", "CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "NO_COLOR", "FORCE_COLOR")
"""Variables that say that no person sits there, or what that person wants."""


def type_command(
    *words: str,
    folder: Path,
    environment: Mapping[str, str],
    columns: int = 100,
    script: Sequence[tuple[str, str]] = (),
    meanwhile: Callable[[], object] = lambda: None,
) -> tuple[int, str]:
    """Run a command line of Fleethook in a terminal; returns its exit code and everything that was on the screen.

    `script` says what has to be on the screen, and what is typed then; `meanwhile` runs before each of them is typed.
    """
    kept = {name: value for name, value in environment.items() if name not in NOT_A_PERSON}
    ours, theirs = pty.openpty()
    try:
        process = Fleethook(
            words,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env={**kept, "TERM": "xterm", "COLUMNS": str(columns)},
            start_new_session=True,
        )
    finally:
        os.close(theirs)
    screen, looked, steps = b"", 0, [*script]
    try:
        while True:
            if steps and steps[0][0].encode() in screen[looked:]:
                meanwhile()
                looked = len(screen)
                os.write(ours, steps.pop(0)[1].encode())
            try:
                screen += (chunk := os.read(ours, 65536))
            except OSError:  # Linux: EIO at the end
                break
            if not chunk:
                break
        return process.wait(PATIENCE), screen.decode().replace("\r\n", "\n")
    finally:
        os.close(ours)
        process.kill()
        process.wait()
