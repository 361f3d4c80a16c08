"""One vocabulary of tools over all agents: canonical names and input fields, and the way back (X-01)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from bus.events import source_name

CANONICAL: Final[Mapping[str, tuple[str, ...]]] = {
    "bash": ("command", "cwd"),
    "read": ("path",),
    "write": ("path", "content"),
    "edit": ("path", "old", "new", "patch"),
    "delete": ("path",),
    "glob": ("pattern", "path"),
    "grep": ("pattern", "path"),
    "list": ("path",),
    "web_fetch": ("url",),
    "web_search": ("query",),
    "task": ("prompt", "agent"),
    "todo": ("todos",),
    "notebook_edit": ("path", "content"),
}
"""Every canonical tool and its canonical input fields; an MCP tool is `mcp__<server>__<tool>` with its own fields."""


class Use(NamedTuple):
    """What one agent's tool is: its canonical name, and by canonical field the agent's own names for it.

    Several own names are spellings of different versions; the first that a call has is read, and the first is written
    where it has none. A canonical field that is not listed has the same name in the agent.
    """

    tool: str
    fields: Mapping[str, tuple[str, ...]]
    closed: bool = False
    """The agent takes no field back that it did not send: a changed one would be ignored without a word."""


def _use(tool: str, **fields: str) -> Use:
    return Use(tool, {name: tuple(own.split("|")) for name, own in fields.items()})


_CLAUDE: Final = {
    "Bash": _use("bash"),
    "PowerShell": _use("bash"),
    "Monitor": _use("bash"),  # runs a command in the background: a guard on commands has to see it
    "Read": _use("read", path="file_path"),
    "NotebookRead": _use("read", path="notebook_path"),
    "Write": _use("write", path="file_path"),
    "Edit": _use("edit", path="file_path", old="old_string", new="new_string"),
    "MultiEdit": _use("edit", path="file_path"),
    "NotebookEdit": _use("notebook_edit", path="notebook_path", content="new_source"),
    "Glob": _use("glob"),
    "Grep": _use("grep"),
    "LS": _use("list"),
    "WebFetch": _use("web_fetch"),
    "WebSearch": _use("web_search"),
    "Agent": _use("task", agent="subagent_type"),
    "Task": _use("task", agent="subagent_type"),
    "TodoWrite": _use("todo"),
}  # fmt: skip

_GEMINI: Final = {
    "run_shell_command": _use("bash", cwd="dir_path|directory"),
    "read_file": _use("read", path="file_path|absolute_path|path"),
    "read_many_files": _use("read", path="include|paths"),
    "write_file": _use("write", path="file_path"),
    "replace": _use("edit", path="file_path", old="old_string", new="new_string"),
    "glob": _use("glob", path="dir_path|path"),
    "grep_search": _use("grep", path="dir_path|path"),
    "search_file_content": _use("grep", path="dir_path|path"),
    "list_directory": _use("list", path="dir_path|path"),
    "web_fetch": _use("web_fetch", url="url|prompt"),  # addresses stand in its prompt
    "google_web_search": _use("web_search"),
    "write_todos": _use("todo"),
    "invoke_agent": _use("task", agent="agent_name"),
}  # fmt: skip

_QWEN: Final = {
    "run_shell_command": _use("bash", cwd="directory"),
    "monitor": _use("bash", cwd="directory"),  # runs a command in the background
    "read_file": _use("read", path="file_path|absolute_path|path"),
    "zoom_image": _use("read", path="file_path"),
    "write_file": _use("write", path="file_path"),
    "edit": _use("edit", path="file_path", old="old_string", new="new_string"),
    "notebook_edit": _use("notebook_edit", path="notebook_path", content="new_source"),
    "glob": _use("glob"),
    "grep_search": _use("grep"),
    "list_directory": _use("list"),
    "web_search": _use("web_search"),
    "todo_write": _use("todo"),
    "agent": _use("task", agent="subagent_type"),
    "task": _use("task", agent="subagent_type"),
    "create_sub_session": _use("task"),
}  # fmt: skip

TABLE: Final[Mapping[str, Mapping[str, Use]]] = {
    "claude": _CLAUDE,
    "codex": {
        # What its hooks call every shell tool and every patch; the other shells are the tools' own names.
        "Bash": _use("bash")._replace(closed=True),
        "shell": _use("bash", cwd="workdir"),
        "shell_command": _use("bash", cwd="workdir"),
        "container.exec": _use("bash", cwd="workdir"),
        "local_shell": _use("bash", cwd="workdir|working_directory"),
        "exec_command": _use("bash", command="cmd|command", cwd="workdir"),
        "write_stdin": _use("bash", command="chars"),  # types into a shell that runs: a guard has to see it
        "apply_patch": _use("edit", patch="command|input|patch")._replace(closed=True),
        "read_file": _use("read", path="file_path"),
        "view_image": _use("read"),
        "list_dir": _use("list", path="dir_path"),
        "grep_files": _use("grep"),
        "web_search": _use("web_search"),
        "spawn_agent": _use("task", prompt="message", agent="agent_type"),
        "multi_agent_v1spawn_agent": _use("task", prompt="message", agent="agent_type"),
        "update_plan": _use("todo", todos="plan"),
    },
    "gemini": _GEMINI,
    "qwen": {**_QWEN, **_GEMINI, **_QWEN},  # today's names first, then those of older versions, which are Gemini's
    "cursor": {
        "Shell": _use("bash", cwd="working_directory|cwd"),
        "Read": _use("read", path="file_path|path|target_file"),
        "Write": _use("write", path="file_path|path", content="content|contents"),
        "TabRead": _use("read", path="file_path|path"),
        "TabWrite": _use("write", path="file_path|path"),
        "Edit": _use("edit", path="file_path|path", old="old_string", new="new_string"),
        "ApplyPatch": _use("edit", patch="patch|input|patch_text"),
        "EditNotebook": _use("notebook_edit", path="target_notebook|notebook_path", content="new_string|new_source"),
        "StrReplace": _use("edit", path="file_path|path", old="old_string", new="new_string"),
        "Delete": _use("delete", path="file_path|path|target_file"),
        "Glob": _use("glob", pattern="glob_pattern|pattern", path="target_directory|path"),
        "Grep": _use("grep"),
        "LS": _use("list", path="target_directory|path"),
        "WebFetch": _use("web_fetch"),
        "WebSearch": _use("web_search", query="search_term|query"),
        "Task": _use("task", agent="subagent_type"),
        "Subagent": _use("task", agent="subagent_type"),
        "TodoWrite": _use("todo"),
    },
    "opencode": {
        "bash": _use("bash", cwd="workdir"),
        "read": _use("read", path="filePath"),
        "write": _use("write", path="filePath"),
        "edit": _use("edit", path="filePath", old="oldString", new="newString"),
        "multiedit": _use("edit", path="filePath"),
        "apply_patch": _use("edit", patch="patchText"),
        "patch": _use("edit", patch="patchText"),
        "webfetch": _use("web_fetch"),
        "websearch": _use("web_search"),
        "todowrite": _use("todo"),
        "task": _use("task", agent="subagent_type"),
    },
    "copilot": {
        "bash": _use("bash"),
        "powershell": _use("bash"),
        "view": _use("read"),
        "create": _use("write", content="file_text"),
        "edit": _use("edit", old="old_str", new="new_str"),
        "str_replace": _use("edit", old="old_str", new="new_str"),
        "str_replace_editor": _use("edit", old="old_str", new="new_str", content="file_text"),
        "apply_patch": _use("edit", patch="input|patch"),
        "rg": _use("grep"),
        "task": _use("task", agent="agent_type"),
        "update_todo": _use("todo"),
        # Its PascalCase events carry Claude Code's names for the same tools, and the inputs of its own.
        "Bash": _use("bash"),
        "Read": _use("read", path="path|file_path"),
        "Write": _use("write", path="path|file_path", content="file_text|content"),
        "Edit": _use(
            "edit", path="path|file_path", old="old_str|old_string", new="new_str|new_string", patch="input|patch"
        ),
        "Grep": _use("grep"),
        "Glob": _use("glob"),
        "WebFetch": _use("web_fetch"),
        "WebSearch": _use("web_search"),
        "TodoWrite": _use("todo"),
        "Agent": _use("task", agent="agent_type|subagent_type"),
        "Task": _use("task", agent="agent_type|subagent_type"),
    },
    "windsurf": {  # no tool names of its own: the event is the tool
        "run_command": _use("bash", command="command_line"),
        "read_code": _use("read", path="file_path"),
        "write_code": _use("edit", path="file_path"),
    },
    "cline": {
        "execute_command": _use("bash"),
        "read_file": _use("read"),
        "read_files": _use("read", path="files|file_paths|paths"),
        "run_commands": _use("bash", command="commands|command|cmd"),
        "editor": _use("edit", old="old_text", new="new_text"),
        "apply_patch": _use("edit", patch="input"),
        "search_codebase": _use("grep", pattern="queries"),
        "fetch_web_content": _use("web_fetch", url="requests|url"),
        "spawn_agent": _use("task", prompt="task|prompt"),
        "write_to_file": _use("write"),
        "replace_in_file": _use("edit", patch="diff"),
        "search_files": _use("grep", pattern="regex"),
        "list_files": _use("list"),
        "web_fetch": _use("web_fetch"),
        "web_search": _use("web_search"),
        "new_task": _use("task", prompt="context"),
    },
}
"""By agent, by the agent's own tool name. From the agents' references and captures, November 2026."""

# One call that may create files as well as change them: a hook on `write` has to see it too.
_ALSO: Final = {"apply_patch": ("write",), "ApplyPatch": ("write",), "patch": ("write",), "write_code": ("write",),
                "editor": ("write",), "str_replace_editor": ("write",)}  # fmt: skip

_PATCHED: Final = re.compile(r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+?)\s*$", re.MULTILINE)
_SEVERAL: Final = frozenset({"commands", "requests", "queries"})
"""Fields of Cline's that hold a list of what others call one by one."""
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash", "ksh"})


