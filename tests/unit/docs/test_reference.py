"""The generated references: up to date, complete, and with examples that the real loaders accept (issue 11, section 2)."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from bus.agents import find
from bus.config.documents import loads
from bus.config.endpoint_entry import EndpointEntry
from bus.config.file_types import FileFormat, GuardSettings, HookEntry, ImportEntry, Network
from bus.config.hook_test_entry import HookTestEntry, HookTestEvent
from bus.config.model_entry import ModelEntry, ModelPrice
from bus.config.plugin_entry import PluginEntry
from bus.config.settings import NAMES, OTHER_VARIABLES, PREFIX, VARIABLES, Settings, parse_setting
from bus.config.workflow_actions import ACTION_KINDS, CaptureResponse
from bus.config.workflow_entry import (
    ExitConditionEntry,
    StartEntry,
    StepEntry,
    StopEntry,
    ToolRuleEntry,
    TransitionEntry,
    TriggerEntry,
    WorkflowEntry,
)
from bus.config.workflow_test_entry import WorkflowTestEntry, WorkflowTestEvent
from bus.events import MEANINGS, SOURCES, Event, EventType
from bus.hooks import HttpCall, ModelPrompt, OldSecret
from bus.hooksets import templates
from bus.hooksets.guards import load_pack, packs
from bus.hooksets.hook_tests import read_hook_tests
from bus.hooksets.hookfile import load_hook_file, parse_hook_file, read_hook_document
from bus.matching.command_match import CommandMatch
from bus.matching.conditions import compile_condition
from bus.matching.rules import Rule
from bus.pacing import Batch
from bus.verdicts import Hold, Part, Verdict
from bus.wire.keys import DECLARED
from docs.reference.commands import every_command
from docs.reference.events import CONDITIONS, types_of
from docs.reference.fields import Field, example, fields
from docs.reference.pages import DOCS, pages
from docs.reference.settings import SETUP
from docs.reference.settings import example as variable
from tests.support.rows import rows

ROOT = DOCS.parent
PAGES = sorted([*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "docker/README.md"])
_VARIABLE = re.compile(r"(?<!_)FLEETHOOK_[A-Z][A-Z_]*[A-Z]")

SECTIONS: dict[tuple[str, str], type] = {
    ("hooks.md", "The file"): FileFormat,
    ("hooks.md", "hooks"): HookEntry,
    ("hooks.md", "rule"): Rule,
    ("hooks.md", "commands"): CommandMatch,
    ("hooks.md", "http"): HttpCall,
    ("hooks.md", "prompt and agent"): ModelPrompt,
    ("hooks.md", "hold"): Hold,
    ("hooks.md", "old_secrets"): OldSecret,
    ("hooks.md", "import"): ImportEntry,
    ("hooks.md", "guards"): GuardSettings,
    ("hooks.md", "plugins"): PluginEntry,
    ("hooks.md", "model"): ModelEntry,
    ("hooks.md", "prices"): ModelPrice,
    ("hooks.md", "tests"): HookTestEntry,
    ("hooks.md", "event"): HookTestEvent,
    ("endpoints.md", "endpoints"): EndpointEntry,
    ("endpoints.md", "old_secrets"): OldSecret,
    ("endpoints.md", "batch"): Batch,
    ("endpoints.md", "network"): Network,
    ("workflow-fields.md", "workflows"): WorkflowEntry,
    ("workflow-fields.md", "start"): StartEntry,
    ("workflow-fields.md", "steps"): StepEntry,
    ("workflow-fields.md", "transitions"): TransitionEntry,
    ("workflow-fields.md", "triggers"): TriggerEntry,
    ("workflow-fields.md", "rules"): ToolRuleEntry,
    ("workflow-fields.md", "exit_conditions"): ExitConditionEntry,
    ("workflow-fields.md", "on_premature_stop"): StopEntry,
    ("workflow-fields.md", "capture_response"): CaptureResponse,
    ("workflow-fields.md", "tests"): WorkflowTestEntry,
    ("workflow-fields.md", "events"): WorkflowTestEvent,
    **{("workflow-fields.md", str(kind.__struct_config__.tag)): kind for kind in ACTION_KINDS},
    ("events.md", "Fields"): Event,
    ("wire.md", "The body of an event"): Event,
    ("wire.md", "The reply"): Verdict,
}

_CALL = {"on": "tool:pre_execute", "command": "./check.sh"}
_PAGERDUTY = {"format": "pagerduty", "routing_key": "env:KEY"}
NEEDED: dict[tuple[type, str], dict[str, Any]] = {
    (HookEntry, "http"): {"on": "tool:pre_execute"},
    (HookEntry, "prompt"): {"on": "tool:pre_execute"},
    (HookEntry, "agent"): {"on": "tool:pre_execute"},
    (HookEntry, "rule"): {"on": "tool:pre_execute"},
    (HookEntry, "retry"): {**_CALL, "blocking": False},
    (EndpointEntry, "routing_key"): {"format": "pagerduty"},
    (EndpointEntry, "resolve"): _PAGERDUTY,
    (EndpointEntry, "on_failure"): {"url": "https://hooks.example/", "can_block": True},
}
"""What an example needs beside it in its entry, where that is not the usual."""


def section(page: str, heading: str) -> str:
    """The text of one section of a page, below its heading."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def documented(page: str, heading: str) -> list[str]:
    """The names in the first column of a section's tables."""
    return re.findall(r"^\| `([^`]+)` \|", section(page, heading), re.MULTILINE)


