"""Who runs a command: an agent by its variables or its process, and the wall before what weakens the guards."""

from __future__ import annotations

import os
import pty
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from bus.system import calling_agent as module
from bus.system.calling_agent import CallingAgent, agent_of, calling_agent
from tests.cli_kit import fleethook
from tests.support.rows import rows
from tests.support.waiting import PATIENCE, wait_until
from workers.admin.person import TEST_VARIABLE, PersonNeeded, require_person

ROOT = Path(__file__).parents[4]


@pytest.fixture
def nobody_above(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the tests had been started by a person, whoever did."""
    monkeypatch.setattr(module, "ancestors", lambda: iter(()))
    for names in module.VARIABLES.values():
        for name in names:
            monkeypatch.delenv(name, raising=False)


@pytest.mark.req("X-09")
@rows(
    ("argv", "agent"),
    [
        ("claude", "claude"),
        ("claude --dangerously-skip-permissions", "claude"),
        ("/home/u/.local/bin/claude -p x", "claude"),
        ("node /usr/lib/node_modules/@anthropic-ai/claude-code/cli.js", "claude"),
        ("node --no-warnings /usr/local/bin/gemini", "gemini"),
        ("/usr/bin/node /x/node_modules/@google/gemini-cli/dist/index.js", "gemini"),
        ("node /x/node_modules/@qwen-code/qwen-code/cli.js", "qwen"),
        ("/opt/node_modules/@openai/codex/vendor/codex/codex", "codex"),
        ("node /x/node_modules/@github/copilot/index.js", "copilot"),
        ("/home/u/.local/share/cursor-agent/versions/1/node index.js", "cursor"),
        ("/opt/opencode-ai/bin/opencode", "opencode"),
        ("/Applications/Windsurf.app/Contents/MacOS/Windsurf", "windsurf"),
        ("bun run /x/node_modules/opencode-ai/bin/opencode", "opencode"),
        ("bash -c 'claude --help'", ""),
        ("vim claude.md", ""),
        ("node server.js claude", ""),
        ("python -m pytest tests/codex", ""),
        ("/home/u/src/codex/run.sh", ""),
        ("", ""),
    ],
)
def test_an_agent_is_known_by_its_program(argv: str, agent: str) -> None:
    """Also through the interpreter that runs it; not by a word among the arguments."""
    assert agent_of(tuple(argv.split())) == agent


@pytest.mark.req("X-09")
@pytest.mark.usefixtures("nobody_above")
def test_an_agent_is_known_by_its_variables() -> None:
    """Each that it sets for its commands; settings that a person keeps in a profile say nothing."""
    for agent, names in module.VARIABLES.items():
        for name in names:
            assert calling_agent({name: "1"}) == CallingAgent(agent, f"{name} is set")
    own = {
        "CODEX_HOME": "/x",
        "CLAUDE_CONFIG_DIR": "/x",
        "OPENCODE_CONFIG": "/x",
        "GEMINI_API_KEY": "x",
        "CLAUDECODE": "",
    }
    assert calling_agent(own) is None


@pytest.mark.req("X-09")
def test_an_agent_is_found_among_the_processes_above(tmp_path: Path) -> None:
    """The real processes: a program called claude that starts a shell that starts us."""
    (tmp_path / "claude").symlink_to("/bin/sh")
    code = "from bus.system.calling_agent import calling_agent; print(calling_agent({}).agent)"
    inner = f"{sys.executable} -c '{code}'; true"  # `; true`: the shell stays above
    done = subprocess.run(
        [tmp_path / "claude", "-c", '/bin/sh -c "$INNER"; true'],
        env={"INNER": inner, "PYTHONPATH": str(ROOT), "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "claude\n", done.stderr


@pytest.mark.req("X-09")
@pytest.mark.usefixtures("nobody_above")
def test_a_person_is_let_through(tmp_path: Path) -> None:
    assert require_person("down", touched=[tmp_path], environ={}) is None


@pytest.mark.req("X-09")
def test_the_way_in_of_the_tests_is_for_temporary_folders_alone(tmp_path: Path) -> None:
    """Never for the user's folders, files or servers."""
    agent = {"CLAUDECODE": "1"}
    inside = {**agent, TEST_VARIABLE: "1", "FLEETHOOK_HOME": str(tmp_path)}
    server = f"unix://{tmp_path}/redis.sock?db=0"
    assert require_person("down", touched=[tmp_path / "x"], server=server, environ=inside) is not None
    home = Path(pwd.getpwuid(os.getuid()).pw_dir) / "nowhere"
    (tmp_path / "link").symlink_to("/usr")
    for environ, touched, url in (
        (agent, [], ""),
        ({**inside, TEST_VARIABLE: "yes"}, [], ""),
        ({**inside, "FLEETHOOK_HOME": ""}, [], ""),
        ({**inside, "FLEETHOOK_HOME": str(home)}, [], ""),
        ({**inside, "FLEETHOOK_HOME": "/tmp"}, [], ""),
        ({**inside, "FLEETHOOK_HOME": str(tmp_path / "link" / "share")}, [], ""),
        ({**inside, "FLEETHOOK_HOME": "/usr/share", "TMPDIR": "/usr"}, [], ""),
        (inside, [tmp_path, Path("/usr/share/x")], ""),
        (inside, [], "redis://127.0.0.1:6379/0"),
        (inside, [], "unix:///run/redis.sock"),
    ):
        with pytest.raises(PersonNeeded, match=r"an agent runs it \(claude: CLAUDECODE is set\). Nothing was changed"):
            require_person("down", touched=touched, server=url, environ=environ)


@pytest.mark.req("X-09")
@pytest.mark.parametrize("above", [("claude", "sh"), ("sh", "init")], ids=["the agent's", "the outermost process's"])
def test_a_home_in_a_temporary_folder_is_the_users_nevertheless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, above: tuple[str, str]
) -> None:
    """A container's HOME=/tmp/x: known by the processes above, whatever HOME the command itself is given."""
    user, other = tmp_path / "user", tmp_path / "other"
    inside = {"CLAUDECODE": "1", TEST_VARIABLE: "1", "HOME": str(other)}
    sleep = ["/bin/sh", "-c", "read line"]
    with (
        subprocess.Popen(sleep, stdin=subprocess.PIPE, env={"HOME": str(user)}) as users,
        subprocess.Popen(sleep, stdin=subprocess.PIPE, env={"HOME": str(other)}) as others,
    ):
        both = (users, others) if agent_of((above[0],)) else (others, users)
        processes = [(process.pid, (name,)) for process, name in zip(both, above, strict=True)]
        monkeypatch.setattr(module, "ancestors", lambda: iter([(os.getpid(), ("pytest",)), *processes]))
        # A child has its environment only when it has become the program.
        wait_until(lambda: {str(user), str(other)} <= {module._home_of(one.pid) for one in both}, "both run")
        for home, touched in ((user, []), (user / "fh", []), (tmp_path, [user / ".claude" / "settings.json"])):
            with pytest.raises(PersonNeeded):
                require_person("down", touched=touched, environ={**inside, "FLEETHOOK_HOME": str(home)})
        elsewhere = {**inside, "FLEETHOOK_HOME": str(tmp_path / "fh")}
        assert require_person("down", touched=[tmp_path / "user-2"], environ=elsewhere) is not None
        for process in both:
            process.communicate(b"\n")


