"""Which plugins have state in common: those of one file, and those that import a module beside them that keeps state.

In Gobby all plugins are in one process, so a dict of such a module is the same for all of them. Here plugins that have state in
common get one process together, and the others one each.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from bus.config.files import Stamp, stamp

_MOST_FILES: Final = 50
_CHANGES: Final = (
    r"(?:\[[^\]\n]*\]\s*(?:=(?!=)|[-+|&]=)|\s*[-+|&]=|\.(?:append|appendleft|add|update|setdefault|pop|popitem|clear|extend|"
    r"insert|remove|discard|subtract|put|put_nowait|set)\b)"
)
_KEEPERS: Final = frozenset({"defaultdict", "Counter", "deque", "OrderedDict", "dict", "list", "set"})
_PLAIN: Final = frozenset({"Path", "TypeVar", "NewType", "NamedTuple", "TypedDict", "Enum", "ParamSpec"})


def state_files(path: str) -> frozenset[str]:
    """The files that a plugin's state is in: its own, and modules beside it that keep state and that it imports."""
    beside = imported_files(path)
    texts = "\n".join(_text(file) for file in (path, *beside))
    return frozenset({path, *(file for file in beside if _keeps_state(file, texts))})


def imported_files(path: str) -> tuple[str, ...]:
    """The files beside a plugin's file that it imports, and those that they import."""
    folder, left, seen = os.path.dirname(path), [path], {path: None}
    while left and len(seen) < _MOST_FILES:
        file = left.pop()
        for other in _imported(file, folder, stamp(file)):
            if other not in seen:
                seen[other] = None
                left.append(other)
    return tuple(file for file in seen if file != path)


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return ""


def parsed(path: str) -> ast.Module | None:
    """The syntax tree of a file; None where it is not valid Python, or cannot be read."""
    try:
        return ast.parse(_text(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@lru_cache(512)
def _imported(path: str, folder: str, _stamp: Stamp) -> tuple[str, ...]:
    """The files of the folder that a file imports, at its top or in a function."""
    tree = parsed(path)
    names = dict.fromkeys(name for node in ast.walk(tree) for name in _names(node)) if tree is not None else {}
    return tuple(file for name in names for file in _files(os.path.join(folder, *name.split("."))))


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        module = node.module or ""
        if module:
            yield module
        yield from (f"{module}.{alias.name}".lstrip(".") for alias in node.names)


def _files(place: str) -> Iterator[str]:
    for file in (f"{place}.py", os.path.join(place, "__init__.py")):
        if os.path.isfile(file):
            yield file


def _keeps_state(path: str, texts: str) -> bool:
    """Whether a module has something at its top that changes: what a function rebinds, or a container or object."""
    tree = parsed(path)
    if tree is None:
        return False
    if any(isinstance(node, ast.Global) for node in ast.walk(tree)):
        return True
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        if _is_object(value) or (_is_container(value) and any(_is_changed(name, texts) for name in names)):
            return True
    return False


def _is_container(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        return _called(value) in _KEEPERS
    return isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp)


def _is_object(value: ast.expr | None) -> bool:
    """Whether it is a call of what looks like a class, such as `Store()`."""
    name = _called(value) if isinstance(value, ast.Call) else ""
    return name[:1].isupper() and name not in _PLAIN | _KEEPERS


def _called(call: ast.Call) -> str:
    function = call.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _is_changed(name: str, texts: str) -> bool:
    return re.search(rf"\b{re.escape(name)}{_CHANGES}", texts) is not None
