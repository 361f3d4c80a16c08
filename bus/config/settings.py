"""Fleethook's own settings: one value with its defaults, and how each part of it is read out of text."""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, inspect

from bus.config.documents import Document, PathParts, Plain
from bus.config.validation import END, explain, is_extra, suggestion
from bus.errors import ConfigError
from bus.verdicts import Policy

MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
MIB: Final = 1024 * 1024

_UNITS: Final[dict[str, dict[str, float]]] = {
    "duration": {"": 1, "ms": 0.001, "s": 1, "m": MINUTE, "min": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY},
    "size": {"": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1024, "mib": MIB, "gib": 1024 * MIB},
}
_WANTED: Final = {"duration": "seconds, or a time such as 90s, 12h or 14d", "size": "bytes, or a size such as 256MiB"}
_SHAPES: Final[dict[str, dict[str, Any]]] = {
    "duration": {"type": ["number", "string"], "pattern": "^[0-9]+(\\.[0-9]+)? *(ms|s|m|min|h|d|w)?$"},
    "size": {"type": ["integer", "string"], "pattern": "^[0-9]+(\\.[0-9]+)? *([kKmMgG][iI]?)?[bB]?$"},
}
_QUANTITY: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) *([A-Za-z]*)")


def _text(description: str, *schemes: str, pattern: str | None = None) -> Meta:
    return Meta(max_length=2048, pattern=pattern, description=description, extra={"schemes": schemes})


def _count(description: str, least: int, most: int) -> Meta:
    return Meta(ge=least, le=most, description=description)


def _quantity(measure: str, description: str, least: float, most: float) -> Meta:
    return Meta(
        ge=least, le=most, description=description, extra={"measure": measure}, extra_json_schema=_SHAPES[measure]
    )


def _time(description: str, least: float = 0, most: float = 3650 * DAY) -> Meta:
    return _quantity("duration", description, least, most)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set, checked; ages in seconds, sizes in bytes. The defaults suit a laptop for months."""

    redis_url: Annotated[
        str,
        _text("The bus's server; empty means the embedded server of this machine.", "redis", "rediss", "unix"),
    ] = ""
    rq_url: Annotated[
        str, _text("RQ's server where it is another one; empty means the bus's.", "redis", "rediss", "unix")
    ] = ""
    url: Annotated[str, _text("A gateway to use instead of Redis; empty means none.", "http", "https")] = ""
    namespace: Annotated[
        str,
        _text(
            "The fleet's name, part of every key: several fleets can share a server.", pattern="^[a-z0-9-]{1,40}" + END
        ),
    ] = "default"
    host: Annotated[
        str, _text("What this machine is called in events; empty means its host name.", pattern="^[^\\s]{0,64}" + END)
    ] = ""
    budget: Annotated[
        float, _time("How long a request may take from agent to verdict, where the agent allows it.", 0.01, HOUR)
    ] = 10.0
    connect_timeout: Annotated[
        float, _time("How long a hook waits for a connection; part of the budget.", 0.001, MINUTE)
    ] = 0.25
    on_failure: Annotated[
        Policy, Meta(description="What the bus answers without a verdict: allow (nobody objected), deny or ask.")
    ] = "allow"
    events_max_age: Annotated[float, _time("Older events are removed once every reader has them; 0 keeps them.")] = (
        14.0 * DAY
    )
    events_max_count: Annotated[
        int, _count("Events beyond this number are removed, oldest first; 0 keeps them.", 0, 10**12)
    ] = 200_000
    events_max_bytes: Annotated[
        int, _quantity("size", "The same for the memory that the events take; 0 keeps them.", 0, 2**50)
    ] = 256 * MIB
    deliveries_keep: Annotated[float, _time("How long a delivery that is done can be looked at.")] = 7.0 * DAY
    deliveries_max_count: Annotated[
        int, _count("Deliveries that are done beyond this number are forgotten, oldest first; 0 keeps them.", 0, 10**12)
    ] = 100_000
    deliveries_max_bytes: Annotated[
        int, _quantity("size", "The same for the memory that all deliveries take; 0 keeps them.", 0, 2**50)
    ] = 128 * MIB
    breaker_first: Annotated[
        float, _time("How long an open breaker waits before its first probe; doubles with each that fails.", 0.01, DAY)
    ] = 5.0
    breaker_most: Annotated[float, _time("The longest wait between probes of an open breaker.", 0.01, DAY)] = (
        5.0 * MINUTE
    )
    disable_after: Annotated[
        float, _time("An endpoint is disabled after so long a time of nothing but failures; 0 leaves it enabled.")
    ] = 5.0 * DAY
    dead_keep: Annotated[float, _time("How long a dead letter can be tried again.")] = 30.0 * DAY
    dead_max_count: Annotated[
        int, _count("Dead letters beyond this number are dropped, oldest first; 0 keeps them.", 0, 10**12)
    ] = 20_000
    dead_max_bytes: Annotated[
        int, _quantity("size", "The same for the memory that dead letters take; 0 keeps them.", 0, 2**50)
    ] = 128 * MIB
    evaluators: Annotated[int, _count("Evaluators that `fleethook up` starts.", 0, 256)] = 2
    carriers: Annotated[int, _count("RQ workers for deliveries that `fleethook up` starts.", 0, 256)] = 2
    chores: Annotated[int, _count("RQ workers for maintenance that `fleethook up` starts.", 0, 64)] = 1
    slots: Annotated[int, _count("Hook processes that one evaluator runs at the same time.", 1, 1024)] = 8
    carrier_in_flight: Annotated[int, _count("Attempts that one carrier has under way at a time.", 1, 10_000)] = 100
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="From where on the workers log.")
    ] = "info"


NAMES: Final = Settings.__struct_fields__
PREFIX: Final = "FLEETHOOK_"
VARIABLES: Final = {PREFIX + name.upper(): name for name in NAMES}
OTHER_VARIABLES: Final = frozenset(
    PREFIX + name
    for name in (
        "HOME",
        "SECRET_KEY_FILE",
        "SHIM_URL",
        "LIFELINE",
        "PARENT",
        "RUN",
        "TEST_CONFIRMS",
        "EVENT",
        "EVENT_ID",
        "TOOL",
        "SESSION",
        "SOURCE",
        "CWD",
        "HOOK",
        "CUT",
    )
)
"""Variables that are no settings: where everything lives, and what a hook's process is told."""


