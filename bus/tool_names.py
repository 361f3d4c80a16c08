"""Every canonical tool, and each agent's names for it and for its input fields (X-01); `tools.py` translates them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

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


class ToolAlias(NamedTuple):
    """One agent's tool: its canonical name, and the agent's own names of each canonical field.

    A field has several names if versions of the agent differ. The first name that a call has is read; if it has none of
    them, a rewrite sets the first. A canonical field that is not listed has the same name in the agent.
    """

    tool: str
    fields: Mapping[str, tuple[str, ...]]
    closed: bool = False
    """The agent ignores, without a warning, a changed field that it did not send."""


def _use(tool: str, **fields: str) -> ToolAlias:
    return ToolAlias(tool, {name: tuple(own.split("|")) for name, own in fields.items()})


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
}

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
    "web_fetch": _use("web_fetch", url="url|prompt"),  # the addresses are in its prompt
    "google_web_search": _use("web_search"),
    "write_todos": _use("todo"),
    "invoke_agent": _use("task", agent="agent_name"),
}

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
}

_PLAIN: Final = {
    "bash": _use("bash"),
    "read": _use("read", path="path|file_path|file"),
    "write": _use("write", path="path|file_path|file"),
    "edit": _use("edit", path="path|file_path|file", old="old|old_string|old_text", new="new|new_string|new_text"),
    "glob": _use("glob"),
    "find": _use("glob"),
    "grep": _use("grep"),
    "list": _use("list"),
    "ls": _use("list"),
    "web_fetch": _use("web_fetch"),
    "web_search": _use("web_search"),
    "task": _use("task"),
    "todo": _use("todo"),
}
"""For agents that use the canonical tool names; their fields may have either spelling."""

TABLE: Final[Mapping[str, Mapping[str, ToolAlias]]] = {
    "claude": _CLAUDE,
    "codex": {
        # Its hooks call every shell tool `Bash` and every patch `apply_patch`; the other names are the tools' own.
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
        "str_replace_editor": _use("edit", old="old_str", new="new_str|file_text"),
        "apply_patch": _use("edit", patch="input|patch"),
        "rg": _use("grep"),
        "task": _use("task", agent="agent_type"),
        "update_todo": _use("todo"),
        # Its PascalCase events have Claude Code's tool names, with Copilot's own input fields.
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
    "windsurf": {  # it has no tool names: the event's name says the tool
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
    "pigo": _PLAIN,
    "forge": {**_PLAIN, **_CLAUDE},
    "ion": {**_CLAUDE, **_PLAIN},
    "gobby": {**_CLAUDE, **_GEMINI, **_PLAIN},  # it passes on the tool names of the agents behind it
}
"""Aliases by agent and by the agent's own tool name, from the agents' references and captures of November 2026."""
