"""One hook file of this host, checked periodically: its content in force, and its rejected content."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from bus.config.files import is_gone
from bus.errors import ConfigError
from bus.hooks import Layer
from bus.hooksets.files_in_force import FileInForce, file_in_force
from bus.hooksets.hookfile import HookFile
from bus.hooksets.last_good import Kept
from bus.hooksets.projects import project_in_force, project_state

log = logging.getLogger("fleethook.hooks")


class WatchedFile:
    """A hook file as it is in force here; `check` raises ConfigError for content that cannot be compiled."""

    def __init__(
        self, layer: Layer, path: Path, trust_file: Path, last_good: Path | None, check: Callable[[HookFile], object]
    ) -> None:
        self.layer, self._path, self._trust, self._folder, self._compile = layer, path, trust_file, last_good, check
        self._looked = 0.0
        self._seen: tuple[str, str] | None = None
        """The digests of a project's content: as trusted, and at the last check."""
        self._kept: Kept | None = None
        self._current: FileInForce | None = None
        self._logged: tuple[str, ...] = ()

    def current(self, every: float) -> FileInForce:
        """The content in force; the file is checked again if the last check is more than `every` seconds ago."""
        now = time.monotonic()
        if self._current is None or now - self._looked >= every:
            self._looked = now
            self._current = self._check_file(self._current)
        return self._current

    def _check_file(self, before: FileInForce | None) -> FileInForce:
        if self.layer == "project":
            # By content and not only by its stamp: the files that its commands name belong to it.
            seen = project_state(self._path, self._trust)
            unchanged = seen == self._seen
            self._seen = seen
        else:
            unchanged = True
        if before is not None and unchanged and not any(source.changed() for source in before.sources):
            return before
        found = self._read()
        try:
            self._compile(found.file)
        except ConfigError as error:
            log.error("%s: the set that was in force stays", error)
            return (before or FileInForce(HookFile()))._replace(sources=found.sources)
        self._kept = found.kept
        self._log_rejected(found)
        return found

    def _read(self) -> FileInForce:
        if self.layer == "project":
            return project_in_force(self._path, self._trust, self._folder, self._kept)
        return file_in_force(self._path, self.layer, self._folder, self._kept)

    def _log_rejected(self, found: FileInForce) -> None:
        """Log rejected content that was not logged before."""
        texts = tuple(
            dict.fromkeys(
                [
                    *(rejected.text for rejected in found.rejected),
                    *(
                        []
                        if found.kept is not None or self.layer != "project" or is_gone(self._path)
                        else [
                            f"{self._path} is not trusted, none of its hooks run; `fleethook hooks trust` shows and trusts it"
                        ]
                    ),
                ]
            )
        )
        for text in texts:
            if text not in self._logged:
                log.error("%s", text)
        self._logged = texts
