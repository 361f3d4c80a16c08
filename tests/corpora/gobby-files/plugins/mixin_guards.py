"""Handlers that come from a mixin, and a base class that is abstract."""

import abc
import re
from typing import ClassVar

from gobby.hooks.events import HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler


class DenyMixin:
    """No plugin by itself."""

    def refuse(self, text: str) -> HookResponse:
        return HookResponse(decision="block", reason=f"{self.name}: {text}", metadata={"by": type(self).__name__})

    @hook_handler("before_tool", priority=20)
    def by_pattern(self, event):
        command = str((event.data.get("tool_input") or {}).get("command") or "")
        for pattern in self.patterns:
            if found := pattern.search(command):
                return self.refuse(found.group(0))


class PatternPlugin(DenyMixin, HookPlugin, abc.ABC):
    patterns: ClassVar[list[re.Pattern]] = []

    @property
    @abc.abstractmethod
    def owner(self) -> str: ...


class MixinGuard(PatternPlugin):
    name = "mixin-guard"
    patterns = [re.compile(r"mixin-(no|never)"), re.compile(r"(?<=--)mixin-flag")]

    @property
    def owner(self) -> str:
        return "ops"
