"""One handler that sends each event to a method by its name, with a table made in __init_subclass__."""

from gobby.hooks.events import HookEvent, HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler


class Router(HookPlugin):
    routes: dict = {}

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.routes = {name[3:]: value for name, value in vars(cls).items() if name.startswith("on_tool_")}

    def route(self, event: HookEvent) -> HookResponse | None:
        handler = self.routes.get(f"tool_{event.data.get('tool_name', '').lower()}")
        return handler(self, event) if handler else None


class PlanRouter(Router):
    name = "plan-router"
    enabled = True

    @hook_handler(event_type=HookEventType.BEFORE_TOOL, priority=33)
    def before(self, event: HookEvent):
        return self.route(event)

    def on_tool_bash(self, event):
        if event.data["tool_input"]["command"] == "routed":
            return HookResponse(decision="deny", reason=f"{event.event_type.name} {event.event_type.value} routed")

    def on_tool_webfetch(self, event):
        url = event.data["tool_input"].get("url", "")
        return None if url.startswith("https://docs.") else HookResponse(decision="deny", reason=f"no docs: {url}")

    @hook_handler(event_type=HookEventType.BEFORE_AGENT, priority=33)
    def prompt(self, event: HookEvent):
        if event.data["prompt"].startswith("!routed"):
            return HookResponse(context="routed context", system_message="routed to the person")
