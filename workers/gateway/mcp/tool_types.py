"""The arguments and results of the tools; their JSON Schemas are made from these types."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from bus.verdicts import Verdict
from workers.gateway.records.queries import EventQuery, LetterQuery
from workers.simulation.simulate import Effect

Cwd = Annotated[
    str, Meta(max_length=4096, description="The folder of the event, which decides which project's hooks are in force.")
]
Source = Annotated[
    str, Meta(max_length=64, description="The agent, such as `claude`; without it, one that has such an event.")
]
_MOST_FILE = 512 * 1024


class NoArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No arguments."""


class ListHandlers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects hooks."""

    event: Annotated[
        str, Meta(max_length=200, description="Only hooks for this event: `tool:pre_execute:bash` or `PreToolUse`.")
    ] = ""
    event_type: Annotated[str, Meta(max_length=200, description="The same by Gobby's name: `before_tool`.")] = ""
    cwd: Cwd = ""


class TestEvent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A made-up event."""

    event: Annotated[
        str,
        Meta(max_length=200, description="Its type, or an agent's name of it.", examples=["tool:pre_execute:bash"]),
    ] = ""
    event_type: Annotated[
        str,
        Meta(
            max_length=200,
            description="In place of `event`: Gobby's name of it, such as `before_tool`; then `data` is the agent's payload.",
        ),
    ] = ""
    source: Source = ""
    tool: Annotated[str, Meta(max_length=200, description="The tool, if the type does not name it.")] = ""
    input: Annotated[
        dict[str, Any], Meta(description="The tool's input.", examples=[{"command": "git push --force"}])
    ] = msgspec.field(default_factory=dict)
    data: Annotated[
        dict[str, Any] | str,
        Meta(description="What is not about a tool; also as JSON text.", examples=[{"prompt": "hello"}]),
    ] = msgspec.field(default_factory=dict)
    cwd: Cwd = ""


class SimulateEvent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole event, or the id of a recorded one; exactly one of the two."""

    event: Annotated[
        dict[str, Any] | None, Meta(description="An event in Fleethook's form, or an agent's own payload.")
    ] = None
    id: Annotated[str, Meta(max_length=64, description="A recorded event, by its id or the beginning of it.")] = ""
    source: Annotated[str, Meta(max_length=64, description="The agent of a payload; without it, it is recognised.")] = (
        ""
    )
    native: Annotated[
        str, Meta(max_length=128, description="The agent's name of the event, if the payload has none.")
    ] = ""
    session: Annotated[
        str,
        Meta(max_length=256, description="Judge it as an event of this session, with its limits, facts and workflows."),
    ] = ""
    hooks: Annotated[
        str,
        Meta(max_length=_MOST_FILE, description="The text of a fleethook.yaml to ask in place of the hooks in force."),
    ] = ""


class EventId(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One event."""

    id: Annotated[str, Meta(min_length=1, max_length=64, description="The event's id, or the beginning of it.")]


