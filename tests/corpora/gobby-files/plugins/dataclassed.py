from __future__ import annotations
import dataclasses as dc
from enum import Enum
from gobby.hooks import events as ev, plugins as pl


class Verdict(str, Enum):
    NO = "deny"
    HMM = "ask"


@dc.dataclass
class DataPlugin(pl.HookPlugin):
    limit: int = 2
    seen: list = dc.field(default_factory=list)

    name = "dataclassed"
    version = "2.0"

    def __post_init__(self):
        super().__init__()
        self.logger.info("post init")

    def on_load(self, config):
        for key, value in config.items():
            setattr(self, key, value)

    @pl.hook_handler(ev.HookEventType.BEFORE_TOOL, 30)
    def limit_calls(self, event: "ev.HookEvent") -> "ev.HookResponse | None":
        command = (event.data.get("tool_input") or {}).get("command", "")
        if not command.startswith("dc "):
            return None
        self.seen.append(command)
        if len(self.seen) > self.limit:
            return dc.replace(ev.HookResponse(), decision=Verdict.NO, reason=f"dataclassed {len(self.seen)}/{self.limit}")
        if command == "dc ask":
            return ev.HookResponse(Verdict.HMM, reason="dc asks")
