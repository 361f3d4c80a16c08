"""Files that a line writes and that run now or later: SQL files, makefiles, units, crontabs, a shell's start files."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.commands import Command
from bus.shell.inner import Arg, Inner, names, read_options
from bus.shell.programs.compiled_code import other_calls
from bus.shell.programs.filters import CLIENTS
from bus.shell.programs.recipes import task_files, task_scripts

_SQL: Final = CLIENTS | names(
    "litecli mongo mongosh trino presto beeline hive spark-sql impala-shell turso libsql isql tsql db2"
)
_RUN_ELSEWHERE: Final = names("docker podman kubectl oc docker-compose ssh nerdctl")
"""Programs that hand their standard input to a client elsewhere."""
_MAKE: Final = names("make gmake bmake")
_MAKEFILES: Final = ("GNUmakefile", "makefile", "Makefile")
_MAKE_VALUES: Final = names("-C -f -I -j -o -W --file --makefile --directory --include-dir")
_PACKAGE_MANAGERS: Final = names("npm pnpm yarn bun")
_INSTALLING: Final = names("preinstall install postinstall prepare")
_SCHEDULE: Final = lazy_regex(r"^\s*(?:@\w+|(?:\S+\s+){5})\s*", re.MULTILINE)
_EXEC: Final = lazy_regex(r"^\s*Exec\w+=[-@:+!]*(.+)$", re.MULTILINE)
_SETTING: Final = lazy_regex(r"^([A-Za-z_]\w*)[ ]*[:?]{0,2}=[ ]*([^\s\"`$][^\"`\n#]*?)[ ]*$", re.MULTILINE)
_MAKE_VALUE: Final = lazy_regex(r"(?<!\$)\$\(([A-Za-z_]\w*)\)")
"""`$(HOME)`, which is a variable in a makefile."""
_TOKEN: Final = lazy_regex(r"[^\s'\";]+")
_START_FILES: Final = names(
    ".bashrc .bash_profile .bash_login .bash_logout .profile .zshrc .zprofile .zshenv .zlogin .envrc .xprofile .xinitrc"
    " config.fish"
)
_DEEPEST: Final = 2
"""The depth of a script in scripts at which files of the line are still read."""
_UNITS: Final = (".service", ".socket", ".mount")
_LAST: Final = frozenset(name[-1] for name in (*_UNITS, *_START_FILES))
"""The last characters of such names; most other names end differently."""
PathOf = Callable[[Command, str], str]


def schedule_script(text: str) -> str:
    """The commands of a crontab."""
    return _SCHEDULE.sub("", text)


def recipe_script(text: str) -> str:
    """The recipes of a makefile: its indented lines, and what follows `;` in a rule."""
    lines = text.split("\n")
    indented = [line.lstrip("\t@-+ ") for line in lines if line[:1] in ("\t", " ")]
    behind = [line.split(";", 1)[1].lstrip("@-+ ") for line in lines if ";" in line and line[:1] != "\t"]
    settings = [f'{match[1]}="{match[2]}"' for match in _SETTING.finditer(text) if f"$({match[1]})" in text]
    return _MAKE_VALUE.sub(r"${\1}", "\n".join([*settings, *indented, *behind])).replace("$$", "$")


def package_scripts(text: str, words: Sequence[str]) -> Iterator[str]:
    """The scripts in a package.json that `npm` with these words runs: the named ones, or those of an installation."""
    try:
        scripts = json.loads(text)["scripts"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return
    if isinstance(scripts, dict):
        wanted = _INSTALLING if not words or words[0] in ("i", "install", "ci", "add") else words
        for name, script in scripts.items():
            if isinstance(script, str) and (name in wanted or name.removeprefix("pre").removeprefix("post") in wanted):
                yield script


def unit_property(text: str) -> str:
    """The command in a property of a unit: `ExecStartPre=-/bin/rm x`; any other text as it is."""
    match = _EXEC.match(text)
    return match[1] if match else text


def file_scripts(command: Command, texts: Mapping[str, str], path_of: PathOf) -> Iterator[Inner]:
    """The scripts in files that the line has made (`texts`, by path) and that the command runs by name."""
    if command.depth > _DEEPEST or command.words[1:] in {(text,) for text in texts.values()}:
        return  # a makefile that calls make, and the statements that are given below
    program = command.program
    read = [target for sign, target in command.redirects if sign == "<"]
    if program in _SQL or (program in _RUN_ELSEWHERE and not _SQL.isdisjoint(command.words)):
        client = program if program in _SQL else next(word for word in command.words if word in _SQL)
        given = [token for word in command.words for token in _TOKEN.findall(word)] if client == program else []
        given = given or [word for word in command.words if word.endswith(".sql")]
        for name in (*given, *read):
            path = path_of(command, name.removeprefix("--file=").removeprefix("@").removeprefix("-f"))
            if path not in texts and program in _RUN_ELSEWHERE and path.endswith(".sql"):  # `docker cp x.sql db:/x.sql`
                same = [one for one in texts if posixpath.basename(one) == posixpath.basename(path)]
                path = same[0] if same else path
            if path in texts:
                yield Inner(argv=(Arg(client), Arg("--eval" if client[:5] == "mongo" else "-c"), Arg(texts[path])))
    elif program in _MAKE:
        options = read_options([Arg(word) for word in command.words], _MAKE_VALUES)
        file = options.value("-f", "--file", "--makefile")
        folder = options.value("-C", "--directory")
        for name in (file.text,) if file is not None else _MAKEFILES:
            path = path_of(command, posixpath.join(folder.text, name) if folder is not None else name)
            if path in texts:
                yield Inner(script=recipe_script(texts[path]))
    elif program in ("crontab", "at", "batch"):
        for name in (*[word for word in command.words if word[:1] != "-"], *read):
            if (path := path_of(command, name)) in texts:
                yield Inner(script=schedule_script(texts[path]) if program == "crontab" else texts[path])
    elif program in _PACKAGE_MANAGERS:
        if (path := path_of(command, "package.json")) in texts:
            yield from (Inner(script=one) for one in package_scripts(texts[path], command.words))
    elif program == "redis-cli":
        yield from (
            Inner(argv=(Arg(program), Arg("eval"), Arg(texts[word]))) for word in command.words if word in texts
        )
    elif tasks := task_files(program, command.words, texts):
        for path in tasks:
            yield from task_scripts(texts[path])
    else:
        for word in command.words:
            path = word.rpartition("=")[2].rpartition(":")[2]
            if path.startswith("/dev/fd/") and path in texts:  # `nmap --script=<(…)`
                yield from other_calls(texts[path])


def later_scripts(command: Command, text: str | None) -> Iterator[Inner]:
    """The scripts that run later because a command writes `text` into a unit, a crontab or a start file of a shell."""
    if command.program == "tee":
        text = command.stdin if text is None else text
    if not text:
        return
    for target in (*command.writes, *(command.words if command.program == "tee" else ())):
        if target.endswith(_UNITS):
            yield from (Inner(script=script) for script in _EXEC.findall(text))
        elif "/cron" in target:
            yield Inner(script=schedule_script(text))
            yield Inner(script=text)
        elif runs_later(target):
            yield Inner(script=text)


def runs_later(path: str) -> bool:
    """Whether a file of this path is a unit, a crontab or a start file, whose text runs later by itself."""
    if "/cron" in path:
        return True
    return path[-1:] in _LAST and (path.endswith(_UNITS) or path.rpartition("/")[2] in _START_FILES)
