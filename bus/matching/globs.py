"""Path patterns: `**`, `*`, `?` and `[…]` over absolute paths, the home directory, and the project."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final

from bus.errors import PatternError
from bus.lazy.regex import lazy_regex
from bus.matching.own_places import ABOVE, OWN
from bus.matching.paths import Place, within
from bus.matching.regexes import Regex, compile_alternatives, compile_regex

_NO_KEYS: Final[frozenset[str]] = frozenset()
_ANY_CASE: Final = "(?i)"
"""In front of a path pattern that fits in any letter case."""
_SIGN: Final = lazy_regex(r"[*?]")
_FEW: Final = 8
"""At most so many texts are searched one by one, which is faster than an expression."""
_LONG: Final = 200
"""More characters than a path pattern usually has, and few enough that its expression is not too long."""
_PLAIN: Final = lazy_regex(r"[^/*?\[]+")
"""A part of a path pattern without a sign or a slash."""
_PART: Final = lazy_regex(r"[*?]|\[.*")
"""Separates the literal parts of a path pattern, which every fitting path contains."""

PathMatcher = Callable[[str, Place], bool]
"""Whether an absolute path fits, for an event at a place."""

_OWN: Final[dict[str, PathMatcher]] = {
    OWN: lambda path, place: place.own.contain(path),
    ABOVE: lambda path, place: path in place.own.above,
}


@lru_cache(maxsize=4096)
def compile_path_glob(glob: str) -> PathMatcher:
    """A matcher for one path pattern; PatternError for a text that is none.

    `/etc/**` is absolute and fits `/etc` too; `~/.ssh/*` is below the home directory; `*.pem` and `.git` fit that name
    anywhere; `src/**` is below the project. `*` and `?` do not cross a `/`, `**` does. `@fleethook` and
    `@above-fleethook` are Fleethook's own places on this machine, and the folders above them (`own_places`).
    `(?i)**/.claude/**` fits in any letter case; only a pattern that means the same from every place can.
    """
    if glob.startswith(_ANY_CASE):
        folded = _without_case(glob)
        if not folded or not _anywhere(folded):
            raise PatternError(f"path pattern {glob!r}: (?i) needs a name, or a path from / or **/")
        fits_folded = compile_path_glob(folded)
        return lambda path, place: fits_folded(path.lower(), place)
    if not glob or "\0" in glob:
        raise PatternError(f"path pattern {glob!r} is empty or holds a NUL")
    if glob in _OWN:
        return _OWN[glob]
    if glob == "~" or glob.startswith("~/"):
        regex = _regex("~" + glob[1:].rstrip("/"))
        return lambda path, place: within(path, place.home) and _fits(regex, f"~{_below(path, place.home)}")
    if anywhere := _anywhere(glob):
        regex = _compiled(anywhere, glob)
        return lambda path, _place: _fits(regex, path)
    regex = _regex("/" + glob.removeprefix("./").rstrip("/"))
    return lambda path, place: within(path, place.project) and _fits(regex, _below(path, place.project))


def compile_path_globs(globs: Iterable[str]) -> PathMatcher:
    """A matcher for any of several path patterns; PatternError names the wrong one.

    Most patterns contain the name of a folder or file. A path is only compared with patterns whose name it contains.
    """
    globs = tuple(globs)
    if folded := _any_case(globs):
        as_it_is, lowered = compile_path_globs(map(_without_case, globs)), compile_path_globs(folded)
        return lambda path, place: as_it_is(path, place) or ((low := path.lower()) != path and lowered(low, place))
    by_name = _by_name(globs)
    nameless = _together(by_name.pop("", ()))
    named = {name: _together(some) for name, some in by_name.items()}
    names = frozenset(named)
    if not names:
        return nameless

    def fits(path: str, place: Place) -> bool:
        for name in names.intersection(_names_in(path)):
            if named[name](path, place):
                return True
        return nameless(path, place)

    return fits


class PathIndex:
    """Sets of path patterns, each with a key. Finds the sets with a pattern that fits a path."""

    def __init__(self, sets: Mapping[str, Iterable[str]]) -> None:
        """PatternError names the pattern that is wrong."""
        folded = {key: lowered for key, globs in sets.items() if (lowered := _any_case(globs))}
        self._folded = PathIndex(folded) if folded else None
        """The patterns for any letter case, for paths with capital letters."""
        sets = {key: tuple(map(_without_case, globs)) for key, globs in sets.items()}
        self._exact: dict[str, frozenset[str]] = {}
        """The keys of the sets that have a path as an exact pattern, by that path (absolute or below `~`)."""
        nameless: dict[str, frozenset[str]] = {}
        patterns: dict[str, dict[tuple[str, ...], frozenset[str]]] = {}
        for key, globs in sets.items():
            one = frozenset([key])
            for name, some in _by_name(globs).items():
                others = []
                for glob in some:
                    if (exact := _exact_path(glob)) is not None:
                        self._exact[exact] = self._exact.get(exact, frozenset()) | one
                    elif name:
                        others.append(glob)
                    else:  # every path is compared with it, so all sets share it
                        nameless[glob] = nameless.get(glob, frozenset()) | one
                if others:
                    known = patterns.setdefault(name, {})
                    known[tuple(others)] = known.get(tuple(others), frozenset()) | one
        self._own, self._above = nameless.pop(OWN, None), nameless.pop(ABOVE, None)
        together: dict[tuple[str, frozenset[str]], list[str]] = {}
        for glob, keys in nameless.items():
            together.setdefault((_longest_text(glob), keys), []).append(glob)
        self._nameless = tuple((text, _together(globs), keys) for (text, keys), globs in together.items())
        """Patterns without a name: a text that fitting paths contain, the matcher, and the keys of its sets."""
        self._fits_nameless = _together(nameless) if len(self._nameless) > _FEW else None
        """All of them together, where they are too many to be looked at one by one for each path."""
        self._by_name = {
            name: tuple((_together(globs), keys) for globs, keys in each.items()) for name, each in patterns.items()
        }
        self._names = frozenset(self._by_name)

    def find(self, path: str, place: Place) -> set[str]:
        """The keys of the sets with a pattern that fits an absolute path, for an event at a place."""
        found: set[str] = set()
        own, exact, by_name = place.own, self._exact, self._by_name
        if path in exact:
            found |= exact[path]
        if path.startswith(place.home) and within(path, place.home):
            found |= exact.get(f"~{_below(path, place.home)}", _NO_KEYS)
        for name in self._names.intersection(_names_in(path)):
            for matches, keys in by_name[name]:
                if not keys <= found and matches(path, place):
                    found |= keys
        if self._fits_nameless is None or self._fits_nameless(path, place):
            for text, matches, keys in self._nameless:
                if text in path and matches(path, place):
                    found |= keys
        if self._own and own.contain(path):
            found |= self._own
        if self._above and path in own.above:
            found |= self._above
        if self._folded and (low := path.lower()) != path:
            found |= self._folded.find(low, place)
        return found


def _any_case(globs: Iterable[str]) -> tuple[str, ...]:
    """The patterns for any letter case, in lower case; PatternError for one that cannot be."""
    found = [glob for glob in globs if glob.startswith(_ANY_CASE)]
    for glob in found:
        compile_path_glob(glob)
    return tuple(map(_without_case, found))


def _without_case(glob: str) -> str:
    return glob.removeprefix(_ANY_CASE).lower() if glob.startswith(_ANY_CASE) else glob


def _depth(glob: str) -> int | None:
    """How many slashes a fitting path has; None for any number."""
    return glob.count("/") if glob.startswith("/") and "**" not in glob and "[" not in glob else None


def _longest_text(glob: str) -> str:
    """A text that every fitting path contains; empty where none is known."""
    return max((part.strip("/") for part in _PART.split(glob)), key=len) if _anywhere(glob) else ""


def _exact_path(glob: str) -> str | None:
    """The one path that a path pattern fits, absolute or below `~`; None for any other pattern."""
    plain = text_of(glob)
    if plain is None:
        return None
    if glob == "~" or glob.startswith("~/"):
        return "~" + plain[1:].rstrip("/")
    return plain if glob.startswith("/") else None


def _by_name(globs: Iterable[str]) -> dict[str, list[str]]:
    """Path patterns by a name that fitting paths contain; PatternError names the wrong one."""
    by_name: dict[str, list[str]] = {}
    for glob in globs:
        if not glob or "\0" in glob or "[" in glob or len(glob) > _LONG or not glob.isascii():  # no other can be wrong
            compile_path_glob(glob)
        by_name.setdefault(_name_in(glob), []).append(glob)
    return by_name


def _names_in(path: str) -> list[str]:
    """The names that a path goes through, and the first one also with its slash."""
    parts = path.split("/")
    if len(parts) > 1:
        parts[0] = f"/{parts[1]}"
    return parts


def _name_in(glob: str) -> str:
    """The longest name that every fitting path has between two slashes; empty where there is none.

    For `/dev/**` it is `/dev`, so that a path below `/home/dev` does not count.
    """
    if glob in _OWN:
        return ""
    plain, bracket, _ = glob.partition("[")
    parts = plain.split("/")
    sure = parts[:-1] if bracket else parts
    name = max((part for part in sure if part not in ("~", ".") and not _SIGN.search(part)), key=len, default="")
    return f"/{name}" if name and glob.startswith("/") and sure[1] == name else name


def _together(globs: Iterable[str]) -> PathMatcher:
    """A matcher that fits if any of the patterns fits. Rules share lists of patterns, and so their matchers."""
    return _compiled_together(tuple(globs))


@lru_cache(maxsize=4096)
def _compiled_together(globs: tuple[str, ...]) -> PathMatcher:
    """As `_together`; patterns of one kind are searched together."""
    own: list[PathMatcher] = []
    exact: set[str] = set()
    by_kind: dict[str, list[str]] = {"anywhere": [], "home": [], "project": []}
    texts: list[str] = []
    depths: set[int | None] = set()
    for glob in globs:
        if glob in _OWN:
            own.append(_OWN[glob])
        elif (path := _exact_path(glob)) is not None:
            exact.add(path)
        elif glob.startswith("~/"):
            by_kind["home"].append(_expression("~" + glob[1:].rstrip("/")))
        elif anywhere := _anywhere(glob):
            by_kind["anywhere"].append(anywhere)
            texts.append(_longest_text(glob))
            depths.add(_depth(glob))
        else:
            by_kind["project"].append(_expression("/" + glob.removeprefix("./").rstrip("/")))
    anywheres, homes, projects = (compile_alternatives(some) for some in by_kind.values())
    asks_for_home = bool(homes) or any(path.startswith("~") for path in exact)
    any_depth = None in depths
    if len(texts) > _FEW:
        texts = [""]

    def fits(path: str, place: Place) -> bool:
        if path in exact:
            return True
        if (
            anywheres
            and (any_depth or path.count("/") in depths)
            and _holds(path, texts)
            and _any_fits(anywheres, path)
        ):
            return True
        if asks_for_home and within(path, place.home):
            below = f"~{_below(path, place.home)}"
            if below in exact or _any_fits(homes, below):
                return True
        if projects and within(path, place.project) and _any_fits(projects, _below(path, place.project)):
            return True
        return bool(own) and _any_matches(own, path, place)

    if exact or any(by_kind.values()):
        return fits
    return own[0] if len(own) == 1 else fits if own else _fits_nothing


def _holds(path: str, texts: Iterable[str]) -> bool:
    for text in texts:  # noqa: SIM110  (as in `_any_fits`)
        if text in path:
            return True
    return False


def _any_matches(matchers: Iterable[PathMatcher], path: str, place: Place) -> bool:
    for matches in matchers:  # noqa: SIM110  (as in `_any_fits`)
        if matches(path, place):
            return True
    return False


def _fits_nothing(_path: str, _place: Place) -> bool:
    return False


def _below(path: str, directory: str) -> str:
    """The rest of a path behind a directory that contains it, from the `/` on."""
    return path[len(directory.rstrip("/")) :]


@lru_cache(maxsize=4096)
def compile_text_glob(glob: str) -> Callable[[str], bool]:
    """A matcher for one argument or program name: `*` is any text, `/` included; the whole text has to fit."""
    plain = text_of(glob)
    if plain is not None:
        return lambda text: text == plain
    if glob.endswith("?*") and text_of(glob[:-2]) == glob[:-2]:
        return lambda text: len(text) > len(glob) - 2 and text.startswith(glob[:-2])
    if not any(sign in glob for sign in "?["):  # most are `name*` or `*name*`, and this costs a tenth
        return _starred(glob.split("*"))
    regex = _regex(glob, anything=True)
    return lambda text: _fits(regex, text)


def text_of(glob: str) -> str | None:
    """The one text that a text glob fits (`[*]` is a literal star); None for a pattern."""
    return glob.replace("[*]", "*") if not any(sign in glob.replace("[*]", "") for sign in "*?[") else None


def literal_of(glob: str) -> str:
    """The longest text that every match of a text glob, with a blank on either side, contains; lower-cased, may be empty."""
    return "" if "[" in glob or not glob.isascii() else max(re.split(r"[*?]", f" {glob.lower()} "), key=len)


def _starred(parts: list[str]) -> Callable[[str], bool]:
    """A matcher: whether a text consists of these parts in their order, with any text between them."""
    first, *middle, last = parts
    if not last and not any(middle):
        return lambda text: text.startswith(first)

    def fits(text: str) -> bool:
        place, end = len(first), len(text) - len(last)
        if end < place or not text.startswith(first) or not text.endswith(last):
            return False
        for part in middle:
            place = text.find(part, place, end)
            if place < 0:
                return False
            place += len(part)
        return True

    return fits


def _fits(regex: Regex, text: str) -> bool:
    return regex.fullmatch(text) is not None


def _any_fits(regexes: Iterable[Regex], text: str) -> bool:
    for regex in regexes:  # noqa: SIM110  (a generator for `any` takes three times as long, and this runs most)
        if regex.fullmatch(text) is not None:
            return True
    return False


def _anywhere(glob: str) -> str:
    """The expression for a path pattern that means the same from every place; empty for one that does not."""
    if glob in _OWN or glob == "~" or glob.startswith("~/"):
        return ""
    if glob.startswith("/"):
        return _expression(glob)
    if glob.startswith("**/") or "/" not in glob.rstrip("/"):
        return _expression("/**/" + glob.removeprefix("**/").rstrip("/"))
    return ""


def _regex(glob: str, *, anything: bool = False) -> Regex:
    return _compiled(_expression(glob, anything=anything), glob)


def _compiled(pattern: str, glob: str) -> Regex:
    try:
        return compile_regex(pattern)
    except PatternError:
        raise PatternError(f"{glob!r} is not a pattern", hint="write e.g. /etc/**, ~/.ssh/*, *.pem or src/**") from None


@lru_cache(maxsize=4096)
def _expression(glob: str, *, anything: bool = False) -> str:
    pattern, place = "(?s)", 0
    while place < len(glob):
        if plain := _PLAIN.match(glob, place):  # most of a pattern
            pattern, place = pattern + re.escape(plain[0]), plain.end()
            continue
        rest = glob[place:]
        if rest == "/**" and place:
            pattern, place = pattern + "(?:/.*)?", len(glob)
        elif rest.startswith("/**/"):
            pattern, place = pattern + "/(?:.*/)?", place + 4
        elif rest.startswith("**"):
            pattern, place = pattern + ".*", place + 2
        elif rest[0] == "*":
            pattern, place = pattern + (".*" if anything else "[^/]*"), place + 1
        elif rest[0] == "?":
            pattern, place = pattern + ("." if anything else "[^/]"), place + 1
        elif rest[0] == "[" and (end := rest.find("]", 2)) > 0:
            inside = rest[1:end].replace("\\", "\\\\")
            pattern += f"[^{inside[1:]}]" if inside[0] in "!^" else f"[{inside}]"
            place += end + 1
        else:
            pattern, place = pattern + re.escape(rest[0]), place + 1
    return pattern
