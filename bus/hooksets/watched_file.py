"""One hook file of this host, looked at now and then: what of it is in force, and what is not."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from bus.config.documents import Stamp, stamp
from bus.config.hookfile import HookFile, load_hook_file
from bus.config.trust import is_trusted
from bus.errors import ConfigError
from bus.hooks import Layer
from bus.hooksets.files_in_force import FileInForce, Rejected, file_in_force
from bus.hooksets.last_good import Kept

log = logging.getLogger("fleethook.hooks")


class WatchedFile:
    """A hook file as it is in force here; `check` raises ConfigError where a content cannot be compiled."""

    def __init__(
        self, layer: Layer, path: Path, trust_file: Path, last_good: Path | None, check: Callable[[HookFile], object]
    ) -> None:
        self._layer, self._path, self._trust, self._folder, self._check = layer, path, trust_file, last_good, check
        self._looked = 0.0
        self._trusted: tuple[Stamp, bool] | None = None
        """A project's file as it was read last, and whether it was trusted; None where it has to be read again."""
        self._kept: Kept | None = None
        self._current: FileInForce | None = None
        self._said: tuple[Rejected, ...] = ()

    def current(self, every: float) -> FileInForce:
        """What is in force, looked at again where the last look is more than `every` seconds ago."""
        now = time.monotonic()
        if self._current is None or now - self._looked >= every:
            self._looked = now
            self._current = self._look(self._current)
        return self._current

    def _look(self, before: FileInForce | None) -> FileInForce:
        if self._layer == "project":
            return self._look_project(before)
        if before is not None and not any(source.changed() for source in before.sources):
            return before
        found = file_in_force(self._path, self._layer, self._folder, self._kept)
        try:
            self._check(found.file)
        except ConfigError as error:
            log.error("%s: the set that was in force stays", error)
            return (before or FileInForce(HookFile()))._replace(sources=found.sources)
        self._kept = found.kept
        for one in found.rejected:
            if one not in self._said:
                log.error("%s", one.text)
        self._said = found.rejected
        for problem in found.file.problems:
            log.error("%s: this entry is left out", problem)
        return found

    def _look_project(self, before: FileInForce | None) -> FileInForce:
        known, nothing = before or FileInForce(HookFile()), FileInForce(HookFile())
        found = stamp(self._path)
        trusted = is_trusted(self._path, self._trust)
        if (found, trusted) == self._trusted and not any(source.changed() for source in known.sources):
            return known
        self._trusted = (found, trusted)
        if not trusted:
            log.warning(
                "%s is not trusted, none of its hooks run; `fleethook hooks trust` shows and trusts it", self._path
            )
            return nothing
        try:
            file = load_hook_file(self._path, self._layer)
            self._check(file)
        except ConfigError as error:
            log.error("%s: the set that was in force stays", error)
            return known
        if not is_trusted(self._path, self._trust):
            self._trusted = None  # changed between the look and the reading: looked at again
            return known
        for problem in file.problems:
            log.error("%s: this entry is left out", problem)
        return FileInForce(file, sources=file.sources)
