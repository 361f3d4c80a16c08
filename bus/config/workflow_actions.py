"""The format of the actions of workflows in fleethook.yaml."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from bus.config.field_types import Seconds, Text

_WHEN = Annotated[
    Text,
    Meta(
        description="A condition: the action runs where it is true. Without it, always.",
        examples=["vars.tests_failed > 2"],
    ),
]
_TEMPLATE = Annotated[str, Meta(max_length=100_000)]


class _Action(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="action"):
    """What every action has."""

    when: _WHEN = ""


class ContextAction(_Action, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="action", tag="context"):
    """A text for the model."""

    text: Annotated[
        _TEMPLATE, Meta(description="The text, a template.", examples=["You are in the step {{ step }}: write a plan."])
    ]


class NoteAction(_Action, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="action", tag="note"):
    """A text for the person."""

    text: Annotated[_TEMPLATE, Meta(description="The text, a template.", examples=["The plan is approved."])]


class DenyAction(_Action, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="action", tag="deny"):
    """Denies the event. The actions after it do not run; a transition that it belongs to happens."""

    reason: Annotated[
        _TEMPLATE, Meta(description="Why, as a template.", examples=["{{ vars.failures }} failures in a row"])
    ]


class AskAction(_Action, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="action", tag="ask"):
    """Lets a person decide."""

    reason: Annotated[_TEMPLATE, Meta(description="Why, as a template.", examples=["the plan is not approved"])]


class SetAction(_Action, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="action", tag="set"):
    """Sets variables."""

    values: Annotated[
        dict[str, Any],
        Meta(
            description="The variables with their values. A template that gives `true`, `false`, `null` or a number sets that.",
            examples=[{"plan_file": "{{ event.input.path }}"}],
        ),
    ]
    scope: Annotated[
        Literal["workflow", "session"],
        Meta(description="`session`: all workflows of the session read them as `shared`.", examples=["session"]),
    ] = "workflow"


class IncrementAction(
    _Action, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="action", tag="increment"
):
    """Adds to a variable that is a number."""

    name: Annotated[Text, Meta(description="The variable that grows.", examples=["failures"])]
    by: Annotated[float, Meta(description="How much is added.", examples=[5])] = 1
    scope: Annotated[
        Literal["workflow", "session"], Meta(description="Whose variable it is, as of `set`.", examples=["session"])
    ] = "workflow"


class PublishAction(_Action, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="action", tag="publish"):
    """Announces an event, which hooks, workflows and endpoints get like any other."""

    type: Annotated[Text, Meta(description="Its type, as `family:name`.", examples=["deploy:ready"])]
    data: Annotated[
        dict[str, Any],
        Meta(
            description="Its data, with templates; `workflow`, `step`, `session` and `event` are added.",
            examples=[{"plan": "{{ vars.plan_file }}"}],
        ),
    ] = msgspec.field(default_factory=dict)


class CaptureResponse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which parts of an answer become variables; then the webhook is waited for."""

    status_var: Annotated[Text, Meta(description="The variable for the status.", examples=["status"])] = ""
    body_var: Annotated[
        Text, Meta(description="The variable for the body, read as JSON where it is.", examples=["answer"])
    ] = ""
    headers_var: Annotated[Text, Meta(description="The variable for the headers.", examples=["headers"])] = ""


class WebhookAction(_Action, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="action", tag="webhook"):
    """Sends a request. It becomes a delivery, unless its answer counts: then the event waits for it."""

    url: Annotated[Text, Meta(description="Where, as a template.", examples=["{{ config.policy_server }}/entered"])]
    method: Annotated[
        Literal["GET", "POST", "PUT", "PATCH", "DELETE"],
        Meta(description="The method of the request.", examples=["PUT"]),
    ] = "POST"
    headers: Annotated[
        dict[str, str],
        Meta(
            description="Headers; `${VAR}` is replaced by the worker when it sends.",
            examples=[{"Authorization": "Bearer ${POLICY_TOKEN}"}],
        ),
    ] = msgspec.field(default_factory=dict)
    payload: Annotated[
        Any,
        Meta(
            description="The body: a text is sent as it is, anything else as JSON. Without it, what happened.",
            examples=[{"text": "{{ step }} begins"}],
        ),
    ] = None
    event: Annotated[
        Text, Meta(description="The `event` in the body where no `payload` is given.", examples=["phase_entered"])
    ] = "workflow"
    timeout: Annotated[Seconds, Meta(description="Seconds for one attempt.", examples=[5])] = 30.0
    can_block: Annotated[
        bool,
        Meta(
            description='The event waits for the answer; `{"decision": "deny", "reason": …}` denies it, and no step is left.',
            examples=[True],
        ),
    ] = False
    capture_response: Annotated[
        CaptureResponse | None,
        Meta(description="Keep parts of the answer in variables.", examples=[{"body_var": "answer"}]),
    ] = None


