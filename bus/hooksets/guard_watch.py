"""Notices what a file or a published set takes from its guards, also where it was changed while no worker ran (X-09)."""

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
"""How many changes wait to be reported; a process that reports none keeps a few."""

Compile = Callable[[Layer, HookFile], Mapping[str, Hook]]
"""Every hook of a file alone, by id."""


class GuardWatch:
    """What each hook file and the published set had in force at the last look, and which of it is gone or weaker since.

    `last_good` is the folder of the last good contents. Below it lies what the workers have reported on already: a command
    that looks at a changed file does not hide the change from them. None compares within this process alone.
    """

    def __init__(self, host: str, last_good: Path | None, compile_file: Compile) -> None:
        self._host, self._last_good, self._compile = host, last_good, compile_file
        self._hooks: dict[Path, tuple[str, Mapping[str, Hook]]] = {}
        """By file, the digest of what is in force, and its hooks."""
        self._earlier: dict[Path, Kept] = {}
        self._unkept: dict[Path, Kept | None] = {}
        """By file, what is in force now, where that is not on disk as reported."""
        self.weakened: list[GuardChange] = []
        """Changes that weakened guards; reporting them takes them out."""

    def recall(self, path: Path) -> None:
        """Look up what an earlier process had in force of a file; before the first look, which replaces that."""
        if self._last_good is None:
            return
        kept = read_kept(self._last_good / "reported", path) or read_kept(self._last_good, path)
        if kept is not None:
            self._earlier[path] = kept

    def compare(self, layer: Layer, path: Path, found: FileInForce) -> None:
        """Note what a file's content takes from the guards that it had at the last look."""
        before = self._hooks.get(path)
        if before is not None and before[0] == found.file.digest:
            return
        if before is None and found.kept is None and not is_gone(path):
            return  # nothing of it can be read
        now = self._compile(layer, found.file)
        earlier = self._earlier.pop(path, None)
        if before is None and earlier is not None and earlier != found.kept:
            before = ("", self._hooks_of(layer, path, earlier))
        self._hooks[path], self._unkept[path] = (found.file.digest, now), found.kept
        if before is not None:
            seen = {one.path: one.stamp[0] for one in reversed(found.sources)}
            mark = file_mark(str(path), found.file.digest, (one.path for one in found.file.imports), seen)
            self.note(before[1], now, "file", str(path), f"{self._host}\n{mark}")

    def note(self, before: Mapping[str, Hook], after: Mapping[str, Hook], how: str, where: str, about: str) -> None:
        """Note what `after` takes from the guards of `before`."""
        losses = weakened(before, after)
        if not losses or len(self.weakened) >= _MOST_CHANGES:
            return
        log.warning("%s weakens guards: %s", where, ", ".join(f"{loss.guard} {loss.how}" for loss in losses[:20]))
        self.weakened.append(
            GuardChange(how=how, where=where, losses=losses, about=about, host=self._host, ms=time.time_ns() // 10**6)
        )

    def keep(self) -> None:
        """Keep on disk what is in force, once its changes are reported: the next process compares with that."""
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
                log.error("%s; a change of %s while no worker runs may stay unnoticed", error, path)

    def _hooks_of(self, layer: Layer, path: Path, kept: Kept) -> Mapping[str, Hook]:
        """The hooks of a file as it was, read by this version of Fleethook, so that an upgrade is no change of the file."""
        try:
            if kept.contents is not None:
                return self._compile(layer, from_document(kept.contents, layer=layer))
            with reading_as({os.path.realpath(name): text for name, text in kept.files_text().items()}):
                return self._compile(layer, load_hook_file(path, layer))
        except ConfigError as error:
            log.warning("%s: what was in force before cannot be read any more: %s", path, error)
            return {}
