"""Finds the files that a hook's command runs, by the shell reader: for pins (B2) and for `hooks check` (B16).

Both use the same function, so that exactly the scripts that run are also checked. `script_loads.py` finds the files that a
script loads.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from bus.lazy.regex import lazy_regex
from bus.shell import UNKNOWN, UNSET, Command, commands
from bus.shell.commands import PRINTING
from bus.shell.inner import names
from bus.shell.interpreters import script_files
from bus.shell.script_runners import SHELLS
from bus.shell.words import PROJECT

How = Literal["program", "script", "name", "load", "folder"]

_PROJECT_VARIABLE: Final = lazy_regex(
    r"\$(?:\{(?:CLAUDE|GEMINI|CURSOR|QWEN)_PROJECT_DIR(?::?-[^{}]*)?\}|(?:CLAUDE|GEMINI|CURSOR|QWEN)_PROJECT_DIR\b)"
)
_ASKS: Final = lazy_regex(r"(?:^|[\s;&|(])(?:\[\[?|test|which|type|hash|command\s+-v|case)\s")
"""A command that tests whether a file or a program exists, or that decides what runs."""
_DECIDES: Final = lazy_regex(r"(?:^|[\s;&|(])(?:if|while|until)\s")
"""Decides by its first command, which runs in any case: `if ! ./check.sh; then …`."""
BUILTIN: Final = lazy_regex(
    r"[!.:{}\[]|\[\[|alias|bg|break|case|cd|command|continue|declare|do|done|echo|elif|else|esac|eval|exec|exit|export|false|"
    r"fg|fi|for|function|getopts|hash|if|jobs|kill|let|local|printf|pushd|popd|pwd|read|readonly|return|select|set|shift|"
    r"shopt|source|test|then|time|times|trap|true|type|typeset|ulimit|umask|unalias|unset|until|wait|while"
)
_FUNCTION: Final = lazy_regex(r"([\w-]+)\s*\(\s*\)|\bfunction\s+([\w-]+)")
_SAME_PATH: Final = SHELLS | names(
    "env nice ionice timeout gtimeout exec eval nohup setsid time command builtin stdbuf sudo doas xargs flock cd"
)
"""Programs that look up the program that they run on the same PATH."""
_ELSEWHERE: Final = names(
    "ssh docker podman nerdctl kubectl oc crictl k docker-compose podman-compose chroot nsenter wsl vagrant lxc incus"
    " machinectl systemd-nspawn pssh parallel-ssh pdsh clush dsh mosh autossh fab ansible aws az heroku fly flyctl"
    " toolbox distrobox distrobox-enter git trap at batch crontab"
)
"""Programs that run a command on another machine, in another root directory or at another time."""
_PLAIN_NAME: Final = lazy_regex(r"[A-Za-z0-9_@%+:,.~-]+")
_SHEBANG: Final = lazy_regex(rb"#![ \t]*([^ \t\n]+)(?:[ \t]+(?:-S[ \t]+)?([^ \t\n]+))?")
_ENDS: Final = ("", ".js", ".cjs", ".mjs", ".ts", ".json")
"""The endings that node adds to a script's name to find it."""
_MODULE_FILES: Final = ("{}.py", "{}/__main__.py", "{}/__init__.py")


class RunFile(NamedTuple):
    """A file that a command line runs or reads code from."""

    word: str
    """The file's name as written in the command."""
    how: How
    """`program`: started by its path; `script`: read by an interpreter; `name`: a program that is looked up on PATH;
    `load`: a file that an interpreter may load; `folder`: any file in it may run."""
    directory: str = "."
    """The directory in which it runs, relative to the one in which the whole command starts."""
    certain: bool = True
    """False if an earlier part of the line may create the file, tests for it, or runs it on another machine."""
    needed: bool = True
    """False if the command says nothing where it is missing: `source ~/.nvm/nvm.sh 2>/dev/null`."""

    @property
    def known(self) -> bool:
        """Whether its path is known without running the command."""
        return not any(sign in text for sign in (UNKNOWN, UNSET) for text in (self.word, self.directory))

    @property
    def shown(self) -> str:
        """The word as messages show it."""
        return self.word.replace(f"{PROJECT}/", "$CLAUDE_PROJECT_DIR/")

    def path(self, base: str, root: str) -> str:
        """Its path, if the command starts in `base` and the project is `root`; an unknown part becomes `*` or is left out."""
        return os.path.normpath(os.path.join(base, _plain(self.directory, root), _plain(self.word, root)))


