"""Pictures of every screen at 80, 110 and 170 columns, made from the product itself: `make screens`.

A fleet is started in a folder of its own, agents send events to it, and each command runs in a terminal (a pty). What it
prints becomes `docs/screens/<name>-<columns>.svg`. Names on the command line choose screens; `--text` prints them instead.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.text import Text

from tests.support.up import up

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "docs" / "screens"
WIDTHS: Final = (80, 110, 170)
ROWS: Final = 40
NOBODY: Final = ("CI", "CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "NO_COLOR", "FORCE_COLOR")

HOOKS: Final = """
guards: {{destructive-commands: true, fleethook-itself: true}}
network: {{allow: ["127.0.0.1:{port}", "127.0.0.1:{listening}"]}}
hooks:
  - {{id: branch-check, on: tool:pre_execute, tool: bash, command: "sleep 0.03; exit 0"}}
  - {{id: ask-before-install, on: tool:pre_execute, tool: bash, when: 'event.input.command.startsWith("npm")',
      rule: {{decision: ask, reason: New packages are looked at by a person}}}}
  - {{id: deploys, on: tool:pre_execute, tool: bash, hold: {{timeout: 3600, default: deny}},
      rule: {{decision: ask, command: ["^make deploy"], reason: A person decides on deploys}}}}
  - {{id: not-too-fast, on: tool:pre_execute, rule: {{decision: deny, limit: 30 per minute per session,
      reason: Thirty calls a minute are enough}}}}
  - {{id: a-busy-day, on: tool:pre_execute, rule: {{decision: warn, limit: 1000 calls per day per user,
      reason: You are over a thousand calls today}}}}
workflows:
  - name: plan-first
    description: No edit before a plan.
    sources: [qwen]
    steps:
      - name: plan
        on_enter: [{{action: context, text: "Read the code and write a plan. Edit nothing yet."}}]
        allowed_tools: [read, grep, glob]
        transitions: [{{to: work, on: user:prompt_submit, when: event.data.prompt.startsWith("go")}}]
      - name: work
        on_enter: [{{action: context, text: The plan is approved. Now work.}}]
        rules: [{{command_pattern: "^git push", message: a person pushes}}]
    tests:
      - name: no edit before the plan
        events:
          - {{source: qwen, on: session:start, step: plan, context: write a plan}}
          - {{source: qwen, tool: edit, path: app.py, expect: deny, reason: allowed}}
          - {{source: qwen, prompt: go, step: work}}
          - {{source: qwen, tool: edit, path: app.py, expect: allow}}
endpoints:
  - {{id: audit, url: "http://127.0.0.1:{port}/ok", events: ["tool:pre_execute"], secret: "env:SCREENS_SECRET"}}
  - {{id: chat, url: "http://127.0.0.1:{port}/busy", events: ["tool:pre_execute"], when: 'verdict.decision == "deny"',
      retry: [0.2, 0.4, 600]}}
  - {{id: old-crm, url: "http://127.0.0.1:{port}/gone", events: ["session:end"]}}
  - {{id: my-service, url: "http://127.0.0.1:{listening}/hooks", events: ["turn:end"], secret: "env:SCREENS_SECRET"}}
"""

CALLS: Final = (
    ("claude", "4f2c8b1a-33cd-4e1f", "bash", {"command": "uv run pytest -q tests/unit"}),
    ("codex", "rollout-2291", "bash", {"command": "git status --short"}),
    ("claude", "4f2c8b1a-33cd-4e1f", "write", {"path": "src/app/settings.py", "content": "DEBUG = False"}),
    ("gemini", "a91c-77", "read", {"path": "docs/architecture.md"}),
    ("codex", "rollout-2291", "bash", {"command": "git push --force origin main"}),
    ("cursor", "conv-55e1", "bash", {"command": "npm run build && cp -r dist /srv/www/preview"}),
    ("claude", "4f2c8b1a-33cd-4e1f", "bash", {"command": "rm -rf / --no-preserve-root"}),
    ("opencode", "ses_7b3d", "web_fetch", {"url": "https://docs.python.org/3/library/asyncio.html"}),
    ("gemini", "a91c-77", "bash", {"command": "git reset --hard HEAD~20"}),
)


PLANNED: Final = (
    {"type": "session:start"},
    {"type": "tool:pre_execute", "tool": "edit", "input": {"path": "src/app/models.py"}},
    {"type": "user:prompt_submit", "data": {"prompt": "go"}},
    {"type": "tool:pre_execute", "tool": "edit", "input": {"path": "src/app/models.py"}},
    {"type": "tool:pre_execute", "tool": "bash", "input": {"command": "git push origin models"}},
)
"""A session that a workflow leads from its plan to its work."""

HELD: Final = {
    "type": "tool:pre_execute",
    "source": "claude",
    "session": "4f2c8b1a-33cd-4e1f",
    "cwd": "/srv/app",
    "tool": "bash",
    "input": {"command": "make deploy TARGET=production REGION=eu-central-1"},
}
"""A call that waits for a person as long as the pictures are made."""

TRIED: Final = {"type": "tool:pre_execute", "tool": "bash", "input": {"command": "rm -rf /srv/data"}}
CANDIDATE: Final = """
hooks:
  - {id: no-builds, on: tool:pre_execute, tool: bash, rule: {decision: deny, command: ["^npm run"], reason: CI builds}}
