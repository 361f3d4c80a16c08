"""One word as a shell expands it: quotes removed, variables and braces expanded, unknown parts marked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import islice, product
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias
from weakref import WeakMethod

from bus.lazy.regex import lazy_regex
from bus.shell.budget import Budget
from bus.shell.expansions import OPERATORS, RESERVED, ansi_c, apply_operator

if TYPE_CHECKING:  # the parser's own type; the parser is loaded by the first command only
    from tree_sitter import Node

UNKNOWN: Final = "\x00"
"""In a word: a part that only a running shell knows, such as a command's output or a positional parameter."""
UNSET: Final = "\x01"
"""In a word: a variable that this line never sets. It comes from the environment, or is empty."""

PROJECT: Final = "/.project-root"
"""At the beginning of a word: the root of the project (`git rev-parse --show-toplevel`)."""

CONTAINER_DATA: Final = "/.container-data"
"""Before a path in a container that may hold data: a volume, or any path of a container that goes on running."""

MAYBE_EMPTY: Final = "\x06"
"""In a word, behind UNKNOWN: the output of a command, which may be empty, as `$(cat name.txt)`."""

HIDDEN: Final = frozenset({UNKNOWN, UNSET})
MAX_LENGTH: Final = 64 * 1024
"""Longest text, in characters, that one word may become; a longer one counts as not known."""

_OPEN, _CLOSE, _COMMA = "\x02", "\x03", "\x04"  # unquoted braces, until they are expanded
_GAP = "\x05"  # white space of an unquoted value, at which the word is cut
_TO_BRACES: Final = str.maketrans("{},", _OPEN + _CLOSE + _COMMA)
_FROM_BRACES: Final = str.maketrans(_OPEN + _CLOSE + _COMMA, "{},")
_BLANK: Final = lazy_regex(r"\s+")
_BRACES: Final = lazy_regex(f"([{_OPEN}{_CLOSE}{_COMMA}])")
_MAX_BRACES: Final = 32
"""How deep braces may nest."""
_UNCOUNTED: Final = 1 << 20
"""Far more words than any limit allows; further factors make no difference."""
_KEY: Final = lazy_regex(r"^\[[^\]]*\]=")
"""The index before an element of an array: `([a]=/etc)`."""
_ESCAPE: Final = lazy_regex(r"\\(\n|.)", re.DOTALL)
_QUOTED_ESCAPE: Final = lazy_regex(r'\\([$`"\\\n])')
_PLAIN: Final = frozenset({"", ":?", "?", ":-", "-", ":=", "="})
"""Operators that do not change a variable that is set."""
_SPECIAL: Final = frozenset("@*#?$!-_0123456789")


class Output(NamedTuple):
    """The output of a piece of shell code, where that is known, and the programs that it runs."""

    text: str | None = None
    programs: tuple[str, ...] = ()


class Word(NamedTuple):
    """The words that one word became (none, one or several), and the programs whose output is part of them."""

    texts: tuple[str, ...]
    sources: tuple[str, ...] = ()


class WordScope:
    """What reading a word needs: the source, the values of variables, and how to read `$(…)`."""

    __slots__ = ("_substitute", "budget", "named", "origins", "source", "variables")

    def __init__(
        self,
        source: bytes,
        variables: dict[str, tuple[str, ...]],
        substitute: Callable[[Node], Output],
        budget: Budget,
    ) -> None:
        self.budget = budget
        self.source = source
        self.variables = variables
        """Values by name; several for an array or for the variable of a loop."""
        self.origins: dict[str, tuple[str, ...]] = {}
        """The programs whose output is in the value, by variable."""
        self.named: dict[str, str] = {}
        """The variable that each reference names: `declare -n short=long_name`."""
        self._substitute = WeakMethod(substitute)  # whose object has this scope: a cycle would wait for the collector

    def substitute(self, node: Node) -> Output:
        """The output of a `$(…)`; unknown once its reader is gone."""
        read = self._substitute()
        return Output() if read is None else read(node)

    def text(self, node: Node) -> str:
        """The source of `node`."""
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def clean(text: str) -> str:
    """`text` without the control characters that this package uses as marks; a shell's words hardly ever hold them."""
    return text if text.isprintable() else RESERVED.sub("", text)


