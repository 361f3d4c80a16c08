"""What the doctor's canary proves, and what an agent's settings say of an install."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import msgspec
import pytest

from bus.config.settings import Settings
from bus.installs import find
from bus.installs.base import NAMES, CommandRun
from bus.installs.plan import accept_events
from bus.shim.answer_file import read_answer_file, server_from_url, write_answer_file
from bus.system.directories import directories
from bus.verdicts import Verdict
from tests.support.rows import rows
from workers.admin.agent_setup import (
    Installed,
    answers_for,
    connect,
    empty_spool,
    installed,
    plan,
    state_of,
    url_of,
    where_is,
)
from workers.admin.doctor import Check
from workers.admin.doctor.agents import agent_checks, agents_here
from workers.admin.doctor.canary import CanaryResult, judge
from workers.admin.doctor.machine import file_checks, package_checks
from workers.admin.doctor.repairs import repair_findings
from workers.cli import install

ONE = Installed(agent="claude", scope="user", path="/s.json", commands={"PreToolUse": "x # fleethook"})


def said(decision: str) -> str:
    """Claude Code's form of a decision."""
    specific = {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": "because"}
    return json.dumps({"hookSpecificOutput": specific})


def answer(code: int, stdout: str, stderr: str = "") -> CanaryResult:
    """What the installed command did, as Claude Code understands it."""
    ran = CommandRun(code, stdout, stderr)
    return CanaryResult(ran, 9, find("claude").understood(ran))


DENY, ABSTAIN, ASK = Verdict(decision="deny"), Verdict(decision="abstain"), Verdict(decision="ask")


@pytest.mark.req("G-20")
@rows(
    ("came", "verdict", "fallback", "status"),
    [
        (answer(0, said("deny")), DENY, False, "ok"),
        (answer(0, said("ask")), ASK, False, "ok"),
        (answer(2, "", "fleethook: denied"), DENY, False, "ok"),
        (answer(0, said("deny")), DENY, True, "fail"),  # shut, but nobody looked
        (answer(0, ""), DENY, False, "fail"),
        (answer(0, said("allow")), DENY, False, "fail"),
        (
            answer(0, said("deny").replace("hookEventName", "name")),
            DENY,
            False,
            "fail",
        ),  # the tool would run (observed)
        (answer(0, "a line of a log\n" + said("deny")), DENY, False, "fail"),
        (answer(1, said("deny")), DENY, False, "fail"),  # exit 1 is a failure: its words count for nothing
        (answer(127, "", "not found"), DENY, False, "fail"),
        (answer(-1, "", "TimeoutExpired"), DENY, False, "fail"),
        (answer(0, said("ask")), DENY, False, "fail"),
        (answer(0, ""), ABSTAIN, False, "unknown"),  # no guard is on
        (answer(0, "no json"), ABSTAIN, False, "unknown"),
        (answer(0, said("deny")), ABSTAIN, False, "warn"),
        (answer(0, ""), None, False, "unknown"),
    ],
)
def test_what_a_canary_proves(came: CanaryResult, verdict: Verdict | None, fallback: bool, status: str) -> None:
    """Only the denial that the rules ask for proves anything; a fallback proves that nobody was there."""
    check = judge(ONE, came, verdict, fallback=fallback)
    assert (check.status, check.agent) == (status, "claude")
    assert bool(check.fix) == (status != "ok")


@pytest.mark.parametrize(
    "url",
    [
        "unix:///run/a%20b/redis.sock?db=3",
        "unix://fh:p%40ss%2F@/run/redis.sock?db=0",
        "redis://127.0.0.1:6380/2",
        "redis://u%3A:p%40@[::1]:6379/0",
        "rediss://u:p@127.0.0.1:6379/0?ssl_ca_certs=/etc/ca%20x.pem",
    ],
)
def test_the_server_of_an_answer_file_comes_back_as_its_url(url: str) -> None:
    """The doctor tries the rights of exactly those credentials."""
    server = server_from_url(url)
    assert server_from_url(url_of(server)) == server


@pytest.mark.parametrize(
    ("agent", "said", "version"),
    [
        ("codex", "codex-cli 0.169.0", "0.169.0"),
        ("codex", "WARNING: no PATH\ncodex-cli 0.169.0", "0.169.0"),
        ("claude", "2.1.330 (Claude Code)", "2.1.330"),
        ("qwen", "v0.24.4", "0.24.4"),
    ],
)
def test_the_version_of_an_agent_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str, said: str, version: str
) -> None:
    """As its program prints it, name and all."""
    program = tmp_path / agent
    program.write_text(f"#!/bin/sh\necho '{said}'\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (check,) = (one for one in agent_checks(agent, Settings(), directories(), tmp_path) if one.id == f"{agent}-program")
    assert f" {version} at {program}" in check.what


@pytest.mark.req("X-14")
def test_doctor_names_the_hook_command_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native_hook: str
) -> None:
    """Also where the native one is gone or another one, and where Codex trusts hooks that run in Python."""
    monkeypatch.setenv("HOME", str(tmp_path))
    places, settings, program = directories(), Settings(), tmp_path / "own" / "fleethook-hook"
    program.parent.mkdir()
    shutil.copy(native_hook, program)

    def put(agent: str, native: str) -> tuple[str, str]:
        change = plan(agent, "user", places, closed=False, project=tmp_path, native=native)
        connect(change, answers_for(agent, settings, places, closed=False)[0], places)
        return found(agent)

    def found(agent: str, *, wanted: int = 1) -> tuple[str, str]:
        checks = {check.id: check for check in agent_checks(agent, Settings(native_hook=wanted), places, tmp_path)}
        one, commands = checks[f"{agent}-native"], checks[f"{agent}-commands"]
        assert commands.status == ("ok" if wanted else "warn"), commands
        return one.status, one.brief or one.what

    assert put("claude", "") == ("ok", "Python")
    assert put("claude", str(program)) == ("ok", "native")
    assert found("claude", wanted=0) == ("ok", "native"), "and its commands are not those that the setting wants"
    program.write_text("#!/bin/sh\nexit 0\n")
    assert found("claude")[1].endswith("is not that of this fleethook, or does not run here")
    program.unlink()
    assert found("claude") == (
        "warn",
        f"claude: the native hook command {program} is gone, so hook commands run in Python",
    )
    assert put("codex", "") == ("ok", "Python")
    assert put("codex", native_hook) == ("ok", "Python"), "it trusts what it has"
    (codex,) = installed("codex", project=tmp_path)
    Path(codex.path).unlink()
    assert put("codex", native_hook) == ("ok", "native"), "new hooks need its trust anyway"


