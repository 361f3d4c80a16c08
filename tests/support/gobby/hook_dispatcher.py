"""Gobby's hook dispatcher, as its public releases behave; only the standard library, as there.

Written for the tests from what Gobby's public history shows (its scripts of 2026-01-03, of the rest of January 2026, and of
2026-02-22, one for five programs); no line is copied. The behaviour is that of the three releases: the status check with half
a second, the post with 30 or 90 seconds, the texts on stdout and stderr, and the exit codes. `GOBBY_RELEASE` chooses one:
`2026-01-03`, `2026-01-10` or `2026-02-22`. On a busy machine half a second may be too short, so the tests set
`GOBBY_STATUS_SECONDS`.
"""

import argparse
import json
import os
import sys
import urllib.error
import urllib.request
from typing import Any

RELEASE = os.environ.get("GOBBY_RELEASE", "2026-02-22")
DEFAULT_PORT = 60887 if RELEASE >= "2026-02" else 8765
STATUS_SECONDS = float(os.environ.get("GOBBY_STATUS_SECONDS", "0.5"))
SECONDS = 90 if RELEASE >= "2026-02" else 30
CRITICAL = {
    "claude": {"session-start", "session-end", "pre-compact"},
    "gemini": {"SessionStart"},
    "copilot": {"sessionStart", "sessionEnd"},
    "cursor": {"sessionStart", "sessionEnd", "preCompact"},
    "windsurf": {"pre_user_prompt"},
}


class NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **more: Any) -> None:
        return None


def port() -> int:
    for name in ("bootstrap.yaml", "config.yaml"):
        path = os.path.expanduser(os.path.join("~/.gobby", name))
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                for line in file:
                    if line.startswith("daemon_port:"):
                        return int(line.partition(":")[2])
    return DEFAULT_PORT


def url(path: str) -> str:
    return f"http://localhost:{port()}{path}"


OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirects())


def daemon_runs() -> bool:
    try:
        with OPENER.open(url("/admin/status"), timeout=STATUS_SECONDS) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def refusal(cli: str, answer: dict[str, Any]) -> str | None:
    """Why the answer refuses, or None."""
    decisions = {"block"}
    if RELEASE >= "2026-02" or cli == "gemini":
        decisions |= {"deny"}
    refused = answer.get("continue") is False or answer.get("decision") in decisions
    if RELEASE >= "2026-02":
        refused = refused or answer.get("permissionDecision") == "deny"
    if not refused:
        return None
    for name in ("stopReason", "user_message", "reason", "permissionDecisionReason"):
        if answer.get(name):
            return str(answer[name])
    return "Blocked by hook"


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--type", required=True)
    parser.add_argument("--cli", default="claude")
    parser.add_argument("--debug", action="store_true")
    asked = parser.parse_args()
    cli: str = asked.cli
    if RELEASE >= "2026-02" and os.environ.get("GOBBY_HOOKS_DISABLED"):
        say("{}")
        return 0
    try:
        fields = json.load(sys.stdin)
    except ValueError:
        say("{}")
        return 1 if cli == "gemini" else 2
    if not daemon_runs():
        text = "gobby daemon is not running"
        if RELEASE > "2026-01-03" and asked.type in CRITICAL.get(cli, ()):
            sys.stderr.write(f"{text}\n")
            return 2
        say(json.dumps({"status": "daemon_not_running", "message": text}))
        return 0
    source = os.environ.get("GOBBY_SOURCE") or cli
    if cli == "claude" and os.environ.get("CLAUDE_CODE_ENTRYPOINT") == "sdk-py":
        source = "claude_sdk"
    body = json.dumps({"hook_type": asked.type, "input_data": fields, "source": source}).encode()
    request = urllib.request.Request(url("/hooks/execute"), body, {"Content-Type": "application/json"})
    try:
        with OPENER.open(request, timeout=SECONDS) as response:
            status, raw = response.status, response.read()
        answer = json.loads(raw)
    except (OSError, ValueError) as error:
        say(json.dumps({"status": "error", "message": str(error)}))
        return 1
    if status != 200:
        say(json.dumps({"status": "error", "message": f"daemon answered {status}"}))
        return 1
    if RELEASE > "2026-01-03":
        reason = refusal(cli, answer)
        if reason is not None:
            sys.stderr.write(f"{reason}\n")
            return 2
    if answer:
        say(json.dumps(answer))
    return 2 if cli == "gemini" and answer.get("decision") == "deny" else 0


if __name__ == "__main__":
    sys.exit(main())
