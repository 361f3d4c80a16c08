"""Imports a package that is beside it, absolutely, by sys.path, and relatively."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from acme_helpers import shout
from acme_helpers.text import shout as again
from .acme_helpers.text import shout as third
from gobby.hooks.events import HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler


class HelperUser(HookPlugin):
    name = "helper-user"

    @hook_handler(HookEventType.BEFORE_TOOL, priority=5)
    def loud(self, event):
        if event.data.get("tool_input", {}).get("command") == "helper-no":
            return HookResponse(decision="deny", reason=shout(again(third("no"))))
