"""Calls that are more than their tool's name says: MCP tools that run or write, and patches inside of shell commands."""

from __future__ import annotations

from typing import Any

import pytest

from bus.events import Event
from bus.hooksets.guards import load_pack
from bus.matching.patterns import Index
from bus.matching.rules import judge
from bus.tool_inference import infer
from bus.tools import canonical_input, canonical_tool, lost_fields, native_input
from tests.support.rows import rows


@pytest.mark.req("X-09")
@rows(
    ("native", "given", "tools", "command"),
    [
        ("mcp__shell__run_command", {"cmd": "rm -rf /"}, ("bash",), "rm -rf /"),
        ("mcp__x__execute", {"command": ["bash", "-lc", "rm -rf /"]}, ("bash",), "rm -rf /"),
        ("mcp__x__thing", {"command": ["rm", "-rf", "/"]}, ("bash",), "rm -rf /"),
        ("mcp__x__thing", {"command": ["rm -rf /"]}, ("bash",), "rm -rf /"),
        ("mcp__shell__run", {"argv": ["halt;reboot"]}, ("bash",), "halt;reboot"),
        ("mcp__shell__run", {"argv": ["rm -rf /"]}, ("bash",), "rm -rf /"),
        ("mcp__desktop__start_process", {"command": "rm -rf /", "timeout_ms": 5}, ("bash",), "rm -rf /"),
        ("mcp__x__run", {"command": "rm", "args": ["-rf", "/"]}, ("bash",), "rm -rf /"),
        ("runInTerminal", {"input": "rm -rf /"}, ("bash",), "rm -rf /"),
        ("mcp__ssh__exec", {"cmdline": "rm -rf /"}, ("bash",), "rm -rf /"),
        ("mcp__py__run_python", {"code": "import os"}, ("bash",), "python3 -c 'import os'"),
        ("mcp__pg__query", {"sql": "DROP TABLE x"}, ("bash",), "psql -c 'DROP TABLE x'"),
        ("mcp__fs__delete_file", {"path": "~/x"}, ("delete", "bash"), "rm ~/x"),
        ("mcp__term__run", {"args": ["rm", "-rf", "/"]}, ("bash",), "rm -rf /"),
        ("mcp__desktop__start_process", {"executable": "rm", "arguments": "-rf /"}, ("bash",), "rm -rf /"),
        ("mcp__desktop__kill_process", {"name": "fleethook"}, ("bash",), "pkill fleethook"),
        ("mcp__process__terminate", {"name": "redis-server"}, ("bash",), "pkill redis-server"),
        ("mcp__desktop__kill_process", {"pid": 4711}, ("bash",), "kill 4711"),
        ("mcp__os__end_process", {"pids": [47, 11]}, ("bash",), "kill 47 11"),
        ("mcp__fs__remove_directory", {"path": "/"}, ("delete", "bash"), "rm -r /"),
        ("mcp__fs__move_file", {"source": "a", "destination": "/etc/b"}, ("bash", "write"), "mv a /etc/b"),
    ],
)
def test_an_unknown_tool_that_says_shell_is_one(
    native: str, given: dict[str, Any], tools: tuple[str, ...], command: str
) -> None:
    found = canonical_input("claude", native, given)
    assert found["command"] == command
    assert set(tools) <= set(infer(canonical_tool("claude", native), found).tools)
    assert found.items() >= {name: value for name, value in given.items() if name != "command"}.items()


@pytest.mark.req("X-09")
@rows(
    ("native", "given", "command"),
    [
        ("mcp__git__git_push", {"remote": "origin", "branch": "main", "force": True}, "git push origin main --force"),
        ("mcp__git__git_reset", {"mode": "hard", "target": "HEAD~3"}, "git reset --hard 'HEAD~3'"),
        ("mcp__my-git__push", {"force": True}, "git push --force"),
        ("mcp__git__git", {"args": ["reset", "--hard"]}, "git reset --hard"),
        ("mcp__k8s__kubectl_generic", {"command": "delete", "resourceType": "ns", "name": "x"}, "kubectl delete ns x"),
        ("mcp__gcloud__run_gcloud_command", {"args": ["projects", "delete", "x"]}, "gcloud projects delete x"),
        ("mcp__docker__exec", {"container": "x", "command": "rm -rf /data"}, "rm -rf /data"),
        ("mcp__heroku__pg_reset", {"app": "x"}, "heroku pg:reset --app=x"),
        ("mcp__redis__redis_command", {"command": "FLUSHALL"}, "redis-cli FLUSHALL"),
        ("mcp__neon__run_sql", {"params": {"sql": "DROP TABLE x"}}, "psql -c 'DROP TABLE x'"),
        ("mcp__shell__exec", {"params": {"command": "rm -rf /srv"}}, "rm -rf /srv"),
        ("mcp__shell__exec", {"request": {"args": {"params": {"Command": "rm -rf /srv"}}}}, "rm -rf /srv"),
        ("mcp__ide__executeCode", {"code": "import os\n!rm -rf /srv"}, "python3 -c 'import os\npass'\nrm -rf /srv"),
        ("mcp__run__code", {"code": "rm -rf /", "languageId": "shellscript"}, "bash -c 'rm -rf /'"),
        (
            "mcp__http__request",
            {"method": "DELETE", "url": "https://api.x.com/1"},
            "curl -X DELETE https://api.x.com/1",
        ),
        ("mcp__x__batch", {"commands": [{"cmd": "rm", "args": ["-rf", "/x"]}]}, "rm -rf /x"),
        ("mcp__x__manage_service", {"service": "nginx", "action": "stop"}, "systemctl stop nginx"),
        ("mcp__npm__run_script", {"script": "db:reset"}, "npm db:reset"),
        ("mcp__fs__copy_file", {"source": "a", "destination": "/etc/b"}, "cp a /etc/b"),
    ],
)
def test_a_tool_named_after_a_program_is_its_command(native: str, given: dict[str, Any], command: str) -> None:
    found = canonical_input("claude", native, given)
    assert found["command"] == command
    assert "bash" in infer(canonical_tool("claude", native), found).tools