class RecentEvents(EventQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects events."""

    limit: Annotated[int, Meta(ge=1, le=200, description="The most events.")] = 20


class ListLetters(LetterQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects dead letters."""

    limit: Annotated[int, Meta(ge=1, le=200, description="The most dead letters.")] = 20


class LetterIds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dead letters."""

    ids: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=512)], ...],
        Meta(min_length=1, max_length=100, description="Their whole ids, from list_dead_letters."),
    ]


class HandlerItem(msgspec.Struct, frozen=True, kw_only=True):
    """A hook in force; other fields are those of its file."""

    id: str
    on: tuple[str, ...]
    layer: str
    kind: str
    blocking: bool
    enabled: bool
    priority: int
    origin: str = ""
    """`file:line` of its definition."""


class PluginHandlerItem(msgspec.Struct, frozen=True, kw_only=True):
    """A handler of a Python plugin."""

    plugin: str
    method: str
    priority: int
    is_pre_handler: bool
    """Whether it contributes to the verdict."""


class Handlers(msgspec.Struct, frozen=True, kw_only=True):
    """The hooks in force, in the order in which they run."""

    version: str
    hooks: tuple[HandlerItem, ...]
    success: bool = True
    handlers: dict[str, tuple[PluginHandlerItem, ...]] = msgspec.field(default_factory=dict)
    """The handlers of Python plugins by Gobby's names of their events."""
    total_handlers: int = 0


class ListPlugins(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects plugins."""

    enabled_only: Annotated[bool, Meta(description="Leave out plugins that are imported and switched off.")] = False


class PluginItem(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin; other fields tell what it contains."""

    name: str
    dialect: str
    """`python` for a Python plugin."""
    enabled: bool
    layer: str = ""


class RunningPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A Python plugin in one worker; other fields tell its handlers, calls and times."""

    name: str
    state: str
    worker: str = ""
    host: str = ""
    version: str = ""
    problem: str = ""
    """Why it is not running, or why the last reload was not put in force."""


class Plugins(msgspec.Struct, frozen=True, kw_only=True):
    """The plugins of the fleet."""

    plugins: tuple[PluginItem, ...]
    """Plugins of Claude Code, ion and pigo that the hook files in force import, and then each Python plugin that runs."""
    running: tuple[RunningPlugin, ...]
    """Python plugins, once for each worker that runs them."""
    success: bool = True
    enabled: bool = False
    """Whether any Python plugin runs."""
    plugin_dirs: tuple[str, ...] = ()
    """Where Python plugins are looked for."""


class ReloadPlugin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A Python plugin."""

    name: Annotated[str, Meta(min_length=1, max_length=128, description="Its name; `*` for all.")]


class ReloadedPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """What the order to reload did."""

    name: str
    done: tuple[RunningPlugin, ...]
    """The plugin in each worker that has loaded it anew; `problem` says where that failed and the old one still runs."""
    waiting: tuple[str, ...]
    """Workers that have not done it in time."""
    success: bool = True
    """Whether every worker has loaded it anew."""
    version: str = ""
    description: str = ""
    error: str | None = None


class SimulatedHook(msgspec.Struct, frozen=True, kw_only=True):
    """A blocking hook that fits the event; other fields are those of its file."""

    id: str
    layer: str
    kind: str


class Simulated(msgspec.Struct, frozen=True, kw_only=True):
    """What the hooks would say. Nothing is recorded, delivered or started."""

    event: dict[str, Any]
    """The event as hooks see it, redacted."""
    verdict: Verdict
    version: str
    matched: tuple[SimulatedHook, ...]
    effects: tuple[Effect, ...]
    """The commands and requests that would be started."""
    unknown: tuple[str, ...]
    """Hooks that decide and were not started: the verdict is without them."""
    recorded: Verdict | None = None
    """The verdict of then, for a recorded event that has one."""
    success: bool = True
    event_type: str = ""
    decision: str = ""
    """As Gobby has it: `allow` where no hook objects."""
    goes_on: bool = msgspec.field(default=True, name="continue")
    reason: str | None = None
    context: str | None = None
    """The texts for the model; `inject_context` is the same."""
    inject_context: str | None = None


class EventItem(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded event, redacted; other fields are those of its type."""

    id: str
    type: str
    at: str
    """When it was added, as ISO 8601 in UTC."""
    decision: str
    verdict: dict[str, Any] | None = None


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """The events, newest first."""

    events: tuple[EventItem, ...]


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """An event and everything that it caused."""

    explanation: str
    """In words: what happened, who decided, and what became of its deliveries."""
    trace: dict[str, Any]
    """The same as data, as `fleethook trace --json` gives it."""


class LetterItem(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter."""

    id: str
    reason: str
    ms: int
    """When it was given up (milliseconds since 1970)."""
    kind: str


class Letters(msgspec.Struct, frozen=True, kw_only=True):
    """The dead letters, newest first."""

    letters: tuple[LetterItem, ...]


class Retried(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the ids are tried again; the others are dead letters no more, or cannot be tried."""

    matching: int
    done: int


class FleetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the fleet; other fields are those of `fleethook status --json`."""

    namespace: str
    version: int
    """The version of the published hook set; 0 if none was ever published."""
    dead: int
    problems: tuple[str, ...]
    """Sentences about missing processes and lost events; empty if all is well."""