def test_an_install_is_found_and_known_to_be_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed, current, moved, mended: as the settings file and the answer file say it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    project = tmp_path / "project"
    project.mkdir()
    places, settings = directories(), Settings()
    checks = {check.id: check.status for check in agent_checks("claude", settings, places, project)}
    assert checks["claude-installed"] == "warn"

    change = plan("claude", "user", places, closed=True, events=("PreToolUse", "Stop"), project=project)
    connect(change, answers_for("claude", settings, places, closed=True)[0], places)
    (one,) = installed("claude", project=project)
    assert (one.scope, one.closed, sorted(one.commands)) == ("user", True, ["PreToolUse", "Stop"])
    assert "FLEETHOOK" not in "".join(one.commands.values())
    checks = {check.id: check.status for check in agent_checks("claude", settings, places, project)}
    assert set(checks.values()) - {"unknown"} == {"ok"}

    (tmp_path / ".cursor").mkdir()
    (reader,) = (check for check in agent_checks("claude", settings, places, project) if check.id == "claude-readers")
    assert (reader.status, "Cursor runs the hooks in" in reader.what) == ("unknown", True)

    other = Settings(namespace="other")
    found = list(agent_checks("claude", other, places, project))
    assert {check.id for check in found if check.status == "warn"} == {"claude-answers"}
    assert repair_findings(found, other, places, project).done == [f"installed claude again in {one.path}"]
    assert read_answer_file(places.answer_file("claude")).prefix == "fh:other:{0}:"

    path = Path(one.path)
    text = path.read_text("utf-8").replace(" -I -S ", " -I ")
    path.write_text(json.dumps({**json.loads(text), "disableAllHooks": True}), "utf-8")
    checks = {check.id: check.status for check in agent_checks("claude", other, places, project)}
    assert (checks["claude-commands"], checks["claude-effective"]) == ("warn", "fail")


