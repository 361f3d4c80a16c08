"""Checks of an endpoint for its format: required keys and URLs, and hints for a URL of another service."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from bus.config.endpoint_entry import EndpointEntry
from bus.config.field_types import ENV_PATTERN
from bus.errors import ConfigError
from bus.hooks import Endpoint, Format
from bus.lazy.regex import lazy_regex
from bus.secrets.sealing import PREFIX

URLS: Final[dict[str, str]] = {"pagerduty": "https://events.pagerduty.com/v2/enqueue"}
"""The URL of a format that has only one (PagerDuty Events API v2; its EU region has another)."""

_CHATS: Final[tuple[tuple[re.Pattern[str], Format], ...]] = (
    (lazy_regex(r"hooks\.slack(?:-gov)?\.com/"), "slack"),
    (lazy_regex(r"(?:\w+\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/[^/]+/[^/]+/slack/?\Z"), "slack"),
    (lazy_regex(r"(?:\w+\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/[^/]+/[^/]+/?\Z"), "discord"),
    (lazy_regex(r"events\.(?:eu\.)?pagerduty\.com/v2/"), "pagerduty"),
    (lazy_regex(r"ntfy\.sh/"), "ntfy"),
    (lazy_regex(r"[\w-]+\.webhook\.office\.com/|outlook\.office(?:365)?\.com/webhook"), "teams"),
)
"""Patterns for host and path of a service, and the format that it reads."""

Check = tuple[tuple[str, ...], partial[None]]
"""A path below an entry, and a function that raises if the value there is not valid."""


def service_checks(entry: EndpointEntry | Endpoint) -> Iterator[Check]:
    """One check for each field that only some formats have; a ConfigError never quotes a key."""
    yield ("url",), partial(_url, entry.format, entry.url)
    yield ("routing_key",), partial(_routing_key, entry.format, entry.routing_key)
    yield ("resolve",), partial(_resolve, entry.format, entry.resolve)
    yield ("can_block",), partial(_can_block, entry)


def service_hint(entry: EndpointEntry | Endpoint) -> str:
    """A hint if URL and format do not fit together, else empty; never quotes the URL, which may be a secret."""
    known = reads(entry.url)
    if not known or known == entry.format:
        return ""
    return f"this looks like a URL of {known.title()}, which reads `format: {known}`; it gets {entry.format}"


def reads(url: str) -> Format | None:
    """The format that the service of a URL reads; None for an unknown service."""
    try:
        parts = urlsplit(url)
    except ValueError:  # the check of the URL reports it
        return None
    place = f"{(parts.hostname or '')}{parts.path}"
    return next((name for pattern, name in _CHATS if pattern.match(place)), None)


def _url(name: Format, url: str) -> None:
    if not url and name not in URLS:
        raise ConfigError('"url" is missing')
    if name == "ntfy" and not urlsplit(url).path.strip("/"):
        raise ConfigError("the URL of an ntfy endpoint ends with its topic", hint="https://ntfy.sh/TOPIC")


def _routing_key(name: Format, reference: str) -> None:
    if name != "pagerduty":
        if reference:
            raise ConfigError(f"format {name} has no routing_key", hint="write format: pagerduty, or leave it out")
        return
    if not reference:
        raise ConfigError("format pagerduty needs a routing_key", hint="write routing_key: env:NAME, or file:PATH")
    kind, _, rest = reference.partition(":")
    if not (
        (kind == "env" and re.match(ENV_PATTERN, rest)) or (kind == "file" and rest) or reference.startswith(PREFIX)
    ):
        raise ConfigError("a routing_key is written env:NAME or file:PATH")


def _resolve(name: Format, resolve: str) -> None:
    if resolve != "never" and name != "pagerduty":
        raise ConfigError(f"format {name} cannot have resolve", hint="only pagerduty has incidents to resolve")


def _can_block(entry: EndpointEntry | Endpoint) -> None:
    if not entry.can_block:
        if entry.payload == "raw":
            raise ConfigError(
                "only an endpoint with can_block: true may get the raw event",
                hint="add can_block: true, or leave payload out",
            )
        return
    if entry.format != "fleethook":
        raise ConfigError(f"format {entry.format} gives no verdict", hint="ask an endpoint of format: fleethook")
    if entry.payload == "thin":
        raise ConfigError("an endpoint that decides needs the whole event", hint="leave out payload: thin or can_block")


def question_hint(entry: EndpointEntry) -> Iterator[tuple[str, str]]:
    """Field and warning for settings of questions that have no effect."""
    if entry.can_block and "verdict." in entry.when:
        yield "when", "with can_block it is evaluated before there is a verdict: `verdict.decision` is empty"
    if entry.on_failure is not None and not entry.can_block:
        yield "on_failure", "without `can_block: true` no agent waits for the endpoint, so its failures decide nothing"
