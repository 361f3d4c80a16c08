"""`fleethook guards`: lists guard packs and rules, enables and disables them, and tests them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import click

from workers.cli.common import Context, Lazy, LazyGroup, common_options, pass_fleet
from workers.cli.formatting import COLOURS
from workers.cli.hooks.sets import in_force
from workers.cli.screens.columns import Cell, Column, hanging, sign, terminal_width
from workers.cli.screens.rows import no_trunc_option
from workers.runtime.wording import counted

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.hooks import Hook
    from bus.hooksets.guards import Case
    from bus.hooksets.in_force import HookSet

COMMANDS: Final = {
    "list": Lazy(
        "workers.cli.guards:list_guards", "List the packs and their rules, and the layers in which each is enabled."
    ),
    "show": Lazy("workers.cli.guards:show_guard", "Show a pack, or one rule with its tests."),
    "enable": Lazy("workers.cli.guards.switch:enable", "Enable a pack or a rule."),
    "disable": Lazy("workers.cli.guards.switch:disable", "Disable a pack or a rule."),
    "publish": Lazy("workers.cli.guards.switch:publish", "Enable the default packs for the whole fleet."),
    "test": Lazy("workers.cli.guards.trial:test", "Run the packs' own tests, or judge a corpus of lines."),
}

RULE_COLUMNS: Final = (
    Column("RULE", 16),
    Column("DECISION", 8, rank=1),
    Column("STATE", 5, rank=2),
    Column("WHAT", 24, rank=3),
    Column("PACK", 20, rank=4),
    Column("LAYER", 11, rank=5),
    Column("PREVENTS", 20, rank=6),
)
"""On a narrow terminal the incident is dropped first, then the layer and the pack."""

_INDENT: Final = 15
_PACK_COLUMNS: Final = tuple(Column(name, 0) for name in ("RULE", "DECISION", "STATE", "LAYER", "WHAT"))
"""The columns of one pack, whose long lines are wrapped and not cut."""


@click.group(cls=LazyGroup, lazy=COMMANDS)
def guards() -> None:
    """Guard packs: list, show, enable, disable and test their rules."""


@click.command("list")
@click.argument("pack", required=False, default="")
@no_trunc_option
@common_options
@pass_fleet
def list_guards(fleet: Context, pack: str, whole: bool) -> None:
    """List the guard packs and their rules: what each decides, whether it is on, and in which layers."""
    from bus.hooksets.guards import load_pack, packs

    names = (load_pack(pack).name,) if pack else packs()
    hooks = in_force(fleet, needed=False)
    records = [rule_record(rule, name, hooks) for name in names for rule in load_pack(name).rules]
    if fleet.json:
        for record in records:
            fleet.stream(record)
        return
    times = Counter(record["rule"] for record in records)
    rows = [
        (
            record["rule"] if times[record["rule"]] == 1 else record["id"],
            _decision(record),
            _state(record),
            record["description"],
            record["pack"],
            _layers(record),
            record["incident"] or "-",
        )
        for record in records
    ]
    fleet.table(RULE_COLUMNS, rows, whole=whole)
    on = sum(record["on"] for record in records)
    fleet.say(f"{on} of {counted(len(records), 'rule')} are on; `fleethook guards show RULE` shows more")


@click.command("show")
@click.argument("name", metavar="PACK|RULE")
@common_options
@pass_fleet
def show_guard(fleet: Context, name: str) -> None:
    """Show a pack and its rules, or one rule: what it stops and why, what to do instead, and its test cases."""
    from bus.hooksets.guards import load_pack
    from workers.admin.guard_switches import find_switch

    switch = find_switch(name)
    pack, hooks = load_pack(switch.pack), in_force(fleet, needed=False)
    records = [rule_record(rule, pack.name, hooks) for rule in pack.rules]
    if not switch.rule:
        if fleet.json:
            fleet.data({"pack": pack.name, "description": pack.description, "tests": len(pack.tests), "rules": records})
            return
        fleet.data(f"{pack.name}: {pack.description}")
        fleet.table(
            _PACK_COLUMNS,
            [
                (f"  {record['rule']}", _decision(record), _state(record), _layers(record), record["description"])
                for record in records
            ],
            head=False,
        )
        fleet.data(f"{counted(len(records), 'rule')}, {counted(len(pack.tests), 'test')}")
        return
    record = next(record for record in records if record["rule"] == switch.rule)
    cases = [case for case in pack.tests if case.hook == switch.name]
    if fleet.json:
        fleet.data({**record, "tests": [_case(case) for case in cases]})
        return
    state = _state(record)
    fleet.data(
        f"{record['id']}  {record['decision']}  {fleet.style(state.text, state.colour or 'green')}  {_layers(record)}"
    )
    for key in ("description", "reason", "instead", "incident", "event", "tool", "when", "origin"):
        if record[key]:
            fleet.data(f"  {key:<12} " + "\n".join(hanging(record[key], _INDENT, terminal_width())))
    for case in cases:  # a call of several lines has them below each other
        fleet.data(f"  {case.expected:<12} " + case.call.replace("\n", "\n" + " " * _INDENT))


def rule_record(rule: Hook, pack: str, hooks: HookSet) -> dict[str, Any]:
    """A rule for `--json`: its decision, and the layers in force that enable or disable it."""
    from bus.hooksets.layers import chosen_decision
    from workers.admin.guard_switches import Switch, is_on, short_id

    switch, definition = Switch(pack, short_id(rule, pack)), rule.rule
    layers = []
    for layered in hooks.files:
        settings = layered.file.guards.get(pack)
        if settings is not None:
            chosen = chosen_decision(rule, pack, settings)
            own = {"decision": chosen} if chosen else {}
            on = is_on(layered.file.guards, switch)
            layers.append(
                {"layer": layered.layer, "version": layered.version, "on": on, "observe": settings.observe, **own}
            )
    in_effect = [hook for hook in hooks.hooks.values() if hook.origin == rule.origin and hook.id.startswith(rule.id)]
    decisions = [hook.rule.decision for hook in in_effect if hook.rule is not None and not hook.observe]
    decision = definition.decision if definition is not None else ""
    return {
        "id": rule.id,
        "pack": pack,
        "rule": switch.rule,
        "on": bool(in_effect),
        "decision": ("deny" if "deny" in decisions else decisions[0]) if decisions else decision,
        "observe": bool(in_effect) and not decisions,
        "layers": layers,
        "incident": definition.incident if definition is not None else "",
        "description": rule.description,
        "reason": definition.reason if definition is not None else "",
        "instead": definition.instead if definition is not None else "",
        "event": ", ".join(rule.on),
        "tool": rule.tool,
        "when": rule.when,
        "origin": rule.origin,
    }


def _decision(record: dict[str, Any]) -> Cell:
    return Cell(sign(record["decision"]), COLOURS.get(record["decision"]))


def _state(record: dict[str, Any]) -> Cell:
    if record["observe"]:
        return Cell("observe", "yellow")
    return Cell("on", "green") if record["on"] else Cell("off", "red")


def _layers(record: dict[str, Any]) -> str:
    return ", ".join(layer["layer"] for layer in record["layers"] if layer["on"]) or "-"


def _case(case: Case) -> dict[str, str]:
    from bus.secrets.redaction import redact_text

    names = ("command", "tool", "path", "url", "content", "prompt", "cwd", "origin")
    fields = {name: redact_text(value) for name in names if (value := getattr(case, name))}
    return {"expect": case.expected, **fields}
