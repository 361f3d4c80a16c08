"""The machine and the model, once for all agents."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.agents.model import Model, playing
from tests.agents.world import CLAUDE_HOOKS, HOOKS, World
from tests.support.up import up


@pytest.fixture(scope="session")
def model() -> Iterator[Model]:
    with playing() as one:
        yield one


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory, model: Model) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("w"), model)
    for folder in (made.home, made.project, made.folder / "fh" / "config"):
        folder.mkdir(parents=True)
    (made.folder / "fh" / "config" / "fleethook.yaml").write_text(HOOKS)
    (made.folder / "fh" / "config" / "slow-claude-hooks.json").write_text(json.dumps(CLAUDE_HOOKS))
    with up(made.environment, made.project, made.folder / "up.log"):
        yield made
        found = [
            json.loads(line)
            for line in made.fleethook("events", "list", "--type", "coverage:gap", "--json").splitlines()
        ]
        causes = {one["data"]["cause"] for one in found}
        assert causes <= {"removed"}, f"calls that no hook was asked about for no known reason: {found}"
