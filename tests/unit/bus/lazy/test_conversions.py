"""Threads may convert to one type at the same moment for the first time, and nothing else than `conversions` reads types."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TREE = Path(__file__).parents[4]

THREADS = """
import sys, threading
import msgspec
from bus.lazy.conversions import converted, from_json, from_msgpack, msgpack_decoder

def decoded(value, kind):
    return msgpack_decoder(kind).decode(msgspec.msgpack.encode(value))

ways = [converted, lambda value, kind: from_json(msgspec.json.encode(value), kind), decoded,
        lambda value, kind: from_msgpack(msgspec.msgpack.encode(value), kind)]
sys.setswitchinterval(1e-6)
for _ in range(20):
    inner = msgspec.defstruct("Inner", [(f"field{n}", int | None, None) for n in range(30)])
    outer = [msgspec.defstruct("Outer", [("one", inner), ("more", list[inner])]) for _ in range(2)]
    gate = threading.Barrier(8)

    def convert(number):
        gate.wait()
        ways[number // 2]({"one": {"field1": 1}, "more": [{}]}, outer[number % 2])

    threads = [threading.Thread(target=convert, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


@pytest.mark.req("B-05")
def test_eight_threads_convert_to_new_types_at_once() -> None:
    """In a process of its own: with msgspec's own functions it ends by a segmentation fault at once (0.22)."""
    done = subprocess.run([sys.executable, "-c", THREADS], cwd=TREE, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_else_has_msgspec_read_a_type() -> None:
    found = [
        f"{path.relative_to(TREE)}:{line}"
        for folder in ("bus", "workers")
        for path in sorted((TREE / folder).rglob("*.py"))
        if path != TREE / "bus/lazy/conversions.py"
        for line in reads_types(path.read_text(encoding="utf-8"))
    ]
    assert found == [], "use bus/lazy/conversions.py: msgspec's own functions are not safe in threads"


def test_the_check_finds_what_it_looks_for() -> None:
    text = (
        "msgspec.convert(a, B)\nmsgspec.json.decode(a)\njson.decode(a, type=B)\nDecoder(B)\nmsgspec.msgpack.Decoder()\n"
    )
    assert list(reads_types(text)) == [1, 3, 4]


def reads_types(text: str) -> Iterator[int]:
    """The lines of a module that call msgspec's functions with a type."""
    if not any(word in text for word in ("msgspec", "Decoder", "type=")):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            called, typed = ast.unparse(node.func), any(word.arg == "type" for word in node.keywords)
            decodes = called.endswith(("json.decode", "msgpack.decode", "yaml.decode", "toml.decode")) and typed
            makes = called.rpartition(".")[2] == "Decoder" and bool(node.args or node.keywords)
            if decodes or makes or called == "msgspec.convert":
                yield node.lineno
