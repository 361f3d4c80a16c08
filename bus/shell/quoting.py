"""What a shell fills in and what it does not: variables in single quotes, `$(…)` where the grammar sees a plain text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
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


_SUBSTITUTIONS: Final = frozenset({"command_substitution", "process_substitution"})
_LITERAL: Final = frozenset({"raw_string", "ansi_c_string", "comment", "heredoc_start", "heredoc_end"})
_SIGN: Final = re.compile(rb"\\.|`((?:\\.|[^`\\])*)`|\$\((?!\()", re.DOTALL)
_SIGN_OR_QUOTE: Final = re.compile(rb"'[^']*'|" + _SIGN.pattern, re.DOTALL)
_IN_BACKTICKS: Final = re.compile(rb"\\([$`\\])")
_BRACKET: Final = re.compile(rb"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|[()]""", re.DOTALL)


def may_substitute(source: bytes, seen: int) -> bool:
    """Whether a script may have more substitutions than those that were seen."""
    signs = source.count(b"`") // 2 + source.count(b"$(") + source.count(b"<(") + source.count(b">(")
    return signs > seen


def unseen_substitutions(root: Node, source: bytes, seen: set[int]) -> Iterator[Node | str]:
    """The substitutions of a script that no reader of their place has `seen` (where each begins), as nodes or as scripts.

    The grammar has no nodes for those in the pattern of an expansion, and for backticks in a heredoc or a default value.
    """
    left = [root]
    while left:
        node = left.pop()
        kind = node.type
        if kind in _LITERAL:
            continue
        if kind in _SUBSTITUTIONS and first_sign(node, source) not in seen:
            yield node
        if kind == "heredoc_redirect" and _is_quoted(node, source):
            left.extend(child for child in node.children if child.type != "heredoc_body")
            continue
        left.extend(reversed(node.named_children))
        if kind in ("heredoc_body", "expansion") or not node.child_count:
            text = source[node.start_byte : node.end_byte]
            if b"`" in text or b"$(" in text:
                yield from _scripts(text, node.start_byte, seen, in_quotes=kind not in ("word", "regex"))


def first_sign(node: Node, source: bytes) -> int:
    """Where a substitution begins; the grammar counts blanks before it to it."""
    start = node.start_byte
    while start < node.end_byte and source[start] in b" \t\r\n":
        start += 1
    return start


def without_backticks(text: bytes) -> str:
    """The script between two backticks, in which a backslash guards those of a script within it."""
    return _IN_BACKTICKS.sub(rb"\1", text).decode("utf-8", "replace")


def _scripts(text: bytes, start: int, seen: set[int], *, in_quotes: bool) -> Iterator[str]:
    """The scripts in a text that a shell fills in."""
    place = 0
    signs = _SIGN if in_quotes else _SIGN_OR_QUOTE
    while match := signs.search(text, place):
        place = match.end()
        if match[0][:1] in (b"\\", b"'"):
            continue
        end = _closing(text, place) if match[1] is None else place
        if start + match.start() not in seen:
            seen.add(start + match.start())
            yield without_backticks(match[1]) if match[1] is not None else text[place:end].decode("utf-8", "replace")
        place = end


def _closing(text: bytes, place: int) -> int:
    """Where the bracket closes that is open at `place`."""
    depth = 1
    for match in _BRACKET.finditer(text, place):
        depth += {b"(": 1, b")": -1}.get(match[0], 0)
        if not depth:
            return match.start()
    return len(text)


def _is_quoted(heredoc: Node, source: bytes) -> bool:
    """Whether a heredoc's body stays as it is written."""
    start = next((child for child in heredoc.children if child.type == "heredoc_start"), None)
    return start is not None and any(sign in source[start.start_byte : start.end_byte] for sign in b"'\"\\")
