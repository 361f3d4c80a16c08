"""Actions and conditions for workflows."""
from typing import Any

from gobby.hooks.plugins import HookPlugin


class Actions(HookPlugin):
    name = "my.actions-plugin"
    version = "1.2.3"

    def __init__(self):
        super().__init__()
        self.calls: list[dict[str, Any]] = []

    def on_load(self, config):
        self.word = config.get("word", "word")
        self.register_action("remember", self.remember)
        self.register_action("sync_one", self.sync_one)
        self.register_action("explode", self.explode)
        self.register_workflow_action(
            "typed",
            {"type": "object", "properties": {"count": {"type": "integer"}, "label": {"type": "string"}, "tags": {"type": "array"}, "o": {"type": "object"}}, "required": ["count"]},
            self.typed,
        )
        try:
            self.register_workflow_action("typed", {}, self.typed)
        except ValueError:
            self.logger.info("a taken name is refused")
        else:
            raise AssertionError("register_workflow_action took a taken name")
        self.register_action("sync_one", self.sync_one)
        self.register_condition("remembered", lambda text=None: bool(self.calls) if text is None else any(c.get("text") == text for c in self.calls))
        self.register_condition("always", lambda: True)
        self.register_condition("broken", self.broken)
        self.register_condition("more_than", self.more_than)
        assert self._actions["typed"].schema["required"] == ["count"]
        assert set(self._conditions) == {"remembered", "always", "broken", "more_than"}

    def broken(self):
        raise ValueError("a condition that raises")

    def more_than(self, a, b=0):
        return a > b

    async def remember(self, context, text=None, **kwargs):
        self.calls.append({"text": text, "session": context.session_id})
        context.state.variables["remembered_by_state"] = text
        return {"remembered": text, "inject_context": f"{self.word}: {text}", "extra": sorted(k for k in kwargs if k not in ("action", "when"))}

    def sync_one(self, context, **kwargs):
        return {"sync": True, "step": getattr(context.state, "step", None) or getattr(context.state, "phase", None)}

    async def explode(self, context, **kwargs):
        raise RuntimeError("exploded")

    async def typed(self, context, count, label="x", tags=None, **kwargs):
        return {"typed": count * 2, "label": label, "tags": tags or [], "got": context.get("count")}
