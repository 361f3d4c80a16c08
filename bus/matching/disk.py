"""What one request may look up on disk, and what it has found there: each path once, and not more than so many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bus.errors import OverBudget

LIGHT_LOOKUPS: Final = 200
"""Paths that a loop that others wait for looks up itself for one request: some milliseconds."""
FULL_LOOKUPS: Final = 4096


class Disk:
    """The look-ups of one request; OverBudget where they are used up."""

    __slots__ = ("_found", "_left", "patient")

    def __init__(self, most: int, *, patient: bool) -> None:
        self._found: dict[str, str] = {}
        self._left = most
        self.patient = patient
        """It may wait for a program that it asks."""

    def real(self, path: str, look: Callable[[str], str]) -> str:
        """The real path, by `look` where it was not looked up before."""
        known = self._found.get(path)
        if known is None:
            if self._left <= 0:
                raise OverBudget("more paths than may be looked up for one request")
            self._left -= 1
            known = self._found[path] = look(path)
        return known

    def wait(self) -> None:
        """To be called before a program is asked, which may take long: OverBudget where nobody may wait for it."""
        if not self.patient:
            raise OverBudget("a program has to be asked")


def light_disk() -> Disk:
    """For a loop that others wait for."""
    return Disk(LIGHT_LOOKUPS, patient=False)


def full_disk() -> Disk:
    """For a process of its own."""
    return Disk(FULL_LOOKUPS, patient=True)
