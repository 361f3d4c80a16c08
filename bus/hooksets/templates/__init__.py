"""Templates: ready hooks, endpoints and plugins by name, which users add to their own file and change there (F-14)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

from bus.config.documents import loads, read_file
from bus.config.validation import suggestion
from bus.errors import NotFound

_FOLDER: Final = Path(__file__).parent

Section = Literal["hooks", "endpoints", "plugins", "import"]


class Template(NamedTuple):
    """One template: a small fleethook.yaml with one entry."""

    name: str
    description: str
    text: str
    """The file as it is shipped."""
    section: Section
    """The key of the hook file that gets the entry."""
    entry: dict[str, Any]
    """The entry as plain data."""
    block: str
    """The entry as its YAML text with the remarks before it."""
    file: str = ""
    """What the entry names: a file or folder that is installed too, relative to the hook file."""

    @property
    def key(self) -> str:
        """The name by which the entry is known in a hook file."""
        return self.file if self.section == "import" else str(self.entry.get("id", self.name))


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
    value = loads(text, file=str(path)).value
    section: Section = next(key for key in get_args(Section) if key in value)
    found = value[section]
    entry: dict[str, Any] = found[name] if section == "plugins" else found[0]
    head, _, block = text.partition(f"{section}:\n")
    remark = "".join(f"  {line}" for line in head.splitlines(keepends=True))
    about = entry.get("description") or head.splitlines()[0].removeprefix("# ")
    return Template(name, about, text, section, entry, remark + block, entry.get("path", ""))


def names_in(value: object) -> frozenset[tuple[str, str]]:
    """The entries of a hook file, as (section, key): ids of hooks and endpoints, names of plugins, paths of imports."""
    found: set[tuple[str, str]] = set()
    for section in get_args(Section) if isinstance(value, dict) else ():
        entries = value.get(section)  # type: ignore[attr-defined]  # it is a dict here
        if isinstance(entries, dict):
            found |= {(section, str(name)) for name in entries}
        for entry in entries if isinstance(entries, list) else ():
            key = entry.get("path" if section == "import" else "id") if isinstance(entry, dict) else entry
            found.add((section, str(key)))
    return frozenset(found)
