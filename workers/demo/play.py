"""The demo's script: five scenes. Each scene checks that it really happened as shown."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, TypeVar

from bus.client import Bus
from bus.config.settings import Settings
from bus.errors import FleethookError
from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.in_force import POLL_SECONDS
from bus.hooksets.published import apply
from bus.http.signing import generate_secret
from bus.lazy.conversions import from_json
from bus.shim.answer_file import AnswerFile, EventLine, compile_shim, hook_command, server_from_url, write_answer_file
from bus.system.directories import Directories, directories
from bus.wire.connections import Connections
from bus.wire.embedded_server import bus_url, find_binary
from bus.wire.keys import Keys
from workers.demo.agent import AgentResults
from workers.demo.receiver import DemoReceiver
from workers.runtime.lifeline import VARIABLE, lifeline
from workers.supervisor import State, running

Say = Callable[[str], None]
T = TypeVar("T")

AGENTS: Final = ("claude", "codex", "gemini", "cursor", "opencode")
HARMLESS: Final = 1_000  # enough to outweigh the first two hundred requests, which take 1.5 times as long
REQUESTS: Final = 40
EVENTS: Final = 80
PATIENCE: Final = 30.0

STEPS: Final = (
    ("starting the server and its workers", 2.5),
    ("publishing the hooks", 1.0),
    ("scene 1, a command is blocked", 0.5),
    ("scene 2, a thousand harmless commands", 3.0),
    ("scene 3, a hook in the background", 0.5),
    ("scene 4, a webhook", 1.0),
    ("scene 5, workers are killed", 4.0),
)
"""The steps of the demo, and about how many seconds each takes."""

HOOKS: Final = """
guards: {{destructive-commands: true}}
network: {{allow: ["127.0.0.1:{port}"]}}
hooks:
  - id: audit-trail
    on: tool:post_execute
    blocking: false
    command: cat >> audit.jsonl
endpoints:
  - {{id: chat, url: "http://127.0.0.1:{port}/chat", events: ["tool:pre_execute"], when: verdict.decision == "deny",
      secret: "{secret}", retry: [0.2, 0.4, 0.8]}}
  - {{id: ledger, url: "http://127.0.0.1:{port}/ledger", events: ["turn:end"], secret: "{secret}", retry: [0.2, 0.4, 0.8]}}
"""


class DemoFailed(FleethookError):
    """A scene of the demo had an unexpected result."""


class DemoContext:
    """The values that all scenes share."""

    def __init__(self, places: Directories, project: Path, receiver: DemoReceiver, say: Say) -> None:
        self.places, self.project, self.receiver, self.say = places, project, receiver, say
        self.settings = Settings()
        self.keys = Keys(self.settings.namespace)

    @property
    def url(self) -> str:
        """The server's URL for workers."""
        return bus_url(self.settings, "worker", self.places)

    @property
    def agent_environment(self) -> dict[str, str]:
        """The environment of an agent process."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FLEETHOOK_")}
        return {**kept, "FLEETHOOK_REDIS_URL": self.url, "FLEETHOOK_NAMESPACE": self.settings.namespace}


async def play(say: Say, begin: Callable[[int], None] = lambda _: None) -> None:
    """Play all scenes; raises DemoFailed if one had an unexpected result.

    `begin` is called with the index in `STEPS` as each step begins.
    """
    with tempfile.TemporaryDirectory(prefix="fleethook-demo-") as folder:
        project = _made(Path(folder, "project"))
        secret = generate_secret()
        with _own_home(Path(folder)):
            places = directories()
            async with DemoReceiver(secret, failures=2) as receiver:
                stage = DemoContext(places, project, receiver, say)
                begin(0)
                async with _running(stage):
                    begin(1)
                    await _publish_hooks(stage, secret)
                    for number, scene in enumerate((_blocked, _harmless, _background, _webhook, _killed), 2):
                        begin(number)
                        await scene(stage)
    say("\nAll five scenes passed, and the demo left nothing on this machine.")
    say("Next: `fleethook up` in one terminal, `fleethook install claude` in another.")


@contextmanager
def _own_home(folder: Path) -> Iterator[None]:
    """Make `folder` the home directory of this process and its children, without any of the user's settings."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("FLEETHOOK_") or name == "HOME"}
    for name in kept:
        del os.environ[name]
    os.environ |= {"HOME": str(folder), "FLEETHOOK_HOME": str(folder / "home")}
    try:
        yield
    finally:
        del os.environ["HOME"], os.environ["FLEETHOOK_HOME"]
        os.environ.update(kept)


