"""Hooks of Claude Code and of ion, which has the same plugins; a command runs as its own system would run it.

`reading`, `event_reader` and `plugins` read the files. `matching`, `permission_rules` and `run_by_claude` decide which
hooks run. `stdin` makes a command's input, and `output` reads its result.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bus.agents.claude import NAME as CLAUDE
from bus.config.hook_file_value import HookFile
from bus.events import Event
from bus.hookfiles.claude.command_output import ION, command_outcome, json_outcome
from bus.hookfiles.claude.matching import TOOL_EVENTS, field, matches, moment, tool_name_for_hook
from bus.hookfiles.claude.permission_rules import holds
from bus.hookfiles.claude.reading import read
from bus.hookfiles.claude.run_by_claude import claude_runs
from bus.hookfiles.claude.stdin import encode, payload
from bus.hooks import Hook, Layer
from bus.matching.paths import place_of
from bus.outcomes import Outcome
from bus.system.processes import Finished
from bus.verdicts import Policy, Verdict


class _Hooks:
    """Exit 0 answers on stdout; exit 2 blocks, with stderr as the reason; any other exit is a failure that blocks nothing."""

    policy: Policy | None = "allow"
    one_stream = False

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, path: Path, layer: Layer) -> HookFile:
        """The hooks of a settings file, a hooks.json, a plugin's folder, or a folder of plugins, `.claude` or `.ion`."""
        return read(path, layer, self.name)

    def applies(self, hook: Hook, event: Event) -> bool:
        """Whether its matchers and its `if` fit (I-06), and Claude Code does not run the hook itself."""
        if claude_runs(hook, event):
            return False
        name, rule = _moment(hook), hook.own.get("if")
        if not matches(name, hook.own.get("matchers", ()), event):
            return False
        return rule is None or (name in TOOL_EVENTS and holds(rule, event))

    def variables(self, hook: Hook, event: Event) -> Mapping[str, str]:
        """CLAUDE_PROJECT_DIR, the plugin's folders (it creates the data folder), and ION_… for ion's hooks (I-07)."""
        project = hook.own.get("project") or (place_of(event.cwd).project if event.cwd else "")
        found = {"CLAUDE_PROJECT_DIR": project} if project else {}
        if event.session:
            found["CLAUDE_CODE_SESSION_ID"] = event.session
        if event.source == CLAUDE:
            found["CLAUDECODE"] = "1"
        effort = event.data.get("effort")
        if isinstance(effort, dict) and isinstance(effort.get("level"), str):
            found["CLAUDE_EFFORT"] = effort["level"]
        root, data = hook.own.get("root"), hook.own.get("data")
        if root:
            found |= {"CLAUDE_PLUGIN_ROOT": root, "PLUGIN_ROOT": root}
        if data:
            found["CLAUDE_PLUGIN_DATA"] = folder = os.path.expanduser(data)
            with contextlib.suppress(
                OSError
            ):  # scripts expect the folder; if it cannot be made, their own error says so
                os.makedirs(folder, exist_ok=True)
        if self.name == ION:
            found |= _ion_variables(event)
        return found

    def stdin(self, hook: Hook, event: Event) -> bytes:
        """Claude Code's JSON, one line; for another agent's event, with tool and input in Claude Code's names (I-02)."""
        return encode(payload(_moment(hook), event, _tool(hook, event), ion=self.name == ION))

    def outcome(self, hook: Hook, event: Event, done: Finished, seconds: float) -> Outcome:
        """The decision, context or changed input, from the exit code and stdout (I-03)."""
        return command_outcome(hook, _moment(hook), event, _tool(hook, event), done, seconds)

    def http_body(self, event: Event, verdict: Verdict | None, hook: Hook | None = None) -> bytes:  # noqa: ARG002 - the seam's arguments
        """The body for an http hook: the same bytes as a command's stdin."""
        if hook is not None:
            return self.stdin(hook, event)
        return encode(payload(moment(event), event, tool_name_for_hook(event, ()), ion=self.name == ION))

    def http_headers(self, event: Event) -> Mapping[str, str]:  # noqa: ARG002 - as above
        """None of its own."""
        return {}

    def http_refusal(self, raw: bytes, hook: Hook, event: Event) -> Outcome | None:  # noqa: ARG002 - as above
        """None: every 4xx is a failure."""
        return None

    def http_answer(self, raw: bytes, hook: Hook, event: Event) -> Outcome:
        """The outcome of an http hook's answer: only a JSON object is valid; any other answer is a failure."""
        return json_outcome(hook, _moment(hook), event, _tool(hook, event), raw)


def _moment(hook: Hook) -> str:
    """Claude Code's name of the event that the hook is for."""
    name = hook.own.get("event")
    return name if isinstance(name, str) else ""


def _tool(hook: Hook, event: Event) -> str:
    if _moment(hook) not in TOOL_EVENTS:
        return ""
    return tool_name_for_hook(event, hook.own.get("matchers", ()))


def _ion_variables(event: Event) -> dict[str, str]:
    model = field(event, "model")
    model_fields = model if isinstance(model, dict) else {"name": model, "provider": field(event, "provider")}
    name = next((value for key in ("name", "slug", "id") if isinstance(value := model_fields.get(key), str)), "")
    provider = model_fields.get("provider")
    return {
        "ION_SESSION_ID": event.session,
        "ION_CWD": event.cwd,
        "ION_MODEL": name,
        "ION_PROVIDER": provider if isinstance(provider, str) else "",
    }


HOOKS: Final = {CLAUDE: _Hooks(CLAUDE), ION: _Hooks(ION)}
