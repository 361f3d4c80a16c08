"""The hook command that agents run: raw stdin goes to the bus, the answer's bytes come back.

Run as `PY -I -S /abs/bus/launcher.py AGENT EVENT ANSWERFILE [closed | later]`. It starts at every hook, so it imports only
C-level modules of the standard library, and files beside it only if they are needed. Its configuration is the answer file
(`bus/shim/answer_file.py`). It exits 2 only if an answer or a fallback says so; any other failure is raised, for the launcher.
"""

import _socket
import posix
import select
import time

TYPE_CHECKING = False  # typing costs 7 ms, and type checkers know this name without it
if TYPE_CHECKING:
    from bus.shim.gateway_link import GatewayLink

MAX_STDIN = 16 * 1024 * 1024 - 5
"""Most bytes of a payload: with its msgpack head it is the largest body that the bus accepts."""
CONNECT_S = 0.25
ACK_S = 1.0
"""How long Redis may take to confirm a request, before the reply counts as lost on the wire."""
OUTAGE_S = 2.0
OUTAGE_PART = 0.2
"""How long a call tries to reach a server that is away: at most OUTAGE_S seconds, and this part of its deadline."""
MARK = b".away"  # the end of the mark's file name, after the spool's
HEADER = b"fleethook-answers 1"
FLAG = ".stop"  # the end of the name of a stop's flag, after the answer file's (bus/shim/stop_flag.py)
BY = b"hook-command/0.1.0"  # with the package's version (a test holds it)
VERSIONS = {b"claude": b"AI_AGENT", b"qwen": b"QWEN_CODE_STARTUP_VERSION"}  # variables in which agents say theirs


class NoAnswer(Exception):
    """Why the bus gives no answer: an error reply of Redis or a gateway (by its code), no evaluator, or an unfit payload."""


class AnswerPlan:
    """The contents of the answer file: the server, and the action at each event."""

    __slots__ = ("agent", "auth", "db", "events", "gateway", "host", "name", "path", "prefix", "server", "spool")

    def __init__(self, path: str) -> None:
        """Reads the file, without unknown lines; raises OSError, and ValueError for another kind of file or a cut one."""
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
            self.server, self.name = known[b"server"], known.get(b"name", [b""])[0]
            self.gateway = known.get(b"gateway", [b""])[0]
            if len(self.auth) != 2 or len(self.server) != {b"unix": 2, b"tcp": 3, b"tls": 5}[self.server[0]]:
                raise ValueError("answer file has a line that is cut short")
        except (KeyError, IndexError) as error:
            raise ValueError("answer file lacks a line: " + repr(error)) from error


class Link:
    """One connection to Redis, and the bytes that it has read ahead."""

    __slots__ = ("data", "greeting", "sock", "until")

    def __init__(self, plan: AnswerPlan, until: float) -> None:
        """Connects within 250 ms; AUTH and SELECT go out with the first commands. Raises OSError."""
        self.data, self.until, limit = b"", until, min(until, time.monotonic() + CONNECT_S)
        self.greeting = [pack(b"AUTH", *filter(None, plan.auth))] if plan.auth[1] and not plan.gateway else []
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
            from bus.shim.tls import wrap

            # The time begins here: the imports do not count as waiting for the server.
            self.sock = wrap(self.sock, rest[2], rest[1], min(CONNECT_S, left(until)))

    def send(self, *commands: bytes) -> None:
        """Sends the commands in one write; raises OSError, and NoAnswer if the credentials are refused."""
        self.sock.settimeout(left(self.until))
        self.sock.sendall(b"".join((*self.greeting, *commands)))
        while self.greeting:
            self.greeting.pop()
            self.read()

    def add(self, prefix: bytes, *entries: "list[bytes]") -> None:
        """Adds entries to the stream of events, in one write; raises OSError, and NoAnswer if they are refused."""
        self.send(*[pack(b"XADD", prefix + b"events", b"*", *fields) for fields in entries])
        for _ in entries:
            self.read()

    def ping(self, seconds: float) -> None:
        """Raises OSError or NoAnswer unless the server answers within so many seconds."""
        self.exchange(seconds, b"PING")

    def exchange(self, seconds: float, *command: bytes) -> "int | bytes | None":
        """Sends one command and returns its reply; waits at most `seconds` for it."""
        self.until = time.monotonic() + seconds
        self.send(pack(*command))
        return self.read()

    def read(self) -> "int | bytes | None":
        """The next reply (a status becomes bytes); raises NoAnswer for an error reply, OSError if no reply came."""
        while (end := self.data.find(b"\r\n")) < 0:
            self.more()
        kind, text = self.data[:1], self.data[1:end]
        if kind == b"$" and text[:1] != b"-":
            size = end + 4 + int(text)
            while len(self.data) < size:
                self.more()
            value, self.data = self.data[end + 2 : size - 2], self.data[size:]
            return value
        self.data = self.data[end + 2 :]
        if kind == b"-":
            full = b"MAXCLIENTS" if b"max number of clients" in text else text.split(b" ", 1)[0]
            word = b"EXHAUSTED" if b" exhausted " in text else full
            raise NoAnswer("redis refused: " + word.decode("ascii", "replace"))
        if kind == b"*" and text == b"2":
            return (self.read(), self.read())[1]  # of BLPOP: the key, and what was in it
        if kind not in (b"+", b":") and text != b"-1":
            raise NoAnswer("what answers there is not Redis")
        return text if kind == b"+" else int(text) if kind == b":" else None

    def more(self) -> None:
        """Reads what has arrived; raises OSError."""
        self.sock.settimeout(left(self.until))
        self.data += (chunk := self.sock.recv(1 << 18))
        if not chunk:
            raise ConnectionError("closed by the server")


