"""Reads from a plugin's source which plugins and handlers it has, without running any of it.

So a worker knows which events a plugin is for before the plugin is loaded, and a file that is not enabled never runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from bus.errors import ConfigError

BASE: Final = "HookPlugin"
OTHER_BASE: Final = "GobbyPlugin"
"""The name of the same class in Gobby's guide."""
DECORATOR: Final = "hook_handler"
_EVENTS: Final = "HookEventType"

Value = str | int | tuple[str, ...]


class FoundHandler(NamedTuple):
    """One decorated method."""

    method: str
    event: str
    priority: int
    line: int


class FoundPlugin(NamedTuple):
    """One plugin class of a source."""

    name: str
    requires: tuple[str, ...]
    handlers: tuple[FoundHandler, ...]
    complete: bool
    """False where only loading the plugin shows all of its handlers: a base class or an argument is not in the file."""
    line: int


Handlers = dict[str, tuple[FoundHandler, ...] | None]
"""By method, one for each of its events; None where the arguments cannot be read from the source."""


@lru_cache(256)
def plugin_classes(text: str, file: str) -> tuple[FoundPlugin, ...]:
    """The plugin classes of a source that have a name; raises ConfigError if it is not Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        reason = getattr(error, "msg", None) or str(error)
        raise ConfigError(f"this is not valid Python: {reason}", file=file, line=line) from error
    return tuple(_Source(tree).plugins())


@lru_cache(256)
def texts_of_source(text: str) -> frozenset[str]:
    """Every text that is written out in a source: a plugin that is made by a call or a base elsewhere has its name there."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


class _Source:
    """One parsed source: its constants, its classes, and the names under which it imports ours."""

    def __init__(self, tree: ast.Module) -> None:
        self.constants = _class_constants(tree, _constants(tree.body, {}))
        self.names = {BASE: {BASE, OTHER_BASE}, DECORATOR: {DECORATOR}}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    name = BASE if alias.name == OTHER_BASE else alias.name
                    if name in self.names:
                        self.names[name].add(alias.asname or alias.name)
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        self.classes = {node.name: node for node in classes}
        direct = sum(len(_methods_calls(self, method)) for node in classes for method in _methods(node))
        used = (node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute))
        self.is_plain = sum(_last_name(node) in self.names[DECORATOR] for node in used) == direct
        """Whether the decorator is used on methods of classes only; else handlers may be made in other ways."""

    def plugins(self) -> Iterator[FoundPlugin]:
        for node in self.classes.values():
            bases, complete = self.lineage(node, ())
            if bases is None:
                continue
            facts: dict[str, Value] = {}
            handlers: Handlers = {}
            for base in reversed(bases):
                facts |= _constants(base.body, self.constants)
                handlers |= self.handlers(base)
            name, requires = facts.get("name"), facts.get("requires", ())
            if not isinstance(name, str) or not name:
                continue
            found = tuple(handler for several in handlers.values() for handler in several or ())
            known = complete and self.is_plain and None not in handlers.values()
            yield FoundPlugin(name, requires if isinstance(requires, tuple) else (), found, known, node.lineno)

    def lineage(self, node: ast.ClassDef, above: tuple[str, ...]) -> tuple[list[ast.ClassDef] | None, bool]:
        """The class and its base classes in this file, nearest first; None if it is no plugin. And whether that is all."""
        found, complete, is_plugin = [node], True, False
        for base in node.bases:
            name = _last_name(base)
            if name in self.names[BASE]:
                is_plugin = True
            elif name in self.classes and name not in above and name != node.name:
                more, whole = self.lineage(self.classes[name], (*above, node.name))
                is_plugin, complete = is_plugin or more is not None, complete and whole
                found += more or [self.classes[name]]
            elif name not in {"ABC", "object", "Generic", "Protocol"}:
                complete = False
        # A class with decorated methods and a base from elsewhere may be a plugin: loading it shows that.
        is_plugin = is_plugin or (not complete and bool(self.handlers(node)))
        return (found if is_plugin else None), complete

    def handlers(self, node: ast.ClassDef) -> Handlers:
        found: Handlers = {}
        constants = _constants(node.body, self.constants)
        for method in _methods(node):
            several = [_handler(method.name, call, constants) for call in _methods_calls(self, method)]
            if several:
                found[method.name] = None if None in several else tuple(filter(None, several))
        return found

    def is_decorator(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and _last_name(node.func) in self.names[DECORATOR]


def _methods(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [method for method in node.body if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)]


def _methods_calls(source: _Source, method: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.Call]:
    """The decorators of a method that make it a handler, the outermost first."""
    return [call for call in method.decorator_list if isinstance(call, ast.Call) and source.is_decorator(call)]


def _handler(method: str, call: ast.Call, constants: Mapping[str, Value]) -> FoundHandler | None:
    """The handler of a decorated method; None if its arguments cannot be read from the source."""
    given = dict(zip(("event_type", "priority"), call.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    event = _value(given["event_type"], constants) if "event_type" in given else None
    priority = _value(given["priority"], constants) if "priority" in given else 50
    if not isinstance(event, str) or not isinstance(priority, int) or None in {kw.arg for kw in call.keywords}:
        return None
    return FoundHandler(method, event, priority, call.lineno)


def _class_constants(tree: ast.Module, known: Mapping[str, Value]) -> dict[str, Value]:
    """The module's constants, and those of its classes (`Prio.EARLY`)."""
    inside = {
        f"{node.name}.{name}": value
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for name, value in _constants(node.body, {}).items()
    }
    return {**known, **inside}


def _constants(body: list[ast.stmt], known: Mapping[str, Value]) -> dict[str, Value]:
    """The names in a body that are set to constants."""
    found = dict(known)
    for node in body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        value = _value(node.value, found) if isinstance(node, ast.Assign | ast.AnnAssign) and node.value else None
        for target in targets:
            if isinstance(target, ast.Name):
                found.pop(target.id, None)
                if value is not None:
                    found[target.id] = value
    return found


def _value(node: ast.expr, known: Mapping[str, Value]) -> Value | None:
    """The value of an expression of constants; None for any other."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _value(node.operand, known)
        return -number if isinstance(number, int) else None
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute):  # HookEventType.BEFORE_TOOL, and its .value
        if node.attr == "value":
            return _value(node.value, known)
        if isinstance(node.value, ast.Name) and f"{node.value.id}.{node.attr}" in known:
            return known[f"{node.value.id}.{node.attr}"]
        return node.attr.lower() if _last_name(node.value) == _EVENTS else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _value(node.left, known), _value(node.right, known)
        if isinstance(left, str) and isinstance(right, str):
            return left + right
        return left + right if isinstance(left, int) and isinstance(right, int) else None
    if isinstance(node, ast.JoinedStr):
        return _formatted(node, known)
    if isinstance(node, ast.List | ast.Tuple):
        items = [_value(item, known) for item in node.elts]
        return tuple(item for item in items if isinstance(item, str)) if None not in items else None
    return None


def _formatted(node: ast.JoinedStr, known: Mapping[str, Value]) -> str | None:
    """An f-string of constants as text; None for any other."""
    found = []
    for part in node.values:
        plain = isinstance(part, ast.FormattedValue) and part.conversion == -1 and part.format_spec is None
        value = _value(part.value if isinstance(part, ast.FormattedValue) and plain else part, known)
        if not isinstance(value, str | int):
            return None
        found.append(str(value))
    return "".join(found)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _last_name(node.value)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
