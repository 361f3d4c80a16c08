"""Every field that a page names by its path exists: `event.tool` in a condition, `network.allow` in a file."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from bus.agents import find
from bus.events import MEANINGS, Event
from bus.matching.conditions import FUNCTIONS
from bus.matching.facts.session_facts import FACT_FUNCTIONS, FIELDS
from bus.verdicts import Verdict
from bus.workflow_steps.scope import event_names
from bus.workflow_steps.state import FlowState
from bus.workflow_steps.work import Work
from bus.workflows.python_names import SESSION_FIELDS
from bus.workflows.values import Workflow
from docs.reference.events import CONDITIONS
from tests.support.rows import rows
from tests.unit.docs.test_reference import PAGES, ROOT, SECTIONS

_CODE: Final = re.compile(r"^ *```(\w*)\n(.*?)^ *```|(`+)(.+?)\3(?!`)", re.MULTILINE | re.DOTALL)
"""A block with its language, or a span."""
_PATH: Final = re.compile(r"(?<![\w./:@$\\-])([a-z_]+)((?:\.[a-zA-Z_]\w*)+)( *\()?")
_FILES: Final = frozenset({"json", "jsonl", "yaml", "md", "py", "sh", "toml", "txt", "log", "example", "internal"})
"""The ends of names of files and hosts, which have a dot too: `hooks.json`."""
_GOBBY: Final = frozenset({"gobby.md", "workflows.md"})
"""The pages that show conditions of Gobby, in Python's form."""

_BODIES: Final = frozenset({"webhooks.md", "approvals.md"})
"""The pages on which `data` is that of a webhook's body: an event, or a question."""

Tree = Mapping[str, Any]
"""The names below a name; None where each name is somebody's own choice."""


def leaves(names: Iterable[str]) -> dict[str, Any]:
    """Names with no name below them."""
    return {name: {} for name in names}


@cache
def recorded() -> dict[str, dict[str, None]]:
    """The fields in `input` and `data` of all events that agents were recorded to send, and of Fleethook's own."""
    found: dict[str, dict[str, None]] = {"input": {}, "data": {}}
    for path in (ROOT / "tests/golden").glob("*/*-*-*.json"):
        event = find(path.parent.name).read(path.stem.split("-")[1], path.read_bytes())
        found["input"] |= dict.fromkeys(event.input)
        found["data"] |= dict.fromkeys(event.data)
    for meaning in MEANINGS.values():
        found["data"] |= {name.removeprefix("data."): None for name in meaning.fields if name.startswith("data.")}
    return found


@cache
def conditions() -> Tree:
    """What a condition in CEL reads, of hooks, endpoints and workflows, from the values that it is evaluated with."""
    event = Event(type="tool:pre_execute")
    work = Work(Workflow(name="w"), FlowState(workflow="w"), {}, event, typing.cast("Any", None), 0)
    names: dict[str, Any] = work.cel_names()
    assert {f"event.{name}" for name in event.facts()} <= set(CONDITIONS)
    return {
        "event": {**leaves(names["event"]), **recorded()},
        "verdict": {name.partition(".")[2]: {} for name in CONDITIONS if name.startswith("verdict.")},
        "workflow": leaves(names["workflow"]),
        "session": {**leaves(FIELDS), **leaves(FACT_FUNCTIONS)},
        "input": recorded()["input"],
        "data": recorded()["data"],
        **{name: None for name in ("vars", "shared", "config") if name in names},
    }


def structs(kind: Any) -> Iterator[type]:
    """The structs in a type: of `list[Rule] | None` it is Rule."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for part in typing.get_args(kind):
        yield from structs(part)


@cache
def entries() -> Tree:
    """The fields below each field of a file that has some: `rule` has those of Rule, `hooks` those of an entry."""
    found: dict[str, dict[str, Any]] = {}
    waiting: list[tuple[str, type]] = [(heading, kind) for (_, heading), kind in SECTIONS.items()]
    seen = set()
    while waiting:
        name, kind = waiting.pop()
        if (name, kind) in seen:
            continue
        seen.add((name, kind))
        hints = typing.get_type_hints(kind)
        for field in msgspec.structs.fields(kind):
            parts = list(structs(hints[field.name]))
            waiting += [(field.encode_name, part) for part in parts]
            below = found.setdefault(field.encode_name, {}) if parts else None
            if name.isidentifier() and name.islower():
                found.setdefault(name, {})[field.encode_name] = below
    return found


def known(page: str, language: str) -> Tree:
    """The names on a page, in code of a language."""
    tree = {**entries(), **conditions()}
    for name in entries().keys() & conditions().keys():
        if tree[name] is not None:
            tree[name] = {**entries()[name], **tree[name]}
    if page in _BODIES:
        tree["data"] = {**tree["data"], **leaves(Event.__struct_fields__), "answer": {}}
    if page in _GOBBY:
        names = event_names(Event(type="agent:stop"))["event"].keys()
        session = {**leaves(SESSION_FIELDS), **tree["session"]}
        tree |= {"event": {**leaves(names), **tree["event"]}, "context": None, "session": session}
    if page == "python.md" or language == "python":
        verdict = leaves([*Verdict.__struct_fields__, *vars(Verdict)])
        return {"event": {**leaves(Event.__struct_fields__), **tree["event"]}, "verdict": verdict}
    return tree


def unknown(text: str, page: str) -> list[str]:
    """The paths in the code of a page that begin with a name we know, and go on with one that there is not."""
    return [
        path[0].rstrip("( ")
        for block in _CODE.finditer(text)
        for path in _PATH.finditer(block[2] or block[4])
        if not _exists(known(page, block[1] or ""), *path.groups())
    ]


def _exists(tree: Tree, head: str, rest: str, call: str | None) -> bool:
    parts = rest.removeprefix(".").split(".")
    if head not in tree or (len(parts) == 1 and parts[0] in _FILES):
        return True
    below: Tree | None = tree[head]
    for place, part in enumerate(parts):
        if below is None:  # what is below is the agent's, or a person's own
            return True
        if call and place == len(parts) - 1 and part in FUNCTIONS:
            return head != "session" or part in FACT_FUNCTIONS
        if part not in below:
            return False
        below = below[part]
    return True


@rows("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_no_path_of_fields_that_does_not_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for native in find("opencode").capabilities:  # `session.idle` is the name of an event there
        text = text.replace(f"`{native}`", "")
    assert not (wrong := unknown(text, page.name)), wrong


@rows(
    "path",
    [
        "rule.nosuchfield",
        "hooks.nosuchfield",
        "event.nosuchfield",
        "event.no_such_field",
        "event.input.comand",
        "event.data.promt",
        "data.nosuchfield",
        "verdict.nosuchfield",
        "session.nosuchfield",
        "session.matches(",
        "workflow.nosuchfield",
        "event.tool.beginsWith(",
        "network.nosuchfield",
        "hold.nosuchfield",
        "endpoints.batch.nosuchfield",
    ],
)
def test_a_path_that_does_not_exist_is_found_in_spans_and_blocks(path: str) -> None:
    found = path.removesuffix("(")
    assert unknown(f"A condition is `when: {path}`.", "hooks.md") == [found]
    assert unknown(f"``{path}``", "hooks.md") == [found]
    assert unknown(f"```yaml\nwhen: has({path})\n```\n", "hooks.md") == [found]
    assert not unknown('`rule.decision`, `event.tool.startsWith("a")`, `session.ran("x").ok`, `hooks.json`', "hooks.md")
