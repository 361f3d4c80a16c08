#!/usr/bin/env python3
"""2026-01-03: refusals of Claude are JSON and exit 0, gemini's deny exits 2."""
import json, sys, urllib.request
from pathlib import Path

args = dict(a[2:].split("=", 1) for a in sys.argv[1:] if a.startswith("--") and "=" in a)
cli = args.get("cli", "claude")
if "type" not in args:
    print("{}")
    sys.exit(2)
port = 8765
config = Path.home() / ".gobby" / "config.yaml"
if config.exists():
    port = next((int(line.split(":")[1]) for line in config.read_text().splitlines() if line.startswith("daemon_port:")), port)
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    opener.open(f"http://localhost:{port}/admin/status", timeout=5)
except OSError:
    print(json.dumps({"status": "daemon_not_running", "message": "x"}))
    sys.exit(0)
try:
    data = json.loads(sys.stdin.read())
except ValueError:
    print("{}")
    sys.exit(1 if cli == "gemini" else 2)
try:
    request = urllib.request.Request(f"http://localhost:{port}/hooks/execute", json.dumps({"hook_type": args["type"], "input_data": data, "source": cli}).encode(), {"Content-Type": "application/json"})
    result = json.loads(opener.open(request, timeout=30).read())
except Exception as error:
    print(json.dumps({"status": "error", "message": str(error)}))
    sys.exit(1)
if result:
    print(json.dumps(result))
sys.exit(2 if cli == "gemini" and result.get("decision") == "deny" else 0)
