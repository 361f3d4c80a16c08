"""`webhooks add`, `set`, `remove` and `rotate`: change endpoints in your fleethook.yaml, or in the published set."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from workers.cli.common import CheckFailed, Context, common_options, pass_fleet
from workers.cli.edits import publish_change, published_set, user_file, write_change
from workers.cli.guard_reports import report_losses
from workers.cli.hooks.sets import in_force
from workers.cli.webhooks import show_endpoints
from workers.records.hook_list import new_endpoint_record
from workers.runtime.wording import counted

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.hooksets.hookfile import HookFile
    from workers.admin.endpoint_edit import Change, Edited, Entry
    from workers.admin.url_check import UrlCheck

_IN_FORCE_SECONDS: Final = 1.2
"""Seconds after which every worker knows of a change; workers look twice a second."""

_CHECKED: Final = frozenset({"fleethook", "cloudevents"})
"""Formats whose receivers are the users' own programs, which can check a signature."""

_WEAKENING: Final = frozenset({"enabled", "can_block", "on_failure", "events", "tool", "when"})
"""Fields that decide which questions and events an endpoint gets; only a person may change them (see `require_person`)."""

_FILE: Final = click.Path(dir_okay=False, path_type=Path)
_C = TypeVar("_C", bound=Callable[..., Any])


