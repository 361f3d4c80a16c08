"""The hooks and endpoints in force, as `--json` and the gateway list them; secrets are redacted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # commands import this file at their start
    from bus.hooks import Endpoint, Hook
    from bus.hooksets.in_force import HookSet
    from bus.wire.connections import Connections
    from bus.wire.keys import Keys
    from workers.delivery.deliveries import Delivery
    from workers.delivery.endpoint_health import EndpointHealth
    from workers.records.last_runs import HookRun
    from workers.records.run_figures import RunFigures

RECENT: Final = 1_000
"""From how many of the newest deliveries the results of each endpoint are counted."""

_MOST_CLEAN: Final = 1_000
_CLEAN: Final[dict[int, tuple[Hook | Endpoint, dict[str, Any]]]] = {}
"""Records without a secret, by the identity of the hook or endpoint that each belongs to.

The guard packs' rules have thousands of texts, and to look for secrets in all of them takes about 100 ms of a core each time.
"""


def listed_hooks(here: HookSet) -> list[Hook]:
    """The hooks in force in their order, and the disabled ones of the same files."""
    return sorted((*here.hooks.values(), *_disabled(here)), key=lambda hook: hook.order)


def hook_record(entry: Hook | Endpoint) -> dict[str, Any]:
    """A hook or endpoint as `--json` gives it; a secret in its command, its environment or its URL is redacted."""
    import msgspec

    from bus.secrets.redaction import redact

    kept = _CLEAN.get(id(entry))
    if kept is not None and kept[0] is entry:
        return dict(kept[1])
    plain: Any = msgspec.to_builtins(entry)
    given: Any = redact(plain)
    record = _with_defaults(entry, given)
    if msgspec.json.encode(given) == msgspec.json.encode(plain):  # tuples became lists
        if len(_CLEAN) >= _MOST_CLEAN:
            _CLEAN.clear()
        _CLEAN[id(entry)] = (entry, record)
    return dict(record)


def _with_defaults(entry: Hook | Endpoint, given: Mapping[str, Any]) -> dict[str, Any]:
    """The record with the fields that a hook or endpoint leaves out where they are the default."""
    from bus.hooks import Hook

    always = {"layer": entry.layer, "dialect": entry.dialect, "enabled": entry.enabled}
    if not isinstance(entry, Hook):
        return {**given, **always, "kind": "webhook"}
    return {**given, **always, "kind": entry.kind, "blocking": entry.blocking, "priority": entry.priority}


def run_record(run: HookRun | None) -> dict[str, Any] | None:
    """The last run of a hook; None for a hook that has not run of late."""
    return None if run is None else {"ms": run.ms, "what": run.what}


async def hook_records(connections: Connections, keys: Keys, hooks: Iterable[Hook]) -> list[dict[str, Any]]:
    """The hooks with their last runs, and with how often they ran and how long that took."""
    import msgspec

    from workers.records.last_runs import last_runs
    from workers.records.run_figures import NO_RUNS, hook_figures, read_counts

    runs = (await last_runs(connections, keys)).runs
    figures = hook_figures(await read_counts(connections, keys))
    return [
        {
            **hook_record(hook),
            "last_run": run_record(runs.get(hook.id)),
            "figures": msgspec.to_builtins(figures.get(hook.id, NO_RUNS)),
        }
        for hook in hooks
    ]


async def endpoint_records(
    connections: Connections, keys: Keys, known: Iterable[Endpoint], host: str
) -> list[dict[str, Any]]:
    """The endpoints with their health, their figures, and how their recent deliveries went.

    `host` has those of its user's file.
    """
    from workers.delivery.deliveries import deliveries, endpoint_target
    from workers.delivery.endpoint_health import read_health
    from workers.delivery.filters import Filter
    from workers.records.run_figures import NO_RUNS, endpoint_figures, read_counts

    endpoints = list(known)
    targets = {one.id: endpoint_target(one, host) for one in endpoints}
    recent = await deliveries(connections, keys, Filter(target="endpoint:"), most=RECENT)
    health = await read_health(connections, keys, list(targets.values()))
    figures = endpoint_figures(await read_counts(connections, keys))
    return [
        endpoint_record(
            one,
            [each for each in recent if is_for(each.target, one.id)],
            health[targets[one.id]],
            figures.get(one.id, NO_RUNS),
        )
        for one in endpoints
    ]


def endpoint_record(
    one: Endpoint, recent: Sequence[Delivery], health: EndpointHealth, figures: RunFigures
) -> dict[str, Any]:
    """An endpoint as a program reads it in the list; `recent` are the newest of its deliveries."""
    import msgspec

    from bus.secrets.redaction import redact_url
    from workers.delivery.endpoint_health import health_record

    states = Counter(each.state for each in recent)
    still = sum(states[state] for state in ("ready", "running", "due", "parked"))
    return {
        "id": one.id,
        "url": redact_url(one.url),
        "format": format_of(one),
        "payload": one.payload,
        "can_block": one.can_block,
        "events": list(one.events),
        "tool": one.tool,
        "when": one.when,
        "secret": bool(one.secret),
        "layer": one.layer,
        "version": one.version,
        "origin": one.origin,
        "rate": one.rate,
        "order": one.order,
        "batch": msgspec.to_builtins(one.batch),
        "standing": health.standing,
        "delivered": states["delivered"],
        "open": still,
        "dead": states["dead"],
        "last_failure": _last_failure(recent),
        "health": health_record(health),
        "figures": msgspec.to_builtins(figures),
    }


def _last_failure(recent: Iterable[Delivery]) -> dict[str, Any] | None:
    """The newest attempt that failed; None if none did."""
    failed = [(attempt.ms, each, attempt) for each in recent for attempt in each.log if attempt.outcome != "delivered"]
    if not failed:
        return None
    ms, delivery, attempt = max(failed, key=lambda row: row[0])
    return {"ms": ms, "delivery": delivery.id, "status": attempt.status, "reason": attempt.error}


def new_endpoint_record(one: Endpoint, version: str) -> dict[str, Any]:
    """A new endpoint, as the list will show it on this machine from this version on."""
    from bus.ids import host_name
    from workers.delivery.deliveries import endpoint_target
    from workers.delivery.endpoint_health import EndpointHealth
    from workers.records.run_figures import NO_RUNS

    return {
        **endpoint_record(one, (), EndpointHealth(target=endpoint_target(one, host_name())), NO_RUNS),
        "version": version,
    }


def format_of(one: Endpoint) -> str:
    """The form of an endpoint's webhooks: its format, or the system from whose file it was read."""
    from bus.hooks import NATIVE

    return one.format if one.dialect == NATIVE else one.dialect


def is_for(target: str, name: str) -> bool:
    """Whether a target is this endpoint; after an @ comes the host whose own file has it."""
    return target.partition("@")[0] == f"endpoint:{name}"


def _disabled(here: HookSet) -> Iterator[Hook]:
    """The disabled hooks in the files of the layers."""
    import msgspec

    for layered in here.files:
        for hook in layered.file.hooks:
            if not hook.enabled:
                yield msgspec.structs.replace(hook, layer=layered.layer, version=layered.version)
