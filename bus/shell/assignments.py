"""What an assignment does to the variables of a script: `x=1`, `x+=1`, `a=(1 2)`, `export x=1`, `unset x`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.shell.words import Scope, read_text, read_word

if TYPE_CHECKING:  # the parser is loaded by the first command only (30 ms, measured)
    from tree_sitter import Node


def assign(node: Node, scope: Scope) -> tuple[tuple[str, str], ...]:
    """Take over what `x=1`, `export x=1`, `unset x` say; the names and values set."""
    if node.type != "variable_assignment":
        if node.type == "unset_command":
            for child in node.named_children:
                scope.variables.pop(scope.text(child), None)
            return ()
        return tuple(pair for child in node.named_children for pair in _declare(child, scope))
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name is None:
        return ()
    key = scope.text(name.named_children[0] if name.type == "subscript" else name)
    texts, sources = read_text(value, scope) if value is not None else (("",), ())
    scope.origins[key] = sources
    # Emptied or cleared by the line itself is the very case where `rm -rf "$x/"` means `/`.
    texts = texts or ("",)
    if scope.text(node)[len(key) : len(key) + 2] == "+=":
        before = scope.variables.get(key, ("",))
        if value is not None and value.type == "array":
            texts = tuple(old for old in before if old) + texts
        else:  # cut below, where they are too many
            texts = tuple(old + new for old in before[: scope.budget.limits.word // len(texts) + 1] for new in texts)
    elif name.type == "subscript":
        texts = scope.variables.get(key, ()) + texts
    scope.variables[key] = tuple(scope.budget.cut(texts))
    return ((key, texts[0]),)


def _declare(node: Node, scope: Scope) -> tuple[tuple[str, str], ...]:
    """One argument of `export` and its like, also where it is quoted: `export "x=/"`."""
    if node.type == "variable_assignment":
        return assign(node, scope)
    if node.type in ("string", "raw_string", "concatenation"):
        for text in read_word(node, scope).texts[:1]:
            name, equals, value = text.partition("=")
            if equals:
                scope.variables[name] = (value,)
                return ((name, value),)
    return ()
