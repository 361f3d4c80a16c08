"""`webhooks check` tests a URL against the address policy; `webhooks verify` checks the signature of a webhook."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from workers.cli.common import CheckFailed, Context, common_options, pass_fleet
from workers.cli.hooks.sets import in_force

_MOST: Final = 4 * 1024 * 1024
"""The most bytes of a webhook that are read."""


@click.command()
@click.argument("url")
@click.option(
    "--resolve",
    "names",
    multiple=True,
    metavar="NAME=ADDR[,ADDR...]",
    help="Use these addresses for a name, and do not resolve it.",
)
@click.option(
    "--allow",
    "places",
    multiple=True,
    metavar="PLACE",
    help="Check as if network.allow had this entry: localhost:9000, 10.0.0.0/8.",
)
@common_options
@pass_fleet
def check(fleet: Context, url: str, names: tuple[str, ...], places: tuple[str, ...]) -> None:
    """Check whether the address policy allows a URL here, and why; exit 1 if it refuses."""
    from bus.http.address_policy import policy
    from bus.secrets.redaction import redact_url
    from workers.admin.url_check import look
    from workers.cli.formatting import plain

    opened = policy(places)  # reports a wrong entry before any name is resolved
    here = in_force(fleet, needed=False)
    url_check = look(url, policy([*here.network.allow, *opened.allow]), dict(_answers(names)), here.proxy)
    verdict = "allow" if url_check.allowed else "refuse"
    if fleet.json:
        fleet.data({"verdict": verdict, "reason": url_check.reason, "addresses": list(url_check.addresses)})
    else:
        word = fleet.style(verdict, "green" if url_check.allowed else "red")
        fleet.data(f"{word}  {plain(redact_url(url))}  {plain(', '.join(url_check.addresses))}".rstrip())
        fleet.data(f"  {plain(url_check.reason, 500)}")
    if not url_check.allowed:
        raise CheckFailed("")


@click.command()
@click.argument("message", required=False, type=click.Path(path_type=Path, allow_dash=True, dir_okay=False))
@click.option(
    "--secret",
    "references",
    multiple=True,
    metavar="REF",
    help="env:NAME or file:PATH (or whsec_…, which others on this machine can read); may be repeated.",
)
@click.option("--endpoint", default="", metavar="ID", help="With the secrets of an endpoint that is in force here.")
@click.option(
    "-H",
    "--header",
    "lines",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="A header; the message is then the body alone.",
)
@click.option(
    "--tolerance", default="5m", show_default=True, metavar="TIME", help="The most that its time may differ from now."
)
@click.option("--at", type=float, default=None, metavar="SECONDS", help="The unix time to compare with; default: now.")
@common_options
@pass_fleet
def verify(
    fleet: Context,
    message: Path | None,
    references: tuple[str, ...],
    endpoint: str,
    lines: tuple[str, ...],
    tolerance: str,
    at: float | None,
) -> None:
    """Check the signature of a webhook: its headers, an empty line and its body, in MESSAGE or on stdin.

    The body has to be the received bytes, unchanged. Exit 1 if the signature, the id or the time is not valid.
    """
    from bus.config.settings import duration
    from bus.errors import SignatureError
    from bus.http import signing
    from bus.secrets.references import resolve_secret

    if bool(references) == bool(endpoint):
        raise click.UsageError("say --secret, or --endpoint")
    secrets = secrets_of_endpoint(fleet, endpoint) if endpoint else [resolve_secret(one) for one in references]
    headers, body = _split_message(_read(message), lines)
    reason = ""
    try:
        signing.verify(secrets, headers, body, now=at, tolerance=duration("--tolerance", tolerance))
    except SignatureError as error:
        reason = str(error)
    if fleet.json:
        fleet.data(
            {
                "verdict": "refuse" if reason else "allow",
                "reason": reason or "the signature holds",
                "id": headers.get("webhook-id", ""),
                "bytes": len(body),
            }
        )
    else:
        fleet.data(fleet.style(reason, "red") if reason else fleet.style("the signature holds", "green"))
    if reason:
        raise CheckFailed("")


def _answers(names: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """The addresses of each name, with names in the spelling that the URL parser gives them."""
    from bus.errors import TargetRefused
    from bus.http.address_policy import parse_target

    found = []
    for text in names:
        name, separator, addresses = text.partition("=")
        listed = [one.strip() for one in addresses.split(",") if one.strip()]
        if not (separator and name and listed):
            raise click.UsageError(f"{text!r} is no NAME=ADDR[,ADDR...]")
        try:
            found.append((parse_target(f"https://{name.strip()}/").host, listed))
        except TargetRefused:
            continue  # the policy refuses every URL with this host before it looks at addresses
    return found


def secrets_of_endpoint(fleet: Context, name: str) -> list[str]:
    """The secrets that sign for an endpoint in force here; raises ConfigError if it has none."""
    import time

    from bus.errors import ConfigError
    from bus.http.webhook_headers import signing_secrets
    from workers.cli.webhooks import find_endpoint

    endpoint = find_endpoint(in_force(fleet, needed=False), name)
    if not endpoint.secret:
        raise ConfigError(
            f"endpoint {name!r} is unsigned", hint=f"`fleethook webhooks rotate {name}` makes it a secret"
        )
    return signing_secrets(endpoint, time.time())


def _read(message: Path | None) -> bytes:
    if message is None or str(message) == "-":
        raw_bytes = sys.stdin.buffer.read(_MOST + 1)
    else:
        try:
            with open(message, "rb") as file:
                raw_bytes = file.read(_MOST + 1)
        except OSError as error:
            raise click.UsageError(f"{message} cannot be read: {error.strerror or error}") from error
    if len(raw_bytes) > _MOST:
        raise click.UsageError(f"the message has more than {_MOST // 1024**2} MiB")
    return raw_bytes


def _split_message(message: bytes, lines: tuple[str, ...]) -> tuple[dict[str, str], bytes]:
    """The headers, names in lower case, and the body; a request's first line is skipped."""
    if lines:
        return _headers(lines), message
    head, separator, body = message.partition(b"\n\n")
    crlf = message.partition(b"\r\n\r\n")
    if crlf[1] and len(crlf[0]) < len(head):  # whichever empty line comes first
        head, separator, body = crlf
    if not separator:
        raise click.UsageError("the message has no empty line between headers and body; or give the headers with -H")
    return _headers(tuple(head.decode("latin-1").splitlines())), body


def _headers(lines: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for line in lines:
        name, separator, value = line.partition(":")
        if separator and " " not in name:
            found[name.strip().lower()] = value.strip()
    return found