@asynccontextmanager
async def _running(stage: DemoContext) -> AsyncIterator[None]:
    """Start `fleethook up` as a user would, in the demo's folder; it ends with this process, however that ends."""
    with lifeline() as held:
        async with _up(stage, held):
            yield


@asynccontextmanager
async def _up(stage: DemoContext, held: int) -> AsyncIterator[None]:
    began = time.monotonic()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLEETHOOK_")}
    log = stage.project.parent / "up.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "workers.cli",
            "up",
            stdout=output,
            stderr=output,
            env={**environment, "FLEETHOOK_HOME": str(stage.places.data.parent), VARIABLE: str(held)},
            pass_fds=(held,),
        )
    try:
        state = await _until(lambda: _ready(stage, process), "everything is up", log)
        kinds = [child.name.partition(".")[0] for child in state.children]
        counted = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        binary = find_binary()
        stage.say(f"fleethook demo: a fleet of {len(AGENTS)} agents, in a folder of its own\n")
        stage.say(f"  server     {binary.brand} {binary.version} on a unix socket, append-only file on")
        stage.say(f"  processes  {counted}; ready in {time.monotonic() - began:.1f} s")
        yield
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()


def _ready(stage: DemoContext, process: asyncio.subprocess.Process) -> State | None:
    if process.returncode is not None:
        raise DemoFailed(f"`fleethook up` ended with {process.returncode}")
    state = running(stage.places)
    return state if state is not None and state.ready else None


async def _until(holds: Callable[[], T | None], what: str, log: Path | None = None) -> T:
    deadline = time.monotonic() + PATIENCE
    while not (value := holds()):
        if time.monotonic() > deadline:
            tail = f"; the end of its log: {_text(log)[-2000:]}" if log is not None else ""
            raise DemoFailed(f"not within {PATIENCE:g} s: {what}{tail}")
        await asyncio.sleep(0.02)
    return value


async def _publish_hooks(stage: DemoContext, secret: str) -> None:
    file = parse_hook_file(HOOKS.format(port=stage.receiver.port, secret=secret), "fleet", file="demo.yaml")
    connections = Connections(bus_url(stage.settings, "admin", stage.places))
    try:
        version = await apply(connections, stage.keys, file, message="demo")
    finally:
        await connections.close()
    stage.say(
        f"  hooks      version {version}: guard pack destructive-commands, 1 background hook, 2 webhook endpoints\n"
    )
    await asyncio.sleep(POLL_SECONDS * 2)  # every worker reads it within a second


