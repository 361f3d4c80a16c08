"""Reads regular files of bounded size, with a stamp that shows later changes.

Within `reading_as`, files are read as their last good content.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from stat import S_ISREG
from typing import Final, NamedTuple

from bus.config.json_documents import SPLIT
from bus.errors import ConfigError

TEXT_LIMIT: Final = 4 * 1024 * 1024
"""The most bytes of one file."""

Stamp = tuple[int, int, int]
"""Time of change in nanoseconds, size and inode; all zero for a missing file. A changed file has another stamp."""

NOTHING: Final[Stamp] = (0, 0, 0)
"""The stamp of a missing file."""


class Source(NamedTuple):
    """A file or folder that was read, with its stamp at that time."""

    path: str
    stamp: Stamp

    def changed(self) -> bool:
        """Whether it has changed since."""
        return stamp(self.path) != self.stamp


files_read: ContextVar[dict[str, Stamp] | None] = ContextVar("files_read", default=None)
"""The files that `read_file` has read, by path; see `documents.recording_files`."""
_instead: ContextVar[Mapping[str, str] | None] = ContextVar("instead", default=None)
_texts: ContextVar[dict[str, str] | None] = ContextVar("texts", default=None)


@contextmanager
def reading_as(instead: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Reads each file in `instead` (text by real path) as that text; yields the text of every file that is read."""
    texts: dict[str, str] = {}
    tokens = _instead.set(instead), _texts.set(texts)
    try:
        yield texts
    finally:
        _instead.reset(tokens[0])
        _texts.reset(tokens[1])


def stamp(path: Path | str) -> Stamp:
    """The current stamp of a file or folder."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return NOTHING
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def read_as_known(path: Path | str) -> bool:
    """Whether the file is read as another text in this context (`reading_as`)."""
    instead = _instead.get()
    return instead is not None and os.path.realpath(path) in instead


def known_text(name: str) -> str | None:
    """The text in this context (`reading_as`) for a name that is not a file; None where there is none."""
    instead = _instead.get()
    text = instead.get(name) if instead is not None else None
    if text is not None:
        note_text(name, text)
    return text


def note_text(name: str, text: str) -> None:
    """Collect a text for a name that is not a file (`reading_as`)."""
    texts = _texts.get()
    if texts is not None:
        texts[name] = text


def is_gone(path: Path | str) -> bool:
    """Whether the file is missing. A file below a folder without access does not count as missing."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def read_file(path: Path) -> str:
    """The text of a regular file of at most 4 MiB; ConfigError with the reason where it cannot be read."""
    name = str(path)
    files = files_read.get()
    if files is not None:
        files.setdefault(name, stamp(path))  # taken before reading, so that a change meanwhile is noticed
    instead, texts = _instead.get(), _texts.get()
    if instead is None or texts is None:
        return _disk_text(path, name)
    real = os.path.realpath(path)
    known = instead.get(real)
    text = texts[real] = _disk_text(path, name) if known is None else known
    return text


def _disk_text(path: Path, name: str) -> str:
    try:
        # Non-blocking, so that a FIFO with no writer cannot hold a worker.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            if not S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError("this is not a regular file", file=name)
            raw = stream.read(TEXT_LIMIT + 1)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", file=name) from error
    except ValueError as error:  # a NUL in the path
        raise ConfigError("cannot be read: the path is not valid", file=repr(name)) from error
    if len(raw) > TEXT_LIMIT:
        raise too_large(name)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = len(raw[raw.rfind(b"\n", 0, error.start) + 1 : error.start].decode("utf-8", "replace")) + 1
        raise ConfigError("this is not UTF-8", file=name, line=line, column=column, hint="save it as UTF-8") from error


def too_large(file: str) -> ConfigError:
    """The error for a file above the limit."""
    return ConfigError(f"the file is larger than {TEXT_LIMIT // (1024 * 1024)} MiB", file=file, hint=SPLIT)
