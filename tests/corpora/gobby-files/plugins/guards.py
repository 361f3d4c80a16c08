"""Several plugins of one file on a common abstract base."""
from abc import abstractmethod

from gobby.hooks.events import HookEvent, HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler


class PathGuard(HookPlugin):
    """No name: only a base."""

    prefixes: tuple[str, ...] = ()

    @abstractmethod
    def message(self, path: str) -> str: ...

    @hook_handler(HookEventType.BEFORE_TOOL, priority=15)
    def check_path(self, event: HookEvent) -> HookResponse | None:
        path = event.data.get("tool_input", {}).get("file_path") or ""
        if path.startswith(self.prefixes):
            return HookResponse(decision="deny", reason=self.message(path))
        return None


class EtcGuard(PathGuard):
    name = "etc-guard"
    prefixes = ("/etc/", "/usr/etc/")

    def message(self, path: str) -> str:
        return f"etc-guard keeps {path}"


class BootGuard(PathGuard):
    name = "boot-guard"
    prefixes = ("/boot/",)

    def message(self, path: str) -> str:
        return f"boot-guard keeps {path}"

    @hook_handler(HookEventType.BEFORE_TOOL, priority=16)
    def check_path(self, event: HookEvent) -> HookResponse | None:
        found = super().check_path(event)
        if found is not None:
            found.reason += " (boot)"
        return found
