"""The answer file: written whole, read as the shim reads it, and the URL that becomes a numeric address."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus import launcher, shim
from bus.errors import ConfigError, Unreachable
from bus.shim import main
from bus.shim.answer import HookAnswer, pack_answer, unpack_answer
from bus.shim.answer_file import (
    AnswerFile,
    EventLine,
    RedisServer,
    compile_shim,
    format_answers,
    gateway_from_url,
    hook_command,
    read_answer_file,
    server_from_url,
    write_answer_file,
)

FILE = AnswerFile(
    agent="claude",
    server=RedisServer(
        kind="unix", address="/run/user/1000/fleethook/redis.sock", user="hook", password="tab\there", db=2
    ),
    prefix="fh:default:{0}:",
    host="laptop",
    spool="/home/ü \udcff/spool",
    events=(
        EventLine(
            name="PreToolUse", fallback=HookAnswer(2, b"\x00\xff\n", b"why\tso\n"), deadline_ms=9_500, policy="deny"
        ),
        EventLine(name="Stop", mode="publish"),
        EventLine(name="*", mode="skip"),
    ),
)


@pytest.mark.parametrize(
    "server",
    [
        FILE.server,
        RedisServer(kind="tcp", address="::1", port=6379, password="no user"),
        RedisServer(kind="tls", address="10.0.0.1", port=6380, name="redis.example", cafile="/etc/ca file.pem"),
        RedisServer(kind="tls", address="10.0.0.1", port=6380, name="redis.example"),
        RedisServer(kind="unix", address="/run/gateway.sock", gateway="localhost"),
        RedisServer(kind="tcp", address="::1", port=4665, password="fht_x", gateway="[::1]:4665"),
    ],
)
def test_what_was_written_is_read_back(tmp_path: Path, server: RedisServer) -> None:
    answers = msgspec.structs.replace(FILE, server=server)
    write_answer_file(tmp_path / "a", answers)
    assert read_answer_file(tmp_path / "a") == answers


def test_the_file_is_the_owners_only_and_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "a"
    write_answer_file(path, FILE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    before = path.read_bytes()
    with path.open("rb") as reader:
        write_answer_file(path, msgspec.structs.replace(FILE, host="other"))
        assert reader.read() == before, "who reads the old file goes on reading the old file"
    assert [entry.name for entry in path.parent.iterdir()] == ["a"]


def test_its_lines_are_as_documented() -> None:
    lines = format_answers(FILE).decode("utf-8", "surrogateescape").splitlines()
    assert lines[:3] == ["fleethook-answers 1", "agent\tclaude", "server\tunix\t/run/user/1000/fleethook/redis.sock"]
    assert lines[3:5] == [f"auth\t{b'hook'.hex()}\t{FILE.server.password.encode().hex()}", "db\t2"]
    assert lines[8] == f"event\tPreToolUse\trequest\t9500\t2\t00ff0a\t{FILE.events[0].fallback.stderr.hex()}\tdeny"
    assert FILE.server.password not in repr(FILE)


@pytest.mark.parametrize(
    "wrong",
    [
        msgspec.structs.replace(FILE, host="a\tb"),
        msgspec.structs.replace(FILE, spool="/a\nauth\t\t"),
        msgspec.structs.replace(FILE, events=(EventLine(name="x", deadline_ms=0),)),
        msgspec.structs.replace(FILE, events=(EventLine(name="x", fallback=HookAnswer(256)),)),
        msgspec.structs.replace(FILE, events=(EventLine(name="x\ty"),)),
    ],
)
def test_what_its_lines_cannot_hold_is_refused_before_anything_is_written(tmp_path: Path, wrong: AnswerFile) -> None:
    with pytest.raises(ConfigError):
        write_answer_file(tmp_path / "a", wrong)
    assert list(tmp_path.iterdir()) == []


WHOLE = format_answers(FILE)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        WHOLE[:-1],
        WHOLE.replace(b"answers 1\n", b"answers 10\n"),
        WHOLE.replace(b"agent", b"agnet"),
        WHOLE.replace(b"unix", b"dial"),
        WHOLE.replace(b"\tdeny\n", b"\n"),
        WHOLE.replace(b"9500", b"soon"),
        WHOLE.replace(b"\t00ff0a\t", b"\t00f\t"),
        WHOLE.replace(b"db\t2", b"db\tx"),
        WHOLE.replace(b"auth\t", b"auth\tzz"),
        WHOLE.replace(b"publish", b"shout"),
        WHOLE.replace(b"\tunix\t", b"\ttcp\t"),
    ],
)
def test_a_file_that_the_shim_could_not_use_is_named_with_the_way_out(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ConfigError, match="run: fleethook install") as caught:
        read_answer_file(tmp_path / "a")
    assert caught.value.file == str(tmp_path / "a")


def test_a_file_that_is_not_there_is_named_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_answer_file(tmp_path / "a")


def test_unknown_lines_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(WHOLE + b"\nlater\t1\nevent\n")
    assert read_answer_file(tmp_path / "a") == FILE


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("redis://127.0.0.1", RedisServer(kind="tcp", address="127.0.0.1", port=6379)),
        (
            "redis://:p%40ss@127.0.0.1:7000/3",
            RedisServer(kind="tcp", address="127.0.0.1", port=7000, password="p@ss", db=3),
        ),
        (
            "redis://me:pw@[::1]:7000?db=4",
            RedisServer(kind="tcp", address="::1", port=7000, user="me", password="pw", db=4),
        ),
        (
            "rediss://127.0.0.1?ssl_ca_certs=/ca.pem",
            RedisServer(kind="tls", address="127.0.0.1", port=6379, name="127.0.0.1", cafile="/ca.pem"),
        ),
        (
            "rediss://u:p@127.0.0.1/?ssl_cert_reqs=required",
            RedisServer(kind="tls", address="127.0.0.1", port=6379, name="127.0.0.1", user="u", password="p"),
        ),
        ("unix:///run/my%20redis.sock?db=5", RedisServer(kind="unix", address="/run/my redis.sock", db=5)),
        ("unix://u:p@/run/r.sock", RedisServer(kind="unix", address="/run/r.sock", user="u", password="p")),
        ("unix:///r.sock?username=u&password=p", RedisServer(kind="unix", address="/r.sock", user="u", password="p")),
    ],
)
def test_a_url_becomes_a_server(url: str, server: RedisServer) -> None:
    assert server_from_url(url) == server


def test_a_host_becomes_a_numeric_address_and_tls_remembers_its_name() -> None:
    server = server_from_url("rediss://localhost:7001")
    assert server.address in {"127.0.0.1", "::1"}
    assert server.name == "localhost"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:6379",
        "http://127.0.0.1",
        "redis://127.0.0.1:port",
        "redis://127.0.0.1/x",
        "redis://127.0.0.1/-1",
        "unix://relative",
        "redis://127.0.0.1:99999",
        "rediss://127.0.0.1?ssl_cert_reqs=none",
        "redis://[::1",
        "redis://u:secret/x@127.0.0.1",
    ],
)
def test_a_url_that_cannot_be_used_says_how_one_looks(url: str) -> None:
    with pytest.raises(ConfigError, match=r"redis://|ssl_ca_certs") as caught:
        server_from_url(url)
    assert "secret" not in str(caught.value)


def test_a_host_that_does_not_resolve_is_unreachable() -> None:
    with pytest.raises(Unreachable, match=r"nowhere\.invalid"):
        server_from_url("redis://u:secret@nowhere.invalid")


def test_the_installed_command_names_everything_by_absolute_path(tmp_path: Path) -> None:
    command = hook_command("/usr/bin/python3", "claude", "Stop", tmp_path / "a", closed=True)
    assert command[:3] == ("/usr/bin/python3", "-I", "-S")
    assert os.path.isabs(command[3])
    assert command[4:] == ("claude", "Stop", str(tmp_path / "a"), "closed")
    assert len(hook_command("p", "claude", "Stop", tmp_path / "a")) == 7


def test_the_launcher_finds_what_install_compiled() -> None:
    compile_shim()
    names = launcher.load(main.__file__, "bus.shim.main")
    assert names["HEADER"] == shim.HEADER
    assert callable(names["main"])


@given(
    code=st.integers(0, 255),
    out=st.binary(max_size=300),
    err=st.binary(max_size=300),
    flag=st.binary(max_size=300),
)
def test_the_shim_takes_every_answer_apart_as_it_was_packed(code: int, out: bytes, err: bytes, flag: bytes) -> None:
    packed = pack_answer(HookAnswer(code, out, err), flag)
    assert shim.unpack_answer(packed) == ((code, out, err), flag)
    assert unpack_answer(packed) == HookAnswer(code, out, err)


@pytest.mark.parametrize(
    ("url", "server"),
    [
        (
            "unix:///run/my%20g.sock",
            RedisServer(kind="unix", address="/run/my g.sock", password="t", gateway="localhost"),
        ),
        (
            "http://127.0.0.1:4665",
            RedisServer(kind="tcp", address="127.0.0.1", port=4665, password="t", gateway="127.0.0.1:4665"),
        ),
        ("http://[::1]/", RedisServer(kind="tcp", address="::1", port=80, password="t", gateway="[::1]:80")),
        (
            "https://127.0.0.1?ssl_ca_certs=/ca.pem",
            RedisServer(
                kind="tls",
                address="127.0.0.1",
                port=443,
                name="127.0.0.1",
                cafile="/ca.pem",
                password="t",
                gateway="127.0.0.1:443",
            ),
        ),
    ],
)
def test_a_gateways_url_becomes_a_numeric_address(url: str, server: RedisServer) -> None:
    assert gateway_from_url(url, "t") == server


@pytest.mark.parametrize(
    ("url", "token", "problem"),
    [
        ("http://127.0.0.1:4665", "", "needs a token"),
        ("http://127.0.0.1:4665", "a b", "character"),
        ("http://127.0.0.1:4665", "a\r\nX: y", "character"),
        ("http://127.0.0.1:4665/v1", "t", "scheme, host and port"),
        ("http://me:pw@127.0.0.1", "t", "scheme, host and port"),
        ("unix://there/run/g.sock", "", "scheme, host and port"),
        ("redis://127.0.0.1", "t", "scheme, host and port"),
    ],
)
def test_a_gateways_url_that_cannot_be_used_is_refused(url: str, token: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        gateway_from_url(url, token)
