"""The tools of an agent hook: read, list and search the files of the event's project, and nothing else.

Nothing is run and nothing is written. A path is resolved first and has to be below the project; then each folder of it is
opened in turn without following links, so that a link that is put in its way meanwhile leads nowhere. Files that hold
secrets by their name are refused, and what is read is redacted. The number of files and bytes has bounds.
"""

from __future__ import annotations

import fnmatch
import itertools
import json
import os
import stat
import time
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from bus.errors import FleethookError
from bus.lazy.conversions import converted
from bus.lazy.regex import lazy_regex
from bus.matching.regexes import Regex, compile_regex
from bus.secrets.redaction import redact_text

MOST_RESULT: Final = 24_000
"""Characters of one tool's result."""

MOST_RESULTS: Final = 200_000
"""Characters of all results of one run."""

_MOST_READ: Final = 2 * 1024 * 1024
"""Bytes of a file that are read; of a larger one, the rest is not seen."""
_MOST_SEARCHED: Final = 32 * 1024 * 1024
_MOST_ENTRIES: Final = 20_000
_MOST_LISTED: Final = 500
_MOST_MATCHES: Final = 200
_MOST_LINES: Final = 400
_LINE: Final = 400
_DEEPEST: Final = 24
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_SKIPPED: Final = frozenset(
    {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache"}
)
"""Folders that lists and searches leave out; files in them can be read by their path, but for `.git`."""

_SECRET: Final = lazy_regex(
    r"(?i)\A(?:\.env(?:\..+)?|.+\.env|\.envrc|\.netrc|_netrc|\.npmrc|\.yarnrc(?:\.yml)?|\.pypirc|\.pgpass|\.my\.cnf|\.htpasswd"
    r"|\.git-credentials|\.dockercfg|\.dockerconfigjson|\.vault-token|\.s3cfg|\.boto|\.rclone\.conf|kubeconfig.*"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)(?:[_.-].*)?|.+\.(?:pem|key|p8|p12|pfx|jks|keystore|kdbx|ppk|asc|gpg|age|tfvars|tfstate"
    r"|ovpn|mobileprovision)(?:\.backup)?|(?:.*[._-])?(?:credentials?|secrets?|passwords?|passwd|shadow)(?:[._-].*)?"
    r"|service[_-]?account.*\.json|terraform\.tfstate.*|master\.key|.*\.sqlite3?-?(?:wal|shm)?|.*\.db|\..*history)\Z"
)
_EXAMPLE: Final = lazy_regex(r"(?i)\A.*\.?(?:example|sample|template|dist)\Z")
_CODE: Final = lazy_regex(
    r"(?i)\A.+\.(?:py|pyi|js|jsx|ts|tsx|mjs|go|rs|rb|java|kt|c|h|cc|cpp|hpp|cs|php|swift|md|rst|html|css)\Z"
)
_SECRET_FOLDERS: Final = frozenset(
    {".ssh", ".aws", ".gnupg", ".azure", ".gcloud", ".kube", ".docker", ".password-store", ".git"}
)

_FOLDERS_OF_SECRETS: Final = frozenset({"secrets", ".secrets", "credentials", ".credentials"})
"""Folders in which every file but code counts as a secret."""

_NEVER: Final = ("/etc", "/private/etc", "/proc", "/sys", "/dev", "/boot")
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/run", "/var", "/System", "/Library")
"""Folders of the system: those of `_NEVER` have no projects, and in these only a folder with a `.git` is one."""

_PATH: Final = {"type": "string", "description": "A path relative to the project, such as src/app.py."}
_GLOB: Final = {"type": "string", "description": "Which files, such as *.py or src/*; without it, all."}


def _tool(name: str, description: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS: Final = (
    _tool(
        "read_file",
        f"Read a text file of the project, at most {_MOST_LINES} lines at once.",
        {"path": _PATH, "first_line": {"type": "integer", "description": "The first line to read, from 1."}},
        ["path"],
    ),
    _tool("list_files", "List the files of the project.", {"glob": _GLOB}, []),
    _tool(
        "grep",
        "Search the project's files for lines that match a regular expression.",
        {"pattern": {"type": "string", "description": "A regular expression (RE2)."}, "glob": _GLOB},
        ["pattern"],
    ),
)
"""The descriptions of the tools, as the chat endpoint gets them."""


class Refused(FleethookError):
    """A tool's call that is not carried out; the model is told why."""


class _Arguments(msgspec.Struct, forbid_unknown_fields=True):
    path: str = ""
    first_line: int = 1
    glob: str = ""
    pattern: str = ""


class FileTools:
    """The tools for one run below `root`, the project's folder; `deadline` is by the monotonic clock."""

    def __init__(self, root: str, deadline: float) -> None:
        self._root = os.path.realpath(root) if root else ""
        self._deadline = deadline
        self._left = MOST_RESULTS

    def call(self, name: str, arguments: str) -> str:
        """The result of one call, redacted and bounded; a refusal is a result too. Blocks: run it in a thread."""
        try:
            result = self._call(name, arguments)
        except FleethookError as error:
            result = f"refused: {error}"
        except OSError as error:
            result = f"refused: {error.strerror or 'it cannot be read'}"
        result = redact_text(result)
        most = max(0, min(MOST_RESULT, self._left))
        if len(result) > most:
            result = f"{result[:most]} [the rest is not shown: the result is too long]"
        self._left -= min(len(result), most)
        return result

    def _call(self, name: str, arguments: str) -> str:
        if not is_project(self._root):
            raise Refused("the event has no project on this machine")
        try:
            given = converted(json.loads(arguments or "{}"), _Arguments)
        except (ValueError, RecursionError, msgspec.ValidationError):
            raise Refused("the arguments are not a JSON object of the tool's parameters") from None
        if name == "read_file":
            return self._read_file(given.path, given.first_line)
        if name in {"list_files", "grep"} and given.path:  # it would look at more than the model means
            raise Refused(f"{name} has no parameter path; write glob, such as 'src/**/*.py'")
        if name == "list_files":
            return self._list_files(given.glob)
        if name == "grep":
            return self._grep(given.pattern, given.glob)
        raise Refused(f"there is no tool {name[:40]!r}; use read_file, list_files or grep")

    def _read_file(self, path: str, first: int) -> str:
        relative = self._inside(path)
        text, is_cut = self._text(relative)
        lines = text.splitlines()
        begin = max(first, 1) - 1
        shown = [line[: 4 * _LINE] for line in lines[begin : begin + _MOST_LINES]]
        last = begin + len(shown)
        more = f"\n[{len(lines) - last} more lines; read on with first_line {last + 1}]" if last < len(lines) else ""
        return "\n".join(shown) + more + ("\n[the file is longer than what is read of it]" if is_cut else "")

    def _list_files(self, glob: str) -> str:
        found: list[str] = []
        for relative in self._files(glob):
            if len(found) == _MOST_LISTED:
                found.append("[more files; give a narrower glob]")
                break
            found.append(relative)
        return "\n".join(found) or "no file fits"

    def _grep(self, pattern: str, glob: str) -> str:
        if not pattern:
            raise Refused("pattern is empty")
        regex = compile_regex(pattern)
        found: list[str] = []
        searched = 0
        for relative in self._files(glob):
            try:
                text, _ = self._text(relative)
            except (Refused, OSError):
                continue
            searched += len(text)
            found.extend(_matches(relative, text, regex))
            if len(found) >= _MOST_MATCHES or searched > _MOST_SEARCHED or self._is_late():
                return "\n".join([*found[:_MOST_MATCHES], "[the search was ended here; give a narrower glob]"])
        return "\n".join(found) or "no line matches"

    def _is_late(self) -> bool:
        return time.monotonic() >= self._deadline

    def _inside(self, path: str) -> str:
        """The path relative to the project with its links resolved; raises Refused if it is outside or for secrets."""
        if not path or "\x00" in path:
            raise Refused("path is empty or holds a NUL")
        if is_secret_path(os.path.relpath(os.path.join(self._root, path), self._root)):
            raise Refused("files of this name hold secrets")
        real = os.path.realpath(os.path.join(self._root, path))
        if real != self._root and not real.startswith(f"{self._root}/"):
            raise Refused("the path leads out of the project")
        relative = os.path.relpath(real, self._root)
        if is_secret_path(relative):  # what a link leads to
            raise Refused("files of this name hold secrets")
        return relative

    def _text(self, relative: str) -> tuple[str, bool]:
        """A file's text, and whether there is more of it; Refused unless it is a regular file with text."""
        handle = self._open(relative)
        with os.fdopen(handle, "rb") as file:
            raw = file.read(_MOST_READ + 1)
        if b"\x00" in raw[:8192]:
            raise Refused("it is not a text file")
        return raw[:_MOST_READ].decode("utf-8", "replace"), len(raw) > _MOST_READ

    def _open(self, relative: str) -> int:
        """A descriptor of a regular file below the project; no part of its path is followed if it is a link."""
        folder, _, name = relative.rpartition("/")
        here = self._open_folder(folder)
        try:
            found = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here)
        finally:
            os.close(here)
        known = os.fstat(found)
        if not stat.S_ISREG(known.st_mode):
            os.close(found)
            raise Refused("it is not a file")
        if known.st_nlink > 1:  # `ln .env notes.txt`: nothing tells which other names it has
            os.close(found)
            raise Refused("it has several names (hard links), and one of them may be that of a file with secrets")
        return found

    def _open_folder(self, relative: str) -> int:
        here = os.open(self._root, _FOLDER)
        for folder in filter(None, relative.split("/")):
            try:
                below = os.open(folder, _FOLDER | os.O_NOFOLLOW, dir_fd=here)
            finally:
                os.close(here)
            here = below
        return here

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        handle = self._open_folder(folder)
        try:
            with os.scandir(handle) as entries:
                return sorted(itertools.islice(entries, _MOST_ENTRIES), key=lambda entry: entry.name)
        finally:
            os.close(handle)

    def _files(self, glob: str) -> Iterator[str]:
        """The project's files that fit, without links, secret files and `_SKIPPED` folders, in order of their paths."""
        if len(glob) > _LINE:
            raise Refused("glob is too long")
        seen, folders = 0, [""]
        while folders:
            folder = folders.pop()
            try:
                listed = [_listed(entry, folder) for entry in self._entries(folder)]
            except OSError:
                continue
            below = []
            for relative, kind in listed:
                seen += 1
                if seen > _MOST_ENTRIES or self._is_late():
                    return
                if kind == "folder" and relative.count("/") < _DEEPEST and not is_secret_path(relative):
                    below.append(relative)
                elif kind == "file" and _fits(relative, glob) and not is_secret_path(relative):
                    yield relative
            folders.extend(reversed(below))


def _listed(entry: os.DirEntry[str], folder: str) -> tuple[str, str]:
    """An entry's path below the project, and whether it is a `file`, a `folder` to look into, or neither."""
    relative = f"{folder}/{entry.name}" if folder else entry.name
    if entry.is_dir(follow_symlinks=False):
        return relative, "" if entry.name in _SKIPPED else "folder"
    return relative, "file" if entry.is_file(follow_symlinks=False) else ""


def is_project(root: str) -> bool:
    """Whether a resolved folder can be a project.

    The folder is what the event's sender says, so folders of the system, and those that hold all projects or homes, are none.
    """
    if not root or root == "/" or _is_below(root, _NEVER) or not os.path.isdir(root):
        return False
    return (root.count("/") > 1 and not _is_below(root, _SYSTEM)) or os.path.lexists(f"{root}/.git")


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def is_secret_path(relative: str) -> bool:
    """Whether a file holds secrets by its name, or is in a folder that does."""
    parts = [part for part in relative.split("/") if part not in ("", ".", "..")]
    if not _SECRET_FOLDERS.isdisjoint(parts):
        return True
    name = parts[-1] if parts else ""
    if _SECRET.match(name) is None and _FOLDERS_OF_SECRETS.isdisjoint(parts[:-1]):
        return False
    return _EXAMPLE.match(name) is None and not (_CODE.match(name) is not None and not name.lower().startswith(".env"))


def _fits(relative: str, glob: str) -> bool:
    if not glob or glob in ("*", "**", "**/*"):
        return True
    pattern = glob.removeprefix("./").removeprefix("**/")
    return fnmatch.fnmatchcase(relative, pattern) or fnmatch.fnmatchcase(relative.rpartition("/")[2], pattern)


def _matches(relative: str, text: str, regex: Regex) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if regex.search(line[: 16 * _LINE]) is not None:
            yield f"{relative}:{number}: {line[:_LINE].strip()}"
