"""`fleethook config` shows and checks the settings; `fleethook acl` prints the rights of the roles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bus.errors import ConfigError, NotFound
from workers.cli.common import Context, LazyGroup, common_options, error_report, pass_fleet
from workers.cli.screens.columns import Column

if TYPE_CHECKING:  # `config --help` does not need it
    from bus.hooks import Layer

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group(cls=LazyGroup)
def config() -> None:
    """Show and check settings and hook files.

    A flag wins over a FLEETHOOK_* variable, this over the project's file (in a folder you trust), this over your own
    file, and this over the defaults.
    """


@config.command()
@click.option("--origin", is_flag=True, help="Show where each value comes from, and what it means.")
@common_options
@pass_fleet
def show(fleet: Context, origin: bool) -> None:
    """Show the settings in force; passwords in URLs are redacted."""
    import msgspec

    from bus.config.settings import describe

    loaded, meanings = fleet.loaded(), describe()
    values = {name: _shown(name, value) for name, value in msgspec.structs.asdict(loaded.settings).items()}
    if fleet.json:
        rows = {
            name: {"value": value, "origin": loaded.origins[name], "description": meanings[name]}
            for name, value in values.items()
        }
        fleet.data(rows if origin else values)
    elif origin:
        fleet.table(
            (Column("SETTING", 8), Column("VALUE", 8), Column("ORIGIN", 8, rank=1), Column("MEANING", 16, rank=2)),
            [(name, _text(value), loaded.origins[name], meanings[name]) for name, value in values.items()],
        )
    else:
        fleet.table(
            (Column("SETTING", 8), Column("VALUE", 8)), [(name, _text(value)) for name, value in values.items()]
        )


@config.command()
@click.argument("file", type=_FILE, required=False)
@common_options
@pass_fleet
def check(fleet: Context, file: Path | None) -> None:
    """Check FILE, or the user's and the project's hook file and all settings; exit code 4 if one is not valid."""
    files = [file] if file is not None else _files(fleet)
    problems: list[ConfigError] = []
    warnings: list[str] = []
    for path in files:
        found = _problems(path, "user" if path.parent == fleet.directories().config else "project")
        problems += found[0]
        warnings += found[1]
    if file is None:
        try:
            fleet.loaded()
        except ConfigError as error:
            if str(error) not in {str(known) for known in problems}:
                problems.append(error)
    if fleet.json:
        fleet.data(
            {
                "files": [str(path) for path in files],
                "problems": [error_report(one) for one in problems],
                "warnings": warnings,
            }
        )
    else:
        for problem in problems:
            fleet.data(str(problem))
        for warning in warnings:
            fleet.say(f"warning: {warning}")
    if problems:
        raise ConfigError(f"{len(problems)} problem{'s' if len(problems) > 1 else ''} found")
    if not fleet.json:
        names = ", ".join(str(path) for path in files) or "no hook file here; the settings"
        fleet.say(f"{fleet.style('ok', 'green', err=True)}  {names}")


@config.command()
@common_options
@pass_fleet
def schema(fleet: Context) -> None:
    """Print the JSON Schema of fleethook.yaml, for editors."""
    from bus.config.schema import hook_file_schema
    from workers.cli.output import to_json

    fleet.data(hook_file_schema() if fleet.json else to_json(hook_file_schema(), indent=True))


@click.command()
@click.option("--passwords", is_flag=True, help="Make passwords, and print them once on stderr.")
@click.option("--every-namespace", is_flag=True, help="Rights for all namespaces of the server, as `up` has them.")
@click.option("--redis-6", "old", is_flag=True, help="For Redis 6.2, which has no selectors: the rights are wider.")
@common_options
@pass_fleet
def acl(fleet: Context, passwords: bool, every_namespace: bool, old: bool) -> None:
    """Print the Redis users of the roles as lines of an aclfile; the first line closes the user `default`.

    shim: the hook commands of agents, which may add requests and events and read their own answers. agent: programs
    that publish and request. worker: evaluators, dispatchers, carriers. admin: this command.
    """
    import secrets

    from bus.wire.acl import DEFAULT_OFF, EVERY_NAMESPACE, ROLES, Role, acl_lines, roles, user_name

    namespace = EVERY_NAMESPACE if every_namespace else fleet.settings().namespace
    rules = roles(namespace, selectors=not old)
    made: dict[Role, str] = {role: secrets.token_urlsafe(24) for role in ROLES} if passwords else {}
    lines = acl_lines(namespace, made, selectors=not old) or [
        " ".join(("user", user_name(role, namespace), "reset", "on", ">CHANGE-ME", *rules[role])) for role in ROLES
    ]
    if fleet.json:
        fleet.data(
            {
                "namespace": namespace,
                "default": DEFAULT_OFF,
                "users": [
                    {"role": role, "user": user_name(role, namespace), "rules": list(rules[role]), "line": line}
                    | ({"password": made[role]} if made else {})
                    for role, line in zip(ROLES, lines, strict=True)
                ],
            }
        )
        return
    for line in (DEFAULT_OFF, *lines):
        fleet.data(line)
    for role, password in made.items():
        fleet.say(f"{user_name(role, namespace)} {password}")
    _explain(fleet, user_name("worker", namespace), user_name("shim", namespace), made=bool(made))


def _explain(fleet: Context, worker: str, shim: str, *, made: bool) -> None:
    change = "the passwords above are shown only once" if made else "replace each CHANGE-ME with a password"
    fleet.say(
        f"Add the lines to the server's aclfile ({change}) and run ACL LOAD. Or, on a running server, run each line with "
        "ACL SETUSER instead of `user`, then ACL SAVE (CONFIG REWRITE if it has no aclfile), all in one connection: a new one "
        "is refused after the first line.\n"
        "The first line shuts out clients without a user name: add it after every URL has its user. `fleethook doctor` checks "
        "whether `default` is still open.\n"
        f"workers:  FLEETHOOK_REDIS_URL=rediss://{worker}:PASSWORD@HOST:6379\n"
        f"agents:   FLEETHOOK_SHIM_URL=rediss://{shim}:PASSWORD@HOST:6379 fleethook install claude"
    )


def _files(fleet: Context) -> list[Path]:
    from bus.hooksets.trust import project_file
    from bus.system.directories import config_file

    found = (config_file(fleet.directories().config), project_file(Path.cwd()))
    return [path for path in found if path is not None]


def _problems(path: Path, layer: Layer) -> tuple[list[ConfigError], list[str]]:
    from bus.hooksets.hook_tests import load_hook_tests
    from bus.hooksets.hookfile import load_hook_file

    if not path.exists():
        raise NotFound(f"{path} does not exist")
    try:
        file = load_hook_file(path, layer)
    except ConfigError as error:
        return [error], []
    problems = [*file.problems, *load_hook_tests(path, file)[1]]
    return problems, [str(warning) for warning in file.warnings]


def _shown(name: str, value: Any) -> Any:
    if name.endswith("url") and value:
        from bus.secrets.redaction import redact_url

        return redact_url(value)
    return value


def _text(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if value != "" else "-"
