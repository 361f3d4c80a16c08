"""Hooks come in layers: the fleet's, the user's, the project's. A lower one can be stricter, and never take away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bus import Event, SyncBus
from bus.hooksets.trust import trust
from tests.support.fleet import Fleet
from tests.support.waiting import wait_until

FLEET = """
hooks:
  - {id: ask-first, on: "tool:pre_execute:bash", rule: {decision: ask, reason: The fleet asks}}
"""
USER = """
hooks:
  - {id: not-mine, on: "tool:pre_execute:write", rule: {decision: deny, reason: The user's own rule, path: ["**/diary.md"]}}
"""
PROJECT = """
hooks:
  - {id: all-fine, on: "tool:pre_execute", rule: {decision: allow}}
  - {id: frozen, on: "tool:pre_execute:write", rule: {decision: deny, reason: This tree is frozen}}
"""


def uses(tool: str, cwd: Path, **given: str) -> Event:
    return Event(type="tool:pre_execute", tool=tool, cwd=str(cwd), input=given)


@pytest.fixture
def user_file(fleet: Fleet) -> Iterator[Path]:
    """The user's own hook file, beside the workers of the same machine."""
    path = fleet.places.config / "fleethook.yaml"
    yield path
    path.unlink(missing_ok=True)


@pytest.mark.req("B-04", "X-08")
def test_a_users_file_is_in_force_within_a_second_and_on_the_users_machine_only(
    fleet: Fleet, bus: SyncBus, user_file: Path, tmp_path: Path
) -> None:
    fleet.publish_hooks(FLEET)
    user_file.write_text(USER)
    diary = uses("write", tmp_path, path="/home/me/diary.md")

    wait_until(lambda: bus.request(diary).blocks, "the user's rule is in force", seconds=3)

    verdict = bus.request(diary)
    assert verdict.parts[0].layer == "user"
    assert verdict.layers == ("fleet", "user")
    elsewhere = Event(type=diary.type, tool="write", input=diary.input, host="another-machine", id="e" + "0" * 32)
    assert not bus.request(elsewhere).blocks


@pytest.mark.req("X-08")
def test_a_projects_hooks_run_only_where_the_user_trusts_them(fleet: Fleet, bus: SyncBus, tmp_path: Path) -> None:
    fleet.publish_hooks(FLEET)
    file = tmp_path / "fleethook.yaml"  # it came with a cloned repository, and hooks are code
    file.write_text(PROJECT)
    write = uses("write", tmp_path, path="a.txt")
    assert bus.request(write).decision == "abstain", "nobody trusts it yet"

    trust(file, fleet.places.trust_file)  # `fleethook hooks trust`
    wait_until(lambda: bus.request(write).reason == "This tree is frozen", "it is in force")

    assert bus.request(uses("bash", tmp_path, command="ls")).decision == "ask", "its `allow` takes no question away"
    assert bus.request(uses("read", tmp_path, path="a.txt")).decision == "abstain", "nor the agent's own"

    file.write_text(PROJECT.replace("frozen", "melted"))
    wait_until(lambda: bus.request(write).waiting, "changed content has to be trusted anew")
    assert bus.request(write).reason == "This tree is frozen", "until then, what was trusted stays in force"
    trust(file, fleet.places.trust_file)
    wait_until(lambda: bus.request(write).reason == "This tree is melted", "it is in force")
