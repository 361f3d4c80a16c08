"""Programs that run a command on the side: editors, pagers, debuggers, awk, `sed e`, `nc -e`, the variables that name such.

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
    r'\((shell-command(?:-to-string)?|async-shell-command|call-process-shell-command|term|ansi-term|compile|delete-directory|delete-file)\s+"((?:\\.|[^"\\])*)"'
)
_SED: Final = re.compile(r"(?:^|[;\n{])\s*(?:\d+|\$|/[^/]*/)?(?:,(?:\d+|\$|/[^/]*/))?!?\s*e\s+([^;\n}]+)")
_SED_REPLACED: Final = re.compile(r"s([/|,#@!:])(?:\\.|(?!\1).)*\1((?:\\.|(?!\1).)*)\1([a-zA-Z0-9]*)")
_SIDE: Final = re.compile(
    r"^\s*:*(?:sil(?:ent)?!?\s+)?[%.,$\d]*(?:!|r(?:ead)?\s*!|w(?:rite)?\s*!|exe(?:cute)?\s+['\"]!)\s*(.+)"
)
_VIM_DELETE: Final = re.compile(r"""\bdelete\(\s*['"]([^'"]+)['"](?:\s*,\s*['"](\w+)['"])?""")
_VIM_SYSTEM: Final = re.compile(r"""\b(?:system(?:list)?|termopen|jobstart|job_start|term_start)\(\s*(['"])(.*?)\1""")
_VIM_COMMAND: Final = re.compile(r"-[a-zA-Z]*c")
_ED_RUNS: Final = re.compile(r"^\s*(?:[\d,.$%]*[rwWe]\s*)?!(.+)")
_MOST_LINES: Final = 64
_SHELLS: Final = re.compile(r"(?:\S*/)?(?:ba|z|da|k|c|tc|a)?sh(?:\s.*)?|(?:\S*/)?(?:cmd|powershell)(?:\.exe)?(?:\s.*)?")

_ESCAPES: Final = ("\\!", "system", "shell", "program")
"""One of these is in a text that `_ESCAPED` finds something in."""
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
        "GIT_PROXY_COMMAND",
        "LESSOPEN",
        "LESSCLOSE",
        "MANOPT",
        "PROMPT_COMMAND",
    ]
)
"""Variables whose value is a command that a program runs."""
_FILLED_IN: Final = frozenset({"PS0", "PS1", "PS2", "PS4", "ENV", "BASH_ENV"})
"""Variables whose value a shell fills in as if it were in double quotes."""


def variable_script(name: str, value: str) -> Iterator[Inner]:
    """What the value of a variable makes a program or a shell run."""
    if name in VARIABLES:
        yield from side_script(value.removeprefix("|") if name == "LESSOPEN" else value)
    elif name.startswith("GIT_CONFIG_") and "!" in value:
        yield Inner(script=value.partition("!")[2].rstrip("'"))
    elif name in _FILLED_IN and ("$(" in value or "`" in value):
        yield Inner(script=': "{}"'.format(value.replace('"', "")))


def side_script(text: str, sources: tuple[str, ...] = ()) -> Iterator[Inner]:
    """What the value of such a variable or setting runs; a plain program's name is not worth reading."""
    plain = text.strip()
    if " " in plain and not plain.startswith(("ssh ", "sed -i", "less ", "code ", "vim ", "nvim ")):
        yield Inner(script=plain, sources=sources)


