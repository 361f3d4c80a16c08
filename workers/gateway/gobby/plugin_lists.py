"""Gobby's plugins and webhooks: `/plugins`, `/plugins/reload`, `/webhooks` and `/webhooks/test`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from bus.agents.gobby import event_types
from bus.config.settings import GobbyReload
from bus.errors import DecodeError, FleethookError, Unreachable
from bus.events import Event, EventType
from bus.hooks import Endpoint
from bus.hooksets.in_force import HookSet, Watcher
from bus.http.webhook_client import WebhookClient
from bus.ids import event_id
from bus.secrets.redaction import redact_url
from bus.wire.codec import read_json
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.delivery.retries import schedule_of
from workers.delivery.single_post import post_once
from workers.gateway.bodies import read_body
from workers.gateway.calls.trace_headers import incoming_context
from workers.gateway.gobby.callers import why_no_person
from workers.gateway.gobby.config import GobbyConfig
from workers.gateway.gobby.loaded_plugins import loaded_plugins
from workers.gateway.gobby.names import kebab, unified, unified_of
from workers.gateway.gobby.replies import json_reply, refusal
from workers.plugins.records import reload_plugin

log = logging.getLogger("fleethook.gateway")

_MOST_BODY: Final = 64 * 1024
_RELOAD_SECONDS: Final = 20.0
"""The longest wait for all workers; Gobby's own command waits for 30 s."""


class PluginLists:
    """The lists of plugins and webhooks."""

    def __init__(
        self, connections: Connections, keys: Keys, watcher: Watcher, config: GobbyConfig, reload: GobbyReload
    ) -> None:
        self._connections, self._keys, self._watcher, self._config = connections, keys, watcher, config
        self._reload = reload

    async def plugins(self, _: Request) -> Response:
        """The Python plugins that the fleet's workers run, those of Fleethook's own files too; raises Unreachable."""
        found = await loaded_plugins(self._connections, self._keys)
        enabled = bool(found) or self._config.plugins_enabled
        return json_reply(
            {"success": True, "enabled": enabled, "plugins": found, "plugin_dirs": self._config.plugin_dirs}
        )

    async def reload(self, request: Request) -> Response:
        """Load a plugin again in every worker, if the caller may (FLEETHOOK_GOBBY_RELOAD); raises Unreachable."""
        name = str((await _fields(request)).get("name") or "")
        if not name:
            return refusal(400, "Plugin name required")
        if name not in {plugin["name"] for plugin in await loaded_plugins(self._connections, self._keys)}:
            return _not_done(f"Plugin not found: {name[:80]}")
        if self._reload != "on":
            port = (request.scope.get("server") or ("", 0))[1] or 0
            why = "FLEETHOOK_GOBBY_RELOAD is `off`" if self._reload == "off" else ""
            if why := why or await asyncio.to_thread(why_no_person, request.scope.get("client"), port):
                log.warning("the plugin %s is not reloaded for a caller of gobby's port: %s", name, why)
                return _not_done(f"the plugin was not reloaded: {why}. `fleethook plugins reload {name}` reloads it")
        try:
            done = await reload_plugin(self._connections, self._keys, name, _RELOAD_SECONDS)
        except Unreachable:
            raise
        except FleethookError as error:  # it has ended meanwhile
            return _not_done(str(error))
        wrong = [*done.problems, *(f"{worker} has not reloaded it yet" for worker in done.waiting)]
        if wrong or not done.done:
            return _not_done("; ".join(wrong) or "no worker runs it")
        log.info("a caller of gobby's port has reloaded the plugin %s", name)
        return json_reply({"success": True, "name": name, "version": done.done[0].version})

    async def webhooks(self, _: Request) -> Response:
        """The endpoints and blocking HTTP hooks in force on this machine."""
        found = await self._here()
        hooks = [
            {
                "name": hook.id,
                "url": redact_url(hook.http.url),
                "events": _names(hook.on),
                "enabled": hook.enabled,
                "can_block": hook.blocking,
                "timeout": hook.timeout,
                "retry_count": len(schedule_of(hook)),
            }
            for hook in found.hooks.values()
            if hook.http is not None and hook.id not in found.endpoints
        ]
        endpoints = [_endpoint(endpoint) for endpoint in found.endpoints.values()]
        return json_reply({"success": True, "enabled": bool(hooks or endpoints), "endpoints": [*endpoints, *hooks]})

    async def test(self, request: Request) -> Response:
        """Send one test event to an endpoint."""
        fields = await _fields(request)
        name, kind = fields.get("name"), unified(str(fields.get("event_type") or "notification"))
        if not name:
            return refusal(400, "Webhook name required")
        found = await self._here()
        endpoint = found.endpoints.get(str(name)) or _question(found, str(name))
        if endpoint is None:
            return json_reply({"success": False, "error": f"Webhook not found: {str(name)[:80]}"})
        message = {"message": "a test that /webhooks/test sends", "test": True}
        context = incoming_context(request)
        event = Event(
            type=next(iter(event_types(kind)), EventType.NOTIFICATION.value),
            id=event_id(),
            source="generic",
            native="test",
            time=int(time.time() * 1000),
            host=self._watcher.host,
            data=message,
            traceparent=context.traceparent,
            tracestate=context.tracestate,
        )
        async with WebhookClient(found.network, proxy=found.proxy) as client:
            reply, wrong = await post_once(client, endpoint, event)
        result: dict[str, Any] = {
            "success": not wrong,
            "status_code": reply.status or None,
            "response_time_ms": round(reply.ms, 1),
            "error": wrong or None,
        }
        return json_reply(result)

    async def _here(self) -> HookSet:
        await self._watcher.refresh()
        return self._watcher.for_event(Event(type="", host=self._watcher.host))


def _not_done(why: str) -> Response:
    return json_reply({"success": False, "error": why})


def _endpoint(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "name": endpoint.id,
        "url": redact_url(endpoint.url),
        "events": _names(endpoint.events),
        "enabled": endpoint.enabled,
        "can_block": endpoint.can_block,
        "timeout": endpoint.timeout,
        "retry_count": len(schedule_of(endpoint)),
    }


def _question(found: HookSet, name: str) -> Endpoint | None:
    """The endpoint of a blocking HTTP hook."""
    hook = found.hooks.get(name)
    if hook is None or hook.http is None:
        return None
    call = hook.http
    return Endpoint(
        id=hook.id,
        url=call.url,
        headers=call.headers,
        secret=call.secret,
        old_secrets=call.old_secrets,
        timeout=hook.timeout,
        dialect=hook.dialect,
        own=hook.own,
    )


def _names(patterns: Iterable[str]) -> list[str]:
    """Gobby's names for event patterns; empty for all events."""
    found = [pattern if "*" in pattern else kebab(unified_of(pattern)) for pattern in patterns]
    return [] if "*" in found else list(dict.fromkeys(found))


async def _fields(request: Request) -> dict[str, Any]:
    """The JSON object in a body; empty where there is none."""
    try:
        found = read_json(await read_body(request, _MOST_BODY))
    except DecodeError:
        return {}
    return found if isinstance(found, dict) else {}
