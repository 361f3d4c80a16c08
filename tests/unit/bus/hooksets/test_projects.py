"""A trusted project: what was trusted stays in force until newer content is trusted, and its scripts are pinned (X-10)."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import msgspec
import pytest

from bus.errors import ConfigError
from bus.events import Event
from bus.hooksets.files_in_force import FileInForce
from bus.hooksets.last_good import kept_file
from bus.hooksets.pins import ScriptChanged, check_pins
from bus.hooksets.projects import accept, project_in_force, withdraw_trust
from bus.hooksets.trust import trust, trusted_file
from bus.runners.command import CommandRunner

pytestmark = pytest.mark.req("X-10")

EVENT = Event(type="tool:pre_execute", tool="bash", input={"command": "ls"}, host="h")


class Project:
    """A repository with a hook file, the list of what is trusted, and the folder of what is kept."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "project"
        (self.folder / ".git").mkdir(parents=True)
        self.file = self.folder / "fleethook.yaml"
        self.script = self.folder / "scripts" / "check.sh"
        self.script.parent.mkdir()
        self.script.write_text("#!/bin/sh\necho trusted >&2; exit 2\n")
        self.script.chmod(0o755)
        self.file.write_text("hooks: [{id: check, on: tool:pre_execute, command: scripts/check.sh, on_failure: ask}]\n")
        self.store, self.kept = root / "state" / "trust.json", root / "data" / "last-good"

    def accept(self) -> None:
        accept(self.file, self.store, self.kept)

    def now(self) -> FileInForce:
        return project_in_force(self.file, self.store, self.kept)

    def commands(self) -> list[str]:
        return [hook.command for hook in self.now().file.hooks]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_nothing_is_in_force_before_it_is_trusted(project: Project) -> None:
    assert project.commands() == []
    assert project.now().rejected == ()


@pytest.mark.parametrize("change", ["hooks: []\n", "hooks: [", "", "hooks: [{on: '*', command: worse}]\n"])
def test_changed_content_waits_and_changes_nothing(project: Project, change: str) -> None:
    """Also the one that takes the rules away; until a person trusts it."""
    project.accept()
    project.file.write_text(change)
    assert project.commands() == ["scripts/check.sh"]
    (rejected,) = project.now().rejected
    assert rejected.text.startswith(f"{project.file}:1: ")
    assert "newer content waits for your trust" in rejected.text
    if change != "hooks: [":
        project.accept()
        assert project.now().rejected == ()
        assert project.commands() == (["worse"] if "worse" in change else [])


def test_a_deleted_file_keeps_its_rules_until_the_trust_is_taken_back(project: Project) -> None:
    project.accept()
    project.file.unlink()
    assert trusted_file(project.script.parent, project.store) == project.file
    assert project.commands() == ["scripts/check.sh"]
    assert "the file is gone" in project.now().rejected[0].text
    (project.folder / "fleethook.json").write_text("{}")
    assert trusted_file(project.folder, project.store) == project.file, "one of another name takes nothing away"
    assert withdraw_trust(project.file, project.store, project.kept)
    assert project.commands() == []
    assert trusted_file(project.folder, project.store) == project.folder / "fleethook.json"
    assert not kept_file(project.kept, project.file).exists()


def test_a_folder_that_is_gone_belongs_to_its_project(project: Project) -> None:
    """An agent may work in a folder that it has removed; and the project's own folder may be moved away."""
    project.accept()
    assert trusted_file(project.folder / "build" / "out", project.store) == project.file
    project.folder.rename(project.folder.parent / "away")
    assert trusted_file(project.folder, project.store) == project.file
    assert trusted_file(project.folder / "build", project.store) == project.file
    assert [hook.id for hook in project.now().file.hooks] == ["check"]
    assert trusted_file(project.folder.parent / "away", project.store) != project.file
    assert withdraw_trust(project.file, project.store, project.kept)
    assert trusted_file(project.folder, project.store) is None


def test_a_new_file_of_another_name_takes_the_place_once_it_is_trusted(project: Project) -> None:
    project.accept()
    project.file.unlink()
    project.file = project.folder / "fleethook.json"
    project.file.write_text('{"hooks": []}')
    project.accept()
    assert trusted_file(project.folder, project.store) == project.file
    assert project.commands() == []


