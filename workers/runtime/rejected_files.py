"""Finds the content of this machine's hook files that is not in force: it has errors, or waits for trust."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from bus.errors import ConfigError
from bus.hookfiles.gobby_workflows.checks import NO_BLOCK
from bus.hooksets.files_in_force import FileInForce, Rejected, file_in_force
from bus.hooksets.hookfile import HookFile
from bus.hooksets.projects import project_in_force
from bus.hooksets.trust import listed, trusted_file
from bus.secrets.redaction import redact_text
from bus.system.directories import Directories, config_file

_PLACE: Final = re.compile(r"(.+?):(\d+):(\d+): ")


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """One file's content that is not in force; line and column from 1, 0 where unknown."""

    layer: str
    file: str
    line: int
    column: int
    text: str
    """What is wrong, where, and what is in force meanwhile; secrets redacted."""
    problems: tuple[str, ...]


def rejections(places: Directories, cwd: Path) -> tuple[Rejection, ...]:
    """The rejected content of the user's file, of every trusted project, and of the project around `cwd`."""
    return tuple(_rejection(layer, content) for layer, found in _files(places, cwd) for content in found.rejected)


def idle_rules(places: Directories, cwd: Path) -> tuple[Rejection, ...]:
    """The rules of Gobby's workflows in these files that block nothing, since their condition reads what nothing has."""
    return tuple(
        _idle_rule(layer, warning)
        for layer, found in _files(places, cwd)
        for warning in found.file.warnings
        if warning.endswith(NO_BLOCK)
    )


def _idle_rule(layer: str, warning: str) -> Rejection:
    text, place = redact_text(warning), _PLACE.match(warning)
    file, line, column = place.groups() if place is not None else ("", "0", "0")
    return Rejection(layer=layer, file=file, line=int(line), column=int(column), text=text, problems=(text,))


def _files(places: Directories, cwd: Path) -> Iterator[tuple[str, FileInForce]]:
    user = config_file(places.config) or places.config / "fleethook.yaml"
    yield "user", file_in_force(user, "user", places.last_good)
    try:
        projects = [Path(project.path) for project in listed(places.trust_file)]
    except ConfigError as error:
        broken = Rejected(str(places.trust_file), "", (error,), "no project is trusted")
        yield "project", FileInForce(HookFile(), (broken,))
        return
    current_project = trusted_file(cwd, places.trust_file, user=user)
    for path in dict.fromkeys([*projects, *([current_project] if current_project is not None else [])]):
        yield "project", project_in_force(path, places.trust_file, places.last_good)


def _rejection(layer: str, content: Rejected) -> Rejection:
    first = content.problems[0]
    return Rejection(
        layer=layer,
        file=first.file or content.path,
        line=first.line,
        column=first.column,
        text=redact_text(content.text),
        problems=tuple(redact_text(str(problem)) for problem in content.problems),
    )
