"""Hook templates: ready hooks by name, which users add to their own file and change there (F-14)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

from bus.config.documents import loads, read_file
from bus.config.validation import suggestion
from bus.errors import NotFound

_FOLDER: Final = Path(__file__).parent
_HOOKS: Final = "hooks:\n"


class Template(NamedTuple):
    """One template: a small fleethook.yaml with one hook."""

    name: str
    description: str
    text: str
    """The file as it is shipped."""
    hook: dict[str, Any]
    """The hook's entry as plain data."""
    block: str
    """The hook's entry as its YAML text, beginning with `- `."""


def names() -> tuple[str, ...]:
    """Every template, by name."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def template(name: str) -> Template:
    """The template of this name; raises NotFound, which lists the names that exist."""
    known = names()
    if name not in known:
        hint = suggestion(name, known) or "there are " + ", ".join(known)
        raise NotFound(f"no hook template is called {name[:64]!r}; {hint}")
    path = _FOLDER / f"{name}.yaml"
    text = read_file(path)
    (hook,) = loads(text, file=str(path)).value["hooks"]
    head, _, block = text.partition(_HOOKS)
    remark = "".join(f"  {line}" for line in head.splitlines(keepends=True))
    return Template(name, hook["description"], text, hook, remark + block)
