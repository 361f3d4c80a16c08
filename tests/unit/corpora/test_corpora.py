"""The corpora of command lines are well-formed, and the held-out part is one that no rule was written with."""

import json
from pathlib import Path

import pytest

CORPORA = Path(__file__).parents[2] / "corpora"
KEYS = {"command", "tool", "input", "cwd", "expect", "group", "agent", "origin", "why"}


def read_lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def identity(line: dict[str, object]) -> str:
    return json.dumps([line.get("command"), line.get("tool"), line.get("input")], sort_keys=True)


@pytest.mark.req("X-09")
@pytest.mark.parametrize(("name", "expected"), [("destructive", {"stop", "deny", "ask"}), ("harmless", {"allow"})])
def test_the_held_out_part_is_large_varied_and_well_formed(name: str, expected: set[str]) -> None:
    lines = read_lines(CORPORA / "held-out" / f"{name}.jsonl")
    assert len(lines) >= 700
    assert len({identity(line) for line in lines}) == len(lines), "a line appears twice"
    assert len({line["group"] for line in lines}) >= 10
    for line in lines:
        assert set(line) <= KEYS, line
        assert ("command" in line) != ("tool" in line), line
        assert line["expect"] in expected, line


@pytest.mark.req("X-09")
@pytest.mark.parametrize("harmless", [False, True])
def test_enough_held_out_lines_are_not_in_the_development_part(harmless: bool) -> None:
    """Both parts have what everybody writes first (`terraform destroy`); such lines are left out of the figures."""
    lines = [line for path in (CORPORA / "held-out").glob("*.jsonl") for line in read_lines(path)]
    held_out = {identity(line) for line in lines if (line["expect"] == "allow") is harmless}
    development = {identity(line) for path in (CORPORA / "development").glob("*.jsonl") for line in read_lines(path)}
    assert len(held_out - development) >= 700
