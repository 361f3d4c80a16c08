"""Sends a canary: a dangerous tool call, sent as the agent would send it, which must be denied.

The installed hook command is started as the agent starts it, and its answer is read as the agent reads it, so a denial
counts only if that agent would have stopped.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from bus.agents import find as find_dialect
from bus.chain import Evaluation, evaluate
from bus.config.settings import Settings
from bus.errors import ConfigError, FleethookError
from bus.hooksets.in_force import Watcher
from bus.ids import host_name
from bus.installs import find
from bus.installs.base import AgentReading, Canary, CommandRun
from bus.runners.rule import RuleRunner
from bus.shim.answer_file import read_answer_file
from bus.system.directories import Directories
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.admin.agent_setup import Installed, where_is
from workers.admin.doctor import INSTALL, Check
from workers.admin.http_installs import post, token_of

COMMAND: Final = "rm -rf /fleethook-doctor-canary"
"""Outside every project, so the guard denies it; there is no such folder, and nothing runs it."""

SECONDS: Final = 30.0
_GUARD: Final = "switch a guard on: `guards: {destructive-commands: true}` in fleethook.yaml"


class CanaryResult(NamedTuple):
    """What the installed command did, and how the agent understands it."""

    ran: CommandRun
    ms: float
    understood: AgentReading
    fallback: bool = False
    """Whether a gateway said that this is a fallback."""
    status: int = 0
    """The HTTP status of a hook of type `http`."""

    @property
    def ending(self) -> str:
        """How the hook ended."""
        return f"HTTP status {self.status}" if self.status else f"exit code {self.ran.code}"


def made(agent: str, cwd: Path) -> Canary:
    """The canary call as this agent sends it, with a random session id."""
    return find(agent).canary(cwd, os.urandom(4).hex(), COMMAND)


async def expected(
    connections: Connections, keys: Keys, settings: Settings, places: Directories, cwd: Path, agent: str = "claude"
) -> Verdict | None:
    """The verdict of the rules in force here on an agent's canary; None if they cannot be read."""
    host, canary = settings.host or host_name(), made(agent, cwd)
    watcher = Watcher.here(connections, keys, places, host)
    try:
        await watcher.refresh(force=True)
        event = find_dialect(agent).read(canary.event, json.dumps(canary.payload).encode(), host=host)
        rules = [hook for hook in watcher.for_event(event).blocking(event) if hook.kind == "rule"]
        return await evaluate(Evaluation(event=event, hooks=rules, run=RuleRunner().run, seconds=5.0))
    except FleethookError:
        return None


def guard_check(verdict: Verdict | None, *, away: bool = False) -> Check:
    """Check whether any rule in force would deny a dangerous call; `away` if the server cannot be reached."""
    if verdict is None:
        text, cause = "the hooks in force cannot be seen", "server" if away else ""
        return Check(id="guards", status="unknown", what=text, cause=cause)
    if verdict.decision in {"deny", "ask"}:
        return Check(
            id="guards", status="ok", what=f"`{COMMAND}` would be answered with {verdict.decision}", brief="guarded"
        )
    return Check(id="guards", status="warn", what=f"no rule in force minds `{COMMAND}`", fix=_GUARD)


def send(install: Installed, canary: Canary, cwd: Path) -> CanaryResult:
    """Run the installed command as the agent does: in the project, without Fleethook's variables."""
    program = find(install.agent)
    if canary.event in install.urls:
        return _post(install, canary, cwd)
    env = {name: value for name, value in os.environ.items() if not name.startswith("FLEETHOOK_")}
    began = time.monotonic()
    try:
        done = subprocess.run(
            program.runs(Path(install.path), install.commands[canary.event]),
            input=json.dumps(canary.payload),
            capture_output=True,
            timeout=SECONDS,
            check=False,
            cwd=cwd,
            env={**env, **canary.environ},
            text=True,
            errors="replace",
        )
        ran = CommandRun(done.returncode, done.stdout, done.stderr)
    except (OSError, subprocess.TimeoutExpired) as error:
        ran = CommandRun(-1, "", f"{type(error).__name__}: {error}")
    return CanaryResult(ran, (time.monotonic() - began) * 1000, program.understood(ran))


def _post(install: Installed, canary: Canary, cwd: Path) -> CanaryResult:
    """Post the canary as the agent's hook of type `http` does; the agent reads nothing but JSON of a 2xx."""
    program, host = find(install.agent), install.http.host if install.http is not None else ""
    began = time.monotonic()
    token = token_of(program, where_is(project=cwd))
    headers = {"Fleethook-Host": host} if host else {}
    answer = post(install.urls[canary.event], json.dumps(canary.payload).encode(), token, headers, SECONDS)
    read = 200 <= answer.status < 300
    ran = CommandRun(0 if read else -1, answer.text if read else "", "" if read else answer.text)
    ms = (time.monotonic() - began) * 1000
    return CanaryResult(ran, ms, program.understood(ran), answer.fallback, answer.status)