def _where(function: _C) -> _C:
    """`--fleet`, `--file`, `--yes` and `--dry-run` on a command."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing."),
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--file", type=_FILE, metavar="FILE", help="The fleethook.yaml to edit; default: the user's."),
        click.option("--fleet", "published", is_flag=True, help="Change the published set, as a new version."),
    ):
        function = option(function)
    return function


def _assignments(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:  # noqa: ARG001 - click's signature
    for one in values:
        if "://" in one.partition("=")[0]:
            add = f"the URL comes first, and the endpoint's name is an option: `{one[:80]} --id NAME`"
            raise click.UsageError(add if context.info_name == "add" else f"write url={one[:80]}", context)
        if "=" not in one:
            raise click.UsageError(
                f"{one[:80]!r} is not a change; write FIELD=VALUE, or FIELD= to remove the field", context
            )
    return values


@click.command()
@click.argument("url", metavar="[URL]", required=False, default="")
@click.argument("values", nargs=-1, metavar="[FIELD=VALUE]...", callback=_assignments)
@click.option("--id", "name", default="", metavar="ID", help="Its id; derived from the host without it.")
@click.option("--events", default="", metavar="PATTERNS", help="`tool:*, session:end`; every event without it.")
@click.option(
    "--secret",
    default="",
    metavar="REF|generate",
    help="env:NAME or file:PATH; `generate` makes one, and shows it once.",
)
@click.option(
    "--allow", "open_it", is_flag=True, help="Let a private address be its target: an entry in network.allow."
)
@_where
@common_options
@pass_fleet
def add(
    fleet: Context,
    url: str,
    values: tuple[str, ...],
    name: str,
    events: str,
    secret: str,
    open_it: bool,
    published: bool,
    file: Path | None,
    yes: bool,
    dry_run: bool,
) -> None:
    """Add an endpoint: where webhooks go, and for which events.

    FIELD=VALUE is any other field of an endpoint: `retry=fast`, `format=slack`, `timeout=5`, `headers.X-Key='${KEY}'`;
    `fleethook config schema` has them all. PagerDuty's URL is known: `format=pagerduty routing_key=env:KEY`.
    """
    from bus.config.endpoint_services import URLS
    from bus.http.signing import generate_secret
    from workers.admin.endpoint_edit import (
        applied,
        assigned,
        derived_id,
        file_with,
        ids_in,
        ids_of,
        secret_file,
        set_with,
    )

    path = user_file(fleet, file)
    if re.match(r"[a-z_]+=", url):
        url, values = "", (url, *values)
    fields = applied({}, assigned(values))
    written_url = url or fields.pop("url", "")
    url = written_url or URLS.get(fields.get("format", ""), "")
    if not url:
        raise click.UsageError("say the URL that webhooks go to; only format=pagerduty has one of its own")
    new_secret = generate_secret() if secret == "generate" else ""  # noqa: S105 - a word of the command line
    secret_path = None

    def entry(taken: frozenset[str]) -> Entry:
        nonlocal name, secret_path
        name = name or fields.get("id") or derived_id(url, taken)
        secret_path = secret_file(fleet.directories().config, name) if new_secret and not published else None
        reference = f"file:{secret_path}" if secret_path else new_secret or secret
        chosen = {"id": name, "url": written_url, "events": events, "secret": reference}
        rest = {key: value for key, value in fields.items() if not chosen.get(key)}
        return {key: value for key, value in chosen.items() if value} | rest

    allow = ""
    if published:
        here, before = published_set(fleet)
        looked = _check_url(fleet, url, here.network_allow)
        allow = _allow_entry(fleet, looked, open_it)
        after = set_with(here, entry(ids_of(here)), allow)
        result = publish_change(fleet, lambda _: after, f"webhooks add {name}", yes, dry_run, (here, before))
    else:
        looked = _check_url(fleet, url, _allowed(path))
        allow = _allow_entry(fleet, looked, open_it)
        edited = file_with(path, entry(ids_in(path)), allow)
        after = edited.read
        result = _write(fleet, edited, new_secret, secret_path, yes, dry_run)
    version = str(result.get("version") or after.digest[:8])
    record = new_endpoint_record(next(one for one in after.endpoints if one.id == name), version)
    if result["written"]:
        result["endpoint"] = record
    _report(fleet, name, result, new_secret, "is added")
    if result["written"] and not fleet.json:
        show_endpoints(fleet, [record])
    if result["written"] and not (fleet.json or record["secret"]) and record["format"] in _CHECKED:
        fleet.say(
            f"it is unsigned: receivers cannot tell who sent it (`fleethook webhooks rotate {name}` makes a secret)"
        )


@click.command("set")
@click.argument("name", metavar="ENDPOINT")
@click.argument("values", nargs=-1, required=True, metavar="FIELD=VALUE...", callback=_assignments)
@click.option(
    "--allow", "open_it", is_flag=True, help="Let a private address be its target: an entry in network.allow."
)
@_where
@common_options
@pass_fleet
def set_values(
    fleet: Context,
    name: str,
    values: tuple[str, ...],
    open_it: bool,
    published: bool,
    file: Path | None,
    yes: bool,
    dry_run: bool,
) -> None:
    """Change fields of an endpoint; `FIELD=` removes one.

    \b
    fleethook webhooks set chat retry=fast timeout=5
    fleethook webhooks set chat enabled=false headers.X-Key=
    """
    from workers.admin.endpoint_edit import applied, assigned

    changes = assigned(values)
    if not dry_run and not _WEAKENING.isdisjoint(changes):
        fleet.require_person("webhooks set", *(() if published else (user_file(fleet, file),)), published=published)
    url = changes.get("url")
    allow = ""
    if isinstance(url, str):
        known = published_set(fleet)[0].network_allow if published else _allowed(user_file(fleet, file))
        allow = _allow_entry(fleet, _check_url(fleet, url, known), open_it)
    result = _change(fleet, name, lambda entry: applied(entry, changes), published, file, yes, dry_run, allow=allow)
    gone = result["written"] and (changes.get("enabled") is False or changes.get("id", name) != name)
    waited = _forget_removed(fleet, name, published) if gone else 0
    _report(fleet, str(changes.get("id") or name), result, "", "is changed")
    _report_dead_letters(fleet, waited)


@click.command()
@click.argument("name", metavar="ENDPOINT")
@_where
@common_options
@pass_fleet
def remove(fleet: Context, name: str, published: bool, file: Path | None, yes: bool, dry_run: bool) -> None:
    """Remove an endpoint; the deliveries that wait for it become dead letters."""
    from workers.admin.endpoint_edit import file_without, set_without

    if not dry_run:
        fleet.require_person("webhooks remove", *(() if published else (user_file(fleet, file),)), published=published)
    if published:
        result = publish_change(fleet, lambda one: set_without(one, name), f"webhooks remove {name}", yes, dry_run)
    else:
        result = _write(fleet, file_without(user_file(fleet, file), name), "", None, yes, dry_run)
    if result["written"]:
        report_losses(fleet, "webhooks remove", str(result.get("file", "the published set")), [f"{name}\nremoved"])
    waited = _forget_removed(fleet, name, published) if result["written"] else 0
    _report(fleet, name, {**result, "waiting": waited}, "", "is removed")
    _report_dead_letters(fleet, waited)


@click.command()
@click.argument("name", metavar="ENDPOINT")
@click.option(
    "--overlap",
    default="24h",
    show_default=True,
    metavar="TIME",
    help="How long the old secret also signs: 0, 90m, 24h, at most 7d.",
)
@_where
@common_options
@pass_fleet
def rotate(
    fleet: Context, name: str, overlap: str, published: bool, file: Path | None, yes: bool, dry_run: bool
) -> None:
    """Give an endpoint a new secret, which is shown once; until the overlap ends the old one also signs."""
    from datetime import UTC, datetime

    from bus.config.settings import duration
    from bus.http.signing import generate_secret
    from workers.admin.endpoint_edit import rotated, secret_file

    seconds, new_secret = duration("--overlap", overlap), generate_secret()
    secret_path = None if published else secret_file(fleet.directories().config, name)
    reference = f"file:{secret_path}" if secret_path else new_secret
    had = False

    def change(entry: Entry) -> Entry:
        nonlocal had
        had = bool(entry.get("secret"))
        return rotated(entry, reference, seconds, datetime.now(UTC))

    result = _change(fleet, name, change, published, file, yes, dry_run, new_secret=new_secret, secret_path=secret_path)
    old_secret = f"also signs for {overlap}" if seconds else "no longer signs"
    done = f"has a new secret; the old one {old_secret}" if had else "is signed from now on"
    _report(fleet, name, result, new_secret, done)


def _report_dead_letters(fleet: Context, waited: int) -> None:
    if waited and not fleet.json:
        fleet.say(f"{counted(waited, 'dead letter')} more: the deliveries that waited for it")


def _forget_removed(fleet: Context, name: str, published: bool) -> int:
    """Delete a removed endpoint's health after the workers have read the change; returns how many deliveries waited for it."""
    from bus.errors import Unreachable
    from bus.ids import host_name
    from workers.delivery.deliveries import endpoint_target
    from workers.delivery.endpoint_controls import forget
    from workers.delivery.endpoint_health import read_health

    target = f"endpoint:{name}" if published else f"endpoint:{name}@{host_name()}"
    try:
        health = fleet.run(lambda connections: read_health(connections, fleet.keys(), [target]))[target]
        if health.healthy and not health.parked:
            return 0
        time.sleep(_IN_FORCE_SECONDS)
        others = in_force(fleet).endpoints.values()
        if any(endpoint_target(one, host_name()) == target for one in others):
            return 0  # another file in force has an endpoint of this name
        fleet.run(lambda connections: forget(connections, fleet.keys(), target))
    except Unreachable:
        return 0  # a file can be edited without a server
    return health.parked


