"""What each role can and cannot do, with its own credentials on a real server: the wall, attacked.

Watched on Valkey 9.1.2, Redis 7.0.15 and Redis 6.2.14, whichever `find_binary` gives.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError

from bus.config.settings import Settings
from bus.system.directories import Directories, directories
from bus.wire.acl import ROLES, Role, acl_file, roles, user_name
from bus.wire.connections import Connections, sync_client
from bus.wire.embedded_server import bus_url, find_binary, start, stop
from bus.wire.keys import DECLARED, READ_ONLY, Keys
from bus.wire.scripts import script
from tests.support.servers import Server, has_selectors
from tests.support.waiting import wait_until

pytestmark = pytest.mark.live

KEYS = Keys("fleet")
MINE = KEYS("reply", "a" * 32)
OTHERS = KEYS("reply", "b" * 32)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directories]:
    home: Path = tmp_path_factory.mktemp("acl")
    made = directories({"FLEETHOOK_HOME": str(home)})
    running = start(made)
    yield made
    stop(running)


@pytest.fixture
def login(places: Directories) -> Iterator[Any]:
    """A function that logs in as a role; everything is closed and emptied afterwards."""
    opened: list[Redis] = []

    def open_as(role: Role) -> Redis:
        opened.append(sync_client(bus_url(Settings(), role, places)))
        return opened[-1]

    yield open_as
    admin = open_as("admin")
    for key in admin.scan_iter("*"):
        admin.delete(key)
    for client in opened:
        client.close()


def refused(client: Redis, *command: Any) -> bool:
    """Whether the server refuses it for want of rights, and not for another reason."""
    try:
        client.execute_command(*command)  # type: ignore[no-untyped-call]  # redis-py leaves it untyped
    except ResponseError as error:
        # Inside a script: Valkey 9.1 and Redis 7.2 say the first, Redis 7.0 and 6.2 the second.
        words = ("ACL failure", "The user executing the script can't")
        return isinstance(error, NoPermissionError) or any(word in str(error) for word in words)
    return False


def lua(call: str, *keys: str) -> tuple[Any, ...]:
    return ("EVAL", f"return redis.call({call})", len(keys), *keys)


ATTACKS: dict[str, list[tuple[Any, ...]]] = {
    "answer a request": [
        ("LPUSH", OTHERS, "allow"),
        ("RPUSH", OTHERS, "allow"),
        ("LSET", OTHERS, 0, "allow"),
        ("SET", OTHERS, "allow"),
        ("XADD", OTHERS, "*", "a", "b"),
        ("LPUSH", MINE, "allow"),
        lua(f"'RPUSH', '{OTHERS}', 'allow'"),
        lua("'RPUSH', KEYS[1], 'allow'", KEYS("sent")),
        ("XGROUP", "CREATE", KEYS("requests"), "mine", "0"),
        ("XREADGROUP", "GROUP", "evaluators", "me", "COUNT", 1, "STREAMS", KEYS("requests"), ">"),
        ("XACK", KEYS("requests"), "evaluators", "1-1"),
    ],
    "say that an evaluator lives": [
        ("SET", KEYS("alive", "evaluator"), "me"),
        ("XADD", KEYS("alive", "evaluator"), "*", "a", "b"),
        ("ZADD", KEYS("alive", "evaluator"), 1, "a"),
        lua(f"'XADD', '{KEYS('alive', 'evaluator')}', '*', 'a', 'b'"),
    ],
    "read another's verdict": [
        ("GET", KEYS("verdict", "e1")),
        ("BLMOVE", KEYS("verdict", "e1"), MINE, "LEFT", "LEFT", 0.01),
        ("LRANGE", OTHERS, 0, -1),
        ("LINDEX", OTHERS, 0),
        ("XRANGE", KEYS("events"), "-", "+"),
        ("XREAD", "COUNT", 1, "STREAMS", KEYS("requests"), "0"),
        ("SCAN", 0),
        ("KEYS", "*"),
        ("RANDOMKEY",),
        ("MONITOR",),
        ("SUBSCRIBE", "fh:fleet:x"),
        ("CLIENT", "LIST"),
        ("DUMP", OTHERS),
        lua(f"'XRANGE', '{KEYS('events')}', '-', '+'"),
        lua(f"'GET', '{KEYS('hookset', 'current')}'"),
        lua("'SCAN', 0"),
    ],
    "publish a hook set": [
        ("SET", KEYS("hookset", "current"), "9"),
        ("GET", KEYS("hookset", "current")),
        ("XADD", KEYS("hookset", "log"), "*", "a", "b"),
        ("BLMOVE", MINE, KEYS("hookset", "9"), "LEFT", "LEFT", 0.01),
        lua(f"'SET', '{KEYS('hookset', 'current')}', '9'"),
    ],
    "have a job run": [
        ("SADD", "rq:queues", "rq:queue:carrier"),
        ("RPUSH", "rq:queue:carrier", "j"),
        ("HSET", "rq:job:j", "data", "x"),
        ("XADD", KEYS("deliveries"), "*", "d", "x"),
        ("ZADD", KEYS("due"), 0, "x"),
        ("PUBLISH", "rq:pubsub:w", "x"),
        ("BLMOVE", MINE, "rq:queue:carrier", "LEFT", "LEFT", 0.01),
        lua("'RPUSH', 'rq:queue:carrier', 'j'"),
        ("EVALSHA", "0" * 40, 0),
        ("SCRIPT", "LOAD", "return 1"),
        ("FUNCTION", "LIST"),
        ("FCALL", "f", 0),
    ],
    "wreck it": [
        ("FLUSHALL",),
        ("FLUSHDB",),
        ("DEL", KEYS("requests")),
        ("UNLINK", KEYS("events")),
        ("SET", KEYS("events"), "x"),
        ("EXPIRE", KEYS("requests"), 1),
        ("XTRIM", KEYS("requests"), "MAXLEN", 0),
        ("XDEL", KEYS("events"), "1-1"),
        ("RENAME", KEYS("events"), MINE),
        ("CONFIG", "GET", "*"),
        ("ACL", "LIST"),
        ("CONFIG", "SET", "maxmemory", "1"),
        ("SHUTDOWN", "NOSAVE"),
        ("INFO",),
        ("REPLICAOF", "127.0.0.1", 1),
        ("CLIENT", "KILL", "TYPE", "normal"),
        ("SCRIPT", "FLUSH"),
        ("MODULE", "LIST"),
        ("SAVE",),
        ("MIGRATE", "127.0.0.1", 1, KEYS("events"), 0, 1),
        lua("'FLUSHALL'"),
        lua(f"'DEL', '{KEYS('requests')}'"),
        lua("'DEL', KEYS[1]", KEYS("requests")),
    ],
    "run what cannot be ended": [
        ("EVAL", "while true do end", 0),
        ("EVAL", "redis.call('XADD', KEYS[1], '*', 'a', 'b') while true do end", 1, KEYS("events")),
        ("EVAL", "return 1", 0),
        ("EVAL", "return 1", 1, KEYS("events")),
        ("EVAL", "return 1", 1, MINE),
        ("EVALSHA", "0" * 40, 1, KEYS("events")),
        ("SCRIPT", "LOAD", "return 1"),
        ("SCRIPT", "EXISTS", "0" * 40),
        ("SCRIPT", "KILL"),
        ("FCALL", "f", 1, KEYS("events")),
        ("FUNCTION", "LOAD", "#!lua name=x\n"),
        ("ZADD", KEYS("sent"), 1, "a"),
        ("MULTI",),
        ("WAIT", 1, 1000),
        ("CLIENT", "PAUSE", 1000),
    ],
    "reach beyond the bus": [
        ("XADD", "somebody:else", "*", "a", "b"),
        ("BLMOVE", "somebody", MINE, "LEFT", "LEFT", 0.01),
        ("BLPOP", "somebody", 0.01),
        ("ZADD", "sent", 1, "a"),
        ("EXISTS", "somebody"),
        ("EVAL", "return 1", 1, OTHERS),
    ],
}

SELECTORS = (binary := find_binary()).brand == "valkey" or binary.number >= (7, 0)


def stopped_here(attack: tuple[Any, ...]) -> bool:
    """Redis 6.2 cannot say which command goes with which key, and knows no functions."""
    words = [str(word) for word in attack]
    wider = words[0] == "XADD"
    named = any(word == OTHERS or "alive:evaluator" in word for word in words)
    return SELECTORS or not ((wider and named) or words[0] in ("FUNCTION", "FCALL"))


@pytest.mark.req("B-01", "B-02")
@pytest.mark.parametrize("aim", ATTACKS)
@pytest.mark.parametrize("role", ["shim", "agent"])
def test_whoever_sends_events_cannot(aim: str, role: Role, login: Any) -> None:
    admin, client = login("admin"), login(role)
    admin.rpush(OTHERS, "deny")
    admin.set(KEYS("hookset", "current"), "8")
    admin.xadd(KEYS("requests"), {"id": "e1"})
    admin.xgroup_create(KEYS("requests"), "evaluators", "0")

    may = {("LINDEX", OTHERS, 0)} if role == "agent" else set()
    got_through = [a for a in ATTACKS[aim] if a not in may and stopped_here(a) and not refused(client, *a)]

    assert got_through == []
    assert admin.lrange(OTHERS, 0, -1) == [b"deny"]
    assert admin.get(KEYS("hookset", "current")) == b"8"
    assert admin.xlen(KEYS("requests")) == 1


def test_the_shim_can_do_its_work(login: Any) -> None:
    admin, shim = login("admin"), login("shim")

    assert shim.execute_command("EXISTS", KEYS("alive", "evaluator")) == 0
    assert shim.xadd(KEYS("requests"), {"id": "e1", "reply": MINE})
    admin.rpush(MINE, "the answer")
    for _ in "twice":  # the read does not consume
        assert shim.execute_command("BLMOVE", MINE, MINE, "LEFT", "LEFT", 0.1) == b"the answer"
    assert shim.execute_command("EXISTS", f"{MINE}:wait") == 0
    assert shim.execute_command("BLPOP", MINE, 0.1) == (MINE.encode(), b"the answer")  # as a full server gives it
    assert shim.ping()  # a server that did not answer the last call is asked first
    assert shim.xadd(KEYS("events"), {"id": "e2", "source": "claude", "spooled": "1"})
    assert admin.xlen(KEYS("events")) == 1


NEEDED = {"auth", "hello", "ping", "select", "xadd", "blmove", "blpop", "exists"}
ALWAYS = {"quit", "reset"}
"""What servers let everybody do, whatever their rules say."""


@pytest.mark.req("B-07", "X-09")
@pytest.mark.skipif(not SELECTORS, reason="ACL DRYRUN came with Redis 7.0")
@pytest.mark.parametrize(("role", "more"), [("shim", set[str]()), ("agent", {"lindex"})])
async def test_every_other_command_of_the_server_is_refused(role: Role, more: set[str]) -> None:
    """Each command that this server knows, on each of the keys that the role may name."""
    one = Server()
    one.start()
    connections = Connections(one.url)
    names = (KEYS("requests"), KEYS("events"), MINE, KEYS("alive", "evaluator"), KEYS("sent"), "x")
    try:
        with connections.lease() as connection:
            known, listed, _ = await connection.exchange(
                [("COMMAND",), ("COMMAND", "LIST"), ("ACL", "SETUSER", "who", "reset", "on", *roles("fleet")[role])]
            )
            arity = {row[0].decode(): abs(int(row[1])) for row in known}
            tried: dict[tuple[str, ...], str] = {}
            for command in map(bytes.decode, listed):
                words = command.split("|")
                least = arity[words[0]] if len(words) == 1 else 2
                tried |= {(*words, *[key] * (least - len(words))): command for key in names}
            replies = await connection.exchange([("ACL", "DRYRUN", "who", *words) for words in tried])
    finally:
        await connections.close()
        one.stop()
    assert len(tried) > 200
    assert {tried[words] for words, said in zip(tried, replies, strict=True) if said == b"OK"} == NEEDED | ALWAYS | more


@pytest.mark.req("B-01")
def test_every_namespace_has_its_own_keys_and_all_can_be_reached(login: Any) -> None:
    shim, worker = login("shim"), login("worker")
    for namespace in ("default", "other-fleet"):
        keys = Keys(namespace)
        shim.xadd(keys("events"), {"id": "e1"})
        worker.xgroup_create(keys("events"), "dispatchers", "0")
        assert worker.xreadgroup("dispatchers", "d", {keys("events"): ">"}, count=5)


@pytest.mark.skipif(not SELECTORS, reason="Redis 6.2 does not tell reading a key from writing it (bus/wire/acl.py)")
def test_a_worker_reads_the_hook_set_and_cannot_write_it(login: Any) -> None:
    admin, worker = login("admin"), login("worker")
    current, log = KEYS("hookset", "current"), KEYS("hookset", "log")
    admin.set(current, "8")
    admin.xadd(log, {"who": "admin"})

    assert worker.get(current) == b"8"
    assert worker.xrange(log)
    forbidden: list[tuple[Any, ...]] = [
        ("SET", current, "9"),
        ("DEL", current),
        ("RENAME", KEYS("stats"), current),
        ("XADD", log, "*", "a", "b"),
        ("EXPIRE", current, 1),
        ("COPY", KEYS("stats"), KEYS("hookset", "9")),
        ("GETDEL", current),
        ("APPEND", current, 1),
        lua("'SET', KEYS[1], '9'", current),
        lua(f"'SET', '{current}', '9'"),
        lua(f"'DEL', '{current}'"),
        ("FLUSHALL",),
        ("FLUSHDB",),
        ("CONFIG", "GET", "dir"),
        ("CONFIG", "SET", "dir", "/tmp"),
        ("ACL", "LIST"),
        ("ACL", "SETUSER", "me", "on"),
        ("SHUTDOWN",),
        ("KEYS", "*"),
        ("MONITOR",),
        ("REPLICAOF", "NO", "ONE"),
        ("MODULE", "LIST"),
        ("FUNCTION", "LOAD", "#!lua name=x\n"),
        ("SAVE",),
        ("CLIENT", "KILL", "TYPE", "normal"),
        ("SET", "somebody:else", 1),
        ("SCRIPT", "FLUSH"),
        ("SORT", KEYS("due")),
    ]
    assert [attack for attack in forbidden if not refused(worker, *attack)] == []
    assert admin.get(current) == b"8"


def test_a_worker_reads_every_declared_key_and_writes_all_but_those_that_are_read_only(login: Any) -> None:
    worker = login("worker")
    commands = {"stream": "XLEN", "list": "LLEN", "string": "GET", "zset": "ZCARD", "hash": "HLEN"}
    writes = {"stream": ("*", "a", "b"), "list": ("a",), "string": ("a",), "zset": (1, "a"), "hash": ("a", "b")}
    adds = {"stream": "XADD", "list": "RPUSH", "string": "SET", "zset": "ZADD", "hash": "HSET"}
    read_only = READ_ONLY if has_selectors() else ()  # Redis 6.2 has no rights to read alone (`bus/wire/acl.py`)
    for key in DECLARED:
        name = KEYS(key.pattern.replace("*", "x"))
        add = (adds[key.kind], name, *writes[key.kind])
        assert refused(worker, *add) == any(fnmatchcase(key.pattern, pattern) for pattern in read_only), key.pattern
        worker.execute_command(commands[key.kind], name)


def test_a_worker_calls_the_scripts_and_follows_a_channel(login: Any) -> None:
    worker = login("worker")
    sha = worker.script_load(script("wake").text)
    assert sha == script("wake").sha
    assert worker.evalsha(sha, 2, KEYS("due"), KEYS("openings"), 10, KEYS.prefix) == [0, b""]
    assert worker.eval("return #KEYS", 2, KEYS("events"), "") == 2  # an empty name stands for "no key"
    with worker.pubsub() as listening:
        listening.subscribe("rq:pubsub:w")
        assert listening.get_message(timeout=2)
        assert worker.publish("rq:pubsub:w", "x") == 1
    assert worker.time()


def job() -> str:
    return "done"


def test_rq_works_with_a_workers_rights(login: Any) -> None:
    from rq import Queue, SimpleWorker
    from rq.serializers import JSONSerializer

    connection = login("worker")
    queue = Queue("carrier", connection=connection, serializer=JSONSerializer)
    queued = queue.enqueue(job, unique=True, job_id="one")
    worker = SimpleWorker([queue], connection=connection, serializer=JSONSerializer)

    assert worker.work(burst=True, with_scheduler=False, logging_level="WARNING")
    assert queued.get_status(refresh=True) == "finished"
    assert queued.return_value() == "done"


def test_admin_publishes_hook_sets_but_cannot_flush(login: Any) -> None:
    admin = login("admin")
    admin.set(KEYS("hookset", "current"), "1")
    assert admin.info("server")
    assert admin.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    assert [
        c
        for c in (
            ("FLUSHALL",),
            ("FLUSHDB",),
            ("CONFIG", "SET", "dir", "/"),
            ("ACL", "LIST"),
            ("SET", "somebody:else", 1),
        )
        if not refused(admin, *c)
    ] == []


def test_nobody_gets_in_without_a_password(places: Directories) -> None:
    for url in (f"unix://{places.socket}", f"unix://fleethook-admin:wrong@{places.socket}"):
        stranger = sync_client(url)
        with pytest.raises((AuthenticationError, ResponseError)):
            stranger.ping()
        stranger.close()


def test_what_an_acl_cannot_forbid_is_as_documented(login: Any) -> None:
    admin, shim = login("admin"), login("shim")
    admin.xadd(KEYS("events"), {"id": "e1"})
    shim.execute_command("XADD", KEYS("events"), "MAXLEN", 1, "*", "id", "e2")
    assert [fields for _, fields in admin.xrange(KEYS("events"))] == [{b"id": b"e2"}]


@pytest.mark.req("B-07")
def test_the_containers_configuration_with_the_printed_users(tmp_path: Path) -> None:
    """As docker/compose.yaml starts it, outside a container: with an aclfile the one password opens nothing."""
    folder = Path(__file__).parents[4] / "docker"
    passwords: dict[Role, str] = {role: f"secret of {role}" for role in ROLES}
    (tmp_path / "users.acl").write_text(acl_file("fleet", passwords, selectors=has_selectors()), "utf-8")
    config = (folder / "redis.conf").read_text("utf-8").replace("dir /data", f"dir {tmp_path}")
    config = config.replace("# aclfile /etc/fleethook/users.acl", f"aclfile {tmp_path}/users.acl")
    (tmp_path / "redis.conf").write_text(config, "utf-8")
    socket = Path(tempfile.mkdtemp(prefix="fh-")) / "s"
    command = [str(find_binary().path), str(tmp_path / "redis.conf"), "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        process.stdin.write(f'requirepass "one"\nport 0\nunixsocket {socket}\n'.encode())
        process.stdin.close()
        try:
            wait_until(socket.exists, "the server listens")
            with sync_client(f"unix://{user_name('worker', 'fleet')}:secret%20of%20worker@{socket}") as worker:
                assert worker.ping()
            for login in ("", ":one@", "default:one@"):
                with (
                    sync_client(f"unix://{login}{socket}") as client,
                    pytest.raises((AuthenticationError, ResponseError)),
                ):
                    client.ping()
        finally:
            process.terminate()
    shutil.rmtree(socket.parent)


def test_a_server_that_starts_again_has_what_transactions_and_scripts_wrote(tmp_path: Path) -> None:
    """It reads its append-only file as the user `default`, whom nobody can be: Redis 7.0 lost all of it (watched)."""
    made = directories({"FLEETHOOK_HOME": str(tmp_path)})
    for starts_again in (False, True):
        running = start(made)
        try:
            client = sync_client(bus_url(Settings(), "admin", made))
            if starts_again:
                assert client.mget(KEYS("hookset", "1"), KEYS("beat", "a")) == [b"kept", b"kept"]
            else:
                with client.pipeline(transaction=True) as transaction:
                    transaction.set(KEYS("hookset", "1"), "kept")
                    transaction.set(KEYS("hookset", "2"), "kept")
                    transaction.execute()
                text = "redis.call('SET', KEYS[1], 'kept') redis.call('SET', KEYS[2], 'kept')"
                client.eval(text, 2, KEYS("beat", "a"), KEYS("beat", "b"))
            client.close()
        finally:
            stop(running)
