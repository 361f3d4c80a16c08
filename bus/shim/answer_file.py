"""The answer file: the configuration of an agent's hook command, which `install` writes and the shim reads.

A text file with one value a line, separated by tabs, with any bytes in hex. The first line names the version; unknown lines
are skipped:

    fleethook-answers 1
    agent    claude
    server   unix PATH | tcp IP PORT | tls IP PORT SERVERNAME CAFILE   (an empty CAFILE: the system's)
    auth     HEX-OF-USER HEX-OF-PASSWORD                               (both empty: none)
    db       0
    prefix   fh:default:{0}:
    host     laptop
    spool    PATH
    name     HOST                                                      (looked up again where connecting fails)
    gateway  HOST                                                      (a gateway is there, not Redis: its Host header; its
                                                                        token is the password)
    event    NAME MODE DEADLINE-MS EXIT HEX-OF-STDOUT HEX-OF-STDERR POLICY PATIENCE-MS   (NAME `*`: any other event)
"""

from __future__ import annotations

import hashlib
import os
import py_compile
import socket
from pathlib import Path
from typing import Final, Literal, cast, get_args
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

import msgspec

from bus import launcher, shim
from bus.errors import ConfigError, Unreachable
from bus.shim.answer import HookAnswer
from bus.system.directories import Directories

Mode = Literal["request", "publish", "skip"]
Kind = Literal["unix", "tcp", "tls"]

DEFAULT_PORT: Final = 6379


class RedisServer(msgspec.Struct, frozen=True, kw_only=True):
    """The address of Redis, or of a gateway, with credentials; numeric, so that no hook call waits for a resolver."""

    kind: Kind
    address: str
    """Path of a unix socket, or an IPv4 or IPv6 address."""
    port: int = 0
    name: str = ""
    """The host's name if the URL has one: looked up again if connecting fails, and checked in the certificate."""
    cafile: str = ""
    """The file of authorities that TLS trusts; empty: the system's."""
    user: str = ""
    password: str = ""
    """A gateway's token, where there is a gateway."""
    db: int = 0
    gateway: str = ""
    """The `Host` header for a gateway; empty: Redis."""

    def __repr__(self) -> str:
        """Without the password, since reprs get into logs."""
        return f"RedisServer({self.kind} {self.address} {self.port or ''} db={self.db})"


class EventLine(msgspec.Struct, frozen=True, kw_only=True):
    """The shim's action at one event, and its answer if no hook can answer."""

    name: str
    """The agent's own event name; `*` is any event that has no line."""
    mode: Mode = "request"
    deadline_ms: int = 10_000
    """Milliseconds for the whole call, from the start of the shim: stdin, connecting, waiting, and recording a fallback."""
    fallback: HookAnswer = HookAnswer()
    policy: str = "allow"
    """The failure policy of the fallback, for people and `doctor`."""
    patience_ms: int = 0
    """How long it waits for a hook that declares more than the deadline, within the agent's timeout; 0: the deadline."""


class AnswerFile(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one agent's hook commands need."""

    agent: str
    server: RedisServer
    prefix: str
    host: str
    spool: str
    events: tuple[EventLine, ...] = ()


def write_answer_file(path: str | os.PathLike[str], answers: AnswerFile) -> None:
    """Writes the file in one step, readable by its owner only; raises ConfigError and OSError."""
    raw = format_answers(answers)
    target = Path(path)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)


def read_answer_file(path: str | os.PathLike[str]) -> AnswerFile:
    """The contents of the file, read as the shim reads it; raises ConfigError if the shim could not use it."""
    name = os.fspath(path)
    try:
        plan = shim.AnswerPlan(name)
        kind, address, *rest = (_text(part) for part in plan.server)
        user, password = (_text(part) for part in plan.auth)
        return AnswerFile(
            agent=_text(plan.agent),
            server=RedisServer(
                kind=cast("Kind", kind),
                address=address,
                port=int(rest[0]) if rest else 0,
                name=rest[1] if len(rest) > 1 else _text(plan.name),
                cafile=rest[2] if len(rest) > 2 else "",
                user=user,
                password=password,
                db=plan.db,
                gateway=_text(plan.gateway),
            ),
            prefix=_text(plan.prefix),
            host=_text(plan.host),
            spool=_text(plan.spool),
            events=tuple(_event(fields) for fields in plan.events.values()),
        )
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=name, hint="run: fleethook install") from error
    except (ValueError, IndexError) as error:
        raise ConfigError(f"not usable: {error}", file=name, hint="run: fleethook install") from error


