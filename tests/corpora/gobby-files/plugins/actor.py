"""Actions and conditions in many forms."""
import functools
from typing import TYPE_CHECKING
from gobby.hooks.plugins import HookPlugin, PluginAction
if TYPE_CHECKING:
    from gobby.workflows.actions import ActionContext, ActionExecutor


async def standalone(context, **kwargs):
    return {"inject_context": f"standalone {sorted(kwargs)} {context.state.variables.get('n')}"}


class Actor(HookPlugin):
    name = "actor"

    def on_load(self, config):
        self.calls = 0
        self.register_action("standalone", standalone)
        self.register_action("sync", self.sync)
        self.register_action("partial", functools.partial(self.tagged, "tag"))
        self.register_action("lambda", lambda context, **kw: {"system_message": "from a lambda"})
        self.register_workflow_action(action_type="checked", schema={"type": "object", "properties": {"n": {"type": "integer"}, "tags": {"type": "array"}}, "required": ["n"]}, executor_fn=self.checked)
        self.register_action("raises", self.raises)
        self.register_action("render", self.render)
        self.register_action("block", self.block)
        self.register_action("probe", self.probe)
        self.register_condition("called", self.called)
        self.register_condition("is_weekend", lambda *days: bool(days) and "sun" in days)
        self.register_condition("boom", self.boom)
        try:
            self.register_workflow_action("checked", {}, self.checked)
        except ValueError as error:
            self.logger.info("taken: %s", error)
        assert isinstance(self.get_action("sync"), PluginAction) and self.get_action("none") is None
        assert self.get_action("checked").validate_input({})[0] is False

    def sync(self, context: "ActionContext", value=None, **_):
        self.calls += 1
        context.state.variables["n"] = (context.state.variables.get("n") or 0) + 1
        return {"n2": value}

    async def tagged(self, tag, context, **kw):
        return {"inject_context": f"{tag} {kw.get('label')}"}

    async def checked(self, context: "ActionContext", n: int, tags=(), **_) -> dict:
        return {"inject_context": f"checked {n} {list(tags)}"}

    async def raises(self, context, **_):
        raise RuntimeError("action boom")

    async def render(self, context, template="", **_):
        engine = context.template_engine
        return {"inject_context": engine.render(template, {"who": "world", "state": context.state})}

    async def block(self, context, **_):
        return {"decision": "block", "reason": "actor blocks", "system_message": "told"}

    async def probe(self, context, **_):
        names = ["session_id", "state", "db", "session_manager", "template_engine", "llm_service", "transcript_processor", "config", "memory_manager", "event_data", "mcp_manager", "skill_learner"]
        got = {n: type(getattr(context, n)).__name__ for n in names}
        st = context.state
        return {"inject_context": f"probe {got} step={st.step} wf={st.workflow_name} sid={st.session_id} count={st.step_action_count} total={st.total_action_count} art={st.artifacts} obs={st.observations} ev={sorted(context.event_data or {})}"}

    def called(self, at_least=1):
        return self.calls >= at_least

    def boom(self):
        raise ValueError("no")
