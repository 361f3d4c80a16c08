"""A model that plays a script: it asks for one shell command, as often as it is to, and says `done` after the last result.

It speaks the four wires that the agent programs speak: Anthropic's messages, OpenAI's responses and chat completions, and
Gemini's generateContent; every request is kept, so a test can read what the agent told its model.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Frame = tuple[str, dict[str, Any]]
"""One server-sent event: its name (empty for none) and its data."""

Step = Callable[[], object]


def nothing() -> None:
    """A step of a script in which nothing happens."""


class Model:
    """What the model is to ask for, and everything that it was told."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.command = "true"
        self.before_calls: tuple[Step, ...] = (nothing,)
        """One for each call of the command: what happens just before the agent is asked for it."""
        self._lock, self._done = threading.Lock(), 0
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.came: dict[int, float] = {}
        """When the first request with so many results came, by `time.perf_counter`."""
        self.went: dict[int, float] = {}
        """When the call of this number was sent, for the last time."""

    def asks(self, command: str, *before_calls: Step) -> None:
        """Begin anew, with one command to run: once, or once after each of these."""
        self.command, self.before_calls, self._done = command, before_calls or (nothing,), 0
        for kept in (self.requests, self.paths, self.came, self.went):
            kept.clear()

    def wants(self, results: int) -> bool:
        """Whether it asks for the command once more, now that it has so many results."""
        return results < len(self.before_calls)

    def prepare_call(self, number: int) -> None:
        """Take the steps before the call of this number; an agent may send the same question twice."""
        with self._lock:
            while self._done <= number < len(self.before_calls):
                self._done += 1
                self.before_calls[self._done - 1]()

    @property
    def between(self) -> list[float]:
        """For each call, the seconds from the model's call to the request with its result: the agent's and its hooks' time."""
        return [self.came[number + 1] - at for number, at in sorted(self.went.items()) if number + 1 in self.came]

    @property
    def told(self) -> str:
        """All that the agent has sent, as text."""
        return json.dumps(self.requests, ensure_ascii=False)


