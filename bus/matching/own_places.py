"""Where Fleethook itself is on this machine: its folders, its installed code, and the agents' files that it wrote to."""

from __future__ import annotations

import json
import os
import sys
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

OWN: Final = "@fleethook"
"""The path pattern for these places and what is below them."""

ABOVE: Final = "@above-fleethook"
"""The path pattern for folders that contain one of these places: deleting such a folder would delete the place."""

_KEEP_SECONDS: Final = 2
_LAYOUT: Final = frozenset({"site-packages", "dist-packages"})


class OwnPlaces(NamedTuple):
    """These places, as absolute paths: as they are written, and with links resolved."""

    prefixes: tuple[str, ...] = ()
    """Each path with a slash behind it."""
    above: frozenset[str] = frozenset()
    """The folders above them, short of the root."""

    def contain(self, path: str) -> bool:
        """Whether an absolute path is one of these places or below one."""
        return f"{path}/".startswith(self.prefixes)


def own_places() -> OwnPlaces:
    """Fleethook's own places; looked up every two seconds."""
    return _own_places(os.environ.get("FLEETHOOK_HOME"), int(monotonic()) // _KEEP_SECONDS)


@lru_cache(maxsize=8)
def _own_places(home: str | None, _when: int) -> OwnPlaces:
    from bus.system.directories import directories

    folders = directories(create=False)
    found = [folders.config, folders.data, folders.state, folders.runtime, *_written(folders.state), *_code()]
    if home:
        found.append(folders.config.parent)
    paths = frozenset(name for path in found for name in (str(path), os.path.realpath(path)))
    above = (parent for path in paths for parent in Path(path).parents if len(parent.parts) > 2)
    return OwnPlaces(tuple(f"{path}/" for path in paths), frozenset(map(str, above)))


def _code() -> list[Path]:
    """The installed packages and their environment. A source tree does not count: its developer may change it."""
    package = Path(__file__).resolve().parents[1]
    if package.parent.name not in _LAYOUT:
        return []
    found = [package, package.parent / "workers", Path(sys.executable), Path(sys.prefix) / "bin" / "fleethook"]
    if sys.prefix != sys.base_prefix:
        found.append(Path(sys.prefix) / "pyvenv.cfg")
    return found


def _written(state: Path) -> list[Path]:
    """The agents' files that `install` wrote to, also where an environment variable moved them."""
    try:
        listed = json.loads((state / "installed.json").read_bytes())
    except (OSError, ValueError):
        return []
    return [Path(name) for name in listed if os.path.isabs(name)] if isinstance(listed, dict) else []