def test_the_credentials_of_hook_commands(tmp_path: Path) -> None:
    """Without a server of its own the machine's role `shim`; else FLEETHOOK_SHIM_URL, or the whole URL with a warning."""
    places = directories()
    answers, warnings = answers_for("claude", Settings(), places, closed=False, environ={})
    assert (answers.server.kind, answers.server.user, warnings) == ("unix", "fleethook-shim", ())
    mine = Settings(redis_url="redis://worker:secret@127.0.0.1:6379/1")
    answers, warnings = answers_for("claude", mine, places, closed=False, environ={})
    assert answers.server.user == "worker"
    assert "fleethook acl" in warnings[0]
    assert "secret" not in warnings[0]
    environ = {"FLEETHOOK_SHIM_URL": "redis://shim:other@127.0.0.1:6379/1"}
    answers, warnings = answers_for("claude", mine, places, closed=False, environ=environ)
    assert (answers.server.user, warnings) == ("shim", ())
    assert state_of(places.answer_file("claude"), answers) == "new"
    fast = answers_for("claude", Settings(budget=0.5), places, closed=False, environ={})[0]
    assert {line.deadline_ms for line in fast.events} == {500}


def test_what_lies_open_is_found_and_closed(tmp_path: Path) -> None:
    """Credentials that others can read, and a hook file with a mistake: each with its place."""
    places, settings = directories(), Settings()
    answers_for("claude", settings, places, closed=False, environ={})  # makes the credentials
    places.credentials.chmod(0o644)
    key = places.data / "secret.key"
    key.write_text("x", "utf-8")
    key.chmod(0o640)
    (places.config / "fleethook.yaml").write_text("hooks:\n  - on: tool:pre_execute\n    mathc: x\n", "utf-8")
    checks = list(file_checks(settings, places, tmp_path))
    found = {check.id: check for check in checks}
    assert found["modes"].status == "fail"
    assert str(key) in found["modes"].what
    wrong = [one for one in checks if "fleethook.yaml:3:5" in one.what]
    assert [(one.id, one.status) for one in wrong] == [("in-force", "fail")], "once, with what is in force meanwhile"
    repair_findings(found.values(), settings, places, tmp_path)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (places.credentials, key)] == [0o600, 0o600]
    assert {check.id: check.status for check in package_checks()} == {"python": "ok", "package": "ok"}


def test_what_nobody_can_send_stays_on_the_disk(tmp_path: Path) -> None:
    """Without a server the spool is kept and counted; an empty one leaves nothing behind."""
    from bus.shim.spool import append

    places = directories()
    spool = places.spool("claude")
    spool.parent.mkdir(parents=True)
    assert append(spool, "events", ["id", "e1", "source", "claude"])
    assert empty_spool(tmp_path / "no-answer-file", spool) == 1
    spool.unlink()
    assert empty_spool(tmp_path / "no-answer-file", spool) == 0
    assert list(spool.parent.iterdir()) == []


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home with a project, and nothing on PATH."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("bin", "project"):
        (tmp_path / name).mkdir()
    return tmp_path


def _install(agent: str, project: Path, *, closed: bool = False) -> Installed:
    places = directories()
    change = plan(agent, "user", places, closed=closed, project=project)
    connect(change, answers_for(agent, Settings(), places, closed=closed)[0], places)
    (one,) = installed(agent, project=project)
    return one


def _found(agent: str, project: Path) -> dict[str, Check]:
    return {check.id.partition("-")[2]: check for check in agent_checks(agent, Settings(), directories(), project)}