@contextmanager
def playing() -> Iterator[Model]:
    """A model on a loopback port of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    model = Model(f"http://127.0.0.1:{server.server_address[1]}")
    server.model = model  # type: ignore[attr-defined]  # how http.server hands something to its handlers
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a body after its head would wait 40 ms for the client's acknowledgement

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's own name
        """Nothing: what matters is kept in the model."""

    def do_GET(self) -> None:
        """Lists and health checks: an empty list."""
        self._json({"object": "list", "data": [], "models": []})

    def do_HEAD(self) -> None:
        """Whether anybody is there."""
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        """One turn of the conversation."""
        body, came = self._body(), time.perf_counter()
        model: Model = self.server.model  # type: ignore[attr-defined]  # see `playing`
        path = self.path.split("?")[0]
        try:
            asked = json.loads(body or b"{}")
        except ValueError:
            asked = {}
        if not isinstance(asked, dict):
            self._json({})
            return
        model.paths.append(path)
        if path.endswith("/count_tokens"):
            self._json({"input_tokens": 10, "totalTokens": 10})
            return
        if path.endswith(":countTokens"):
            self._json({"totalTokens": 10})
            return
        model.requests.append(asked)
        wire = next((wire for part, wire in _WIRES.items() if part in path), None)
        if wire is None:
            self._json({})
            return
        count, play = wire
        results = count(asked)
        model.came.setdefault(results, came)
        frames = play(asked, model.command if model.wants(results) else "", results)
        if any(word in json.dumps(frames) for word in _CALLS):
            model.prepare_call(results)
            model.went[results] = time.perf_counter()
        if play is not content:
            self._reply(asked, frames)
        elif "stream" in path:
            self._events(frames)
        else:
            self._json(frames[0][1])

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        whole = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def _reply(self, asked: dict[str, Any], frames: list[Frame]) -> None:
        self._events(frames) if asked.get("stream") else self._json(whole(frames))

    def _json(self, value: dict[str, Any]) -> None:
        raw = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _events(self, frames: list[Frame]) -> None:
        text = "".join((f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n" for name, data in frames)
        if frames and "choices" in frames[0][1]:
            text += "data: [DONE]\n\n"
        raw = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


def whole(frames: list[Frame]) -> dict[str, Any]:
    """The same answer for a client that does not stream: a short text, which ends side questions (titles, summaries)."""
    if "choices" in frames[0][1]:
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "done"}}
        return {
            "id": "c",
            "object": "chat.completion",
            "model": "m",
            "created": 1,
            "usage": _USAGE,
            "choices": [choice],
        }
    return _MESSAGE | {"stop_reason": "end_turn", "content": [{"type": "text", "text": "done"}]}


_MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def message_results(asked: dict[str, Any]) -> int:
    """How many results of calls it was told."""
    contents = [message.get("content") for message in asked.get("messages", [])]
    parts = [part for content in contents if isinstance(content, list) for part in content if isinstance(part, dict)]
    return sum(part.get("type") == "tool_result" for part in parts)


def messages(asked: dict[str, Any], command: str, results: int) -> list[Frame]:
    """Anthropic's messages, as Claude Code asks them; without a command it is done."""
    knows = any(tool.get("name") == "Bash" for tool in asked.get("tools", []))
    if not command or not knows:
        block: dict[str, Any] = {"type": "text", "text": ""}
        delta: dict[str, Any] = {"type": "text_delta", "text": "done"}
        reason = "end_turn"
    else:
        block = {"type": "tool_use", "id": f"toolu_0{results + 1}", "name": "Bash", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps({"command": command, "description": "a step"})}
        reason = "tool_use"
    return [
        ("message_start", {"type": "message_start", "message": _MESSAGE}),
        ("content_block_start", {"type": "content_block_start", "index": 0, "content_block": block}),
        ("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}),
        ("content_block_stop", {"type": "content_block_stop", "index": 0}),
        (
            "message_delta",
            {
                "type": "message_delta",
                "delta": {"stop_reason": reason, "stop_sequence": None},
                "usage": {"output_tokens": 1},
            },
        ),
        ("message_stop", {"type": "message_stop"}),
    ]


def response_results(asked: dict[str, Any]) -> int:
    """How many results of calls it was told."""
    items = asked.get("input", [])
    return sum(isinstance(item, dict) and item.get("type") == "function_call_output" for item in items)


def responses(asked: dict[str, Any], command: str, results: int) -> list[Frame]:
    """OpenAI's responses, as Codex asks them."""
    if not command:
        item: dict[str, Any] = {
            "type": "message",
            "id": "m1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "done", "annotations": []}],
        }
    else:
        names = {tool.get("name") for tool in asked.get("tools", [])}
        name = next((one for one in ("exec_command", "shell_command", "shell") if one in names), "exec_command")
        said: dict[str, Any] = {"cmd": command} if name == "exec_command" else {"command": command}
        if name == "shell":
            said = {"command": ["bash", "-lc", command]}
        item = {
            "type": "function_call",
            "id": f"f{results + 1}",
            "call_id": f"call_{results + 1}",
            "name": name,
            "status": "completed",
            "arguments": json.dumps(said),
        }
    done = {
        "id": "r1",
        "object": "response",
        "status": "completed",
        "model": "m",
        "output": [item],
        "usage": {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        },
    }
    return [
        ("response.created", {"type": "response.created", "response": {**done, "status": "in_progress", "output": []}}),
        ("response.output_item.added", {"type": "response.output_item.added", "output_index": 0, "item": item}),
        ("response.output_item.done", {"type": "response.output_item.done", "output_index": 0, "item": item}),
        ("response.completed", {"type": "response.completed", "response": done}),
    ]


def completion_results(asked: dict[str, Any]) -> int:
    """How many results of calls it was told."""
    return sum(message.get("role") == "tool" for message in asked.get("messages", []))


def completions(asked: dict[str, Any], command: str, results: int) -> list[Frame]:
    """OpenAI's chat completions, as Qwen Code and OpenCode ask them."""
    names = {tool.get("function", {}).get("name") for tool in asked.get("tools", [])}
    name = next((one for one in ("run_shell_command", "bash") if one in names), "")
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    if not command or not name:
        delta: dict[str, Any] = {"role": "assistant", "content": "done"}
        reason = "stop"
    else:
        said: dict[str, Any] = {"command": command, "description": "a step"}
        if name == "run_shell_command":
            said["is_background"] = False
        call = {
            "index": 0,
            "id": f"call_{results + 1}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(said)},
        }
        delta, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    return [
        ("", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}),
        ("", {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": _USAGE}),
    ]


def content_results(asked: dict[str, Any]) -> int:
    """How many results of calls it was told."""
    parts = [part for one in asked.get("contents", []) for part in one.get("parts", [])]
    return sum("functionResponse" in part for part in parts)


def content(asked: dict[str, Any], command: str, results: int) -> list[Frame]:
    """Gemini's generateContent."""
    names = {one.get("name") for tool in asked.get("tools", []) for one in tool.get("functionDeclarations", [])}
    part: dict[str, Any] = {"text": "done"}
    if "run_shell_command" in names and command:
        part = {"functionCall": {"name": "run_shell_command", "args": {"command": command, "description": "a step"}}}
    return [
        (
            "",
            {
                "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
                "modelVersion": "m",
            },
        )
    ]


_CALLS = ('"tool_use"', '"function_call"', '"tool_calls"', '"functionCall"')
_WIRES: dict[str, tuple[Callable[[dict[str, Any]], int], Callable[[dict[str, Any], str, int], list[Frame]]]] = {
    "/messages": (message_results, messages),
    "/responses": (response_results, responses),
    "/chat/completions": (completion_results, completions),
    "enerateContent": (content_results, content),
}
