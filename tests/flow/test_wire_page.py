"""What docs/wire.md says to programs in other languages: its lines and its JavaScript program, against a real fleet."""

from __future__ import annotations

import codecs
import inspect
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bus.requests import read_request
from bus.wire.codec import decode_verdict
from bus.wire.connections import sync_client
from bus.wire.entry_fields import ASKED, PUBLISHED, RECORDED
from docs.reference.pages import DOCS
from tests.support.fleet import NAMESPACE, Fleet
from tests.support.fleet import fleet as started
from tests.support.waiting import PATIENCE

HOOKS = """
hooks:
  - {id: keep-root, on: tool:pre_execute, rule: {decision: deny, reason: not the root, command: ["rm -rf /"]}}
"""
_WORD = re.compile(r'"((?:\\.|[^"\\])*)"|(\S+)')
_WRITERS = ("bus/requests.py", "bus/wire/scripts/requests/answer.lua")
_OWN = {"deadline", "latest", "handed", "sent"}
"""Fields of requests that evaluators put aside, and of entries that they moved."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet with one evaluator and a rule."""
    with started(tmp_path_factory.mktemp("wire"), "evaluator", hooks=HOOKS) as one:
        yield one


def lines(heading: str) -> list[list[bytes]]:
    """The redis-cli lines of a section, in the namespace of the fleet."""
    text = (DOCS / "wire.md").read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    shown = text.partition("```text\n")[2].partition("```")[0].replace("fh:default:", f"fh:{NAMESPACE}:")
    return [
        [codecs.escape_decode(quoted)[0] if quoted else plain.encode() for quoted, plain in _WORD.findall(line)]
        for line in shown.splitlines()
    ]


def execute(fleet: Fleet, commands: list[list[bytes]]) -> list[Any]:
    """The replies to commands of a program with the rights of the role `agent`."""
    with sync_client(fleet.url("agent")) as client:
        return [client.execute_command(*command) for command in commands]


@pytest.mark.req("B-01")
def test_the_line_of_the_page_publishes_an_event(world: Fleet) -> None:
    execute(world, lines("Publish an event"))
    event = world.event("deploy-1").event
    assert (event.type, event.source, event.host) == ("tool:post_execute", "deployer", "build-7")
    assert (event.tool, event.input) == ("bash", {"command": "make deploy"})


@pytest.mark.req("B-02")
def test_the_lines_of_the_page_get_a_verdict(world: Fleet) -> None:
    alive, _, (_, answer) = execute(world, lines("Ask for a verdict"))
    assert alive == 1
    verdict = decode_verdict(answer)
    assert (verdict.decision, verdict.event) == ("deny", "deploy-2")
    assert "not the root" in verdict.reason


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize(("command", "decision"), [("rm -rf /", "deny"), ("make deploy", "abstain")])
def test_the_javascript_program_asks_and_publishes(world: Fleet, command: str, decision: str) -> None:
    program = Path(DOCS).parent / "examples/wire/client.mjs"
    done = subprocess.run(
        ["node", str(program), command],
        env={**world.environment, "FLEETHOOK_REDIS_URL": world.url("agent")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    verdict = json.loads(done.stdout)
    assert verdict["decision"] == decision
    assert "fallback" not in verdict
    seen = world.event(verdict["event"])
    assert seen.event.input == {"command": command}
    published = [one for one in world.events(types=["tool:post_execute"]) if one.event.input == {"command": command}]
    assert bool([one for one in published if one.id.startswith("done-")]) is (decision != "deny")


def test_the_page_has_every_field_of_an_entry() -> None:
    """Those that a request is read from, and those that answer.lua and the dispatcher write."""
    read = set(re.findall(r'b"([a-z]+)"', inspect.getsource(read_request))) - _OWN
    assert read <= {*PUBLISHED, *ASKED}
    assert {*PUBLISHED, *ASKED} - read <= {"body"}
    written = "".join((DOCS.parent / name).read_text(encoding="utf-8") for name in _WRITERS)
    assert [name for name in RECORDED if not re.search(rf"[\"']{name}[\"']", written)] == []