def live_checks(
    install: Installed, places: Directories, verdict: Verdict | None, cwd: Path, *, elsewhere: bool = False
) -> Iterator[Check]:
    """Send the canary through the exact commands in the agent's settings.

    `elsewhere` is for a machine that cannot read the fleet's rules: there a deny or an ask is the proof.
    """
    canary = made(install.agent, cwd)
    if canary.event not in install.commands:
        text = f"{install.agent}: {canary.event} is not among the events of {install.path}"
        fix = f"{INSTALL} {install.agent} --scope {install.scope}{install.option}"
        yield Check(id=f"{install.agent}-live", status="warn", what=text, fix=fix, agent=install.agent)
        return
    answer = send(install, canary, cwd)
    fallback = answer.fallback or (not answer.status and _is_fallback(install, canary, answer, places))
    if elsewhere and not fallback:
        yield _judge_unseen(install, answer)
    else:
        yield judge(install, answer, verdict, fallback=fallback)


def _judge_unseen(install: Installed, answer: CanaryResult) -> Check:
    """What an answer to the canary proves if the rules in force cannot be read."""
    name, text = f"{install.agent}-live", f"{install.agent}: canary through {install.path}"
    decision = answer.understood.decision
    if decision in {"deny", "ask"}:
        text = f"{text}: the fleet answered {decision}, {answer.ms:.0f} ms end to end"
        return Check(
            id=name, status="ok", what=text, agent=install.agent, brief=f"canary: {decision} in {answer.ms:.0f} ms"
        )
    text = f"{text}: {answer.ending} and {decision or 'nothing'} came back: no guard of the fleet stopped it"
    fix = "on a machine of the fleet: `fleethook guards publish`"
    return Check(
        id=name, status="warn", what=f"{text} {answer.ran.stderr[:200]}".rstrip(), fix=fix, agent=install.agent
    )


def judge(install: Installed, answer: CanaryResult, verdict: Verdict | None, *, fallback: bool = False) -> Check:
    """What an answer to the canary proves if the rules in force here give `verdict`."""
    name, intro = f"{install.agent}-live", f"{install.agent}: canary through {install.path}"
    wanted, decision = verdict.decision if verdict is not None else "", answer.understood.decision
    if wanted == "ask" and not _can_ask(install.agent):
        wanted = "deny"
    if fallback:
        text = f"{intro}: came back as {decision or 'nothing'} by fallback: no verdict was given"
        fix = "`fleethook status` shows who is missing; `fleethook up`"
        return Check(id=name, status="fail", what=text, fix=fix, agent=install.agent)
    if wanted in {"deny", "ask"} and decision == wanted:
        text = f"{intro}: {decision} as expected, {answer.ms:.0f} ms end to end"
        return Check(
            id=name, status="ok", what=text, agent=install.agent, brief=f"canary: {decision} in {answer.ms:.0f} ms"
        )
    if decision == "deny":
        text = f"{intro}: denied, though no rule in force here says so: {answer.understood.reason[:200]}"
        fix = "`fleethook tail` and `fleethook trace ID` show who did"
        return Check(id=name, status="warn", what=text, fix=fix, agent=install.agent)
    if not wanted:
        text = f"{intro}: the hooks in force cannot be seen, and it came back as {decision or 'nothing'}"
        return Check(id=name, status="unknown", what=text, fix="fleethook up", agent=install.agent)
    if wanted not in {"deny", "ask"}:
        text = f"{intro}: nothing to prove, since no guard is on"
        return Check(id=name, status="unknown", what=text, fix=_GUARD, agent=install.agent)
    text = f"{intro}: {wanted} was expected; {answer.ending} and {decision or 'nothing'} came back"
    return Check(
        id=name,
        status="fail",
        what=f"{text} {answer.ran.stderr[:200]}".rstrip(),
        fix=f"`fleethook status` and the checks above; then `{INSTALL} {install.agent}{install.option}`",
        agent=install.agent,
    )


def _can_ask(agent: str) -> bool:
    """Whether the canary's event can carry an ask to the person."""
    can = find_dialect(agent).capabilities[made(agent, Path("/")).event]
    return can.ask or can.ask_else != "deny"


def _is_fallback(install: Installed, canary: Canary, answer: CanaryResult, places: Directories) -> bool:
    """Whether this answer is the fallback that the hook command has in its answer file."""
    try:
        lines = read_answer_file(places.answer_file(install.agent)).events
        ready = next(line.fallback for line in lines if line.name == canary.event)
    except (ConfigError, StopIteration):
        return False
    fallback_reading = find(install.agent).understood(
        CommandRun(ready.exit_code, _text(ready.stdout), _text(ready.stderr))
    )
    if fallback_reading.decision:  # the words alone: a plugin hands on no more
        return answer.understood == fallback_reading
    same = (answer.ran.code, answer.ran.stdout) == (ready.exit_code, _text(ready.stdout))
    return same and ready[:3] != find_dialect(install.agent).render(canary.event, Verdict(decision="abstain"))[:3]


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
