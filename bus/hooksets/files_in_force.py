"""Which content of a hook file is in force: its present content, or its last good content if it has new errors (X-10).

If a file was in force and now has an error, nothing changes. If a file was never in force, its good entries count (F-11).
Both are true of the hook file and of each file that it imports.
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

from bus.config.documents import recording_files
from bus.config.files import Source, is_gone, reading_as, stamp
from bus.errors import ConfigError, NotAccepted
from bus.hooks import Layer
from bus.hooksets.hookfile import HookFile, load_hook_file
from bus.hooksets.last_good import Copy, Kept, forget, kept_file, locked, named_path, read_kept, write_kept
from bus.hooksets.pinned_imports import folder_name

log = logging.getLogger("fleethook.hooks")

_TRIES: Final = 5
"""How often a file that changes while it is read is read again. After that, the next check reads it."""

_LINE: Final = re.compile(r"[0-9]+")
_MARKS: Final = re.compile(r"(?:---|\.\.\.)?\s*(?:#.*|~|null|Null|NULL)?")


class Rejected(NamedTuple):
    """Content of one file that is not in force, and why."""

    path: str
    """The real path."""
    digest: str
    """SHA-256 (hex) of the content, or of the first error if the file cannot be read."""
    problems: tuple[ConfigError, ...]
    meanwhile: str = "nothing of this change is in force, the last good content stays in force"

    @property
    def text(self) -> str:
        """The first error with its place, the number of further errors, and what is in force instead."""
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        return f"{self.problems[0]}{more}; {self.meanwhile}"


class FileInForce(NamedTuple):
    """A hook file as it is in force."""

    file: HookFile
    rejected: tuple[Rejected, ...] = ()
    texts: Mapping[str, str] = {}
    """The texts that were read, by real path; for a file with rejected content, its last good text."""
    sources: tuple[Source, ...] = ()
    """The files to watch: while none of them changes, the same content is in force."""
    kept: Kept | None = None
    """The contents to keep for later; None if nothing of the file could be read."""

    @property
    def version(self) -> str:
        """The beginning of the content's digest; empty without a file, `unread` if none of its content was ever in force."""
        return self.file.digest[:8] or ("unread" if self.rejected else "")


def file_in_force(path: Path, layer: Layer, folder: Path | None, known: Kept | None = None) -> FileInForce:
    """The content of a hook file that is in force. Keeps it in `folder`, for other and later processes.

    `known` is what this process had in force; it counts, and is kept again, if the copy in the folder is lost or damaged.
    A process that does not know it leaves a damaged copy as it is while the file has errors: a running one may know it.
    If the file is gone, nothing of it is in force or kept. Raises ConfigError if no content of it can be read, now or before.
    """
    for _ in range(_TRIES):
        before = _sources(path, folder)
        on_disk = read_kept(folder, path) if folder is not None else None
        kept = on_disk or known
        if is_gone(path):
            if folder is not None and kept is not None:
                forget(folder, path)
            return FileInForce(HookFile(), sources=before)
        found, new = _judge(path, layer, kept)
        whole = found._replace(sources=(*before, *found.file.sources), kept=new)
        if new == on_disk or new is None or folder is None:  # a copy that was lost or damaged is written again
            return whole
        if kept is None and found.file.problems and kept_file(folder, path).exists():
            return whole
        try:
            with locked(folder):
                if any(source.changed() for source in whole.sources):
                    continue
                write_kept(folder, new)
                return whole._replace(sources=(*_sources(path, folder), *found.file.sources))
        except ConfigError as error:
            log.error("%s; the hooks in force are not kept for the time after this process", error)
            return whole
    return whole


def _sources(path: Path, folder: Path | None) -> tuple[Source, ...]:
    """The file itself, and the file that keeps its last good content."""
    places = (path, *(() if folder is None else (kept_file(folder, path),)))
    return tuple(Source(str(place), stamp(place)) for place in places)


def _kept_of(found: FileInForce, path: Path, copies: Mapping[str, Copy]) -> Kept | None:
    """The contents to keep: each file's text, with the errors that it had when it came into force.

    None if nothing of the file could be read, now or before.
    """
    by_file = _by_file(found.file.problems)
    unread = {name for name, problems in by_file.items() if any(error.unread for error in problems)} - set(copies)
    if os.path.realpath(path) not in found.texts.keys() - unread:
        return None
    real = os.path.realpath(path)
    named = {os.path.realpath(source.path): named_path(Path(source.path)) for source in found.file.sources}
    return Kept(
        path=named_path(path),
        real=real if real != named_path(path) else "",
        files={
            name: Copy(
                text=text, problems=tuple(sorted(map(_key, by_file.get(name, ())))), named=_other_name(name, named)
            )
            for name, text in found.texts.items()
            if name not in unread
        },
    )


def _other_name(real: str, named: Mapping[str, str]) -> str:
    return name if (name := named.get(real, real)) != real else ""


