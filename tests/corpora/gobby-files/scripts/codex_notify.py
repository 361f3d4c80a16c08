#!/usr/bin/env python3
"""Codex notify."""
import json, sys, urllib.request
from pathlib import Path
try:
    raw = json.loads(sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read())
    thread = next((raw[k] for k in ("session_id", "thread_id", "threadId", "conversation_id", "conversationId") if raw.get(k)), None) or (raw.get("thread") or {}).get("id") or (raw.get("session") or {}).get("id")
    data = {"session_id": thread, "event_type": raw.get("type", "agent-turn-complete"), "last_message": raw.get("last-assistant-message"), "input_messages": raw.get("input-messages", []), "turn_id": raw.get("turn-id")}
    port = next(int(line.split(":")[1]) for line in (Path.home() / ".gobby/config.yaml").read_text().splitlines() if line.startswith("daemon_port:"))
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(urllib.request.Request(f"http://localhost:{port}/hooks/execute", json.dumps({"hook_type": "AgentTurnComplete", "input_data": data, "source": "codex"}).encode(), {"Content-Type": "application/json"}), timeout=2)
except Exception:
    pass