def canonical_tool(source: str, native: str, *, server: str = "") -> str:
    """The canonical name of an agent's tool; an unknown tool keeps its own.

    `server` is the MCP server of the call where the agent says it. Without it Gemini's `mcp_<server>_<tool>` is split
    at the first underscore of the rest, which is wrong for a server whose name holds one.
    """
    use = _find(source, native)
    if use is not None:
        return use.tool
    if native.startswith("mcp__"):
        return native
    agent = source_name(source)
    if server:
        tool = native.removeprefix("MCP:")
        prefixes = (f"mcp_{server}_", f"{server}__", f"{server}_", f"{server}-")
        found = next((prefix for prefix in prefixes if tool.startswith(prefix)), "")  # one: a tool may repeat it
        return mcp_tool(server, tool.removeprefix(found))
    if agent in ("gemini", "qwen") and native.startswith("mcp_"):
        name, _, tool = native.removeprefix("mcp_").partition("_")
        return mcp_tool(name, tool) if name and tool else native
    return native


def mcp_tool(server: str, tool: str) -> str:
    """The canonical name of an MCP server's tool, both named as the server itself does."""
    return f"mcp__{server}__{tool}"


def tool_names(tool: str, native: str) -> tuple[str, ...]:
    """All names that a matcher may use for a call, the canonical one first, each once."""
    return tuple(dict.fromkeys(name for name in (tool, *_ALSO.get(_bare(native), ()), native) if name))


