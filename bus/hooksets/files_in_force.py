"""Which content of a hook file is in force: what the file says now, or its last good content where that has errors (X-10).

A file that was in force and now has an error changes nothing. One that was never in force counts by its good entries
(F-11). Both hold for the hook file and for each file that it imports.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from bus.config.documents import gathering
from bus.config.files import Source, is_gone, reading_as, stamp
from bus.errors import ConfigError, NotAccepted
from bus.hooks import Layer
from bus.hooksets.hookfile import HookFile, load_hook_file
from bus.hooksets.last_good import Copy, Kept, forget, kept_file, locked, read_kept, write_kept
from bus.hooksets.pinned_imports import folder_name

log = logging.getLogger("fleethook.hooks")

_TRIES: Final = 5
"""How often a file that changes while it is read is read again, before it is left to the next look."""

_LINE: Final = re.compile(r"[0-9]+")


class Rejected(NamedTuple):
    """Content of one file that is not in force, and why."""

    path: str
    """Real."""
    digest: str
    """SHA-256 (hex) of the content, or of the errors where it cannot be read."""
    problems: tuple[ConfigError, ...]
    meanwhile: str = "nothing of this change is in force, the last good content stays in force"

    @property
    def text(self) -> str:
        """The first error with its place, how many more there are, and what is in force meanwhile."""
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        return f"{self.problems[0]}{more}; {self.meanwhile}"


class FileInForce(NamedTuple):
    """A hook file as it is in force."""

    file: HookFile
    rejected: tuple[Rejected, ...] = ()
    texts: Mapping[str, str] = {}
    """By real path: what was read, the last good text where the file's own is rejected."""
    sources: tuple[Source, ...] = ()
    """What has to change before another content can be in force."""
    kept: Kept | None = None
    """What is kept of it; None where none of it could be read."""


def file_in_force(path: Path, layer: Layer, folder: Path | None, known: Kept | None = None) -> FileInForce:
    """What is in force of a hook file; keeps it in `folder`, for every process and later.

    `known` is what this process had in force, where the folder cannot be used. A file that is gone has nothing in force,
    and nothing of it is kept. ConfigError where no content of it can be read, now or before.
    """
    for _ in range(_TRIES):
        before = _sources(path, folder)
        kept = (read_kept(folder, path) if folder is not None else None) or known
        if is_gone(path):
            if folder is not None and kept is not None:
                forget(folder, path)
            return FileInForce(HookFile(), sources=before)
        found, new = _judge(path, layer, kept)
        whole = found._replace(sources=(*before, *found.file.sources), kept=new)
        if new == kept or new is None or folder is None:
            return whole
        try:
            with locked(folder):
                if any(one.changed() for one in whole.sources):
                    continue
                write_kept(folder, new)
                return whole._replace(sources=(*_sources(path, folder), *found.file.sources))
        except ConfigError as error:
            log.error("%s; what is in force now will be lost with this process", error)
            return whole
    return whole


def _sources(path: Path, folder: Path | None) -> tuple[Source, ...]:
    """The file itself, and what is kept of it."""
    places = (path, *(() if folder is None else (kept_file(folder, path),)))
    return tuple(Source(str(place), stamp(place)) for place in places)


def _kept_of(found: FileInForce, path: Path, copies: Mapping[str, Copy]) -> Kept | None:
    """What has to be known of it later: each file's text, with the errors that it had when it came into force.

    None where nothing of the file could be read, now or before.
    """
    by_file = _by_file(found.file.problems)
    unread = {name for name, problems in by_file.items() if any(one.unread for one in problems)} - set(copies)
    if os.path.realpath(path) not in found.texts.keys() - unread:
        return None
    return Kept(
        path=os.path.realpath(path),
        files={
            name: Copy(text=text, problems=tuple(sorted(map(_key, by_file.get(name, ())))))
            for name, text in found.texts.items()
            if name not in unread
        },
    )


def _judge(path: Path, layer: Layer, kept: Kept | None) -> tuple[FileInForce, Kept | None]:
    """The file with the last good text of each file in it that has a new error, and what is to be kept of that."""
    copies = kept.files if kept is not None else {}
    instead: dict[str, str] = {}
    rejected: list[Rejected] = []
    while True:
        with reading_as(instead) as texts:
            file = _load(path, layer)
        found = FileInForce(file, tuple(rejected), texts)
        wrong = [
            (name, problems)
            for name, problems in _errors(file, texts, copies).items()
            if name in copies and name not in instead and not _accepted(copies[name], texts.get(name), problems)
        ]
        if not wrong:
            break
        wrong = [(name, problems) for name, problems in wrong if not is_gone(name) or _is_pinned(problems)]
        for name, problems in wrong:
            instead[name] = copies[name].text
            rejected.append(Rejected(name, _digest(texts.get(name), problems), tuple(problems)))
        if not wrong:
            break
    return found._replace(rejected=(*rejected, *left_out(file, texts))), _kept_of(found, path, copies)


def left_out(file: HookFile, texts: Mapping[str, str]) -> Iterator[Rejected]:
    """By file, the entries with errors that are not in force while the others are."""
    for name, problems in _by_file(file.problems).items():
        unread = any(problem.unread for problem in problems)
        meanwhile = "nothing of it is in force" if unread else "what is wrong is left out, the rest is in force"
        yield Rejected(name, _digest(texts.get(name), problems), tuple(problems), meanwhile)


def _load(path: Path, layer: Layer) -> HookFile:
    """The file, or nothing but the error that keeps all of it from being read."""
    with gathering() as read:
        try:
            file = load_hook_file(path, layer)
        except ConfigError as error:
            sources = tuple(Source(os.path.abspath(name), seen) for name, seen in read.items())
            error.unread = True
            return HookFile(problems=(error,), sources=sources)
    return file


def _errors(file: HookFile, texts: Mapping[str, str], copies: Mapping[str, Copy]) -> dict[str, list[ConfigError]]:
    """By real path: what is wrong with each file; that it became empty is an error of a file that held something."""
    found = _by_file(file.problems)
    for name in [one for one in found if folder_name(one) in copies]:
        found[folder_name(name)] = found.pop(name)
    for name, copy in copies.items():
        if name in texts and _blank(texts[name]) and not _blank(copy.text):
            hint = "remove the file, or write `hooks: []`, where it is to hold none"
            found.setdefault(name, []).insert(0, ConfigError("the file is empty", file=name, line=1, hint=hint))
    return found


def _by_file(problems: Iterable[ConfigError]) -> dict[str, list[ConfigError]]:
    found: dict[str, list[ConfigError]] = {}
    for problem in problems:
        found.setdefault(os.path.realpath(problem.source or problem.file), []).append(problem)
    return found


def _accepted(copy: Copy, text: str | None, problems: list[ConfigError]) -> bool:
    """Whether a content may come into force: it is the same, or has no error that the one in force did not have."""
    return text == copy.text or not Counter(map(_key, problems)) - Counter(copy.problems)


def _is_pinned(problems: list[ConfigError]) -> bool:
    """Whether a file is one that a person accepted: that it is gone takes nothing away."""
    return any(isinstance(one, NotAccepted) for one in problems)


def _key(problem: ConfigError) -> str:
    """An error without its place: a line that moved is no new error."""
    return _LINE.sub("#", problem.message)


def _blank(text: str) -> bool:
    return all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines())


def _digest(text: str | None, problems: list[ConfigError]) -> str:
    return hashlib.sha256((text if text is not None else str(problems[0])).encode("utf-8", "replace")).hexdigest()
