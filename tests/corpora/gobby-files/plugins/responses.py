"""HookResponse in every form; the command says which."""
from gobby.hooks.events import HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler

FORMS = {
    "positional": lambda: HookResponse("deny", "the context", "the system message", "positional reason"),
    "keywords": lambda: HookResponse(decision="block", context=None, system_message="to the person", reason="keyword reason", modify_args=None, trigger_action=None, metadata={"k": [1, {"a": None}]}),
    "bare-deny": lambda: HookResponse(decision="deny"),
    "context-only": lambda: HookResponse(context="responses: some context"),
    "system-only": lambda: HookResponse(system_message="responses: to the person"),
    "ask": lambda: HookResponse(decision="ask", reason="responses asks"),
    "modify": lambda: HookResponse(decision="modify", modify_args={"command": "echo modified"}, reason="responses modified"),
    "allow-args": lambda: HookResponse(decision="allow", modify_args={"command": "echo allowed"}),
    "none": lambda: None,
    "dict": lambda: {"tool": "a dict that is no response"},
    "string": lambda: "deny",
    "true": lambda: True,
}


class Responses(HookPlugin):
    name = "responses"

    @hook_handler(HookEventType.BEFORE_TOOL, priority=40)
    def respond(self, event):
        words = str(event.data.get("tool_input", {}).get("command", "")).split()
        if len(words) == 2 and words[0] == "respond":
            return FORMS[words[1]]()
