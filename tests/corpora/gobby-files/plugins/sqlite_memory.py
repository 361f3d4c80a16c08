"""Remembers in a database below ~/.gobby which commands failed, and says so the next time."""

import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path

from gobby.hooks.events import HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler


class SqliteMemory(HookPlugin):
    name = "sqlite-memory"
    version = "2.3.1"

    def on_load(self, config):
        self.path = Path(config.get("path", "~/.gobby/seen/failures.db")).expanduser()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.db() as db:
            db.execute("create table if not exists failures (command text primary key, times integer)")

    @contextmanager
    def db(self):
        with closing(sqlite3.connect(self.path)) as connection, connection:
            yield connection

    @hook_handler(HookEventType.AFTER_TOOL, priority=80)
    def remember(self, event, core_response=None):
        if event.metadata.get("is_failure"):
            with self.db() as db:
                db.execute(
                    "insert into failures values (?, 1) on conflict (command) do update set times = times + 1",
                    (event.data["tool_input"].get("command"),),
                )

    @hook_handler(HookEventType.BEFORE_TOOL, priority=30)
    def recall(self, event):
        command = event.data.get("tool_input", {}).get("command")
        with self.db() as db:
            row = db.execute("select times from failures where command = ?", (command,)).fetchone()
        if row and row[0] >= 2:
            return HookResponse(decision="deny", reason=f"it failed {row[0]} times")
        return HookResponse(context=f"it failed {row[0]} time before") if row else None
