"""__init__ overrides in odd ways."""
from gobby.hooks.plugins import HookPlugin as Base, hook_handler as on
from gobby.hooks.events import HookEventType as T, HookResponse as R


class WithDefaults(Base):
    name = "init-defaults"

    def __init__(self, config=None, *args, **kwargs):
        super().__init__()
        self.config = config or {"word": "init-no"}
        self.register_action("early", self.early)
        self.register_condition("ready", lambda: True)

    def early(self, context, **kw):
        return {"early": True}

    @on(T.BEFORE_TOOL, priority=1)
    def check(self, event):
        if self.config["word"] in str(event.data.get("tool_input")):
            return R("block", None, "system: " + self.name, "init-defaults blocks", None, None, {"x": 1})


class NoSuper(Base):
    name = "init-no-super"

    def __init__(self):
        self.count = 0

    @on(T.BEFORE_TOOL, priority=2)
    def check(self, event):
        self.count += 1
        self.logger.debug("count %d", self.count)
        if "nosuper-no" in str(event.data.get("tool_input")):
            return R(decision="deny", reason=f"no super {self.count > 0}")


class Slotted(Base):
    __slots__ = ("words",)
    name = "slotted"

    def on_load(self, config: "dict | None" = None):
        self.words = set((config or {}).get("words", ["slot-no"]))

    @on(event_type=T.BEFORE_TOOL, priority=3)
    def check(self, event, *_, **__):
        hit = self.words & set(str(event.data.get("tool_input", {}).get("command", "")).split())
        return R(decision="deny", reason=f"slotted {sorted(hit)}") if hit else None


class _Registry(type):
    made = []

    def __new__(mcs, name, bases, ns):
        cls = super().__new__(mcs, name, bases, ns)
        mcs.made.append(name)
        return cls


class Meta(Base, metaclass=_Registry):
    name = "meta-made"

    @on(T.BEFORE_TOOL, priority=4)
    def check(self, event):
        if "meta-no" in str(event.data.get("tool_input")):
            return R(decision="deny", reason="meta " + ",".join(_Registry.made))
