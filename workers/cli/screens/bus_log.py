"""Shows what the bus logs while a command runs as messages of the command: without secrets, and each text once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from bus.secrets.redaction import redact_text

if TYPE_CHECKING:
    from workers.cli.common import Context


class LoggedMessages(logging.Handler):
    """Passes warnings and errors to the command; with `--verbose` also INFO, with the logger's name."""

    def __init__(self, fleet: Context) -> None:
        super().__init__(logging.INFO if fleet.verbose else logging.WARNING)
        self._fleet = fleet

    def emit(self, record: logging.LogRecord) -> None:
        """Show one record, unless the command reports such findings itself."""
        text = redact_text(self.format(record) if self._fleet.verbose else record.getMessage())
        if self._fleet.verbose:
            self._fleet.warn(text, f"{record.name}: ")
        elif not self._fleet.quiet:
            self._fleet.warn(text)


def show_logged(fleet: Context) -> None:
    """Show what is logged from now on, in place of an earlier command's handler; a worker's `set_up` replaces this one."""
    root = logging.getLogger()
    root.handlers[:] = [one for one in root.handlers if not isinstance(one, LoggedMessages)] + [LoggedMessages(fleet)]
    if fleet.verbose:
        root.setLevel(logging.INFO)