def open_link(plan: AnswerPlan, until: float) -> "Link | GatewayLink":
    """A connection to the server that the answer file names: Redis, or a gateway in front of it. Raises OSError."""
    if not plan.gateway:
        return Link(plan, until)
    from bus.shim.gateway_link import GatewayLink

    return GatewayLink(lambda end: Link(plan, end), until, plan.gateway, plan.auth[1], NoAnswer, pack)


def main(argv: list[str]) -> int:
    """Does one hook call and returns its exit code; raises only if the answer file gives no answer for it."""
    start, agent, event = time.monotonic(), *[name.encode("utf-8", "surrogateescape") for name in argv[1:3]]
    plan = AnswerPlan(argv[3])
    _, mode, deadline, code, out, err, policy, *more = plan.events.get(event, plan.events.get(b"*", []))
    late = argv[4:5] == ["later"]  # the agent does not wait
    fallback = (0, b"", b"") if late else (int(code), bytes.fromhex(out.decode()), bytes.fromhex(err.decode()))
    if mode == b"skip":
        return 0
    call = HookCall(plan, [agent, event, policy], start, int(deadline) / 1000, late or mode == b"publish")
    if more and more[0].isdigit():
        call.hard = max(call.end, start + int(more[0]) / 1000)
    try:
        answer = call.send() or fallback  # for a publish too, since some agents expect output even then
    except Exception as error:  # noqa: BLE001 - whatever it was, the agent waits and gets its fallback
        from bus.shim.outage import after_failure

        answer = after_failure(call, error) or fallback
    status = emit(answer, call.end)
    try:
        call.finish()
    except BaseException:  # noqa: BLE001, S110 - the answer is given, and its exit code must hold
        pass
    return status


