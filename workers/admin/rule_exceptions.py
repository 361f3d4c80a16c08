"""Writes an approved call as an exception into the file, or the published set, of the rule that asked (X-03).

An exception names the exact call. Of the published set it names the machine too; a file is on its machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from bus.config.documents import Plain, loads, read_file
from bus.config.edit_add import flow
from bus.config.edit_change import with_item, with_values
from bus.config.file_types import GuardException
from bus.errors import ConfigError
from bus.hooks import Hook, Layer
from bus.hooksets.guards import load_pack
from bus.hooksets.hookfile import HookFile, parse_hook_file
from bus.hooksets.trust import project_file
from bus.matching.exact_calls import ExactCall
from workers.admin.endpoint_edit import Edited
from workers.approvals.remembered_calls import Remembered

_PLACES: Final = {"user": "the user's file", "project": "the project's file", "fleet": "the published set"}


class Plan(NamedTuple):
    """What remembering a question changes."""

    remembered: Remembered
    files: tuple[tuple[Layer, Edited], ...]
    """The hook files of this machine, with the exceptions."""
    published: tuple[str, ...]
    """The rules of the published set that get exceptions."""

    def change_set(self, file: HookFile) -> HookFile:
        """The published set with the exceptions."""
        return set_with_exceptions(file, self.published, self.remembered.calls)

    @property
    def message(self) -> str:
        """Why the published set was changed, for its history."""
        return f"approvals remember {self.remembered.question.id}: {', '.join(self.published)}"


def planned(found: Remembered, published: HookFile, user: Path, host: str) -> Plan:
    """The change of each layer whose rules asked.

    `user` is the user's file on this machine, whose name is `host`. Raises ConfigError if a rule is not in the layer any more,
    or is in a file of another machine.
    """
    files: list[tuple[Layer, Edited]] = []
    rules_published: tuple[str, ...] = ()
    asking = found.question.rules
    for layer in dict.fromkeys(rule.layer for rule in asking):
        rules = tuple(rule.hook for rule in asking if rule.layer == layer)
        if layer == "fleet":
            rules_published = rules
            set_with_exceptions(published, rules, found.calls)
        else:
            files.append(_file_change(found, layer, rules, user, host))
    return Plan(found, tuple(files), rules_published)


def _file_change(found: Remembered, layer: str, rules: Sequence[str], user: Path, host: str) -> tuple[Layer, Edited]:
    question, calls = found
    if layer not in {"user", "project"}:
        raise ConfigError(f"the rule {rules[0]!r} is of a {layer}, and ends with it: there is no file to write to")
    if question.host != host:
        raise ConfigError(
            f"the rule {rules[0]!r} is in the {layer}'s file on {question.host}",
            hint=f"say there: fleethook approvals remember {question.id}; by hand: {by_hand(calls)}",
        )
    if layer == "user":
        return "user", file_with_exceptions(user, "user", rules, calls)
    project = project_file(Path(calls[0].cwd), user=user)
    if project is None:
        raise ConfigError(f"{calls[0].cwd} has no project with hooks any more", hint=f"by hand: {by_hand(calls)}")
    return "project", file_with_exceptions(project, "project", rules, calls)


def set_with_exceptions(file: HookFile, rules: Sequence[str], calls: Sequence[ExactCall]) -> HookFile:
    """The published set with the calls as exceptions to these rules; raises ConfigError if it has no such rule."""
    hooks, guards = list(file.hooks), dict(file.guards)
    for rule in rules:
        pack, short = _pack_rule(file, rule, "fleet")
        if pack:
            known = guards[pack].unless
            new = [one for one in _guard_exceptions(short, calls) if one not in known]
            guards[pack] = msgspec.structs.replace(guards[pack], unless=(*known, *new))
            continue
        number = _index(file.hooks, rule, "fleet")
        had = hooks[number].unless
        hooks[number] = msgspec.structs.replace(
            hooks[number], unless=(*had, *(call for call in calls if call not in had))
        )
    return replace(file, hooks=tuple(hooks), guards=guards).with_digest()


def file_with_exceptions(path: Path, layer: Layer, rules: Sequence[str], calls: Sequence[ExactCall]) -> Edited:
    """A hook file with the calls as exceptions to these rules; the rest of its text stays as it is.

    Raises ConfigError if the file has no such rule, or has to be edited by hand.
    """
    before = read_file(path) if path.exists() else ""
    name = str(path)
    old = parse_hook_file(before, layer, file=name)
    here = [msgspec.structs.replace(call, host="") for call in calls]
    after = before
    for rule in rules:
        pack, short = _pack_rule(old, rule, layer)
        if pack:
            for exception in _guard_exceptions(short, here):
                after = _with_guard_exception(after, name, pack, exception)
            continue
        hook = old.hooks[_index(old.hooks, rule, layer)]
        for call in here:
            after = _with_exception(after, name, hook, call)
    read = parse_hook_file(after, layer, file=name)
    known = {(problem.path, problem.message) for problem in old.problems}
    for problem in read.problems:
        if (problem.path, problem.message) not in known:
            raise problem
    return Edited(path, before, after, read)


def by_hand(calls: Sequence[ExactCall]) -> str:
    """The exceptions as one line of YAML."""
    return f"unless: {flow([_plain(call) for call in calls])}"


def _guard_exceptions(rule: str, calls: Sequence[ExactCall]) -> list[GuardException]:
    return [GuardException(rule=rule, **msgspec.structs.asdict(call)) for call in calls]


def _pack_rule(file: HookFile, rule: str, layer: Layer) -> tuple[str, str]:
    """The guard pack of this file that the rule belongs to, and the rule's short id; empty if it is a hook of its own."""
    for pack in file.guards:
        rules = load_pack(pack).rules
        for number in _named(rules, rule, layer)[:1]:
            return pack, rules[number].id.removeprefix(f"{pack}_")
    return "", ""


