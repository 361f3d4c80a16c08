"""Words that depend on numbers."""

from __future__ import annotations


def counted(count: int, singular: str, plural: str = "") -> str:
    """`1 event waits`, `1,200 events wait`: a number with its words in singular or plural (default: `singular` with an s)."""
    return f"{count:,} {singular if count == 1 else plural or f'{singular}s'}"
