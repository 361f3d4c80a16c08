"""The texts of workflows: Jinja templates in a sandbox, and the older forms `${secrets.NAME}`, `${env.X}` and `${var}`.

A value never becomes a part of a command line: `command_line` puts each one into a variable of the environment.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import warnings
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

from bus.errors import ConfigError, PatternError
from bus.matching.regexes import find_group

if TYPE_CHECKING:  # 25 ms; only workflows with templates need it
    from jinja2 import Environment, Template

MAX_LENGTH: Final = 100_000
MOST_TEXT: Final = 1_000_000
"""The most characters of a rendered text."""

_MARKS: Final = ("{{", "{%", "{#")
_DOLLAR: Final = re.compile(r"\$\{(secrets|env|context)?\.?([A-Za-z_][A-Za-z0-9_.]*)\}")
_SECRET: Final = re.compile(r"\$\{secrets\.([A-Za-z_][A-Za-z0-9_]*)\}")
_PLACE: Final = re.compile("\x01([0-9]+)\x02")


def check_template(text: str) -> None:
    """Raise PatternError where a text is no template."""
    if len(text) > MAX_LENGTH:
        raise PatternError(f"the text has {len(text)} characters; {MAX_LENGTH} is the most")
    if _is_template(text):
        _compiled(text)


def render(text: str, names: Mapping[str, Any]) -> str:
    """The text with the values of `names`; raises ConfigError where the template fails."""
    if "${" in text:
        text = _DOLLAR.sub(lambda found: _dollar(found, names), text)
    if not _is_template(text):
        return text
    return _rendered(_compiled(text), names, text)


def render_all(value: Any, names: Mapping[str, Any], *, known_only: bool = False) -> Any:
    """A value with each text in it rendered; with `known_only`, a template that reads another name stays as it is."""
    if isinstance(value, str):
        return (
            value if known_only and _is_template(value) and _other_names(value) - names.keys() else render(value, names)
        )
    if isinstance(value, dict):
        return {key: render_all(item, names, known_only=known_only) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [render_all(item, names, known_only=known_only) for item in value]
    return value


@lru_cache(maxsize=1024)
def _other_names(text: str) -> frozenset[str]:
    """The names that a template reads from outside."""
    from jinja2 import TemplateError, meta

    try:
        return frozenset(meta.find_undeclared_variables(_environment().parse(text)))
    except (TemplateError, RecursionError):
        return frozenset()  # rendering it says what is wrong


def render_value(value: Any, names: Mapping[str, Any]) -> Any:
    """A value for a variable: a rendered text that is true, false, null or a number becomes that."""
    if not isinstance(value, str) or not (_is_template(value) or "${" in value):
        return render_all(value, names)
    text = render(value, names)
    plain = text.strip()
    words = {"true": True, "false": False, "null": None, "none": None}
    if plain.lower() in words:
        return words[plain.lower()]
    if re.fullmatch(r"-?[0-9]{1,15}", plain):
        return int(plain)
    return float(plain) if re.fullmatch(r"-?[0-9]{1,15}\.[0-9]{1,15}", plain) else text


def header_text(text: str) -> str:
    """A header's text with `${secrets.NAME}` as the variable `${NAME}`, which is replaced when the request is made."""
    return _SECRET.sub(r"${\1}", text)