def _change(
    fleet: Context,
    name: str,
    change: Change,
    published: bool,
    file: Path | None,
    yes: bool,
    dry_run: bool,
    *,
    new_secret: str = "",
    secret_path: Path | None = None,
    allow: str = "",
) -> dict[str, Any]:
    from dataclasses import replace

    from bus.errors import NotFound
    from workers.admin.endpoint_edit import file_changed, opened, set_changed

    if published:

        def whole(one: HookFile) -> HookFile:
            after = set_changed(one, name, change)
            more = (allow,) if allow and allow not in after.network_allow else ()
            return replace(after, network_allow=(*after.network_allow, *more)).with_digest()

        return publish_change(fleet, whole, f"webhooks change {name}", yes, dry_run)
    path = user_file(fleet, file)
    if not path.exists():
        raise NotFound(f"there is no {path}; say --file, or --fleet for the published set")
    edited = file_changed(path, name, change)
    if allow:
        edited = replace(edited, after=opened(edited.after, str(path), allow))
    return _write(fleet, edited, new_secret, secret_path, yes, dry_run)


def _write(
    fleet: Context, edited: Edited, new_secret: str, secret_path: Path | None, yes: bool, dry_run: bool
) -> dict[str, Any]:
    """Show the change of a file, ask, then write the new secret and the file."""
    from bus.hooksets.hookfile import parse_hook_file
    from workers.admin.endpoint_edit import keep_secret

    name = str(edited.file)
    for text in sorted(_warnings(edited.read) - _warnings(parse_hook_file(edited.before, "user", file=name))):
        fleet.say(f"warning: {text}")
    before = (lambda: keep_secret(secret_path, new_secret)) if new_secret and secret_path is not None else None
    result = write_change(fleet, edited, yes, dry_run, before=before)
    return {**result, **({"secret_file": str(secret_path)} if secret_path else {})}


def _warnings(read: HookFile) -> set[str]:
    """The warnings of a file without their line numbers, which an edit changes."""
    return {re.sub(r"\A.*?:\d+:\d+: ", "", text) for text in read.warnings}


def _report(fleet: Context, name: str, result: dict[str, Any], new_secret: str, done: str) -> None:
    if fleet.json:
        fleet.data({"id": name, **result, **({"secret": new_secret} if new_secret and result["written"] else {})})
    elif result["written"]:
        where = f"version {result['version']}" if "version" in result else result["file"]
        fleet.data(f"{name} {done}: {where}, in force within a second where workers run")
        if new_secret:
            fleet.data(f"secret  {new_secret}")
            secret_path = result.get("secret_file")
            fleet.say(
                f"it is shown once; the workers read it from {secret_path}"
                if secret_path
                else "it is shown once; in Redis it is sealed with this machine's key file"
            )


def _allowed(path: Path) -> tuple[str, ...]:
    from bus.hooksets.hookfile import load_hook_file

    return load_hook_file(path, "user").network_allow if path.exists() else ()


def _check_url(fleet: Context, url: str, allow: tuple[str, ...]) -> UrlCheck:
    """The check of a URL by the policy in force, with the entries of this list added."""
    from bus.http.address_policy import policy
    from workers.admin.url_check import look

    return look(url, policy([*in_force(fleet, needed=False).network.allow, *allow]), {})


def _allow_entry(fleet: Context, looked: UrlCheck, open_it: bool) -> str:
    """The entry that the allow list needs; raises CheckFailed if the target is refused and may not be allowed."""
    from bus.http.address_policy import policy

    if looked.allowed:
        return ""
    if looked.unresolved:
        fleet.say(f"warning: {looked.reason}, here and now; every attempt resolves it again")
        return ""
    if not open_it:
        listed = f'; --allow puts "{looked.place}" into network.allow' if "allow list" in looked.reason else ""
        raise CheckFailed(f"the address policy refuses it: {looked.reason}{listed}")
    if not looked.place:
        raise CheckFailed(f"it cannot be allowed: {looked.reason}")
    policy([looked.place])  # raises if it can never be allowed
    return looked.place
