"""Notices when a hook file or a published set loses guards, even if it changed while no worker ran (X-09)."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from bus.config.files import is_gone, reading_as
from bus.config.hook_file_value import from_document
from bus.errors import ConfigError
from bus.hooks import Hook, Layer
from bus.hooksets.files_in_force import FileInForce
from bus.hooksets.guard_changes import GuardChange, file_mark, weakened
from bus.hooksets.hookfile import HookFile, load_hook_file
from bus.hooksets.last_good import Kept, forget, locked, read_kept, write_kept

log = logging.getLogger("fleethook.hooks")

_MOST_CHANGES: Final = 64
"""How many changes wait to be reported. A process that reports none keeps no more."""

Compile = Callable[[Layer, HookFile], Mapping[str, Hook]]
"""Gives every hook of one file, by id."""


class GuardWatch:
    """Compares the hooks of each file and of the published set with those at the last check, and notes lost guards.

    `last_good` is the folder of the last good contents. Its subfolder `reported` has the contents that workers have
    already compared and reported, so that a command that reads a changed file does not hide the change from them. If
    `last_good` is None, only changes during this process are noticed.
    """

    def __init__(self, host: str, last_good: Path | None, compile_file: Compile) -> None:
        self._host, self._last_good, self._compile = host, last_good, compile_file
        self._hooks: dict[Path, tuple[str, Mapping[str, Hook]]] = {}
        """The digest of the content in force and its hooks, by file."""
        self._earlier: dict[Path, Kept] = {}
        self._unkept: dict[Path, Kept | None] = {}
        """The content in force that is not yet written to `reported`, by file."""
        self.weakened: list[GuardChange] = []
        """Changes that weakened guards, until they are reported."""

    def recall(self, path: Path) -> None:
        """Read the content that an earlier process had in force. Call it before the file is first read, which replaces it."""
        if self._last_good is None:
            return
        kept = read_kept(self._last_good / "reported", path) or read_kept(self._last_good, path)
        if kept is not None:
            self._earlier[path] = kept

    def compare(self, layer: Layer, path: Path, found: FileInForce) -> None:
        """Note the guards that a file lost since the last check."""
        before = self._hooks.get(path)
        if before is not None and before[0] == found.file.digest:
            return
        if before is None and found.kept is None and not is_gone(path):
            return  # it cannot be read
        now = self._compile(layer, found.file)
        earlier = self._earlier.pop(path, None)
        if before is None and earlier is not None and earlier != found.kept:
            before = ("", self._hooks_of(layer, path, earlier))
        self._hooks[path], self._unkept[path] = (found.file.digest, now), found.kept
        if before is not None:
            seen = {source.path: source.stamp[0] for source in reversed(found.sources)}
            mark = file_mark(str(path), found.file.digest, (entry.path for entry in found.file.imports), seen)
            self.note(before[1], now, "file", str(path), f"{self._host}\n{mark}")

    def note(self, before: Mapping[str, Hook], after: Mapping[str, Hook], how: str, where: str, about: str) -> None:
        """Note the guards of `before` that are missing or weaker in `after`."""
        losses = weakened(before, after)
        if not losses or len(self.weakened) >= _MOST_CHANGES:
            return
        log.warning("%s weakens guards: %s", where, ", ".join(f"{loss.guard} {loss.how}" for loss in losses[:20]))
        self.weakened.append(
            GuardChange(how=how, where=where, losses=losses, about=about, host=self._host, ms=time.time_ns() // 10**6)
        )

    def keep(self) -> None:
        """Keep the contents in force on disk, once their changes are reported: the next process compares with them."""
        folder = self._last_good and self._last_good / "reported"
        while self._unkept:
            path, kept = self._unkept.popitem()
            if folder is None:
                continue
            try:
                with locked(folder):
                    if kept is not None:
                        write_kept(folder, kept)
                    elif is_gone(path):
                        forget(folder, path)
            except ConfigError as error:
                log.error("%s; a change of %s while no worker runs may not be noticed", error, path)

    def _hooks_of(self, layer: Layer, path: Path, kept: Kept) -> Mapping[str, Hook]:
        """The hooks of a file's earlier content, read by this version, so that an upgrade does not look like a change."""
        try:
            if kept.contents is not None:
                return self._compile(layer, from_document(kept.contents, layer=layer))
            with reading_as({os.path.realpath(name): text for name, text in kept.files_text().items()}):
                return self._compile(layer, load_hook_file(path, layer))
        except ConfigError as error:
            log.warning("%s: its earlier content cannot be read any more: %s", path, error)
            return {}