def examples(kind: type) -> Iterator[tuple[Field, Any]]:
    """Every example of a type's fields."""
    for field in fields(kind):
        for value in field.examples:
            yield field, value


@pytest.mark.parametrize(
    "name",
    [
        "hooks.md",
        "endpoints.md",
        "workflow-fields.md",
        "settings.md",
        "events.md",
        "wire.md",
        "commands.md",
        "costs.md",
    ],
)
def test_a_page_is_what_the_types_say(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == pages()[name], f"docs/{name} is old; run: make docs"


@rows(("page", "heading"), SECTIONS)
def test_a_section_has_every_field_and_no_other(page: str, heading: str) -> None:
    names = list(SECTIONS[page, heading].__struct_encode_fields__)  # type: ignore[attr-defined]
    known = names + list(Part.__struct_fields__) if heading == "The reply" else names
    assert documented(page, heading) == known


def test_every_field_has_a_sentence_and_an_example() -> None:
    for kind in {*SECTIONS.values(), Settings} - {Verdict}:
        for field in fields(kind):
            place = f"{kind.__name__}.{field.name}"
            assert_sentence(field.description, place)
            assert field.examples, place
            # `version: 1` is the only value that there is.
            assert field.name == "version" or field.default not in field.examples, (
                f"{place}: the example is the default"
            )
    for row in re.findall(r"^\| `.*", section("wire.md", "The reply"), re.MULTILINE):
        assert re.match(r"\| `\w+` \| [A-Z`].*\. \|", row), row


def assert_sentence(text: str, place: str) -> None:
    """Three words or more, and a full stop; not "As …", which sends the reader elsewhere."""
    text = text.strip()
    assert text.rstrip(")").endswith("."), f"{place}: {text!r}"
    assert len(text.split()) > 2, f"{place}: {text!r}"
    assert not text.startswith("As `"), f"{place}: {text!r}"


def test_every_setting_and_variable_is_on_its_page() -> None:
    """Those that the loader knows, and every one that the code, the containers and the Makefile mention."""
    text = (DOCS / "settings.md").read_text(encoding="utf-8")
    known = {*VARIABLES, *OTHER_VARIABLES, *SETUP}
    assert known == set(re.findall(r"^\| `(FLEETHOOK_\w+)` \|", text, re.MULTILINE))
    tracked = subprocess.run(
        ["git", "ls-files", "bus", "workers", "docker", "Makefile", "Procfile"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    for name in tracked:
        mentioned = set(_VARIABLE.findall((ROOT / name).read_text(encoding="utf-8")))
        assert mentioned <= known, f"{name}: {sorted(mentioned - known)}"


@rows("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_no_variable_and_no_event_type_that_does_not_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    wrong = set(_VARIABLE.findall(text)) - {*VARIABLES, *OTHER_VARIABLES, *SETUP}
    assert not wrong, f"{page.name}: {sorted(wrong)}"
    families = {kind.value.partition(":")[0] for kind in EventType} - {"file"}  # `file:line` is a place
    types = set(re.findall(rf"`((?:{'|'.join(families)}):[a-z]\w*)`", text))
    assert types <= {kind.value for kind in EventType}, f"{page.name}: {sorted(types - set(EventType))}"


def test_every_event_type_is_on_its_page_with_its_senders() -> None:
    assert documented("events.md", "Types") == [kind.value for kind in EventType]
    for kind in EventType:
        assert_sentence(MEANINGS[kind].sentence, kind.value)
    assert set(MEANINGS) == set(EventType)
    assert {field for meaning in MEANINGS.values() for field in meaning.fields if "." not in field} <= {
        *Event.__struct_fields__
    }
    rows = dict(re.findall(r"^\| `([^`]+)` \| [^|]+ \| ([^|]+) \|", section("events.md", "Types"), re.MULTILINE))
    for source in set(SOURCES) - {"generic", "forge"}:
        sent = types_of(source) & set(rows)
        assert sent == {kind for kind, senders in rows.items() if source in senders.split(", ")}, source


def test_recorded_payloads_become_types_that_their_agent_is_said_to_send() -> None:
    """And a prompt has the same name for every agent, as `when:` conditions need it."""
    prompts = set()
    for path in (ROOT / "tests/golden").glob("*/*-*-*.json"):
        source, native = path.parent.name, path.stem.split("-")[1]
        event = find(source).read(native, path.read_bytes())
        assert event.type not in set(EventType) or event.type in types_of(source), f"{path}: {event.type}"
        if event.type == "user:prompt_submit":
            assert isinstance(event.data["prompt"], str), path
            prompts.add(source)
    assert len(prompts) > 6


def test_every_command_is_on_its_page_with_its_options() -> None:
    text = (DOCS / "commands.md").read_text(encoding="utf-8")
    headings = re.findall(r"^##+ (fleethook.*)$", text, re.MULTILINE)
    assert headings == [context.command_path for context, _ in every_command()]
    assert len(headings) > 79
    for context, command in every_command():
        assert_sentence((command.help or "").partition("\n\n")[0], context.command_path)
        part = re.split(rf"^##+ {context.command_path}$", text, flags=re.MULTILINE)[1].partition("\n## ")[0]
        for option in command.params:
            shown = isinstance(option, click.Option) and not option.hidden and option.name not in {"json", "namespace"}
            if shown and isinstance(option, click.Option):
                assert_sentence(option.help or "", f"{context.command_path} {option.name}")
            for name in option.opts if shown else ():
                assert name in part, f"{context.command_path} {name}"


@pytest.mark.parametrize(
    ("module", "pages_of_it"),
    [("bus", ("python.md",)), ("bus.testing", ("python.md",)), ("bus.plugins", ("plugins.md",))],
)
def test_every_public_name_is_on_its_page(module: str, pages_of_it: tuple[str, ...]) -> None:
    text = "".join((DOCS / page).read_text(encoding="utf-8") for page in pages_of_it)
    names = importlib.import_module(module).__all__
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


def test_every_key_is_on_its_page() -> None:
    assert documented("wire.md", "Keys") == [key.pattern for key in DECLARED]
    for key in DECLARED:
        assert len(key.purpose.split()) > 2, key.pattern
        assert key.writer, key.pattern
        assert key.reader, key.pattern


@cache
def known_names() -> frozenset[str]:
    """The fields of files, events and settings, and those of the templates' plugins."""
    names = {field.name for kind in {*SECTIONS.values(), Settings} for field in fields(kind)} | {"match"}  # pigo's
    return frozenset(names.union(*(templates.template(one).entry.get("config", {}) for one in templates.names())))


@rows("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_no_field_and_no_condition_that_does_not_exist(page: Path) -> None:
    """`field: value` between backticks is a field of a file, an event, a setting or a template's plugin; `event.…` is read."""
    text = page.read_text(encoding="utf-8")
    assert not set(re.findall(r"`([a-z_]+): [^`]+`", text)) - known_names(), page.name
    if page.name != "python.md":  # there `event` and `verdict` are values of a program
        read = set(re.findall(r"\b((?:event|verdict)\.[a-z]+)\b", text))
        assert read <= set(CONDITIONS), f"{page.name}: {sorted(read - set(CONDITIONS))}"


@pytest.mark.parametrize("kind", [HookEntry, EndpointEntry])
def test_the_examples_of_an_entry_load(kind: type) -> None:
    section_name, usual = ("hooks", _CALL) if kind is HookEntry else ("endpoints", {"url": "https://hooks.example/"})
    for field, value in examples(kind):
        entry = {**NEEDED.get((kind, field.name), usual), field.name: value}
        load({section_name: [entry]})


def test_the_examples_of_the_parts_of_an_entry_load() -> None:
    for field, value in examples(Rule):
        on = "tool:post_execute" if field.name == "redact" else "tool:pre_execute"
        load({"hooks": [{"on": on, "rule": {field.name: value}}]})
    for field, value in examples(ModelPrompt):
        load({"hooks": [{"on": "agent:stop", "agent": {"text": "Is it done?", field.name: value}}]})
    for field, value in examples(CommandMatch):
        usual = {"program": ["git"]} if field.name in {"paths_except", "loses"} else {}
        load({"hooks": [{"on": "tool:pre_execute", "rule": {"commands": [{**usual, field.name: value}]}}]})
    for field, value in examples(HttpCall):
        load({"hooks": [{"on": "tool:pre_execute", "http": {"url": "https://h.example/", field.name: value}}]})
    for field, value in examples(OldSecret):
        secret = {"secret": "env:OLD", "until": "2026-11-23T08:00:00Z", field.name: value}
        load({"endpoints": [{"url": "https://h.example/", "old_secrets": [secret]}]})
    for field, value in examples(Batch):
        load({"endpoints": [{"url": "https://h.example/", "batch": {field.name: value}}]})


def test_the_examples_of_a_test_load() -> None:
    hooks = "hooks: [{id: no-force-push, on: session:start, command: x}]"
    for kind, below in ((HookTestEntry, None), (HookTestEvent, "event")):
        for field, value in examples(kind):
            given = {field.name: value} if below is None else {below: {field.name: value}}
            alone = {"event", "prompt"} & set(given)
            entry = {"name": "a", "expect": "deny", "source": "claude", **({} if alone else {"command": "x"}), **given}
            if below is not None or isinstance(value, dict):
                del entry["source"]
            document = loads(f"{hooks}\ntests: [{json.dumps(entry)}]", file="example")
            tests, problems = read_hook_tests(document, read_hook_document(document, "user"), Path("/"))
            assert (len(tests), problems) == (1, []), entry


def test_the_examples_of_the_sections_load() -> None:
    for field, value in examples(FileFormat):
        if field.name not in {"import", "plugins"}:  # they name files that this machine does not have
            load({field.name: value})
    for field, value in examples(Network):
        load({"network": {field.name: value}})
    for field, value in examples(ModelEntry):
        load({"model": {"url": "https://api.example/v1", "name": "small", field.name: value},
              "network": {"allow": ["127.0.0.1"]}})  # fmt: skip
    rules = {rule.id.partition("_")[2] for pack in packs() for rule in load_pack(pack).rules}
    for field, value in examples(GuardSettings):
        load({"guards": {"destructive-commands": {field.name: value}}})
        assert field.name != "disable" or set(value) <= rules


def test_the_examples_of_an_import_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_text('{"hooks": {}}', encoding="utf-8")
    path = tmp_path / "fleethook.yaml"
    entries = [{"path": "~/.claude/settings.json", field.name: value} for field, value in examples(ImportEntry)]
    for entry in [*entries, *next(value for field, value in examples(FileFormat) if field.name == "import")]:
        path.write_text(json.dumps({"import": [entry]}), encoding="utf-8")
        problems = [str(problem) for problem in load_hook_file(path, "user").problems]
        pinned = isinstance(entry, dict) and {"sha256", "scripts"} & set(entry)  # another content than the test's
        assert all("shows it and accepts it" in problem for problem in problems) if pinned else not problems, problems


def load(value: dict[str, Any]) -> None:
    """Load a file as JSON and, field by field, as the page shows it; nothing may be wrong with either."""
    for text in (json.dumps(value), "\n".join(example(name, part) for name, part in value.items())):
        read = parse_hook_file(text, "user")
        assert not read.problems, (text, [str(problem) for problem in read.problems])


def test_the_examples_of_settings_load() -> None:
    for field, value in examples(Settings):
        assert parse_setting(field.name, str(value)) is not None
        name, _, text = variable(field.name, value).partition("=")
        assert VARIABLES[name] == field.name
        assert text == str(value)
    assert PREFIX + "BUDGET" in VARIABLES
    assert len(VARIABLES) == len(NAMES)


def test_the_examples_of_an_event_load_and_the_conditions_are_true_or_false() -> None:
    whole = {field.name: value for field, value in examples(Event)}
    event = msgspec.convert(whole, Event)
    verdict = {"decision": "deny", "reason": "a secret"}
    readable = {f"event.{name}" for name in event.facts()} | {f"verdict.{name}" for name in verdict}
    assert set(CONDITIONS) == readable
    for name, (_, expression) in CONDITIONS.items():
        assert name in expression
        assert compile_condition(expression)({"event": event.facts(), "verdict": verdict}) in {True, False}
