"""Enables and disables guard packs and single rules in the text of a hook file or in the published set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from bus.config.documents import loads, read_file
from bus.config.edit_add import flow
from bus.config.edit_change import with_item, with_values, without_item
from bus.config.file_types import GuardSettings
from bus.config.validation import suggestion
from bus.errors import ConfigError, NotFound
from bus.hooks import Hook, Layer
from bus.hooksets.guards import load_pack, packs
from bus.hooksets.hookfile import HookFile, parse_hook_file
from workers.admin.endpoint_edit import Edited

Chosen = Literal["deny", "ask", "own"]
"""The decision that a layer sets for a pack or a rule; `own` is that of the rule itself."""


class Switch(NamedTuple):
    """A pack, or one rule of it by its short id (without the pack's name)."""

    pack: str
    rule: str = ""

    @property
    def name(self) -> str:
        """The name as in hook ids: `pack` or `pack_rule`."""
        return f"{self.pack}_{self.rule}" if self.rule else self.pack


def find_switch(name: str) -> Switch:
    """The pack or rule of a name: `PACK`, `PACK_RULE`, or `RULE` if only one pack has it. Raises NotFound with a hint."""
    if name in packs():
        return Switch(name)
    known = [Switch(pack, short_id(rule, pack)) for pack in packs() for rule in load_pack(pack).rules]
    found = [candidate for candidate in known if name in (candidate.name, candidate.rule)]
    if len(found) == 1:
        return found[0]
    if found:
        raise NotFound(
            f"several packs have a rule {name!r}: {', '.join(candidate.name for candidate in found)}; name the pack too"
        )
    hint = suggestion(
        name, [*packs(), *(candidate.name for candidate in known), *(candidate.rule for candidate in known)]
    )
    raise NotFound(f"no guard pack or rule is called {name!r}; {hint or 'see `fleethook guards list`'}")


def short_id(rule: Hook, pack: str) -> str:
    """A rule's id without its pack's name."""
    return rule.id.removeprefix(f"{pack}_")


def is_on(guards: Mapping[str, GuardSettings], switch: Switch) -> bool:
    """Whether these settings of one layer enable a pack, or a rule of it."""
    settings = guards.get(switch.pack)
    if settings is None or not settings.enabled:
        return False
    return not switch.rule or not {switch.rule, switch.name} & set(settings.disable)


def set_switched(file: HookFile, switch: Switch, on: bool, decision: Chosen | None = None) -> HookFile:
    """A published set with a pack or a rule enabled or disabled; raises ConfigError for a rule whose pack is disabled.

    `decision` is what it decides from then on; None leaves that as it is.
    """
    settings = _switched(file.guards.get(switch.pack), switch, on, decision, "the fleet's set")
    guards = dict(file.guards)
    if settings is not None:
        guards[switch.pack] = settings
    return replace(file, guards=guards).with_digest()


def file_switched(path: Path, layer: Layer, switch: Switch, on: bool, decision: Chosen | None = None) -> Edited:
    """As `set_switched` for a hook file; the rest of its text, comments too, stays as it is.

    The text is unchanged if it has this setting already. Raises ConfigError for a rule whose pack is disabled, and if the file
    cannot be edited.
    """
    before = read_file(path) if path.exists() else ""
    old = parse_hook_file(before, layer, file=str(path))
    settings = old.guards.get(switch.pack)
    wanted = _switched(settings, switch, on, decision, str(path))
    changed = wanted is not None and wanted != settings
    after = _text_switched(before, str(path), wanted, switch, on) if wanted is not None and changed else before
    read = parse_hook_file(after, layer, file=str(path))
    known = {(candidate.path, candidate.message) for candidate in old.problems}
    for problem in read.problems:
        if (problem.path, problem.message) not in known:
            raise problem
    return Edited(path, before, after, read)


def _switched(
    settings: GuardSettings | None, switch: Switch, on: bool, decision: Chosen | None, where: str
) -> GuardSettings | None:
    """The settings after the change; None for disabling a pack that has no settings."""
    if not switch.rule:
        if settings is None and not on:
            return None
        return _decided(msgspec.structs.replace(settings or GuardSettings(), enabled=on), switch, decision)
    if settings is None or not settings.enabled:
        raise ConfigError(
            f"the pack {switch.pack!r} is not enabled in {where}, so its rules cannot be enabled or disabled there",
            hint=f"`fleethook guards enable {switch.pack}` enables it; `fleethook guards list` shows what is enabled where",
        )
    rest = tuple(candidate for candidate in settings.disable if candidate not in (switch.rule, switch.name))
    changed = msgspec.structs.replace(settings, disable=rest if on else (*rest, switch.rule))
    return _decided(changed, switch, decision)


def _decided(settings: GuardSettings, switch: Switch, decision: Chosen | None) -> GuardSettings:
    if decision is None:
        return settings
    if not switch.rule:
        return msgspec.structs.replace(settings, decision=None if decision == "own" else decision)
    decisions = {name: one for name, one in settings.decisions.items() if name not in (switch.rule, switch.name)}
    if decision != "own":
        decisions[switch.rule] = decision
    return msgspec.structs.replace(settings, decisions=decisions)


def _text_switched(text: str, file: str, wanted: GuardSettings, switch: Switch, on: bool) -> str:
    whole = loads(text, file=file).value
    document: dict[str, Any] = whole if isinstance(whole, dict) else {}
    guards = document.get("guards")
    raw = guards.get(switch.pack) if isinstance(guards, dict) else None
    listed = raw.get("disable") if isinstance(raw, dict) and switch.rule else None
    if isinstance(listed, list) and wanted.disable and list(wanted.disable) != listed:
        text = _item_switched(text, file, listed, switch, on)
        raw = {**raw, "disable": list(wanted.disable)} if isinstance(raw, dict) else raw
    if isinstance(raw, dict) and (mapping := _mapping(raw, wanted)):
        return text if mapping == raw else with_values(text, file, ("guards", switch.pack), mapping)
    value: Any = wanted.enabled if _is_plain(wanted) else msgspec.json.decode(msgspec.json.encode(wanted))
    if isinstance(guards, dict):
        return with_values(text, file, ("guards",), {**guards, switch.pack: value})
    if text.lstrip().startswith("{") or "guards" in document:
        return with_values(text, file, (), {**document, "guards": {switch.pack: value}})
    apart = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    shown = str(value).lower() if isinstance(value, bool) else flow(value)
    return f"{text}{apart}guards:\n  {switch.pack}: {shown}\n"


def _item_switched(text: str, file: str, listed: list[Any], switch: Switch, on: bool) -> str:
    path = ("guards", switch.pack, "disable")
    if not on:
        return with_item(text, file, path, switch.rule)
    for number in reversed([at for at, candidate in enumerate(listed) if candidate in (switch.rule, switch.name)]):
        text = without_item(text, file, path, number)
    return text


def _mapping(raw: dict[str, Any], wanted: GuardSettings) -> dict[str, Any]:
    """The mapping in the file, updated to the settings; empty if no key is left."""
    changed = dict(raw)
    if changed.get("enabled", True) != wanted.enabled:
        changed["enabled"] = wanted.enabled
    for key in ("disable", "decision", "decisions"):
        value = getattr(wanted, key)
        if value:
            changed[key] = list(value) if key == "disable" else value
        else:
            changed.pop(key, None)
    return changed


def _is_plain(settings: GuardSettings) -> bool:
    return settings in (GuardSettings(), GuardSettings(enabled=False))