def _plain(text: str, root: str) -> str:
    if text == PROJECT or text.startswith(f"{PROJECT}/"):
        text = root + text[len(PROJECT) :]
    if UNKNOWN in text or UNSET in text:  # `$X/hooks/a.sh`: usually X is the project
        parts = ["*" if UNKNOWN in part or UNSET in part else part for part in text.split("/")]
        text = "/".join(parts[1:] if parts[0] == "*" else parts) or "."
    return os.path.expanduser(text)


def run_files(command: str, args: Sequence[str] = ()) -> tuple[RunFile, ...]:
    """The files that a hook's command runs, in the order of its text; with `args`, the command runs without a shell."""
    return _run_files(shlex.join([command, *args]) if args else command)


@lru_cache(1024)
def _run_files(text: str) -> tuple[RunFile, ...]:
    text = _PROJECT_VARIABLE.sub(PROJECT, text)
    items = commands(text).items
    functions = {name for pair in _FUNCTION.findall(text) for name in pair if name}
    found: list[RunFile] = []
    certain, decided = _ASKS.search(text) is None, _DECIDES.search(text) is not None
    written: set[str] = set()
    wrappers: list[str] = []
    for place, item in enumerate(items):
        after = items[place + 1] if place + 1 < len(items) else None
        before = items[place - 1] if place else None
        written.update(item.writes)
        certain = certain and not (decided and place)
        for run in _files_of(item, before, functions):
            sure = certain and run.word not in written and (run.how != "name" or _SAME_PATH.issuperset(wrappers))
            found.append(run._replace(certain=sure, needed=_is_needed(item)))
        if item.program in _ELSEWHERE and "rev-parse" not in item.words:
            certain = False
        if after is not None and _wraps(item, after):
            wrappers.append(item.program)
            continue
        wrappers.clear()
        if not _changes_nothing(item) and not (after is not None and after.piped_from):
            certain = False
    code_from = {program for item in items for program in item.code_from} & PRINTING
    read = [item for item in items if item.program in code_from]  # `cat hooks/*.sh | sh`
    found += [RunFile(word, "load", item.directory) for item in read for word in item.words if word[:1] != "-"]
    return tuple(dict.fromkeys(map(_as_folder, found)))


def _as_folder(run: RunFile) -> RunFile:
    """A file of unknown name in a folder, such as one that `find` found, becomes the folder: it may be any file there."""
    folder = run.word.removesuffix(f"/{UNKNOWN}")
    return run if folder in (run.word, "") or run.how == "name" else run._replace(word=folder, how="folder")


def _files_of(item: Command, before: Command | None, functions: set[str]) -> Iterator[RunFile]:
    """The files that one simple command runs; `functions` are the shell functions that the line defines."""
    word, directory = item.path or item.program, item.directory
    if not item.program or word in functions:
        return
    if before is not None and _is_module(before, item):
        return
    files = script_files(item.program, item.words)
    if files is not None:
        sources = [target for sign, target in item.redirects if sign == "<"] if not files.script else []
        for script in (*filter(None, [files.script]), *sources):
            yield RunFile(script, "script", directory)
        for load in files.loaded:
            yield RunFile(load, "load", directory)
        module = files.module.replace(".", "/")
        yield from (RunFile(form.format(module), "load", directory) for form in _MODULE_FILES if module)
    elif item.program in ("source", ".") and item.words:
        yield RunFile(item.words[0], "script", directory)
    elif item.program == "run-parts":
        operand = next((argument for argument in reversed(item.words) if not argument.startswith("-")), "")
        if operand:
            yield RunFile(operand, "folder", directory)
    if "/" in word or UNKNOWN in word or UNSET in word:
        yield RunFile(word, "program", directory)
    elif before is not None and word.endswith(".py") and _wraps(before, item):  # `uv run x.py`
        yield RunFile(word, "script", directory)
    elif not BUILTIN.fullmatch(word):
        yield RunFile(word, "name", directory)


