"""Real agent programs with `fleethook install` as it is: what runs, what does not, and what their models are told (B-08).

Which programs take part: FLEETHOOK_AGENTS (names with spaces; all where it is not set). One that cannot be installed here
is no silent gap: its test is skipped with the reason, and `make test-agents` prints it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agents.asking import SESSIONS
from tests.agents.programs import PROGRAMS, Missing
from tests.agents.world import World, chosen

pytestmark = [pytest.mark.agents, pytest.mark.timeout(600)]

REWRITES = frozenset({"claude", "codex", "gemini", "opencode"})
"""Where a changed input is what runs; Qwen Code 0.24.4 runs the original, so its model is told what to call instead."""


def files(home: Path) -> dict[str, bytes]:
    """What an agent's settings hold: every file below home that ours could have written."""
    return {
        str(path.relative_to(home)): path.read_bytes()
        for pattern in ("*settings*.json", "hooks.json", "*.toml", "plugin*/**/*.js")
        for path in sorted(home.rglob(pattern))
        if path.is_file() and "cache" not in str(path).lower()
    }


@pytest.mark.req("B-08", "X-01")
@pytest.mark.parametrize("name", chosen())
def test_an_agent_program_obeys_the_bus(world: World, name: str) -> None:
    program = PROGRAMS[name]
    try:
        world.on_path = program.on_path()
    except Missing as error:
        pytest.skip(f"{name} cannot be installed here: {error}")
    program.prepare(world.home, world.project, world.model.url)
    before = files(world.home)
    assert world.run(program, "echo marker | tee -a ran.txt") == "marker\n", "as it comes, without us"
    settled = files(world.home)  # some write settings of their own at their first start

    world.fleethook("install", name, "--yes")
    live = json.loads(world.fleethook("doctor", "--live", "--json", code=None))
    mine = [one for one in live["checks"] if name in json.dumps(one)]
    assert "deny as expected" in json.dumps(mine), json.dumps(mine, indent=1)

    assert world.run(program, "echo marker | tee -a ran.txt") == "marker\n"
    assert "remember-the-milk" in world.model.told, "the context of a hook reaches the model"

    assert world.run(program, "echo forbidden | tee -a ran.txt") == "", "a denied call does not run"
    assert "policy P-1 forbids it" in world.model.told, "the reason is in the next request to the model"

    ran = world.run(program, "echo original | tee -a ran.txt")
    if name in REWRITES:
        assert ran == "rewritten-by-hook\n"
    else:
        assert ran == ""
        assert "rewritten-by-hook" in world.model.told
    seen = world.fleethook("events", "list", "--json")
    assert f'"source":"{name}"' in seen.replace(" ", "")

    world.fleethook("uninstall", name, "--yes")
    assert files(world.home) in (settled, before), "an uninstall leaves every file as it was"
    assert world.run(program, "echo forbidden | tee -a ran.txt") == "forbidden\n"


@pytest.mark.req("B-08", "X-01")
@pytest.mark.parametrize("name", [name for name in chosen() if name in SESSIONS])
def test_a_question_for_the_person_is_answered_by_the_bus(world: World, name: str) -> None:
    program = PROGRAMS[name]
    try:
        world.on_path = program.on_path()
    except Missing as error:
        pytest.skip(f"{name} cannot be installed here: {error}")
    env = program.environment(world.home, world.project, world.model.url)
    world.fleethook("install", name, "--yes")

    def ask(word: str) -> tuple[int, str]:
        ran = world.project / "ran.txt"
        ran.unlink(missing_ok=True)
        world.model.asks(f"echo {word} | tee -a ran.txt")
        asked = SESSIONS[name](program.command(), env, world.project)
        return len(asked), ran.read_text() if ran.exists() else ""

    assert ask("marker") == (1, ""), "nobody has an opinion: the person is asked, and says no"
    assert ask("refused") == (0, "")
    assert "policy P-2 refuses it" in world.model.told
    assert ask("permitted") == (0, "permitted\n"), world.model.requests[-1].get("input", [])[-3:]
    world.fleethook("uninstall", name, "--yes")
