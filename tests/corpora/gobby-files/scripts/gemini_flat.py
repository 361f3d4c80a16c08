"""Sends Gemini's event as it is: the fields at the top level, beside source and hook_type."""

import json
import sys
import urllib.request
from pathlib import Path

port = 60887
for line in (Path.home() / ".gobby" / "bootstrap.yaml").read_text().splitlines():
    key, _, value = line.partition(":")
    port = int(value) if key.strip() == "daemon_port" else port
event = json.load(sys.stdin)
event.update(source="gemini", hook_type=event["hook_event_name"])
request = urllib.request.Request(
    f"http://localhost:{port}/hooks/execute", json.dumps(event).encode(), {"Content-Type": "application/json"}
)
with urllib.request.urlopen(request, timeout=60) as response:
    answer = json.load(response)
if answer.get("decision") in ("deny", "block"):
    sys.stderr.write(answer.get("reason", ""))
    raise SystemExit(2)
json.dump(answer, sys.stdout)