def _is_module(before: Command, item: Command) -> bool:
    """Whether `item` is only the module that `before` runs: the reader reports `python -m a.b` as two commands."""
    files = script_files(before.program, before.words)
    return files is not None and bool(files.module) and (item.path or item.program) == files.module


def _is_needed(item: Command) -> bool:
    return item.program not in ("source", ".") or all(target != "/dev/null" for _, target in item.redirects)


def _wraps(item: Command, after: Command) -> bool:
    """Whether `item` only starts the command `after`: `timeout 5 ./x`, `sh -c './x'`."""
    if after.depth > item.depth:
        return True
    started = ((after.path or after.program), *after.words)
    return len(started) <= len(item.words) and item.words[len(item.words) - len(started) :] == started


def _changes_nothing(item: Command) -> bool:
    """Whether a command creates no file that a later command could run."""
    if item.program == "git":
        return "rev-parse" in item.words
    plain = item.program in PRINTING or BUILTIN.fullmatch(item.program) is not None or item.program in ("sleep", "date")
    return plain or "/" in item.path


class CommandProblem(NamedTuple):
    """Why a command is likely to fail: the message, the fix, and whether a script is the reason (else a program)."""

    message: str
    hint: str
    of_file: bool


def problems(
    command: str, args: Sequence[str] = (), *, base: str, root: str, path: str = ""
) -> Iterator[CommandProblem]:
    """The problems of scripts and programs of a command that are missing, or that cannot be started.

    The command starts in `base`, and the project is `root`; if these are not known, they are empty, and relative paths are
    not checked. `path` is the PATH that the hook sets.
    """
    for run in run_files(command, args):
        if not (run.certain and run.needed and run.known) or run.how == "load":
            continue
        if run.how == "name":
            unknown = "PATH=" not in command and _PLAIN_NAME.fullmatch(run.word) and not BUILTIN.fullmatch(run.word)
            if unknown and shutil.which(run.word, path=path or None) is None:
                yield CommandProblem(
                    f"the program {run.word} is not found on PATH", "install it, or name it by its path", of_file=False
                )
            continue
        full = run.path(base, root)
        if os.path.isabs(full) and not any(sign in full for sign in "*?[") and (root or not run.shown.startswith("$")):
            yield from _file_problems(run, full)


def _file_problems(run: RunFile, full: str) -> Iterator[CommandProblem]:
    if not os.path.exists(full):
        looked_up = run.how == "script" and (
            any(os.path.exists(full + end) for end in _ENDS) or ("/" not in run.word and shutil.which(run.word))
        )
        if not looked_up:
            message = f"the command names {run.shown}, which does not exist"
            yield CommandProblem(message, "create the script, or correct the path", of_file=True)
    elif run.how == "program":
        if not os.path.isfile(full) or not os.access(full, os.X_OK):
            yield CommandProblem(
                f"the command runs {run.shown}, which is not executable", f"chmod +x {run.shown}", of_file=True
            )
        else:
            yield from _interpreter_problems(run.shown, full)


def _interpreter_problems(script: str, path: str) -> Iterator[CommandProblem]:
    interpreter = _missing_interpreter(path)
    if interpreter.endswith("\r"):
        yield CommandProblem(
            f"the first line of {script} ends with a carriage return, which becomes part of the interpreter's name",
            f"save it with Unix line ends: sed -i 's/\\r$//' {script}",
            of_file=False,
        )
    elif interpreter:
        yield CommandProblem(
            f"the interpreter of {script}, {interpreter}, does not exist",
            "install it, or correct the script's first line",
            of_file=False,
        )


def _missing_interpreter(path: str) -> str:
    """The interpreter in a script's first line if it does not exist; else empty."""
    try:
        with open(path, "rb") as stream:
            found = _SHEBANG.match(stream.readline(512))
    except OSError:
        return ""
    if found is None:
        return ""
    program, argument = found[1].decode("utf-8", "replace"), (found[2] or b"").decode("utf-8", "replace")
    if os.path.basename(program) == "env" and argument and not argument.startswith("-") and "=" not in argument:
        return "" if shutil.which(argument) else argument
    return "" if os.access(program, os.X_OK) else program
