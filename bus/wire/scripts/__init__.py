"""The Lua scripts. Each makes one change of state atomically in Redis; its first lines explain its keys and arguments.

A line `-- with NAME` is replaced by the text of `shared/NAME.lua`, which several scripts share.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

_WITH: Final = re.compile(r"^-- with ([a-z]+)$", re.MULTILINE)


class Script(NamedTuple):
    """One script and the SHA-1 by which EVALSHA calls it."""

    name: str
    text: str
    sha: str


@cache
def every_script() -> tuple[Script, ...]:
    """All scripts, sorted by name."""
    names = sorted(
        path.name.removesuffix(".lua") for path in files("bus.wire.scripts").iterdir() if path.name.endswith(".lua")
    )
    return tuple(script(name) for name in names)


@cache
def script(name: str) -> Script:
    """The script in `<name>.lua`, with the shared texts that it includes."""
    text = _WITH.sub(lambda found: _read("shared", f"{found[1]}.lua"), _read(f"{name}.lua"))
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def _read(*path: str) -> str:
    return files("bus.wire.scripts").joinpath(*path).read_text(encoding="utf-8")
