"""Lists of literals in code of other languages than Python: how they are made and grown, and which items a use takes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from bus.lazy.regex import lazy_regex

_MOST: Final = 64
_SIGNS: Final = (
    "...",
    "=[",
    "= [",
    "=(",
    "= (",
    "qw",
    "%w",
    "+=",
    ".=",
    "<<",
    "each",
    "Each",
    "for ",
    "for(",
    ".map",
    "Array",
    "array(",
)
"""Code that makes a list, or a text that grows, has one of these."""
_MOST_ITEMS: Final = 64
_LITERAL: Final = lazy_regex(r"""'((?:\\.|[^'\\]){0,1024})'|"((?:\\.|[^"\\]){0,1024})\"""")
_WORDS: Final = lazy_regex(
    r"(?:\bqw|%w)\s*(?:\(([^)]{0,1024})\)|\[([^\]]{0,1024})\]|\{([^}]{0,1024})\}|/([^/]{0,1024})/)"
)
_MADE: Final = lazy_regex(
    r"""[$@]?\b([A-Za-z_]\w*)\s*=\s*(?:(?:Array|array)?\s*[\[(]([^\[\]()]{0,2048})[\])]|((?:\bqw|%w)\s*[(\[{/][^;\n]{0,1024}))"""
)
_GROWN: Final = lazy_regex(
    r"""[$@]?\b([A-Za-z_]\w*)(?:\.(?:push|append|concat|unshift)!?\s*\(?|\[\]\s*=|\s*<<|\s*\+=|\s*\.=)\s*([^;\n]{1,1024})"""
    r"""|\b(?:array_)?push\s*\(?\s*[$@]([A-Za-z_]\w*)\s*,\s*([^;\n]{1,1024})"""
)
_JOINED_LISTS: Final = lazy_regex(r"\b([A-Za-z_]\w*)\s*=\s*([A-Za-z_]\w*)(?:\.concat\(|\s*\+\s*)\s*([^;\n]{1,1024})")
_LOOPS: Final = (
    (lazy_regex(r"\bfor\s*\(\s*(?:const|let|var)\s+(\w+)\s+of\s+([\w.]+|\[[^\]]{0,1024}\])"), 2, 1),
    (
        lazy_regex(
            r"([A-Za-z_]\w*|\[[^\[\]]{0,1024}\]|%w\[[^\]]{0,1024}\])\.(?:forEach|map|each|each_with_index)\b\W{0,4}(?:do\s*\|\s*)?(\w+)"
        ),
        1,
        2,
    ),
    (lazy_regex(r"\bforeach\s*\(\s*(\$?\w+|\[[^\]]{0,1024}\])\s+as\s+\$(\w+)"), 1, 2),
    (
        lazy_regex(r"\bfor(?:each)?\s+(?:my\s+)?\$?(\w+)\s+(?:in\s+)?\(?(@?\w+|\[[^\]]{0,1024}\]|['\"(][^()]{0,1024})"),
        2,
        1,
    ),
)
"""Loops over a list: the pattern, the group with the list, and the group with the variable."""
_SPREAD: Final = lazy_regex(r"\[\s*(\w+)\s*,\s*\.\.\.\s*(\w+)\s*\]\s*=\s*\[([^\[\]]{0,1024})\]")
_EACH: Final = lazy_regex(r"\bfor(?:each)?\s*\(?\s*(qw\s*[(\[/][^;\n]{0,1024}|@\w+)\)?\s*;?\s*$")
"""Perl's loop behind a statement; its variable is `$_`."""
_TAKEN: Final = lazy_regex(
    r"""\s*(?:\.(join|slice|shift|drop)\s*\(\s*(?:(['"])(.{0,8}?)\2|(\d*))[^)]{0,16}\)|\[\s*(\d+)\s*(\.\.[^\]]{0,8})?\])"""
)
_JOINED: Final = lazy_regex(r"""\b(?:join|implode)\s*\(?\s*(['"])(.{0,8}?)\1\s*,\s*[@$]([A-Za-z_]\w*)\s*\)?""")