async def run(project: Project) -> tuple[str, str]:
    """The decision and failure of the hook that is in force."""
    (hook,) = project.now().file.hooks
    event = Event(type=EVENT.type, tool="bash", input=EVENT.input, host="h", cwd=str(project.folder))
    outcome = await CommandRunner().run(hook, event, 5.0)
    return outcome.decision, outcome.failure


async def test_a_changed_script_is_not_run(project: Project) -> None:
    """Its hook falls to its failure policy, with the reason; as it was, it runs again."""
    project.accept()
    assert await run(project) == ("deny", "")
    was = project.script.read_text()
    project.script.write_text(was.replace("exit 2", "exit 0"))
    decision, failure = await run(project)
    assert decision == "abstain"
    assert failure.startswith(f"{project.script} changed since hook 'check'")
    project.script.unlink()
    assert "is gone since" in (await run(project))[1]
    project.script.write_text(was)
    project.script.chmod(0o755)
    assert await run(project) == ("deny", "")
    assert project.now().rejected == ()


async def test_another_script_of_the_same_relative_name_is_not_run(project: Project) -> None:
    """From a folder below, `scripts/check.sh` is another file: nobody has trusted it (B2)."""
    project.accept()
    other = project.folder / "below" / "scripts" / "check.sh"
    other.parent.mkdir(parents=True)
    other.write_text("#!/bin/sh\nexit 0\n")
    other.chmod(0o755)
    (hook,) = project.now().file.hooks
    event = msgspec.structs.replace(EVENT, cwd=str(other.parent.parent))
    refused = await CommandRunner().run(hook, event, 5)
    assert "was not trusted with it, so it was not run" in refused.failure
    assert str(other) in refused.failure
    ran = await CommandRunner().run(hook, msgspec.structs.replace(EVENT, cwd=str(project.folder)), 5)
    assert ran.decision == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "cd scripts && ./check.sh",
        "${CLAUDE_PROJECT_DIR:-.}/scripts/check.sh",
        '"$(git rev-parse --show-toplevel)"/scripts/check.sh',
        "sh -c 'exec scripts/check.sh'",
    ],
)
def test_a_script_is_pinned_however_the_command_names_it(project: Project, command: str) -> None:
    project.file.write_text(json.dumps({"hooks": [{"id": "check", "on": "tool:pre_execute", "command": command}]}))
    project.accept()
    (hook,) = project.now().file.hooks
    check_pins(hook, str(project.folder))
    project.script.write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(ScriptChanged, match=r"check\.sh changed since hook 'check' .*`fleethook hooks trust` shows it"):
        check_pins(hook, str(project.folder))


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("make -s guard", "Makefile"),
        ("npm run guard", "package.json"),
        ("python3 -m tools.guard --strict", "tools/guard.py"),
        ("python3 -I -m tools", "tools/__main__.py"),
    ],
)
def test_a_script_is_pinned_that_a_program_finds_by_itself(project: Project, command: str, script: str) -> None:
    file = project.folder / script
    file.parent.mkdir(exist_ok=True)
    file.write_text("one")
    project.file.write_text(json.dumps({"hooks": [{"id": "check", "on": "tool:pre_execute", "command": command}]}))
    project.accept()
    (hook,) = project.now().file.hooks
    check_pins(hook, str(project.folder))
    file.write_text("two")
    assert len(project.now().rejected) == 1
    with pytest.raises(ScriptChanged, match="changed since hook 'check'"):
        check_pins(hook, str(project.folder))