class HookCall:
    """The state of one hook call, so that a failure at any point can be recorded."""

    def __init__(self, plan: AnswerPlan, what: "list[bytes]", start: float, most: float, publish: bool) -> None:
        # A part of the deadline is reserved for the fallback and its record.
        now, end = time.monotonic(), start + most
        self.plan, self.start, self.end, self.hard = plan, start, end, end
        self.flag_file, self.flag, self.provisional = plan.path + FLAG, b"", b""
        self.kept = is_there(self.flag_file)
        self.soft = end - min(1.0 if self.kept else 0.15, (end - now) * 0.2)  # a stop's condition takes time to read
        self.id, self.publish, self.why, self.body = new_id(), publish, "", b""
        self.acked = self.reached = self.away = self.waits = self.answered = False
        self.broken = self.had = self.empty = self.returned = self.unserved = False  # see bus/shim/outage.py
        self.window, self.until, self.pause = min(OUTAGE_S, most * OUTAGE_PART), 0.0, 0.01
        self.fields = [b"id", self.id, b"source", what[0], b"event", what[1], b"policy", what[2], b"host", plan.host]
        said = posix.environ.get(VERSIONS.get(what[0], b""), b"")[:64]
        self.fields += [b"by", BY, b"user", b"%d" % posix.getuid(), *([b"version", said] if said else [])]
        self.marked = is_there(plan.spool + MARK)

    def send(self) -> "tuple[int, bytes, bytes] | None":
        """The answer as exit code, stdout, stderr; None for a publish. Raises NoAnswer, OSError.

        A server that is away for a moment is tried again: a restart must let no call pass.
        """
        self.body, reply = read_stdin(self.soft), self.plan.prefix + b"reply:" + posix.urandom(16).hex().encode()
        self.until, spare = time.monotonic() + self.window, (self.end - self.soft) / 3
        if self.marked:
            from bus.shim.outage import look, marked_window

            self.until = time.monotonic() + marked_window(self, self.window)
        while True:
            link = None
            try:
                link = open_link(self.plan, self.until if self.marked else self.soft + spare * (1 + self.broken))
                if self.marked:
                    look(self, link.ping)
                    link.until = self.soft + spare
                return self.ask(link, reply)
            except (OSError, NoAnswer) as error:
                from bus.shim.outage import wait_for_return

                wait_for_return(self, error, link is not None)

    def ask(self, link: "Link | GatewayLink", reply: bytes) -> "tuple[int, bytes, bytes] | None":
        """One exchange; a repeated one looks for the answer, and adds the same id, which is evaluated once."""
        last = [*folder(), b"body", self.body, *causes()]
        if self.publish:
            link.add(self.plan.prefix, [*self.fields, *last])
            self.reached = True
            return None
        last += [b"flag", b"kept" if self.kept else b"none"]
        if not isinstance(link, Link):
            return self.unpack(link.ask(self, [*self.fields, *last]))
        if self.broken:
            from bus.shim.slow import find

            if isinstance(found := find(link, reply), bytes):
                return self.unpack(found)
        now, until, more = time.monotonic(), link.until, self.hard > self.end or self.waits
        seconds = 0.001 if self.waits else max(0.001, self.soft - now)
        first = min(1.0, seconds)  # then it looks whether the call is held
        wait = [b"reply", reply, b"budget", b"%d" % max(1, (self.soft - now) * 1000)]
        wait += [b"patience", b"%d" % ((self.hard - now) * 1000)] if more else []
        fields = [*self.fields[:2], *wait, *self.fields[2:], *last]
        link.send(
            pack(b"EXISTS", self.plan.prefix + b"alive:evaluator", reply + b":wait"),  # a held call needs none now
            *([] if self.acked else [pack(b"XADD", self.plan.prefix + b"requests", b"NOMKSTREAM", b"*", *fields)]),
            pack(b"BLMOVE", reply, reply, b"LEFT", b"LEFT", b"%.3f" % first),
        )
        link.until = min(until, now + (2 * ACK_S if self.waits else left(until) if self.broken else ACK_S))
        alive, added = link.read(), self.acked or self.read_added(link)
        self.acked, self.empty, link.until = added is not None, added is None, until
        if more:
            link.until = time.monotonic() + seconds + ACK_S
        if not alive or self.empty:
            raise NoAnswer("no evaluator")
        try:
            raw = link.read()
        except NoAnswer as error:
            from bus.shim.slow import read_from_full

            raw = read_from_full(link.exchange, reply, self.soft if seconds > 0.001 else now, error)
        self.reached = True
        if not isinstance(raw, bytes):
            from bus.shim.slow import wait_longer

            raw = wait_longer(self, link.exchange, reply, self.hard - 0.15 if more else self.soft)
        if not isinstance(raw, bytes):
            raise NoAnswer("no answer in time")
        return self.unpack(raw)

    def read_added(self, link: Link) -> "int | bytes | None":
        """The reply to the added request: None if the server has no such stream, as one that has lost everything."""
        try:
            return link.read()
        except NoAnswer as error:
            if not self.had or not str(error).endswith(" OOM"):
                raise
            return b""  # a full server takes no request, and answers the one that it had before the connection broke

    def unpack(self, raw: bytes) -> "tuple[int, bytes, bytes]":
        """The answer in a reply, which also says whether a stop is in force."""
        answer, self.flag = unpack_answer(raw)
        self.answered = True
        return answer

    def finish(self) -> None:
        """Records a fallback, sets or removes the mark, and sends spooled events; the agent has its answer already."""
        if self.why:
            from bus.shim.outage import record

            record(self, open_link, pack, new_id(), causes())
        if self.answered and self.returned:
            from bus.shim.outage import remove_mark

            remove_mark(self.plan.spool)
        if self.answered and (self.flag or self.kept):
            from bus.shim.stop_flag import keep

            keep(self.flag_file, self.flag, time.time() + self.start - time.monotonic())
        if self.reached and (is_there(self.plan.spool) or is_there(self.plan.spool + b".draining")):
            from bus.shim.outage import drain_later

            drain_later(self.plan.spool, self.plan.path)


