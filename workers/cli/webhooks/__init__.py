"""`webhooks`: the table of its commands, and the list of endpoints in force with their health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from workers.cli.common import Context, Lazy, LazyGroup, common_options, pass_fleet
from workers.cli.formatting import health_text, plain
from workers.cli.hooks.sets import in_force
from workers.cli.output import Colour
from workers.cli.screens.columns import Cell, Column, sign
from workers.cli.screens.rows import no_trunc_option
from workers.records.hook_list import RECENT, endpoint_record, endpoint_records, format_of, is_for

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.hooks import Endpoint
    from bus.hooksets.in_force import HookSet
    from bus.wire.connections import Connections
    from workers.delivery.deliveries import Delivery
    from workers.delivery.endpoint_health import EndpointHealth
    from workers.records.run_figures import RunFigures

COMMANDS: Final = {
    "list": Lazy("workers.cli.webhooks:list_webhooks", "List the endpoints in force here, and their health."),
    "show": Lazy(
        "workers.cli.webhooks:show_webhook", "Show one endpoint: its settings, where its secrets are, its health."
    ),
    "add": Lazy("workers.cli.webhooks.edit:add", "Add an endpoint."),
    "set": Lazy("workers.cli.webhooks.edit:set_values", "Change fields of an endpoint."),
    "remove": Lazy("workers.cli.webhooks.edit:remove", "Remove an endpoint."),
    "rotate": Lazy(
        "workers.cli.webhooks.edit:rotate", "Give an endpoint a new secret; the old one also signs for a while."
    ),
    "pause": Lazy("workers.cli.webhooks.state:pause", "Park an endpoint's deliveries."),
    "resume": Lazy("workers.cli.webhooks.state:resume", "Send the deliveries of a paused endpoint again."),
    "disable": Lazy("workers.cli.webhooks.state:disable", "Stop sending to an endpoint."),
    "enable": Lazy("workers.cli.webhooks.state:enable", "Send to a disabled endpoint again."),
    "test": Lazy("workers.cli.webhooks.test:test_webhook", "Send an endpoint one signed test event now."),
    "check": Lazy("workers.cli.webhooks.check:check", "Check whether the address policy allows a URL, and why."),
    "verify": Lazy("workers.cli.webhooks.check:verify", "Check the signature of a received webhook."),
}

ENDPOINT_COLUMNS: Final = (
    Column("ENDPOINT", 8, halved=True),
    Column("STATE", 8),
    Column("URL", 32, rank=2),
    Column("DELIVERED", 9, rank=4),
    Column("OPEN", 4, rank=3),
    Column("DEAD", 4, rank=1),
    Column("EVENTS", 16, rank=5),
    Column("FORMAT", 9, rank=6),
    Column("SECRET", 8, rank=7),
    Column("FROM", 16, rank=8, keep_end=True),
)
"""On a narrow terminal the file is dropped first, then the secret, the format and the events."""

_ONLY_IN_JSON: Final = ("health", "figures", "last_failure")

_SHOWN_AS: Final = {"standing": "state"}

STANDING_COLOURS: Final[Mapping[str, Colour]] = {"active": "green", "disabled": "red"}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def webhooks() -> None:
    """Endpoints: where webhooks go, and their health."""


@click.command("list")
@no_trunc_option
@common_options
@pass_fleet
def list_webhooks(fleet: Context, whole: bool) -> None:
    """List the endpoints in force here, and how their recent deliveries went."""
    from bus.ids import host_name

    hooks = in_force(fleet)
    known = hooks.endpoints.values()
    records = fleet.run(lambda connections: endpoint_records(connections, fleet.keys(), known, host_name()))
    if fleet.json:
        for record in records:
            fleet.stream(record)
    elif records:
        show_endpoints(fleet, records, whole=whole)
    else:
        fleet.say("no endpoints are in force here")
    for endpoint in _disabled_in_files(hooks).values():
        fleet.say(f"{endpoint.id} is not in force: {_DISABLED.format(plain(endpoint.origin))}")


@click.command("show")
@click.argument("name", metavar="ENDPOINT")
@common_options
@pass_fleet
def show_webhook(fleet: Context, name: str) -> None:
    """Show one endpoint in force here: its settings, its signing secrets, its retry schedule, its health."""
    from bus.ids import host_name
    from workers.delivery.deliveries import deliveries as listed
    from workers.delivery.deliveries import endpoint_target
    from workers.delivery.endpoint_health import read_health
    from workers.delivery.filters import Filter
    from workers.records.run_figures import NO_RUNS, endpoint_figures, read_counts

    endpoint = find_endpoint(in_force(fleet), name)
    target = endpoint_target(endpoint, host_name())

    async def work(connections: Connections) -> tuple[list[Delivery], dict[str, EndpointHealth], dict[str, RunFigures]]:
        found = await listed(connections, fleet.keys(), Filter(target=f"endpoint:{name}"), most=RECENT)
        health = await read_health(connections, fleet.keys(), [target])
        return found, health, endpoint_figures(await read_counts(connections, fleet.keys()))

    recent, health, figures = fleet.run(work)
    of_endpoint = [delivery for delivery in recent if is_for(delivery.target, name)]
    record = _full_record(endpoint, of_endpoint, health[target], figures.get(name, NO_RUNS))
    if fleet.json:
        fleet.data(record)
        return
    record = {_SHOWN_AS.get(key, key): value for key, value in record.items()} | {"state": health_text(health[target])}
    fleet.data(f"{endpoint.id}  {plain(record['url'])}")
    for key, value in record.items():
        if key not in {"id", "url", *_ONLY_IN_JSON, *_health(health[target])} and value not in (
            "",
            [],
            {},
            False,
            None,
        ):
            fleet.data(f"  {key.replace('_', ' '):<14} {plain(_value_text(value), 500)}")


def show_endpoints(fleet: Context, records: Sequence[dict[str, Any]], *, whole: bool = False) -> None:
    """Print the table of endpoints."""
    rows = [
        (
            record["id"],
            Cell(sign(record["standing"]), STANDING_COLOURS.get(record["standing"], "yellow")),
            record["url"],
            record["delivered"],
            record["open"],
            Cell(str(record["dead"]), "red" if record["dead"] else None),
            ", ".join(record["events"]) + (" (asked)" if record["can_block"] else ""),
            record["format"] + (" thin" if record["payload"] == "thin" else ""),
            "signed" if record["secret"] else "unsigned",
            record["origin"],
        )
        for record in records
    ]
    fleet.table(ENDPOINT_COLUMNS, rows, whole=whole)


def _full_record(
    endpoint: Endpoint, recent: Sequence[Delivery], health: EndpointHealth, figures: RunFigures
) -> dict[str, Any]:
    """An endpoint with every setting; of secrets only their references or fingerprints."""
    import msgspec

    from bus.secrets.redaction import redact
    from bus.secrets.sealing import fingerprint
    from workers.delivery.retries import schedule_of

    settings = {
        key: value
        for key, value in msgspec.to_builtins(msgspec.structs.asdict(endpoint)).items()
        if key not in {"id", "url", "secret", "old_secrets", "routing_key", "own", "headers"}
    }
    return {
        **endpoint_record(endpoint, recent, health, figures),
        **_health(health),
        **settings,
        "format": format_of(endpoint),
        "retry": list(schedule_of(endpoint)),
        "headers": redact(endpoint.headers),
        "secret": fingerprint(endpoint.secret) if endpoint.secret else "",
        "old_secrets": [
            {"secret": fingerprint(old.secret), "until": old.until.isoformat()} for old in endpoint.old_secrets
        ],
        "routing_key": fingerprint(endpoint.routing_key) if endpoint.routing_key else "",
        "dialect": endpoint.dialect,
    }


def _health(health: EndpointHealth) -> dict[str, Any]:
    """Why the endpoint is paused or disabled, or its breaker open, and its failures."""
    import msgspec

    plain = msgspec.to_builtins(health)
    return {key: plain[key] for key in ("reason", "by", "at", "missed", "parked", "breaker", "failing") if key in plain}


def _value_text(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_value_text, value))
    if isinstance(value, dict):
        return " ".join(f"{key}={_value_text(item)}" for key, item in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def find_endpoint(hooks: HookSet, name: str) -> Endpoint:
    """The endpoint of this name that is in force; raises NotFound, which suggests a similar name."""
    from bus.config.validation import suggestion
    from bus.errors import NotFound

    endpoint = hooks.endpoints.get(name)
    if endpoint is None:
        if (disabled := _disabled_in_files(hooks).get(name)) is not None:
            raise NotFound(f"the endpoint {name!r} is not in force: {_DISABLED.format(disabled.origin)}")
        hint = suggestion(name, hooks.endpoints) or "see `fleethook webhooks list`"
        raise NotFound(f"no endpoint is called {name!r} here; {hint}")
    return endpoint


_DISABLED: Final = "`enabled: false` in {}"


def _disabled_in_files(hooks: HookSet) -> dict[str, Endpoint]:
    """The endpoints that their files disable, unless another file's endpoint of the same name is in force."""
    listed = (endpoint for layered in hooks.files for endpoint in layered.file.endpoints)
    return {entry.id: entry for entry in listed if not entry.enabled and entry.id not in hooks.endpoints}
