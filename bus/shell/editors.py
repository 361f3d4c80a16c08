"""Programs that run a command on the side: editors, pagers, debuggers, `sed e`, `nc -e`, the variables that name such.

Also clients and tools with commands of their own for it (psql's `\\!`, sqlite3's `.shell`, `cmake -E rm`), and interpreters of
which no functions are listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from bus.shell.inner import Arg, Inner, Unwrap
from bus.shell.scanned_code import other_calls, scanned_calls
from bus.shell.words import Output

_SPAWNED: Final = re.compile(r"(?:^|[;\n{\[]\s*)(?:spawn|exec|system)\s+(?:-\S+\s+)*([^;\n\]}]+)")
_LISP: Final = re.compile(
    r'\((shell-command(?:-to-string)?|async-shell-command|call-process-shell-command|delete-directory|delete-file)\s+"((?:\\.|[^"\\])*)"'
)
_SED: Final = re.compile(r"(?:^|[;\n{])\s*(?:\d+|\$|/[^/]*/)?(?:,(?:\d+|\$|/[^/]*/))?!?\s*e\s+([^;\n}]+)")
_SIDE: Final = re.compile(
    r"^:?(?:silent!?\s+)?(?:!|r(?:ead)?\s*!|w(?:rite)?\s*!|call\s+system\(|exe(?:cute)?\s+['\"]!)\s*(.+)"
)
_VIM_DELETE: Final = re.compile(r"""\bdelete\(\s*['"]([^'"]+)['"](?:\s*,\s*['"](\w+)['"])?""")
_SHELLS: Final = re.compile(r"(?:\S*/)?(?:ba|z|da|k|c|tc|a)?sh(?:\s.*)?|(?:\S*/)?(?:cmd|powershell)(?:\.exe)?(?:\s.*)?")

_ESCAPED: Final = re.compile(r"(?im)(?:^|;)[ \t]*(?:\.shell|\.system|\\!|system)\s+(.+)$|\bprogram\s+'([^']+)'")
_CMAKE: Final = {
    "rm": ("rm",),
    "remove": ("rm",),
    "remove_directory": ("rm", "-r"),
    "rename": ("mv",),
    "copy": ("cp",),
    "env": ("env",),
    "time": ("time",),
}
_CODE: Final = frozenset({"-e", "-E", "-c", "--eval", "-eval", "--evaluate", "--command", "runner", "-s"})

VARIABLES: Final = frozenset(
    [
        "EDITOR",
        "VISUAL",
        "PAGER",
        "MANPAGER",
        "BROWSER",
        "GIT_EDITOR",
        "GIT_SEQUENCE_EDITOR",
        "GIT_PAGER",
        "GIT_SSH_COMMAND",
        "GIT_EXTERNAL_DIFF",
        "GIT_ASKPASS",
        "LESSOPEN",
        "PROMPT_COMMAND",
    ]
)
"""Variables whose value is a command that a program runs."""
_FILLED_IN: Final = frozenset({"PS0", "PS1", "PS2", "PS4", "ENV", "BASH_ENV"})
"""Variables whose value a shell fills in as if it were in double quotes."""


def variable_script(name: str, value: str) -> Iterator[Inner]:
    """What the value of a variable makes a program or a shell run."""
    if name in VARIABLES:
        yield from side_script(value)
    elif name in _FILLED_IN and ("$(" in value or "`" in value):
        yield Inner(script=': "{}"'.format(value.replace('"', "")))


def side_script(text: str, sources: tuple[str, ...] = ()) -> Iterator[Inner]:
    """What the value of such a variable or setting runs; a plain program's name is not worth reading."""
    plain = text.strip()
    if " " in plain and not plain.startswith(("ssh ", "sed -i", "less ", "code ", "vim ", "nvim ")):
        yield Inner(script=plain, sources=sources)


def _vim(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    for place, arg in enumerate(args):
        text = arg.text[1:] if arg.text.startswith("+") else ""
        if arg.text in ("-c", "--cmd") and place + 1 < len(args):
            text = args[place + 1].text
        yield from scanned_calls("lua", text) if text.lstrip(":").startswith("lua ") else ()
        for path, flags in _VIM_DELETE.findall(text):
            yield Inner(argv=(Arg("rm"), *((Arg("-r"),) if "r" in flags else ()), Arg(path)))
        if match := _SIDE.match(text):
            yield Inner(script=match[1].rstrip(")'\"") if "system(" in text else match[1], sources=arg.sources)


def _emacs(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    for arg in args:
        for name, text in _LISP.findall(arg.text):
            if name.startswith("delete"):
                yield Inner(argv=(Arg("rm"), *((Arg("-r"),) if name == "delete-directory" else ()), Arg(text)))
            else:
                yield Inner(script=text.replace('\\"', '"'), sources=arg.sources)


def _sed(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    for arg in args:
        if "e " in arg.text:
            for match in _SED.finditer(arg.text):
                yield Inner(script=match[1], sources=arg.sources)


def _expect(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    for text in (*(arg.text for arg in args), stdin.text or ""):
        for match in _SPAWNED.finditer(text):
            yield Inner(script=match[1])


def _gdb(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    for place, arg in enumerate(args[:-1]):
        after = args[place + 1]
        if arg.text in ("-ex", "-iex", "--ex", "-eval-command", "--eval-command", "-o", "-O"):
            word, _, rest = after.text.partition(" ")
            if word in ("shell", "!", "platform") and rest:
                yield Inner(script=rest.removeprefix("shell "), sources=after.sources)
        elif arg.text in ("--args", "-args", "--"):
            yield Inner(argv=tuple(args[place + 1 :]))
            return


def _pager(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    for place, arg in enumerate(args):
        if arg.text.startswith("+!"):
            yield Inner(script=arg.text[2:], sources=arg.sources)
        elif arg.text in ("-P", "--pager") and place + 1 < len(args):
            yield from side_script(args[place + 1].text, args[place + 1].sources)
        elif arg.text.startswith("--pager="):
            yield from side_script(arg.text.removeprefix("--pager="), arg.sources)


def _netcat(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`nc -e /bin/sh host port`: a shell for another machine."""
    for place, arg in enumerate(args[:-1]):
        if arg.text in ("-e", "-c", "--exec", "--sh-exec"):
            yield Inner(script=args[place + 1].text)
            if _SHELLS.fullmatch(args[place + 1].text):
                yield Inner(sources=("nc",))


def _socat(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    remote = any(re.match(r"(?i)(tcp|udp|ssl|openssl)\d?(-\w+)?:", arg.text) for arg in args)
    for arg in args:
        kind, _, text = arg.text.partition(":")
        if kind.lower() in ("exec", "system", "shell"):
            script = text.partition(",")[0].strip("'\"")
            yield Inner(script=script)
            if remote and _SHELLS.fullmatch(script):
                yield Inner(sources=("nc",))


def _database(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """The commands that a database's client hands to a shell."""
    for text in (*(arg.text for arg in args), stdin.text or ""):
        for match in _ESCAPED.finditer(text):
            yield Inner(script=match[1] or match[2])


def _mongosh(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    for text in (*(arg.text for arg in args), stdin.text or ""):
        if "(" in text:
            yield from scanned_calls("mongosh", text)


def _cmake(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    if len(args) > 2 and args[0].text == "-E" and args[1].text in _CMAKE:
        yield Inner(argv=(*map(Arg, _CMAKE[args[1].text]), *args[2:]))


def _other(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """An interpreter whose functions are not known one by one."""
    given = [after for arg, after in pairwise(args) if arg.text in _CODE]
    for text in (*(arg.text for arg in given), stdin.text or ""):
        yield from other_calls(text)


EDITORS: Final[dict[str, Unwrap]] = {
    **dict.fromkeys(["vim", "vi", "nvim", "ex", "view", "gvim", "vimdiff"], _vim),
    **dict.fromkeys(["emacs", "emacsclient"], _emacs),
    **dict.fromkeys(["sed", "gsed"], _sed),
    "expect": _expect,
    **dict.fromkeys(["gdb", "lldb"], _gdb),
    **dict.fromkeys(["man", "less", "more"], _pager),
    **dict.fromkeys(["nc", "ncat", "netcat"], _netcat),
    "socat": _socat,
    **dict.fromkeys(["psql", "mysql", "mariadb", "sqlite3"], _database),
    "mongosh": _mongosh,
    "cmake": _cmake,
    **dict.fromkeys(
        [
            "groovy",
            "kotlin",
            "scala",
            "scala-cli",
            "jshell",
            "erl",
            "ghc",
            "tclsh",
            "guile",
            "racket",
            "sbcl",
            "clojure",
            "clj",
            "bb",
            "swift",
            "mix",
            "rails",
            "go",
        ],
        _other,
    ),
}
"""By program."""
