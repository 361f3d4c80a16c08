"""Uses each field and helper of HookEvent."""
import dataclasses
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

from gobby.hooks.events import HookEvent, HookEventType, HookResponse, SessionSource
from gobby.hooks.plugins import HookPlugin, hook_handler

OUT = Path.home() / ".gobby" / "seen" / "fields.jsonl"
NAMES = ["event_type", "session_id", "source", "timestamp", "data", "machine_id", "cwd", "user_id", "project_id", "task_id", "workflow_id", "metadata"]


class Fields(HookPlugin):
    name = "fields"

    def problems(self, event):
        yield [f.name for f in dataclasses.fields(HookEvent)][:12] == NAMES, "field order"
        yield [f.name for f in dataclasses.fields(HookResponse)][:7] == ["decision", "context", "system_message", "reason", "modify_args", "trigger_action", "metadata"], "response order"
        yield isinstance(event, HookEvent), "class"
        yield isinstance(event.event_type, HookEventType) and event.event_type == "before_tool", "event_type"
        yield event.event_type is HookEventType.BEFORE_TOOL and event.event_type.value == "before_tool" and event.event_type.name == "BEFORE_TOOL", "member"
        yield HookEventType("before_tool") is HookEventType.BEFORE_TOOL and HookEventType["BEFORE_TOOL"] is HookEventType.BEFORE_TOOL, "lookup"
        yield f"{event.event_type.value}" == "before_tool", "format"
        yield {HookEventType.BEFORE_TOOL: 1}["before_tool"] == 1, "hash"
        yield len({m.value for m in HookEventType}) >= 15, "members"
        yield all(m.name == m.value.upper() for m in HookEventType), "names are upper-case values"
        yield isinstance(event.source, SessionSource) and event.source == SessionSource.CLAUDE and event.source.value == "claude", "source"
        yield {s.value for s in SessionSource} >= {"claude", "gemini", "codex", "claude_sdk", "claude_sdk_web_chat", "antigravity", "cursor", "windsurf", "copilot"}, "sources"
        yield isinstance(event.session_id, str) and event.session_id != "", "session_id"
        yield isinstance(event.timestamp, datetime) and abs(datetime.now(timezone.utc) - event.timestamp) < timedelta(hours=1), "timestamp"
        yield type(event.data) is dict and event.data["session_id"] == event.session_id, "data"
        yield event.data["hook_event_name"] == "PreToolUse" and event.data["transcript_path"] == "/tmp/t.jsonl", "raw data"
        yield event.data["tool_name"] == "Bash" and event.data["tool_input"]["command"].startswith("fields"), "tool"
        yield event.cwd == event.data["cwd"], "cwd"
        yield event.machine_id is None or isinstance(event.machine_id, str), "machine_id"
        yield all(getattr(event, n) is None or isinstance(getattr(event, n), str) for n in ("user_id", "project_id", "task_id", "workflow_id")), "ids"
        yield type(event.metadata) is dict, "metadata"
        copy = dataclasses.replace(event, task_id="t1")
        yield copy.task_id == "t1" and copy.data is event.data, "replace"
        as_dict = dataclasses.asdict(event)
        yield list(as_dict)[:12] == NAMES, "asdict"
        yield json.dumps(as_dict, default=str) != "", "json"
        made = HookEvent(HookEventType.STOP, "s", SessionSource.CODEX, datetime.now(timezone.utc), {"a": 1}, "m", "/w", "u", "p", "t", "wf", {"x": 1})
        yield made.metadata == {"x": 1} and made.workflow_id == "wf", "positional"
        yield HookEvent(HookEventType.STOP, "s", SessionSource.CODEX, datetime.now(), {}).metadata == {}, "defaults"
        try:
            HookEventType("nonsense")
            yield False, "unknown value"
        except ValueError:
            pass
        event.metadata["seen"] = True
        event.data["seen"] = True
        event.task_id = "mutable"
        yield event.task_id == "mutable", "mutable"

    @hook_handler(HookEventType.BEFORE_TOOL, priority=45)
    def check(self, event):
        if not str(event.data.get("tool_input", {}).get("command", "")).startswith("fields"):
            return None
        wrong = [name for good, name in self.problems(event) if not good]
        return HookResponse(decision="deny", reason=f"fields: {'wrong: ' + ', '.join(wrong) if wrong else 'all right'}")

    @hook_handler(HookEventType.AFTER_TOOL, priority=70)
    def after(self, event, core_response):
        OUT.parent.mkdir(parents=True, exist_ok=True)
        with OUT.open("a") as out:
            out.write(json.dumps({"source": event.source.value, "tool": event.data.get("tool_name"), "output": event.data.get("tool_output"), "meta": event.metadata, "data": event.data}, default=str) + "\n")
