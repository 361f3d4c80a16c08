"""Programs that can run a shell command besides their own work: editors, pagers, debuggers, awk, `sed e`, `nc -e`.

Also clients and tools that have a command for it (psql's `\\!`, sqlite3's
`.shell`, `cmake -E rm`), and interpreters whose functions are not listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.indirect.written_scripts import written_scripts
from bus.shell.inner import Arg, Inner, Unwrap, script_of
from bus.shell.programs.compiled_code import other_calls
from bus.shell.programs.in_place import emptied_by_awk
from bus.shell.programs.options import matching, named_options, run_by_option
from bus.shell.programs.variables import side_script
from bus.shell.scanned_code import scanned_calls
from bus.shell.words import Output

_SENT: Final = lazy_regex(
    r"""\bsend(?:_user)?\s+(?:-\w+\s+)*(?:--\s+)?(?:"((?:\\.|[^"\\]){1,4096})"|\{([^{}]{1,4096})\})"""
)
_TYPED_ESCAPE: Final = lazy_regex(r"\\[rn]")
_SPAWNED: Final = lazy_regex(r"(?:^|[;\n{\[]\s*)(?:spawn|exec|system)\s+(?:-\S+\s+)*([^;\n\]}]+)")
_LISP: Final = lazy_regex(
    r'\((shell-command(?:-to-string)?|async-shell-command|call-process-shell-command|term|ansi-term|compile|delete-directory|delete-file)\s+"((?:\\.|[^"\\])*)"'
)
_SED: Final = lazy_regex(r"(?:^|[;\n{])\s*(?:\d+|\$|/[^/]*/)?(?:,(?:\d+|\$|/[^/]*/))?!?\s*e\s+([^;\n}]+)")
_SED_REPLACED: Final = lazy_regex(r"s([/|,#@!:])(?:\\.|(?!\1).)*\1((?:\\.|(?!\1).)*)\1([a-zA-Z0-9]*)")
_SED_WRITES: Final = lazy_regex(r"(?:^|[;\n{/|#,@gpI0-9$])\s*w\s+([^\s;}]+)")
_SIDE: Final = lazy_regex(
    r"^\s*:*(?:sil(?:ent)?!?\s+)?[%.,$\d]*(?:!|r(?:ead)?\s*!|w(?:rite)?\s*!|exe(?:cute)?\s+['\"]!)\s*(.+)"
)
_VIM_DELETE: Final = lazy_regex(r"""\bdelete\(\s*['"]([^'"]+)['"](?:\s*,\s*['"](\w+)['"])?""")
_VIM_SYSTEM: Final = lazy_regex(r"""\b(?:system(?:list)?|termopen|jobstart|job_start|term_start)\(\s*(['"])(.*?)\1""")
_VIM_COMMAND: Final = lazy_regex(r"-[a-zA-Z]*c")
_ED_RUNS: Final = lazy_regex(r"^\s*(?:[\d,.$%]*[rwWe]\s*)?!(.+)")
_MOST_LINES: Final = 64
_SHELLS: Final = lazy_regex(r"(?:\S*/)?(?:ba|z|da|k|c|tc|a)?sh(?:\s.*)?|(?:\S*/)?(?:cmd|powershell)(?:\.exe)?(?:\s.*)?")

_ESCAPES: Final = ("\\!", "system", ".sh", "|", "program", "--pager")
"""Every text that `_ESCAPED` matches has one of these in it."""
_ESCAPED: Final = lazy_regex(
    r"(?im)(?:^|;)[ \t]*(?:\.sh(?:ell)?\s|\.system\s|\\!|system\s|\.(?:once|output)\s+\||--pager=)\s*(.+)$"
    r"|\bprogram\s+'([^']+)'"
)
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
    """The commands that a command line of vim runs, and its deletions."""
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
    """The commands of an `ed` script: `!rm x`, `r !rm x`, and `,d` with `w`, which empties the file."""
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
        if "w " in text:
            for match in _SED_WRITES.finditer(text):
                yield Inner(argv=(Arg("tee"), Arg(match[1])))
        if (replaced := _SED_REPLACED.search(text)) and "e" in replaced[3]:
            yield Inner(script=re.sub(r"\\(.)", r"\1", replaced[2]), sources=arg.sources)


