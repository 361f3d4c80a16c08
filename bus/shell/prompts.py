"""Whether a command opens a prompt that waits for a person: a bare shell, a REPL, a database client."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from bus.shell.inner import Arg, names, read_options
from bus.shell.script_runners import SHELLS

_SHELL: Final = (names("-o -O +o +O --rcfile --init-file"), 0, names("-c"))
_PROMPTS: Final[dict[str, tuple[frozenset[str], int, frozenset[str]]]] = {
    **dict.fromkeys(SHELLS, _SHELL),
    **dict.fromkeys(["python", "pypy", "ipython", "bpython", "ptpython"], (names("-W -X"), 0, names("-c -m -V --version -h"))),
    **dict.fromkeys(["node", "bun", "deno", "tsx"], (names("-r --require --import"), 0, names("-e -p -v --eval --version"))),
    **dict.fromkeys(["irb", "pry", "ghci", "iex", "erl", "scala", "jshell", "clj", "julia", "r", "lua", "gdb", "lldb"],
                    (names("-r -I"), 0, names("-e --eval -v --version -batch --batch"))),
    "psql": (names("-U -h -p -d -v --username --host --port --dbname --set"), 2, names("-c -f -l --command --file --list")),
    **dict.fromkeys(["mysql", "mariadb"], (names("-u -h -P -D -S --user --host --port --database"), 1, names("-e --execute"))),
    "sqlite3": (names("-cmd -init -separator"), 1, names("-version -cmd")),
    "mongosh": (names("-u -p --username --password --host --port"), 1, names("--eval -f --file")),
    "redis-cli": (names("-h -p -n -a -u -s --user --pass"), 0, names("--eval --scan --pipe --stat")),
    "ssh": (names("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B"), 1, names("-N -G -V -O -Q")),
    "su": (names("-s -g -G"), 1, names("-c --command --session-command")),
    "sudo": (names("-u -g -p -h -D --user --group"), 0, names("-l -v -k -K -V")),
    "pwsh": (names("-WorkingDirectory"), 0, names("-c -Command -File -f")),
}  # fmt: skip
"""By program: the options that take a value, the operands that leave it a prompt, and the options that do not."""
_VERSION: Final = re.compile(r"[\d.]+$")


def opens_prompt(program: str, args: Sequence[Arg]) -> bool:
    """Whether a program with these arguments reads what somebody types, where nothing else is its standard input."""
    known = _PROMPTS.get(program)
    if known is None and program[-1:].isdigit():
        known = _PROMPTS.get(_VERSION.sub("", program))
    if known is None:
        return False
    values, most, without = known
    options = read_options(args, values)
    if options.has(*without) or any(arg.sources for arg in args):
        return False
    if program == "sudo":
        return options.has("-s", "-i", "--shell", "--login") and options.end == len(args)
    operands = [arg for arg in args[options.end :] if arg.text not in ("-", "-l", "-i")]
    return len(operands) <= most
