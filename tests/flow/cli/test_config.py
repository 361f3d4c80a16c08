"""Settings, rights, the schema and the doctor on the command line, in the test's own process."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from bus.shim.spool import append, spool_status
from tests.cli_kit import fleethook


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository to work in, of a person who has nothing yet."""
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.chdir(project)
    return project


def test_settings_are_shown_without_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", "rediss://worker:canary1@h:6379/2")
    monkeypatch.setenv("FLEETHOOK_BUDGET", "2.5")
    shown = fleethook("config", "show")
    assert shown.code == 0
    rows = dict(line.split(maxsplit=1) for line in shown.out.splitlines())
    assert (rows["SETTING"], rows["redis_url"], rows["budget"]) == ("VALUE", "rediss://[redacted]@h:6379/2", "2.5")
    assert (rows["url"], rows["namespace"]) == ("-", "default")
    origins = fleethook("config", "show", "--origin", "-n", "mine")
    (line,) = [line for line in origins.out.splitlines() if line.startswith("namespace ")]
    assert line.split()[:3] == ["namespace", "mine", "--namespace"]
    assert "canary1" not in shown.out + origins.out
    assert fleethook("config", "show", "--json").json["budget"] == 2.5


def test_what_is_checked_is_named_and_what_is_wrong_has_its_place(nowhere: Path, tmp_path: Path) -> None:
    nothing = fleethook("config", "check")
    assert (nothing.code, nothing.out) == (0, "")
    assert "no hook file here" in nothing.err
    missing = fleethook("config", "check", "gone.yaml")
    assert (missing.code, "gone.yaml does not exist" in missing.err) == (1, True)
    mine = nowhere / "fleethook.yaml"
    mine.write_text("hooks: [{id: a, on: tool:pre_execute, command: x, tool: '('}, {id: b}]\n", "utf-8")
    found = fleethook("config", "check", "--json")
    assert found.code == 4
    assert found.json["files"] == [str(mine)]
    assert [(one["line"], one["column"]) for one in found.json["problems"]] == [(1, 57), (1, 63)]
    assert json.loads(found.err)["error"]["message"] == "2 problems found"
    mine.write_text("a: [", "utf-8")
    broken = fleethook("config", "check")
    assert broken.code == 4
    assert broken.out.startswith(f"{mine}:2:1: did not find expected node content")


def test_the_schema_is_one_and_the_same_for_people_and_programs() -> None:
    assert json.loads(fleethook("config", "schema").out) == fleethook("config", "schema", "--json").json


@pytest.mark.req("B-07")
def test_the_roles_with_passwords_of_their_own() -> None:
    """Stored as hashes, so the file gives none away; Redis 6.2 gets lines without selectors."""
    made = fleethook("acl", "--passwords", "--json", "-n", "mine").json
    assert made["default"] == "user default reset off ~* &* +@all"
    assert [one["role"] for one in made["users"]] == ["shim", "agent", "worker", "admin"]
    for one in made["users"]:
        assert one["password"] not in one["line"]
        assert f"#{hashlib.sha256(one['password'].encode()).hexdigest()}" in one["line"]
    new, old = fleethook("acl").out, fleethook("acl", "--redis-6").out
    assert ("(" in new, "(" in old) == (True, False)
    assert [line.split()[1] for line in new.splitlines()] == [line.split()[1] for line in old.splitlines()]


@pytest.mark.req("G-20")
def test_the_doctor_without_a_server_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups first, then each finding with its fix below, the summary last; a canary is not sent to nobody."""
    none = fleethook("doctor")
    assert (none.code, none.err) == (1, "")
    lines = none.out.splitlines()
    assert [line.split("  ")[1] for line in lines[1:3]] == ["This machine", "Bus"]
    (at,) = [number for number, line in enumerate(lines) if line.startswith("✗  Bus           no server: ")]
    assert lines[at + 1].strip() == "→ fleethook up"
    assert any(line.startswith("!  This machine  no coding agent was found") for line in lines[:at])
    assert lines[-1] == "1 problem, 1 warning, 3 checks passed"
    each = fleethook("doctor", "-v").out.splitlines()
    assert [line.split()[0] for line in each[1:4]] == ["python", "package", "modes"]
    assert each[-1] == lines[-1]

    assert fleethook("install", "claude", "--yes").code == 0
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", "unix:///nowhere/s")
    away = {one["id"]: one for one in fleethook("doctor", "--live", "--json").json["checks"]}
    assert (away["server"]["status"], away["guards"]["status"], away["claude-live"]["status"]) == (
        "fail",
        "unknown",
        "unknown",
    )
    assert "was not sent" in away["claude-live"]["what"]

    monkeypatch.setenv("FLEETHOOK_BUDGET", "soon")
    wrong = fleethook("doctor")
    assert (wrong.code, wrong.out.splitlines()[-1]) == (1, "1 problem, 2 checks passed")
    assert "✗  This machine  FLEETHOOK_BUDGET" in wrong.out


@pytest.mark.req("X-06")
def test_what_still_waits_is_not_thrown_away_by_an_uninstall(tmp_path: Path) -> None:
    assert fleethook("install", "claude", "--yes").code == 0
    spool = Path(str(tmp_path), "home/state/spool/claude")
    spool.parent.mkdir(parents=True, exist_ok=True)
    assert append(spool, "events", ["id", "e1", "source", "claude"])
    gone = fleethook("uninstall", "claude", "--yes")
    assert gone.code == 5
    (shared,) = spool.parent.glob("program.*")
    assert f"of claude 1 event still waits in {shared}" in gone.err
    assert spool_status(shared).records == 2, "it, and that the guard is gone"
    assert not spool.exists(), "a file without an answer file would belong to nobody"
