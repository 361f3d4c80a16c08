"""The Lua scripts: one hand-over each, atomic in Redis; each file names its keys and arguments at its head.

A line `-- with NAME` stands for the text of `shared/NAME.lua`: what several hand-overs have to do in the same way.
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
    """All scripts there are."""
    names = sorted(
        path.name.removesuffix(".lua") for path in files("bus.wire.scripts").iterdir() if path.name.endswith(".lua")
    )
    return tuple(script(name) for name in names)


@cache
def script(name: str) -> Script:
    """The script in `<name>.lua`, with what it shares with others."""
    text = _WITH.sub(lambda found: _read("shared", f"{found[1]}.lua"), _read(f"{name}.lua"))
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def _read(*path: str) -> str:
    return files("bus.wire.scripts").joinpath(*path).read_text(encoding="utf-8")
