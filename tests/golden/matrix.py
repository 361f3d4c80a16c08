"""What the golden tests of several agents share: the verdicts, the texts that they must come back as, and the payloads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bus.agents.base import AgentDialect
from bus.events import Event
from bus.shim.answer import HookAnswer
from bus.verdicts import Part, Verdict, failed
from bus.wire.codec import encode_event, unpack

HERE = Path(__file__).parent

PARTS = (
    Part(hook="no-writes", decision="deny", origin="fleethook.yaml:12"),
    Part(hook="careful", decision="ask", origin="fleethook.yaml:20"),
    Part(hook="trusted", decision="allow", origin="fleethook.yaml:30"),
    Part(hook="quiet", decision="abstain"),
)
CHANGE = {"content": "x"}
VERDICTS = {
    "deny": Verdict(decision="deny", event="e1", reason="Notes are frozen", instead="open an issue", parts=PARTS),
    "ask": Verdict(decision="ask", event="e1", reason="Notes are shared", parts=PARTS),
    "allow": Verdict(decision="allow", event="e1", reason="It is yours", parts=PARTS),
    "abstain": Verdict(event="e1", parts=PARTS),
    "context": Verdict(event="e1", contexts=("CI is frozen.", "", "It opens at 18:00."), parts=PARTS),
    "rewrite": Verdict(event="e1", updated_input=CHANGE, parts=PARTS),
    "allow+rewrite": Verdict(decision="allow", event="e1", reason="It is yours", updated_input=CHANGE, parts=PARTS),
    "ask+rewrite": Verdict(decision="ask", event="e1", reason="Notes are shared", updated_input=CHANGE, parts=PARTS),
    "fallback open": failed("allow", "timeout", event="e1"),
    "fallback closed": failed("deny", "timeout", event="e1"),
    "fallback ask": failed("ask", "timeout", event="e1"),
}

DENIED = "Notes are frozen. Instead: open an issue. [fleethook: no-writes; fleethook trace e1]"
ASKED = "Notes are shared. [fleethook: careful; fleethook trace e1]"
ALLOWED = "It is yours. [fleethook: trusted; fleethook trace e1]"
CONTEXT = "CI is frozen.\n\nIt opens at 18:00."
_CALL_IT = 'A hook changed the input: call the tool with {"content":"x"}.'
CALL_IT = f"{_CALL_IT} [fleethook trace e1]"
ASKED_CALL_IT = f"Notes are shared. {_CALL_IT} [fleethook: careful; fleethook trace e1]"
CHANGED = "A hook changed the input of this call. [fleethook trace e1]"
ASKED_CHANGED = ASKED
NO_VERDICT = "fleethook could not get a verdict (timeout); its failure policy is deny. [fleethook trace e1]"
NO_VERDICT_ASK = "fleethook could not get a verdict (timeout); its failure policy is ask. [fleethook trace e1]"


def unaskable(label: str, native: str) -> str:
    """The reason of a deny that was an ask."""
    extra = f"A person has to approve it, and {label} cannot ask for that at {native}."
    return f"Notes are shared. {extra} [fleethook: careful; fleethook trace e1]"


def unaskable_fallback(label: str, native: str) -> str:
    """The reason of a deny that was a failure policy's ask."""
    said = "fleethook could not get a verdict (timeout); its failure policy is ask."
    return f"{said} A person has to approve it, and {label} cannot ask for that at {native}. [fleethook trace e1]"


def note(text: str) -> str:
    """A message to the person."""
    return f"fleethook: {text} (fleethook trace e1)"


BLOCKED = note("blocked by no-writes (fleethook.yaml:12)")
ASK_BLOCKED = note("blocked by careful (fleethook.yaml:20)")
CHANGE_BLOCKED = note("blocked since a hook changed the input")
INPUT_CHANGED = note("the tool's input was changed")
OPEN = note("no hook answered (timeout): nothing blocked")
SHUT = note("no hook answered (timeout): denied by failure policy")


def no_context(native: str) -> str:
    """The message where context has no place."""
    return note(f"context was dropped: {native} takes none")


def no_input(native: str) -> str:
    """The message where a changed input has no place."""
    return note(f"a changed input was dropped: {native} carries none")


def no_ask(native: str) -> str:
    """The message where nobody can be asked."""
    return note(f"a hook wanted a person's approval, which {native} cannot ask for: Notes are shared")


def no_block(native: str) -> str:
    """The message where nothing can be blocked."""
    return note(f"a hook wanted to block, which {native} cannot: Notes are frozen")


def line(said: Mapping[str, Any]) -> HookAnswer:
    """The answer that is this JSON object and nothing else."""
    return HookAnswer(0, json.dumps(said, separators=(",", ":")).encode("ascii"))


def recorded(agent: str) -> list[Path]:
    """The payloads of an agent, each in a file named for its event."""
    return sorted((HERE / agent).glob("*.json"))


def native_of(path: Path) -> str:
    """The native event that a payload's file is named for."""
    return path.stem.partition("-")[2].rpartition("-")[0]


def sample(dialect: AgentDialect, agent: str, native: str, name: str = "") -> Event:
    """A recorded event of this name, or a bare one; `name` chooses the file."""
    for path in recorded(agent):
        if native_of(path) == native and path.stem.endswith(name):
            return dialect.read(native, path.read_bytes(), host="here")
    return dialect.read(native, b"{}")


def check_kept(event: Event, sent: Mapping[str, Any]) -> None:
    """All that was sent is in `raw`, and the event can travel."""
    assert event.raw == sent
    unpack(encode_event(event))


def same(answer: HookAnswer, expected: HookAnswer) -> None:
    """Exit code, stdout and stderr are the same bytes; one JSON object at most, and exit code 2 only with a reason."""
    assert (answer.exit_code, answer.stdout, answer.stderr) == (expected.exit_code, expected.stdout, expected.stderr)
    if answer.exit_code:
        assert answer.exit_code == 2
        assert answer.stdout == b""
        assert answer.stderr.strip()


def texts(value: object) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


def oversized(limit: int) -> Verdict:
    """A deny, with context, whose texts are far too long and of characters outside the basic plane."""
    parts = (Part(hook="h" * 600, decision="deny"),)
    return Verdict(
        decision="deny", event="e1", reason="\U0001f600" * limit, contexts=("\u00e9" * limit, "b" * limit), parts=parts
    )


ODD = Verdict(
    decision="deny", event="e1", reason="half \ud83d end\x1b[31m\nnext", parts=(Part(hook="odd", decision="deny"),)
)
ODD_REASON = "half \ud83d end[31m\nnext. [fleethook: odd; fleethook trace e1]"