def _vim(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    for place, arg in enumerate(args):
        text = arg.text[1:] if arg.text.startswith("+") else ""
        if place and (args[place - 1].text == "--cmd" or _VIM_COMMAND.fullmatch(args[place - 1].text)):
            text = arg.text
        for inner in _vim_runs(text) if text else ():
            yield inner._replace(sources=arg.sources)
    for line in (stdin.text or "").splitlines()[:_MOST_LINES]:
        if "!" in line:
            yield from _vim_runs(line)


def _vim_runs(text: str) -> Iterator[Inner]:
    """What a command line of vim runs and deletes."""
    word, _, rest = text.lstrip(": ").partition(" ")
    if word in ("lua", "luado"):
        yield from scanned_calls("lua", text)
    elif word in ("py", "py3", "python", "python3", "pyx", "pythonx"):
        yield Inner(argv=(Arg("python3"), Arg("-c"), Arg(rest)))
    elif word in ("ruby", "perl"):
        yield Inner(argv=(Arg(word), Arg("-e"), Arg(rest)))
    elif word in ("ter", "term", "terminal"):
        yield Inner(script=rest.removeprefix("++"))
    for path, flags in _VIM_DELETE.findall(text):
        yield Inner(argv=(Arg("rm"), *((Arg("-r"),) if "r" in flags else ()), Arg(path)))
    for _, script in _VIM_SYSTEM.findall(text):
        yield Inner(script=script)
    if match := _SIDE.match(text):
        yield Inner(script=match[1].rstrip("'\"") if "exe" in text[: match.start(1)] else match[1])


def _ed(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """What `ed` is given to do: `!rm x`, `r !rm x`, and `,d` with `w` for a file that is emptied."""
    emptied = False
    for line in (stdin.text or "").splitlines()[:_MOST_LINES]:
        if match := _ED_RUNS.match(line):
            yield Inner(script=match[1])
        emptied = emptied or line.strip() in (",d", "1,$d", "%d", "g/.*/d", "g/./d")
        if emptied and line.strip() in ("w", "wq", "W"):
            files = [arg for arg in args if not arg.text.startswith("-")][:1]
            yield Inner(argv=(Arg("truncate"), Arg("-s"), Arg("0"), *files))


def _emacs(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    for arg in args:
        for name, text in _LISP.findall(arg.text):
            if name.startswith("delete"):
                yield Inner(argv=(Arg("rm"), *((Arg("-r"),) if name == "delete-directory" else ()), Arg(text)))
            else:
                yield Inner(script=text.replace('\\"', '"'), sources=arg.sources)


def _sed(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    for arg in args:
        text = arg.text.removeprefix("--expression=")
        if "e " in text:
            for match in _SED.finditer(text):
                yield Inner(script=match[1], sources=arg.sources)
        if (replaced := _SED_REPLACED.search(text)) and "e" in replaced[3]:
            yield Inner(script=re.sub(r"\\(.)", r"\1", replaced[2]), sources=arg.sources)


def _expect(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    for text in (*(arg.text for arg in args), stdin.text or ""):
        for match in _SPAWNED.finditer(text):
            yield Inner(script=match[1])


def _gdb(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    for place, arg in enumerate(args[:-1]):
        after = args[place + 1]
        if arg.text in ("-ex", "-iex", "--ex", "-eval-command", "--eval-command", "-o", "-O"):
            word, _, rest = (
                after.text.replace("!", "! ", 1).partition(" ") if after.text[:1] == "!" else after.text.partition(" ")
            )
            if word in ("shell", "!", "platform") and rest:
                yield Inner(script=rest.removeprefix("shell "), sources=after.sources)
            elif word in ("python", "py", "script") and rest:
                yield Inner(argv=(Arg("python3"), Arg("-c"), Arg(rest)))
        elif arg.text in ("--args", "-args", "--"):
            yield Inner(argv=tuple(args[place + 1 :]))
            return


def _pager(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    for place, arg in enumerate(args):
        if arg.text.startswith("+!"):
            yield Inner(script=arg.text[2:], sources=arg.sources)
        elif arg.text in ("-P", "--pager", "-H", "--html") and place + 1 < len(args):
            yield from side_script(args[place + 1].text, args[place + 1].sources)
        elif arg.text.startswith(("--pager=", "--html=")):
            yield from side_script(arg.text.partition("=")[2], arg.sources)


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


def _names_any(text: str, names: Sequence[str]) -> bool:
    for name in names:  # noqa: SIM110  (a generator takes three times as long, and this runs for each argument)
        if name in text:
            return True
    return False


def _database(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """The commands that a database's client hands to a shell."""
    for text in (*[arg.text for arg in args], stdin.text or ""):
        if text.isascii() and not _names_any(text.lower(), _ESCAPES):
            continue
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


_SYSTEM: Final = re.compile(r"""(?:system\s*\(\s*|\|\s*getline|\|\s*)?"((?:\\.|[^"\\])*)"\s*(\))?""")
_SYSTEM_VARIABLE: Final = re.compile(r"system\s*\(\s*(\w+)|\|\s*getline|\|\s*(\w+)")


def _awk(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """The texts that an awk program gives `system(…)`, or reads and writes through a pipe."""
    given: list[Arg] = []
    for place, arg in enumerate(args):
        if arg.text == "-v" and place + 1 < len(args):
            given.append(args[place + 1])
        elif arg.text.startswith("-v") or (place and args[place - 1].text == "-v"):
            continue
        elif "system" in arg.text or "|" in arg.text:
            for match in _SYSTEM.finditer(arg.text):
                yield Inner(script=match[1].replace('\\"', '"'), sources=arg.sources)
            named = {name for pair in _SYSTEM_VARIABLE.findall(arg.text) for name in pair}
            for text, sources in given:
                name, _, value = text.partition("=")
                if name in named:
                    yield Inner(script=value, sources=sources)


_SSH_PROGRAM: Final = re.compile(
    r"(?i)(?:-o)?\s*(?:Proxy|Local|KnownHosts|RemoteKnownHosts)Command\s*[=\s]\s*(.+)", re.DOTALL
)


def remote_programs(args: Sequence[Arg]) -> Iterator[Inner]:
    """What `ssh -o ProxyCommand=…` and its like run on this machine."""
    for arg in args:
        if "ommand" in arg.text and (match := _SSH_PROGRAM.match(arg.text)):
            yield Inner(script=match[1], sources=arg.sources)


def _copies(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """`scp` and `sftp`: the program that connects, and `!rm x` typed into sftp."""
    yield from remote_programs(args)
    yield from _named("-S")(args, stdin)
    for line in (stdin.text or "").splitlines()[:_MOST_LINES]:
        if line.startswith("!"):
            yield Inner(script=line[1:])


def _named(*names: str) -> Unwrap:
    """A program that hands the values of these options to a shell."""

    def unwrap(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
        for place, arg in enumerate(args):
            name, equals, value = arg.text.partition("=")
            if name in names and equals:
                yield Inner(script=value.removeprefix("exec="), sources=arg.sources)
            elif arg.text in names and place + 1 < len(args):
                after = args[place + 1]
                yield Inner(script=after.text.removeprefix("exec="), sources=after.sources)

    return unwrap


def _matching(pattern: str, *, stdin_too: bool = False) -> Unwrap:
    """A program of whose arguments, and perhaps of whose input, the parts that match are scripts."""
    regex = re.compile(pattern, re.MULTILINE)

    def unwrap(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
        for arg in args:
            if found := regex.search(arg.text):
                yield Inner(script=found[1], sources=arg.sources)
        for match in regex.finditer((stdin.text or "") if stdin_too else ""):
            yield Inner(script=match[1])

    return unwrap


def _gh(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`gh alias set x '!rm y'`."""
    if [arg.text for arg in args[:2]] == ["alias", "set"]:
        shell = any(arg.text in ("-s", "--shell") for arg in args)
        for arg in args[-1:]:
            if arg.text.startswith("!") or shell:
                yield Inner(script=arg.text.removeprefix("!"), sources=arg.sources)
    elif [arg.text for arg in args[:2]] == ["config", "set"] and len(args) > 3:
        yield from side_script(args[3].text, args[3].sources)


EDITORS: Final[dict[str, Unwrap]] = {
    **dict.fromkeys(["vim", "vi", "nvim", "ex", "view", "gvim", "vimdiff", "rvim", "rview", "mvim"], _vim),
    **dict.fromkeys(["emacs", "emacsclient"], _emacs),
    **dict.fromkeys(["sed", "gsed"], _sed),
    **dict.fromkeys(["ed", "red"], _ed),
    **dict.fromkeys(["awk", "gawk", "mawk", "nawk"], _awk),
    "gh": _gh,
    **dict.fromkeys(["scp", "sftp"], _copies),
    "tar": _named(
        "--checkpoint-action",
        "--to-command",
        "--use-compress-program",
        "--info-script",
        "--new-volume-script",
        "--rsh-command",
        "-I",
        "-F",
    ),
    "cpio": _named("--rsh-command"),
    "vagrant": _named("-c", "--command"),
    "rsync": _named("-e", "--rsh", "--rsync-path"),
    "zip": _named("-TT", "--unzip-command"),
    "gcloud": _named("--command"),
    "chokidar": _named("-c", "--command"),
    "split": _named("--filter"),
    "sort": _named("--compress-program"),
    "tcpdump": _named("-z"),
    "wget": _named("--use-askpass"),
    "dpkg": _named("--pre-invoke", "--post-invoke"),
    "rpm": _matching(r"%\((.*)\)"),
    "rpmbuild": _matching(r"%\((.*)\)"),
    **dict.fromkeys(["nano", "pico"], _named("-s", "--speller")),
    **dict.fromkeys(["bat", "batcat", "delta"], _named("--pager")),
    **dict.fromkeys(["dtrace", "dtruss"], _named("-c")),
    "bpftrace": _matching(r"""system\(\s*"((?:\\.|[^"\\])*)\""""),
    "bazel": _named("--run_under"),
    "air": _named("--build.cmd", "-build.cmd", "--build.bin"),
    **dict.fromkeys(["apt", "apt-get", "aptitude"], _matching(r"(?i)-Invoke[^=]*=(.*)")),
    **dict.fromkeys(["telnet", "ftp", "lftp"], _matching(r"^\s*!(.+)$", stdin_too=True)),
    **dict.fromkeys(["mail", "mailx", "mutt"], _matching(r"^~?!(.+)$", stdin_too=True)),
    "expect": _expect,
    **dict.fromkeys(["gdb", "lldb"], _gdb),
    **dict.fromkeys(["man", "less", "more", "most"], _pager),
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
            "rake",
            "go",
        ],
        _other,
    ),
}
"""By program."""
