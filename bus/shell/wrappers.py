"""Which programs run other programs, and where in their arguments those stand: sudo, env, xargs, find, bash -c, ssh …"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from bus.shell.words import UNKNOWN, Output


class Arg(NamedTuple):
    """One argument as the program gets it, and the programs whose output is part of it."""

    text: str
    sources: tuple[str, ...] = ()


class Inner(NamedTuple):
    """A command inside a command: its arguments, or a script's text; `sources` are the programs that wrote the script."""

    argv: tuple[Arg, ...] = ()
    script: str | None = None
    sources: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    """What `$0`, `$1` … are in the script."""
    remote: bool = False
    """It runs on another machine, in the home directory there."""


SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "rbash", "csh", "tcsh"})
_INTERPRETER: Final = re.compile(r"(?:python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|osascript|pwsh)[\d.]*")
_RUN_CODE: Final = frozenset({"eval", "source", "xargs", "parallel", "su", "ssh"})
_CODE_OPTIONS: Final = frozenset({"-c", "-e", "-r", "-p", "-E", "--eval", "--print", "--run"})
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=")


class _Wrapper(NamedTuple):
    values: frozenset[str] = frozenset()
    """Options that take the next argument."""
    operands: int = 0
    """Arguments of its own before the command."""
    silent: frozenset[str] = frozenset()
    """Options with which it runs nothing."""


def _wrapper(values: str = "", operands: int = 0, silent: str = "") -> _Wrapper:
    return _Wrapper(frozenset(values.split()), operands, frozenset(silent.split()))


_PLAIN: Final = _wrapper()
_SUDO: Final = _wrapper(
    "-u -g -h -p -C -r -t -T -U -D -R --user --group --host --prompt --close-from --role --type --chdir --chroot",
    silent="-l -v -k -K --list --validate",
)
_WRAPPERS: Final[dict[str, _Wrapper]] = {
    "sudo": _SUDO,
    "doas": _wrapper("-u -C"),
    "env": _wrapper("-u -C --unset --chdir"),
    "command": _wrapper(silent="-v -V"),
    "exec": _wrapper("-a"),
    "nice": _wrapper("-n --adjustment"),
    "ionice": _wrapper("-c -n --class --classdata", silent="-p"),
    "time": _wrapper("-f -o --format --output"),
    "timeout": _wrapper("-k -s --kill-after --signal", 1),
    "gtimeout": _wrapper("-k -s --kill-after --signal", 1),
    "stdbuf": _wrapper("-i -o -e --input --output --error"),
    "taskset": _wrapper(operands=1, silent="-p"),
    "chrt": _wrapper(operands=1, silent="-p"),
    "strace": _wrapper("-o -e -p -s -u -E -I -a -O -S -P -X"),
    "chroot": _wrapper(operands=1),
    "nsenter": _wrapper("-t -S -G --target --setuid --setgid"),
    "unshare": _wrapper("-S -G -R -w --setuid --setgid --root --wd"),
    "caffeinate": _wrapper("-t -w"),
    "runuser": _wrapper("-u -g -G --user --group"),
    "systemd-run": _wrapper("-p -u -E -M -H --unit --property --setenv --slice"),
    "xvfb-run": _wrapper("-n -s -e -f -p -w --server-args --server-num"),
    **dict.fromkeys(["nohup", "setsid", "builtin", "busybox", "toybox", "coproc", "unbuffer", "noglob"], _PLAIN),
    # Words of the shell itself, where the grammar took them for a program (`! while a; do b; done`).
    **dict.fromkeys(["!", "{", "if", "then", "elif", "else", "while", "until", "do"], _PLAIN),
}
_XARGS_VALUES: Final = frozenset(
    [
        "-I", "-J", "-R", "-S", "-n", "-P", "-L", "-s", "-d", "-E", "-a", "--replace", "--max-args", "--max-procs",
        "--max-lines", "--max-chars", "--delimiter", "--arg-file",
    ]
)  # fmt: skip
_SSH_VALUES: Final = frozenset(
    [
        "-b", "-c", "-D", "-E", "-e", "-F", "-I", "-i", "-J", "-L", "-l", "-m", "-O", "-o", "-p", "-Q", "-R", "-S",
        "-W", "-w",
    ]
)  # fmt: skip
_SHELL_VALUES: Final = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})