def _moved(copies: Mapping[str, Copy], problems: Iterable[ConfigError]) -> Mapping[str, Copy]:
    """The kept texts under the present real paths of files with errors: a file may have become a link, or its link another."""
    for problem in problems:
        written = Path(problem.source or problem.file)
        real, named = os.path.realpath(written), named_path(written)
        before = next((name for name, copy in copies.items() if named in (name, copy.named)), None)
        if real not in copies and before is not None:
            copies = {real if name == before else name: copy for name, copy in copies.items()}
    return copies


def _judge(path: Path, layer: Layer, kept: Kept | None) -> tuple[FileInForce, Kept | None]:
    """Reads the hook file, with the last good text of each file that has a new error; also the contents to keep."""
    copies: Mapping[str, Copy] = kept.files if kept is not None else {}
    instead: dict[str, str] = {}
    rejected: list[Rejected] = []
    while True:
        with reading_as(instead) as texts:
            file = _load(path, layer)
        copies = _moved(copies, file.problems)
        found = FileInForce(file, tuple(rejected), texts)
        wrong = [
            (name, problems)
            for name, problems in _errors(file, texts, copies).items()
            if name in copies and name not in instead and not _accepted(copies[name], texts.get(name), problems)
        ]
        if not wrong:
            break
        hook_file = os.path.realpath(path)  # a broken link is an error, and not a removed file
        wrong = [
            (name, problems)
            for name, problems in wrong
            if name == hook_file or not is_gone(problems[0].source or problems[0].file) or _is_pinned(problems)
        ]
        for name, problems in wrong:
            instead[name] = copies[name].text
            rejected.append(Rejected(name, _digest(texts.get(name), problems), tuple(problems)))
        if not wrong:
            break
    return found._replace(rejected=(*rejected, *left_out(file, texts))), _kept_of(found, path, copies)


def left_out(file: HookFile, texts: Mapping[str, str]) -> Iterator[Rejected]:
    """For each file with errors in some entries: these entries, which are not in force."""
    for name, problems in _by_file(file.problems).items():
        unread = any(problem.unread for problem in problems)
        meanwhile = "nothing of it is in force" if unread else "the wrong entries are left out, the others are in force"
        yield Rejected(name, _digest(texts.get(name), problems), tuple(problems), meanwhile)


def _load(path: Path, layer: Layer) -> HookFile:
    """The file; if it cannot be read at all, an empty one with that error."""
    with recording_files() as read:
        try:
            file = load_hook_file(path, layer)
        except ConfigError as error:
            sources = tuple(Source(os.path.abspath(name), seen) for name, seen in read.items())
            error.unread = True
            return HookFile(problems=(error,), sources=sources)
    return file


def _errors(file: HookFile, texts: Mapping[str, str], copies: Mapping[str, Copy]) -> dict[str, list[ConfigError]]:
    """The errors of each file, by real path. A file that had content and became empty has an error too."""
    found = _by_file(file.problems)
    for name in [name for name in found if folder_name(name) in copies]:
        found[folder_name(name)] = found.pop(name)
    for name, copy in copies.items():
        if name in texts and is_blank(texts[name]) and not is_blank(copy.text):
            found.setdefault(name, []).insert(0, empty_file(name))
    return found


def _by_file(problems: Iterable[ConfigError]) -> dict[str, list[ConfigError]]:
    found: dict[str, list[ConfigError]] = {}
    for problem in problems:
        found.setdefault(os.path.realpath(problem.source or problem.file), []).append(problem)
    return found


def _accepted(copy: Copy, text: str | None, problems: list[ConfigError]) -> bool:
    """Whether the new content may come into force: it is unchanged, or has only errors that the kept content had too."""
    return text == copy.text or not Counter(map(_key, problems)) - Counter(copy.problems)


def _is_pinned(problems: list[ConfigError]) -> bool:
    """Whether the errors are about a pinned import, whose accepted content stays in force even if the file is gone."""
    return any(isinstance(error, NotAccepted) for error in problems)


def _key(problem: ConfigError) -> str:
    """The error's message without numbers: an error whose line moved is not a new one."""
    return _LINE.sub("#", problem.message)


def empty_file(name: str) -> ConfigError:
    """The error of a file that says nothing where there were hooks before: a write was cut off, or its producer failed."""
    hint = "to have no hooks, remove the file or write `hooks: []`"
    return ConfigError("the file is empty", file=name, line=1, hint=hint)


def is_blank(text: str) -> bool:
    """Whether a file has nothing but comments and the marks around a document: `---` may be all that is written by now."""
    lines = (line.strip() for line in text.splitlines())
    return all(not line or line.startswith(("#", "%")) or _MARKS.fullmatch(line) for line in lines)


def _digest(text: str | None, problems: list[ConfigError]) -> str:
    return hashlib.sha256((text if text is not None else str(problems[0])).encode("utf-8", "replace")).hexdigest()
