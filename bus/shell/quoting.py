"""Which variables of a command its shell never fills in, since they stand in single quotes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from bus.shell.parsing import syntax_tree

if TYPE_CHECKING:  # the parser's own type; the parser is loaded by the first command only
    from tree_sitter import Node

_VARIABLE: Final = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)|([A-Za-z_][A-Za-z0-9_]*))")
_SHELL: Final = re.compile(r"(?:.*/)?(?:ba|da|z|k)?sh")
_FILLS_IN: Final = frozenset({"eval", "trap", "envsubst"})
"""What makes a text with variables of their own out of single quotes."""


def literal_variables(command: str, wanted: Callable[[str], bool]) -> tuple[str, ...]:
    """The wanted variables that stay as they are written, each once; none where they are the text of another shell."""
    if "'" not in command or not any(wanted(name) for name in _names(command)):
        return ()
    source = command.encode("utf-8", "surrogatepass")
    tree = syntax_tree(source)
    found: dict[str, None] = {}
    for node in _strings(tree.root_node) if tree is not None else ():
        text = source[node.start_byte : node.end_byte].decode("utf-8", "replace")
        named = [name for name in _names(text) if wanted(name)]
        if named and not _is_filled_in(node, source):
            found |= dict.fromkeys(named)
    return tuple(found)


def _names(text: str) -> list[str]:
    return [match[1] or match[2] for match in _VARIABLE.finditer(text)]


def _strings(root: Node) -> list[Node]:
    """Every text in single quotes, without recursion."""
    found, left = [], [root]
    while left:
        node = left.pop()
        if node.type == "raw_string":
            found.append(node)
        left.extend(reversed(node.children))
    return found


def _is_filled_in(string: Node, source: bytes) -> bool:
    """Whether the words before it hand it to something that reads variables: `sh -c '…'`, `eval '…'`."""
    command = string.parent
    if command is None or command.type != "command":
        return False
    before = [
        source[node.start_byte : node.end_byte].decode("utf-8", "replace")
        for node in command.children
        if node.end_byte <= string.start_byte
    ]
    if before and before[0] in _FILLS_IN:
        return True
    flag = bool(before) and re.fullmatch(r"-\w*c", before[-1]) is not None
    return flag and any(_SHELL.fullmatch(word) for word in before)
