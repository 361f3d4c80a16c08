"""Shared parts of the readers of other systems' hook files: entries with their places, ids, and checks of commands."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, TypeVar

import msgspec

from bus.config.documents import Document, PathParts, Plain, dotted
from bus.config.field_types import ENV_PATTERN
from bus.config.hook_file_value import HookFile, matcher_checks
from bus.config.validation import convert, is_extra, suggestion
from bus.errors import ConfigError, PatternError
from bus.hooks import Hook, Layer
from bus.lazy.regex import lazy_regex
from bus.system.environment import ALLOWED

_T = TypeVar("_T", bound=msgspec.Struct)

_ENV: Final = lazy_regex(ENV_PATTERN)
_UNFIT: Final = lazy_regex(r"[^A-Za-z0-9_-]+")
_ID_LENGTH: Final = 52
"""The most characters of a derived id, without the suffix that makes it unique."""

_VARIABLE: Final = lazy_regex(r"(?<!\\)\$\{?([A-Za-z_][A-Za-z0-9_]*)")
_SET: Final = lazy_regex(
    r"(?:^|[\s;&|(`{])(?:for\s+|read\s+(?:-\w+\s+)*)?([A-Za-z_][A-Za-z0-9_]*)(?==|\s+in\s|\s*$|\s*[;)])"
)
_OF_THE_SHELL: Final = frozenset(
    {
        *ALLOWED,
        "PWD",
        "OLDPWD",
        "IFS",
        "PPID",
        "RANDOM",
        "SECONDS",
        "LINENO",
        "UID",
        "EUID",
        "HOSTNAME",
        "OPTARG",
        "OPTIND",
        "REPLY",
        "EPOCHSECONDS",
        "FUNCNAME",
        "PIPESTATUS",
    }
)
_PREFIXES: Final = ("LC_", "BASH", "FLEETHOOK_")


class Reading:
    """One file while it is read: its document, its problems, and the ids in use."""

    def __init__(self, document: Document, layer: Layer) -> None:
        self.document, self.layer = document, layer
        self.hooks: list[Hook] = []
        self.problems: list[ConfigError] = []
        self.warnings: list[str] = list(document.warnings)
        self._ids: set[str] = set()
        self._numbers: dict[str, int] = {}
        """The next number to try for a derived id, by the id without its number."""

    def done(self) -> HookFile:
        """The contents of the file."""
        self.problems.sort(key=lambda error: (error.line, error.column))
        return HookFile(tuple(self.hooks), problems=tuple(self.problems), warnings=tuple(self.warnings)).with_digest()

    def entry(self, path: PathParts, raw: Plain, kind: type[_T]) -> _T | None:
        """The entry as a `kind`; None, and a problem, if it is wrong. Unknown keys are reported and ignored, as in their
        system."""
        entry, problems = convert(self.document, path, raw, kind)
        self.problems.extend(problems)
        if isinstance(raw, dict):
            self.unknown(path, raw, kind.__struct_encode_fields__)
        return entry

    def unknown(self, path: PathParts, raw: Mapping[str, Plain], known: Collection[str]) -> None:
        """Warn about unknown keys."""
        for key in raw:
            if key not in known and not is_extra(key):
                hint = suggestion(key, known) or "known keys: " + ", ".join(sorted(known))
                self.warn((*path, key), f'the unknown key "{key[:80]}" is not read', hint=hint, key=True)

    def environment(self, path: PathParts, env: Mapping[str, str]) -> None:
        """Report variables that no process can have."""
        for name, value in env.items():
            if not _ENV.match(name):
                self.report((*path, name), f"{name[:64]!r} is no name of an environment variable", key=True)
            elif "\x00" in value:
                self.report((*path, name), f"the variable {name} holds a NUL")

    def id(self, *parts: str) -> str:
        """An id made of these parts: unique in the file, and the same at every reading."""
        stem = "-".join(filter(None, (_UNFIT.sub("-", part).strip("-") for part in parts)))[:_ID_LENGTH].strip("-")
        number = self._numbers.get(stem, 1)
        found = stem if number == 1 else f"{stem}-{number}"
        while found in self._ids:
            number += 1
            found = f"{stem}-{number}"
        self._ids.add(found)
        self._numbers[stem] = number + 1
        return found

    def origin(self, path: PathParts) -> str:
        """`file:line` of an entry."""
        return f"{self.document.file}:{self.document.place(path)[0]}"

    def report(self, path: PathParts, message: str, *, hint: str = "", key: bool = False) -> None:
        """Report a problem: its entry is not in force."""
        self.problems.append(self.document.error(path, message, hint=hint, key=key))

    def warn(self, path: PathParts, message: str, *, hint: str = "", key: bool = False) -> None:
        """Warn about an entry that is in force."""
        self.warnings.append(str(self.document.error(path, message, hint=hint, key=key)))

    def matches(self, path: PathParts, on: tuple[str, ...], tool: str = "") -> bool:
        """Whether the matchers can be compiled; reports the error at `path` (F-18)."""
        before = len(self.problems)
        for _, check in matcher_checks(on, tool, ""):
            try:
                check()
            except PatternError as error:
                line, column = self.document.place(path)
                self.problems.append(
                    PatternError(
                        error.message,
                        file=self.document.file,
                        line=line,
                        column=column,
                        path=dotted(path),
                        hint=error.hint,
                    )
                )
        return len(self.problems) == before

    def text(self, path: PathParts, value: str, *, what: str) -> bool:
        """Whether a command or a path can be used: not empty, and without a NUL."""
        if "\x00" in value:
            self.report(path, f"{what} holds a NUL")
        elif not value.strip():
            self.report(path, f"{what} must not be empty")
        else:
            return True
        return False

    def script(self, path: PathParts, command: str, base: str = "") -> None:
        """Warn about scripts of a command that do not exist or cannot be started; `base` is the directory in which it runs,
        empty if unknown."""
        if "/" not in command and "." not in command:
            return
        from bus.hookfiles.programs import problems  # the shell reader, which most files of this kind do not need

        for problem in problems(command, base=base, root=base):
            if problem.of_file:
                self.warn(path, problem.message, hint=problem.hint)


def foreign_variables(command: str, prefix: str) -> tuple[str, ...]:
    """The variables that a command's text reads from its caller's environment, without the safe list and `prefix`."""
    if "$" not in command:
        return ()
    set_here = {match[1] for match in _SET.finditer(command)}
    names = dict.fromkeys(match[1] for match in _VARIABLE.finditer(command))
    return tuple(
        name
        for name in names
        if name not in set_here and name not in _OF_THE_SHELL and not name.startswith((prefix, *_PREFIXES))
    )


def own_flag(own: dict[str, Any], name: str) -> bool | None:
    """A flag that a dialect kept with a hook; None if there is none. Values from Redis may be of any type."""
    value = own.get(name)
    return value if isinstance(value, bool) else None
