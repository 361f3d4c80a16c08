"""Exports of every kind as past events."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bus.errors import ConfigError
from bus.events import Event
from bus.verdicts import Part, Verdict
from workers.records.events import RecordedEvent, record
from workers.simulation.past_events import PastEvent, Unreadable, exported_events, only_where, redacted_fields

pytestmark = pytest.mark.req("X-04")

VERDICT = Verdict(decision="deny", parts=(Part(hook="no-rm", decision="deny", layer="fleet"),))
EVENT = Event(type="tool:pre_execute", tool="bash", input={"command": "rm x"}, source="claude", host="h")
RECORD = record(RecordedEvent(id="e1", entry="5-0", ms=5, event=EVENT, verdict=VERDICT))
PAYLOAD = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "rm x"}, "session_id": "s"}


def write(path: Path, *values: Any) -> Path:
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values), encoding="utf-8")
    return path


def test_a_record_has_its_event_its_verdict_and_its_time(tmp_path: Path) -> None:
    (past,) = exported_events(write(tmp_path / "a.jsonl", RECORD))
    assert isinstance(past, PastEvent)
    assert (past.id, past.ms, past.verdict, past.is_redacted) == ("e1", 5, VERDICT, False)
    assert (past.event.input, past.event.source) == ({"command": "rm x"}, "claude")


def test_dead_letters_events_and_payloads_are_read_too(tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.jsonl",
        {"letter": {"id": "e1.log"}, "log": [], "event": RECORD},
        {"letter": {"id": "poison"}},
        {"type": "tool:pre_execute", "tool": "bash", "input": {"command": "ls"}},
        PAYLOAD,
    )
    found = [past for past in exported_events(file) if isinstance(past, PastEvent)]
    assert [(past.id, past.event.tool, past.verdict is None) for past in found] == [
        ("e1", "bash", False),
        (f"{file}:3", "bash", True),
        (f"{file}:4", "bash", True),
    ]


def test_reports_and_repeats_are_left_out(tmp_path: Path) -> None:
    assert list(exported_events(write(tmp_path / "a", {**RECORD, "same": True}, {**RECORD, "of": "e0"}))) == []


def test_bad_lines_are_named_and_the_others_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(f"{json.dumps(RECORD)}\n[1]\nno json\n\n{'[' * 100_000}\n" + '{"type": 5, "verdict": null}\n')
    found = list(exported_events(file))
    assert [past.place for past in found if isinstance(past, Unreadable)] == [f"{file}:{n}" for n in (2, 3, 5, 6)]
    assert len(found) == 5


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(json.dumps(RECORD).encode().replace(b"rm x", b"rm \xff"))
    (past,) = exported_events(file)
    assert isinstance(past, PastEvent)
    assert past.event.input["command"] == "rm \ufffd"


def test_times_choose_and_an_event_without_one_stays(tmp_path: Path) -> None:
    file = write(tmp_path / "a", *({**RECORD, "id": f"e{ms}", "time": ms} for ms in (0, 10, 20, 30)))
    assert [past.id for past in exported_events(file, 15, 25) if isinstance(past, PastEvent)] == ["e0", "e20"]


def test_compressed_files_are_read_and_a_broken_one_says_so(tmp_path: Path) -> None:
    whole = gzip.compress(json.dumps(RECORD).encode() * 1)
    (tmp_path / "a.gz").write_bytes(whole)
    assert len(list(exported_events(tmp_path / "a.gz"))) == 1
    (tmp_path / "b.gz").write_bytes(whole[:-12])
    with pytest.raises(ConfigError, match="cannot be read"):
        list(exported_events(tmp_path / "b.gz"))


def test_fields_with_replaced_secrets_are_found(tmp_path: Path) -> None:
    secret = {**RECORD, "input": {"command": "x [redacted]", "edits": [{"new": "[redacted:jwt]"}]}}
    (past,) = exported_events(write(tmp_path / "a", secret))
    assert isinstance(past, PastEvent)
    assert past.is_redacted
    assert redacted_fields(past.event) == ["input.command", "input.edits.new"]


def test_a_condition_chooses(tmp_path: Path) -> None:
    page = list(exported_events(write(tmp_path / "a", RECORD, {**RECORD, "tool": "write", "verdict": None})))
    assert only_where(page, "") == page
    assert only_where(page, "event.tool == 'write'") == page[1:]
    assert only_where(page, "verdict.decision == 'deny'") == page[:1]
    assert only_where(page, "event.input.nothing == 1") == []
