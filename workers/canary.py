"""A canary: a dangerous tool call that nobody makes, sent through the installed command, that has to come back denied."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from bus.answerfile import read_answer_file
from bus.chain import evaluate
from bus.config.settings import Settings
from bus.connections import Links
from bus.dialects import find
from bus.directories import Directories, config_file
from bus.errors import ConfigError, FleethookError
from bus.ids import host_name
from bus.inforce import Watcher
from bus.keys import Keys
from bus.runners.rule import RuleRunner
from bus.verdicts import Verdict
from workers.connecting import Installed
from workers.doctor import Check

EVENT: Final = "PreToolUse"
COMMAND: Final = "rm -rf /fleethook-doctor-canary"
"""Outside every project, so the guard denies it; there is no such folder, and nothing runs it."""

SECONDS: Final = 30.0
_GUARD: Final = "switch a guard on: `guards: {destructive-commands: true}` in fleethook.yaml"


class Answer(NamedTuple):
    """What the installed command did, as the agent sees it."""

    code: int
    stdout: str
    stderr: str
    ms: float

    @property
    def decision(self) -> str:
        """`deny`, `ask`, `allow`, or empty where the agent goes on as if there were no hook."""
        if self.code == 2:
            return "deny"
        return str(_specific(self.stdout).get("permissionDecision", "")) if self.code == 0 else ""

    @property
    def reason(self) -> str:
        """Why, in the answer's words."""
        return str(_specific(self.stdout).get("permissionDecisionReason", "") or self.stderr).strip()


def payload(cwd: Path) -> dict[str, Any]:
    """The tool call as Claude Code sends it, with a session that marks it as ours."""
    token = os.urandom(4).hex()
    return {
        "session_id": f"fleethook-doctor-{token}", "transcript_path": "", "cwd": str(cwd),
        "permission_mode": "default", "hook_event_name": EVENT, "tool_name": "Bash",
        "tool_input": {"command": COMMAND, "description": "fleethook doctor: nothing runs this"},
        "tool_use_id": f"toolu_fleethook_{token}",
    }  # fmt: skip


async def expected(links: Links, keys: Keys, settings: Settings, places: Directories, cwd: Path) -> Verdict | None:
    """What the rules in force here say to the canary; None where that cannot be seen."""
    host = settings.host or host_name()
    user = config_file(places.config) or places.config / "fleethook.yaml"
    watcher = Watcher(links, keys, host=host, user_file=user, trust_file=places.trust_file)
    try:
        await watcher.refresh(force=True)
        event = find("claude").read(EVENT, json.dumps(payload(cwd)).encode(), host=host)
        rules = [hook for hook in watcher.for_event(event).blocking(event) if hook.kind == "rule"]
        return await evaluate(event, rules, RuleRunner().run, seconds=5.0)
    except FleethookError:
        return None


def guard_check(verdict: Verdict | None) -> Check:
    """Whether some rule in force would deny a dangerous call at all."""
    if verdict is None:
        return Check(id="guards", status="unknown", what="the hooks in force cannot be seen")
    if verdict.decision in {"deny", "ask"}:
        return Check(id="guards", status="ok", what=f"`{COMMAND}` would be answered with {verdict.decision}")
    return Check(id="guards", status="warn", what=f"no rule in force minds `{COMMAND}`", fix=_GUARD)


def send(command: str, cwd: Path) -> Answer:
    """Run the installed command as the agent does: by sh, in the project, without any variable of ours."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("FLEETHOOK_")}
    env["CLAUDE_PROJECT_DIR"] = str(cwd)
    began = time.monotonic()
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command], input=json.dumps(payload(cwd)), capture_output=True, timeout=SECONDS, check=False,
            cwd=cwd, env=env, text=True, errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return Answer(-1, "", f"{type(error).__name__}: {error}", (time.monotonic() - began) * 1000)
    return Answer(done.returncode, done.stdout, done.stderr, (time.monotonic() - began) * 1000)


def live_checks(one: Installed, places: Directories, verdict: Verdict | None, cwd: Path) -> Iterator[Check]:
    """The proof: the canary through the exact command that stands in the agent's settings."""
    command = one.commands.get(EVENT)
    if command is None:
        text = f"{one.agent}: {EVENT} is not among the events of {one.path}"
        fix = f"fleethook install {one.agent} --scope {one.scope}"
        yield Check(id=f"{one.agent}-live", status="warn", what=text, fix=fix)
        return
    answer = send(command, cwd)
    yield judge(one, answer, verdict, fallback=_is_fallback(answer, places.answer_file(one.agent)))


def judge(one: Installed, answer: Answer, verdict: Verdict | None, *, fallback: bool = False) -> Check:
    """What an answer to the canary proves, where the rules in force here say `verdict`."""
    name, said = f"{one.agent}-live", f"{one.agent}: canary {EVENT} through {one.path}"
    wanted, came = verdict.decision if verdict is not None else "", answer.decision
    if fallback:
        text = f"{said}: came back as {came or 'nothing'} by fallback: no verdict was given"
        return Check(id=name, status="fail", what=text, fix="`fleethook status` shows who is missing; `fleethook up`")
    if wanted in {"deny", "ask"} and came == wanted:
        return Check(id=name, status="ok", what=f"{said}: {came} as expected, {answer.ms:.0f} ms end to end")
    if came == "deny":
        text = f"{said}: denied, though no rule in force here says so: {answer.reason[:200]}"
        return Check(id=name, status="warn", what=text, fix="`fleethook tail` and `fleethook trace ID` show who did")
    if not wanted:
        text = f"{said}: the hooks in force cannot be seen, and it came back as {came or 'nothing'}"
        return Check(id=name, status="unknown", what=text, fix="fleethook up")
    if wanted not in {"deny", "ask"}:
        return Check(id=name, status="unknown", what=f"{said}: nothing to prove, since no guard is on", fix=_GUARD)
    text = f"{said}: {wanted} was expected; exit code {answer.code} and {came or 'nothing'} came back"
    return Check(
        id=name, status="fail", what=f"{text} {answer.stderr[:200]}".rstrip(),
        fix="`fleethook status` and the checks above; then `fleethook install claude`",
    )  # fmt: skip


def _is_fallback(answer: Answer, path: Path) -> bool:
    """Whether these are the bytes that the hook command has ready for when nobody answers."""
    try:
        line = next(line for line in read_answer_file(path).events if line.name == EVENT)
    except (ConfigError, StopIteration):
        return False
    ready = line.fallback
    same = (answer.code, answer.stdout.encode()) == (ready.exit_code, ready.stdout)
    return same and bool(ready.stdout or ready.exit_code)


def _specific(stdout: str) -> dict[str, Any]:
    try:
        found = json.loads(stdout)
    except ValueError:
        return {}
    specific = found.get("hookSpecificOutput") if isinstance(found, dict) else None
    return specific if isinstance(specific, dict) else {}
