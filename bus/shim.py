"""The hook command that agents run: raw stdin goes to the bus, the answer's bytes come back.

Run as `PY -I -S /abs/bus/launcher.py AGENT EVENT ANSWERFILE [closed]`. It starts at every hook of every agent, so it
imports nothing of bus and only C-level modules of the standard library; whatever it must know stands in the answer
file (`bus/answerfile.py`). It exits 2 only where an answer or a fallback says so; what it cannot do at all, it raises.
"""

import _socket
import posix
import select
import sys
import time

MAX_STDIN = 16 * 1024 * 1024 - 5
"""Bytes of payload that are sent; with its msgpack head it is the largest body that the bus takes."""
SPOOL_LIMIT = 64 * 1024 * 1024
CONNECT_S = 0.25
ACK_S = 1.0
"""How long Redis may take to say that it has a request, before its word counts as lost on the wire."""
HEADER = b"fleethook-answers 1"
ONCE = (
    b"if redis.call('ZADD',KEYS[1],'XX','INCR',0,ARGV[2]) then return 0 end "
    b"redis.call('XADD',KEYS[2],'*',unpack(ARGV,3)) return redis.call('ZADD',KEYS[1],'NX',ARGV[1],ARGV[2])"
)
"""Adds an entry once per id: KEYS sent, stream; ARGV now in ms, id, then fields. The mark comes last, since an XADD
that is refused must leave none; ZADD INCR 0 is the look that the shim's rights allow."""
KEPT_ENV = (b"PATH", b"HOME", b"LANG", b"LD_LIBRARY_PATH", b"DYLD_LIBRARY_PATH")
DRAINER = "import sys;sys.path.insert(0,sys.argv[2]);from bus.spool import main;sys.exit(main(sys.argv[1:2]))"
"""Finds `bus` where this file stands, however it was installed."""


class NoAnswer(Exception):
    """Why the bus gives no answer: an error reply of Redis (by its code), nobody there, or a payload it cannot take."""


class Plan:
    """What the answer file says: the server, and what to do at each event."""

    __slots__ = ("agent", "auth", "db", "events", "host", "path", "prefix", "server", "spool")

    def __init__(self, path: str) -> None:
        """Reads the file and skips unknown lines; raises OSError, and ValueError for one that is none or cut short."""
        with open(path, "rb", 0) as file:
            lines = file.readall().split(b"\n")
        if lines[0] != HEADER or lines[-1]:
            raise ValueError("not a fleethook answer file, or cut short")
        rows = [line.split(b"\t") for line in lines[1:]]
        known = {row[0]: row[1:] for row in rows}
        self.path, self.events = path, {row[1]: row[1:] for row in rows if row[0] == b"event" and len(row) > 1}
        try:
            facts = [known[name][0] for name in (b"agent", b"prefix", b"host", b"spool")]
            self.agent, self.prefix, self.host, self.spool = facts
            self.auth, self.db = [bytes.fromhex(part.decode()) for part in known[b"auth"]], int(known[b"db"][0])
            self.server = known[b"server"]
            if len(self.auth) != 2 or len(self.server) != {b"unix": 2, b"tcp": 3, b"tls": 5}[self.server[0]]:
                raise ValueError("answer file has a line that is cut short")
        except (KeyError, IndexError) as error:
            raise ValueError("answer file lacks a line: " + repr(error)) from error