def runs_code(program: str) -> bool:
    """Whether a program may run what it reads as code: a shell, another interpreter, `eval`, `source`, `xargs`."""
    return program in SHELLS or program in _RUN_CODE or _INTERPRETER.fullmatch(program) is not None


def inner_calls(program: str, args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """The commands and scripts that `program` with `args` runs, reading `stdin`; nothing for an ordinary program."""
    if wrapper := _WRAPPERS.get(program):
        yield from _wrapped(program, wrapper, args)
    elif program in SHELLS:
        yield from _shell(args, stdin)
    elif special := _SPECIAL.get(program):
        yield from special(args, stdin)
    elif _INTERPRETER.fullmatch(program):
        yield from _interpreter(args, stdin)


def operand_index(args: Sequence[Arg], values: frozenset[str], start: int = 0) -> int:
    """The index of the first argument that is no option; `values` are the options that take the next argument."""
    place = start
    while place < len(args):
        text = args[place].text
        if text == "--":
            return place + 1
        if not text.startswith("-") or text == "-":
            return place
        place += 2 if text in values else 1
    return place


def _wrapped(program: str, wrapper: _Wrapper, args: Sequence[Arg]) -> Iterator[Inner]:
    start = operand_index(args, wrapper.values)
    options = [arg.text for arg in args[:start]]
    if wrapper.silent.intersection(options):
        return
    if program == "env":
        for place, text in enumerate(options):
            if text in ("-S", "--split-string") or text.startswith(("-S", "--split-string=")):
                split = text.removeprefix("--split-string=").removeprefix("-S").removeprefix("--split-string")
                rest = args[place + 1 :] if not split else args[start:]
                yield _script((*([Arg(split)] if split else []), *rest))
                return
    while start < len(args) and _ASSIGNMENT.match(args[start].text):
        start += 1
    inner = tuple(args[start + wrapper.operands :])
    if inner:
        yield Inner(argv=inner)


def _script(words: Sequence[Arg], *, remote: bool = False) -> Inner:
    """Words that a program joins with blanks and hands to a shell."""
    sources = tuple(source for word in words for source in word.sources)
    return Inner(script=" ".join(word.text for word in words), sources=sources, remote=remote)


def _shell(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    place, from_option, from_stdin = 0, False, False
    while place < len(args):
        text = args[place].text
        if text == "--":
            place += 1
            break
        if text[:1] not in ("-", "+") or len(text) < 2:
            break
        if not text.startswith("--"):
            from_option = from_option or (text[0] == "-" and "c" in text)
            from_stdin = from_stdin or (text[0] == "-" and "s" in text)
        elif text == "--command":
            from_option = True
        place += 2 if text in _SHELL_VALUES or (not text.startswith("--") and text[-1:] in "oO") else 1
    operands = args[place:]
    if from_option:
        if operands:
            script = operands[0]
            yield Inner(script=script.text, sources=script.sources, parameters=tuple(one.text for one in operands[1:]))
    elif from_stdin or not operands or operands[0].text in ("-", "/dev/stdin", "/dev/fd/0"):
        yield Inner(script=stdin.text, sources=stdin.programs, parameters=("", *(one.text for one in operands)))
    elif operands[0].sources:  # bash <(curl …)
        yield Inner(sources=operands[0].sources)


def _interpreter(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """Python and its like: only where their code comes from is known, not what it does."""
    for place, arg in enumerate(args):
        if arg.text in _CODE_OPTIONS:
            yield Inner(sources=tuple(source for one in args[place : place + 2] for source in one.sources))
            return
        if arg.text == "-m":
            return
        if not arg.text.startswith("-") or arg.text == "-":
            yield Inner(sources=stdin.programs if arg.text in ("-", "/dev/stdin") else arg.sources)
            return
    if not args:
        yield Inner(sources=stdin.programs)


def _eval(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    if args:
        yield _script(args)


def _source(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    if args:
        yield Inner(sources=stdin.programs if args[0].text == "/dev/stdin" else args[0].sources)


def _trap(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    if len(args) > 1 and not args[0].text.startswith("-"):
        yield _script(args[:1])


def _xargs(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    replace, start = "", operand_index(args, _XARGS_VALUES)
    for place, arg in enumerate(args[:start]):
        if arg.text in ("-I", "-J", "--replace") and place + 1 < start:
            replace = args[place + 1].text
        elif arg.text.startswith("-I") or arg.text.startswith("--replace="):
            replace = arg.text.removeprefix("--replace=").removeprefix("-I")
        elif arg.text in ("-i", "--replace"):
            replace = "{}"
    texts = stdin.text.split() if stdin.text is not None else [UNKNOWN]
    given = tuple(Arg(text, stdin.programs) for text in texts)
    inner: list[Arg] = []
    for arg in args[start:]:
        if replace and replace in arg.text:
            inner += [Arg(arg.text.replace(replace, one.text), arg.sources + one.sources) for one in given]
        else:
            inner.append(arg)
    if inner:
        yield Inner(argv=tuple(inner) if replace else (*inner, *given))


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


def _find(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    below = [Arg(found_below(root)) for root in find_roots([arg.text for arg in args])]
    place = 0
    while place < len(args):
        if args[place].text in ("-exec", "-execdir", "-ok", "-okdir"):
            inner: list[Arg] = []
            place += 1
            while place < len(args) and args[place].text not in (";", "+"):
                if "{}" in args[place].text:
                    inner += [Arg(args[place].text.replace("{}", one.text)) for one in below]
                else:
                    inner.append(args[place])
                place += 1
            if inner:
                yield Inner(argv=tuple(inner))
        place += 1


def found_below(root: str) -> str:
    """Something that `find` finds below `root`, by a name that nobody knows yet."""
    return f"{root.rstrip('/')}/{UNKNOWN}"


def _ssh(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    host = operand_index(args, _SSH_VALUES)
    rest = args[operand_index(args, _SSH_VALUES, host + 1) :] if host < len(args) else ()
    if rest:
        yield _script(rest, remote=True)


def _su(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    for place, arg in enumerate(args[:-1]):
        if arg.text in ("-c", "--command"):
            yield _script(args[place + 1 : place + 2])
            return
    yield Inner(script=stdin.text, sources=stdin.programs)


def _watch(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    rest = args[operand_index(args, frozenset({"-n", "--interval", "-q", "--equexit"})) :]
    if rest:
        yield _script(rest)


def _flock(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    start = operand_index(args, frozenset({"-w", "-E", "--timeout", "--wait", "--conflict-exit-code"})) + 1
    rest = args[start:]
    if rest and rest[0].text in ("-c", "--command"):
        yield _script(rest[1:2])
    elif rest:
        yield Inner(argv=tuple(rest))


def _parallel(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    start = operand_index(
        args, frozenset({"-j", "-P", "-a", "-n", "-N", "-I", "--jobs", "--arg-file", "-S", "--delay"})
    )
    rest = list(args[start:])
    marks = [place for place, arg in enumerate(rest) if arg.text in (":::", "::::", ":::+")]
    command = rest[: marks[0]] if marks else rest
    texts = [arg.text for arg in rest[marks[0] + 1 :]] if marks else (stdin.text or UNKNOWN).split()
    for given in texts[:16] if command else ():
        line = " ".join(arg.text for arg in command)
        line = line.replace("{}", given) if "{}" in line else f"{line} {given}"
        yield Inner(script=line, sources=() if marks else stdin.programs)


def _git(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    texts = [arg.text for arg in args]
    if "foreach" in texts and "submodule" in texts:
        rest = [arg for arg in args[texts.index("foreach") + 1 :] if arg.text != "--recursive"]
        if rest:
            yield _script(rest)
    elif texts[:2] == ["bisect", "run"] and len(args) > 2:
        yield Inner(argv=tuple(args[2:]))
    elif "rebase" in texts:
        for place, text in enumerate(texts[:-1]):
            if text in ("-x", "--exec"):
                yield _script(args[place + 1 : place + 2])


_SPECIAL: Final[dict[str, Callable[[Sequence[Arg], Output], Iterator[Inner]]]] = {
    "eval": _eval,
    "source": _source,
    ".": _source,
    "trap": _trap,
    "xargs": _xargs,
    "gxargs": _xargs,
    "find": _find,
    "gfind": _find,
    "ssh": _ssh,
    "su": _su,
    "script": _su,
    "watch": _watch,
    "flock": _flock,
    "parallel": _parallel,
    "git": _git,
}