def lists_in(code: str, variables: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """The lists of literals by the names of their variables. Texts that grow (`c += "x"`) are changed in `variables`."""
    found: dict[str, tuple[str, ...]] = {}
    if not any(sign in code for sign in _SIGNS):
        return found  # as in most code on a command line
    for match in islice(_MADE.finditer(code), _MOST):
        found[match[1]] = _items(match[2] if match[2] is not None else match[3])
    for match in islice(_GROWN.finditer(code), _MOST):
        name, given = match[1] or match[3], match[2] or match[4]
        items = _items(given.partition(f"{name}.")[0] if "push" not in given and "<<" not in given else given)
        if name in found:
            found[name] = (*found[name], *items)[:_MOST_ITEMS]
        elif name in variables and items:
            variables[name] += items[0]
    for match in islice(_SPREAD.finditer(code), _MOST):
        items = _items(match[3])
        found[match[1]], found[match[2]] = items[:1], items[1:]
    if each := _EACH.search(code):
        found["_"] = found.get(each[1].lstrip("@"), ()) or _items(each[1])
    for match in islice(_JOINED_LISTS.finditer(code), _MOST):
        if match[2] in found:
            found[match[1]] = (*found[match[2]], *_items(match[3]))[:_MOST_ITEMS]
    for pattern, over, variable in _LOOPS:
        for match in islice(pattern.finditer(code), _MOST):
            listed = match[over]
            items = found.get(listed.strip("$@ "), ()) or _items(listed)
            if items:
                found.setdefault(match[variable], items)
                variables.setdefault(match[variable], items[0])
    return {name: items for name, items in found.items() if items}


def _items(text: str) -> tuple[str, ...]:
    if words := _WORDS.search(text):
        return tuple(next(filter(None, words.groups()), "").split())[:_MOST_ITEMS]
    return tuple(
        [match[1] if match[1] is not None else match[2] for match in islice(_LITERAL.finditer(text), _MOST_ITEMS)]
    )


_JOINED_LITERALS: Final = lazy_regex(
    r"""(?<![.\w])join\s*\(\s*(['"])(.{0,8}?)\1\s*,\s*((?:(?:'[^']{0,512}'|"[^"]{0,512}")\s*,?\s*){1,32})\)"""
)


_JOINED_PATH: Final = lazy_regex(
    r"""\b(?:path|File)\.(?:join|resolve)\(\s*((?:(?:'[^']{0,512}'|"[^"]{0,512}")\s*,?\s*){1,16})\)"""
)


def with_joined_literals(code: str) -> str:
    """`code` with `join(" ", "a", "b")` and `path.join("a", "b")` replaced by the texts that they make."""
    if "join(" in code or "resolve(" in code:
        code = _JOINED_PATH.sub(lambda match: repr("/".join(_items(match[1]))), code)
    return _JOINED_LITERALS.sub(lambda match: repr(match[2].join(_items(match[3]))), code) if "join" in code else code


def with_joins(code: str, lists: Mapping[str, Sequence[str]]) -> str:
    """`code` with `join(" ", @a)` and `implode(" ", $a)` replaced by the text that they make."""

    def text(match: re.Match[str]) -> str:
        items = lists.get(match[3])
        return match[0] if items is None else repr(match[2].join(items))

    return _JOINED.sub(text, code)


def taken(code: str, place: int, items: Sequence[str]) -> tuple[list[str], int]:
    """What a use of a list takes from it (`a[0]`, `a.slice(1)`, `a.join(" ")`), and where the use ends."""
    match = _TAKEN.match(code, place)
    if match is None:
        return list(items), place
    if match[1] == "join":
        return [(match[3] if match[2] else "").join(items)], match.end()
    if match[1] is not None:
        return list(items[int(match[4] or 0) :]), match.end()
    first = int(match[5])
    return list(items[first:] if match[6] else items[first : first + 1]), match.end()
