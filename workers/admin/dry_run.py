"""Evaluates the hooks in force here for a made-up event, for `hooks test`: in this process, with or without effects."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from bus.agents import find
from bus.errors import DecodeError
from bus.events import Event, source_name
from bus.hooks import Hook
from bus.hooksets.guards import load_pack
from bus.hooksets.hook_tests import agent_with_event, event_of_type
from bus.hooksets.hookfile import HookFile, parse_hook_file
from bus.hooksets.in_force import HookSet, Layered, Watcher
from bus.hooksets.layers import is_disabled
from bus.ids import event_id, host_name
from bus.lazy.conversions import converted
from bus.matching.conditions import Condition
from bus.memory.facts import Memory
from bus.memory.replayed import ReplayedMemory, remembers
from bus.outcomes import Outcome
from bus.system.directories import Directories
from bus.tools import canonical_input
from bus.verdicts import Policy, Verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys

if TYPE_CHECKING:  # most commands only look at the hooks in force
    from bus.chain import Run
    from bus.http.client_pool import ClientPool
    from bus.runners.command import CommandRunner
    from workers.admin.workflows.dry import DryWorkflows
    from workers.plugins.host import PluginHost

_OWN: Final = frozenset({"session", "cwd", "host", "call", "native", "parent"})
_OPTIONS: Final = frozenset({"tool", "source"})
_NESTED: Final = frozenset({"input", "output", "data"})
_MOST_NESTED: Final = 16
NOTHING_KNOWN: Final = "limits and facts of the session are those of a session that has done nothing yet"
_NATIVE_NAMES: Final = ("hook_event_name", "hookEventName", "hookName", "agent_action_name", "event_name", "event")
"""Where agents' payloads name their event."""


class Known(Protocol):
    """What was before an event: the facts of its session, and what counts for limits."""

    async def recall(self, event: Event, conditions: Sequence[Condition], seconds: float | None) -> Memory:
        """What the event's session has done."""
        ...

    async def settled(self, event: Event, verdict: Verdict) -> Verdict:
        """The verdict after its limits."""
        ...


class Judge(Protocol):
    """A function that returns the blocking hooks that fit an event, and their verdict.

    `known` has what was before it; without it, the event is the first one that is known.
    """

    def __call__(self, event: Event, known: Known | None = None, /) -> Awaitable[tuple[list[Hook], Verdict]]: ...


async def hooks_here(
    connections: Connections | None, keys: Keys, places: Directories, cwd: Path, host: str = ""
) -> HookSet:
    """The hooks in force for events of this host in `cwd`: the fleet's (where there is a bus), the user's, the project's.

    For events of another `host` only the fleet's are known here. Raises Unreachable where the server of the links cannot
    be asked.
    """
    watcher = Watcher.here(connections or Connections(""), keys, places)
    if connections is not None:
        await watcher.refresh(force=True)
    return watcher.for_event(Event(type="", host=host or host_name(), cwd=str(cwd)))


def with_plugins(found: HookSet, folders: Sequence[Path], owner: str | None = None) -> HookSet:
    """The hooks with those of the plugins in these folders added, as a session layer below all others (I-08).

    `owner` (`claude` or `ion`) is the system of the plugins; None detects it by each one's content, else by its path.
    The errors of plugins that cannot be read are among that layer's problems.
    """
    if not folders:
        return found
    dialect = {} if owner is None else {"dialect": owner}
    imports = json.dumps({"import": [{"path": str(folder.absolute()), **dialect} for folder in folders]})
    file = parse_hook_file(imports, "session", file="--plugin-dir")
    return HookSet([*found.files, Layered("session", file.digest[:8] or "1", file)])


def hooks_of(file: HookFile) -> HookSet:
    """The hooks of one file alone, as if it were published; its Python plugins are those that the file names."""
    paths = {hook.plugin: hook.origin.rpartition(":")[0] for hook in file.hooks if hook.handler is not None}
    plugins = [msgspec.structs.replace(one, path=one.path or paths.get(one.name, "")) for one in file.plugins]
    return HookSet([Layered("fleet", file.digest[:8], replace(file, plugins=tuple(plugins)))])


