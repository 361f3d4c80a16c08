"""Reads the redirections of a command: targets, standard input, and arguments that the grammar reads as targets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import Arg
from bus.shell.line_state import NOTHING, CommandContext, LineState
from bus.shell.parsing import is_here_string
from bus.shell.words import Output, WordScope, read_text, read_word

if TYPE_CHECKING:  # the parser is loaded by the first command only (30 ms, measured)
    from tree_sitter import Node

_TABS: Final = lazy_regex(r"^\t+", re.MULTILINE)
_EMPTY_HEREDOC: Final = lazy_regex(r"<<-?\s*['\"]?(\w+)['\"]?[^\n]*\n\s*\1\s*")


def read_redirections(
    nodes: list[Node], stdin: Output, scope: WordScope, found: LineState
) -> tuple[CommandContext, list[Arg]]:
    """Returns the targets and the standard input of a command, and arguments that the grammar read as targets."""
    targets: list[tuple[str, str]] = []
    argv: list[Arg] = []
    for node in nodes:
        if node.type == "file_redirect":
            if is_here_string(scope.source, node.start_byte):
                word = read_text(node.named_children[-1], scope)
                stdin = Output(word.texts[0] if word.texts else "", word.sources)
                continue
            operator = next((child.type for child in node.children if not child.is_named), "")
            words = [read_word(child, scope) for child in node.children_by_field_name("destination")]
            for place, word in enumerate(words):
                if place:  # `rm > log -rf /`: the grammar reads on
                    argv += [Arg(text, word.sources) for text in word.texts]
                    continue
                if operator == "<" and word.sources:
                    text = found.files.texts.get(word.texts[0]) if word.texts else None
                    stdin = Output(text, word.sources)
                elif operator == "<" and word.texts == ("/dev/null",):
                    stdin = Output("")
                elif operator == "<":
                    stdin = Output(None, ("cat",))  # as `cat file |` gives it
                targets += [(operator, text) for text in word.texts if not text.isdigit()]
        elif node.type == "herestring_redirect":
            word = read_text(node.named_children[-1], scope)
            stdin = Output(word.texts[0] if word.texts else "", word.sources)
        else:
            stdin, more, further = _heredoc(node, scope, found)
            argv += more
            targets += further
    found.redirected |= bool(targets)
    return CommandContext(stdin=stdin, redirects=tuple(targets)), argv


def _heredoc(node: Node, scope: WordScope, found: LineState) -> tuple[Output, list[Arg], tuple[tuple[str, str], ...]]:
    stdin = NOTHING
    argv: list[Arg] = []
    redirects: list[Node] = []
    if _EMPTY_HEREDOC.fullmatch(scope.text(node)):
        stdin = Output("")
    quoted = False
    for place, child in enumerate(node.children):
        kind = child.type
        if kind == "heredoc_start":
            quoted = any(sign in scope.text(child) for sign in "'\"\\")
        elif kind == "heredoc_body":
            word = (scope.text(child),) if quoted else read_text(child, scope).texts
            if node.children[0].type == "<<-":
                word = tuple(_TABS.sub("", text) for text in word)
            stdin = Output(word[0] if word and word[0].strip() else stdin.text)
        elif kind.endswith("_redirect"):
            redirects.append(child)
        elif node.field_name_for_child(place) == "argument":
            argv += [Arg(text) for text in read_word(child, scope).texts]
    call, more = read_redirections(redirects, stdin, scope, found)
    return call.stdin, argv + more, call.redirects
