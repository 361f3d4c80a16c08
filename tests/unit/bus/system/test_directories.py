"""Where things lie, and that nobody else can get at them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bus.errors import ConfigError
from bus.system.directories import CONFIG_NAMES, SOCKET_LIMIT, config_file, directories, make_private


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_everything_lies_under_fleethook_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    found = directories({"FLEETHOOK_HOME": str(home)})
    assert (found.config, found.data, found.state) == (home / "config", home / "data", home / "state")
    for path in (found.config, found.data, found.state, found.runtime):
        assert mode(path) == 0o700
    assert directories({"FLEETHOOK_HOME": str(home)}) == found  # a second time changes nothing
    files = (found.server_dir, found.credentials, found.trust_file, found.log_dir, found.pid_file)
    for path in (*files, found.spool("claude"), found.answer_file("claude")):
        assert home in path.parents or path.parent == found.runtime


def test_looking_does_not_create(tmp_path: Path) -> None:
    directories({"FLEETHOOK_HOME": str(tmp_path / "home")}, create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_short_home_keeps_its_runtime_and_a_long_one_gets_a_short_one_of_its_own() -> None:
    short = directories({"FLEETHOOK_HOME": "/tmp/h"}, create=False)
    assert short.runtime == Path("/tmp/h/run")
    long = [directories({"FLEETHOOK_HOME": "/tmp/" + "x" * 90 + name}, create=False) for name in "ab"]
    for found in long:
        assert len(os.fsencode(found.socket)) < SOCKET_LIMIT
        assert found.runtime.parent == Path(f"/tmp/fleethook-{os.geteuid()}")
    assert long[0].runtime != long[1].runtime
    # The limit is in bytes, and counts the whole path.
    edge = "/tmp/" + "ä" * 40
    assert len(os.fsencode(directories({"FLEETHOOK_HOME": edge}, create=False).socket)) < SOCKET_LIMIT


def test_the_sessions_runtime_directory_counts_only_if_it_is_private(tmp_path: Path) -> None:
    session = tmp_path / "s"
    session.mkdir(mode=0o700)
    if len(os.fsencode(session / "fleethook" / "redis.sock")) >= SOCKET_LIMIT:
        pytest.fail("the test's own directory is too long to show anything; run pytest with a shorter --basetemp")
    assert directories({"XDG_RUNTIME_DIR": str(session)}, create=False).runtime == session / "fleethook"
    session.chmod(0o755)
    assert session not in directories({"XDG_RUNTIME_DIR": str(session)}, create=False).runtime.parents
    assert session not in directories({"XDG_RUNTIME_DIR": "relative"}, create=False).runtime.parents


def test_a_runtime_directory_that_others_can_reach_is_refused(tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o711)
    with pytest.raises(ConfigError, match="open to other users; chmod 700"):
        make_private(open_to_all)
    link = tmp_path / "link"
    (tmp_path / "there").mkdir(mode=0o700)
    link.symlink_to(tmp_path / "there")
    with pytest.raises(ConfigError, match="is a symbolic link"):
        make_private(link)
    plain = tmp_path / "plain"
    plain.write_text("")
    with pytest.raises(ConfigError, match="is no directory"):
        make_private(plain)


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    for narrow in (False, True):
        with pytest.raises(ConfigError, match="belongs to another user"):
            make_private(theirs, narrow=narrow)


def test_our_own_directory_is_closed_where_it_was_open(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o755)
    found = directories({"FLEETHOOK_HOME": str(tmp_path)})
    assert mode(found.data) == 0o700


def test_a_home_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="set FLEETHOOK_HOME"):
        directories({"FLEETHOOK_HOME": str(tmp_path / "file" / "home")})


@pytest.mark.parametrize("agent", ["", "..", "a/b", "../x", ".hidden", "a\x00b", "x" * 33, "ä"])
def test_the_name_of_an_agent_cannot_lead_elsewhere(agent: str) -> None:
    found = directories({"FLEETHOOK_HOME": "/tmp/h"}, create=False)
    for place in (found.spool, found.answer_file):
        with pytest.raises(ConfigError, match="no name of an agent"):
            place(agent)


def test_one_spelling_of_the_config_file_wins(tmp_path: Path) -> None:
    assert config_file(tmp_path) is None
    for name in reversed(CONFIG_NAMES):
        (tmp_path / name).write_text("")
        assert config_file(tmp_path) == tmp_path / name