def made_event(kind: str, *, source: str, tool: str, values: Sequence[str], cwd: Path) -> Event:
    """An event of the type in a pattern (`tool:pre_execute:bash`) or of an agent's event name (`PreToolUse`).

    `values` are `key=value`. A key is a field of the event (`session=…`, `data.x=…`); any other key goes into the tool's
    input, or into `data` if the event has no tool (`prompt=…`). A value is JSON if it is valid JSON, else text. Raises
    PatternError and DecodeError.
    """
    event = msgspec.structs.replace(event_of_type(kind, source=source_name(source), tool=tool), cwd=str(cwd))
    source, tool = event.source, event.native_tool
    fields: dict[str, Any] = {"input": {}, "data": {}}
    about_tool = bool(tool) or event.type.startswith(("tool:", "permission:"))
    for text in values:
        _put(fields, text, "input" if about_tool else "data")
    if tool and isinstance(fields["input"], dict):
        fields["input"] = canonical_input(source, tool, fields["input"])
    try:
        return converted({**msgspec.to_builtins(event), **fields}, Event)
    except msgspec.ValidationError as error:
        raise DecodeError(f"an event cannot have these values: {error}") from error


def read_event(raw: bytes, *, source: str, kind: str = "", cwd: Path, host: str = "") -> Event:
    """The event in a file: a canonical event, or an agent's own payload if `source` is given (`kind`: its native name).

    It gets a new id, and `host` (by default this one) and `cwd` if it has none. Raises DecodeError.
    """
    here = host or host_name()
    event = find(source_name(source)).read(kind, raw, host=here)
    return msgspec.structs.replace(event, id=event_id(), host=event.host or here, cwd=event.cwd or str(cwd))


def payload_source(raw: bytes) -> str:
    """The agent that a payload is of, by the name of its event; `generic` for a canonical event and where nothing tells."""
    try:
        value_read = json.loads(raw)
    except (ValueError, RecursionError):
        return "generic"
    if not isinstance(value_read, dict) or "type" in value_read:
        return "generic"
    names = (value_read[key] for key in _NATIVE_NAMES if isinstance(value_read.get(key), str))
    return next((agent for name in names if (agent := agent_with_event(name))), "generic")


def disabled_hooks(event: Event, hooks: HookSet) -> list[Hook]:
    """The disabled hooks, rules of guard packs included, that would fit the event if they were enabled."""
    found: list[Hook] = []
    for layer in hooks.files:
        file = layer.file
        off = [hook for hook in file.hooks if not hook.enabled]
        for pack, settings in file.guards.items():
            rules = load_pack(pack).rules
            off += [rule for rule in rules if not settings.enabled or is_disabled(rule, pack, settings)]
        on = [
            msgspec.structs.replace(hook, enabled=True, layer=layer.layer) for hook in off if hook.id not in hooks.hooks
        ]
        fitting = HookSet([Layered(layer.layer, layer.version, HookFile(hooks=tuple(on)))])
        found += {hook.id: hook for hook in (*fitting.blocking(event), *fitting.background(event, None))}.values()
    return found


def _put(fields: dict[str, Any], text: str, others: str) -> None:
    """Set `a.b=value` in the fields; a name that is no field of the event is set in the field `others`."""
    name, equals, raw = text.partition("=")
    path = name.strip().split(".")
    if not equals or not all(path) or len(path) > _MOST_NESTED:
        raise DecodeError(f"{text!r} is not key=value; write for example command='git push' or data.prompt=hello")
    try:
        value = json.loads(raw)
    except ValueError:
        value = raw
    if path[0] in _OPTIONS:
        raise DecodeError(
            f"{text!r}: use --{path[0]} {raw}, or input.{name.strip()}=… for a field of that name in the tool's input"
        )
    if path[0] in _OWN:
        value = raw  # these fields are text, even if the value looks like a number
    elif path[0] not in _NESTED:
        path = [others, *path]
    here: Any = fields
    for part in path[:-1]:
        here = here.setdefault(part, {}) if isinstance(here, dict) else None
    if not isinstance(here, dict):
        raise DecodeError(f"{text!r}: {'.'.join(path[:-1])} is a value already, so it cannot have a field {path[-1]!r}")
    here[path[-1]] = value


