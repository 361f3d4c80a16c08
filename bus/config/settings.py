"""Fleethook's own settings: their types, defaults and descriptions, and how each is parsed from text."""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import inspect

from bus.config.documents import Document, PathParts, Plain
from bus.config.field_types import END
from bus.config.setting_types import DAY, HOUR, MIB, MINUTE, check_url, count, measured, size, text, time, word
from bus.config.validation import explain, is_extra, suggestion
from bus.errors import ConfigError
from bus.lazy.conversions import converted
from bus.verdicts import Policy

GobbyReload = Literal["auto", "on", "off"]


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting, checked: times in seconds, sizes in bytes. The defaults suit a laptop for months."""

    redis_url: Annotated[
        str,
        text(
            "The Redis server of the bus; empty: the embedded server of this machine.",
            "rediss://fleethook-worker:PASSWORD@redis.example:6379",
            "redis",
            "rediss",
            "unix",
        ),
    ] = ""
    operator_url: Annotated[
        str,
        text(
            "The Redis URL with which a gateway publishes hook sets for tokens with the scope `admin`; empty: its own.",
            "redis://localhost:6379/0",
            "redis",
            "rediss",
            "unix",
        ),
    ] = ""
    rq_url: Annotated[
        str,
        text(
            "The Redis server for RQ's queues; empty: the bus's server.",
            "redis://localhost:6379/1",
            "redis",
            "rediss",
            "unix",
        ),
    ] = ""
    url: Annotated[
        str,
        text(
            "The gateway that agents' hook commands ask instead of Redis: its unix socket, or its address and FLEETHOOK_TOKEN.",
            "unix:///run/user/1000/fleethook/gateway.sock",
            "unix",
            "http",
            "https",
        ),
    ] = ""
    namespace: Annotated[
        str,
        text(
            "The fleet's name, part of every key. Several fleets can share a server.",
            "staging",
            pattern="^[a-z0-9-]{1,40}" + END,
        ),
    ] = "default"
    host: Annotated[
        str,
        text("This machine's name in events; empty: its host name.", "build-7", pattern="^[^\\s]{0,64}" + END),
    ] = ""
    budget: Annotated[
        float,
        time("The longest time from an agent's request to its verdict, where the agent allows it.", "5s", 0.01, HOUR),
    ] = 10.0
    connect_timeout: Annotated[
        float,
        time("How long a hook command waits for its connection; part of the budget.", "100ms", 0.001, MINUTE),
    ] = 0.25
    native_hook: Annotated[
        int,
        count(
            "1: `fleethook install` writes hook commands that start a small program in C, where there is one; 0: Python alone.",
            0,
            0,
            1,
        ),
    ] = 1
    on_failure: Annotated[
        Policy,
        word("The decision when no verdict can be given; `allow` lets the agent go on by its own rules.", "deny"),
    ] = "allow"
    events_max_age: Annotated[
        float, time("Older events are removed once every reader has read them; 0 keeps all.", "7d")
    ] = 14.0 * DAY
    events_max_count: Annotated[
        int, count("The highest number of events; the oldest are removed first. 0 keeps all.", 50_000, 0, 10**12)
    ] = 200_000
    events_max_bytes: Annotated[
        int, size("The most memory that events use; the oldest are removed first. 0 keeps all.", "1GiB")
    ] = 256 * MIB
    deliveries_keep: Annotated[float, time("How long finished deliveries can be looked up.", "1d")] = 7.0 * DAY
    deliveries_max_count: Annotated[
        int,
        count(
            "The highest number of finished deliveries; the oldest are removed first. 0 keeps all.", 10_000, 0, 10**12
        ),
    ] = 100_000
    deliveries_max_bytes: Annotated[
        int,
        size("The most memory that deliveries use; the oldest finished ones are removed first. 0 keeps all.", "64MiB"),
    ] = 128 * MIB
    breaker_first: Annotated[
        float,
        time(
            "How long an open breaker waits before its first probe. Each failed probe doubles the wait.",
            "10s",
            0.01,
            DAY,
        ),
    ] = 5.0
    breaker_most: Annotated[float, time("The longest wait between probes of an open breaker.", "10m", 0.01, DAY)] = (
        5.0 * MINUTE
    )
    disable_after: Annotated[
        float, time("An endpoint is disabled after failing for this long without a success; 0: never.", "2d")
    ] = 5.0 * DAY
    coverage_grace: Annotated[
        float,
        time(
            "How long the pre-hook event of a tool call that has run may be late before the call counts as uncovered.",
            "5m",
        ),
    ] = 1.0 * MINUTE
    dead_keep: Annotated[float, time("How long dead letters are kept and can be retried.", "14d")] = 30.0 * DAY
    dead_max_count: Annotated[
        int, count("The highest number of dead letters; the oldest are removed first. 0 keeps all.", 5_000, 0, 10**12)
    ] = 20_000
    dead_max_bytes: Annotated[
        int, size("The most memory that dead letters use; the oldest are removed first. 0 keeps all.", "64MiB")
    ] = 128 * MIB
    evaluators: Annotated[int, count("The most evaluators that `fleethook up` runs; see operations.", 4, 0, 256)] = 2
    carriers: Annotated[
        int, count("The number of RQ workers for deliveries that `fleethook up` starts.", 4, 0, 256)
    ] = 2
    chores: Annotated[int, count("The number of RQ workers for housekeeping that `fleethook up` starts.", 2, 0, 64)] = 1
    gateways: Annotated[
        int, count("The number of gateways (HTTP) that `fleethook up` starts: 1, or 0 for none.", 0, 0, 1)
    ] = 1
    gateway_host: Annotated[
        str,
        text(
            "The address that a gateway listens on. Any other than loopback needs a token (`fleethook tokens create`).",
            "10.0.0.7",
            pattern="^[^\\s/]{1,255}" + END,
        ),
    ] = "127.0.0.1"
    gateway_port: Annotated[
        int, count("The TCP port that a gateway listens on; 0: none, only its unix socket.", 8080, 0, 65_535)
    ] = 4665
    gateway_connections: Annotated[
        int, count("The most connections to a gateway's port; one address gets half of them.", 500, 2, 100_000)
    ] = 4096
    gateway_names: Annotated[
        str,
        text(
            "The host names by which clients may address a gateway, with commas, beside localhost and its address.",
            "hooks.example,gateway.internal",
            pattern="^[^\\s/]{0,2048}" + END,
        ),
    ] = ""
    public_url: Annotated[
        str,
        text(
            "The address by which people reach a gateway, for links in webhooks to events and held calls; empty: no links.",
            "https://fleethook.example",
            "http",
            "https",
        ),
    ] = ""
    feed_events: Annotated[
        str,
        text(
            "The events that a gateway's live feed sends, and their deliveries: patterns as in a hook's `on`, with commas.",
            "session:*,tool:*",
            pattern="^[A-Za-z0-9_.*?!:, \\[\\]-]{1,2048}" + END,
        ),
    ] = "*"
    feed_payload: Annotated[
        int,
        count(
            "1: the live feed of a gateway sends the input, output and data of events, redacted; 0: it does not.",
            0,
            0,
            1,
        ),
    ] = 1
    gobby: Annotated[
        Literal["auto", "on", "off"],
        word(
            "Whether a gateway replaces Gobby's daemon. `auto`: only if a hook file imports Gobby's configuration.",
            "on",
        ),
    ] = "auto"
    gobby_port: Annotated[
        int, count("The port of Gobby's daemon; 0: as Gobby's configuration has it, else 60887.", 8765, 0, 65_535)
    ] = 0
    gobby_websocket_port: Annotated[
        int,
        count("The port of Gobby's WebSocket; 0: as Gobby's configuration has it, else 60888.", 8766, 0, 65_535),
    ] = 0
    gobby_approves: Annotated[
        int,
        count(
            "1: a call through Gobby's scripts that no hook objects to is approved, as by Gobby; 0: the agent may ask.",
            0,
            0,
            1,
        ),
    ] = 1
    gobby_reload: Annotated[
        GobbyReload,
        word(
            "Who may reload plugins on Gobby's port, where callers have no token. `auto`: processes of the gateway's own "
            "user that no agent has started, which Linux can tell; `on`: every caller; `off`: nobody.",
            "off",
        ),
    ] = "auto"
    slots: Annotated[int, count("The most hook processes that one evaluator runs at the same time.", 16, 1, 1024)] = 8
    carrier_in_flight: Annotated[
        int, count("The most attempts that one carrier has in progress at the same time.", 50, 1, 10_000)
    ] = 100
    otlp_endpoint: Annotated[
        str,
        text(
            "The OpenTelemetry collector that gets traces, where no `OTEL_…` variable names one; empty: no traces.",
            "http://localhost:4318",
            "http",
            "https",
        ),
    ] = ""
    trace_url: Annotated[
        str, text("The address of trace {trace} in your tool.", "http://localhost:16686/trace/{trace}", "http", "https")
    ] = ""
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        word("The lowest level of messages that workers log.", "debug"),
    ] = "info"


NAMES: Final = Settings.__struct_fields__
PREFIX: Final = "FLEETHOOK_"
VARIABLES: Final = {PREFIX + name.upper(): name for name in NAMES}


class Variable(NamedTuple):
    """A variable that is not a setting: its meaning and an example."""

    description: str
    example: str
    for_hooks: bool = False
    """Fleethook sets it for the commands of hooks."""


OTHER_VARIABLES: Final[dict[str, Variable]] = {
    PREFIX + name: variable
    for name, variable in {
        "HOME": Variable("The folder for all that Fleethook writes, instead of your usual ones.", "/srv/fleethook"),
        "SECRET_KEY_FILE": Variable("The file with the key of the sealed secrets.", "/etc/fleethook/secret.key"),
        "SHIM_URL": Variable(
            "The Redis server that `fleethook install` gives to hook commands, with the rights of the role `shim`.",
            "rediss://fleethook-shim:PASSWORD@redis.example:6379",
        ),
        "TOKEN": Variable(
            "A gateway's token, for http hooks of agents and for programs (`fleethook tokens create`).",
            "fht_5m2vJ3b0xTg7n0u8Qm9cJ1eWc4yZrV6kq2LwSx0fHdA",
        ),
        "ON_DEMAND": Variable("Set by `fleethook up`: what it starts only while there is work.", "chores"),
        "LIFELINE": Variable("Set by `fleethook up`: the pipe by which its processes notice that it has ended.", "3"),
        "WATCHDOG": Variable("Set by `fleethook up`: the timer by which it notices that a process hangs.", "5"),
        "REPLACES": Variable("Set by `fleethook up`: the id of the ended process that a new one replaces.", "4711"),
        "RUN": Variable("Set by the workers: marks one hook's processes, to find them when it times out.", "4711-1"),
        "TEST_CONFIRMS": Variable(
            "For tests: `1` confirms commands that need a person, only with FLEETHOOK_HOME in a temporary folder.", "1"
        ),
        "PARENT": Variable(
            "The id of the event that the hook runs for. Events that the command publishes refer to it.",
            "e0196f3a2b4c5d6e7f8091a2b3c4d5e6",
            True,
        ),
        "EVENT": Variable("The event's type.", "tool:pre_execute", True),
        "EVENT_ID": Variable("The event's id.", "e0196f3a2b4c5d6e7f8091a2b3c4d5e6", True),
        "TOOL": Variable("The canonical name of the tool; empty for other events.", "bash", True),
        "SESSION": Variable("The agent's session.", "3f1c2a", True),
        "SOURCE": Variable("The agent.", "claude", True),
        "CWD": Variable("The agent's directory.", "/home/ana/shop", True),
        "HOOK": Variable("The hook's id.", "no-force-push", True),
        "NATIVE_EVENT": Variable("The agent's own name of the event.", "PreToolUse", True),
        "NATIVE_TOOL": Variable("The agent's own name of the tool.", "Bash", True),
        "CUT": Variable(
            "The names of the variables whose values were cut because they were too long, separated by commas.",
            "FLEETHOOK_CWD",
            True,
        ),
    }.items()
}
"""The variables that are not settings. They are accepted in any process's environment."""


