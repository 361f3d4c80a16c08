import os
from os import environ, getenv
from gobby.hooks.events import HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler

WEBHOOK = os.environ.get("TEAM_WEBHOOK", "unset")


class EnvReader(HookPlugin):
    name = "env-reader"

    def on_load(self, config):
        self.token = getenv("TEAM_TOKEN")
        self.mode = environ.get("TEAM_MODE", "lenient")

    @hook_handler(HookEventType.BEFORE_TOOL, priority=20)
    def check(self, event):
        if event.data.get("tool_input", {}).get("command") == "env-no":
            return HookResponse(decision="deny", reason=f"{WEBHOOK} {self.token} {self.mode} {os.environ.get('HOME')}")
