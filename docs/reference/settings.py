"""docs/settings.md: every FLEETHOOK_* variable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bus.config.setting_types import DAY, HOUR, MINUTE
from bus.config.settings import OTHER_VARIABLES, PREFIX, Settings, Variable, measures
from docs.reference.fields import Field, code, fields, flow, table

_UNITS: Final = {
    "duration": (("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", 1), ("ms", 0.001)),
    "size": (("GiB", 2**30), ("MiB", 2**20)),
}

SETUP: Final[dict[str, Variable]] = {
    "FLEETHOOK_REDIS_PASSWORD": Variable("docker/compose.yaml: the password of its Redis server; required.", "2f9c…"),
    "FLEETHOOK_REDIS_PORT": Variable("docker/compose.yaml: the port of Redis on this host; 6379 without it.", "6380"),
    "FLEETHOOK_AGENTS": Variable("`make test-agents`: the agents to test, with spaces; `A=` sets it.", "codex gemini"),
}


def settings_page() -> str:
    """The page of settings."""
    names = [name for name in OTHER_VARIABLES if not OTHER_VARIABLES[name].for_hooks]
    hooks = [name for name in OTHER_VARIABLES if OTHER_VARIABLES[name].for_hooks]
    return f"""\
# Settings: every FLEETHOOK_* variable

Each setting can be an environment variable or a key of `settings:` in a `fleethook.yaml`, in lower case and without
`{PREFIX}`. A flag of a command has precedence over the variable, the variable over the file of a trusted project, and
that over your own file. `fleethook config show --origin` shows every value and where it comes from. A time is a number
of seconds or has a unit (`250ms`, `90s`, `5m`, `12h`, `14d`), and so does a size (`256MiB`, `1GiB`).

{_settings_table()}
## Other variables

{_variables(OTHER_VARIABLES, names)}
## Variables for commands of hooks

Every command of a hook gets these, beside a few harmless variables of the worker (PATH, HOME, LANG) and the hook's own `env`
and `env_pass`, and `TRACEPARENT` and `TRACESTATE` if the event has a [trace context](tracing.md).

{_variables(OTHER_VARIABLES, hooks)}
## Variables for setup and tests

{_variables(SETUP, SETUP)}"""


def _settings_table() -> str:
    known = measures()
    return table(
        ("variable", "meaning", "type", "default", "example"),
        [
            (
                code(PREFIX + field.name.upper()),
                field.description,
                {"duration": "time", "size": "size"}.get(known[field.name], field.type),
                default_text(field, known[field.name]),
                "<br>".join(code(example(field.name, value)) for value in field.examples),
            )
            for field in fields(Settings)
        ],
    )


def example(name: str, value: object) -> str:
    """A line for a shell that sets a variable."""
    return f"{PREFIX}{name.upper()}={value}"


def default_text(field: Field, measure: str) -> str:
    """The default with its unit; `-` for nothing."""
    if measure:
        unit, size = next((unit, size) for unit, size in _UNITS[measure] if (field.default / size).is_integer())
        return code(f"{field.default / size:.0f}{unit}")
    return code(flow(field.default)) if field.default != "" else "-"


def _variables(variables: dict[str, Variable], names: Iterable[str]) -> str:
    rows = [(code(name), variables[name].description, code(f"{name}={variables[name].example}")) for name in names]
    return table(("variable", "meaning", "example"), rows)