def read_stdin(until: float) -> bytes:
    """Stdin as one msgpack `bin`; raises NoAnswer if it is too large, or does not end in time."""
    chunks: list[bytes] = []
    size, ready = 0, select.poll()
    ready.register(0, select.POLLIN)
    while True:
        wait = until - time.monotonic()
        if wait <= 0 or not ready.poll(wait * 1000):
            raise NoAnswer("stdin did not end")
        try:
            chunk = posix.read(0, 1 << 16)  # more than a pipe holds
        except BlockingIOError:  # another process shares the pipe, made it non-blocking, and read first
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


def unpack_answer(raw: bytes) -> "tuple[tuple[int, bytes, bytes], bytes]":
    """An answer and its flag (`bus/shim/answer.py`); raises NoAnswer for another form."""
    head, _, rest = raw.partition(b"\n")
    try:
        magic, *numbers = head.split(b" ")
        code, out, err, flag = [int(number) for number in (numbers if len(numbers) > 3 else (*numbers, b"0"))]
        if magic == b"FH1" and len(rest) == out + err + flag and 0 <= code <= 255:
            return (code, rest[:out], rest[out : out + err]), rest[out + err :]
    except ValueError:
        pass  # the same as any other answer that is not in this form
    raise NoAnswer("answer not understood")


def pack(*parts: bytes) -> bytes:
    """A RESP array: the form of a command, and of a record in the spool."""
    return b"*%d\r\n" % len(parts) + b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in parts])


def new_id() -> bytes:
    """An event id in the form of `bus/ids.py`."""
    return b"e%012x%b" % (int(time.time() * 1000), posix.urandom(10).hex().encode())


def causes() -> list[bytes]:
    """The fields `parent`, `traceparent` and `tracestate` from the environment. Workers check the trace context."""
    names = (b"FLEETHOOK_PARENT", b"TRACEPARENT", b"TRACESTATE")
    name, trace, state = [posix.environ.get(variable, b"") for variable in names]
    usable = 0 < len(name) <= 64 and name.replace(b"-", b"").replace(b"_", b"").replace(b".", b"x").isalnum()
    fields = [b"parent", name] if usable else []
    if 54 < len(trace) < 512:
        fields += [b"traceparent", trace, *([b"tracestate", state] if 0 < len(state) < 16384 else [])]
    return fields


def folder() -> list[bytes]:
    """The real path of the working directory, and the repository around it (`bus/event_folder.py`)."""
    try:
        path = repository = posix.getcwdb()
    except OSError:
        return []  # the directory is gone
    while repository and not is_there(repository + b"/.git"):
        repository = repository.rpartition(b"/")[0]
    return [b"folder", path, b"repository", repository]


def left(until: float) -> float:
    """Seconds left; raises TimeoutError if there are none."""
    seconds = until - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def is_there(path: "bytes | str") -> bool:
    """Whether the file exists."""
    return posix.access(path, posix.F_OK)


def emit(answer: "tuple[int, bytes, bytes]", end: float) -> int:
    """Writes stdout and stderr and returns the exit code; goes on if the reader is gone or does not read."""
    for fd, data in ((1, answer[1]), (2, answer[2])):
        ready, at = select.poll(), 0
        ready.register(fd, select.POLLOUT)
        try:
            # In pieces that a pipe accepts without blocking when it polls as writable.
            while at < len(data) and ready.poll(max(0, end - time.monotonic()) * 1000):
                at += posix.write(fd, data[at : at + 4096])
        except OSError:
            continue  # no reader: the exit code still counts
    return answer[0]
