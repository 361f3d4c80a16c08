"""The format of the tests of a workflow: a session's events, and what has to come of each."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from bus.config.field_types import Text


class WorkflowTestEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One event of the session, and what has to come of it. Its type follows from `prompt` or `tool` where `on` is missing."""

    on: Annotated[
        Text, Meta(description="The event's type, or an agent's own name of it.", examples=["session:start", "Stop"])
    ] = ""
    tool: Annotated[Text, Meta(description="The tool of the event.", examples=["bash", "Write"])] = ""
    command: Annotated[Text, Meta(description="The command line; the tool is `bash`.", examples=["git push"])] = ""
    path: Annotated[Text, Meta(description="The file that the tool is about.", examples=["src/app.py"])] = ""
    prompt: Annotated[Text, Meta(description="A prompt of the user.", examples=["go"])] = ""
    input: Annotated[
        dict[str, Any], Meta(description="Further input of the tool.", examples=[{"content": "x = 1"}])
    ] = msgspec.field(default_factory=dict)
    output: Annotated[Any, Meta(description="The output of the tool.", examples=[{"stdout": "ok"}])] = None
    data: Annotated[dict[str, Any], Meta(description="What is not about a tool.", examples=[{"reason": "clear"}])] = (
        msgspec.field(default_factory=dict)
    )
    source: Annotated[Text, Meta(description="The agent; without it, `claude`.", examples=["codex"])] = ""
    expect: Annotated[
        Literal["deny", "ask", "allow"] | None,
        Meta(description="The decision; `allow` where the workflow does not object.", examples=["deny"]),
    ] = None
    step: Annotated[Text, Meta(description="The step after the event.", examples=["work"])] = ""
    reason: Annotated[Text, Meta(description="A text that the reason contains.", examples=["not allowed"])] = ""
    context: Annotated[
        Text, Meta(description="A text that the context for the model contains.", examples=["plan first"])
    ] = ""
    variables: Annotated[
        dict[str, Any],
        Meta(description="Variables with the values that they have to have.", examples=[{"failures": 2}]),
    ] = msgspec.field(default_factory=dict)


class WorkflowTestEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A test of a workflow: a new session's events, in order."""

    name: Annotated[
        str, Meta(min_length=1, max_length=200, description="What it shows.", examples=["no edit before the plan"])
    ]
    events: Annotated[
        list[WorkflowTestEvent],
        Meta(
            min_length=1,
            description="The events, each with what has to come of it.",
            examples=[[{"on": "session:start"}, {"tool": "edit", "expect": "deny"}]],
        ),
    ]
