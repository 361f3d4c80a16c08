"""Hooks of type `http`: the agent posts its payload to a gateway by itself and starts no process."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from bus.errors import ConfigError

TOKEN: Final = "FLEETHOOK_TOKEN"  # noqa: S105 - the name of a variable
"""The variable of the agent's environment that has the gateway's token; the token itself is in no settings file."""

_FROM_ENVIRONMENT: Final = {
    "Fleethook-Parent": "FLEETHOOK_PARENT",
    "traceparent": "TRACEPARENT",
    "tracestate": "TRACESTATE",
}
"""Headers that a hook command would read in the agent's environment by itself."""
_HOST: Final = "Fleethook-Host"
_URL: Final = re.compile(r"(https?://[^/?#]+)/v1/hooks/[A-Za-z0-9_.-]{1,32}/[A-Za-z0-9_:.-]{1,64}(?:\?([^#]*))?")
_CLOSED: Final = "on_failure=deny"


class HttpHooks(NamedTuple):
    """The gateway that hooks of type `http` post to."""

    base: str
    """Its URL: scheme, host and port."""
    host: str = ""
    """The name of the agent's machine, for a gateway of another machine."""

    @property
    def loopback(self) -> bool:
        """Whether the gateway is on this machine."""
        return _is(self.base, "is_loopback") or urlsplit(self.base).hostname == "localhost"

    @property
    def private(self) -> bool:
        """Whether the URL has an address of a private network."""
        return _is(self.base, "is_private") and not self.loopback

    def url(self, agent: str, event: str, *, closed: bool) -> str:
        """The URL for the payload of one event; if `closed`, the gateway denies if it has no verdict."""
        return f"{self.base}/v1/hooks/{agent}/{event}{f'?{_CLOSED}' if closed else ''}"


class HttpForm(NamedTuple):
    """The capabilities of one agent's hooks of type `http`."""

    timeout: str = "timeout"
    """The handler's key for the timeout in seconds."""
    stay: Mapping[str, str] = {}
    """The events whose hooks stay commands, each with the reason."""
    failure: Mapping[str, object] = {}
    """The handler's fields that make a failed hook block; empty if the agent has no such option."""
    tls: bool = False
    """Whether it sends a token, and asks before tool calls, only by https."""
    more: Mapping[str, object] = {}
    """Further fields of a handler."""
    urls: tuple[str, ...] = ()
    """The key of the agent's settings that lists the allowed URLs of hooks."""
    variables: tuple[str, ...] = ()
    """The key of the agent's settings that lists the allowed variables in headers."""
    private: tuple[str, ...] = ()
    """The key of the agent's settings that allows private addresses."""


class HttpEntry(NamedTuple):
    """The content of one of our handlers in an agent's settings."""

    url: str
    hooks: HttpHooks
    closed: bool
    """Whether the gateway denies if it has no verdict."""
    blocks: bool
    """Whether the agent itself blocks if the gateway does not answer."""


def handler(form: HttpForm, hooks: HttpHooks, agent: str, event: str, seconds: int, *, closed: bool) -> dict[str, Any]:
    """The handler of one event. An unset variable is an empty header, which a gateway ignores."""
    headers = {"Authorization": f"Bearer ${TOKEN}", **{name: f"${each}" for name, each in _FROM_ENVIRONMENT.items()}}
    if hooks.host:
        headers[_HOST] = hooks.host
    return {
        "type": "http",
        **form.more,
        "url": hooks.url(agent, event, closed=closed),
        "headers": headers,
        "allowedEnvVars": [TOKEN, *_FROM_ENVIRONMENT.values()],
        form.timeout: seconds,
        **(form.failure if closed else {}),
    }


def read_handler(found: Mapping[str, Any]) -> HttpEntry | None:
    """Our hook in a handler of an agent's settings; None if it is not ours."""
    url, headers = found.get("url"), found.get("headers")
    if found.get("type") != "http" or not isinstance(headers, dict) or f"${TOKEN}" not in str(headers):
        return None
    match = _URL.fullmatch(url) if isinstance(url, str) else None
    if match is None:
        return None
    host = headers.get(_HOST, "")
    hooks = HttpHooks(match[1], host if isinstance(host, str) else "")
    closed = _CLOSED in (match[2] or "").split("&")
    return HttpEntry(match[0], hooks, closed, found.get("onFailure") == "block")


def is_hook_url(url: str) -> bool:
    """Whether this is the URL of a gateway's hooks."""
    return _URL.fullmatch(url) is not None


def require_usable(label: str, form: HttpForm | None, hooks: HttpHooks) -> HttpForm:
    """The form, if this agent can ask this gateway by hooks of type `http`; raises ConfigError."""
    if form is None:
        raise ConfigError(f"{label} has no hooks of type http", hint="install it without --http")
    if form.tls and not hooks.base.startswith("https://"):
        raise ConfigError(
            f"{label} sends a token only by https, and the gateway is {hooks.base}",
            hint="set FLEETHOOK_URL to an https:// address of the gateway, or install it without --http",
        )
    return form


def _is(base: str, what: str) -> bool:
    """A property of the URL's address; false for a name."""
    try:
        return bool(getattr(ipaddress.ip_address(urlsplit(base).hostname or ""), what))
    except ValueError:
        return False
