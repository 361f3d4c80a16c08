"""The hooks of the memory. The event comes as JSON on stdin; `hook.py start|prompt|track|save` says what to do.

Exit 1 (noticed, never blocking) where that cannot be done.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import store


def main() -> int:
    """Read the event, and do what the first argument says."""
    event = json.load(sys.stdin)
    project = os.path.realpath(os.environ.get("CLAUDE_PROJECT_DIR") or event.get("cwd") or os.getcwd())
    context = {"start": start, "prompt": prompt, "track": track, "save": save}[sys.argv[1]](event, project)
    if context:
        answer = {"hookEventName": event["hook_event_name"], "additionalContext": context}
        print(json.dumps({"hookSpecificOutput": answer}))
    return 0


def start(_event: dict[str, Any], project: str) -> str:
    """What is known of the project."""
    return store.summary(project)


def prompt(event: dict[str, Any], project: str) -> str:
    """A new note, or the notes that share a word with the prompt."""
    text = str(event.get("prompt") or "").strip()
    if text.lower().startswith("remember:"):
        note = text.partition(":")[2].strip()
        if not note:
            return ""
        return (
            f"Noted for later sessions: {note}" if store.add_note(project, note) else f"This was noted before: {note}"
        )
    store.note_prompt(project, str(event.get("session_id")), text)
    notes = [note for _, note in store.find_notes(text, project)] if text else []
    return "Remembered: " + "; ".join(notes) if notes else ""


def track(event: dict[str, Any], project: str) -> str:
    """The files that a tool has changed: one, or several where the agent applies patches."""
    given = event.get("tool_input") or {}
    paths = given.get("paths") or [given.get("file_path") or given.get("notebook_path")]
    inside = [
        os.path.relpath(path, project) if is_below(path, project) else path for path in map(str, filter(None, paths))
    ]
    if inside:
        store.add_changes(project, str(event.get("session_id")), str(event.get("tool_name")), inside)
    return ""


def save(event: dict[str, Any], project: str) -> str:
    """Where the work stands, before the context is compacted."""
    store.save_state(project, str(event.get("session_id")), branch(project))
    return ""


def is_below(path: str, project: str) -> bool:
    """Whether a file is in the project."""
    return os.path.isabs(path) and os.path.commonpath((project, os.path.abspath(path))) == project


def branch(project: str) -> str:
    """The branch of the repository, or its commit where none is checked out; empty without one."""
    for command in (("symbolic-ref", "--quiet", "--short", "HEAD"), ("rev-parse", "--short", "HEAD")):
        try:
            done = subprocess.run(
                ("git", "-C", project, *command), capture_output=True, text=True, check=False, timeout=5
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        if done.returncode == 0:
            return done.stdout.strip()
    return ""


if __name__ == "__main__":
    sys.exit(main())
