"""Programs that run a command for each of many arguments: xargs, parallel, find -exec, fd -x."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from shlex import quote
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import Arg, Inner, Options, Unwrap, names, read_options, script_of
from bus.shell.words import UNKNOWN, Output

_MOST: Final = 512
"""Combinations of arguments that are looked at; more of them end the reading of the line."""
_REST: Final = ("parallel",)
_XARGS: Final = names(
    "-I -J -R -S -n -P -L -s -d -E -a --max-args --max-procs --max-chars --delimiter --arg-file --process-slot-var"
)
_XARGS_ATTACHED: Final = names("-i -e -l")
_PARALLEL: Final = names(
    "-j -P -a -n -N -I -S -L -s -d -C -l --jobs --max-procs --arg-file --sshlogin --sshloginfile --delay --colsep"
    " --delimiter --max-args --max-replace-args --timeout --retries --joblog --results --tmpdir --workdir --wd --env"
    " --basefile --bf --load --memfree --nice --tagstring --halt --halt-on-error --block --recstart --recend --shebang"
    " --profile -J --max-lines --xapply-sep --id --semaphorename"
)
_PLACEHOLDER: Final = lazy_regex(r"\{(?:[./]{0,3}|#|%|[+-]?\d+[./]{0,3})\}")
_FD: Final = names(
    "-t -e -E -d -S -c -j -g -o --type --extension --exclude --max-depth --min-depth --size --color --threads --owner"
    " --changed-within --changed-before --search-path --base-directory --max-results --format --exact-depth"
)


def _xargs(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    options = read_options(args, _XARGS, attached=_XARGS_ATTACHED)
    replace = ""
    for name, value in options.items:
        if name in ("-I", "-J"):
            replace = value.text
        elif name in ("-i", "--replace"):
            replace = value.text or "{}"
    text = None if options.has("-a", "--arg-file") else stdin.text
    given = tuple(Arg(one, stdin.programs) for one in _fields(text, options, lines=bool(replace)))
    inner: list[Arg] = []
    for arg in args[options.end :]:
        if replace and replace in arg.text:
            inner += [Arg(arg.text.replace(replace, one.text), arg.sources + one.sources) for one in given]
        else:
            inner.append(arg)
    if inner:
        yield Inner(argv=tuple(inner) if replace else (*inner, *given))


def _fields(text: str | None, options: Options, *, lines: bool) -> list[str]:
    """The arguments that xargs or parallel makes of a text on standard input."""
    if text is None:
        return [UNKNOWN]
    if options.has("-0", "--null") or UNKNOWN in text:
        return re.split(r"[\0\n]" if UNKNOWN not in text else r"\s+", text)
    delimiter = options.value("-d", "--delimiter")
    if delimiter is not None:
        sign = {"\\n": "\n", "\\t": "\t", "\\0": "\n"}.get(delimiter.text, delimiter.text) or "\n"
        return [one.strip("\n") for one in text.split(sign)]
    fields = text.splitlines() if lines else text.split()
    return [one.strip() for one in fields] or [UNKNOWN]


def _parallel(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    options = read_options(args, _PARALLEL)
    rest = list(args[options.end :])
    places = [place for place, arg in enumerate(rest) if arg.text in (":::", "::::", ":::+", "::::+", "--")]
    command = " ".join(arg.text for arg in (rest[: places[0]] if places else rest))
    lists: list[list[str]] = []
    for place, end in zip(places, [*places[1:], len(rest)], strict=False):
        files = rest[place].text.startswith("::::")
        lists.append([UNKNOWN] if files else [arg.text for arg in rest[place + 1 : end]])
    sources = () if lists else stdin.programs
    if len(rest) > 1 and not lists and any(" " in arg.text for arg in rest):
        yield Inner(argv=tuple(rest))  # `sem psql -c 'DROP TABLE x'`, as it is meant
    if not lists:
        lists = [_fields(None if options.has("-a", "--arg-file") else stdin.text, options, lines=True)]
    marker = options.value("-I")
    for count, given in enumerate(product(*(one[: _MOST + 1] for one in lists))):
        if count == _MOST:
            yield Inner(unread=_REST)
            return
        if not command:
            line = " ".join(given)
        else:
            plain = command.replace(marker.text, "{}") if marker is not None and marker.text else command
            line = _filled(plain, [one if UNKNOWN in one else quote(one) for one in given])
        yield Inner(script=line, sources=sources)


def _filled(command: str, given: Sequence[str]) -> str:
    """A command with its arguments in place of `{}`, `{1}` and similar placeholders, or at its end."""

    def value(match: re.Match[str]) -> str:
        digits = match[0].strip("{}./+")
        if digits.isdigit() and 0 < int(digits) <= len(given):
            return given[int(digits) - 1]
        return " ".join(given)

    line = _PLACEHOLDER.sub(value, command)
    return line if line != command else f"{command} {' '.join(given)}"


def find_roots(words: Sequence[str]) -> tuple[str, ...]:
    """Where a `find` with these arguments starts to look."""
    roots: list[str] = []
    started = False
    for word in words:
        if not started and (word in ("-H", "-L", "-P", "-E", "-X", "-d", "-s", "-x") or word.startswith(("-D", "-O"))):
            continue
        if word.startswith("-") or word in ("(", "!", ")"):
            break
        started = True
        roots.append(word)
    return tuple(roots) or (".",)


def found_below(root: str) -> str:
    """The path of something that `find` finds below `root`; its name is UNKNOWN."""
    return f"{root.rstrip('/')}/{UNKNOWN}"


def _find(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    words = [arg.text for arg in args]
    roots = find_roots(words)
    alone = "-maxdepth" in words and words[words.index("-maxdepth") + 1 :][:1] == ["0"]
    below = [Arg(root if alone else found_below(root)) for root in roots]
    place = 0
    while place < len(args):
        if args[place].text in ("-exec", "-execdir", "-ok", "-okdir"):
            inner: list[Arg] = []
            place += 1
            while place < len(args) and args[place].text not in (";", "+"):
                inner += _each(args[place], below)
                place += 1
            if inner:
                yield Inner(argv=tuple(inner))
                if inner[0].text in _REMOVERS and not _chooses(words):
                    yield from (Inner(argv=(Arg("find"), Arg(root), Arg("-delete"))) for root in roots if root in _HERE)
        place += 1


_REMOVERS: Final = names("rm unlink shred /bin/rm srm trash")
_HERE: Final = names(". ./")
_CHOOSING: Final = names(
    "-name -iname -path -ipath -wholename -regex -iregex -empty -mtime -mmin -newer -size -ctime -atime -cmin -amin -user"
    " -perm -inum -samefile -links -group -nouser -xtype -lname -uid"
)
"""The tests by which `find` finds a part of what is there."""


def _chooses(words: Sequence[str]) -> bool:
    """Whether a `find` finds only a part of what is there; all but a few names (`! -name .env`) is no such part."""
    return any(
        word in _CHOOSING and words[place - 1 : place] not in (["!"], ["-not"]) for place, word in enumerate(words)
    )


def _each(arg: Arg, found: Sequence[Arg]) -> list[Arg]:
    if "{}" not in arg.text:
        return [arg]
    return [Arg(arg.text.replace("{}", one.text), arg.sources) for one in found]


def _fd(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    start = next((n for n, arg in enumerate(args) if arg.text in ("-x", "-X", "--exec", "--exec-batch")), len(args))
    below = [Arg(found_below(root)) for root in fd_roots([arg.text for arg in args[:start]])]
    inner: list[Arg] = []
    for arg in args[start + 1 :]:
        if arg.text == ";":
            break
        plain = arg._replace(text=re.sub(r"\{[./]{1,2}\}", "{}", arg.text))
        inner += _each(plain, below)
    if inner:
        placed = any(_PLACEHOLDER.search(arg.text) for arg in args[start + 1 :])
        yield Inner(argv=tuple(inner) if placed else (*inner, *below))


def fd_roots(words: Sequence[str]) -> tuple[str, ...]:
    """Where an `fd` with these arguments starts to look; the first operand is a pattern."""
    args = [Arg(word) for word in words]
    operands: list[str] = []
    roots: list[str] = []
    place = 0
    while place < len(args):
        options = read_options(args, _FD, start=place)
        roots += [value.text for name, value in options.items if name in ("--search-path", "--base-directory")]
        operands += [arg.text for arg in args[options.end : options.end + 1]]
        place = options.end + 1
    return tuple(roots + operands[1:]) or (".",)


def _entr(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    options = read_options(args, frozenset())
    if options.has("-s"):
        yield script_of(args[options.end : options.end + 1])
    elif args[options.end :]:
        yield Inner(argv=tuple(args[options.end :]))


BATCHES: Final[dict[str, Unwrap]] = {
    "xargs": _xargs,
    "gxargs": _xargs,
    "parallel": _parallel,
    "sem": _parallel,
    "rush": _parallel,
    "find": _find,
    "gfind": _find,
    "bfs": _find,
    "fd": _fd,
    "fdfind": _fd,
    "entr": _entr,
}
"""By program."""
