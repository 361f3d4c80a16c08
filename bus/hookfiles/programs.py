"""The files that a hook's command runs, as the shell reader sees them: for pins (B2) and for `hooks check` (B16).

Both ask the same function, so that a script that is run and one that is checked are the same. What a script loads itself is
in `script_loads`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from bus.shell import UNKNOWN, UNSET, Command, commands
from bus.shell.commands import PRINTING
from bus.shell.interpreters import script_files
from bus.shell.script_runners import SHELLS
from bus.shell.words import PROJECT

How = Literal["program", "script", "name", "load", "folder"]

_PROJECT_VARIABLE: Final = re.compile(
    r"\$(?:\{(?:CLAUDE|GEMINI|CURSOR|QWEN)_PROJECT_DIR(?::?-[^{}]*)?\}|(?:CLAUDE|GEMINI|CURSOR|QWEN)_PROJECT_DIR\b)"
)
_ASKS: Final = re.compile(r"(?:^|[\s;&|(])(?:\[\[?|test|which|type|hash|command\s+-v|if|case|while|until)\s")
"""What asks whether a file or a program is there, or decides what runs."""
BUILTIN: Final = re.compile(
    r"[!.:{}\[]|\[\[|alias|bg|break|case|cd|command|continue|declare|do|done|echo|elif|else|esac|eval|exec|exit|export|false|"
    r"fg|fi|for|function|getopts|hash|if|jobs|kill|let|local|printf|pushd|popd|pwd|read|readonly|return|select|set|shift|"
    r"shopt|source|test|then|time|times|trap|true|type|typeset|ulimit|umask|unalias|unset|until|wait|while"
)
_FUNCTION: Final = re.compile(r"([\w-]+)\s*\(\s*\)|\bfunction\s+([\w-]+)")
_SAME_PATH: Final = SHELLS | frozenset(
    "env nice ionice timeout gtimeout exec eval nohup setsid time command builtin stdbuf sudo doas xargs flock cd".split()
)
"""Wrappers below which a bare name is looked up on the same PATH."""
_ELSEWHERE: Final = frozenset(
    "ssh docker podman nerdctl kubectl oc crictl k docker-compose podman-compose chroot nsenter wsl vagrant lxc incus"
    " machinectl systemd-nspawn pssh parallel-ssh pdsh clush dsh mosh autossh fab ansible aws az heroku fly flyctl"
    " toolbox distrobox distrobox-enter git trap at batch crontab".split()
)
"""What these run is run on another machine, in another root or at another time."""
_MODULE_FILES: Final = ("{}.py", "{}/__main__.py", "{}/__init__.py")


class RunFile(NamedTuple):
    """A file that a command line runs or reads code from."""

    word: str
    """As the command has it."""
    how: How
    """A `program` that is started by its path; a `script` of an interpreter; the `name` of a program, for PATH; what an
    interpreter may `load`; a `folder` of which every file is run."""
    directory: str = "."
    """Where it runs, from the folder in which the command starts."""
    certain: bool = True
    """No earlier part of the line makes it, asks for it, or runs it elsewhere."""

    @property
    def known(self) -> bool:
        """Whether its path can be told."""
        return not any(sign in text for sign in (UNKNOWN, UNSET) for text in (self.word, self.directory))

    @property
    def shown(self) -> str:
        """The word for people."""
        return self.word.replace(f"{PROJECT}/", "$CLAUDE_PROJECT_DIR/")

    def path(self, base: str, root: str) -> str:
        """Its path, if the command starts in `base` and the project is `root`; what cannot be told is left out."""
        return os.path.normpath(os.path.join(base, _plain(self.directory, root), _plain(self.word, root)))


def _plain(text: str, root: str) -> str:
    if text == PROJECT or text.startswith(f"{PROJECT}/"):
        text = root + text[len(PROJECT) :]
    if UNKNOWN in text or UNSET in text:  # `$X/hooks/a.sh`: as a rule X is the project
        parts = ["*" if UNKNOWN in part or UNSET in part else part for part in text.split("/")]
        text = "/".join(parts[1:] if parts[0] == "*" else parts) or "."
    return os.path.expanduser(text)


def run_files(command: str, args: Sequence[str] = ()) -> tuple[RunFile, ...]:
    """What a hook's command runs, in reading order; `args` are the arguments of a command that no shell reads."""
    return _run_files(shlex.join([command, *args]) if args else command)


@lru_cache(1024)
def _run_files(text: str) -> tuple[RunFile, ...]:
    text = _PROJECT_VARIABLE.sub(PROJECT, text)
    items = commands(text).items
    own = {name for pair in _FUNCTION.findall(text) for name in pair if name}
    found: list[RunFile] = []
    certain = _ASKS.search(text) is None
    written: set[str] = set()
    wrappers: list[str] = []
    for place, item in enumerate(items):
        after = items[place + 1] if place + 1 < len(items) else None
        before = items[place - 1] if place else None
        written.update(item.writes)
        for run in _of(item, before, own):
            sure = certain and run.word not in written and (run.how != "name" or _SAME_PATH.issuperset(wrappers))
            found.append(run._replace(certain=sure))
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
    return tuple(dict.fromkeys(map(_below, found)))


def _below(run: RunFile) -> RunFile:
    """What `find` finds below a folder may be any of its files."""
    folder = run.word.removesuffix(f"/{UNKNOWN}")
    return run if folder in (run.word, "") or run.how == "name" else run._replace(word=folder, how="folder")


def _of(item: Command, before: Command | None, own: set[str]) -> Iterator[RunFile]:
    """What one command runs."""
    word, directory = item.path or item.program, item.directory
    if not item.program or word in own:
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
        operand = next((one for one in reversed(item.words) if not one.startswith("-")), "")
        if operand:
            yield RunFile(operand, "folder", directory)
    if "/" in word or UNKNOWN in word or UNSET in word:
        yield RunFile(word, "program", directory)
    elif before is not None and word.endswith(".py") and _wraps(before, item):  # `uv run x.py`
        yield RunFile(word, "script", directory)
    elif not BUILTIN.fullmatch(word):
        yield RunFile(word, "name", directory)


def _is_module(before: Command, item: Command) -> bool:
    """Whether the reader's second command is only the module of the first: `python -m a.b`."""
    files = script_files(before.program, before.words)
    return files is not None and bool(files.module) and (item.path or item.program) == files.module


def _wraps(item: Command, after: Command) -> bool:
    """Whether a command is only what runs the next one: `timeout 5 ./x`, `sh -c './x'`."""
    if after.depth > item.depth:
        return True
    own = ((after.path or after.program), *after.words)
    return len(own) <= len(item.words) and item.words[len(item.words) - len(own) :] == own


def _changes_nothing(item: Command) -> bool:
    """Whether a command makes no file that a later one could run."""
    if item.program == "git":
        return "rev-parse" in item.words
    plain = item.program in PRINTING or BUILTIN.fullmatch(item.program) is not None or item.program in ("sleep", "date")
    return plain or "/" in item.path
