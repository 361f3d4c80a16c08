"""Names by property, mixins, decorators of their own, static and class methods."""
import functools

from gobby.hooks.events import HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler


def only(tool):
    def wrap(method):
        @functools.wraps(method)
        def inner(self, event, *rest):
            return method(self, event, *rest) if event.data.get("tool_name") == tool else None
        return inner
    return wrap


class DenyMixin:
    deny_word = ""

    @hook_handler(HookEventType.BEFORE_TOOL, priority=33)
    def deny_by_word(self, event):
        if self.deny_word and self.deny_word in str(event.data.get("tool_input")):
            return HookResponse(decision="deny", reason=f"{self.name}: {self.deny_word}")


class Mixed(DenyMixin, HookPlugin):
    name = "mixed"
    deny_word = "mixed-no"


class ByProperty(HookPlugin):
    name = "by-property"

    @property
    def version(self):
        return "9." + "9"

    @property
    def description(self):
        return f"{self.name} has a described version"

    @hook_handler(HookEventType.BEFORE_TOOL, priority=34)
    @only("Bash")
    def wrapped(self, event):
        if "property-no" in event.data["tool_input"].get("command", ""):
            return HookResponse(decision="deny", reason=f"by-property {self.version}")

    @only("Bash")
    @hook_handler(HookEventType.BEFORE_TOOL, priority=34)
    def wrapped_outside(self, event):
        if "outside-no" in event.data["tool_input"].get("command", ""):
            return HookResponse(decision="deny", reason="wrapped outside")

    @staticmethod
    @hook_handler(HookEventType.BEFORE_TOOL, priority=35)
    def static(event):
        if "static-no" in str(event.data.get("tool_input")):
            return HookResponse(decision="deny", reason="static")

    @classmethod
    @hook_handler(HookEventType.BEFORE_TOOL, priority=36)
    def of_class(cls, event):
        if "class-no" in str(event.data.get("tool_input")):
            return HookResponse(decision="deny", reason=f"class {cls.name}")