def command_line(text: str, names: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """A shell command with each `{{ … }}` as a variable of the environment, and these variables.

    A value can therefore not end a quotation or begin a command. Raises ConfigError where the template fails.
    """
    if not _is_template(text):
        return text, {}
    values: list[str] = []

    def keep(value: Any) -> str:
        values.append(_text(value))
        return f"\x01{len(values) - 1}\x02"

    whole = _rendered(_command_template(text, keep), names, text)
    variables = {f"FH_VALUE_{number + 1}": value.replace("\x00", "") for number, value in enumerate(values)}
    return _quoted(whole), variables


def _quoted(line: str) -> str:
    """The line with each marked place as a variable that the shell expands and does not read again."""
    found: list[str] = []
    quote, index = "", 0
    while index < len(line):
        place = _PLACE.match(line, index)
        if place is not None:
            name = f"${{FH_VALUE_{int(place[1]) + 1}}}"
            found.append(name if quote == '"' else f"'\"{name}\"'" if quote else f'"{name}"')
            index = place.end()
            continue
        letter = line[index]
        if letter == "\\" and quote != "'":
            found.append(line[index : index + 2])
            index += 2
            continue
        if letter in "'\"" and quote in ("", letter):
            quote = "" if quote else letter
        found.append(letter)
        index += 1
    return "".join(found)


def shown_command(text: str, names: Mapping[str, Any]) -> str:
    """A command with its values quoted, for people."""
    line, values = command_line(text, names)
    for name, value in values.items():
        line = line.replace(f'"${{{name}}}"', shlex.quote(value)).replace(f"${{{name}}}", value)
    return line


def _is_template(text: str) -> bool:
    return any(mark in text for mark in _MARKS)


def _dollar(found: re.Match[str], names: Mapping[str, Any]) -> str:
    """`${env.X}` of the worker's environment, `${context.x}` and `${x}` of the names; anything else stays as it is written."""
    space, path = found[1], found[2].split(".")
    if space == "secrets":
        return found[0]
    if space == "env":
        return os.environ.get(path[0], "") if path[0].isidentifier() and _may_be_read(path[0]) else ""
    value: Any = names
    for name in path:
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        else:
            variables = names.get("variables")
            if len(path) == 1 and isinstance(variables, Mapping) and name in variables:
                value = variables[name]
                continue
            return found[0]
    return _text(value)


def _may_be_read(name: str) -> bool:
    """Whether a text may hold a variable of the worker: Fleethook's own credentials are not given to anyone."""
    return not name.startswith("FLEETHOOK_")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list) else str(value)


@cache
def _environment() -> Environment:
    from jinja2 import ChainableUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    made = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # the texts are for models and commands, and no HTML
        undefined=ChainableUndefined,
    )
    made.filters["regex_search"] = _regex_search
    return made


def _regex_search(text: object, pattern: str, group: int = 1) -> str:
    """Gobby's filter: the group of the first place that a pattern fits; empty if there is none."""
    return find_group(pattern, str(text)[:MAX_LENGTH], group)


@lru_cache(maxsize=1024)
def _compiled(text: str) -> Template:
    from jinja2 import TemplateError

    try:
        with warnings.catch_warnings():
            # Jinja reads `'\\d'` in a template as Gobby's files have it, and Python warns of it.
            warnings.simplefilter("ignore", DeprecationWarning)
            return _environment().from_string(text)
    except TemplateError as error:
        line = getattr(error, "lineno", None)
        where = f" in its line {line}" if line and line > 1 else ""
        raise PatternError(f"bad template{where}: {error}") from None
    except (RecursionError, MemoryError) as error:
        raise PatternError(f"bad template: {type(error).__name__}") from None


def _command_template(text: str, keep: Any) -> Template:
    """The template with each output as a marked place; it is compiled for one use, since it keeps the values."""
    from jinja2 import TemplateError

    environment = _environment().overlay(finalize=keep)
    try:
        return environment.from_string(text)
    except TemplateError as error:
        raise PatternError(f"bad template: {error}") from None


def _rendered(template: Template, names: Mapping[str, Any], text: str) -> str:
    try:
        parts, size = [], 0
        for part in template.generate(**names):
            size += len(part)
            if size > MOST_TEXT:
                raise ConfigError(f"the text of {text[:60]!r} has more than {MOST_TEXT} characters")
            parts.append(part)
        return "".join(parts)
    except ConfigError:
        raise
    except Exception as error:  # noqa: BLE001 - a template may fail in any way on values that it does not expect
        raise ConfigError(f"the text {text[:60]!r} cannot be written: {type(error).__name__}: {error}") from None
