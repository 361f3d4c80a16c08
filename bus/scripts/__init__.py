"""The Lua scripts: one hand-over each, atomic in Redis; each file names its keys and arguments at its head."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Script(NamedTuple):
    """One script and the SHA-1 by which EVALSHA calls it."""

    name: str
    text: str
    sha: str


@cache
def every_script() -> tuple[Script, ...]:
    """All scripts there are."""
    names = sorted(
        path.name.removesuffix(".lua") for path in files("bus.scripts").iterdir() if path.name.endswith(".lua")
    )
    return tuple(script(name) for name in names)


@cache
def script(name: str) -> Script:
    """The script in `<name>.lua`."""
    text = files("bus.scripts").joinpath(f"{name}.lua").read_text(encoding="utf-8")
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