def canonical_input(source: str, native: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The input with its canonical fields beside the agent's own.

    The agent's own field wins over a field that only happens to have the canonical name, so a call cannot show a hook
    one `path` and use another. A command given as an argument list becomes the text of a command, several commands or
    addresses become lines of one text; a patch shows its files as `paths`, and the first as `path`.
    """
    result = dict(given)
    use = _find(source, native)
    if use is None:
        return result
    for name, own in use.fields.items():
        found = next((field for field in own if field in given), None)
        if found is not None:
            result[name] = _joined(given[found]) if found in _SEVERAL else given[found]
    if "commands" in use.fields.get("command", ()) and isinstance(given.get("args"), list):
        result["command"] = shlex.join(map(str, [result.get("command", ""), *given["args"]]))
    if use.tool == "bash" and isinstance(result.get("command"), list):
        result["command"] = _command_text(result["command"])
    if use.tool in ("read", "edit") and isinstance(result.get("path"), list):
        result["paths"] = [item.get("path", "") if isinstance(item, dict) else item for item in result["path"]]
        result["path"] = next(iter(result["paths"]), "")
    patch = result.get("patch")
    if "patch" in use.fields and isinstance(patch, str) and "path" not in given:
        paths = _PATCHED.findall(patch)
        if paths:
            result.update(path=paths[0], paths=paths)
    return result


def native_input(source: str, native: str, changed: Mapping[str, Any], original: Mapping[str, Any]) -> dict[str, Any]:
    """The whole input for a rewrite: `original` (the agent's own) with what `changed` differs in, in its own fields.

    `changed` may use canonical and own names, and may repeat fields that did not change. A field that the vocabulary
    only derives (`paths`, and `path` of a patch) has no place in the agent and is left out: see `lost_fields`.
    """
    use = _find(source, native)
    result = dict(original)
    if use is None:
        return result | dict(changed)
    shown = canonical_input(source, native, original)
    derived = _derived(use, original)
    moved: dict[str, Any] = {}
    for name, value in changed.items():
        if name in derived or (name in shown and shown[name] == value):
            continue
        own = use.fields.get(name, (name,))
        field = next((spelling for spelling in own if spelling in original), own[0])
        if field != name:
            moved[field] = value  # a changed canonical field outranks an own field that was merely repeated
        else:
            result[name] = _like(name, original.get(name), value)
    return result | {field: _like(field, original.get(field), value) for field, value in moved.items()}


def tool_for(agent: str, canonical: str) -> str:
    """What an agent calls a canonical tool (the first name in TABLE); its canonical name where it has none."""
    own = TABLE.get(source_name(agent), {})
    return next((name for name, use in own.items() if use.tool == canonical), canonical)


def input_for(agent: str, tool: str, source: str, native: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The input of another agent's call in the fields that `agent` has for its own `tool`.

    `given` is an event's input: canonical fields beside those of `source`, which are left out where the canonical one
    says the same. Unknown fields stay.
    """
    use = _find(source, native)
    spellings = {own for names in use.fields.values() for own in names} - set(use.fields) if use is not None else set()
    kept = {name: value for name, value in given.items() if name not in spellings}
    return native_input(agent, tool, kept, {})


def lost_fields(source: str, native: str, changed: Mapping[str, Any], original: Mapping[str, Any]) -> tuple[str, ...]:
    """The changed fields that `native_input` cannot express for this tool; a rewrite with any must not be applied."""
    use = _find(source, native)
    if use is None:
        return ()
    shown = canonical_input(source, native, original)
    derived = _derived(use, original)
    others = {name for name, value in changed.items() if name not in shown or shown[name] != value}
    if use.closed:
        derived |= {name for name in others if not {name, *use.fields.get(name, ())} & original.keys()}
    return tuple(name for name in changed if name in others and name in derived)


def _find(source: str, native: str) -> Use | None:
    return TABLE.get(source_name(source), {}).get(_bare(native))


def _bare(native: str) -> str:
    """Windsurf's events name the tool with the moment in front."""
    return native.removeprefix("pre_").removeprefix("post_")


def _derived(use: Use, original: Mapping[str, Any]) -> frozenset[str]:
    if "patch" in use.fields and "path" not in use.fields and "path" not in original:
        return frozenset({"path", "paths"})
    if "requests" in original:
        return frozenset({"url"})
    if "args" in original or any(isinstance(item, dict) for item in _items(original.get("commands"))):
        return frozenset({"command"})
    own = next((field for field in use.fields.get("path", ()) if field in original), "")
    return frozenset({"path", "paths"}) if isinstance(original.get(own), list) else frozenset()


def _command_text(argv: list[Any]) -> str:
    """The command of an argument list: the script where it is `bash -lc <script>`, else the quoted words."""
    words = [str(word) for word in argv]
    if len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS and words[1].startswith("-") and "c" in words[1]:
        return words[2]
    return shlex.join(words)


def _joined(value: object) -> str:
    """Several commands, addresses or patterns as one text, a line each: a guard has to see all of them."""
    lines = []
    for item in _items(value):
        if not isinstance(item, dict):
            lines.append(str(item))
        elif isinstance(item.get("args"), list):
            lines.append(shlex.join(map(str, [item.get("command", ""), *item["args"]])))
        else:
            lines.append(str(item.get("command", item.get("url", ""))))
    return "\n".join(lines)


def _items(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _like(field: str, before: object, value: object) -> object:
    """A changed command text in the form that the agent sent: an argument list stays one."""
    if field in _SEVERAL:
        return [value] if isinstance(value, str) else value
    if not (isinstance(before, list) and isinstance(value, str)):
        return value
    if len(before) == 3 and _command_text(before) == str(before[2]):
        return [*before[:2], value]
    return ["bash", "-lc", value]
