"""`fleethook tokens`: the bearer tokens that gateways accept."""

from __future__ import annotations

import time

import click

from workers.cli.common import Context, LazyGroup, common_options, pass_fleet

_SCOPES = ("publish", "observe", "operate", "admin")
_MINUTES = len("2026-11-26 12:31")


@click.group(cls=LazyGroup)
def tokens() -> None:
    """Create, list and revoke the tokens that gateways accept."""


@tokens.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(_SCOPES),
    multiple=True,
    default=("publish",),
    show_default=True,
    help="What it may do; may be given several times. Agents need only `publish`.",
)
@click.option("--expires", metavar="TIME", help="When it ends, such as 90d; without it, when it is revoked.")
@common_options
@pass_fleet
def create(fleet: Context, name: str, scopes: tuple[str, ...], expires: str | None) -> None:
    """Create a token and print it, this once: only its hash is kept."""
    import getpass

    from bus.config.settings import duration
    from bus.ids import host_name
    from workers.gateway.tokens import SCOPES, create_token

    fleet.require_person("tokens create", published=True)
    seconds = duration("--expires", expires) if expires else 0.0
    by = f"{getpass.getuser()}@{host_name()}"
    chosen = [scope for scope in SCOPES if scope in scopes]
    secret, token = fleet.run(
        lambda connections: create_token(connections, fleet.keys(), name, chosen, by=by, seconds=seconds)
    )
    if fleet.json:
        fleet.data({"name": token.name, "token": secret, "scopes": list(token.scopes), "expires": token.expires})
        return
    fleet.say(f"token {name} may {', '.join(token.scopes)}; it is shown this once:")
    fleet.data(secret)


@tokens.command("list")
@common_options
@pass_fleet
def list_(fleet: Context) -> None:
    """List the tokens: their names, scopes and ends, never the tokens themselves."""
    from workers.cli.formatting import plain, when
    from workers.gateway.tokens import list_tokens

    found, now = fleet.run(lambda connections: list_tokens(connections, fleet.keys())), time.time() * 1000
    if fleet.json:
        fleet.data(
            [
                {
                    "name": token.name,
                    "scopes": list(token.scopes),
                    "created": token.created,
                    "by": token.by,
                    "expires": token.expires,
                }
                for token in found
            ]
        )
    elif found:
        fleet.table(
            ("NAME", "SCOPES", "CREATED", "BY", "EXPIRES"),
            [
                (
                    plain(token.name),
                    ", ".join(token.scopes),
                    when(token.created)[:_MINUTES],
                    plain(token.by),
                    "never"
                    if not token.expires
                    else f"{when(token.expires)[:_MINUTES]}{' (over)' if token.expires < now else ''}",
                )
                for token in found
            ],
        )
    else:
        fleet.say("there is no token; `fleethook tokens create NAME` makes one")


@tokens.command()
@click.argument("name")
@common_options
@pass_fleet
def revoke(fleet: Context, name: str) -> None:
    """Revoke a token; every gateway refuses it within a second."""
    from workers.gateway.tokens import revoke_token

    fleet.require_person("tokens revoke", published=True)
    fleet.run(lambda connections: revoke_token(connections, fleet.keys(), name))
    if fleet.json:
        fleet.data({"revoked": name})
    else:
        fleet.say(f"token {name} is revoked")