class CommandAction(_Action, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="action", tag="command"):
    """Runs a shell command. It becomes a delivery, unless its result counts: then the event waits for it."""

    command: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=100_000,
            description="The command. Each `{{ … }}` becomes a variable of the shell, so that no value is read as code.",
            examples=['git commit -am "{{ vars.summary }}"'],
        ),
    ]
    cwd: Annotated[Text, Meta(description="The directory; without it, that of the event.", examples=["./scripts"])] = ""
    timeout: Annotated[Seconds, Meta(description="Seconds that it may take.", examples=[60])] = 30.0
    can_block: Annotated[
        bool,
        Meta(
            description="The event waits for it; an exit code other than 0 denies the event, and the step is not left.",
            examples=[True],
        ),
    ] = False
    save: Annotated[
        Text,
        Meta(description="The variable that gets what it prints; then the event waits for it.", examples=["branch"]),
    ] = ""


class PluginCallAction(
    _Action, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="action", tag="plugin"
):
    """Calls an action that a plugin has registered."""

    plugin: Annotated[Text, Meta(description="The plugin's name.", examples=["code-guardian"])]
    name: Annotated[Text, Meta(description="The action's name.", examples=["run_linter"])]
    values: Annotated[
        dict[str, Any],
        Meta(description="The arguments, with templates.", examples=[{"files": ["src/app.py"]}]),
    ] = msgspec.field(default_factory=dict, name="with")
    save: Annotated[Text, Meta(description="The variable that gets the result.", examples=["lint"])] = ""


class ToolCallAction(
    _Action, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="action", tag="mcp_tool"
):
    """Calls a tool of an MCP server that a plugin brings and that you accepted. The event waits for it."""

    server: Annotated[
        Text,
        Meta(
            min_length=1,
            description="The server's name; `PLUGIN/SERVER` where several plugins have one of this name.",
            examples=["memory"],
        ),
    ]
    tool: Annotated[Text, Meta(min_length=1, description="The tool's own name.", examples=["recall"])]
    values: Annotated[
        dict[str, Any],
        Meta(description="The arguments, with templates.", examples=[{"about": "{{ prompt }}"}]),
    ] = msgspec.field(default_factory=dict, name="with")
    timeout: Annotated[
        Seconds, Meta(description="Seconds that it may take, with the start of its server.", examples=[5])
    ] = 30.0
    can_block: Annotated[
        bool,
        Meta(
            description='A result `{"decision": "deny", "reason": …}` denies the event, and no step is left; '
            "a failure follows `on_failure`.",
            examples=[True],
        ),
    ] = False
    save: Annotated[Text, Meta(description="The variable that gets the result.", examples=["known"])] = ""


class EndAction(_Action, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="action", tag="end"):
    """Ends the workflow for this session."""


ActionEntry = (
    ContextAction
    | NoteAction
    | DenyAction
    | AskAction
    | SetAction
    | IncrementAction
    | PublishAction
    | WebhookAction
    | CommandAction
    | PluginCallAction
    | ToolCallAction
    | EndAction
)

ACTION_KINDS: tuple[type[_Action], ...] = (
    ContextAction,
    NoteAction,
    DenyAction,
    AskAction,
    SetAction,
    IncrementAction,
    PublishAction,
    WebhookAction,
    CommandAction,
    PluginCallAction,
    ToolCallAction,
    EndAction,
)
"""The actions in the order of the reference."""