def format_answers(answers: AnswerFile) -> bytes:
    """The file's bytes; raises ConfigError for a value that its lines cannot contain, or that the shim could not use."""
    server = answers.server
    where = {
        "unix": ("unix", server.address),
        "tcp": ("tcp", server.address, str(server.port)),
        "tls": ("tls", server.address, str(server.port), server.name, server.cafile),
    }[server.kind]
    rows: list[tuple[str, ...]] = [
        ("agent", answers.agent),
        ("server", *where),
        ("auth", _hex(server.user), _hex(server.password)),
        ("db", str(server.db)),
        ("prefix", answers.prefix),
        ("host", answers.host),
        ("spool", answers.spool),
    ]
    if server.name:
        rows.append(("name", server.name))
    if server.gateway:
        rows.append(("gateway", server.gateway))
    for event in answers.events:
        if event.mode not in get_args(Mode) or event.deadline_ms <= 0 or not 0 <= event.fallback.exit_code <= 255:
            raise ConfigError(f"event {event.name!r}: mode, deadline or exit code that no hook command can keep")
        code, out, err = event.fallback[:3]
        more = (str(event.patience_ms),) if event.patience_ms else ()
        what = (event.name, event.mode, str(event.deadline_ms), str(code), out.hex(), err.hex(), event.policy)
        rows.append(("event", *what, *more))
    for row in rows:
        if any(mark in part for part in row for mark in "\t\n"):
            raise ConfigError(f"the line {row[0]!r} of an answer file cannot hold a tab or a line break")
    text = "".join("\t".join(row) + "\n" for row in rows)
    return shim.HEADER + b"\n" + text.encode("utf-8", "surrogateescape")


def hook_command(
    python: str,
    agent: str,
    event: str,
    path: str | os.PathLike[str],
    *,
    closed: bool = False,
    silent: str = "",
    native: str = "",
    later: bool = False,
) -> tuple[str, ...]:
    """The words of the command that `install` writes for one event of an agent.

    If the answer file is missing, the command blocks if `closed`; otherwise it prints `silent`, for agents that need output.
    `native` is the program that does the same without Python (`bus/shim/native`), which gets the other words. Of a command with
    `later`, for which the agent does not wait, the event is only announced.
    """
    last = ["closed"] if closed else ["later"] if later else ["open", silent] if silent else []
    return (*([native] if native else []), python, "-I", "-S", launcher.__file__, agent, event, os.fspath(path), *last)


def compile_shim() -> None:
    """Writes the bytecode that the launcher looks for; without it every hook call costs 3 ms more. Raises OSError."""
    # By time stamp, whatever the environment says: the launcher does not read the hashed form.
    for path in Path(shim.__file__).parent.glob("*.py"):
        py_compile.compile(str(path), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)


def server_from_url(url: str) -> RedisServer:
    """The server that a URL names (redis://, rediss://, unix://), its host resolved to a numeric address.

    User, password and db have the form of redis-py's URLs: `user:password@`, the path or `?db=`; for TLS `?ssl_ca_certs=`.
    Raises ConfigError for a URL that cannot be used, Unreachable for a host that does not resolve.
    """
    try:
        parts, query = urlsplit(url), {key: values[-1] for key, values in parse_qs(urlsplit(url).query).items()}
        user = unquote(parts.username or query.get("username", ""))
        password = unquote(parts.password or query.get("password", ""))
        db, port = _db(parts, query), parts.port or DEFAULT_PORT
    except ValueError:
        # Without the parser's own words: for a password with a bare `/` they quote a part of it.
        raise ConfigError(
            "the Redis URL's host, port or database cannot be read (is a character of the password not %-escaped?)",
            hint=_HINT,
        ) from None
    if parts.scheme == "unix":
        if not parts.path.startswith("/"):
            raise ConfigError("the Redis URL has no absolute path to a socket", hint=_HINT)
        return RedisServer(kind="unix", address=unquote(parts.path), user=user, password=password, db=db)
    if parts.scheme not in {"redis", "rediss"}:
        raise ConfigError(f"the Redis URL has the scheme {parts.scheme!r}", hint=_HINT)
    if query.get("ssl_cert_reqs", "required").removeprefix("CERT_").lower() != "required":
        raise ConfigError(
            "the Redis URL switches the check of the server's certificate off",
            hint="name the authority that signed it: ?ssl_ca_certs=/path/ca.pem",
        )
    host = parts.hostname or "localhost"
    kind: Kind = "tls" if parts.scheme == "rediss" else "tcp"
    return RedisServer(
        kind=kind,
        address=(address := _resolve(host, port)),
        port=port,
        name=host if kind == "tls" or host != address else "",
        cafile=query.get("ssl_ca_certs", "") if kind == "tls" else "",
        user=user,
        password=password,
        db=db,
    )