PINNED = [
    ("python3 tool", {"tool/__main__.py": "pass"}, "tool/__main__.py"),
    ("python3 tool", {"tool/__main__.py": "import helper", "tool/helper.py": ""}, "tool/helper.py"),
    ("node tool", {"tool/index.js": ""}, "tool/index.js"),
    ("node tool", {"tool/package.json": '{"main": "lib/m"}', "tool/lib/m.js": ""}, "tool/lib/m.js"),
    ('for f in ./hooks/*.sh; do sh "$f"; done', {"hooks/a.sh": ""}, "hooks/a.sh"),
    ('for f in ./hooks/*.sh; do sh "$f"; done', {"hooks/a.sh": ""}, "hooks/new.sh"),
    ("./hooks/*.sh", {"hooks/a.sh": ""}, "hooks/a.sh"),
    ("cat hooks/*.sh | sh", {"hooks/a.sh": ""}, "hooks/new.sh"),
    ("find hooks -name '*.sh' -exec sh {} \\;", {"hooks/deep/a.sh": ""}, "hooks/deep/a.sh"),
    ("find hooks -name '*.sh' | xargs -n1 sh", {"hooks/a.sh": ""}, "hooks/new/b.sh"),
    ("run-parts hooks", {"hooks/a": ""}, "hooks/a"),
    ("run-parts --regex=. ./hooks", {"hooks/a": ""}, "hooks/b"),
    ("PATH=$PWD/bin:$PATH guard --x", {"bin/guard": ""}, "bin/guard"),
    ("export PATH=./bin:/usr/bin; guard", {"bin/guard": ""}, "bin/guard"),
    ("PATH=bin:$PATH ls", {"bin/guard": ""}, "bin/ls"),
    ("cd tool && timeout 5 bash -c 'exec ./run'", {"tool/run": ""}, "tool/run"),
    ("./a.sh", {"a.sh": "#!/bin/sh\nsource ./lib.sh\n", "lib.sh": ""}, "lib.sh"),
    ("hooks/a.sh", {"hooks/a.sh": '. "$(dirname "$0")/lib.sh"\n', "hooks/lib.sh": ""}, "hooks/lib.sh"),
    (
        "bash hooks/a",
        {"hooks/a": '#!/usr/bin/env bash\nD="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\nsource "$D/lib.sh"\n'},
        "hooks/lib.sh",
    ),
    ("sh a.sh", {"a.sh": ". ./b.sh", "b.sh": ". ./c.sh", "c.sh": ""}, "c.sh"),
    ("sh a.sh", {"a.sh": "if true; then python3 tools/x.py; fi", "tools/x.py": ""}, "tools/x.py"),
    (
        "python3 hooks/a.py",
        {"hooks/a.py": "from lib.rules import deny", "hooks/lib/rules.py": ""},
        "hooks/lib/rules.py",
    ),
    ("python3 hooks/a.py", {"hooks/a.py": "import json"}, "hooks/json.py"),
    (
        "python3 hooks/a.py",
        {"hooks/a.py": "import sys\nsys.path.insert(0, 'lib')\nimport x", "hooks/lib/x.py": ""},
        "hooks/lib/x.py",
    ),
    (
        "python3 hooks/a.py",
        {"hooks/a.py": "import subprocess\nsubprocess.run(['sh', './hooks/b.sh'])", "hooks/b.sh": ""},
        "hooks/b.sh",
    ),
    ("node hooks/a.js", {"hooks/a.js": "const x = require('./lib/x')", "hooks/lib/x.js": ""}, "hooks/lib/x.js"),
    ("node hooks/a.mjs", {"hooks/a.mjs": "import {x} from './x.mjs'", "hooks/x.mjs": ""}, "hooks/x.mjs"),
    ("node --require ./hooks/pre.js a.js", {"a.js": "", "hooks/pre.js": ""}, "hooks/pre.js"),
    ("ruby a.rb", {"a.rb": "require_relative 'lib/x'", "lib/x.rb": ""}, "lib/x.rb"),
    ("php a.php", {"a.php": "<?php include __DIR__ . '/x.php';", "x.php": ""}, "x.php"),
]


@pytest.mark.parametrize(("command", "files", "changed"), PINNED)
def test_what_a_hook_runs_and_loads_is_pinned(
    project: Project, command: str, files: dict[str, str], changed: str
) -> None:
    """Folders, patterns, PATH, and what a script loads itself: changed or new code of the project does not run (B2)."""
    for name, text in {**files, "other/unrelated.sh": "one", "README.md": "one"}.items():
        file = project.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    project.file.write_text(json.dumps({"hooks": [{"id": "check", "on": "tool:pre_execute", "command": command}]}))
    project.accept()
    (hook,) = project.now().file.hooks
    check_pins(hook, str(project.folder))
    (project.folder / "other/unrelated.sh").write_text("two")
    (project.folder / "README.md").write_text("two")
    check_pins(hook, str(project.folder))
    assert project.now().rejected == ()
    (project.folder / changed).parent.mkdir(parents=True, exist_ok=True)
    (project.folder / changed).write_text("changed")
    with pytest.raises(ScriptChanged, match=r"(changed|is new) since hook 'check'"):
        check_pins(hook, str(project.folder))
    assert len(project.now().rejected) == 1
    project.accept()
    check_pins(project.now().file.hooks[0], str(project.folder))