def read_section(document: Document, path: PathParts, raw: Plain) -> tuple[dict[str, Any], list[ConfigError]]:
    """The valid values of a `settings:` section by name, and the errors of the others."""
    if raw is None:
        return {}, []
    if not isinstance(raw, dict):
        return {}, [document.error(path, "settings has to be a mapping (`key: value`)")]
    values: dict[str, Any] = {}
    problems: list[ConfigError] = []
    for name, value in raw.items():
        place = (*path, name)
        if is_extra(name):
            continue
        if name not in NAMES:
            hint = suggestion(name, NAMES) or "`fleethook config show` lists them"
            problems.append(document.error(place, f'unknown setting "{name[:80]}"', hint=hint, key=True))
            continue
        try:
            values[name] = parse_setting(name, value)
        except ConfigError as error:
            problems.append(document.error(place, error.message, hint=error.hint))
    return values, problems


def parse_setting(name: str, raw: object) -> Any:
    """A setting's value from YAML, a flag or a variable's text; ConfigError, without file and line, for a bad value."""
    shape = _shapes()[name]
    value = raw
    if shape.measure and not isinstance(raw, (int, float)):
        value = measured(name, raw, shape.measure)
    elif shape.whole and isinstance(raw, str):
        if not re.fullmatch(r"-?[0-9]{1,15}", raw):
            raise ConfigError(f"{name} has to be a whole number")
        value = int(raw)
    if shape.measure and shape.whole and isinstance(value, float):
        value = int(value)
    found = explain({name: value}, Settings)
    if found is not None:
        raise ConfigError(found[0], hint=found[1])
    if shape.schemes and isinstance(value, str) and value:
        check_url(name, value, shape.schemes)
    return getattr(converted({name: value}, Settings), name)


