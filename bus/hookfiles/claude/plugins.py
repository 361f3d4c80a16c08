"""The contents of a plugin's folder: its manifest, hooks, commands, skills, agents and MCP servers.

Everything that a plugin names has to be inside its folder. A path with `..`, an absolute path, or a link that leads out
is refused with a message: a cloned plugin could otherwise make the bus read and list other files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from bus.config.documents import Document, PathParts, Plain, load, loads, read_file
from bus.errors import ConfigError
from bus.hookfiles.claude.mcp_servers import FILES, McpServer, ion_server, is_bundle, server_file, server_map
from bus.lazy.regex import lazy_regex
from bus.matching.paths import within

MANIFEST: Final = Path(".claude-plugin", "plugin.json")
HOOKS: Final = Path("hooks", "hooks.json")
_MARKS: Final = (
    MANIFEST,
    HOOKS,
    *map(Path, FILES),
    Path("commands"),
    Path("skills"),
    Path("agents"),
)
_SLUG: Final = lazy_regex(r"[^A-Za-z0-9_-]+")
_FRONT: Final = lazy_regex(r"\A---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_COMMENT: Final = lazy_regex(r"(?:#!.*\n)?\s*#[ \t]*([^\n]+)")
_MOST: Final = 500
"""The most files of one kind; a folder with more is not a plugin."""


class Item(NamedTuple):
    """A command (`review`, in a folder `git:review`), a skill or an agent of a plugin (I-13)."""

    name: str
    description: str
    file: str


class HookSource(NamedTuple):
    """One mapping of events to hooks: the document, and the mapping's place in it."""

    document: Document
    at: PathParts