def test_a_folder_with_too_many_files_is_not_run(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be pinned is said, and is not run."""
    monkeypatch.setattr("bus.hooksets.named_files.MOST_FILES", 3)
    monkeypatch.setattr("bus.hooksets.pins.MOST_FILES", 3)
    for number in range(5):
        (project.script.parent / f"{number}.sh").write_text("")
    project.file.write_text(
        json.dumps({"hooks": [{"id": "check", "on": "tool:pre_execute", "command": "run-parts scripts"}]})
    )
    project.accept()
    with pytest.raises(ScriptChanged, match=r"too many to be pinned.*name the scripts that it runs"):
        check_pins(project.now().file.hooks[0], str(project.folder))


async def test_what_a_script_writes_itself_keeps_it_from_nothing(project: Project) -> None:
    """Its log and Python's caches are no code that it loads."""
    (project.folder / "scripts" / "helper.py").write_text("X = 2\n")
    script = "import sys\nfrom helper import X\nopen('scripts/log.txt', 'a').write('x')\nsys.exit(X)\n"
    (project.folder / "scripts" / "check.py").write_text(script)
    project.file.write_text("hooks: [{id: check, on: tool:pre_execute, command: python3 scripts/check.py}]\n")
    project.accept()
    for _ in range(2):
        assert await run(project) == ("deny", "")
    assert (project.folder / "scripts" / "log.txt").read_text() == "xx"


async def test_a_script_that_appears_later_is_not_run(project: Project) -> None:
    """What was not there when the hook was trusted was not trusted."""
    text = project.script.read_text()
    project.script.unlink()
    project.accept()
    project.script.write_text(text)
    project.script.chmod(0o755)
    assert "is new since" in (await run(project))[1]
    project.accept()
    assert await run(project) == ("deny", "")


async def test_what_a_hook_writes_itself_keeps_it_from_nothing(project: Project) -> None:
    """The file that its output goes to is no script."""
    project.file.write_text("hooks: [{id: check, on: tool:pre_execute, command: 'echo x >> ./log.txt; exit 2'}]\n")
    project.accept()
    for _ in range(2):
        assert await run(project) == ("deny", "")
    assert (project.folder / "log.txt").read_text() == "x\nx\n"
    assert project.now().rejected == ()


def test_what_was_trusted_is_kept_for_this_user_alone(project: Project) -> None:
    project.accept()
    assert stat.S_IMODE(kept_file(project.kept, project.file).stat().st_mode) == 0o600


def test_trust_of_before_is_kept_at_the_first_look(project: Project) -> None:
    """A version that kept nothing wrote that list; while the content is the same, it is kept now."""
    trust(project.file, project.store)
    assert project.commands() == ["scripts/check.sh"]
    project.file.write_text("hooks: []\n")
    assert project.commands() == ["scripts/check.sh"]
    shutil.rmtree(project.kept)
    assert project.commands() == [], "what was trusted is not known any more"


def test_what_cannot_be_read_is_not_trusted(project: Project) -> None:
    project.file.write_text("hooks: [")
    with pytest.raises(ConfigError):
        project.accept()
    assert project.commands() == []


@pytest.mark.parametrize("changed", [False, True])
def test_a_kept_content_that_is_lost_is_kept_again_or_its_loss_is_said(project: Project, *, changed: bool) -> None:
    """A process that has it keeps it again, whether the project changed meanwhile or not; a later one can only say so."""
    project.accept()
    running = project.now()
    copy = kept_file(project.kept, project.file)
    if changed:
        project.file.write_text("hooks: []\n")
    copy.write_text("{")
    again = project_in_force(project.file, project.store, project.kept, running.kept)
    assert [hook.id for hook in again.file.hooks] == ["check"]
    assert any(source.path == str(copy) for source in again.sources), "the loss of the copy is seen"
    project.file.write_text("hooks: [{on: '*', command: worse}]\n")
    assert project.commands() == ["scripts/check.sh"], "a later process has it"
    copy.unlink()
    found = project.now()
    assert found.file.hooks == ()
    (lost,) = found.rejected
    assert "what you trusted was not kept, so none of its hooks run" in lost.text
    whole = json.loads(copy.read_bytes()) if copy.exists() else {}
    assert whole == {}, "nothing is kept that nobody trusted"