def gateway_from_url(url: str, token: str) -> RedisServer:
    """The gateway that a URL names (unix://, http://, https://), its host resolved to a numeric address.

    Raises ConfigError for a URL or token that cannot be used, Unreachable for a host that does not resolve.
    """
    parts = urlsplit(url)
    query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    cafile = query.pop("ssl_ca_certs", "") if parts.scheme == "https" else ""
    if parts.scheme == "unix" and parts.path.startswith("/") and not parts.netloc and not query:
        return RedisServer(kind="unix", address=unquote(parts.path), password=_token(token), gateway="localhost")
    host = parts.hostname or ""
    if parts.scheme not in {"http", "https"} or not host or parts.username or query or parts.path not in {"", "/"}:
        raise ConfigError("the gateway's URL has more or less than scheme, host and port", hint=_GATEWAY_HINT)
    if not token:
        raise ConfigError(
            "a gateway at http:// or https:// needs a token",
            hint="make one with `fleethook tokens create NAME` and set FLEETHOOK_TOKEN; unix:// needs none",
        )
    kind: Kind = "tls" if parts.scheme == "https" else "tcp"
    port = parts.port or (443 if kind == "tls" else 80)
    address = _resolve(host, port)
    return RedisServer(
        kind=kind,
        address=address,
        port=port,
        name=host if kind == "tls" or host != address else "",
        cafile=cafile,
        password=_token(token),
        gateway=f"{f'[{host}]' if ':' in host else host}:{port}",
    )


def program_spool(places: Directories, url: str, prefix: str) -> Path:
    """The spool in which programs (`Bus()`, `fleethook publish`) keep events while this server is away.

    Its name depends on the server, since workers of another server must not send the events; not on the user, which
    workers do not share.
    """
    parts = urlsplit(url)
    where = (
        unquote(parts.path)
        if parts.scheme == "unix"
        else f"{parts.hostname or 'localhost'}:{parts.port or DEFAULT_PORT}"
    )
    place = f"{where} {_db(parts, {key: values[-1] for key, values in parse_qs(parts.query).items()})} {prefix}"
    return places.spool(f"program.{hashlib.sha256(place.encode()).hexdigest()[:12]}")


_GATEWAY_HINT = "write unix:///path/to/gateway.sock, http://host:port, or https://host[:port][?ssl_ca_certs=FILE]"
_HINT = "write redis://[user:password@]host[:port][/db], rediss://… for TLS, or unix:///path/to/socket[?db=n]"


def _db(parts: SplitResult, query: dict[str, str]) -> int:
    path = "" if parts.scheme == "unix" else parts.path.strip("/")
    db = int(query.get("db") or path or 0)
    if db < 0:
        raise ValueError("negative database number")
    return db


def _token(token: str) -> str:
    """The token, which becomes part of a header; raises ConfigError."""
    if not all("!" <= letter <= "~" for letter in token):
        raise ConfigError("FLEETHOOK_TOKEN has a character that no token has")
    return token


def _resolve(host: str, port: int) -> str:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Unreachable(f"the host of the server's URL does not resolve: {host} ({error.strerror})") from error
    return str(found[0][4][0])


def _event(fields: list[bytes]) -> EventLine:
    name, mode, deadline, code, out, err, policy = (_text(part) for part in fields[:7])
    if mode not in get_args(Mode):
        raise ValueError(f"event {name} has the unknown mode {mode}")
    return EventLine(
        name=name,
        mode=cast("Mode", mode),
        deadline_ms=int(deadline),
        policy=policy,
        fallback=HookAnswer(int(code), bytes.fromhex(out), bytes.fromhex(err)),
        patience_ms=int(fields[7]) if fields[7:8] and fields[7].isdigit() else 0,
    )


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _hex(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").hex()
