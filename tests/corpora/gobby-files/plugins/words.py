import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gobby.hooks.events import HookEventType, HookResponse  # noqa: E402
from gobby.hooks.plugins import HookPlugin, hook_handler  # noqa: E402

import word_helper  # noqa: E402

from ._words import bad  # noqa: E402


class Words(HookPlugin):
    name = "words"

    @hook_handler(HookEventType.BEFORE_TOOL, priority=30)
    def check(self, event):
        found = bad(str(event.data.get("tool_input", {}).get("command", "")))
        if found:
            return HookResponse(decision="block", reason=f"words: {sorted(found)} {word_helper.SUFFIX}")