@pytest.mark.parametrize(
    ("agent", "right", "wrong", "unit"),
    [
        ("gemini", "30000", "30", "milliseconds"),
        ("qwen", "30000", "30", "milliseconds"),
        ("cursor", "30", "5", "seconds"),
    ],
)
def test_a_timeout_in_the_wrong_unit_is_found_and_mended(
    person: Path, agent: str, right: str, wrong: str, unit: str
) -> None:
    """An agent that counts milliseconds and is told 30 stops every hook at once, and the tool runs."""
    project, places = person / "project", directories()
    path = Path(_install(agent, project).path)
    assert _found(agent, project)["timeouts"].status == "ok"
    text = path.read_text("utf-8")
    path.write_text(text.replace(f'"timeout": {right}', f'"timeout": {wrong}'), "utf-8")
    found = _found(agent, project)
    assert (found["timeouts"].status, found["commands"].status) == ("fail", "warn")
    assert f"{wrong} (it counts {unit})" in found["timeouts"].what
    assert repair_findings(found.values(), Settings(), places, project).done == [f"installed {agent} again in {path}"]
    assert path.read_text("utf-8") == text
    assert {check.status for check in _found(agent, project).values()} <= {"ok", "unknown", "warn"}


@pytest.mark.req("X-09")
def test_entries_of_an_older_install_are_a_warning_and_the_hook_command_waits_no_longer_than_they_grant(
    person: Path,
) -> None:
    """The person's own entries are written anew, another project's are as they were: all read the same answers."""
    project, places = person / "project", directories()
    change = plan("claude", "project", places, closed=False, project=project)
    connect(change, answers_for("claude", Settings(), places, closed=False)[0], places)
    (older,) = installed("claude", project=project)
    path = Path(older.path)
    path.write_text(path.read_text("utf-8").replace('"timeout": 600', '"timeout": 30'), "utf-8")
    found = _found("claude", project)
    assert found["timeouts"].status == "fail", "the hook command waits for up to 590 s"

    change = plan("claude", "user", places, closed=False, project=project)
    connect(change, answers_for("claude", Settings(), places, closed=False)[0], places)
    answers = read_answer_file(places.answer_file("claude"))
    (line,) = (line for line in answers.events if line.name == "PreToolUse")
    assert (line.deadline_ms, line.patience_ms) == (10_000, 27_000), "as the project's entry grants"
    checks = [check for check in agent_checks("claude", Settings(), places, project) if check.id == "claude-timeouts"]
    assert sorted(check.status for check in checks) == ["ok", "warn"]
    assert "--scope project" in next(check.fix for check in checks if check.status == "warn")
    assert _found("claude", project)["answers"].status == "ok"

    lines = tuple(msgspec.structs.replace(line, patience_ms=0) for line in answers.events)
    write_answer_file(places.answer_file("claude"), msgspec.structs.replace(answers, events=lines))
    checks = [check for check in agent_checks("claude", Settings(), places, project) if check.id == "claude-timeouts"]
    assert "fail" not in {check.status for check in checks}, "right after an upgrade both are old and fit"

    connect(plan("claude", "project", places, closed=False, project=project), answers, places)
    connect(
        plan("claude", "user", places, closed=False, project=project),
        answers_for("claude", Settings(), places, closed=False)[0],
        places,
    )
    (line,) = (one for one in read_answer_file(places.answer_file("claude")).events if one.name == "PreToolUse")
    assert line.patience_ms == 540_000
    assert _found("claude", project)["timeouts"].status == "ok"


def test_what_only_a_person_can_do_is_not_mended(person: Path) -> None:
    """Codex wants to be told in its own /hooks; that is a finding with a way, and no repair of ours."""
    project = person / "project"
    _install("codex", project)
    found = _found("codex", project)
    assert (found["trust"].status, found["trust"].repair) == ("fail", "")
    assert "/hooks" in found["trust"].fix
    assert repair_findings(found.values(), Settings(), directories(), project).done == []