def is_hidden(text: str) -> bool:
    """Whether a part of a word is unknown before a shell runs it."""
    return UNKNOWN in text or UNSET in text


def shown(text: str) -> str:
    """`text` for people and for patterns: unknown parts are written `$…`."""
    if UNKNOWN in text or UNSET in text:
        return text.replace(UNKNOWN, "$…").replace(UNSET, "$…").replace(MAYBE_EMPTY, "")
    return text


def read_word(node: Node, scope: WordScope) -> Word:
    """The words that `node` (a command's name or argument, an assigned value) becomes."""
    kind = node.type
    if kind in ("word", "number"):
        text = scope.text(node)
        return Word((unescaped(text),))
    if kind in ("simple_expansion", "expansion"):
        values, sources = _expansion(node, scope)
        return Word(tuple(scope.budget.cut([field for value in values for field in _fields(value, scope)])), sources)
    if kind == "command_substitution":
        output = scope.substitute(node)
        fields = [UNKNOWN] if output.text is None else output.text.split()
        return Word(tuple(scope.budget.cut(fields)), output.programs)
    pieces, sources = _values(node, scope)
    texts = expand_braces(pieces, scope.budget)
    if kind == "concatenation" and any(_GAP in text for text in texts):
        texts = list(scope.budget.cut([field for text in texts for field in text.split(_GAP) if field]))
    return Word(tuple(f"./{text}" for text in texts) if _quoted_tilde(node, scope) else tuple(texts), sources)


def _fields(value: str, scope: WordScope) -> list[str]:
    """The words that an unquoted value becomes."""
    separators = scope.variables.get("IFS")
    if separators is None or not separators[0].strip():
        return value.split()
    return [field for field in re.split(f"[{re.escape(separators[0])}]", value) if field]


def read_text(node: Node, scope: WordScope) -> Word:
    """As `read_word`, without splitting: an assigned value, the text of a here-string or of a heredoc's body."""
    if node.type == "array":
        words = [read_word(child, scope) for child in node.named_children]
        return Word(
            tuple(scope.budget.cut([_KEY.sub("", text, count=1) for word in words for text in word.texts])),
            tuple(source for word in words for source in word.sources),
        )
    if node.type == "heredoc_body":
        return Word(*_between(node, scope, 0, 0))
    values, sources = _values(node, scope)
    return Word(tuple(value.translate(_FROM_BRACES) for value in values), sources)


def expand_braces(texts: Iterable[str], budget: Budget) -> list[str]:
    """Expand the unquoted `{a,b}` in words. Other braces stay, and so does a word that would become too many.

    The number of words is worked out before any is made.
    """
    result: list[str] = []
    for text in texts:
        if _COMMA in text and _OPEN in text:
            groups = _parse_braces(text)
            count = _count(groups) if groups is not None else budget.limits.word + 1
            if count > budget.limits.word:
                budget.stop(f"braces in it become more than {budget.limits.word} words")
            if not budget.take_text(count * len(text)):
                result.append(text.translate(_FROM_BRACES))
            else:
                result.extend(one.translate(_FROM_BRACES) for one in _expanded(groups or []))
        else:
            result.append(text.translate(_FROM_BRACES))
    return list(budget.cut(result))


def bare_words(text: str, budget: Budget) -> list[str]:
    """Roughly the words of a text that the parser could not read: quotes removed, braces expanded, `$x` unset."""
    words: list[str] = []
    for match in re.finditer(r"""(?:\\.|'[^']*'?|"(?:\\.|[^"\\])*"?|[^\s'"\\])+""", text, re.DOTALL):
        word = ""
        for piece in re.findall(r"""\\.|'[^']*'?|"(?:\\.|[^"\\])*"?|[^'"\\]+""", match[0], re.DOTALL):
            if piece[0] == "'":
                word += piece.strip("'")
            elif piece[0] == '"':
                word += _named(_QUOTED_ESCAPE.sub(r"\1", piece.strip('"')))
            else:
                word += _named(_ESCAPE.sub(r"\1", piece)).translate(_TO_BRACES)
        words.extend(expand_braces([word], budget))
    return words


def _named(text: str) -> str:
    text = re.sub(r"\$(?:HOME\b|\{HOME\})", "~", text)
    return re.sub(r"\$(?:\w+|\{[^}]{0,512}\})", UNSET, text)


