"""Own decorators above and below hook_handler; class decorator; __init_subclass__."""
import functools, time, asyncio
import gobby.hooks.plugins
import gobby.hooks.events
from gobby.hooks.events import HookResponse

H = gobby.hooks.plugins.hook_handler
E = gobby.hooks.events.HookEventType


def timed(fn):
    @functools.wraps(fn)
    def inner(self, *args, **kwargs):
        start = time.perf_counter()
        try:
            return fn(self, *args, **kwargs)
        finally:
            self.times.append(time.perf_counter() - start)
    return inner


def bash_only(fn):
    @functools.wraps(fn)
    async def inner(self, event):
        if event.data.get("tool_name") != "Bash":
            return None
        return await fn(self, event)
    return inner


def register(cls):
    cls.registered = True
    return cls


class Root(gobby.hooks.plugins.HookPlugin):
    subclasses = []

    def __init_subclass__(cls, **kw):
        super().__init_subclass__(**kw)
        Root.subclasses.append(cls.__name__)


@register
class Decorated(Root):
    name = "decorated"

    def __init__(self):
        super().__init__()
        self.times = []

    @timed
    @H(E.BEFORE_TOOL, priority=15)
    def above(self, event):
        if "above-no" in str(event.data.get("tool_input")):
            return HookResponse(decision="deny", reason="above")

    @H(E.BEFORE_TOOL, priority=16)
    @timed
    def below(self, event):
        if "below-no" in str(event.data.get("tool_input")):
            return HookResponse(decision="deny", reason=f"below {self.registered}")

    @H(E.BEFORE_TOOL, priority=17)
    @bash_only
    async def asynchronously(self, event):
        await asyncio.sleep(0)
        if "asyncdeco-no" in str(event.data.get("tool_input")):
            return HookResponse(decision="deny", reason="asyncdeco")
