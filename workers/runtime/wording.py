"""Words that depend on numbers."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """`1 event waits`, `1,200 events wait`: a number with the words for one or for many (default: `one` with an s)."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