class Link:
    """One connection to Redis, and the bytes it has read ahead."""

    __slots__ = ("data", "greeting", "sock", "until")

    def __init__(self, plan: Plan, until: float) -> None:
        """Connects within 250 ms; AUTH and SELECT go out with the first commands. Raises OSError."""
        self.data, self.until, limit = b"", until, min(until, time.monotonic() + CONNECT_S)
        self.greeting = [pack(b"AUTH", *filter(None, plan.auth))] if plan.auth[1] else []
        self.greeting += [pack(b"SELECT", b"%d" % plan.db)] if plan.db else []
        kind, address, *rest = plan.server
        ip = _socket.AF_INET6 if b":" in address else _socket.AF_INET
        self.sock = _socket.socket(_socket.AF_UNIX if kind == b"unix" else ip, _socket.SOCK_STREAM)
        while True:
            try:
                self.sock.settimeout(left(limit))
                self.sock.connect((address.decode(), int(rest[0])) if rest else address)
                break
            except BlockingIOError:  # a unix socket's backlog is full: a fleet's hooks fire at once
                time.sleep(0.002)
            except OSError:
                self.sock.close()
                raise
        if kind == b"tls":
            import socket  # 30 ms that only TLS pays
            import ssl

            context = ssl.create_default_context(cafile=rest[2].decode("utf-8", "surrogateescape") or None)
            plain = socket.socket(fileno=self.sock.detach())
            plain.settimeout(min(CONNECT_S, left(until)))  # from here on: the imports are no fault of the wire
            self.sock = context.wrap_socket(plain, server_hostname=rest[1].decode())

    def send(self, *commands: bytes) -> None:
        """Sends the commands in one write; raises OSError, and NoAnswer where the credentials are refused."""
        self.sock.settimeout(left(self.until))
        self.sock.sendall(b"".join((*self.greeting, *commands)))
        while self.greeting:
            self.greeting.pop()
            self.read()

    def read(self) -> "int | bytes | None":
        """The next reply (a status reads as bytes); raises NoAnswer for an error, OSError where none came."""
        while (end := self.data.find(b"\r\n")) < 0:
            self._more()
        kind, text = self.data[:1], self.data[1:end]
        if kind == b"$" and text != b"-1":
            size = end + 4 + int(text)
            while len(self.data) < size:
                self._more()
            value, self.data = self.data[end + 2 : size - 2], self.data[size:]
            return value
        self.data = self.data[end + 2 :]
        if kind == b"-":
            raise NoAnswer("redis refused: " + text.split(b" ", 1)[0].decode("ascii", "replace"))
        if kind == b":":
            return int(text)
        if kind != b"+" and text != b"-1":
            raise NoAnswer("what answers there is not Redis")
        return text if kind == b"+" else None

    def _more(self) -> None:
        self.sock.settimeout(left(self.until))
        self.data += (chunk := self.sock.recv(1 << 18))
        if not chunk:
            raise ConnectionError("closed by the server")


def main(argv: list[str]) -> int:
    """Does one hook call and returns its exit code; raises only where the answer file gives no answer for it."""
    start, agent, event = time.monotonic(), *[name.encode("utf-8", "surrogateescape") for name in argv[1:3]]
    plan = Plan(argv[3])
    _, mode, deadline, code, out, err, policy = plan.events.get(event, plan.events.get(b"*", []))[:7]
    fallback = int(code), bytes.fromhex(out.decode()), bytes.fromhex(err.decode())
    if mode == b"skip":
        return 0
    call = Call(plan, (agent, event, policy), end := start + int(deadline) / 1000, mode == b"publish")
    try:
        answer = call.send() or fallback  # of a publish it is what some agents want to hear even then
    except Exception as error:  # noqa: BLE001 - whatever it was, the agent waits and gets its fallback
        call.why, answer = reason(error, call.acked), fallback
    status = emit(answer, end)
    try:
        if call.why:
            call.record()
        if call.reached:
            drain_later(plan)
    except BaseException:  # noqa: BLE001, S110 - the answer is given, and its exit code must hold
        pass
    return status