def _expect(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """The commands that an expect script starts, and the lines that it types (`send "rm x\\r"`)."""
    for text in (*(arg.text for arg in args), stdin.text or ""):
        for match in _SPAWNED.finditer(text):
            yield Inner(script=match[1])
        for match in _SENT.finditer(text) if "send" in text else ():
            yield Inner(script=_TYPED_ESCAPE.sub(" ", match[1] or match[2]).strip())


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
    """An interpreter whose functions are not listed in `code_functions`."""
    given = [after for arg, after in pairwise(args) if arg.text in _CODE]
    for text in (*(arg.text for arg in given), stdin.text or ""):
        yield from other_calls(text)


_SYSTEM: Final = lazy_regex(r"""(?:system\s*\(\s*|\|\s*getline|\|\s*)?"((?:\\.|[^"\\])*)"\s*(\))?""")
_AWK_WRITES: Final = lazy_regex(r'\bprintf?\b[^;{}|]*?(>>?)\s*"([^"]+)"')
_SYSTEM_VARIABLE: Final = lazy_regex(r"system\s*\(\s*(\w+)|\|\s*getline|\|\s*(\w+)")


def _awk(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """The texts that an awk program gives `system(…)`, or reads and writes through a pipe; files that it empties."""
    yield from emptied_by_awk(args)
    given: list[Arg] = []
    for place, arg in enumerate(args):
        if arg.text == "-v" and place + 1 < len(args):
            given.append(args[place + 1])
        elif arg.text.startswith("-v") or (place and args[place - 1].text == "-v"):
            continue
        for sign, path in _AWK_WRITES.findall(arg.text) if ">" in arg.text else ():
            yield Inner(argv=(Arg("tee"), *((Arg("-a"),) if sign == ">>" else ()), Arg(path)))
        if ">" in arg.text:
            yield from written_scripts(arg.text)
        if "system" in arg.text or "|" in arg.text:
            for match in _SYSTEM.finditer(arg.text):
                yield Inner(script=match[1].replace('\\"', '"'), sources=arg.sources)
            named = {name for pair in _SYSTEM_VARIABLE.findall(arg.text) for name in pair}
            for text, sources in given:
                name, _, value = text.partition("=")
                if name in named:
                    yield Inner(script=value, sources=sources)


_SSH_PROGRAM: Final = lazy_regex(
    r"(?i)(?:-o)?\s*(?:(?:Proxy|Local|KnownHosts|RemoteKnownHosts)Command\s*[=\s]|Match\b.*\bexec\b)\s*(.+)", re.DOTALL
)


def remote_programs(args: Sequence[Arg]) -> Iterator[Inner]:
    """The commands that `ssh -o ProxyCommand=…` and similar options run on this machine."""
    for arg in args:
        if ("ommand" in arg.text or "Match" in arg.text) and (match := _SSH_PROGRAM.match(arg.text)):
            yield Inner(script=match[1].strip('"'), sources=arg.sources)


def _copies(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """`scp` and `sftp`: the program that connects, and `!rm x` among sftp's commands."""
    yield from remote_programs(args)
    yield from named_options("-S")(args, stdin)
    for line in (stdin.text or "").splitlines()[:_MOST_LINES]:
        if line.startswith("!"):
            yield Inner(script=line[1:])


def _gh(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`gh alias set x '!rm y'`."""
    if [arg.text for arg in args[:2]] == ["alias", "set"]:
        shell = any(arg.text in ("-s", "--shell") for arg in args)
        for arg in args[-1:]:
            if arg.text.startswith("!") or shell:
                yield Inner(script=arg.text.removeprefix("!"), sources=arg.sources)
    elif [arg.text for arg in args[1:2]] == ["ssh"] and Arg("--") in args:  # `gh codespace ssh -- rm x`
        yield script_of(args[args.index(Arg("--")) + 1 :], remote=True)
    elif [arg.text for arg in args[:2]] == ["config", "set"] and len(args) > 3:
        yield from side_script(args[3].text, args[3].sources)


def _other_code(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    yield from _other(args, stdin)
    for arg in args:
        if " " in arg.text:
            yield from run_by_option(args)
            return


EDITORS: Final[dict[str, Unwrap]] = {
    **dict.fromkeys(["vim", "vi", "nvim", "ex", "view", "gvim", "vimdiff", "rvim", "rview", "mvim"], _vim),
    **dict.fromkeys(["emacs", "emacsclient"], _emacs),
    **dict.fromkeys(["sed", "gsed"], _sed),
    **dict.fromkeys(["ed", "red"], _ed),
    **dict.fromkeys(["awk", "gawk", "mawk", "nawk"], _awk),
    "gh": _gh,
    **dict.fromkeys(["scp", "sftp"], _copies),
    "tar": named_options(
        "--checkpoint-action",
        "--to-command",
        "--use-compress-program",
        "--info-script",
        "--new-volume-script",
        "--rsh-command",
        "-I",
        "-F",
    ),
    "cpio": named_options("--rsh-command"),
    "vagrant": named_options("-c", "--command"),
    "zip": named_options("-TT", "--unzip-command"),
    "chokidar": named_options("-c", "--command"),
    "split": named_options("--filter"),
    "sort": named_options("--compress-program"),
    "tcpdump": named_options("-z"),
    "wget": named_options("--use-askpass"),
    "dpkg": named_options("--pre-invoke", "--post-invoke"),
    "rpmbuild": matching(r"%\((.*)\)"),
    **dict.fromkeys(["nano", "pico"], named_options("-s", "--speller")),
    **dict.fromkeys(["bat", "batcat", "delta"], named_options("--pager")),
    **dict.fromkeys(["dtrace", "dtruss"], named_options("-c")),
    "bpftrace": matching(r"""system\(\s*"((?:\\.|[^"\\])*)\""""),
    "bazel": named_options("--run_under"),
    "air": named_options("--build.cmd", "-build.cmd", "--build.bin"),
    **dict.fromkeys(["apt", "apt-get", "aptitude"], matching(r"(?i)-Invoke[^=]*=(.*)")),
    **dict.fromkeys(["telnet", "ftp", "lftp"], matching(r"^\s*!(.+)$", stdin_too=True)),
    **dict.fromkeys(["mail", "mailx", "mutt"], matching(r"^(?:--exec=)?~?!(.+)$", stdin_too=True)),
    "expect": _expect,
    **dict.fromkeys(["gdb", "lldb"], _gdb),
    **dict.fromkeys(["man", "less", "more", "most"], _pager),
    **dict.fromkeys(["nc", "ncat", "netcat"], _netcat),
    "socat": _socat,
    **dict.fromkeys(["psql", "pgcli", "mysql", "mycli", "mariadb", "sqlite3", "duckdb", "usql"], _database),
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
        ],
        _other,
    ),
    "go": _other_code,
}
"""By program."""
