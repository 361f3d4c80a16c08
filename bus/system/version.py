"""Fleethook's own version."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=1)
def installed_version() -> str:
    """The installed version; `0+checkout` for a checkout. Workers know it before they are forked: to find it takes 2 MB."""
    from importlib import metadata

    try:
        return metadata.version("fleethook")
    except metadata.PackageNotFoundError:
        return "0+checkout"
