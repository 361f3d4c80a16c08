"""The look-ups on disk of one request: each path once, and only a limited number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bus.errors import OverBudget

LIGHT_LOOKUPS: Final = 200
"""The most paths that an event loop looks up itself for one request; they take some milliseconds."""
FULL_LOOKUPS: Final = 4096


class Disk:
    """The look-ups of one request; raises OverBudget if there were too many."""

    __slots__ = ("_found", "_left", "patient")

    def __init__(self, most: int, *, patient: bool) -> None:
        self._found: dict[str, str] = {}
        self._left = most
        self.patient = patient
        """Whether the request may wait for a program that it starts."""

    def look_up(self, path: str, look: Callable[[str], str]) -> str:
        """What `look` finds at a path; later calls get the same answer without a look-up."""
        known = self._found.get(path)
        if known is None:
            if self._left <= 0:
                raise OverBudget("more paths than may be looked up for one request")
            self._left -= 1
            known = self._found[path] = look(path)
        return known

    def wait(self) -> None:
        """Call it before starting a program, which may take long: raises OverBudget if the caller must not wait."""
        if not self.patient:
            raise OverBudget("a program has to be asked")


def light_disk() -> Disk:
    """Limits for an event loop."""
    return Disk(LIGHT_LOOKUPS, patient=False)


def full_disk() -> Disk:
    """Limits for a process of its own."""
    return Disk(FULL_LOOKUPS, patient=True)