def duration(name: str, raw: str) -> float:
    """The seconds in a text such as `90s`, `24h` or `7d`; ConfigError, which mentions `name`, for any other text."""
    return measured(name, raw, "duration")


def describe() -> dict[str, str]:
    """The description of each setting, by name."""
    return {name: shape.description for name, shape in _shapes().items()}


def measures() -> dict[str, str]:
    """The measure of each setting, by name: `duration`, `size`, or an empty text."""
    return {name: shape.measure for name, shape in _shapes().items()}


class _Shape(NamedTuple):
    """The facts about a setting's type that parsing needs."""

    description: str
    measure: str
    schemes: tuple[str, ...]
    whole: bool


@cache
def _shapes() -> dict[str, _Shape]:
    info = inspect.type_info(Settings)
    shapes = {}
    for field in info.fields if isinstance(info, inspect.StructType) else ():
        kind = field.type
        extra: dict[str, Any] = {}
        schema: dict[str, Any] = {}
        while isinstance(kind, inspect.Metadata):
            extra, schema = {**(kind.extra or {}), **extra}, {**(kind.extra_json_schema or {}), **schema}
            kind = kind.type
        shapes[field.encode_name] = _Shape(
            schema.get("description", ""),
            extra.get("measure", ""),
            tuple(extra.get("schemes", ())),
            isinstance(kind, inspect.IntType),
        )
    return shapes