class Call:
    """One hook call on its way: what is known of it so far, so that a failure anywhere can be put on record."""

    __slots__ = ("acked", "end", "fields", "id", "plan", "publish", "reached", "soft", "tail", "why")

    def __init__(self, plan: Plan, what: "tuple[bytes, bytes, bytes]", end: float, publish: bool) -> None:
        now = time.monotonic()
        # Of the deadline a part is kept back: for the fallback, and for putting it on record.
        self.plan, self.end, self.soft, self.publish = plan, end, end - min(0.15, (end - now) * 0.2), publish
        self.id, self.why, self.acked, self.reached = new_id(), "", False, False
        self.tail = [b"source", what[0], b"event", what[1], b"policy", what[2], b"host", plan.host]
        self.fields: list[bytes] = []

    def send(self) -> "tuple[int, bytes, bytes] | None":
        """The answer as exit code, stdout, stderr; None for a publish. Raises NoAnswer, OSError."""
        body, reply = read_stdin(self.soft), self.plan.prefix + b"reply:" + posix.urandom(16).hex().encode()
        wait = [] if self.publish else [b"reply", reply, b"budget", b"1"]
        self.fields = [b"id", self.id, *wait, *self.tail, b"body", body, *parent()]
        link, spare = Link(self.plan, self.soft), (self.end - self.soft) / 3
        if self.publish:
            link.send(pack(b"XADD", self.plan.prefix + b"events", b"*", *self.fields))
            link.read()
            self.reached = True
            return None
        try:
            return self._ask(link, reply, self.soft + spare, ACK_S)
        except (ConnectionError, TimeoutError):  # what broke the wire may have taken an answer with it
            until = self.soft + 2 * spare
            return self._ask(Link(self.plan, until), reply, until, left(until))

    def _ask(self, link: Link, reply: bytes, until: float, patience: float) -> "tuple[int, bytes, bytes]":
        """One exchange; a repeated one adds the same id, which is evaluated once, and reads the same answer."""
        link.until, seconds = until, max(0.001, self.soft - time.monotonic())
        self.fields[5] = b"%d" % max(1, seconds * 1000)
        link.send(
            pack(b"EXISTS", self.plan.prefix + b"alive:evaluator"),
            *([] if self.acked else [pack(b"XADD", self.plan.prefix + b"requests", b"*", *self.fields)]),
            pack(b"BLMOVE", reply, reply, b"LEFT", b"LEFT", b"%.3f" % seconds),
        )
        link.until = min(until, time.monotonic() + patience)
        alive = link.read()
        if not self.acked:
            link.read()
        self.acked, link.until = True, until
        if not alive:
            raise NoAnswer("no evaluator")
        raw = link.read()
        self.reached = True
        if not isinstance(raw, bytes):
            raise NoAnswer("no answer in time")
        return unpack_answer(raw)

    def record(self) -> None:
        """Puts a fallback on record: told to Redis where it has the request, else kept in the spool."""
        why = self.why.encode("utf-8", "replace")
        if self.fields and not self.acked:
            stream, said = (b"events", []) if self.publish else (b"requests", [b"fallback", why])
            keep(self.plan.spool, pack(stream, *self.fields, *said), self.end)
            return
        fields = [b"id", new_id(), b"of", self.id, b"fallback", why, *self.tail]
        try:
            # On a connection of its own: the first one still waits for the answer. Once per id, since a copy is
            # spooled where only Redis' word is late.
            link = Link(self.plan, time.monotonic() + (self.end - time.monotonic()) / 2)
            link.send(once(self.plan.prefix, b"events", fields))
            link.read()
            self.reached = True
        except (OSError, NoAnswer, ValueError):  # ValueError: what answers there is not Redis
            keep(self.plan.spool, pack(b"events", *fields), self.end)


def read_stdin(until: float) -> bytes:
    """Stdin as one msgpack `bin`; raises NoAnswer where it is too large, or does not end in time."""
    chunks: list[bytes] = []
    size, ready = 0, select.poll()
    ready.register(0, select.POLLIN)
    while True:
        wait = until - time.monotonic()
        if wait <= 0 or not ready.poll(wait * 1000):
            raise NoAnswer("stdin did not end")
        try:
            chunk = posix.read(0, 1 << 20)
        except BlockingIOError:  # another process shares the pipe, made it non-blocking and was quicker
            continue
        except OSError as error:
            raise NoAnswer("stdin cannot be read") from error
        if not chunk:
            break
        chunks.append(chunk)
        if (size := size + len(chunk)) > MAX_STDIN:
            raise NoAnswer("payload too large")
    width, kind = (1, b"\xc4") if size < 256 else (2, b"\xc5") if size < 65536 else (4, b"\xc6")
    return b"".join((kind, size.to_bytes(width, "big"), *chunks))


def unpack_answer(raw: bytes) -> "tuple[int, bytes, bytes]":
    """Exit code, stdout and stderr in a reply (`bus/answers.py`); raises NoAnswer where it is not in that form."""
    head, _, rest = raw.partition(b"\n")
    try:
        magic, code, out, err = head.split(b" ")
        if magic == b"FH1" and len(rest) == int(out) + int(err) and 0 <= int(code) <= 255:
            return int(code), rest[: int(out)], rest[int(out) :]
    except ValueError:
        pass  # the same as any other answer that is not in this form
    raise NoAnswer("answer not understood")


def pack(*parts: bytes) -> bytes:
    """A RESP array: a command, and the form in which the spool keeps a record."""
    return b"*%d\r\n" % len(parts) + b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in parts])


def once(prefix: bytes, stream: bytes, fields: list[bytes]) -> bytes:
    """The command that adds an entry, whose second field is its id, once."""
    now = b"%d" % (time.time() * 1000)
    return pack(b"EVAL", ONCE, b"2", prefix + b"sent", prefix + stream, now, fields[1], *fields)


def new_id() -> bytes:
    """An event id in the form of `bus/ids.py`."""
    return b"e%012x%b" % (int(time.time() * 1000), posix.urandom(10).hex().encode())


def parent() -> list[bytes]:
    """The field `parent` where `FLEETHOOK_PARENT` has the shape of an id; anything else is ignored."""
    name = posix.environ.get(b"FLEETHOOK_PARENT", b"")
    usable = 0 < len(name) <= 64 and name.replace(b"-", b"").replace(b"_", b"").replace(b".", b"x").isalnum()
    return [b"parent", name] if usable else []