def test_the_doctor_looks_at_agents_that_are_here_or_were_installed(person: Path) -> None:
    places, project = directories(), person / "project"
    assert agents_here(places, project) == ()
    (person / ".gemini").mkdir()
    program = person / "bin/qwen"
    program.write_text("#!/bin/sh\necho 0.24.4\n", "utf-8")
    program.chmod(0o700)
    assert agents_here(places, project) == ("gemini", "qwen")
    assert _found("qwen", project)["program"].what == f"Qwen Code 0.24.4 at {program}"
    assert "does not say its version: its folder" in _found("gemini", project)["program"].what
    _install("windsurf", project)
    assert agents_here(places, project) == ("gemini", "qwen", "windsurf")


def test_a_switch_that_the_agent_is_too_old_for(person: Path) -> None:
    """Claude Code ignores `onFailure` before 2.1.295, so a hook that is too slow lets the call go on."""
    program = person / "bin/claude"
    for version, status in (("2.1.294", "warn"), ("2.1.330", "")):
        program.write_text(f"#!/bin/sh\necho '{version} (Claude Code)'\n", "utf-8")
        program.chmod(0o700)
        _install("claude", person / "project", closed=True)
        found = _found("claude", person / "project").get("closed")
        assert (found.status if found else "") == status
    assert "fail-closed" in _found("claude", person / "project")["installed"].what


def test_a_settings_file_that_broke_after_an_install_is_named(person: Path) -> None:
    """Nothing of ours can be seen in it any more, and the doctor says why."""
    path = Path(_install("claude", person / "project").path)
    path.write_text("{", "utf-8")
    found = _found("claude", person / "project")
    assert (found["installed"].status, found["effective"].status) == ("warn", "fail")
    assert f"{path} cannot be read" in found["effective"].what


def test_an_entry_that_somebody_removed_by_hand_is_missed(person: Path) -> None:
    """Events that were never chosen are not; what is left is as this fleethook writes it."""
    project, places = person / "project", directories()
    change = plan("claude", "user", places, closed=False, events=("PreToolUse", "Stop"), project=project)
    connect(change, answers_for("claude", Settings(), places, closed=False)[0], places)
    assert "events" not in _found("claude", project)
    path = person / ".claude/settings.json"
    settings = json.loads(path.read_bytes())
    del settings["hooks"]["PreToolUse"]
    path.write_text(json.dumps(settings, indent=2), "utf-8")
    found = _found("claude", project)
    assert (found["events"].status, found["commands"].status) == ("warn", "ok")
    assert found["events"].what.endswith(f"{path} since the install: PreToolUse")
    assert repair_findings(found.values(), Settings(), places, project).done == [], (
        "a person may have removed it on purpose"
    )
    path.write_text(path.read_text("utf-8").replace(" -I -S ", " -I "), "utf-8")
    assert repair_findings(_found("claude", project).values(), Settings(), places, project).done == [
        f"installed claude again in {path}"
    ]
    found = _found("claude", project)
    assert (found["events"].status, found["commands"].status) == ("warn", "ok"), "a repair does not hide it"

    accept_events("claude", "user", places.state, where_is(project=project))
    assert "events" not in _found("claude", project), "an install with --events chose what is there"


@pytest.mark.parametrize("was_installed", [True, False])
def test_a_hook_file_that_nobody_can_read_is_named_with_its_place(person: Path, was_installed: bool) -> None:
    """An install would stop there; where it was done before, the agent has lost its hooks."""
    path = person / ".codex/hooks.json"
    if was_installed:
        assert Path(_install("codex", person / "project").path) == path
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"hooks": {', "utf-8")
    found = _found("codex", person / "project")
    assert (found["installed"].status, found["commands"].status) == ("warn", "fail" if was_installed else "warn")
    assert found["commands"].what.startswith(f"{path}:1:12: not valid JSON")
    assert found["commands"].fix == "correct the file, then `fleethook install codex`"


def test_the_command_line_knows_every_agent() -> None:
    assert install.AGENTS == NAMES
