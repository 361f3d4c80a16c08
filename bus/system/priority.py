"""Gives this process a lower priority than the processes that agents wait for."""

from __future__ import annotations

import os
import threading
import time
from typing import Final

_TRIES: Final = 20
_PAUSE: Final = 0.11
"""Seconds between tries: the kernel lets only one process without rights change its group in each tenth of a second."""


def lower(by: int) -> None:
    """Raise the niceness of this process, which leads a session, and that of the session's scheduling group.

    Linux groups sessions by default (`sched_autogroup`), and then niceness only counts within a session: without this, a
    process in a session of its own gets as much of a processor as all processes of a worker's session together.
    """
    os.nice(by)
    if not _lower_group(by):
        threading.Thread(target=_keep_trying, args=(by,), name="priority", daemon=True).start()


def _lower_group(by: int) -> bool:
    """Whether the group has its niceness now, or cannot have one here."""
    try:
        with open("/proc/self/autogroup", "w", encoding="ascii") as file:
            file.write(str(by))
    except BlockingIOError:
        return False
    except OSError:  # not Linux, a kernel without such groups, or a container that hides them
        return True
    return True


def _keep_trying(by: int) -> None:
    for _ in range(_TRIES):
        time.sleep(_PAUSE)
        if _lower_group(by):
            return