def read_section(document: Document, path: PathParts, raw: Plain) -> tuple[dict[str, Any], list[ConfigError]]:
    """The good values of a `settings:` section by name, and what is wrong with the others."""
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
    """A setting's value out of YAML, a flag or a variable's text; ConfigError, without a place, what it has to be."""
    shape = _shapes()[name]
    value = raw
    if shape.measure and not isinstance(raw, (int, float)):
        value = _measured(name, raw, shape.measure)
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
        _check_url(name, value, shape.schemes)
    return getattr(msgspec.convert({name: value}, Settings), name)


def duration(name: str, raw: str) -> float:
    """The seconds in a text such as `90s`, `24h` or `7d`; ConfigError says what it has to be, and `name` of what."""
    return _measured(name, raw, "duration")


def describe() -> dict[str, str]:
    """What each setting is, in one sentence, by name."""
    return {name: shape.description for name, shape in _shapes().items()}


class _Shape(NamedTuple):
    """What a setting's type says about reading it."""

    description: str
    measure: str
    schemes: tuple[str, ...]
    whole: bool


@cache
def _shapes() -> dict[str, _Shape]:
    info = inspect.type_info(Settings)
    shapes = {}
    for each in info.fields if isinstance(info, inspect.StructType) else ():
        kind = each.type
        extra: dict[str, Any] = {}
        schema: dict[str, Any] = {}
        while isinstance(kind, inspect.Metadata):
            extra, schema = {**(kind.extra or {}), **extra}, {**(kind.extra_json_schema or {}), **schema}
            kind = kind.type
        shapes[each.encode_name] = _Shape(
            schema.get("description", ""),
            extra.get("measure", ""),
            tuple(extra.get("schemes", ())),
            isinstance(kind, inspect.IntType),
        )
    return shapes


def _measured(name: str, raw: object, measure: str) -> float:
    match = _QUANTITY.fullmatch(raw.strip()) if isinstance(raw, str) else None
    unit = _UNITS[measure].get(match[2].lower()) if match is not None else None
    if match is None or unit is None:
        raise ConfigError(f"{name} has to be {_WANTED[measure]}")
    return float(match[1]) * unit


def _check_url(name: str, url: str, schemes: tuple[str, ...]) -> None:
    """Refuse what is no URL of these schemes; the message never quotes it, since it may hold a password."""
    wanted = f"{name} has to begin with {' or '.join(f'{scheme}://' for scheme in schemes)}"
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where it is not a number in range
    except ValueError as error:
        raise ConfigError(f"{name} is not a URL", hint="see host and port") from error
    if parts.scheme not in schemes:
        raise ConfigError(wanted)
    if not (parts.path if parts.scheme == "unix" else parts.hostname):
        raise ConfigError(f"{name} names no {'socket' if parts.scheme == 'unix' else 'host'}")
