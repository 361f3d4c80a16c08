"""The memory of a project: notes, changed files, and where the work stood, in `.ion/memory` below the project.

Called by the plugin's hooks, with the event as JSON on stdin:

    start    prints where the work stood and what changed last; plain text on stdout becomes context
    recall   takes a prompt that begins with "remember:" as a note; else gives back the notes that share a word with it
    track    writes down which files a tool has changed
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SHOWN = 10


def main() -> int:
    """Read the event and do what the first argument says; exit 1 (noticed, not blocking) where that cannot be done."""
    event = json.load(sys.stdin)
    store = Path(os.environ.get("CLAUDE_PROJECT_DIR") or os.environ["ION_CWD"], ".ion", "memory")
    store.mkdir(parents=True, exist_ok=True)
    {"start": start, "recall": recall, "track": track}[sys.argv[1]](event, store)
    return 0


def start(_event: dict[str, Any], store: Path) -> None:
    """The state that was saved last, and the files that changed since."""
    state = store / "state.md"
    if state.exists():
        print(state.read_text(encoding="utf-8").strip())
    changed = list(dict.fromkeys(entry["path"] for entry in entries(store / "changes.jsonl")))[-SHOWN:]
    if changed:
        print(f"Files changed lately: {', '.join(changed)}")


def recall(event: dict[str, Any], store: Path) -> None:
    """A new note, or the notes that have to do with the prompt."""
    prompt = event["prompt"].strip()
    notes = store / "notes.jsonl"
    if prompt.lower().startswith("remember:"):
        note = prompt.partition(":")[2].strip()
        append(notes, {"note": note, "session": event["session_id"]})
        answer(event, f"Noted for later sessions: {note}")
        return
    words = set(re.findall(r"\w{4,}", prompt.lower()))
    found = [entry["note"] for entry in entries(notes) if words & set(re.findall(r"\w{4,}", entry["note"].lower()))]
    if found:
        answer(event, "Remembered: " + "; ".join(found[-SHOWN:]))


def track(event: dict[str, Any], store: Path) -> None:
    """The files that a tool has changed: one, or several where the agent applies patches."""
    given = event["tool_input"]
    paths = given.get("paths") or [given.get("file_path") or given.get("notebook_path")]
    for path in filter(None, paths):
        append(store / "changes.jsonl", {"path": path, "tool": event["tool_name"], "session": event["session_id"]})


def answer(event: dict[str, Any], context: str) -> None:
    """Context for the model, in Claude Code's form."""
    print(json.dumps({"hookSpecificOutput": {"hookEventName": event["hook_event_name"], "additionalContext": context}}))


def append(path: Path, entry: dict[str, Any]) -> None:
    """One line more; several hooks may write at a time."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def entries(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file, if it is there."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


if __name__ == "__main__":
    sys.exit(main())
