"""Uses what plugins use: pathlib, subprocess, sqlite3, threads, contextlib, an executor."""
import contextlib
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from gobby.hooks import events as ev
from gobby.hooks import plugins as gp
import gobby.hooks.plugins
import gobby.hooks.events as hook_events


class Row(NamedTuple):
    session: str
    tool: str


class Net(gp.HookPlugin):
    name = "net-and-threads"

    def on_load(self, config: dict) -> None:
        self.path = Path(config.get("database", "~/.gobby/seen/calls.db")).expanduser()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.pool = ThreadPoolExecutor(2)
        with contextlib.closing(sqlite3.connect(self.path)) as db:
            db.execute("create table if not exists calls(session text, tool text)")
            db.commit()

    def on_unload(self) -> None:
        self.pool.shutdown(wait=True)

    def save(self, row: Row) -> int:
        with contextlib.closing(sqlite3.connect(self.path, timeout=10)) as db:
            db.execute("insert into calls values (?, ?)", row)
            db.commit()
            return db.execute("select count(*) from calls where session = ?", row[:1]).fetchone()[0]

    @gobby.hooks.plugins.hook_handler(hook_events.HookEventType.BEFORE_TOOL, priority=46)
    def store(self, event: ev.HookEvent):
        if event.data.get("tool_input", {}).get("command") != "store":
            return None
        count = self.pool.submit(self.save, Row(event.session_id, event.data["tool_name"])).result(timeout=5)
        code = subprocess.run([sys.executable, "-c", "print('sub')"], capture_output=True, text=True).stdout.strip() if shutil.which("sh") else ""
        return ev.HookResponse(decision="deny", reason=f"stored {count} {code}")