def _named(hooks: Sequence[Hook], rule: str, layer: Layer) -> list[int]:
    """The indexes of the rule. In force it has a longer name if a higher layer has another hook of its name."""
    renamed = re.fullmatch(rf"(.+)-{layer}[0-9]*", rule)
    exact = [number for number, hook in enumerate(hooks) if hook.id == rule]
    return exact or [number for number, hook in enumerate(hooks) if renamed is not None and hook.id[:48] == renamed[1]]


def _index(hooks: Sequence[Hook], rule: str, layer: Layer) -> int:
    found = _named(hooks, rule, layer)
    if len(found) != 1:
        raise ConfigError(f"{_PLACES.get(layer, layer)} has no rule {rule!r} any more; nothing was changed")
    return found[0]


def _with_exception(text: str, file: str, hook: Hook, call: ExactCall) -> str:
    document = loads(text, file=file)
    entries: Any = document.value.get("hooks") if isinstance(document.value, dict) else None
    numbers = range(len(entries)) if isinstance(entries, list) else range(0)
    of_hook = [number for number in numbers if hook.origin == f"{file}:{document.place(('hooks', number))[0]}"]
    if len(of_hook) != 1:
        raise ConfigError(
            f"the rule {hook.id!r} is not written in this file but in {hook.origin}",
            file=file,
            hint=f"nothing was changed; by hand: {by_hand([call])}",
        )
    return _with_item(text, file, ("hooks", of_hook[0]), entries[of_hook[0]], call)


def _with_guard_exception(text: str, file: str, pack: str, exception: GuardException) -> str:
    whole: Any = loads(text, file=file).value
    guards = whole.get("guards") if isinstance(whole, dict) else None
    if not isinstance(guards, dict) or pack not in guards:
        raise ConfigError(
            f"the guard pack {pack!r} is not enabled in this file itself",
            file=file,
            hint=f"nothing was changed; by hand, in the file that enables it: {by_hand([exception])}",
        )
    if isinstance(guards[pack], dict):
        return _with_item(text, file, ("guards", pack), guards[pack], exception)
    return with_values(text, file, ("guards",), {**guards, pack: {"unless": [_plain(exception)]}})


def _with_item(text: str, file: str, path: tuple[str | int, ...], raw: dict[str, Any], call: ExactCall) -> str:
    listed, item = raw.get("unless"), _plain(call)
    if isinstance(listed, list):
        return text if item in listed else with_item(text, file, (*path, "unless"), item)
    return with_values(text, file, path, {**raw, "unless": [item]})


def _plain(call: ExactCall) -> Plain:
    plain: dict[str, Plain] = msgspec.to_builtins(call)
    return {"rule": plain.pop("rule"), **plain} if "rule" in plain else plain