_Sequence: TypeAlias = "list[str | list[_Sequence]]"
"""A word in parts: a text, or a list of alternatives, each a word in parts itself."""


def _parse_braces(text: str) -> _Sequence | None:
    """The braces of a word as a tree; None where they nest deeper than anybody writes them."""
    levels: list[list[_Sequence]] = [[[]]]  # of each open brace, its alternatives so far; the last one is being read
    for piece in _BRACES.split(text):
        if piece == _OPEN:
            levels.append([[]])
            if len(levels) > _MAX_BRACES:
                return None
        elif piece == _COMMA and len(levels) > 1:
            levels[-1].append([])
        elif piece == _CLOSE and len(levels) > 1:
            alternatives = levels.pop()
            if len(alternatives) > 1:
                levels[-1][-1].append(alternatives)
            else:  # `{}` and `{x}` stay as they are
                levels[-1][-1].extend([_OPEN, *alternatives[0], _CLOSE])
        elif piece:
            levels[-1][-1].append(piece)
    while len(levels) > 1:  # never closed
        last = levels.pop()
        levels[-1][-1].append(_OPEN)
        for number, alternative in enumerate(last):
            levels[-1][-1].extend([*([_COMMA] if number else []), *alternative])
    return levels[0][0]


def _count(sequence: _Sequence) -> int:
    """How many words a sequence becomes."""
    count = 1
    for part in sequence:
        if not isinstance(part, str):
            count *= sum(map(_count, part))
            if count > _UNCOUNTED:
                break
    return count


def _expanded(sequence: _Sequence) -> list[str]:
    words = [""]
    literal: list[str] = []
    for part in sequence:
        if isinstance(part, str):
            literal.append(part)
            continue
        before, literal = "".join(literal), []
        choices = [before + choice for alternative in part for choice in _expanded(alternative)]
        words = [word + choice for word in words for choice in choices]
    last = "".join(literal)
    return [word + last for word in words]


def unescaped(text: str) -> str:
    """An unquoted word without its backslashes. An escaped `~` becomes `./~`: a leading `~` always means a home directory."""
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(lambda match: "" if match[1] == "\n" else match[1], text)
    return f"./{plain}" if plain.startswith("~") and text[0] == "\\" else plain


def _values(node: Node, scope: WordScope) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The values that `node` may have as one piece of a word, and the programs whose output is in them."""
    kind = node.type
    if kind in ("word", "number", "string_content", "variable_name", "extglob_pattern", "regex"):
        text = scope.text(node)
        return ((unescaped(text).translate(_TO_BRACES) if kind == "word" else text),), ()
    if kind == "raw_string":
        return (scope.text(node)[1:-1],), ()
    if kind == "ansi_c_string":
        return (ansi_c(scope.text(node)[2:-1]),), ()
    if kind in ("string", "translated_string"):
        if kind == "translated_string":
            node = node.children[-1]
        closed = node.children[-1].end_byte > node.children[-1].start_byte
        return _between(node, scope, 1, 1 if closed else 0)
    if kind in ("simple_expansion", "expansion"):
        return _expansion(node, scope)
    if kind in ("command_substitution", "process_substitution"):
        output = scope.substitute(node)
        known = output.text is not None
        return ((output.text or "").rstrip("\n") if known else UNKNOWN + MAYBE_EMPTY,), output.programs
    if kind == "concatenation":
        return _joined([_with_gaps(child, scope) for child in node.children], scope)
    if kind == "arithmetic_expansion":
        return (UNKNOWN,), tuple(source for child in node.named_children for source in _values(child, scope)[1])
    if node.child_count and kind != "brace_expression":
        inner = [_values(child, scope) for child in node.named_children]
        return (scope.text(node),), tuple(source for _, sources in inner for source in sources)
    return (scope.text(node).translate(_TO_BRACES),), ()


def _with_gaps(node: Node, scope: WordScope) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """As `_values`, with a gap in place of the blanks in an unquoted expansion: its word is cut there."""
    values, sources = _values(node, scope)
    if node.type in ("simple_expansion", "expansion") and any(map(_BLANK.search, values)):
        return tuple(_BLANK.sub(_GAP, value) for value in values), sources
    return values, sources


def _quoted_tilde(node: Node, scope: WordScope) -> bool:
    """Whether a word begins with a `~` in quotes, which is no home directory."""
    while node.type == "concatenation":
        node = node.children[0]
    return node.type in ("raw_string", "string", "ansi_c_string") and scope.text(node).lstrip("$")[1:2] == "~"


def _joined(
    pieces: list[tuple[tuple[str, ...], tuple[str, ...]]], scope: WordScope
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    sources = tuple(source for _, piece in pieces for source in piece)
    choices = [values or ("",) for values, _ in pieces]
    length = sum(max(map(len, values)) for values in choices)
    if length > (longest := scope.budget.limits.length):  # a literal word is never longer than its line
        scope.budget.stop(f"a word of it has more than {longest} characters")  # `x=$x$x` over and over
        return (UNKNOWN,), sources
    most = scope.budget.limits.word
    count = prod(map(len, choices))
    if count > most:
        scope.budget.stop(f"a word of it becomes more than {most} words")
    if count > 1 and not scope.budget.take_text(min(count, most) * length):
        return (UNKNOWN,), sources
    return tuple("".join(choice) for choice in islice(product(*choices), most)), sources


def _between(node: Node, scope: WordScope, head: int, tail: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The text of a quoted string or heredoc: its literal parts are what is between the expansions in it.

    The parser gives white space before an expansion to the expansion, so gaps are read from the source.
    """
    pieces: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    place, end = node.start_byte + head, node.end_byte - tail

    def literal(until: int) -> None:
        text = scope.source[place:until].decode("utf-8", "replace")
        pieces.append(((_QUOTED_ESCAPE.sub(lambda match: "" if match[1] == "\n" else match[1], text),), ()))

    for child in node.named_children:
        if child.type in ("string_content", "heredoc_content"):
            continue
        start = child.start_byte
        while start < child.end_byte and scope.source[start] in b" \t\r\n":
            start += 1
        literal(start)
        pieces.append(_values(child, scope))
        place = child.end_byte
    literal(end)
    return _joined(pieces, scope)


