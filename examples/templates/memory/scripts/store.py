"""The memory: one SQLite file for all projects of this user, shared by the hooks of all sessions and by the tools.

Everything is in a transaction of its own, and a writer waits for the others, so any number of sessions may use it at once.
The file is the user's alone (mode 0600), since notes and prompts may hold anything.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WAIT_SECONDS = 9.0
MOST_TEXT = 4000
MOST_NOTES = 2000
_WORD = re.compile(r"\w{3,}")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS notes (
    id INTEGER PRIMARY KEY, project TEXT NOT NULL, text TEXT NOT NULL, at REAL NOT NULL, UNIQUE (project, text));
CREATE TABLE IF NOT EXISTS changes (
    project TEXT NOT NULL, path TEXT NOT NULL, session TEXT NOT NULL, tool TEXT NOT NULL, times INTEGER NOT NULL,
    at REAL NOT NULL, PRIMARY KEY (project, session, path));
CREATE TABLE IF NOT EXISTS sessions (
    project TEXT NOT NULL, session TEXT NOT NULL, prompt TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (project, session));
CREATE TABLE IF NOT EXISTS states (project TEXT PRIMARY KEY, text TEXT NOT NULL, at REAL NOT NULL);
"""


def database() -> Path:
    """The file: `MEMORY_DB`, else `fleethook-memory/memory.db` in the user's data folder."""
    named = os.environ.get("MEMORY_DB")
    data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(named) if named else Path(data, "fleethook-memory", "memory.db")


def plain(value: object, most: int = MOST_TEXT) -> str:
    """A text that every file can hold: without half characters, and of at most so many characters."""
    return str(value).encode("utf-8", "replace").decode("utf-8")[:most]


@contextmanager
def opened() -> Iterator[sqlite3.Connection]:
    """The database in one transaction, which ends with the block."""
    path = database()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        for statement in filter(str.strip, _SCHEMA.split(";")):
            connection.execute(statement)
        yield connection
        connection.execute("COMMIT")
    finally:
        connection.close()  # without COMMIT, nothing was written


def add_note(project: str, text: str) -> bool:
    """Keep a note; False for one that is known already."""
    with opened() as db:
        row = (plain(project), plain(text.strip()), time.time())
        return db.execute("INSERT OR IGNORE INTO notes (project, text, at) VALUES (?, ?, ?)", row).rowcount == 1


def find_notes(query: str, project: str | None = None, most: int = 10) -> list[tuple[str, str]]:
    """Notes with their projects: those that share most words with the query first, then the newest.

    A note without a project is for all. Without `project`, those of every project; without words in the query, the newest.
    """
    where, values = ("", ()) if project is None else ("WHERE project IN (?, '')", (plain(project),))
    with opened() as db:
        rows = db.execute(
            f"SELECT project, text FROM notes {where} ORDER BY at DESC, id DESC LIMIT {MOST_NOTES}", values
        )
        notes = [(str(of), str(text)) for of, text in rows]
    words = set(_WORD.findall(query.casefold()))
    shared = [(len(words & set(_WORD.findall(text.casefold()))), number) for number, (_, text) in enumerate(notes)]
    fitting = sorted((-count, number) for count, number in shared if count or not words)
    return [notes[number] for _, number in fitting[:most]]


def add_changes(project: str, session: str, tool: str, paths: list[str]) -> None:
    """Count a change of each file."""
    with opened() as db:
        db.executemany(
            "INSERT INTO changes VALUES (?, ?, ?, ?, 1, ?) "
            "ON CONFLICT DO UPDATE SET times = times + 1, tool = excluded.tool, at = excluded.at",
            [(plain(project), plain(path), plain(session), plain(tool, 100), time.time()) for path in paths],
        )


def note_prompt(project: str, session: str, prompt: str) -> None:
    """Keep the last prompt of a session."""
    with opened() as db:
        db.execute(
            "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?)",
            (plain(project), plain(session), plain(prompt, 500), time.time()),
        )


def save_state(project: str, session: str, branch: str) -> str:
    """Keep where a session's work stands; returns the text."""
    with opened() as db:
        key = (plain(project), plain(session))
        prompt = db.execute("SELECT prompt FROM sessions WHERE project = ? AND session = ?", key).fetchone()
        rows = db.execute(
            "SELECT path, times FROM changes WHERE project = ? AND session = ? ORDER BY at DESC LIMIT 20", key
        ).fetchall()
        lines = [f"Before the context was compacted (session {key[1]}):"]
        lines += [f"The last prompt was: {prompt[0]}"] if prompt else []
        lines += [f"The branch was {plain(branch, 200)}."] if branch else []
        lines += (
            ["Changed in that session: " + ", ".join(f"{path} (times: {times})" for path, times in rows)]
            if rows
            else []
        )
        text = "\n".join(lines)
        db.execute("INSERT OR REPLACE INTO states VALUES (?, ?, ?)", (key[0], text, time.time()))
        return text


def summary(project: str) -> str:
    """What a new session is told: where the work stood, what changed last, the newest notes."""
    with opened() as db:
        state = db.execute("SELECT text FROM states WHERE project = ?", (plain(project),)).fetchone()
        rows = db.execute(
            "SELECT path FROM changes WHERE project = ? GROUP BY path ORDER BY max(at) DESC LIMIT 10", (plain(project),)
        ).fetchall()
    notes = [text for _, text in find_notes("", project, most=5)]
    parts = [str(state[0])] if state else []
    parts += ["Files that agents changed last: " + ", ".join(str(path) for (path,) in rows)] if rows else []
    parts += ["Notes: " + "; ".join(notes)] if notes else []
    return "\n".join(parts)
