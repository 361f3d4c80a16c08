"""What the golden tests of the agents share: the recorded payloads, and the verdicts that are rendered for each event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bus.agents.base import AgentDialect
from bus.events import Event
from bus.shim.answer import HookAnswer
from bus.verdicts import Part, Verdict, failed

PARTS = (
    Part(hook="no-writes", decision="deny", origin="fleethook.yaml:12"),
    Part(hook="careful", decision="ask", origin="fleethook.yaml:20"),
    Part(hook="trusted", decision="allow", origin="fleethook.yaml:30"),
    Part(hook="quiet", decision="abstain"),
)
CHANGED = {"command": "echo better"}
VERDICTS = {
    "deny": Verdict(decision="deny", event="e1", reason="Not on Fridays", instead="wait", parts=PARTS),
    "ask": Verdict(decision="ask", event="e1", reason="It is shared", parts=PARTS),
    "allow": Verdict(decision="allow", event="e1", reason="It is yours", parts=PARTS),
    "abstain": Verdict(event="e1", parts=PARTS),
    "context": Verdict(event="e1", contexts=("CI is frozen.", "", "It opens at 18:00."), parts=PARTS),
    "deny+context": Verdict(decision="deny", event="e1", reason="Not on Fridays", contexts=("Be calm.",), parts=PARTS),
    "rewrite": Verdict(event="e1", updated_input=CHANGED, parts=PARTS),
    "allow+rewrite": Verdict(decision="allow", event="e1", reason="It is yours", updated_input=CHANGED, parts=PARTS),
    "ask+rewrite": Verdict(decision="ask", event="e1", reason="It is shared", updated_input=CHANGED, parts=PARTS),
    "fallback open": failed("allow", "timeout", event="e1"),
    "fallback closed": failed("deny", "timeout", event="e1"),
    "fallback ask": failed("ask", "timeout", event="e1"),
    "oversized": Verdict(decision="deny", event="e1", reason="\u20ac" * 30_000, parts=PARTS),
    "half a pair": Verdict(decision="deny", event="e1", reason="echo \ud83d end", contexts=("\udc00",), parts=PARTS),
}
NOT_PINNED = {"oversized", "half a pair"}  # judged by what they must hold, not byte by byte


def recorded(folder: Path) -> list[Path]:
    """The payloads of a folder; what is not a payload there has no hyphen in its name."""
    return sorted(folder.glob("*-*.json"))


def native_of(path: Path) -> str:
    """The event's name in a file's name, e.g. captured-http-Stop-1.json."""
    return path.stem.removeprefix("captured-").removeprefix("documented-").removeprefix("http-").rpartition("-")[0]


def one(dialect: AgentDialect, native: str, call: dict[str, Any]) -> Event:
    """An event of this name with the one tool call that all answers are made for."""
    return dialect.read(native, json.dumps({"session_id": "s", "hook_event_name": native, **call}).encode())


def pinned(folder: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """The answers by event and verdict; one that is not there is empty."""
    found: dict[str, dict[str, dict[str, Any]]] = json.loads((folder / "answers.json").read_text())
    return found


def as_pinned(answer: HookAnswer) -> dict[str, Any]:
    """An answer as it stands in answers.json."""
    said = {"exit": answer.exit_code, "stdout": answer.stdout.decode("ascii"), "stderr": answer.stderr.decode()}
    return {name: value for name, value in said.items() if value}


def well_formed(answer: HookAnswer) -> bool:
    """One JSON object and nothing before or after it; exit 2 with its text on stderr and nothing on stdout."""
    if answer.exit_code == 2:
        return not answer.stdout and bool(answer.stderr.strip())
    if answer.exit_code or answer.stderr:
        return False
    return not answer.stdout or (answer.stdout[:1] == b"{" and isinstance(json.loads(answer.stdout), dict))
