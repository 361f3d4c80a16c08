"""At most N deploys a session; the handler is wrapped by a decorator of the plugin's own."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import wraps

from gobby.hooks.events import HookEvent, HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler


@dataclass
class SessionState:
    deploys: int = 0
    seen: set[str] = field(default_factory=set)


def only_tools(*names):
    def decorate(function):
        @wraps(function)
        def wrapper(self, event):
            if event.data.get("tool_name") not in names:
                return None
            return function(self, event)

        return wrapper

    return decorate


class SessionQuota(HookPlugin):
    name = "session-quota"

    def __init__(self) -> None:
        self._sessions: dict[str, SessionState] = defaultdict(SessionState)
        super().__init__()

    def on_load(self, config: dict) -> None:
        self.most = int(config.get("most", 2))

    @hook_handler(HookEventType.BEFORE_TOOL, priority=15)
    @only_tools("Bash", "Shell")
    def count(self, event: HookEvent) -> HookResponse | None:
        state = self._sessions[event.session_id]
        command = event.data["tool_input"].get("command", "")
        state.seen.add(command.split()[0] if command else "")
        if command.startswith("quota-deploy"):
            state.deploys += 1
            if state.deploys > self.most:
                return HookResponse("deny", reason=f"deploy {state.deploys} of {self.most}")
        return None

    @hook_handler(HookEventType.SESSION_END)
    def forget(self, event):
        self._sessions.pop(event.session_id, None)
