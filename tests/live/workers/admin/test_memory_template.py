"""The template `memory` as programs: its MCP tools over stdio, and many processes on one SQLite file (I-10, I-11)."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[4] / "examples" / "templates" / "memory" / "scripts"
PROCESSES = 8

pytestmark = pytest.mark.req("I-10", "I-11")


def test_its_tools_speak_mcp_and_refuse_what_is_wrong(tmp_path: Path) -> None:
    calls: list[dict[str, object]] = [
        {"method": "initialize", "params": {"protocolVersion": "2025-06-18"}},
        {"method": "tools/list"},
        {
            "method": "tools/call",
            "params": {"name": "remember", "arguments": {"text": "ünï \ud800 '; DROP TABLE notes"}},
        },
        {"method": "tools/call", "params": {"name": "recall", "arguments": {"query": "drop"}}},
        {"method": "tools/call", "params": {"name": "recall", "arguments": {"query": "drop", "limit": 0}}},
        {"method": "tools/call", "params": {"name": "forget"}},
        {"method": "nothing"},
    ]
    lines = [json.dumps({"jsonrpc": "2.0", "id": number, **call}) for number, call in enumerate(calls)]
    lines.insert(1, json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "server.py")],
        input="\n".join([*lines, "{"]),
        env={"MEMORY_DB": str(tmp_path / "m.db"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert answers[0]["result"]["serverInfo"]["name"] == "memory"
    assert [tool["name"] for tool in answers[1]["result"]["tools"]] == ["remember", "recall"]
    assert answers[3]["result"]["content"][0]["text"] == "- ünï ? '; DROP TABLE notes"
    assert answers[4]["result"]["isError"] is True
    assert [answers[number]["error"]["code"] for number in (5, 6, None)] == [-32602, -32601, -32700]
    assert (tmp_path / "m.db").stat().st_mode & 0o777 == 0o600


def test_many_processes_write_to_one_file_and_lose_nothing(tmp_path: Path) -> None:
    def write(number: int) -> None:
        program = f"import store\nfor n in range(5): store.add_note('/p', f'note {number} {{n}}')"
        environment = {"MEMORY_DB": str(tmp_path / "m.db"), "PYTHONPATH": str(SCRIPTS), "HOME": str(tmp_path)}
        subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True)

    with ThreadPoolExecutor(PROCESSES) as pool:
        list(pool.map(write, range(PROCESSES)))
    program = "import store; print(len(store.find_notes('', '/p', 1000)))"
    environment = {"MEMORY_DB": str(tmp_path / "m.db"), "PYTHONPATH": str(SCRIPTS), "HOME": str(tmp_path)}
    counted = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    )
    assert int(counted.stdout) == 5 * PROCESSES
