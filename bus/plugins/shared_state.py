"""What the processes of one plugin keep together on one machine: a small store in a file, changed by one at a time."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, Final

from bus.errors import ConfigError

MOST_KEYS: Final = 10_000
"""The most keys; beyond it, those that were changed longest ago are removed."""
MOST_BYTES: Final = 64 * 1024
"""The most bytes of one value, as JSON."""
_WAIT_SECONDS: Final = 5.0
_LOOK_EVERY: Final = 100
"""The number of keys is looked at once in so many writes."""


class SharedState(MutableMapping[str, Any]):
    """Values by key, which every process of a plugin on this machine sees; they outlive a reload and a restart.

    A value is what JSON can hold. `add` and `change` read and write in one step, so that no count of two processes is lost.
    Without a file it is in memory.
    """

    def __init__(self, file: str = "") -> None:
        self._lock, self._writes = threading.RLock(), 0
        if file:
            os.close(os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        self._database = sqlite3.connect(
            file or ":memory:", timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
        )
        # A crash of the machine may lose the last changes; that of a process loses none.
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS state (key TEXT PRIMARY KEY, value TEXT NOT NULL, changed REAL NOT NULL) "
            "WITHOUT ROWID"
        )

    def __getitem__(self, key: str) -> Any:
        with self._lock:
            row = self._database.execute("SELECT value FROM state WHERE key = ?", (key,)).fetchone()
        if row is None:
            raise KeyError(key)
        return json.loads(row[0])

    def __setitem__(self, key: str, value: Any) -> None:
        with self._lock:
            self._write(key, value)

    def __delitem__(self, key: str) -> None:
        with self._lock:
            if not self._database.execute("DELETE FROM state WHERE key = ?", (key,)).rowcount:
                raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            rows = self._database.execute("SELECT key FROM state ORDER BY key").fetchall()
        return iter([key for (key,) in rows])

    def __len__(self) -> int:
        with self._lock:
            return int(self._database.execute("SELECT COUNT(*) FROM state").fetchone()[0])

    def add(self, key: str, amount: float = 1) -> Any:
        """Add to a number, which is 0 at first; returns the sum."""
        return self.change(key, lambda value: value + amount, 0)

    def change(self, key: str, function: Callable[[Any], Any], default: Any = None) -> Any:
        """Replace a value by what `function` makes of it, in one step; returns the new value."""
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                value = function(self.get(key, default))
                self._write(key, value)
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")
            return value

    def clear(self) -> None:
        """Remove every value."""
        with self._lock:
            self._database.execute("DELETE FROM state")

    def _write(self, key: str, value: Any) -> None:
        text = json.dumps(value)
        if len(text) > MOST_BYTES:
            raise ConfigError(f"the shared value {key!r} has {len(text)} bytes; {MOST_BYTES} is the most")
        self._database.execute("INSERT OR REPLACE INTO state VALUES (?, ?, ?)", (key, text, time.time()))
        self._writes += 1
        if self._writes % _LOOK_EVERY == 0 and (over := len(self) - MOST_KEYS) > 0:
            self._database.execute(
                "DELETE FROM state WHERE key IN (SELECT key FROM state ORDER BY changed LIMIT ?)", (over,)
            )
