"""Reads what hook files say about models: the `model:` part, and the `prompt` and `agent` of a hook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bus.config import hook_file_value
from bus.config.documents import Document, Plain
from bus.config.model_entry import OWN_KEY, ModelEntry
from bus.config.validation import convert
from bus.errors import ConfigError, TargetRefused
from bus.hooks import Layer, ModelPrompt
from bus.http.address_policy import never, parse_target
from bus.http.proxies import MAY_NAME

PROMPT_TIMEOUT: Final = 30.0
AGENT_TIMEOUT: Final = 60.0
"""Seconds for hooks of these kinds that set no `timeout`, as in Claude Code."""


def read_model(document: Document, raw: Plain, layer: Layer) -> tuple[ModelEntry | None, list[ConfigError]]:
    """The `model:` part if this layer may have one, and its problems, which quote neither key nor headers."""
    if raw is None:
        return None, []
    if layer not in MAY_NAME:
        message = f"a {layer}'s file may not name the model that hooks ask"
        hint = "name it in your own file or in the fleet's set"
        return None, [document.error(("model",), message, hint=hint, key=True)]
    key = raw.get("key") if isinstance(raw, dict) else None
    if isinstance(key, str) and not key.startswith(("env:", "file:")) and key:
        hint = "write env:NAME or file:PATH"
        return None, [document.error(("model", "key"), "the key is not a reference", hint=hint)]
    if isinstance(key, str) and key.startswith(OWN_KEY):
        message = "a variable of Fleethook itself is not sent as a key"
        return None, [document.error(("model", "key"), message, hint="use another variable")]
    entry, problems = convert(document, ("model",), raw, ModelEntry)
    if entry is None:
        return None, problems
    try:
        if why := never(parse_target(entry.url)):
            problems.append(document.error(("model", "url"), why))
    except TargetRefused as error:
        problems.append(document.error(("model", "url"), error.reason))
    for name, value in entry.headers.items():
        for message in hook_file_value.bad_headers({name: value}):
            problems.append(document.error(("model", "headers", name), message))
    return (None if problems else entry), problems


def with_prompts(fields: Mapping[str, Any], raw: Plain) -> Iterator[tuple[str, Any]]:
    """The fields of a hook that asks a model: its question as a value, and its timeout where `raw` sets none."""
    for name, seconds in (("prompt", PROMPT_TIMEOUT), ("agent", AGENT_TIMEOUT)):
        value = fields[name]
        if value is None:
            continue
        yield name, ModelPrompt(text=value) if isinstance(value, str) else value
        if isinstance(raw, dict) and "timeout" not in raw:
            yield "timeout", seconds


def prompt_problems(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Which fields of a hook that asks a model are wrong, and why."""
    for name in ("prompt", "agent"):
        value = fields[name]
        if value is None:
            continue
        text = value if isinstance(value, str) else value.text
        if not text.strip():
            yield name, f"{name} must not be empty"
        if len(text) > 20_000:
            yield name, f"{name} has {len(text)} characters; 20000 is the most"
        if not fields["blocking"]:
            yield "blocking", f"{name} decides, so it cannot run in the background"