"""

TURN: Final = {
    "type": "turn:end",
    "source": "claude",
    "session": "4f2c8b1a-33cd-4e1f",
    "data": {"turns": 3, "tools": 41},
}
"""An event for the endpoint whose webhooks `listen` receives."""


class Screen(NamedTuple):
    """One picture: a command line, and for one that does not end the keys that are typed before it is interrupted."""

    name: str
    words: tuple[str, ...]
    keys: str = ""
    seconds: float = 0.0
    """How long a command that does not end is watched; agents go on meanwhile."""
    variables: tuple[tuple[str, str], ...] = ()
    """Environment of this command alone."""
    after: tuple[str, ...] = ()
    """A command that takes back what the keys did."""
    bar: bool = False
    """Whether to show the command as it is when it is interrupted, and not as it ends."""
    folder: str = ""

    @property
    def together(self) -> bool:
        """Whether its widths can be made at the same time: it ends, changes nothing, and needs no idle machine."""
        return not (self.keys or self.seconds or self.variables or self.words[0] in {"bench", "demo"})


def screens(ids: dict[str, str]) -> list[Screen]:
    """Every screen; `ids` are those of the events and deliveries that are shown, and the port to listen at."""
    replay = ("replay", "--since", "1h", "--endpoint", "audit", "--rate", "8/s", "--yes", "--follow")
    return [
        Screen("events-list", ("events", "list", "--limit", "14")),
        Screen("events-show", ("events", "show", ids["deny"])),
        Screen("tail", ("tail",), seconds=4),
        Screen("watch", ("watch",), seconds=4),
        Screen("watch-trace", ("watch",), keys="j\r", seconds=9),
        Screen("watch-pause", ("watch",), keys="\t\tp", seconds=12, after=("webhooks", "resume", "audit")),
        Screen("watch-retry", ("watch",), keys="\t\t\tr", seconds=12),
        Screen("trace", ("trace", ids["deny"])),
        Screen("sessions", ("sessions",)),
        Screen("hosts-list", ("hosts", "list")),
        Screen("inbox", ("inbox",)),
        Screen("approvals-list", ("approvals", "list")),
        Screen("approvals-show", ("approvals", "show", ids["held"])),
        Screen("status", ("status",)),
        Screen("up", ("up", *FEW), seconds=12, variables=elsewhere("up")),
        Screen("up-starting", ("up", *FEW), seconds=1.5, variables=elsewhere("up"), bar=True),
        Screen("demo", ("demo",), variables=elsewhere("demo")),
        Screen("demo-running", ("demo",), seconds=5, bar=True),
        Screen("bench-running", ("bench", "--quick", "request"), seconds=3, bar=True),
        Screen("bench", ("bench", "--quick", "request")),
        Screen("deliveries-list", ("deliveries", "list", "--limit", "14")),
        Screen("deliveries-show", ("deliveries", "show", f"{ids['deny']}.chat")),
        Screen("deliveries-curl", ("deliveries", "show", f"{ids['deny']}.chat", "--curl")),
        Screen("dead-list", ("dead", "list")),
        Screen("dead-show", ("dead", "show", ids["dead"])),
        Screen("replay", replay, seconds=3),
        Screen("jobs-list", ("jobs", "list")),
        Screen("listen", ("listen", "--port", ids["listening"], "--endpoint", "my-service"), seconds=6),
        Screen("webhooks-list", ("webhooks", "list")),
        Screen("webhooks-show", ("webhooks", "show", "chat")),
        Screen("hooks-list", ("hooks", "list")),
        Screen("hooks-new", ("hooks", "new", "no-deploy"), keys="\r\r\r", seconds=4, folder="shop"),
        Screen("hooks-test", ("hooks", "test"), folder="tested"),
        Screen("hooks-show-input", ("hooks", "show-input", ids["ask"], "--hook", "branch-check")),
        Screen("hooks-templates-list", ("hooks", "templates", "list")),
        Screen("guards-list", ("guards", "list")),
        Screen("guards-show", ("guards", "show", "fork-bomb")),
        Screen("plugins-list", ("plugins", "list")),
        Screen("limits-list", ("limits", "list")),
        Screen("workflows-list", ("workflows", "list")),
        Screen("workflows-show", ("workflows", "show", "plan-first")),
        Screen("workflows-test", ("workflows", "test", "hooks.yaml")),
        Screen("workflows-trace", ("workflows", "trace", "qw-20c1")),
        Screen("simulate", ("simulate", "tried.json")),
        Screen("backtest", ("backtest", "--hooks", "candidate.yaml", "--add", "--since", "1h")),
        Screen("suggest", ("suggest",)),
        Screen("doctor", ("doctor", "--live")),
        Screen("doctor-verbose", ("doctor", "--live", "-v")),
        Screen("doctor-away", ("doctor",), variables=(("FLEETHOOK_REDIS_URL", "redis://127.0.0.1:1"),)),
        Screen("install", ("install", "--dry-run")),
        Screen("install-diff", ("install", "codex", "--events", "PreToolUse,Stop,SessionStart", "--dry-run", "--diff")),
        Screen("uninstall", ("uninstall", "--dry-run")),
        Screen("help", ("--help",)),
        Screen("mistake", ("tail", "--where", "event.tool = 'bash'")),
    ]


FEW: Final = ("--evaluators", "1", "--carriers", "1")


def elsewhere(name: str) -> tuple[tuple[str, str], ...]:
    """Folders for a bus beside the one that runs."""
    return (("FLEETHOOK_HOME", f"{Path.cwd()}/{name}"), ("FLEETHOOK_NAMESPACE", name))


def terminal(screen: Screen, columns: int) -> str:
    """What a command prints in a terminal of so many columns; one that does not end is interrupted after its `seconds`."""
    keys, seconds = screen.keys, screen.seconds
    environment = {name: value for name, value in os.environ.items() if name not in NOBODY}
    environment |= {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT), **dict(screen.variables)}
    environment.pop("COLUMNS", None)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "workers", *screen.words],
        cwd=screen.folder or None,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
        # Its terminal, as a person's: should this script be killed, the kernel hangs up and the command ends.
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - one system call, which needs no lock
    )
    os.close(theirs)
    interrupted = 0
    shown, until, stop = b"", time.monotonic() + 180, time.monotonic() + 190
    typed = keys.encode()
    while time.monotonic() < stop:
        if time.monotonic() > until:
            process.send_signal(signal.SIGINT)
            until, interrupted = stop, len(shown)
        if typed and shown and time.monotonic() > until - seconds / 2:
            os.write(ours, typed[:1])
            typed = typed[1:]
        if not select.select([ours], [], [], 0.1)[0]:
            continue
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # Linux: EIO at the end
            break
        if not chunk:
            break
        if seconds and not shown:  # a command that does not end is watched from its first line on
            until, stop = time.monotonic() + seconds, time.monotonic() + seconds + 10
        shown += chunk
    process.kill()
    process.wait()
    os.close(ours)
    parts = (shown[:interrupted], b"" if screen.bar else shown[interrupted:])
    if b"\x1b[?1049h" in shown:
        return last_frame(_text(shown))
    before, after = map(_text, parts)
    after = re.sub(r"[^\n]*\n(?:\r|\x1b\[\?25[hl])*\x1b\[1A\x1b\[2K", "", after)  # the bar is taken away
    return "\n".join(part for part in (last_lines(before), last_lines(after)) if part)


def _text(screen: bytes) -> str:
    return screen.decode("utf-8", "replace").replace("\r\n", "\n")


def last_lines(text: str) -> str:
    """Each line as it stood at the end: a bar is drawn again and again in one line."""
    lines = (re.split(r"\r|\x1b\[2K|\x1b\[1A", line) for line in text.split("\n"))
    shown = ([part for part in line if part.strip()][-1:] for line in lines)
    return re.sub(r"\x1b\[\?25[hl]", "", "\n".join("".join(line) for line in shown)).strip("\n")


def last_frame(text: str) -> str:
    """The last whole picture of a full-screen command; the text of any other."""
    if "\x1b[?1049h" not in text:
        return text
    shown = text.partition("\x1b[?1049h")[2]
    inside = shown.rpartition("\x1b[?1049l")[0] or shown
    frames = [frame for frame in inside.split("\x1b[H") if frame.strip()]
    whole = max(frames[-2:], key=lambda frame: frame.count("\n"), default="")  # the last one may have been interrupted
    return re.sub(r"\x1b\[\?[0-9]+[hl]", "", whole)


def picture(text: str, columns: int, title: str) -> str:
    """A terminal's text as SVG, without fonts from elsewhere."""
    console = Console(width=columns, record=True, file=StringIO(), force_terminal=True, color_system="standard")
    for line in text.splitlines():
        whole = Text.from_ansi(line)
        for part in whole.divide(range(columns, len(whole), columns)):  # as a terminal folds a long line
            console.print(part, soft_wrap=True)
    svg = console.export_svg(title=title, code_format=FORMAT)
    return re.sub(r"terminal-\d+", "t", svg)