class ClaudePlugin(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a plugin's folder (I-05)."""

    name: str
    root: str
    """The folder's absolute path."""
    version: str = ""
    description: str = ""
    hooks: tuple[HookSource, ...] = ()
    commands: tuple[Item, ...] = ()
    skills: tuple[Item, ...] = ()
    agents: tuple[Item, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    problems: tuple[ConfigError, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def slug(self) -> str:
        """The name reduced to letters, digits, `_` and `-`."""
        return _SLUG.sub("-", self.name).strip("-")[:40] or "plugin"


def is_plugin(path: Path) -> bool:
    """Whether a folder looks like a plugin."""
    return any((path / mark).exists() or (path / mark).is_symlink() for mark in _MARKS)


def plugins_in(path: Path) -> list[Path]:
    """The plugins in a folder of plugins, by name; skips everything else."""
    return [Path(folder) for folder in sorted(entry.path for entry in os.scandir(path)) if is_plugin(Path(folder))]


def leads_out(plugin: Path, folder: Path) -> bool:
    """Whether a plugin in a folder of plugins is a link to somewhere else; a project may not have one."""
    return plugin.is_symlink() and not within(os.path.realpath(plugin), os.path.realpath(folder))


def plugin_roots(path: Path) -> list[Path]:
    """The plugins that an imported file or folder leads to; none for settings."""
    if not path.is_dir():
        named = path.parts[-2:] in (MANIFEST.parts, HOOKS.parts)
        return [path.parent.parent] if named else []
    if is_plugin(path):
        return [path]
    if any((path / name).is_file() for name in ("settings.json", "settings.local.json")):
        return []
    inner = next((path / name for name in (".claude", ".ion", "plugins") if (path / name).is_dir()), None)
    return plugins_in(path) if inner is None else plugin_roots(inner)


def is_single_skill(path: Path) -> bool:
    """Whether a file in `skills/` is a skill of ion, and not a page about skills."""
    return path.suffix == ".md" and path.stem.upper() not in {"SKILL", "README", "CHANGELOG", "LICENSE"}


def plugin_contents(
    path: Path, *, hooks_only: bool = False, servers_only: bool = False, single_files: bool = False
) -> ClaudePlugin:
    """The contents of a plugin's folder, with its errors in `problems`; raises ConfigError if there is no such folder.

    `hooks_only` reads only files about hooks, `servers_only` those about MCP servers. `single_files` also lists ion's own
    forms: commands that are scripts (`commands/*.sh`), and skills of one file each (`skills/*.md`).
    """
    root = Path(os.path.realpath(os.path.expanduser(path)))
    if not root.is_dir():
        raise ConfigError(
            "this is no folder", file=str(path), hint="name the folder that holds .claude-plugin or hooks"
        )
    return _PluginReader(root, single_files=single_files).read(hooks_only=hooks_only, servers_only=servers_only)


def inside(root: str, path_text: str) -> str:
    """The real path of a file that a plugin names; raises ConfigError (without a place) if it is outside of the plugin."""
    if os.path.isabs(path_text) or path_text.startswith("~"):
        raise ConfigError(
            f"the path {path_text[:80]!r} is not inside the plugin", hint="write it from the plugin's folder: ./…"
        )
    if ".." in path_text.split("/"):
        raise ConfigError(
            f"the path {path_text[:80]!r} leads out of its folder (..)", hint="move the file into the plugin"
        )
    try:
        found = os.path.realpath(os.path.join(root, path_text))
    except ValueError as error:  # a NUL, or half of a surrogate pair
        raise ConfigError(
            f"the path {path_text[:80]!r} cannot be a path", hint="write it with plain letters"
        ) from error
    if not within(found, root):
        raise ConfigError(
            f"the path {path_text[:80]!r} is a link that leads out of the plugin", hint="copy the file into it"
        )
    return found


class _PluginReader:
    """Reads one plugin's folder, and collects its problems."""

    def __init__(self, root: Path, *, single_files: bool) -> None:
        self.root, self.single_files = root, single_files
        self.problems: list[ConfigError] = []
        self.warnings: list[str] = []

    def read(self, *, hooks_only: bool, servers_only: bool = False) -> ClaudePlugin:
        manifest = self.document(MANIFEST)
        value: Mapping[str, Plain] = {}
        if manifest is not None:
            if isinstance(manifest.value, dict):
                value = manifest.value
            else:
                self.problems.append(manifest.error((), "a manifest is an object", hint='write {"name": "…"}'))
                manifest = None
        name = self.text(manifest, "name").strip()
        if manifest is not None and not name and not value.get("name"):
            self.problems.append(manifest.error((), '"name" is missing', hint=f'add "name": "{self.root.name}"'))
        known = name or self.root.name
        hooks = () if servers_only else tuple(self.hooks(manifest))
        commands: tuple[Item, ...] = ()
        skills: tuple[Item, ...] = ()
        agents: tuple[Item, ...] = ()
        servers: tuple[McpServer, ...] = ()
        if not hooks_only and not servers_only:
            commands, agents = tuple(self.files(manifest, "commands")), tuple(self.files(manifest, "agents"))
            skills = tuple(self.skills(manifest))
        if not hooks_only:
            servers = tuple(self.servers(manifest, known))
        return ClaudePlugin(
            name=known,
            root=str(self.root),
            version=self.text(manifest, "version"),
            description=self.text(manifest, "description"),
            hooks=hooks,
            commands=commands,
            skills=skills,
            agents=agents,
            mcp_servers=servers,
            problems=tuple(self.problems),
            warnings=tuple(self.warnings),
        )

    def document(self, path_text: Path | str, *, at: tuple[Document, PathParts] | None = None) -> Document | None:
        """A file of the plugin; None if it does not exist, or must not be read (which is reported)."""
        try:
            path = Path(inside(str(self.root), str(path_text)))
            if at is not None and not os.path.exists(path):
                raise ConfigError(f"there is no file {str(path_text)[:80]!r}", hint="correct the path, or take it out")
            return load(path) if os.path.exists(path) else None
        except ConfigError as error:
            self.report(error, at, str(self.root / path_text))
            return None

    def report(self, error: ConfigError, at: tuple[Document, PathParts] | None, file: str) -> None:
        if error.file:
            self.problems.append(error)
        elif at is not None:
            self.problems.append(at[0].error(at[1], error.message, hint=error.hint))
        else:
            self.problems.append(ConfigError(error.message, file=file, hint=error.hint))

    def text(self, manifest: Document | None, key: str) -> str:
        value = manifest.value.get(key) if manifest is not None else None
        if value is None or isinstance(value, str):
            return value or ""
        if manifest is not None:
            self.problems.append(manifest.error((key,), f"{key} has to be text", hint="put it in quotes"))
        return ""

    def hooks(self, manifest: Document | None) -> Iterator[HookSource]:
        """The plugin's own hooks.json, then what its manifest adds: paths, or the hooks themselves."""
        seen = set()
        usual = self.document(HOOKS)
        if usual is not None:
            seen.add(usual.file)
            yield HookSource(usual, ())
        for at, entry in self.entries(manifest, "hooks"):
            if isinstance(entry, dict) and manifest is not None:
                yield HookSource(manifest, at)
            elif isinstance(entry, str) and manifest is not None:
                found = self.document(entry, at=(manifest, at))
                if found is not None and found.file not in seen:
                    seen.add(found.file)
                    yield HookSource(found, ())
            elif manifest is not None:
                self.problems.append(manifest.error(at, "hooks has to be a path or a mapping of events"))

    def entries(self, manifest: Document | None, key: str) -> Iterator[tuple[PathParts, Plain]]:
        value = manifest.value.get(key) if manifest is not None else None
        if isinstance(value, list):
            for number, entry in enumerate(value):
                yield (key, number), entry
        elif value is not None:
            yield (key,), value

    def folders(self, manifest: Document | None, key: str) -> Iterator[Path]:
        """The folders (or files) that the manifest names, and the usual one.

        As in Claude Code, named commands and agents replace the usual folder, and named skills are added to it.
        """
        named: list[tuple[PathParts, Plain]] = [*self.entries(manifest, key)]
        replaced = bool(named) and key != "skills" and not self.single_files
        if not replaced:
            named = [((), key), *named]
        elif (self.root / key).is_dir() and not any(_is_in(entry, key) for _, entry in named):
            hint = f'add "./{key}" to the list if it is meant too'
            self.warn(manifest, (key,), f"the folder {key}/ is not read, because {key} names others", hint)
        for at, entry in named:
            if not isinstance(entry, str):
                continue
            try:
                path = Path(inside(str(self.root), entry))
            except ConfigError as error:
                self.report(error, (manifest, at) if at and manifest is not None else None, str(self.root / entry))
                continue
            if os.path.exists(path):
                yield path
            elif at and manifest is not None:
                hint = "correct the path, or take it out"
                self.problems.append(manifest.error(at, f"{entry[:80]!r} is not there", hint=hint))

    def warn(self, document: Document | None, at: PathParts, message: str, hint: str = "") -> None:
        if document is not None:
            self.warnings.append(str(document.error(at, message, hint=hint)))

    def files(self, manifest: Document | None, key: str) -> Iterator[Item]:
        """Markdown files (and scripts, as ion's commands may be); the name of a file in a folder begins with the folder's
        name."""
        endings = (".md", ".sh") if key == "commands" and self.single_files else (".md",)
        for base in self.folders(manifest, key):
            below = () if base.is_file() else (path for ending in endings for path in base.rglob(f"*{ending}"))
            found = [base] if base.is_file() else sorted(below)[:_MOST]
            for path in found:
                real = self.contained(path)
                if real is not None:
                    name = ":".join(path.relative_to(base).with_suffix("").parts) if path != base else path.stem
                    yield Item(name, self.front(real).get("description", ""), str(path))
        for at, entry in self.entries(manifest, key):
            if isinstance(entry, dict) and manifest is not None:
                yield from self.described(manifest, at, entry)

    def described(self, manifest: Document, at: PathParts, entry: dict[str, Plain]) -> Iterator[Item]:
        """Commands that the manifest describes by name: each with the path of its text, or with the text itself."""
        for name, value in entry.items():
            place = (*at, name)
            if not isinstance(value, dict):
                continue  # the check of the manifest reports it
            text, source = value.get("description"), value.get("source")
            description, file = text if isinstance(text, str) else "", manifest.file
            if isinstance(source, str):
                try:
                    real = Path(inside(str(self.root), source))
                except ConfigError as error:
                    self.report(error, (manifest, (*place, "source")), manifest.file)
                    continue
                if not os.path.exists(real):
                    self.problems.append(manifest.error((*place, "source"), f"{source[:80]!r} is not there"))
                    continue
                file, description = str(real), description or self.front(real).get("description", "")
            yield Item(name, description, file)

    def skills(self, manifest: Document | None) -> Iterator[Item]:
        """Folders with a SKILL.md (and ion's single files), by the name in the file."""
        for base in self.folders(manifest, "skills"):
            found = [base / "SKILL.md"] if (base / "SKILL.md").is_file() else sorted(base.glob("*/SKILL.md"))[:_MOST]
            if self.single_files:
                single = [base] if base.is_file() else sorted(base.glob("*.md"))[:_MOST]
                found += [path for path in single if is_single_skill(path)]
            for path in found:
                real = self.contained(path)
                if real is not None:
                    front = self.front(real)
                    usual = path.parent.name if path.name == "SKILL.md" else path.stem
                    yield Item(front.get("name") or usual, front.get("description", ""), str(path))

    def contained(self, path: Path) -> Path | None:
        try:
            return Path(inside(str(self.root), str(path.relative_to(self.root))))
        except ConfigError as error:
            self.report(error, None, str(path))
            return None

    def front(self, path: Path) -> dict[str, str]:
        """The texts of a file's front matter. If it cannot be read, reports it, and the file is still listed.

        A script has no front matter: its first comment describes it.
        """
        try:
            text = read_file(path).replace("\r\n", "\n")
            if path.suffix == ".sh":
                comment = _COMMENT.match(text)
                return {"description": comment[1].strip()} if comment is not None else {}
            found = _FRONT.match(text)
            value = loads(found[1], file=str(path)).value if found is not None else None
        except ConfigError as error:
            self.warnings.append(str(error))
            return {}
        return {k: v.strip() for k, v in value.items() if isinstance(v, str)} if isinstance(value, dict) else {}

    def servers(self, manifest: Document | None, plugin: str) -> Iterator[McpServer]:
        """The servers of .mcp.json, mcp/mcp.json and the manifest, in the forms of Claude Code and of ion."""
        found: dict[str, McpServer] = {}
        for server in self.server_entries(manifest, plugin):
            if isinstance(server, ConfigError):
                self.problems.append(server)
                continue
            if server.name in found:
                first = found[server.name].origin
                self.warnings.append(
                    f"{server.origin}: the MCP server {server.name[:64]!r} replaces the one in {first}"
                )
            found[server.name] = server
        yield from found.values()

    def server_entries(self, manifest: Document | None, plugin: str) -> Iterator[McpServer | ConfigError]:
        root, read = str(self.root), set()
        for path_text in FILES:
            document = self.document(path_text)
            if document is not None:
                read.add(document.file)
                yield from server_file(document, plugin, root)
        if manifest is None:
            return
        for at, entry in self.entries(manifest, "mcpServers"):
            if not isinstance(entry, str):
                yield from server_map(manifest, at, entry, root)
            elif is_bundle(entry):
                self.warn(manifest, at, f"{entry[:80]!r} is a packed MCP server, which is not unpacked here")
            else:
                document = self.document(entry, at=(manifest, at))
                if document is not None and document.file not in read:
                    read.add(document.file)
                    yield from server_file(document, plugin, root)
        if "mcp" in manifest.value:
            yield from ion_server(manifest, manifest.value["mcp"], plugin, root)


def _is_in(entry: Plain, folder: str) -> bool:
    return isinstance(entry, str) and os.path.normpath(entry).split(os.sep)[0] == folder
