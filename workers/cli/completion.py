"""`fleethook completion`: the script that lets a shell complete commands, options, ids, endpoints and versions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from workers.cli.common import COMPLETION_VARIABLE, Context, common_options, pass_fleet

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.wire.connections import Connections
    from bus.wire.keys import Keys

_SHELLS: Final = ("bash", "zsh", "fish")
_WHERE: Final = {
    "bash": "~/.local/share/bash-completion/completions/fleethook",
    "zsh": "a file _fleethook in a folder of $fpath",
    "fish": "~/.config/fish/completions/fleethook.fish",
}
_MOST: Final = 50
"""How many of the newest ids are offered."""


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@common_options
@pass_fleet
@click.pass_context
def completion(ctx: click.Context, fleet: Context, shell: str) -> None:
    """Print the completion script of a shell; write it to the file in which the shell looks for it.

    \b
    bash   fleethook completion bash > ~/.local/share/bash-completion/completions/fleethook
    zsh    fleethook completion zsh > a file _fleethook in a folder of $fpath
    fish   fleethook completion fish > ~/.config/fish/completions/fleethook.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell!r}, only for {', '.join(_SHELLS)}")
    script = kind(ctx.find_root().command, {}, "fleethook", COMPLETION_VARIABLE).source()
    if fleet.json:
        fleet.data({"shell": shell, "file": _WHERE[shell], "script": script})
    else:
        fleet.data(script)


def with_values(command: click.Command, ctx: click.Context) -> click.Command:
    """The command, with its ids, endpoints and versions completed from the bus; `ctx` is the context of its group."""
    path = ctx.command_path.split()[1:]
    for parameter in command.params:
        kind = _kind(parameter, [*path, command.name or ""])
        if kind:
            parameter.type = _Offered(parameter.type, kind)
    return command


class _Offered(click.ParamType[Any]):
    """Wraps a parameter's type, and also completes values of one kind."""

    def __init__(self, own: click.ParamType[Any], kind: str) -> None:
        self.name, self._own, self._kind = own.name, own, kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert as the wrapped type does."""
        return self._own.convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The values with this prefix; none if the bus cannot be asked, because a shell shows no errors here."""
        try:
            known = _values(ctx.ensure_object(Context), self._kind)
        except Exception:  # noqa: BLE001 - a person who presses Tab gets no stack trace
            return []
        own = self._own.shell_complete(ctx, param, incomplete)
        offered = ((_form(value, incomplete), text) for value, text in known)
        return [CompletionItem(value, help=text) for value, text in offered if value.startswith(incomplete)] + own


def _form(name: str, incomplete: str) -> str:
    """An id in the form that the user began to type: whole, or the short form of lists."""
    from bus.ids import short_form

    return name if name.startswith(incomplete) else short_form(name)


_GROUPS: Final = {
    "deliveries": "delivery",
    "dead": "dead letter",
    "jobs": "job",
    "events": "event",
    "trace": "event",
    "show-input": "event",
    "approve": "held call",
    "deny": "held call",
    "approvals": "question",
}


def _kind(parameter: click.Parameter, path: Sequence[str]) -> str:
    """The kind of a parameter's values; empty if they cannot be listed."""
    shown = (parameter.metavar or "").strip("[]").rstrip(".").strip("[]")
    if isinstance(parameter, click.Argument):
        if shown == "ID":
            return next((kind for name in reversed(path) if (kind := _GROUPS.get(name, ""))), "")
        if shown == "ENDPOINT":
            return "endpoint"
        if "VERSION" in shown or parameter.name == "version":
            return "version"
        if path[-2:] == ["hosts", "forget"]:
            return "host"
        if path[-2:] == ["tokens", "revoke"]:
            return "token"
    if "--endpoint" in parameter.opts:
        return "endpoint"
    return ""


def _values(fleet: Context, kind: str) -> Iterable[tuple[str, str]]:
    """The values of a kind, each with a short description."""
    if kind == "endpoint":
        from workers.cli.hooks.sets import in_force

        return [(name, endpoint.url or "") for name, endpoint in in_force(fleet).endpoints.items()]
    look = _LOOKS[kind]
    return fleet.run(lambda connections: look(connections, fleet.keys()))


async def _events(connections: Connections, keys: Keys) -> list[tuple[str, str]]:
    from workers.records.events import events_pages, read_recorded_event

    found: list[tuple[str, str]] = []
    async for entries in events_pages(connections, keys, newest_first=True):
        for entry in entries:
            seen = read_recorded_event(entry, keys)
            found.append((seen.id, f"{seen.event.source} {seen.event.type}"))
            if len(found) >= _MOST:
                return found
    return found


def _newest(key: str) -> Callable[[Connections, Keys], Any]:
    async def look(connections: Connections, keys: Keys) -> list[tuple[str, str]]:
        from bus.wire.streams import checked

        with connections.lease() as connection:
            (reply,) = await connection.exchange([("ZREVRANGE", keys(key), 0, _MOST - 1)])
        names = [name.decode("utf-8", "replace") for name in checked(reply, "listing ids")]
        return [(name, name.partition(".")[2]) for name in names]

    return look


async def _jobs(connections: Connections, keys: Keys) -> list[tuple[str, str]]:
    from workers.records.bulk_jobs import jobs

    return [(job.id, job.kind) for job in await jobs(connections, keys)]


async def _versions(connections: Connections, keys: Keys) -> list[tuple[str, str]]:
    from bus.hooksets.published import history

    changes = await history(connections, keys)
    return [(str(change.version), time.strftime("%F %R", time.localtime(change.ms / 1000))) for change in changes]


async def _hosts(connections: Connections, keys: Keys) -> list[tuple[str, str]]:
    from bus.hooksets.known_hosts import known_hosts

    return [(host.host, "") for host in await known_hosts(connections, keys)]


def _questions(*states: str) -> Callable[[Connections, Keys], Any]:
    async def look(connections: Connections, keys: Keys) -> list[tuple[str, str]]:
        from workers.approvals.questions import QuestionFilter, question_page

        page = await question_page(connections, keys, QuestionFilter(states=states), _MOST)
        return [(question.id, f"{question.source} {question.summary[:60]}") for question in page.items]

    return look


async def _tokens(connections: Connections, keys: Keys) -> list[tuple[str, str]]:
    from workers.gateway.tokens import list_tokens

    return [(token.name, " ".join(token.scopes)) for token in await list_tokens(connections, keys)]


_LOOKS: Final[dict[str, Callable[[Connections, Keys], Any]]] = {
    "event": _events,
    "delivery": _newest("recent"),
    "dead letter": _newest("dead"),
    "job": _jobs,
    "version": _versions,
    "host": _hosts,
    "question": _questions(),
    "held call": _questions("waiting"),
    "token": _tokens,
}
