"""The variables in the configuration of a plugin of Gobby: `${VAR}`, and `${VAR:-default}`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_LATER: Final = frozenset({"headers", "config"})
_WORDS: Final[Mapping[str, bool | None]] = {"true": True, "false": False, "null": None, "~": None}
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"[-+]?[0-9]{1,18}\.[0-9]{1,18}")


def variables_in(value: Any) -> Iterator[str]:
    """The names of the variables that a value refers to."""
    if isinstance(value, str):
        yield from (found[1] for found in _VARIABLE.finditer(value))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from variables_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from variables_in(item)


def expanded(value: Any, environment: Mapping[str, str]) -> Any:
    """The value with its variables; one that is not set and has no default stays as it is written.

    Gobby replaces them before it reads the YAML, so a value that is nothing but variables may become a number.
    """
    if isinstance(value, Mapping):
        return {key: expanded(item, environment) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [expanded(item, environment) for item in value]
    if not isinstance(value, str):
        return value

    def variable(found: re.Match[str]) -> str:
        name, default = found.groups()
        return environment.get(name, found[0]) if default is None else environment.get(name) or default

    text = _VARIABLE.sub(variable, value)
    return _scalar(text) if text != value and _VARIABLE.fullmatch(value) else text


def expanded_section(section: Any, environment: Mapping[str, str]) -> Any:
    """`hook_extensions` with its variables, but for headers and the configs of plugins.

    Those are replaced when a request is made and when a plugin is loaded, so that no secret is kept with the hooks.
    """
    if isinstance(section, Mapping):
        return {key: value if key in _LATER else expanded_section(value, environment) for key, value in section.items()}
    if isinstance(section, list):
        return [expanded_section(item, environment) for item in section]
    return expanded(section, environment)


def _scalar(text: str) -> Any:
    """A text as YAML reads it without quotes."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text
