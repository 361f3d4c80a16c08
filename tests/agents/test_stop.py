"""Real agent programs under `fleethook stop`, and messages of `fleethook say` in their models' contexts (X-12)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.agents.programs import PROGRAMS, Missing, Program
from tests.agents.world import World, chosen

pytestmark = [pytest.mark.agents, pytest.mark.timeout(600), pytest.mark.req("X-12")]

COMMAND = "echo marker | tee -a ran.txt"
WAYS = [
    *((name, "command") for name in chosen()),
    *((name, "http") for name in chosen() if name in {"claude", "qwen"}),
]
"""Each agent with its hook commands, and those that post to a gateway's TCP port with a token also so."""


MUTE = frozenset({"codex", "qwen", "opencode"})
"""Without a terminal they print no reason of a hook that denied a prompt; OpenCode prints an error of its own."""


@pytest.fixture(scope="module", params=WAYS, ids="-".join)
def agent(world: World, request: pytest.FixtureRequest) -> Iterator[Program]:
    """An agent program with Fleethook installed."""
    name, way = request.param
    program = PROGRAMS[name]
    try:
        world.on_path = program.on_path()
    except Missing as error:
        pytest.skip(f"{name} cannot be installed here: {error}")
    program.prepare(world.home, world.project, world.model.url)
    if way == "http":
        world.token = world.fleethook("tokens", "create", f"stop-{name}").strip()
    world.fleethook("install", name, "--yes", *(["--http"] if way == "http" else []))
    try:
        yield program
    finally:
        world.fleethook("resume")
        world.fleethook("uninstall", name, "--yes")
        world.token = ""


def test_a_stop_denies_the_next_call_and_after_resume_the_session_goes_on(world: World, agent: Program) -> None:
    """The stop comes while the model answers; the same session runs the command once the stop is lifted."""
    reason = f"the disk of {agent.name} is full"
    ran = world.run(
        agent, COMMAND, lambda: world.fleethook("stop", "--reason", reason), lambda: world.fleethook("resume")
    )
    told = [json.dumps(request, ensure_ascii=False) for request in world.model.requests]
    assert ran == "marker\n", "it ran once: after the stop was lifted"
    assert reason not in told[0]
    assert any(reason in request for request in told[1:]), "the model reads why it has to wait"


def test_a_session_that_begins_under_a_stop_runs_nothing(world: World, agent: Program) -> None:
    """Its prompt is denied where the agent asks about prompts, and each of its calls."""
    world.fleethook("stop", "--where", f'event.source == "{agent.name}"', "--reason", "maintenance of the build host")
    try:
        done = world.start(agent, COMMAND)
    finally:
        world.fleethook("resume")
    assert world.left() == ""
    shown = done.stdout + done.stderr + world.model.told
    assert "maintenance of the build host" in shown or agent.name in MUTE
    denied = world.fleethook("events", "list", "--decision", "deny", "--json", "--limit", "20")
    assert "maintenance of the build host" in denied
    assert world.run(agent, COMMAND) == "marker\n"


def test_a_message_into_a_running_session_reaches_its_model_once(world: World, agent: Program) -> None:
    """It is sent while the model answers, and comes with the next event of the session that can carry a text."""
    text = f"The tests of {agent.name} on main are red."

    def say() -> None:
        condition = f'event.source == "{agent.name}" && event.cwd == "{world.project}"'
        world.fleethook("say", "--where", condition, text)

    assert world.run(agent, COMMAND, say, lambda: None) == "marker\nmarker\n"
    assert text not in json.dumps(world.model.requests[0], ensure_ascii=False)
    last = json.dumps(world.model.requests[-1], ensure_ascii=False)
    assert last.count(text) == 1, "the last request has the whole conversation, and the message once"
    messages = json.loads(world.fleethook("say", "--list", "--json"))
    assert text in json.dumps(messages)
    seen = world.fleethook("events", "list", "--type", "message:delivered", "--json", "--limit", "5")
    assert agent.name in seen
