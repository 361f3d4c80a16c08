#!/usr/bin/env python3
"""One dispatcher for five CLIs, as of February 2026."""
import argparse, json, os, sys, urllib.error, urllib.request
from pathlib import Path

CRITICAL = {"claude": {"session-start", "session-end", "pre-compact"}, "gemini": {"SessionStart"}, "copilot": {"sessionStart", "sessionEnd"}, "cursor": {"sessionStart", "sessionEnd", "preCompact"}, "windsurf": {"pre_user_prompt"}}


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args):
        return None


OPEN = urllib.request.build_opener(NoRedirect, urllib.request.ProxyHandler({}))


def daemon_url():
    boot = Path.home() / ".gobby" / "bootstrap.yaml"
    port = 60887
    if boot.exists():
        for line in boot.read_text().splitlines():
            if line.startswith("daemon_port:"):
                port = int(line.split(":")[1])
    return f"http://localhost:{port}"


def disabled():
    if os.environ.get("GOBBY_HOOKS_DISABLED"):
        return True
    for folder in (Path.cwd(), *Path.cwd().parents):
        file = folder / ".gobby" / "project.json"
        if file.exists():
            return json.loads(file.read_text()).get("hooks_disabled") is True
    return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--type", required=True)
    parser.add_argument("--cli", default="claude")
    parser.add_argument("--debug", action="store_true")
    try:
        args = parser.parse_args()
    except SystemExit:
        return 2
    if disabled():
        print("{}")
        return 0
    url = daemon_url()
    try:
        with OPEN.open(f"{url}/admin/status", timeout=5) as answer:
            running = answer.status == 200
    except OSError:
        running = False
    if not running:
        if args.type in CRITICAL.get(args.cli, ()):
            print("Gobby daemon is not running", file=sys.stderr)
            return 2
        print(json.dumps({"status": "daemon_not_running", "message": "gobby daemon is not running"}))
        return 0
    try:
        data = json.load(sys.stdin)
    except ValueError:
        print("{}")
        return 1 if args.cli == "gemini" else 2
    if args.type in ("session-start", "SessionStart", "sessionStart"):
        data["terminal_context"] = {"parent_pid": os.getppid(), "tty": None, "term_program": os.environ.get("TERM_PROGRAM")}
    source = args.cli
    if args.cli == "claude":
        source = os.environ.get("GOBBY_SOURCE") or ("claude_sdk" if os.environ.get("CLAUDE_CODE_ENTRYPOINT") == "sdk-py" else "claude")
    body = json.dumps({"hook_type": args.type, "input_data": data, "source": source}).encode()
    try:
        with OPEN.open(urllib.request.Request(f"{url}/hooks/execute", body, {"Content-Type": "application/json"}), timeout=90) as answer:
            result = json.loads(answer.read())
    except Exception as error:
        print(json.dumps({"status": "error", "message": str(error)}))
        return 1
    refused = result.get("continue") is False or result.get("decision") in ("deny", "block") or result.get("permissionDecision") == "deny"
    if refused:
        print(result.get("stopReason") or result.get("user_message") or result.get("reason") or "Blocked by hook", file=sys.stderr)
        return 2
    if result:
        print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
