"""Parses a script into a syntax tree within bounded time, and finds the names in the parts that cannot be parsed."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from time import monotonic
from typing import TYPE_CHECKING, Final

from bus.lazy.regex import lazy_regex

if TYPE_CHECKING:  # the parser is loaded by the first command only (30 ms, measured)
    from tree_sitter import Node, Parser, Tree

_PARSE_AT_ONCE: Final = 512
"""Bytes that are parsed without looking at the clock, which costs 30 microseconds."""
PARSE_SECONDS: Final = 0.1
"""Limit for one parse: 64 KiB of ordinary commands take 12 ms, 64 KiB of `a|a|a|…` a minute (measured)."""
_MOST_REGIONS: Final = 64

_WORD: Final = bytes(b"%+:^"[byte & 3] if byte >= 0x80 else byte for byte in range(256))
"""Replaces bytes outside of ASCII by signs that are, to a shell too, part of a word and of no name. The grammar's scanner
crashes on such a byte after a `{`: it reads beyond a table (tree-sitter-bash #337, seen with 0.25.1)."""

_DESCRIPTOR: Final = lazy_regex(rb"(?<![^\s;&|(])\{[A-Za-z_]\w*\}(?=[<>])")
"""`{fd}>file`, which the grammar does not know: bash opens the file and sets fd to its number."""
_ESCAPED_NAME: Final = lazy_regex(rb"(?<!\\)\n[ \t]*\\(?=[\w./])")
"""`\\rm` at the beginning of a line, which the grammar (0.25.1) takes for a word of the line before."""
_FIELDS: Final = lazy_regex(rb"(?<=[\w/])\$(?:IFS(?!\w)|\{IFS\})(?:\$\d)?(?=[\w/~.-])")
"""`rm$IFS-rf`, which the grammar (0.25.1) reads as one word."""
_COPROCESS: Final = lazy_regex(
    rb"(?<![^\s;&|({])coproc\s+(?:[A-Za-z_]\w*\s+)?(?=[({]|(?:while|until|for|if|case|select)\s)"
)
"""`coproc NAME { a; }`: the statement is read without `coproc NAME`, since it only runs in the background."""
_TEST: Final = lazy_regex(rb"(?<![^\s;&|({!])\[(?=\s)|(?<=\s)\](?![^\s;&|)}<>])")
"""`[` and `]` are ordinary words to a shell; the grammar reads `[ -d / ] && rm x` as one division (0.25.1)."""
_CONDITION: Final = lazy_regex(rb"\[\[\s(?:(?!\]\]).)*\]\]", re.DOTALL)
_SIGN: Final = lazy_regex(rb"(?<=\s)[/~*+%-](?=\s)")
"""An operand of one sign within `[[ … ]]`, which the grammar takes for an operator."""
_EXTENDED: Final = lazy_regex(
    rb"(?<=[^\s$;&|(){}<>=])[@!+?*]\([^()\s;&<>$`]*\)"
    rb"|(?<=\s)(?:[@+?*]|!(?=\([^\s()]*(?:\||\)[\w.*])))\([^()\s;&<>$`]*\)"
)
"""`!(a|b)`, `!(a).md` and `*.@(js|ts)`: patterns of file names."""
_OPERATORS: Final = lazy_regex(rb";;&|;&|<>|(?<=\s)<<<")
_PLAIN_OPERATORS: Final = {b";;&": b";; ", b";&": b";;", b"<>": b" >", b"<<<": b"  <"}
"""A `<<<` behind another redirection is read as `<`; `is_here_string` tells the two apart."""
_UNSEPARATED: Final = lazy_regex(
    rb"(?<![^\s;&|({])(?:for|select)\s+\w+\s+(?=do\b)|\)\s(?=(?:then|do|else|elif|fi|done|esac)\b)"
)
"""`for x do` and `if (a) then`: the grammar wants a `;` there."""
_OFFSET: Final = lazy_regex(rb"(\$\{\w+:)\$(?=\w)")
"""`${x:$i:1}`."""
_TO_NOWHERE: Final = lazy_regex(rb"(?<=\s)(?:[12&]?>>?\s?/dev/null|2>&1)(?=\s*(?:&&|\|\||;|\n|$))")
"""`x=$(a) 2>/dev/null && b`, which the grammar takes for one command."""
_HEREDOC_LIST: Final = lazy_regex(rb"(<<-?\s*\\?['\"]?\w+['\"]?[^\n;<]*); ")
"""`cat <<EOF > x; b`: the grammar reads `&&` there but not `;`."""
_FIRST_INPUT: Final = lazy_regex(rb"(?<=\s)0(?=<<<)")
_STATEMENTS: Final = frozenset(
    {
        "program",
        "list",
        "pipeline",
        "subshell",
        "compound_statement",
        "do_group",
        "if_statement",
        "elif_clause",
        "else_clause",
        "while_statement",
        "for_statement",
        "case_item",
        "ERROR",
        "command_substitution",
        "process_substitution",
    }
)


def new_parser() -> Parser:
    """A parser of Bash. Threads must not share one."""
    return _parsers()()


@lru_cache(maxsize=1)
def _parsers() -> Callable[[], Parser]:
    import tree_sitter  # see TYPE_CHECKING above
    import tree_sitter_bash

    return partial(tree_sitter.Parser, tree_sitter.Language(tree_sitter_bash.language()))


def syntax_tree(source: bytes, seconds: float = PARSE_SECONDS) -> Tree | None:
    """The syntax tree, or None where parsing takes too long: on long broken input its time grows with the square.

    Take a node's text from `source`, by its places. The text that the node itself has differs where `source` is not ASCII,
    and where the grammar cannot read what bash can.
    """
    plain = _plain(source.translate(_WORD))
    tree = _parsed(plain, seconds)
    if tree is None or not tree.root_node.has_error:
        return tree
    plainer = _plainer(plain)
    if plainer == plain:
        return tree
    other = _parsed(plainer, seconds)
    return other if other is not None and not other.root_node.has_error else tree


def _plain(source: bytes) -> bytes:
    """`source` with what the grammar misreads replaced by words of the same length."""
    if b"}>" in source or b"}<" in source:
        source = _DESCRIPTOR.sub(lambda match: b" " * len(match[0]), source)
    if b"\n" in source and b"\\" in source:
        source = _ESCAPED_NAME.sub(lambda match: match[0][:-1] + b" ", source)
    if b"IFS" in source:
        source = _FIELDS.sub(lambda match: b" " * len(match[0]), source)
    if b"0<<<" in source:
        source = _FIRST_INPUT.sub(b" ", source)
    if b"coproc" in source:
        source = _COPROCESS.sub(lambda match: b" " * len(match[0]), source)
    if b"[" in source:
        source = _TEST.sub(b"_", source)
        if b"[[" in source:
            source = _CONDITION.sub(lambda match: _SIGN.sub(b"_", match[0]), source)
    return source


_JOINED_WORD: Final = lazy_regex(r"(?<=[^\s\\])\\\n(?=[^\s#])")
_NOTHING: Final = lazy_regex(r"(?<=\w)`(?::|true)`(?=\w)")
"""A substitution within a word that prints nothing: "r`:`m". The grammar would read two words."""
_SHORT_LOOP: Final = lazy_regex(
    r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|\bfor(?:each)?\s+(\w+)\s+\(([^()]*)\)\s*(?:\{([^{}]*)\}|([^\n;{}]+))""", re.DOTALL
)
"""A short loop of zsh; or a quoted part, which is skipped, because a script in it is read on its own."""


def as_bash(text: str) -> str:
    """A script as the grammar needs it: words that go on in the next line are joined, short loops of zsh are those of bash."""
    if "\\\n" in text:
        text = _JOINED_WORD.sub("", text)
    if " (" in text and "for" in text:
        text = _SHORT_LOOP.sub(_long_loop, text)
    if "`:`" in text or "`true`" in text:
        text = _NOTHING.sub("", text)
    return text


def _long_loop(match: re.Match[str]) -> str:
    name, values, group, command = match.groups()
    return f"for {name} in {values}; do {group or command}; done" if name else match[0]


def _plainer(source: bytes) -> bytes:
    """`source`, which has an error, with rarer forms that the grammar misreads replaced by words of the same length."""
    source = _EXTENDED.sub(_masked, _OPERATORS.sub(lambda match: _PLAIN_OPERATORS[match[0]], source))
    source = _UNSEPARATED.sub(lambda match: match[0][:-1] + b";", source)
    source = _HEREDOC_LIST.sub(rb"\1&&", _OFFSET.sub(rb"\1_", source))
    return _TO_NOWHERE.sub(lambda match: b" " * len(match[0]), source)


def is_here_string(source: bytes, start: int) -> bool:
    """Whether the `<` at `start` in the text of a syntax tree is the end of a `<<<`."""
    return start >= 2 and source[start - 2 : start + 1] == b"<<<"


def _masked(match: re.Match[bytes]) -> bytes:
    return b"_" * len(match[0])


def _parsed(source: bytes, seconds: float) -> Tree | None:
    parser = new_parser()  # one for each text
    if len(source) <= _PARSE_AT_ONCE:
        return parser.parse(source)
    deadline = monotonic() + seconds
    try:
        return parser.parse(
            lambda place, _point: source[place : place + 16384],
            progress_callback=lambda _place, _error: monotonic() > deadline,
        )
    except ValueError:  # what the parser raises when it is stopped
        return None


def unread_regions(root: Node) -> list[tuple[int, int]] | None:
    """Start and end of each statement that the grammar could not read; None where there are very many."""
    regions: dict[tuple[int, int], None] = {}
    left = [root]
    while left:
        node = left.pop()
        for child in node.children:
            if child.is_error or child.is_missing:
                # Within a statement an error may have changed what its other parts mean.
                whole = child if child.is_error and node.type in _STATEMENTS else node
                regions[whole.start_byte, whole.end_byte] = None
                if len(regions) > _MOST_REGIONS:
                    return None
            elif child.has_error:
                left.append(child)
    return list(regions)


_QUOTES: Final = str.maketrans("", "", "'\"\\")
_SEPARATORS: Final = str.maketrans(dict.fromkeys("'\"\\;&|()<>{}[]`$,=!@", " "))
_LINE_JOIN: Final = lazy_regex(r"\\\r?\n")
_ONE_LETTER: Final = lazy_regex(r"(?:^|[\n;|&]|\b(?:do|then|else|sudo)\s)\s*([A-Za-z])\s")
"""A name of one letter (`k`, for kubectl) where a command starts; elsewhere it may be a variable of another language."""
_MOST_LETTERS: Final = 65_536
"""In a longer text any letter counts as a name."""
_LONGEST: Final = 64
_OPENING: Final = lazy_regex(rb"\s*(?:foreach|select|repeat|while|until|if|case|switch|function|begin)\b")
"""How a loop, condition or function begins, in any shell: where it cannot be read, neither can what it holds."""
_BESIDE: Final = 4096
_WORDS_BEFORE: Final = lazy_regex(rb"[^;&|\n(){}`]*\Z")
_WORDS: Final = lazy_regex(rb"[^;&|\n(){}`]*")


def raw_names(text: str) -> frozenset[str]:
    """Every word of `text` that may name a program, lower-cased and without its directory; quoted or not.

    `r''m` and `\\rm` are read as a shell would read them, and `"cd;rm"` gives `cd` and `rm`. A name of one letter counts only
    where a command starts. Takes time linear in the text.
    """
    text = _LINE_JOIN.sub("", text)
    words = {*text.translate(_SEPARATORS).split(), *_unquoted_words(text)}
    names = (word.rstrip("/").rpartition("/")[2].lower().removesuffix(".exe") for word in words)
    found = frozenset(name for name in names if name and len(name) <= _LONGEST)
    if len(text) > _MOST_LETTERS or not any(len(name) == 1 for name in found):
        return found
    starts = {name.lower() for name in _ONE_LETTER.findall(text)}
    return frozenset(name for name in found if len(name) > 1 or name in starts)


def without_quotes(text: str) -> str:
    """The text without any quote or backslash: `fle""ethook` is `fleethook`, also where the line cannot be read."""
    return text.translate(_QUOTES) if "'" in text or '"' in text or "\\" in text else text


def _unquoted_words(text: str) -> list[str]:
    plain = without_quotes(text)
    return [] if plain == text else plain.translate(_SEPARATORS).split()


def unread_names(root: Node, source: bytes) -> frozenset[str]:
    """The raw names in what could not be parsed, and in the words beside it, whose meaning it may have changed.

    Behind an unread loop or condition, and where no part is known, the names of the whole text count.
    """
    regions = unread_regions(root) or [(0, len(source))]
    if any(_OPENING.match(source, start, end) for start, end in regions):
        regions = [(0, len(source))]
    found: set[str] = set()
    for start, end in regions:
        before, behind = _WORDS_BEFORE.search(source[max(0, start - _BESIDE) : start]), _WORDS.match(source, end)
        first, last = start - len(before[0] if before else b""), behind.end() if behind else end
        found |= raw_names(source[first:last].decode("utf-8", "replace"))
    return frozenset(found)
