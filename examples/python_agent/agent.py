"""An agent in Python whose every step goes over the bus: a loop, two tools, and a model that follows a script.

    fleethook up --detach
    fleethook hooks apply examples/python_agent/fleethook.yaml
    python examples/python_agent/agent.py "tidy up"

A real agent has a model's client in place of `Script`; nothing else would change.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from bus import Bus, Denied

Message = dict[str, Any]
Tools = dict[str, Callable[..., Coroutine[Any, Any, str]]]


class Script:
    """A model that makes these tool calls, one in each turn, and then says that it is done."""

    def __init__(self, *wishes: tuple[str, dict[str, Any]]) -> None:
        self._wishes = list(wishes)

    async def answer(self, messages: list[Message]) -> Message:
        """The model's next message; it has read the others."""
        if self._wishes:
            name, given = self._wishes.pop(0)
            return {"role": "assistant", "tool": name, "input": given}
        return {"role": "assistant", "content": f"done after {len(messages)} messages"}


def tools_in(folder: Path, bus: Bus) -> Tools:
    """The agent's tools; each call is asked for, and recorded with its result or its error."""

    @bus.tool_call
    async def bash(command: str) -> str:
        done = subprocess.run(  # noqa: ASYNC221 - the example has nothing else to do meanwhile
            ["/bin/sh", "-c", command], cwd=folder, capture_output=True, text=True, check=True
        )
        return done.stdout

    @bus.tool_call
    async def write(path: str, content: str) -> str:
        (folder / path).write_text(content, encoding="utf-8")
        return f"{len(content)} characters"

    return {"bash": bash, "write": write}


async def use(tools: Tools, name: str, given: dict[str, Any]) -> str:
    """The model's message about a tool call."""
    try:
        return await tools[name](**given)
    except Denied as denied:
        return f"blocked: {denied.reason}"
    except (OSError, subprocess.CalledProcessError) as error:
        return f"failed: {error}"


async def work(bus: Bus, model: Script, tools: Tools, task: str) -> str:
    """Do the user's task: take turns until the model needs no more tools, and no hook objects to the end."""
    async with bus.session(source="python-agent", model="script"), bus.prompt(task) as prompt:
        messages: list[Message] = [{"role": "user", "content": task}]
        if prompt.context:
            messages.append({"role": "system", "content": prompt.context})
        while True:
            async with bus.turn():
                async with bus.llm(message_count=len(messages)) as call:
                    said = call.response = await model.answer(messages)
                messages.append(said)
                if "tool" in said:
                    outcome = await use(tools, said["tool"], said["input"])
                    messages.append({"role": "tool", "content": outcome})
                    print(f"{said['tool']} {said['input']} -> {outcome.strip()}")
                    continue
            more = await bus.stop(said["content"])
            if not more:
                return str(said["content"])
            messages.append({"role": "user", "content": more})
            print(f"told to go on: {more}")


async def main(task: str) -> None:
    """One task, in a folder of its own."""
    wishes = Script(
        ("write", {"path": "notes.txt", "content": "one\ntwo\n"}),
        ("bash", {"command": "rm -rf drafts"}),
        ("bash", {"command": "cat notes.txt"}),
        ("bash", {"command": "exit 3"}),
    )
    with tempfile.TemporaryDirectory() as folder:
        async with Bus(on_failure="deny") as bus:
            try:
                print(await work(bus, wishes, tools_in(Path(folder), bus), task))
            except Denied as denied:
                print(f"not taken on: {denied.reason}")


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "tidy up"))
