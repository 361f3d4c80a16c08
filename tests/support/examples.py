"""How many examples each property is tried on: a part of them in every run, all of them by `make fuzz`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

_ALL: Final = os.environ.get("EXAMPLES") == "all"
_LEAST: Final = 25
_EVERY: Final = 4


def examples(count: int) -> int:
    """The number of generated examples in this run of a property that `count` of them prove: two fifths, or all."""
    return count if _ALL else min(count, max(_LEAST, 2 * count // 5))


def sample(cases: Sequence[T]) -> Sequence[T]:
    """The cases of this run of a long list: every fourth one, or all."""
    return cases if _ALL else cases[::_EVERY]
