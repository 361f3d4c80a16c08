"""The Lua scripts, in folders by what they change. Each makes one change of state atomically in Redis; its first lines explain
its keys and arguments.

A line `-- with NAME` is replaced by the text of `shared/NAME.lua`, which several scripts share. A script is called by its name
without its folder, so no two scripts have the same name.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_WITH: Final = re.compile(r"^-- with ([a-z]+)$", re.MULTILINE)
_SHARED: Final = "shared"


class Script(NamedTuple):
    """One script and the SHA-1 by which EVALSHA calls it."""

    name: str
    text: str
    sha: str


@cache
def every_script() -> tuple[Script, ...]:
    """All scripts, sorted by name."""
    return tuple(script(name) for name in sorted(_files()))


@cache
def script(name: str) -> Script:
    """The script in `<name>.lua`, with the shared texts that it includes."""
    text = _whole(_files()[name].read_text(encoding="utf-8"))
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


@cache
def _files() -> dict[str, Traversable]:
    """The file of each script by the script's name."""
    return {
        file.name.removesuffix(".lua"): file
        for folder in files("bus.wire.scripts").iterdir()
        if folder.is_dir() and folder.name != _SHARED
        for file in folder.iterdir()
        if file.name.endswith(".lua")
    }


def _whole(text: str) -> str:
    """A text with the shared texts that it includes, and those that these include."""
    return _WITH.sub(lambda found: _whole(_shared(found[1])), text)


def _shared(name: str) -> str:
    return files("bus.wire.scripts").joinpath(_SHARED, f"{name}.lua").read_text(encoding="utf-8")
