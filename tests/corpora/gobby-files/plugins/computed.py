"""Names, events and priorities that are not literals."""
from __future__ import annotations

try:
    from gobby.hooks.events import HookEvent, HookEventType, HookResponse
    from gobby.hooks.plugins import *  # noqa: F403
    from gobby.hooks.plugins import HookPlugin, hook_handler
except ImportError:  # pragma: no cover
    raise

import enum
import functools
import gobby.hooks.plugins as gobby_plugins

PREFIX = "computed"
NAME = f"{PREFIX}-one"


class Prio(enum.IntEnum):
    FIRST = 1
    EARLY = 10
    LATE = 90


EVENT = HookEventType.BEFORE_TOOL
before = hook_handler(HookEventType.BEFORE_TOOL, priority=Prio.EARLY)
early = functools.partial(hook_handler, priority=Prio.FIRST + 4)


def deny_word(word):
    def handler(self, event):
        if word in str(event.data.get("tool_input")):
            return HookResponse(decision="deny", reason=f"{self.name} {word}")
    handler.__name__ = f"deny_{word.replace('-', '_')}"
    return handler


class Named(HookPlugin):
    name = NAME
    version = ".".join(["1", "2"])

    @hook_handler(event_type=EVENT, priority=Prio.EARLY)
    def constant(self, event: HookEvent):
        if "constant-no" in str(event.data.get("tool_input")):
            return HookResponse(decision="deny", reason="constant")

    @before
    def by_variable(self, event):
        if "variable-no" in str(event.data.get("tool_input")):
            return HookResponse(decision="deny", reason="variable")

    @early(HookEventType.BEFORE_TOOL)
    def by_partial(self, event):
        if "partial-no" in str(event.data.get("tool_input")):
            return HookResponse(decision="deny", reason="partial")

    made = hook_handler(HookEventType.BEFORE_TOOL, priority=20)(deny_word("made-no"))

    @hook_handler(HookEventType.AFTER_TOOL, priority=60)
    @hook_handler(HookEventType.BEFORE_TOOL, priority=21)
    def stacked(self, event, core_response=None):
        if "stacked-no" in str(event.data.get("tool_input")) and event.event_type == HookEventType.BEFORE_TOOL:
            return HookResponse(decision="deny", reason="stacked")


for _event in (HookEventType.BEFORE_TOOL, HookEventType.BEFORE_AGENT):
    def _watch(self, event, _word="loop-no"):
        if _word in str(event.data):
            return HookResponse(decision="deny", reason=f"loop {event.event_type.value}")
    _watch.__name__ = f"watch_{_event.value}"
    setattr(Named, _watch.__name__, hook_handler(_event, priority=11)(_watch))

if True:
    class Conditional(gobby_plugins.HookPlugin):
        name: str = "conditional-class"

        def __init__(self) -> None:
            super().__init__()
            self.words = ["cond-no"]

        @gobby_plugins.hook_handler(gobby_plugins.HookEventType.BEFORE_TOOL, priority=12)
        def check(self, event: "HookEvent") -> "HookResponse | None":
            if any(w in str(event.data.get("tool_input")) for w in self.words):
                return HookResponse(decision="deny", reason="conditional")
            return None


def make(name: str, word: str):
    class Made(HookPlugin):
        @hook_handler(HookEventType.BEFORE_TOOL, priority=13)
        def check(self, event):
            if word in str(event.data.get("tool_input")):
                return HookResponse(decision="deny", reason=f"made by {name}")
    Made.name = name
    Made.__name__ = "Made" + name.title()
    return Made


FactoryPlugin = make("factory-made", "factory-no")
Typed = type("Typed", (HookPlugin,), {"name": "typed-made", "check": hook_handler(HookEventType.BEFORE_TOOL, priority=14)(deny_word("typed-no"))})