def _expansion(node: Node, scope: WordScope) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`$x`, `${x}`, `${x:-default}`, `${x[@]}`, `${x%/}`; an operator that is not known makes the value unknown."""
    name, operator = "", ""
    operands: list[Node] = []
    listed = False
    for child in node.children:
        kind = child.type
        if not name and kind in ("variable_name", "special_variable_name"):
            name = scope.text(child)
        elif not name and kind == "subscript":
            name, listed = scope.text(child.named_children[0]), scope.text(child)[-3:] in ("[@]", "[*]")
        elif child.is_named:
            operands.append(child)
        elif kind.strip() not in ("$", "${", "}"):
            operator = operator or kind
    name = scope.named.get(name, name)
    values = scope.variables.get(name)
    sources = scope.origins.get(name, ())
    texts = [_values(one, scope) for one in operands] if operands else []
    if texts and operator in (":-", "-", ":=", "=") and (values is None or (values == ("",) and operator[0] == ":")):
        if operator[-1] == "=":
            scope.variables[name] = texts[0][0]
        return texts[0]
    sources += tuple(source for _, found in texts for source in found)
    if values and (operator == "@" or (operator == ":" and listed)):  # `${x@L}`; of `${x[@]:1:2}` any may be meant
        return tuple(dict.fromkeys(text for value in values for text in (value, value.lower()))), sources
    if operator in ("^", "^^", ",", ",,") and values:
        return tuple(apply_operator(value, operator, ()) or "" for value in values), sources
    if operator in (":+", "+"):
        return (texts[0][0] if texts and values is not None else (UNSET,)), sources
    if operator == "!" and values:
        return scope.variables.get(values[0], (UNKNOWN,)), sources
    if operator in _PLAIN or (operator in OPERATORS and operands):
        if values is None:
            # `${x:?}` stops the shell where x is empty, so a path behind it never starts at `/`.
            return ((UNKNOWN if name[:1] in _SPECIAL or operator in (":?", "?") else UNSET),), sources
        if operator in _PLAIN:
            return values, sources
        patterns = [found[0].translate(_FROM_BRACES) if found else "" for found, _ in texts]
        made = [apply_operator(value, operator, patterns) for value in values]
        return tuple(UNKNOWN if text is None else text for text in made), sources
    return (UNKNOWN,), sources
