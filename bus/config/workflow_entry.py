"""The format of one entry of `workflows:` in fleethook.yaml."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from bus.config.field_types import DAY, EnvName, Id, Patterns, Text
from bus.config.workflow_actions import ActionEntry, WebhookAction
from bus.config.workflow_test_entry import WorkflowTestEntry
from bus.verdicts import Policy

_ON = Annotated[
    Patterns,
    Meta(
        description="The events: patterns as a list, or as one text with commas. Without it, every event.",
        examples=["user:prompt_submit", ["tool:*:bash"]],
    ),
]
_TOOL = Annotated[
    Text, Meta(description="Tool names separated by `|`, or a regular expression; without it, any.", examples=["bash"])
]
_ACTIONS = Annotated[
    list[ActionEntry], Meta(description="What is done, in order.", examples=[[{"action": "context", "text": "Go on."}]])
]


class StartEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a session gets the workflow."""

    by: Annotated[
        Literal["event", "order"],
        Meta(description="`order`: only by `fleethook workflows start`.", examples=["order"]),
    ] = "event"
    on: _ON = msgspec.field(default_factory=list)
    when: Annotated[
        Text, Meta(description="A condition, which has to be true.", examples=['event.cwd.startsWith("/srv/")'])
    ] = ""


class ToolRuleEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule about tool calls; the first that denies ends the list, and so does one that allows."""

    decision: Annotated[
        Literal["deny", "ask", "warn", "allow"],
        Meta(description="`warn` gives the message to the model; `allow` skips the rules after it.", examples=["ask"]),
    ] = "deny"
    message: Annotated[Text, Meta(description="Why, as a template.", examples=["write the plan first"])] = ""
    tools: Annotated[
        list[Text],
        Meta(
            description="The tools that it is about; `*` stands for any characters. Without it, all.",
            examples=[["bash", "mcp__*"]],
        ),
    ] = msgspec.field(default_factory=list)
    when: Annotated[
        Text,
        Meta(
            description="A condition. One that cannot be evaluated counts as true for `deny` and `ask`.",
            examples=['event.input.command.contains("push")'],
        ),
    ] = ""
    command_pattern: Annotated[
        Text, Meta(description="A regular expression that is searched in the command.", examples=["^git push"])
    ] = ""
    command_not_pattern: Annotated[
        Text, Meta(description="A regular expression that must not be found in the command.", examples=["--dry-run"])
    ] = ""


class TransitionEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A way to another step. At an event, the first that fits is taken, and no second one."""

    to: Annotated[
        Text, Meta(description="The step that begins; the same step is left and entered again.", examples=["work"])
    ]
    on: _ON = msgspec.field(default_factory=list)
    tool: _TOOL = ""
    when: Annotated[Text, Meta(description="A condition, which has to be true.", examples=["vars.approved"])] = ""
    actions: _ACTIONS = msgspec.field(default_factory=list)


class ExitConditionEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What has to be true before the step is left: exactly one of `approval`, `variable`, `expression` and `webhook`."""

    id: Annotated[Id | None, Meta(description="Its name; without it, its place.", examples=["plan"])] = None
    approval: Annotated[
        Text,
        Meta(
            description="A question to the person, asked at the next prompt. Tools are blocked until the answer: `yes`, "
            "`approve`, `ok`, `proceed`, `continue`; or `no`, `reject`, `stop`, `cancel`, `abort`.",
            examples=["Is the plan complete?"],
        ),
    ] = ""
    timeout: Annotated[
        float,
        Meta(
            ge=0,
            le=30 * DAY,
            description="Seconds after which the question counts as refused; 0: never.",
            examples=[3600],
        ),
    ] = 0.0
    variable: Annotated[Text, Meta(description="A variable that has to be set.", examples=["plan_file"])] = ""
    expression: Annotated[
        Text, Meta(description="A condition that has to be true.", examples=["workflow.step_actions > 0"])
    ] = ""
    webhook: Annotated[
        WebhookAction | None,
        Meta(
            description="A request that has to be answered with a 2xx status.",
            examples=[{"action": "webhook", "url": "https://ci.example/green"}],
        ),
    ] = None


class StepEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step."""

    name: Annotated[Text, Meta(min_length=1, description="Its name; unique in the workflow.", examples=["plan"])]
    description: Annotated[Text, Meta(description="What it is for.", examples=["Read, and write a plan."])] = ""
    status: Annotated[Text, Meta(description="A text for the person when it begins.", examples=["planning"])] = ""
    on_enter: _ACTIONS = msgspec.field(default_factory=list)
    on_exit: _ACTIONS = msgspec.field(default_factory=list)
    allowed_tools: Annotated[
        Literal["all"] | list[Text],
        Meta(description="The only tools that may run; `*` stands for any characters.", examples=[["read", "grep"]]),
    ] = "all"
    blocked_tools: Annotated[list[Text], Meta(description="Tools that may not run.", examples=[["write", "edit"]])] = (
        msgspec.field(default_factory=list)
    )
    allowed_mcp_tools: Annotated[
        Literal["all"] | list[Text],
        Meta(description="The only MCP tools that may run, as `server:tool` or `server:*`.", examples=[["github:*"]]),
    ] = "all"
    blocked_mcp_tools: Annotated[
        list[Text], Meta(description="MCP tools that may not run.", examples=[["github:merge"]])
    ] = msgspec.field(default_factory=list)
    rules: Annotated[
        list[ToolRuleEntry],
        Meta(description="Rules about tool calls in this step.", examples=[[{"tools": ["bash"], "decision": "ask"}]]),
    ] = msgspec.field(default_factory=list)
    transitions: Annotated[
        list[TransitionEntry],
        Meta(description="The ways to other steps.", examples=[[{"to": "work", "on": "user:prompt_submit"}]]),
    ] = msgspec.field(default_factory=list)
    exit_conditions: Annotated[
        list[ExitConditionEntry],
        Meta(description="What has to be true before the step is left.", examples=[[{"variable": "plan_file"}]]),
    ] = msgspec.field(default_factory=list)


class TriggerEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Actions at an event, in every step."""

    on: Annotated[Patterns, Meta(description="The events: patterns.", examples=["tool:error"])]
    actions: Annotated[
        list[ActionEntry],
        Meta(
            min_length=1,
            description="What is done, in order.",
            examples=[[{"action": "increment", "name": "failures"}]],
        ),
    ]
    tool: _TOOL = ""
    when: Annotated[Text, Meta(description="A condition, which has to be true.", examples=["shared.strict"])] = ""


class StopEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens when the agent wants to stop before `exit_condition` is true."""

    message: Annotated[
        Text, Meta(description="What the model is told, as a template.", examples=["The tests have not run."])
    ] = ""
    decision: Annotated[
        Literal["deny", "warn"],
        Meta(description="`deny`: the agent goes on. `warn`: it may stop.", examples=["warn"]),
    ] = "deny"
    when: Annotated[Text, Meta(description="A condition, which has to be true.", examples=["vars.edited"])] = ""


class WorkflowEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One workflow: steps, which a session passes one after the other, and triggers, which hold in every step."""

    name: Annotated[
        Id, Meta(description="Its name: letters, digits, `_` and `-`; unique in the file.", examples=["plan-first"])
    ]
    description: Annotated[Text, Meta(description="What it is for.", examples=["No edit before a plan."])] = ""
    enabled: Annotated[bool, Meta(description="`false` keeps the entry and switches it off.", examples=[False])] = True
    start: Annotated[
        StartEntry | None,
        Meta(
            description="When a session gets it; without it, at the session's first event that it reads.",
            examples=[{"on": "session:start"}],
        ),
    ] = None
    sources: Annotated[
        list[Text], Meta(description="The agents whose sessions get it; without it, all.", examples=[["claude"]])
    ] = msgspec.field(default_factory=list)
    variables: Annotated[
        dict[str, Any], Meta(description="Its variables with their first values.", examples=[{"failures": 0}])
    ] = msgspec.field(default_factory=dict)
    session_variables: Annotated[
        dict[str, Any],
        Meta(
            description="Variables that all workflows of a session share, with their first values.",
            examples=[{"strict": False}],
        ),
    ] = msgspec.field(default_factory=dict)
    config: Annotated[
        dict[str, Any],
        Meta(
            description="Values that its texts read as `{{ config.x }}`.",
            examples=[{"policy_server": "https://policy.example"}],
        ),
    ] = msgspec.field(default_factory=dict)
    steps: Annotated[
        list[StepEntry], Meta(description="The steps; a session begins in the first.", examples=[[{"name": "plan"}]])
    ] = msgspec.field(default_factory=list)
    triggers: Annotated[
        list[TriggerEntry],
        Meta(
            description="Actions at events, in every step; a workflow without steps has only these.",
            examples=[[{"on": "tool:error", "actions": [{"action": "increment", "name": "failures"}]}]],
        ),
    ] = msgspec.field(default_factory=list)
    rules: Annotated[
        list[ToolRuleEntry],
        Meta(
            description="Rules about tool calls in every step.",
            examples=[[{"command_pattern": "^git push", "decision": "ask"}]],
        ),
    ] = msgspec.field(default_factory=list)
    exit_condition: Annotated[
        Text,
        Meta(
            description="A condition: where it is true when the agent stops, the workflow ends.",
            examples=["vars.tested"],
        ),
    ] = ""
    on_premature_stop: Annotated[
        StopEntry | None,
        Meta(description="What happens at a stop before that.", examples=[{"message": "Run the tests first."}]),
    ] = None
    priority: Annotated[
        int, Meta(description="Within a layer, workflows and hooks with a lower priority run first.", examples=[10])
    ] = 50
    timeout: Annotated[
        float,
        Meta(gt=0, le=DAY, description="Seconds that everything may take that an event waits for.", examples=[30]),
    ] = 60.0
    on_failure: Annotated[
        Policy | None,
        Meta(
            description="The decision when the workflow cannot be asked, or something that `can_block`. Without it, the file's "
            "`on_failure` counts, then the setting of that name.",
            examples=["deny"],
        ),
    ] = None
    observe: Annotated[
        bool,
        Meta(
            description="Record what it would have decided, and decide nothing; it still changes its steps.",
            examples=[True],
        ),
    ] = False
    tests: Annotated[
        list[WorkflowTestEntry],
        Meta(
            description="Tests, which `fleethook workflows test` runs; workers ignore them.",
            examples=[[{"name": "no edit first", "events": [{"tool": "edit", "expect": "deny"}]}]],
        ),
    ] = msgspec.field(default_factory=list)
    env_pass: Annotated[
        list[EnvName],
        Meta(description="Variables of the worker's environment that its commands get.", examples=[["CI_TOKEN"]]),
    ] = msgspec.field(default_factory=list)