@pytest.mark.req("X-09")
def test_what_an_argument_says_is_deleted_counts_as_a_part_of_the_tools_name() -> None:
    given = {"operation": "drop_table", "tableName": "users"}
    assert "mcp__pg__manage_schema_drop_table" in infer("mcp__pg__manage_schema", given).tools
    assert infer("mcp__pg__manage_schema", {"operation": "list_tables"}).tools == ()
    assert infer("mcp__x__run", {"command": "terraform plan -destroy"}).tools == ("bash",)


@pytest.mark.req("X-09")
def test_several_files_in_one_call_are_all_seen() -> None:
    given = {"files": [{"path": "a", "content": "x"}, {"path": "/etc/hosts", "content": "y"}]}
    assert canonical_input("claude", "mcp__fs__write_files", given)["paths"] == ["a", "/etc/hosts"]


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    ("native", "given", "path"),
    [
        ("mcp__fs__write_file", {"path": "/etc/x", "content": "y"}, "/etc/x"),
        ("mcp__fs__create", {"file_path": "/etc/x", "text": "y"}, "/etc/x"),
        ("mcp__ide__editFile", {"filePath": "/etc/x", "newText": "y"}, "/etc/x"),
        ("filesystem_write_file", {"path": "/etc/x", "content": ""}, "/etc/x"),
        ("mcp__fs__str_replace_editor", {"command": "create", "path": "/etc/x", "file_text": "y"}, "/etc/x"),
    ],
)
def test_an_unknown_tool_that_says_file_writes_it(native: str, given: dict[str, Any], path: str) -> None:
    found = canonical_input("codex", native, given)
    assert found["path"] == path
    assert {"write", "edit"} <= set(infer(native, found).tools)


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    ("native", "given"),
    [
        ("mcp__github__create_issue", {"title": "x", "body": "y"}),
        ("mcp__jira__search", {"query": "x"}),
        ("mcp__browser__navigate", {"url": "x"}),
        ("mcp__x__get_weather", {"city": "x"}),
        ("TodoRead", {}),
        ("mcp__git__git_status", {"repo_path": "x"}),
        ("mcp__docs__query_docs", {"query": "DROP TABLE x"}),
        ("mcp__chat__send", {"text": "rm -rf /", "input": "x"}),
    ],
)
def test_an_unknown_tool_that_says_neither_is_left_alone(native: str, given: dict[str, Any]) -> None:
    assert canonical_input("claude", native, given) == given
    assert infer(native, given).tools == ()


@pytest.mark.req("X-09")
def test_a_changed_command_of_an_unknown_tool_goes_back_into_its_own_field() -> None:
    own = {"cmd": "a"}
    assert native_input("claude", "mcp__x__run", {"command": "b"}, own) == {"cmd": "b"}
    assert lost_fields("claude", "mcp__x__run", {"command": "b"}, own) == ()
    assert lost_fields("claude", "mcp__x__delete_file", {"command": "b"}, {"path": "a"}) == ("command",)


PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** Add File: sub/b.py\n+z\n*** End Patch"


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    ("command", "base"),
    [
        (f"apply_patch <<'EOF'\n{PATCH}\nEOF", ""),
        (f"applypatch <<EOF\n{PATCH}\nEOF", ""),
        (f"cd x && apply_patch <<'EOF'\n{PATCH}\nEOF\n", "x/"),
        (f"cd '/srv/my app'; apply_patch <<'EOF'\n{PATCH}\nEOF", "/srv/my app/"),
        (f"ls; apply_patch '{PATCH}'", ""),
        (f"apply_patch \"$(cat <<'EOF'\n{PATCH}\nEOF\n)\"", ""),
        (f"bash -lc \"apply_patch <<'EOF'\n{PATCH}\nEOF\"", ""),
        (f"cat <<'EOF' | apply_patch\n{PATCH}\nEOF", ""),
        (f"bash -lc 'cd x && /usr/bin/apply_patch <<EOF\n{PATCH}\nEOF'", "x/"),
        ("apply_patch <<-'EOF'\n" + PATCH.replace("*** ", "\t*** ") + "\n\tEOF", ""),
        (["apply_patch", PATCH], ""),
        (["bash", "-lc", f"cd x && apply_patch <<'EOF'\n{PATCH}\nEOF"], "x/"),
    ],
)
def test_a_patch_in_a_shell_command_is_an_edit(command: str | list[str], base: str) -> None:
    for native, field in (("Bash", "command"), ("exec_command", "cmd")):
        found = canonical_input("codex", native, {field: command})
        assert found["paths"] == [f"{base}a.py", f"{base}sub/b.py"]
        assert found["path"] == f"{base}a.py"
        assert infer("bash", found).tools == ("edit", "write")
        assert lost_fields("codex", native, {"paths": ["c"]}, {field: command}) == ("paths",)


@pytest.mark.req("X-09")
@pytest.mark.parametrize("command", ["grep apply_patch f", "apply_patch < f", f"cat > f <<'E'\n{PATCH}\nE", "ls"])
def test_what_is_no_patch_is_none(command: str) -> None:
    assert canonical_input("codex", "Bash", {"command": command}) == {"command": command}


@pytest.mark.req("X-09")
def test_rules_on_other_tools_see_them() -> None:
    hooks = load_pack("destructive-commands").rules
    index = Index([(hook, hook.on) for hook in hooks])
    patch = PATCH.replace("a.py", "/etc/passwd")
    for tool, given in (
        ("Bash", {"command": f"apply_patch <<'EOF'\n{patch}\nEOF"}),
        ("mcp__fs__write_file", {"path": "/etc/passwd", "content": "x"}),
        ("mcp__sh__run", {"cmd": "rm -rf /"}),
        ("mcp__fs__delete_directory", {"path": "/"}),
    ):
        event = Event(
            type="tool:pre_execute",
            source="codex",
            tool=canonical_tool("codex", tool),
            native_tool=tool,
            cwd="/srv/app",
            host="elsewhere",
            input=canonical_input("codex", tool, given),
        )
        said = [hook.rule.decision for hook in index.find(event) if hook.rule and judge(hook.rule, event)]
        assert "deny" in said, tool


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    "given",
    [
        {"patch": "*** Begin Patch\n*** Delete File: .claude/settings.json\n*** End Patch"},
        {"diff": "--- a/.claude/settings.json\n+++ b/.claude/settings.json\n@@ -1 +1 @@\n-a\n+b\n"},
        {"pathInProject": ".claude/settings.json", "text": "{}"},
        {"file_paths": [".claude/settings.json"], "content": "{}"},
    ],
)
def test_the_files_of_a_write_are_found_in_patches_and_under_any_name(given: dict[str, Any]) -> None:
    for native in ("mcp__ide__apply_patch", "mcp__ide__create_new_file"):
        event = Event(
            type="tool:pre_execute",
            source="claude",
            host="elsewhere",
            cwd="/home/dev/app",
            tool=canonical_tool("claude", native),
            native_tool=native,
            input=canonical_input("claude", native, given),
        )
        rules = Index([(hook, hook.on) for hook in load_pack("fleethook-itself").rules]).find(event)
        assert [hook.id for hook in rules if hook.rule is not None and judge(hook.rule, event) is not None]


@pytest.mark.req("X-09")
@rows(
    ("native", "given", "paths"),
    [
        (
            "mcp__git__git_apply",
            {"repo_path": "/home/dev/app", "patch": "--- a/x.py\n+++ b/x.py\n"},
            ["/home/dev/app/x.py"],
        ),
        ("mcp__git__apply_patch", {"patch": "--- a/.claude/settings.json\n+++ /dev/null\n"}, [".claude/settings.json"]),
        ("mcp__p__apply_diff", {"diff": "*** Begin Patch\n*** Update File: a\n*** End Patch"}, ["a"]),
        ("mcp__edit__patch_file", {"path": "b", "content": "--- a/c\n+++ b/c\n"}, ["b", "c"]),
    ],
)
def test_a_tool_that_applies_a_patch_writes_the_files_that_the_patch_names(
    native: str, given: dict[str, Any], paths: list[str]
) -> None:
    found = canonical_input("claude", native, given)
    assert infer(canonical_tool("claude", native), found).tools[0] == "write"
    assert found["paths"] == paths


@pytest.mark.req("X-09")
def test_a_manifest_that_is_applied_is_no_patch() -> None:
    given = {"manifest": "--- \nkind: Pod\n", "content": "---\nkind: Pod"}
    assert "paths" not in canonical_input("claude", "mcp__kubernetes__kubectl_apply", given)