async def _blocked(stage: DemoContext) -> None:
    precious = _made(stage.project.parent / "precious", "ten years of work")
    command = "rm -rf ~/precious"
    compile_shim()
    answers = stage.project.parent / "claude.answers"
    write_answer_file(
        answers,
        AnswerFile(
            agent="claude",
            server=server_from_url(bus_url(stage.settings, "shim", stage.places)),
            prefix=stage.keys.prefix,
            host=os.uname().nodename,
            spool=str(stage.places.spool("claude")),
            events=(EventLine(name="PreToolUse"),),
        ),
    )
    payload = {
        "session_id": "demo",
        "cwd": str(stage.project),
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_use_id": "toolu_demo_1",
        "tool_input": {"command": command},
    }
    start = time.perf_counter()
    shim = await asyncio.create_subprocess_exec(
        *hook_command(sys.executable, "claude", "PreToolUse", answers),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await shim.communicate(json.dumps(payload).encode())
    took = (time.perf_counter() - start) * 1000
    said = json.loads(out or b"{}").get("hookSpecificOutput", {})
    if said.get("permissionDecision") != "deny":
        # With any other answer an agent runs the tool.
        process = await asyncio.create_subprocess_shell(command)
        await process.wait()
    stage.say("1. Claude Code asks to run  rm -rf ~/precious")
    if not _text(precious / "note.txt"):
        raise DemoFailed(f"the folder is gone; the hook said {out!r}")
    stage.say(f"   blocked before it ran, {took:.0f} ms from spawn to exit of the hook; the folder is still there")
    for line in str(said["permissionDecisionReason"]).splitlines():
        stage.say(f"   | {line}")


async def _harmless(stage: DemoContext) -> None:
    # A carrier starts for the webhook of scene 1 and uses a core for half a second, which must not count here.
    await _until(lambda: stage.receiver.delivered("/chat"), "the webhook has arrived")
    bus_ms, rules_ms = [], []
    async with Bus(stage.url, namespace=stage.settings.namespace) as bus:
        for turn in range(HARMLESS):
            start = time.perf_counter()
            verdict = await bus.request(
                Event(
                    type="tool:pre_execute",
                    source="codex",
                    session="demo",
                    tool="bash",
                    call=f"ls-{turn}",
                    input={"command": "ls -la"},
                )
            )
            bus_ms.append((time.perf_counter() - start) * 1000 - verdict.ms)
            rules_ms.append(verdict.ms)
            if verdict.decision != "abstain" or verdict.fallback:
                raise DemoFailed(f"a harmless command got {verdict}")
    in_bus, in_rules = statistics.median(bus_ms), statistics.median(rules_ms)
    stage.say(f"\n2. Codex asks {HARMLESS:,} times to run  ls -la")
    stage.say(f"   let through; bus time {in_bus:.2f} ms median there and back, and {in_rules:.2f} ms in the rules")


async def _background(stage: DemoContext) -> None:
    audit = stage.project / "audit.jsonl"
    async with Bus(stage.url, namespace=stage.settings.namespace) as bus:
        start = time.perf_counter()
        event = await bus.publish(
            Event(
                type="tool:post_execute",
                source="gemini",
                session="demo",
                tool="write",
                cwd=str(stage.project),
                input={"path": "notes.md"},
            )
        )
        waited = (time.perf_counter() - start) * 1000
    await _until(lambda: event in _text(audit), "the audit hook has run")
    took = (time.perf_counter() - start) * 1000
    stage.say("\n3. Gemini wrote a file; the hook  cat >> audit.jsonl  runs in the background")
    stage.say(f"   the agent waited {waited:.1f} ms, the hook had run {took:.0f} ms later")


def _made(folder: Path, note: str = "") -> Path:
    folder.mkdir()
    (folder / "note.txt").write_text(note, encoding="utf-8")
    return folder


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


async def _webhook(stage: DemoContext) -> None:
    def attempts() -> list[int]:
        return [one.status for one in stage.receiver.received if one.path == "/chat"]

    await _until(lambda: attempts()[-1:] == [204], "the webhook has arrived")
    ids = {one.id for one in stage.receiver.received if one.path == "/chat"}
    signed = all(one.signed for one in stage.receiver.received)
    if attempts() != [503, 503, 204] or len(ids) != 1 or not signed:
        raise DemoFailed(f"attempts {attempts()}, ids {ids}, signed {signed}")
    stage.say("\n4. The block of scene 1 goes to a chat by webhook; its receiver fails twice")
    stage.say("   attempts answered 503, 503, 204: delivered, each signed, with one webhook-id")


async def _killed(stage: DemoContext) -> None:
    stage.say(
        f"\n5. {len(AGENTS)} agents ask {len(AGENTS) * REQUESTS} times and publish {len(AGENTS) * EVENTS} events;"
        " kill -9 in the middle"
    )
    environment = stage.agent_environment
    agents = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "workers.demo.agent",
            name,
            str(REQUESTS),
            str(EVENTS),
            stdout=asyncio.subprocess.PIPE,
            env=environment,
        )
        for name in AGENTS
    ]
    await _until(lambda: stage.receiver.delivered("/ledger"), "the first deliveries arrive")
    victims = _kill(stage, "evaluator", "carrier")
    reports = []
    for agent in agents:
        out, _ = await agent.communicate()
        reports.append(from_json(out, AgentResults))
    published = [name for report in reports for name in report.published]
    verdicts = sum(report.verdicts for report in reports)
    fallbacks = sum(report.fallbacks for report in reports)
    await _until(lambda: len(stage.receiver.delivered("/ledger")) >= len(published), "every event has been delivered")
    taken = stage.receiver.delivered("/ledger")
    lost = [name for name in published if not any(one.startswith(name) for one in taken)]
    again = sum(count - 1 for count in taken.values())
    if lost or fallbacks:
        raise DemoFailed(f"{len(lost)} events lost, {fallbacks} fallbacks")
    stage.say(f"   killed {' and '.join(victims)}; both were started again")
    stage.say(f"   {verdicts} requests: {verdicts} verdicts, {fallbacks} fallbacks")
    stage.say(
        f"   {len(published)} events: {len(taken)} delivered, {len(lost)} lost, {again} delivered twice (same webhook-id)"
    )


def _kill(stage: DemoContext, *kinds: str) -> list[str]:
    """Kill one process of each kind with -9."""
    state = running(stage.places)
    killed = []
    for kind in kinds:
        children = [
            one for one in (state.children if state is not None else ()) if one.name.startswith(kind) and one.pid
        ]
        if not children:
            raise DemoFailed(f"no {kind} runs")
        os.kill(children[0].pid, signal.SIGKILL)
        killed.append(f"{children[0].name} (pid {children[0].pid})")
    return killed
