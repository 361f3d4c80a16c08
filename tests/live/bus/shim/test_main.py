"""The hook command as agents run it, against a real server and a scripted evaluator."""

from __future__ import annotations

import os
import py_compile
import re
import shutil
import signal
import ssl
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from bus import launcher, shim
from bus.ids import event_id
from bus.shim.answer import HookAnswer, pack_answer
from bus.shim.answer_file import RedisServer, compile_shim, server_from_url
from bus.shim.spool import spool_status
from bus.wire.codec import decode_body
from tests.shim_kit import (
    DENY,
    FALLBACK,
    QUIET,
    Fields,
    Proxy,
    World,
    always,
    connect,
    running_server,
    wait_until,
)
from tests.support.servers import free_port
from tests.support.waiting import BUDGET_MS, PATIENCE, at_most

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("each_shim")]

House = tuple[Path, int, Any]
"""Socket, TCP port and client; redis-py types replies as unions over both protocols and every decoding."""

RIGHTS = ("+xadd", "+blmove", "+exists", "+auth", "+select", "+ping", "+hello")
"""What the role of the shim may do: the tests run under it wherever a user logs in."""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A server with a unix socket and a TCP port; its TCP side is what ACL users see."""
    compile_shim()
    path, port = tmp_path_factory.mktemp("r") / "s", free_port()
    with running_server(path, "--port", str(port)), connect(path) as client:
        yield path, port, client


@pytest.fixture
def world(house: House, tmp_path: Path) -> World:
    world = World(tmp_path, house[0], house[2])
    world.install()
    return world


@pytest.mark.req("B-02")
def test_a_verdict_comes_back_as_the_agents_own_bytes_and_exit_code(world: World) -> None:
    payload = b'{"tool_name":"Bash","tool_input":{"command":"ls"}}\n'
    before = event_id()
    with world.evaluator(always(HookAnswer(2, b"out\x00\xff", "blocked: größer\n".encode()))) as seen:
        got = world.hook(payload, env={"FLEETHOOK_PARENT": before})
    assert got == HookAnswer(2, b"out\x00\xff", "blocked: größer\n".encode())
    (request,) = seen
    assert list(request) == [
        b"id",
        b"reply",
        b"budget",
        b"source",
        b"event",
        b"policy",
        b"host",
        b"by",
        b"user",
        b"folder",
        b"repository",
        b"body",
        b"parent",
        b"flag",
    ]
    assert re.fullmatch(rb"e[0-9a-f]{32}", request[b"id"])
    assert before.encode() < request[b"id"] < event_id().encode()
    assert re.fullmatch(re.escape(world.keys("reply", "").encode()) + rb"[0-9a-f]{32}", request[b"reply"])
    assert 0.8 * BUDGET_MS < int(request[b"budget"]) < BUDGET_MS
    assert (request[b"source"], request[b"event"], request[b"host"]) == (b"claude", b"PreToolUse", b"host-1")
    assert decode_body(request[b"body"]) == payload
    assert request[b"parent"] == before.encode()
    assert world.entries("events") == []
    assert not world.spool.exists()


@pytest.mark.req("B-01")
def test_an_announced_event_is_one_entry_and_says_nothing_to_the_agent(world: World) -> None:
    assert world.hook(b'{"a":1}', "PostToolUse") == QUIET
    (event,) = world.entries("events")
    assert list(event) == [
        b"id",
        b"source",
        b"event",
        b"policy",
        b"host",
        b"by",
        b"user",
        b"folder",
        b"repository",
        b"body",
    ]
    assert decode_body(event[b"body"]) == b'{"a":1}'


def test_an_event_that_nobody_wants_costs_nothing(world: World) -> None:
    assert world.hook(b"", "Idle") == HookAnswer()
    assert world.client.keys(world.keys.prefix + "*") == []


@pytest.mark.req("B-02")
def test_over_tcp_with_user_and_database_under_the_shims_own_rights(house: House, world: World) -> None:
    path, port, admin = house
    admin.execute_command("ACL", "SETUSER", "hook-man", "reset", "on", ">p:w/ü", f"~{world.keys.prefix}*", *RIGHTS)
    world.install(server_from_url(f"redis://hook-man:p%3Aw%2F%C3%BC@127.0.0.1:{port}/3"))
    with (
        Redis(unix_socket_path=str(path), db=3, socket_timeout=5, retry=Retry(NoBackoff(), 0)) as third,
        world.evaluator(always(DENY), third) as seen,
    ):
        assert world.hook(b"{}") == DENY
        assert len(seen) == 1
    # A fallback's report needs the rights too.
    assert world.hook(b"{}") == FALLBACK
    with Redis(unix_socket_path=str(path), db=3, socket_timeout=5) as third:
        assert third.xlen(world.keys("events")) == 1


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file with a key and a certificate for `redis.test` that signs itself."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=redis.test",
            "-addext",
            "subjectAltName=DNS:redis.test",
            "-keyout",
            str(folder / "key"),
            "-out",
            str(folder / "cert"),
        ],
        check=True,
        capture_output=True,
    )
    both = folder / "both.pem"
    both.write_bytes((folder / "key").read_bytes() + (folder / "cert").read_bytes())
    return both


def test_over_tls_the_server_must_be_the_one_that_it_says(world: World, certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with Proxy(world.socket, tls=context) as proxy, world.evaluator(always(DENY)) as seen:
        right = RedisServer(
            kind="tls", address="127.0.0.1", port=proxy.port, name="redis.test", cafile=str(certificate)
        )
        world.use(right)
        assert world.hook(b"x" * 300_000) == DENY
        assert len(decode_body(seen[0][b"body"])) == 300_000  # type: ignore[arg-type]  # bytes, as the length shows
        for wrong in ("other.test", ""):
            world.use(
                RedisServer(kind="tls", address="127.0.0.1", port=proxy.port, name=wrong, cafile=str(certificate))
            )
            assert world.hook() == FALLBACK
        world.use(RedisServer(kind="tls", address="127.0.0.1", port=proxy.port, name="redis.test"))
        assert world.hook() == FALLBACK
    assert len(seen) == 1
    assert spool_status(world.spool).records == 3


@pytest.mark.req("G-20")
def test_no_evaluator_means_the_fallback_at_once_and_the_record_says_so(world: World) -> None:
    world.install(deadline_ms=120_000)
    world.has_fleet()
    start = time.monotonic()
    assert world.hook() == FALLBACK
    assert time.monotonic() - start < at_most(1.5), "it must not wait out its deadline"
    (request,) = world.entries("requests")
    (report,) = world.entries("events")
    assert list(report) == [
        b"id",
        b"of",
        b"fallback",
        b"source",
        b"event",
        b"policy",
        b"host",
        b"by",
        b"user",
        b"spooled",
    ]
    assert report[b"of"] == request[b"id"] != report[b"id"]
    assert report[b"fallback"] == b"no evaluator"
    assert (report[b"source"], report[b"event"], report[b"host"]) == (b"claude", b"PreToolUse", b"host-1")
    assert not world.spool.exists()


def test_no_answer_in_time_ends_within_the_deadline_and_is_reported(world: World) -> None:
    world.install(deadline_ms=600)
    world.alive()
    start = time.monotonic()
    assert world.hook() == FALLBACK
    assert 0.4 < time.monotonic() - start < at_most(3)
    (report,) = world.recorded()
    assert report[b"fallback"] == b"no answer in time"


@pytest.mark.req("X-06")
@pytest.mark.parametrize("away", ["socket", "port"])
def test_redis_away_means_the_fallback_at_once_and_both_kinds_are_kept(world: World, away: str) -> None:
    nobody = RedisServer(kind="tcp", address="127.0.0.1", port=free_port())
    gone = nobody if away == "port" else RedisServer(kind="unix", address="/nowhere/s")
    world.use(gone)
    assert world.hook(b"{}", "PreToolUse") == FALLBACK
    assert world.hook(b"{}", "PostToolUse") == QUIET
    assert stat.S_IMODE(world.spool.stat().st_mode) == 0o600
    assert stat.S_IMODE(world.spool.parent.stat().st_mode) == 0o700
    assert spool_status(world.spool).records == 2
    raw = world.spool.read_bytes()
    assert raw.startswith(b"*19\r\n$6\r\nevents\r\n$2\r\nid\r\n$33\r\ne")
    assert b"$8\r\nfallback\r\n$" in raw
    assert b"redis away: " in raw


@pytest.mark.req("X-06")
@pytest.mark.parametrize("case", ["password", "nologin", "rights", "full"])
def test_a_redis_that_refuses_is_redis_away_and_the_record_names_why(house: House, world: World, case: str) -> None:
    _, port, admin = house
    user = f"u{os.urandom(4).hex()}"
    rights = ("+@all", "-xadd") if case == "rights" else RIGHTS
    admin.execute_command("ACL", "SETUSER", user, "reset", "on", ">secret", f"~{world.keys.prefix}*", *rights)
    admin.execute_command("CONFIG", "SET", "maxmemory", "1" if case == "full" else "0")
    admin.execute_command("ACL", "SETUSER", "default", "resetpass")
    password = {"password": "wrong", "nologin": ""}.get(case, "secret")
    world.use(RedisServer(kind="tcp", address="127.0.0.1", port=port, user=user if password else "", password=password))
    try:
        assert world.hook() == FALLBACK
    finally:
        admin.execute_command("CONFIG", "SET", "maxmemory", "0")
        admin.execute_command("ACL", "SETUSER", "default", "nopass")
    said = {"password": b"WRONGPASS", "nologin": b"NOAUTH", "rights": b"NOPERM", "full": b"OOM"}[case]
    assert b"redis refused: " + said in world.spool.read_bytes()
    assert world.entries("requests") == []


@pytest.mark.req("X-06")
def test_a_server_that_stands_still_costs_no_more_than_the_deadline(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with running_server(path) as server, connect(path) as client:
        world = World(tmp_path, path, client)
        world.install(deadline_ms=800)
        world.alive()
        server.send_signal(signal.SIGSTOP)
        try:
            start = time.monotonic()
            assert world.hook() == FALLBACK
            assert world.hook(event="PostToolUse") == QUIET
            assert time.monotonic() - start < at_most(2 * 0.8 + 3)
            assert spool_status(world.spool).records == 2
        finally:
            server.send_signal(signal.SIGCONT)


@pytest.mark.req("B-02")
@pytest.mark.parametrize("lost", ["its word that it has the request", "the answer"])
@pytest.mark.parametrize("how", ["swallowed", "cut"])
def test_a_reply_lost_on_the_wire_is_read_again_and_asks_nothing_twice(world: World, lost: str, how: str) -> None:
    slow = (how, lost) == ("swallowed", "the answer")  # it is missed only when the time is up
    world.install(deadline_ms=6_000 if slow else BUDGET_MS)
    if slow:  # a call that has to look whether it is stopped keeps a second for the end, which a busy machine needs
        world.file.with_name(f"{world.file.name}.stop").touch()
    told = threading.Event()  # the server's first word and the answer must not come in one piece

    def swallow(number: int, chunk: bytes) -> bool:
        told.set()
        gone = number == 0 and (b"FH1" in chunk) == (lost == "the answer")
        if gone and how == "cut":
            raise ConnectionError
        return gone

    def answer(_: Fields) -> bytes:
        assert told.wait(PATIENCE)
        return pack_answer(DENY)

    with Proxy(world.socket, swallow=swallow) as proxy, world.evaluator(answer) as seen:
        world.use(RedisServer(kind="tcp", address="127.0.0.1", port=proxy.port))
        start = time.monotonic()
        assert world.hook() == DENY
        assert time.monotonic() - start < at_most(9)
    assert len({request[b"id"] for request in seen}) == 1
    assert len({request[b"reply"] for request in seen}) == 1
    # A second time, under the same id, only where no answer lay there when it looked.
    assert len(seen) <= (1 if lost == "the answer" else 2)
    assert world.entries("events") == []
    assert not world.spool.exists()


@pytest.mark.parametrize(
    "raw", [b"", b"FH2 0 0 0\n", b"FH1 0 5 0\nabc", b"FH1 x 0 0\n", b"FH1 256 0 0\n", b"\x81\xa1v\x01"]
)
def test_an_answer_in_a_form_that_it_does_not_know_is_no_answer(world: World, raw: bytes) -> None:
    with world.evaluator(lambda _: raw):
        assert world.hook() == FALLBACK
    (report,) = world.entries("events")
    assert report[b"fallback"] == b"answer not understood"


def test_an_answer_larger_than_every_buffer_arrives_whole(world: World) -> None:
    big = HookAnswer(0, os.urandom(700_000), os.urandom(100_000))
    with world.evaluator(always(big)):
        assert world.hook() == big


def test_without_a_usable_answer_file_it_blocks_only_where_the_command_says_so(world: World) -> None:
    whole = world.file.read_bytes()
    cases = [
        None,
        b"",
        whole[: len(whole) // 2],
        whole.replace(b"answers 1", b"answers 2"),
        whole.replace(b"unix", b"ip"),
    ]
    for content in cases:
        world.file.unlink(missing_ok=True)
        if content is not None:
            world.file.write_bytes(content)
        assert world.hook() == HookAnswer()
        blocked = world.hook(closed=True)
        assert (blocked.exit_code, blocked.stdout) == (2, b"")
        assert blocked.stderr.startswith(b"fleethook: this hook fails closed")
        assert b"Traceback" not in blocked.stderr
    world.file.write_bytes(whole)
    assert world.hook(event="NotInTheFile") == HookAnswer()
    assert world.hook(event="NotInTheFile", closed=True).exit_code == 2
    assert world.client.keys(world.keys.prefix + "*") == []


def test_lines_of_a_later_version_are_skipped(world: World) -> None:
    world.file.write_bytes(world.file.read_bytes() + b"later\tthing\nevent\nevent\tX\n\n")
    with world.evaluator(always(DENY)):
        assert world.hook() == DENY


def test_the_launcher_runs_the_source_as_it_is_and_survives_its_absence(world: World, tmp_path: Path) -> None:
    house = tmp_path / "bus"
    house.mkdir()
    shutil.copy(launcher.__file__, house)
    shutil.copytree(Path(shim.__file__).parent, house / "shim", ignore=shutil.ignore_patterns("__pycache__"))
    source = house / "shim" / "main.py"

    def run(*more: str) -> tuple[int, bytes, bytes]:
        words = [sys.executable, "-I", "-S", str(house / "launcher.py"), "claude", "PreToolUse", str(world.file), *more]
        done = subprocess.run(words, input=b"{}", capture_output=True, check=False, timeout=PATIENCE)
        return done.returncode, done.stdout, done.stderr

    with world.evaluator(always(DENY)):
        assert run() == DENY[:3], "from source"
        cached = Path(str(py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)))
        assert run() == DENY[:3], "from bytecode"
        good = cached.read_bytes()
        stamp = source.stat()
        source.write_text("def main(argv): return 7")
        assert run() == (7, b"", b""), "bytecode of another source"
        # The proof that bytecode is used: made to look as if it belonged to the source that says 7.
        os.utime(source, ns=(stamp.st_mtime_ns, stamp.st_mtime_ns))
        cached.write_bytes(good[:12] + source.stat().st_size.to_bytes(4, "little") + good[16:])
        assert run() == DENY[:3]
        for broken in (good[:10], good[:12] + source.stat().st_size.to_bytes(4, "little") + good[16:99]):
            cached.write_bytes(broken)
            assert run() == (7, b"", b"")
    for content in ("def main(argv): raise KeyboardInterrupt", "syntax error", None):
        source.write_text(content) if content else source.unlink()
        assert run() == (0, b"", b"")
        assert run("closed")[:2] == (2, b"")


@pytest.mark.req("X-06")
def test_the_drainer_that_it_leaves_behind_holds_nothing_of_the_agents(world: World, tmp_path: Path) -> None:
    gone = RedisServer(kind="unix", address="/nowhere/s")
    world.use(gone)
    world.hook(event="PostToolUse")
    hung = threading.Event()

    def swallow(number: int, _chunk: bytes) -> bool:
        if number == 1:
            hung.set()  # the drainer now waits for a reply that never comes
        return number == 1

    with Proxy(world.socket, swallow=swallow) as proxy:
        world.use(RedisServer(kind="tcp", address="127.0.0.1", port=proxy.port))
        inherited, ours = os.pipe()
        os.set_inheritable(ours, True)
        agent = subprocess.Popen(
            world.command("PostToolUse"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            close_fds=False,
            env={"PATH": os.defpath, "API_KEY": "canary"},
        )
        os.close(ours)
        assert agent.communicate(b"{}", timeout=PATIENCE) == QUIET[1:3], "both pipes ended"
        assert os.read(inherited, 1) == b"", "what the agent leaked into it ended too"
        os.close(inherited)
        assert hung.wait(PATIENCE), "a drainer is at work all the while"
        held, lock = world.spool.with_name("waiting.draining"), world.spool.with_name("waiting.drain.lock")
        assert held.exists()
        assert lock.stat().st_mtime <= time.time(), "and has not given up: the pipes ended while it was there"
        for process in Path("/proc").glob("[0-9]*"):  # where there is a /proc
            with suppress(OSError):
                if str(world.file).encode() in (process / "cmdline").read_bytes():
                    assert b"canary" not in (process / "environ").read_bytes()
                    assert os.getsid(int(process.name)) != os.getsid(0)
    wait_until(lambda: lock.stat().st_mtime > time.time())
    assert held.exists(), "nothing is lost when a drain fails"


@pytest.mark.req("X-06")
def test_redis_gone_and_back_everything_arrives_in_order_and_once(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with connect(path) as client:
        world = World(tmp_path, path, client)
        world.install()
        for number in range(6):
            event = "PreToolUse" if number % 2 else "PostToolUse"
            world.hook(b"%d" % number, event)
        assert spool_status(world.spool).records == 6
        with running_server(path), world.evaluator(lambda fields: None if b"fallback" in fields else pack_answer(DENY)):
            assert world.hook(b"6") == DENY
            wait_until(lambda: not world.spool.exists() and not world.spool.with_name("waiting.draining").exists())
            sent = world.entries("events")
            assert [decode_body(fields[b"body"]) for fields in sent] == [b"%d" % number for number in range(6)]
            assert [fields.get(b"fallback", b"")[:10] for fields in sent] == [b"", b"redis away"] * 3
            assert [fields[b"spooled"] for fields in sent] == [b"1"] * 6
            assert [decode_body(fields[b"body"]) for fields in world.entries("requests")] == [b"6"]
