"""Where a shell expands `$x` and `$(…)`: not in single quotes; and also in places that the grammar reads as plain text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from bus.lazy.regex import lazy_regex
from bus.shell.parsing import syntax_tree
from bus.shell.words import UNKNOWN, UNSET

if TYPE_CHECKING:  # the parser's own type; the parser is loaded by the first command only
    from tree_sitter import Node

_VARIABLE: Final = lazy_regex(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)|([A-Za-z_][A-Za-z0-9_]*))")
_SHELL: Final = lazy_regex(r"(?:.*/)?(?:ba|da|z|k)?sh")
_FILLS_IN: Final = frozenset({"eval", "trap", "envsubst"})
"""Programs that expand the variables in a text that they get in single quotes."""


_QUOTED: Final = lazy_regex(r"""\\.|"(?:\\.|[^"\\])*"|'[^']*'""", re.DOTALL)
_OWN_HOME: Final = lazy_regex(r"""(["'])~(?=/|\1)""")


def with_parameters(script: str, sources: Sequence[str]) -> str:
    """A script for another shell, with its unknown parts as parameters without a value: they are unknown there again.

    In a text that the programs `sources` have printed, a home directory in quotes was put there by the line's own shell.
    """
    if sources and "~" in script:
        script = _OWN_HOME.sub(lambda match: '"$HOME' if match[1] == '"' else '"$HOME"\'', script)
    if UNKNOWN not in script and UNSET not in script:
        return script
    if "'" in script:
        script = _QUOTED.sub(_opened, script)
    return script.replace(UNKNOWN, "${_}").replace(UNSET, "${__}")


def origins_of_unknown(sources: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The programs that wrote those parameters: what a script has that was printed by one also comes from `printed`."""
    return {"_": (*sources, "printed"), "__": ("printed",)} if sources else {}


def _opened(match: re.Match[str]) -> str:
    """A text in single quotes with its unknown parts outside of these."""
    text = match[0]
    if text[0] != "'":
        return text
    return text.replace(UNKNOWN, f"'\"{UNKNOWN}\"'").replace(UNSET, f"'\"{UNSET}\"'")


def literal_variables(command: str, wanted: Callable[[str], bool]) -> tuple[str, ...]:
    """The wanted variables that no shell expands, each once. A text that is handed to another shell has none."""
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


_EVALUATED: Final = lazy_regex(r"'[^']*?\w\[[^'\]$`]*(?:\$\(([^']*?)\)|`([^'`]*)`)[^'\]]*\][^']*'")
"""A quoted text with a substitution in a subscript."""
_EVALUATES: Final = lazy_regex(
    r"(?:^|[;&|({\s])(?:let|test|read|unset|declare|typeset|local|readonly|export|printf\s+-v)\s|\[\[|\(\(|\[ "
)
"""Commands that evaluate such a text as an arithmetic expression, or as the name of an element."""
_QUOTED_SUBSTITUTION: Final = lazy_regex(r"'[^']*?\$\(([^']*)\)[^']*'")


def evaluated_scripts(text: str) -> list[str]:
    """The substitutions in quoted texts that the line evaluates all the same: `let 'a[$(rm x)]'`, `${x@P}`."""
    found: list[str] = []
    if ("[$(" in text or "[`" in text) and _EVALUATES.search(text):
        found += [match[1] or match[2] for match in _EVALUATED.finditer(text)]
    if "@P}" in text:
        found += _QUOTED_SUBSTITUTION.findall(text)
    return found[:16]


_SUBSTITUTIONS: Final = frozenset({"command_substitution", "process_substitution"})
_LITERAL: Final = frozenset({"raw_string", "ansi_c_string", "comment", "heredoc_start", "heredoc_end"})
_SIGN: Final = lazy_regex(rb"\\.|`((?:\\.|[^`\\])*)`|\$\((?!\()", re.DOTALL)
_SIGN_OR_QUOTE: Final = lazy_regex(rb"'[^']*'|" + _SIGN.pattern, re.DOTALL)
_IN_BACKTICKS: Final = lazy_regex(rb"\\([$`\\])")
_BRACKET: Final = lazy_regex(rb"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|[()]""", re.DOTALL)


def may_substitute(source: bytes, seen: int) -> bool:
    """Whether a script may have more substitutions than those that were seen."""
    signs = source.count(b"`") // 2 + source.count(b"$(") + source.count(b"<(") + source.count(b">(")
    return signs > seen


def unseen_substitutions(root: Node, source: bytes, seen: set[int]) -> Iterator[Node | str]:
    """The substitutions of a script that do not begin at one of the places `seen`, as nodes or as texts of scripts.

    The grammar has no nodes for a substitution in the pattern of an expansion, and for backticks in a heredoc or a default
    value: those come as texts.
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
    """Where a substitution begins. The grammar's node also has the blanks before it."""
    start = node.start_byte
    while start < node.end_byte and source[start] in b" \t\r\n":
        start += 1
    return start


def without_backticks(text: bytes) -> str:
    """The script between two backticks, without the backslashes that escape backticks, `$` and backslashes in it."""
    return _IN_BACKTICKS.sub(rb"\1", text).decode("utf-8", "replace")


def _scripts(text: bytes, start: int, seen: set[int], *, in_quotes: bool) -> Iterator[str]:
    """The scripts of the substitutions in a text that a shell expands."""
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
    """The place of the bracket that closes the one open at `place`."""
    depth = 1
    for match in _BRACKET.finditer(text, place):
        depth += {b"(": 1, b")": -1}.get(match[0], 0)
        if not depth:
            return match.start()
    return len(text)


def _is_quoted(heredoc: Node, source: bytes) -> bool:
    """Whether a shell expands nothing in the body of this heredoc."""
    start = next((child for child in heredoc.children if child.type == "heredoc_start"), None)
    return start is not None and any(sign in source[start.start_byte : start.end_byte] for sign in b"'\"\\")