FORMAT: Final = """<svg xml:space="preserve" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>.{unique_id}-matrix {{font-family: monospace; font-size: {char_height}px; line-height: {line_height}px}}
.{unique_id}-title {{font-family: monospace; font-size: 18px}}
{styles}</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


class Server(ThreadingHTTPServer):
    """Takes many connections at once: the default queue of five makes some wait for a second."""

    request_queue_size = 64


class Receiver(BaseHTTPRequestHandler):
    """Takes webhooks at /ok, is busy at /busy, and gone at /gone."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status = {"/ok": 200, "/gone": 410}.get(self.path, 503)
        body = json.dumps({"status": status, "note": "received" if status == 200 else "no room just now"}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write no log."""


def fleethook(*words: str, stdin: str = "", folder: str | None = None) -> str:
    """The output of a command; ends the script if the command fails."""
    command = [sys.executable, "-P", "-m", "workers", *words]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False, cwd=folder)
    if done.returncode:
        raise SystemExit(f"fleethook {' '.join(words)}: {done.stderr}")
    return done.stdout


def calls(numbers: Iterable[int], pause: float = 0.0) -> list[str]:
    """Tool calls of the agents, asked about one after the other; returns the events' ids."""
    from bus.client import Bus
    from bus.events import Event

    ids = []
    with Bus().sync() as bus:
        for number in numbers:
            source, session, tool, given = CALLS[number % len(CALLS)]
            event = Event(
                type="tool:pre_execute", source=source, session=session, tool=tool, input=given, cwd="/srv/app"
            )
            ids.append(bus.request(event).event)
            time.sleep(pause)
    return ids


def agents_at_home(home: Path) -> None:
    """Claude Code with its version, and the settings of Codex CLI and Gemini CLI."""
    for path, text in ((".claude/settings.json", '{"model": "opus"}'), (".gemini/settings.json", '{"ui": {}}')):
        (home / path).parent.mkdir()
        (home / path).write_text(text, "utf-8")
    for folder in (".codex", "bin"):
        (home / folder).mkdir()
    program = home / "bin" / "claude"
    program.write_text("#!/bin/sh\necho '2.1.330 (Claude Code)'\n", "utf-8")
    program.chmod(0o755)
    os.environ["PATH"] = f"{home / 'bin'}:{os.environ['PATH']}"


@contextmanager
def fleet() -> Iterator[dict[str, str]]:
    """Start a fleet with agents that have done something; yields the ids that the screens show."""
    server = Server(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="s-") as folder:
        home = Path(folder)
        os.chdir(home)
        os.environ |= {"HOME": folder, "PYTHONPATH": str(ROOT), "FLEETHOOK_HOST": "devbox", "SCREENS_SECRET": "s" * 32}
        for name in ("CONFIG", "DATA", "STATE", "CACHE"):
            os.environ[f"XDG_{name}_HOME"] = f"{folder}/{name.lower()}"
        os.environ["XDG_RUNTIME_DIR"] = f"{folder}/run"
        for name in [name for name in os.environ if name.startswith("FLEETHOOK_") and name != "FLEETHOOK_HOST"]:
            del os.environ[name]
        (home / "run").mkdir(mode=0o700)
        listening = _free_port()
        (home / "hooks.yaml").write_text(HOOKS.format(port=server.server_port, listening=listening), "utf-8")
        agents_at_home(home)
        (home / "tried.json").write_text(json.dumps(TRIED), "utf-8")
        (home / "candidate.yaml").write_text(CANDIDATE, "utf-8")
        for project in ("shop", "tested"):
            (home / project / ".git").mkdir(parents=True)
            subprocess.run(["git", "init", "-q", project], check=True)
        fleethook("hooks", "new", "no-deploy", "--yes", folder="tested")
        with up(os.environ, home, home / "up.log"):  # it ends also where this script is killed
            fleethook("hooks", "apply", "hooks.yaml", "--yes")
            fleethook("install", "claude", "--yes")
            fleethook("install", "codex", "--events", "PreToolUse,Stop", "--yes")
            ids = calls(range(len(CALLS)), 0.2)
            fleethook("publish", stdin='{"type": "session:end", "source": "codex", "session": "rollout-2291"}')
            for event in PLANNED:
                whole = {"source": "qwen", "session": "qw-20c1", "cwd": "/srv/app", **event}
                fleethook("request", stdin=json.dumps(whole))
            fleethook("plugins", "new", "house-style", "--to", f"{folder}/config/fleethook/plugins")
            fleethook("plugins", "enable", "house-style", "--yes")
            with held_call() as held:
                time.sleep(2)  # the deliveries are tried
                dead = json.loads(fleethook("dead", "list", "--json").splitlines()[0])["id"]
                yield {"deny": ids[6], "ask": ids[4], "held": held, "dead": dead, "listening": str(listening)}
        server.shutdown()


@contextmanager
def held_call() -> Iterator[str]:
    """A call that waits for a person; yields the id of its question."""
    command = [sys.executable, "-P", "-m", "workers", "request", "--budget", "3000"]
    waiting = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        assert waiting.stdin is not None
        waiting.stdin.write(json.dumps(HELD))
        waiting.stdin.close()
        until = time.monotonic() + 30
        while not (listed := json.loads(fleethook("approvals", "list", "--json"))) and time.monotonic() < until:
            time.sleep(0.2)
        yield str(listed[0]["id"])
    finally:
        waiting.kill()
        waiting.wait()


def main() -> None:
    """Make the pictures that the command line names; default: all."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # so that the folder is removed, too
    wanted = {word for word in sys.argv[1:] if not word.startswith("-")}
    plain = "--text" in sys.argv
    FOLDER.mkdir(exist_ok=True)
    with fleet() as ids:
        for screen in screens(ids):
            if wanted and screen.name not in wanted:
                continue
            with ThreadPoolExecutor(len(WIDTHS) if screen.together else 1) as pool:
                for columns, text in zip(WIDTHS, pool.map(partial(watched, screen), WIDTHS), strict=True):
                    if plain:
                        print(f"--- {screen.name} {columns}", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text), sep="\n")
                    else:
                        (FOLDER / f"{screen.name}-{columns}.svg").write_text(
                            picture(text, columns, "fleethook " + " ".join(screen.words)), "utf-8"
                        )


def watched(screen: Screen, columns: int) -> str:
    """What the command shows while agents go on, and what it changed taken back."""
    stop = threading.Event()
    if screen.seconds:
        work = {"listen": _turns, "tail": _agents, "watch": _agents}.get(screen.words[0], lambda _: None)
        threading.Thread(target=work, args=(stop,), daemon=True).start()
    text = terminal(screen, columns)
    stop.set()
    text = text.replace(str(ROOT), "/opt/fleethook")  # no picture names the folders of who made it
    if screen.after:
        command = [sys.executable, "-P", "-m", "workers", *screen.after]
        subprocess.run(command, capture_output=True, check=False)
    if screen.name == "replay":  # the next one does not wait for it
        fleethook("jobs", "stop", re.findall(r"job ([0-9a-f]{8})", text)[-1])
    return text


def _agents(stop: threading.Event) -> None:
    calls(itertools.takewhile(lambda _: not stop.is_set(), itertools.count()), 0.15)


def _turns(stop: threading.Event) -> None:
    while not stop.wait(2):
        fleethook("publish", stdin=json.dumps(TURN))


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