def left(until: float) -> float:
    """Seconds left; raises TimeoutError where there are none."""
    seconds = until - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def reason(error: Exception, acked: bool) -> str:
    """Why there is no answer, for the record."""
    if acked and isinstance(error, TimeoutError):
        return "no answer in time"  # the server's own word for it comes up to 100 ms late (measured on Valkey 9.1)
    if isinstance(error, OSError):
        return "redis away: " + (error.strerror or str(error) or type(error).__name__)
    return str(error) if isinstance(error, NoAnswer) else "shim failed: " + type(error).__name__


def emit(answer: "tuple[int, bytes, bytes]", end: float) -> int:
    """Writes stdout and stderr and returns the exit code; a reader that is gone or does not read stops nothing."""
    for fd, data in ((1, answer[1]), (2, answer[2])):
        ready, at = select.poll(), 0
        ready.register(fd, select.POLLOUT)
        try:
            # By pieces that a pipe which polls as writable takes without blocking.
            while at < len(data) and ready.poll(max(0, end - time.monotonic()) * 1000):
                at += posix.write(fd, data[at : at + 4096])
        except OSError:
            continue  # nobody reads: the exit code still counts
    return answer[0]


def keep(path: bytes, record: bytes, until: float) -> bool:
    """Appends a record to the spool under its lock; False where it was dropped (full, no space), which is counted."""
    fd, kept = -1, False
    try:
        fd = lock(path, until)
        size = posix.fstat(fd).st_size
        if size + len(record) <= SPOOL_LIMIT:
            kept = posix.write(fd, record) == len(record)
            if not kept:
                posix.ftruncate(fd, size)  # no space: half a record would only be in the way
    except OSError:
        pass  # counted below
    if not kept:
        count_dropped(path)
    if fd >= 0:
        posix.close(fd)
    return kept


def lock(path: bytes, until: float) -> int:
    """The spool, open to append and locked; made with its directory where missing. Raises OSError."""
    import fcntl  # only where something is spooled

    flags = posix.O_RDWR | posix.O_APPEND | posix.O_CREAT | posix.O_CLOEXEC | posix.O_NOFOLLOW
    while True:
        try:
            fd = posix.open(path, flags, 0o600)
        except FileNotFoundError:
            try:
                posix.mkdir(path.rpartition(b"/")[0], 0o700)
            except FileExistsError:
                left(until)  # another hook made it just now
            continue
        try:
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(min(0.001, left(until)))
            mine, there = posix.fstat(fd), posix.stat(path)
            if (mine.st_ino, mine.st_dev) == (there.st_ino, there.st_dev):
                return fd
        except FileNotFoundError:
            pass  # a drainer took the file away while this process waited for its lock
        except BaseException:
            posix.close(fd)
            raise
        posix.close(fd)


def count_dropped(path: bytes, more: int = 1) -> None:
    """Counts lost records beside the spool (a decimal)."""
    try:
        with open(path + b".dropped", "a+b") as file:
            file.seek(0)
            known = int(file.read(32) or b"0")
            file.truncate(0)
            file.write(b"%d\n" % (known + more))
    except (OSError, ValueError):
        pass  # a full disk cannot take the count either


def drain_later(plan: Plan) -> None:
    """Starts a drainer where something is spooled: own session, no pipe of the agent's, nothing of its environment."""
    spool, draining, last = [_stat(plan.spool + name) for name in (b"", b".draining", b".drain.lock")]
    # The lock file's time is when a drain may be tried: later than now after one that failed.
    if not ((spool and spool.st_size) or draining) or (last and last.st_mtime > time.time()) or posix.fork():
        return
    try:
        null = posix.open(b"/dev/null", posix.O_RDWR)
        for fd in (0, 1, 2):
            posix.dup2(null, fd)
        posix.closerange(3, 65536)
        posix.setsid()
        if posix.fork() == 0:
            environ = {name: value for name, value in posix.environ.items() if name in KEPT_ENV}
            house = __file__.rpartition("/")[0].rpartition("/")[0]
            posix.execve(sys.executable, [sys.executable, "-I", "-S", "-c", DRAINER, plan.path, house], environ)
    finally:
        posix._exit(0)  # noqa: SLF001 - its name in every Python; what the agent holds must not be flushed twice


def _stat(path: bytes) -> "posix.stat_result | None":
    try:
        return posix.stat(path)
    except FileNotFoundError:
        return None
