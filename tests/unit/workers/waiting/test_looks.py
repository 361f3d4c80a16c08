"""What an idle worker looks at: what calls for work does so each time, and the rest only when it has changed."""

from __future__ import annotations

import pytest

from bus.errors import Unreachable
from workers.waiting.looks import Look, work_if

JOBS = Look(("ZCARD", "jobs"), work_if(bool))
VERSION = Look(("GET", "version"))


@pytest.mark.req("X-14")
@pytest.mark.parametrize(
    ("look", "reply", "again"),
    [(JOBS, 1, True), (JOBS, 0, False), (VERSION, b"6", False), (VERSION, Unreachable("away"), True)],
)
def test_what_is_found_twice(look: Look, reply: object, again: bool) -> None:
    """They are compared in lists, which take one object for equal to itself without asking it."""
    first, second = [[look.found(reply)] for _ in range(2)]
    assert (first != second) is again