async def try_event(
    event: Event, hooks: HookSet, *, effects: bool, seconds: float, policy: Policy
) -> tuple[list[Hook], Verdict]:
    """The blocking hooks that fit, and their verdict; commands and http hooks run only with `effects`."""
    async with open_judge(hooks, effects=effects, seconds=seconds, policy=policy) as judge:
        return await judge(event)


@asynccontextmanager
async def open_judge(
    hooks: HookSet, *, effects: bool, seconds: float, policy: Policy, workflows: DryWorkflows | None = None
) -> AsyncIterator[Judge]:
    """A context with a function that evaluates these hooks for an event; the processes that it starts end with the context.

    `workflows` has the states of workflows, which nothing changes outside of it; without it, each session is a new one.
    """
    from bus.chain import Evaluation, evaluate
    from bus.http.client_pool import ClientPool
    from bus.runners.command import CommandRunner
    from workers.admin.workflows.dry import DryWorkflows
    from workers.plugins.host import PluginHost
    from workers.runtime.request_hooks import RequestHooks
    from workers.runtime.rule_checks import RuleChecks

    commands, plugins = CommandRunner(), PluginHost(lambda _event: hooks, host_name())
    flows = workflows or DryWorkflows()
    async with ClientPool() as clients, RuleChecks() as checks:

        async def judge(event: Event, known: Known | None = None) -> tuple[list[Hook], Verdict]:
            memory = known or ReplayedMemory()
            run = _runner(clients, commands, plugins, hooks, effects=effects)
            request_hooks = RequestHooks(hooks, flows.running(run), memory.recall)
            request_hooks.wait_for(checks, seconds)
            fitting = await request_hooks.fitting(event)
            verdict = await evaluate(
                Evaluation(
                    event=event,
                    hooks=fitting,
                    run=request_hooks.run,
                    seconds=seconds,
                    policy=policy,
                    version=hooks.version,
                    layers=hooks.layers,
                    hooks_for=request_hooks.fitting,
                    notes=request_hooks.notes(event, fitting),
                )
            )
            verdict = await memory.settled(event, verdict)
            if known is None and any(map(remembers, fitting)):
                verdict = msgspec.structs.replace(verdict, notes=(*verdict.notes, NOTHING_KNOWN))
            return fitting, verdict

        try:
            yield judge
        finally:
            await commands.end_background()
            await plugins.close()


_NAMES: Final = {
    "command": "the command",
    "http": "the request",
    "plugin": "the plugin",
    "prompt": "the question to the model",
    "agent": "the question to the model",
    "workflow": "the workflow",
}


def _runner(clients: ClientPool, commands: CommandRunner, plugins: PluginHost, hooks: HookSet, *, effects: bool) -> Run:
    from bus.runners.http import HttpRunner
    from bus.runners.model import ModelRunner

    models = ModelRunner()

    async def run(hook: Hook, event: Event, seconds: float) -> Outcome:
        if not effects:
            return Outcome(output=f"not run: --run runs {_NAMES[hook.kind]}")
        if hook.kind == "plugin":
            return await plugins.run(hook, event, seconds)
        if hook.kind == "command":
            return await commands.run(hook, event, seconds)
        client = clients.get(hooks.network, hooks.proxy)
        if hook.kind == "http":
            return await HttpRunner(client).run(hook, event, seconds)
        return await models.run(hook, event, seconds, hooks.model, client)

    return run


def later(event: Event, hooks: HookSet, verdict: Verdict) -> Mapping[str, list[str]]:
    """The ids of the background hooks that would run after the verdict, and of the endpoints that would get the event."""
    return {
        "hooks": [hook.id for hook in hooks.background(event, verdict)],
        "endpoints": [endpoint.id for endpoint in hooks.targets(event, verdict)],
    }
