"""Translates tool names and input fields between agents' own and canonical ones, in both directions (X-01).

The names themselves are in `tool_names.py`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, Final

from bus.events import source_name
from bus.tool_inference import infer
from bus.tool_names import CANONICAL, TABLE, ToolAlias
from bus.tool_patches import find_patch
from bus.tool_words import command_line

__all__ = [
    "CANONICAL",
    "TABLE",
    "ToolAlias",
    "canonical_input",
    "canonical_tool",
    "input_for",
    "lost_fields",
    "mcp_tool",
    "native_input",
    "single_files",
    "tool_for",
    "tool_names",
]

# Tools that may create files as well as change them: a hook on `write` has to see their calls too.
_FURTHER_NAMES: Final = {
    "apply_patch": ("write",),
    "ApplyPatch": ("write",),
    "patch": ("write",),
    "write_code": ("write",),
    "editor": ("write",),
    "str_replace_editor": ("write",),
}

_PATCHED: Final = re.compile(r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+?)\s*$", re.MULTILINE)
_SECTION: Final = re.compile(r"^(?=\*\*\* (?:Add File|Update File|Delete File): )", re.MULTILINE)
_ON_FILES: Final = frozenset({"read", "write", "edit", "notebook_edit", "delete"})
_LIST_FIELDS: Final = frozenset({"commands", "requests", "queries"})
"""Fields of Cline with a list, where other agents make one call for each item."""
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash", "ksh"})


def canonical_tool(source: str, native: str, *, server: str = "") -> str:
    """The canonical name of an agent's tool; an unknown tool keeps its name.

    `server` is the MCP server of the call, if the agent names it. Without it, Gemini's `mcp_<server>_<tool>` is split at
    the first underscore after `mcp_`, which is wrong if the server's name has an underscore.
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
        # Only one prefix is removed: the tool's own name may begin with it again.
        found = next((prefix for prefix in prefixes if tool.startswith(prefix)), "")
        return mcp_tool(server, tool.removeprefix(found))
    if agent in ("gemini", "qwen") and native.startswith("mcp_"):
        name, _, tool = native.removeprefix("mcp_").partition("_")
        return mcp_tool(name, tool) if name and tool else native
    return native


def mcp_tool(server: str, tool: str) -> str:
    """The canonical name of an MCP server's tool; both names are those that the server uses."""
    return f"mcp__{server}__{tool}"


def tool_names(tool: str, native: str) -> tuple[str, ...]:
    """All names that a matcher may use for a call, the canonical one first, each once."""
    return tuple(
        dict.fromkeys(name for name in (tool, *_FURTHER_NAMES.get(_without_phase(native), ()), native) if name)
    )


def canonical_input(source: str, native: str, input_fields: Mapping[str, Any]) -> dict[str, Any]:
    """The input with its canonical fields beside the agent's own.

    The agent's own field wins over a field that only happens to have the canonical name, so a call cannot show a hook
    one `path` and use another. An argument list becomes the text of a command. Several commands or addresses become the
    lines of one text. The files of a patch become `paths`, and the first one `path`, also if a shell command calls
    `apply_patch`. For a tool that is in no table, its name and its arguments decide what it does.
    """
    result = dict(input_fields)
    use, derived_fields = _resolve_tool(source, native, input_fields)
    result |= derived_fields
    for name, native_names in use.fields.items():
        found = next((field for field in native_names if field in input_fields), None)
        if found is not None:
            result[name] = _joined(input_fields[found]) if found in _LIST_FIELDS else input_fields[found]
    if "commands" in use.fields.get("command", ()) and isinstance(input_fields.get("args"), list):
        result["command"] = shlex.join(map(str, [result.get("command", ""), *input_fields["args"]]))
    if use.tool == "bash" and isinstance(result.get("command"), list):
        result["command"] = _command_text(result["command"])
    if use.tool in ("read", "edit") and isinstance(result.get("path"), list):
        result["paths"] = [item.get("path", "") if isinstance(item, dict) else item for item in result["path"]]
        result["path"] = next(iter(result["paths"]), "")
    patch = result.get("patch")
    if "patch" in use.fields and isinstance(patch, str) and "path" not in input_fields:
        paths = _PATCHED.findall(patch)
        if paths:
            result.update(path=paths[0], paths=paths)
    elif use.tool == "bash" and "patch" not in input_fields and isinstance(result.get("command"), str):
        cwd = result.get("cwd")
        inside = find_patch(result["command"], cwd if isinstance(cwd, str) else "")
        if inside is not None:
            result.update(patch=inside.text, path=inside.paths[0], paths=list(inside.paths))
    return result


