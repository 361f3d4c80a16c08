"""Corpora of tool calls with what the guards should say to each, and the figures of what they said (X-09)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple

import msgspec

from bus.errors import ConfigError
from bus.events import Event, EventType
from bus.hooksets.guards import TEST_DIRECTORY
from bus.lazy.conversions import from_json
from bus.secrets.redaction import redact_text
from bus.tools import TABLE, canonical_input, canonical_tool
from bus.verdicts import Decision

Expected = Literal["deny", "ask", "stop", "allow"]
"""`stop` is deny or ask; `allow` that no rule objects."""

ANOTHER_HOST: Final = "corpus.invalid"
"""The default host of lines. It is not this machine, so that this machine's disk has no influence."""

_LONGEST: Final = 1_000_000
"""Characters of one line."""
_NATIVE: Final = {"codex": "PreToolUse"}
"""By agent, the name of its event before a tool call, where a rule is about that event alone (`open-prompt`)."""


class CorpusLine(NamedTuple):
    """One line of a corpus: the tool call as an event, what is expected, and its place (`file:line`)."""

    event: Event
    expect: Expected
    group: str
    place: str

    @property
    def call(self) -> str:
        """The call as it is shown: the command, else the tool and its input, or the prompt; without secrets."""
        if self.event.type == EventType.USER_PROMPT_SUBMIT:
            return redact_text(f"prompt: {self.event.data.get('prompt')}")
        command = self.event.input.get("command")
        shown = redact_text(command if isinstance(command, str) else msgspec.json.encode(self.event.input).decode())
        return shown if self.event.tool == "bash" else f"{self.event.native_tool or self.event.tool} {shown}"

    @property
    def identity(self) -> str:
        """The tool and input as text; two lines with the same text are the same call."""
        given = [self.event.tool, self.event.input, self.event.data]
        return msgspec.json.encode(given, order="sorted").decode()


class Judged(NamedTuple):
    """The decision of the guards on a line, with the rules that made it."""

    line: CorpusLine
    decision: Decision
    rules: tuple[str, ...]
    seconds: float
    """The time for the whole verdict."""
    guard_seconds: float = 0.0
    """The part of that time in which the guards read and judged the line; the engine took the rest."""

    @property
    def stopped(self) -> bool:
        """Whether the call would not have run unasked."""
        return self.decision in ("deny", "ask")

    @property
    def finding(self) -> Literal["missed", "false alarm", "other decision", ""]:
        """The mistake; empty if there is none. A wrong decision that stops the call too is an `other decision`."""
        if self.line.expect == "allow":
            return "false alarm" if self.stopped else ""
        if not self.stopped:
            return "missed"
        return "" if self.line.expect in ("stop", self.decision) else "other decision"


class CorpusFigures(NamedTuple):
    """How many of the lines to stop were stopped, and how many of the harmless ones."""

    to_stop: int
    stopped: int
    harmless: int
    false_alarms: int

    @property
    def recall(self) -> float | None:
        """Percent of the lines to stop that were stopped; None without such lines."""
        return 100 * self.stopped / self.to_stop if self.to_stop else None

    @property
    def false_alarm_rate(self) -> float | None:
        """Percent of the harmless lines that were stopped; None without such lines."""
        return 100 * self.false_alarms / self.harmless if self.harmless else None


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    expect: Expected
    command: str | None = None
    prompt: str | None = None
    tool: str = ""
    input: dict[str, Any] = {}
    cwd: str = TEST_DIRECTORY
    agent: str = ""
    group: str = "other"
    origin: str = ""
    why: str = ""


def read_corpus(text: bytes, file: str, *, host: str = ANOTHER_HOST) -> tuple[list[CorpusLine], list[ConfigError]]:
    """The lines of a corpus as events of `host`, and what is wrong with the others, each with its file and line.

    A line is a JSON object: `command`, `prompt`, or `tool` with `input`; `expect`; and optionally `cwd`, `group`, `agent`,
    `origin` and `why`. Empty lines are left out.
    """
    lines: list[CorpusLine] = []
    problems: list[ConfigError] = []
    for number, raw in enumerate(text.split(b"\n"), 1):
        if not raw.strip():
            continue
        try:
            lines.append(_line(raw, f"{file}:{number}", host))
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
            problems.append(ConfigError(f"no line of a corpus: {error}", file=file, line=number))
    return lines, problems


def lines_without(lines: Iterable[CorpusLine], known: Iterable[CorpusLine]) -> list[CorpusLine]:
    """The lines whose calls are not among `known`: a line that rules were written with measures nothing."""
    seen = {line.identity for line in known}
    return [line for line in lines if line.identity not in seen]


def figures(judged: Iterable[Judged]) -> CorpusFigures:
    """The figures of these lines together."""
    counts = {"to_stop": 0, "stopped": 0, "harmless": 0, "false_alarms": 0}
    for one in judged:
        total, hit = ("harmless", "false_alarms") if one.line.expect == "allow" else ("to_stop", "stopped")
        counts[total] += 1
        counts[hit] += one.stopped
    return CorpusFigures(**counts)


def figures_by_group(judged: Iterable[Judged]) -> dict[str, CorpusFigures]:
    """The figures of each group, in the order of their names."""
    groups: dict[str, list[Judged]] = {}
    for one in judged:
        groups.setdefault(one.line.group, []).append(one)
    return {name: figures(groups[name]) for name in sorted(groups)}


def _line(raw: bytes, place: str, host: str) -> CorpusLine:
    if len(raw) > _LONGEST:
        raise ValueError(f"it has {len(raw)} bytes; {_LONGEST} is the most")
    entry = from_json(raw, _Entry)
    if sum((entry.command is not None, entry.prompt is not None, bool(entry.tool))) != 1:
        raise ValueError("it needs either `command`, or `tool` with `input`, or `prompt`")
    if not entry.tool and entry.input:
        raise ValueError("`input` belongs to `tool`; a `command` or `prompt` has none")
    if entry.prompt is not None:
        kind, source = EventType.USER_PROMPT_SUBMIT.value, entry.agent or "generic"
        data = {"prompt": entry.prompt}
        return CorpusLine(
            Event(type=kind, source=source, host=host, cwd=entry.cwd, data=data), entry.expect, entry.group, place
        )
    tool = entry.tool or "bash"
    agent = entry.agent or next((name for name, own in TABLE.items() if entry.tool and tool in own), "generic")
    given = entry.input if entry.command is None else {"command": entry.command}
    event = Event(
        type=EventType.TOOL_PRE_EXECUTE.value,
        source=agent,
        host=host,
        cwd=entry.cwd,
        tool=canonical_tool(agent, tool),
        native=_NATIVE.get(agent, ""),
        native_tool=tool,
        input=canonical_input(agent, tool, given),
    )
    return CorpusLine(event, entry.expect, entry.group, place)
