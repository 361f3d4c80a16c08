"""The format of `tests:` in fleethook.yaml: an event, and what the hooks have to say to it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from bus.config.field_types import Text


class HookTestEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The event of a test, in the fields of events."""

    type: Annotated[
        str,
        Meta(
            min_length=1,
            description="The event type, or an agent's own name of the event.",
            examples=["user:prompt_submit", "PreToolUse"],
        ),
    ] = "tool:pre_execute"
    source: Annotated[
        Text,
        Meta(description="The agent. Without it, the agent that the tool's name belongs to.", examples=["claude"]),
    ] = ""
    session: Annotated[Text, Meta(description="The agent's session.", examples=["3f1c2a"])] = ""
    host: Annotated[
        Text, Meta(description="The machine that the agent runs on; without it, this one.", examples=["build-7"])
    ] = ""
    cwd: Annotated[
        Text,
        Meta(
            description="The agent's directory, relative to the folder of this file; without it, that folder. Tests of "
            "your own file (`~/.config/fleethook/fleethook.yaml`) happen in your home directory.",
            examples=["src", "/srv/shop"],
        ),
    ] = ""
    tool: Annotated[
        Text, Meta(description="The tool, in our name or the agent's own.", examples=["web_fetch", "WebFetch"])
    ] = ""
    input: Annotated[
        dict[str, Any], Meta(description="The input of the tool.", examples=[{"url": "https://example.com"}])
    ] = msgspec.field(default_factory=dict)
    output: Annotated[
        Any, Meta(description="The output of the tool, for `tool:post_execute`.", examples=[{"stdout": "TOKEN=abc"}])
    ] = None
    data: Annotated[
        dict[str, Any],
        Meta(description="What is not about a tool, such as `prompt`.", examples=[{"prompt": "what is the password?"}]),
    ] = msgspec.field(default_factory=dict)


class HookTestBefore(HookTestEvent, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An event that happens before that of a test, in its session where it names no other."""

    times: Annotated[
        int, Meta(ge=1, le=1_000, description="How often it happens, each time as a call of its own.", examples=[30])
    ] = 1


class HookTestEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One test of the file's hooks: an event, in short or as `event`, and what the hooks have to say to it."""

    name: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=200,
            description="What the test shows, for its line in the output of `hooks test`.",
            examples=["a force push is denied"],
        ),
    ]
    expect: Annotated[
        Literal["deny", "ask", "allow", "stop"],
        Meta(
            description="The decision of all hooks together. `allow` is met if no hook objects, `stop` by deny and ask.",
            examples=["deny"],
        ),
    ]
    tool: Annotated[
        Text,
        Meta(
            description="The tool of a `tool:pre_execute`, in our name or an agent's own; without it, `bash`.",
            examples=["bash", "Write"],
        ),
    ] = ""
    command: Annotated[
        Text, Meta(description="The command line that the tool is to run.", examples=["git push --force"])
    ] = ""
    path: Annotated[Text, Meta(description="The file that the tool is to read or change.", examples=["src/app.py"])] = (
        ""
    )
    content: Annotated[Text, Meta(description="The text that the tool is to write.", examples=["print(1)"])] = ""
    prompt: Annotated[
        Text,
        Meta(
            description="A prompt of the user: the event is a `user:prompt_submit`.",
            examples=["what is the password?"],
        ),
    ] = ""
    cwd: Annotated[
        Text,
        Meta(
            description="The agent's directory, relative to the folder of this file; without it, that folder.",
            examples=["src"],
        ),
    ] = ""
    source: Annotated[
        Text, Meta(description="The agent. Without it, the agent that the tool's name belongs to.", examples=["claude"])
    ] = ""
    native: Annotated[
        Text, Meta(description="The agent's own name of the event, for hooks about one agent.", examples=["PreToolUse"])
    ] = ""
    event: Annotated[
        str | HookTestEvent | None,
        Meta(
            description="The whole event as a mapping, instead of the short fields; or its type as text.",
            examples=["session:start", {"type": "user:prompt_submit", "data": {"prompt": "hello"}}],
        ),
    ] = None
    after: Annotated[
        tuple[HookTestBefore, ...],
        Meta(
            max_length=100,
            description="Events that happen before, for limits and facts of the session.",
            examples=[[{"type": "tool:post_execute", "tool": "bash", "input": {"command": "pytest"}}]],
        ),
    ] = ()
    hook: Annotated[
        Text,
        Meta(
            description="The hook that decides, by its id. With `expect: allow`, that hook has to have run.",
            examples=["no-force-push"],
        ),
    ] = ""
    reason: Annotated[Text, Meta(description="A text that the reason contains.", examples=["by force"])] = ""
    context: Annotated[
        Text, Meta(description="A text that the context for the model contains.", examples=["house style"])
    ] = ""
    input: Annotated[
        dict[str, Any],
        Meta(
            description="Fields of the tool's input, as the hooks have rewritten it.",
            examples=[{"command": "git push"}],
        ),
    ] = msgspec.field(default_factory=dict)
    output: Annotated[
        Text,
        Meta(
            description="A text that the tool's output contains, as the hooks have rewritten it.",
            examples=["[redacted]"],
        ),
    ] = ""
    fails: Annotated[
        bool,
        Meta(
            description="`true`: a hook has to fail here, and its failure policy answers. Without it, a hook that fails "
            "makes the test fail.",
            examples=[True],
        ),
    ] = False
