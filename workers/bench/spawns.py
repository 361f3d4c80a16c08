"""Starts a program again and again; a process that does nothing else imports this module alone."""

from __future__ import annotations

import os
import time


def spawns(command: tuple[str, ...], payload: str, count: int) -> list[float]:
    """Milliseconds of each of so many processes, started without Python's own pipes and threads."""
    took = []
    files: list[tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_OPEN, 0, payload, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
    ]
    for _ in range(count):
        start = time.perf_counter()
        child = os.posix_spawn(command[0], command, os.environ, file_actions=files)
        _, status = os.waitpid(child, 0)
        took.append((time.perf_counter() - start) * 1e3)
        if status:
            raise RuntimeError(f"the hook command ended with the status {status}")
    return took