@pytest.mark.req("X-09")
def test_a_home_that_is_the_temporary_folder_itself_takes_nothing_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HOME=/tmp: what is below it is still temporary; so is it where the home is above it."""
    environ = {"CLAUDECODE": "1", TEST_VARIABLE: "1", "FLEETHOOK_HOME": str(tmp_path)}
    for home in ("/tmp", "/"):
        monkeypatch.setattr("workers.admin.person.user_homes", lambda home=home: {home})
        assert require_person("down", environ=environ) is not None


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    ("typed", "code"), [(b"confirm\n", 0), (b"yes\n", 1), (b"\n", 1), (b"\x04", 1)], ids=["word", "yes", "empty", "end"]
)
def test_a_person_below_an_agent_types_a_word_on_the_terminal(tmp_path: Path, typed: bytes, code: int) -> None:
    """On the terminal itself: what stands on stdin is no answer."""
    pid, terminal = pty.fork()
    if pid == 0:
        environ = {"CLAUDECODE": "1", "FLEETHOOK_HOME": str(tmp_path), "PATH": os.defpath, "PYTHONPATH": str(ROOT)}
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.execve(sys.executable, [sys.executable, "-P", "-m", "workers.cli", "down"], environ)
    screen = b""
    try:
        while chunk := os.read(terminal, 65536):
            screen += chunk
            if b"and Enter: " in screen and typed:
                os.write(terminal, typed)
                typed = b""
    except OSError:  # Linux: EIO at the end
        pass
    finally:
        os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == code, screen
    assert (b"Nothing runs here." in screen) == (code == 0)


@pytest.mark.req("X-09")
@pytest.mark.parametrize("agent", sorted(module.VARIABLES))
def test_without_a_terminal_an_agent_is_refused(agent: str, tmp_path: Path) -> None:
    """As a real command: exit code 1, why, and what to do instead; nothing waits for an answer."""
    environ = {module.VARIABLES[agent][0]: "1", "FLEETHOOK_HOME": str(tmp_path), "PATH": os.defpath}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "workers.cli", "down"],
        cwd=ROOT,
        env={**environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "A person has to run it in a terminal of their own" in done.stderr


@pytest.mark.req("X-09")
@pytest.mark.parametrize("words", [("down",), ("hooks", "untrust")], ids=" ".join)
def test_reading_and_help_need_nobody(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The wall is before the act, not before its help."""
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.delenv(TEST_VARIABLE)
    monkeypatch.chdir(tmp_path)
    assert fleethook(*words, "--help").code == 0
    assert fleethook("hooks", "trust", "--list").code == 0
