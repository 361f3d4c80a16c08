"""Finds the files that a script's text loads: `source ./lib.sh`, `import helper`, `require('./x')`, commands that it starts.

It does not find files whose names the script computes, installed packages, or data files.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from bus.hookfiles.programs import run_files
from bus.lazy.regex import lazy_regex

Language = Literal["sh", "python", "other", ""]

MOST_TEXT: Final = 256 * 1024
"""The most bytes of a script that are read."""

_LANGUAGES: Final[dict[str, Language]] = {
    **dict.fromkeys((".sh", ".bash", ".zsh", ".dash", ".ksh"), "sh"),
    **dict.fromkeys((".py", ".pyw"), "python"),
    **dict.fromkeys((".js", ".cjs", ".mjs", ".ts", ".cts", ".mts", ".tsx", ".jsx"), "other"),
    **dict.fromkeys((".rb", ".pl", ".pm", ".php", ".lua"), "other"),
}
_SHEBANG: Final = lazy_regex(rb"#![^\n]*?(?:(python|pypy)|(node|deno|bun|tsx|ruby|perl|php|lua)|((?:ba|da|z|k)?sh\b))")
_LOAD: Final = lazy_regex(
    r"""\b(?:require(?:_relative|_once)?|import|from|include(?:_once)?|load|do|dofile|fork|Worker|resolve|spawn(?:Sync)?
    |exec(?:File)?(?:Sync)?|system)\b[^'"`\n;]{0,60}(['"`])([^'"`\n$]{1,400})\1""",
    re.VERBOSE,
)
_ENDS: Final = {
    "js": (
        "",
        ".js",
        ".cjs",
        ".mjs",
        ".ts",
        ".cts",
        ".mts",
        ".tsx",
        ".json",
        "/index.js",
        "/index.ts",
        "/package.json",
    ),
    "rb": ("", ".rb"),
    "pl": ("", ".pl", ".pm"),
    "php": ("", ".php"),
    "lua": ("", ".lua"),
}


def loads(path: str, root: str) -> tuple[str, ...]:
    """The absolute paths that a script may load, also of missing files; for a folder, the files that an interpreter runs.

    `root` is the project's folder. Empty if `path` is not a script.
    """
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return ()
    return _loads(path, root, (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino))


@lru_cache(512)
def _loads(path: str, root: str, _state: tuple[int, ...]) -> tuple[str, ...]:
    if os.path.isdir(path):
        return tuple(_entries(path))
    try:
        with open(path, "rb") as stream:
            raw = stream.read(MOST_TEXT)
    except OSError:
        return ()
    language = _LANGUAGES.get(os.path.splitext(path)[1].lower(), "") or _by_shebang(raw)
    text = raw.decode("utf-8", "replace")
    folder = os.path.dirname(path)
    if language == "sh":
        found = _commands(text, folder, root)
    elif language == "python":
        found = [*_imports(text, folder, root), *_commands(f"python3 -c {shlex.quote(text)}", folder, root)]
    elif language == "other":
        found = list(_quoted(text, folder, os.path.splitext(path)[1]))
    else:
        return ()
    return tuple(dict.fromkeys(os.path.normpath(name) for name in found if "\x00" not in name))


def _by_shebang(raw: bytes) -> Language:
    match = _SHEBANG.match(raw)
    return "" if match is None else "python" if match[1] else "other" if match[2] else "sh"


def _entries(folder: str) -> Iterator[str]:
    """The files that `python3 FOLDER` and `node FOLDER` run."""
    manifest = os.path.join(folder, "package.json")
    yield from (os.path.join(folder, name) for name in ("__main__.py", "index.js", "index.ts"))
    yield manifest
    try:
        main = json.loads(Path(manifest).read_bytes()[:MOST_TEXT]).get("main")
    except (OSError, ValueError, AttributeError, RecursionError):
        return
    if isinstance(main, str):
        yield from (os.path.join(folder, f"{main}{end}") for end in _ENDS["js"])


def _commands(text: str, folder: str, root: str) -> list[str]:
    """The files that a shell text runs: relative to the script's folder (as with `$(dirname "$0")`) and to the project."""
    runs = [run for run in run_files(text) if run.how != "name" and run.word.strip("\0\1")]
    found = [path for run in runs if (path := run.path(folder, root)) and (run.certain or os.path.exists(path))]
    return [*found, *filter(os.path.exists, (run.path(root, root) for run in runs))]


def _imports(text: str, folder: str, root: str) -> Iterator[str]:
    """The files of imported modules: in the script's folder, and existing files in the project and in named folders."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    others = [root]
    modules: list[tuple[str, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [("", alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "/".join([".."] * (node.level - 1)) if node.level else ""
            stem = node.module or ""
            names = [f"{stem}.{alias.name}".strip(".") for alias in node.names if alias.name != "*"]
            modules += [(base, name) for name in ([stem] if stem else []) + names]
        elif isinstance(node, ast.Call) and "sys.path" in ast.unparse(node.func):
            texts = [
                part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
            others += [os.path.join(folder, text.lstrip("/")) for text in texts]
            others += [os.path.dirname(folder)] if ".." in texts or "parent" in ast.unparse(node) else []
    for base, module in dict.fromkeys(modules):
        parts = module.split(".")
        files = [f"{'/'.join(parts[:end])}/__init__.py" for end in range(1, len(parts) + 1)]
        files.append(f"{'/'.join(parts)}.py")
        start = os.path.join(folder, base)
        yield from (os.path.join(start, name) for name in files)
        yield from filter(os.path.isfile, (os.path.join(other, name) for other in others for name in files))


def _quoted(text: str, folder: str, end: str) -> Iterator[str]:
    """The quoted paths that code of other languages loads, or starts as a program."""
    kind = end.lstrip(".").lower()
    ends = _ENDS["pl"] if kind == "pm" else _ENDS.get(kind, _ENDS["js"])
    for match in _LOAD.finditer(text):
        word = match[2].strip()
        relative = "/" in word or kind in ("rb", "php", "pl", "lua", "pm")
        if not relative or "://" in word or word.startswith("@"):
            continue
        full = [os.path.join(folder, f"{word.lstrip('/')}{tail}") for tail in ends]
        yield from full if word.startswith(".") else filter(os.path.isfile, full)


def closure(paths: Iterable[str], root: str, most: int) -> tuple[tuple[str, ...], bool]:
    """The files and all files in the project that they load; False if `most` files were read and others were left."""
    inside = root.rstrip("/") + "/"
    found = dict.fromkeys(paths)
    waiting, read = list(found), 0
    while waiting:
        path = waiting.pop(0)
        new = [name for name in loads(path, root) if name.startswith(inside) and name not in found]
        read += os.path.exists(path)
        if read > most:
            return tuple(found), False
        found.update(dict.fromkeys(new))
        waiting += [name for name in new if os.path.exists(name)]
    return tuple(found), True