def single_files(tool: str, input_fields: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Splits the input of a call about several files into one input for each file, in order; empty for any other call.

    `input_fields` is an event's input, whose `paths` name the files. A patch is split too: each input has the sections
    about its file.
    """
    paths = input_fields.get("paths")
    named = [path for path in paths if isinstance(path, str) and path] if isinstance(paths, list) else []
    named = list(dict.fromkeys(named))
    if tool not in _ON_FILES or len(named) < 2:
        return ()
    patch = input_fields.get("patch")
    if not isinstance(patch, str):
        return tuple({**input_fields, "path": path, "paths": [path]} for path in named)
    sections = _SECTION.split(patch)[1:]
    if sections and "\n*** End Patch" in sections[-1]:
        sections[-1] = sections[-1].rpartition("\n*** End Patch")[0]
    spelled = [name for name, value in input_fields.items() if value == patch]
    inputs = []
    for path in named:
        # A patch in a shell command names its files from the directory that the command went to.
        about_file = "".join(
            section
            for section in sections
            if any(f"/{path}".endswith(f"/{name}") for name in _PATCHED.findall(section))
        )
        part = f"*** Begin Patch\n{about_file.rstrip(chr(10))}\n*** End Patch" if about_file else patch
        inputs.append({**input_fields, **dict.fromkeys(spelled, part), "path": path, "paths": [path]})
    return tuple(inputs)


def native_input(source: str, native: str, changed: Mapping[str, Any], original: Mapping[str, Any]) -> dict[str, Any]:
    """The whole input after a rewrite, in the agent's own fields: `original` with the changes in `changed`.

    `changed` may use canonical and native names, and may repeat fields that did not change. A derived field (`paths`, and
    `path` of a patch) does not exist in the agent's input and is left out: see `lost_fields`.
    """
    use, derived_fields = _resolve_tool(source, native, original)
    result = dict(original)
    shown = canonical_input(source, native, original)
    derived = _derived(use, original, shown, derived_fields)
    moved: dict[str, Any] = {}
    for name, value in changed.items():
        if name in derived or (name in shown and shown[name] == value):
            continue
        native_names = use.fields.get(name, (name,))
        field = next((spelling for spelling in native_names if spelling in original), native_names[0])
        if field != name:
            moved[field] = value  # a changed canonical field outranks an own field that was merely repeated
        else:
            result[name] = _in_sent_form(name, original.get(name), value)
    return result | {field: _in_sent_form(field, original.get(field), value) for field, value in moved.items()}


def tool_for(agent: str, canonical: str) -> str:
    """The agent's name for a canonical tool (the first in TABLE); the canonical name if the agent has no such tool."""
    aliases = TABLE.get(source_name(agent), {})
    return next((name for name, use in aliases.items() if use.tool == canonical), canonical)


def input_for(agent: str, tool: str, source: str, native: str, input_fields: Mapping[str, Any]) -> dict[str, Any]:
    """Translates the input of an agent's call into the fields of another agent, `agent`, for its `tool`.

    `input_fields` is an event's input: canonical fields beside those of `source`. A field of `source` is left out if a
    canonical field has the same value. Unknown fields stay.
    """
    use = _resolve_tool(source, native, input_fields)[0]
    spellings = {native_name for names in use.fields.values() for native_name in names} - set(use.fields)
    kept = {name: value for name, value in input_fields.items() if name not in spellings}
    return native_input(agent, tool, kept, {})


def lost_fields(source: str, native: str, changed: Mapping[str, Any], original: Mapping[str, Any]) -> tuple[str, ...]:
    """The changed fields that `native_input` cannot express for this tool; a rewrite with any must not be applied."""
    use, derived_fields = _resolve_tool(source, native, original)
    shown = canonical_input(source, native, original)
    derived = _derived(use, original, shown, derived_fields)
    others = {name for name, value in changed.items() if name not in shown or shown[name] != value}
    if use.closed:
        derived |= {name for name in others if not {name, *use.fields.get(name, ())} & original.keys()}
    return tuple(name for name in changed if name in others and name in derived)


def _find(source: str, native: str) -> ToolAlias | None:
    return TABLE.get(source_name(source), {}).get(_without_phase(native))


def _resolve_tool(source: str, native: str, input_fields: Mapping[str, Any]) -> tuple[ToolAlias, Mapping[str, Any]]:
    """The tool's alias, from the agent's table or else inferred from its name and arguments, and its derived fields."""
    known = _find(source, native)
    if known is not None:
        return known, {}
    if native in CANONICAL:
        return ToolAlias(native, {}), {}
    inferred = infer(native, input_fields)
    return inferred.use, inferred.derived_fields


def _without_phase(native: str) -> str:
    """The tool's name without `pre_` or `post_`, which Windsurf's events put before it."""
    return native.removeprefix("pre_").removeprefix("post_")


def _derived(
    use: ToolAlias, original: Mapping[str, Any], shown: Mapping[str, Any], derived_fields: Mapping[str, Any]
) -> frozenset[str]:
    """The canonical fields that are computed and do not exist in the agent's own input."""
    if derived_fields:
        return frozenset(derived_fields)
    if use.tool == "bash" and "paths" in shown and "paths" not in original:
        return frozenset({"path", "paths", "patch"}) - original.keys()
    if not use.fields:
        return frozenset()
    if "patch" in use.fields and "path" not in use.fields and "path" not in original:
        return frozenset({"path", "paths"})
    if isinstance(original.get("requests"), list | dict):
        return frozenset({"url"})
    if "args" in original or any(isinstance(item, dict) for item in _items(original.get("commands"))):
        return frozenset({"command"})
    sent = next((field for field in use.fields.get("path", ()) if field in original), "")
    return frozenset({"path", "paths"}) if isinstance(original.get(sent), list) else frozenset()


def _command_text(argv: list[Any]) -> str:
    """The command line of an argument list: the script of `bash -lc <script>`, else the words, quoted."""
    words = [str(word) for word in argv]
    if len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS and words[1].startswith("-") and "c" in words[1]:
        return words[2]
    return command_line(words)


def _joined(value: object) -> str:
    """Joins several commands, addresses or patterns, one a line, so that a guard sees all of them."""
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


def _in_sent_form(field: str, before: object, value: object) -> object:
    """A changed value in the form that the agent sent: if it sent an argument list, the text becomes one again."""
    if field in _LIST_FIELDS:
        return value if isinstance(before, str) or not isinstance(value, str) else [value]
    if not (isinstance(before, list) and isinstance(value, str)):
        return value
    if len(before) == 3 and _command_text(before) == str(before[2]):
        return [*before[:2], value]
    return ["bash", "-lc", value]
