"""Which variables of the environment a plugin's source reads, so that one that it does not get is said when it is enabled.

A plugin's process has the safe list and `env_pass`; in Gobby, plugins have the whole environment of the daemon.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from bus.config.files import Stamp, stamp
from bus.hooksets.plugins.shared_modules import imported_files, parsed
from bus.system.environment import ALLOWED

_SET_HERE: Final = frozenset({*ALLOWED, "PWD"})
_GETS: Final = frozenset({"get", "pop", "setdefault"})


class VariableRead(NamedTuple):
    """One place that reads a variable."""

    file: str
    line: int
    name: str


def variables_read(path: str, passed: Collection[str] = ()) -> list[VariableRead]:
    """The variables that a plugin's file, or a module beside it that it imports, reads and does not get; each name once."""
    found: dict[str, VariableRead] = {}
    for file in (path, *imported_files(path)):
        for read in _reads(file, stamp(file)):
            if read.name not in _SET_HERE and read.name not in passed and not read.name.startswith("LC_"):
                found.setdefault(read.name, read)
    return list(found.values())


@lru_cache(512)
def _reads(path: str, _stamp: Stamp) -> tuple[VariableRead, ...]:
    tree = parsed(path)
    if tree is None:
        return ()
    names = {node.targets[0].id: node.value.value for node in tree.body if _is_constant(node)}  # type: ignore[attr-defined]
    written = {_key(node, names) for node in ast.walk(tree) if isinstance(node, ast.Subscript) and not _is_read(node)}
    found = [
        VariableRead(path, node.lineno, name)  # type: ignore[attr-defined]
        for node in ast.walk(tree)
        if (name := _name(node, names)) and name not in written
    ]
    return tuple(found)


def _is_constant(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_read(node: ast.Subscript) -> bool:
    return isinstance(node.ctx, ast.Load)


def _name(node: ast.AST, names: dict[str, str]) -> str:
    """The variable that a part reads: `os.environ["X"]`, `environ.get("X")`, `os.getenv("X")`, `"X" in os.environ`."""
    if isinstance(node, ast.Subscript) and _is_read(node):
        return _key(node, names)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.In):
        return _text(node.left, names) if _is_environ(node.comparators[0]) else ""
    if not isinstance(node, ast.Call) or not node.args:
        return ""
    function = node.func
    gets = isinstance(function, ast.Attribute) and function.attr in _GETS and _is_environ(function.value)
    return _text(node.args[0], names) if gets or _last(function) == "getenv" else ""


def _key(node: ast.Subscript, names: dict[str, str]) -> str:
    return _text(node.slice, names) if _is_environ(node.value) else ""


def _is_environ(node: ast.expr) -> bool:
    return _last(node) == "environ"


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.expr, names: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def warnings_of(name: str, reads: Iterator[VariableRead] | list[VariableRead]) -> list[str]:
    """A sentence for each variable that a plugin does not get."""
    return [
        f"{read.file}:{read.line}: the plugin {name!r} reads the variable {read.name}, which it does not get; "
        f"write `env_pass: [{read.name}]` into its entry"
        for read in reads
    ]
