"""The flag of a stop, which a hook command keeps beside its answer file: it denies while no evaluator can be asked.

`bus/shim/main.py` loads this only while a stop is in force, and imports nothing else. A text file with one value a line,
separated by tabs, with any bytes in hex:

    fleethook-stop 1
    event    NAME EXIT HEX-OF-STDOUT HEX-OF-STDERR HEX-OF-CONDITION    (no condition: every call of this event)

Evaluators send it with each answer while a stop is in force, and workers write it on their own machine
(`workers/fleet_control/flags.py`). An answer without it removes it.
"""

import posix
import sys
import time

TYPE_CHECKING = False  # typing costs 7 ms, and type checkers know this name without it
if TYPE_CHECKING:
    from typing import Any

HEADER = b"fleethook-stop 1"
CHECK = "import sys;sys.path.insert(0,sys.argv[2]);from bus.stop_check import main;sys.exit(main(sys.argv[3:]))"
DOES_NOT_FIT = 10
"""The exit code of the check for an event that the condition does not fit. Any other code counts as a fit."""
KEPT_ENV = (b"PATH", b"HOME", b"LANG", b"LD_LIBRARY_PATH", b"DYLD_LIBRARY_PATH")


def keep(path: str, flag: bytes, began: float) -> None:
    """Keeps the flag of an answer, or removes what is older than the call, which began then (in seconds since 1970)."""
    if not flag:
        try:
            # Else a worker wrote it while this call waited. The clock of files is up to some milliseconds behind.
            if posix.stat(path).st_mtime < began - 0.1:
                posix.unlink(path)
        except FileNotFoundError:
            pass  # another call removed it
        return
    if read(path) == flag:
        return
    new = f"{path}.{posix.getpid()}.new"
    fd = posix.open(new, posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_CLOEXEC | posix.O_NOFOLLOW, 0o600)
    try:
        try:
            if posix.write(fd, flag) < len(flag):
                raise OSError("no space for the flag of a stop")
        finally:
            posix.close(fd)
        posix.rename(new, path)
    except OSError:
        posix.unlink(new)  # else each call would leave one on a full disk
        raise


def answer_of(path: str, call: "Any") -> "tuple[int, bytes, bytes] | None":
    """The flag's answer to a `HookCall` (exit code, stdout, stderr); None if it does not stop it, or is damaged."""
    event, lines = call.fields[5], read(path).split(b"\n")
    rows = [line.split(b"\t") for line in lines if line.startswith(b"event\t" + event + b"\t")]
    if lines[0] != HEADER or not rows or len(rows[0]) not in (5, 6):
        return None
    _, _, code, out, err, *condition = rows[0]
    try:
        answer = int(code), bytes.fromhex(out.decode()), bytes.fromhex(err.decode())
    except ValueError:  # raised, it would cost the record of the call too
        return None
    return None if condition and not fits(path, event, condition[0], call) else answer


def fits(path: str, event: bytes, condition: bytes, call: "Any") -> bool:
    """Whether the call fulfils the condition, by a process that can read it; true if that cannot be found out in time.

    It gets the payload as a file without a name, so no process waits for another.
    """
    if not call.body:
        return True
    name = f"{path}.{posix.getpid()}.call"
    fd = posix.open(name, posix.O_RDWR | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC | posix.O_NOFOLLOW, 0o600)
    try:
        posix.unlink(name)
        if posix.write(fd, call.body) < len(call.body):
            return True  # no space
        posix.lseek(fd, 0, 0)
        child = posix.fork()
        if child == 0:
            check(fd, [call.fields[3], event, call.plan.host, condition])
    except OSError:
        return True
    finally:
        posix.close(fd)
    while time.monotonic() < call.end - 0.1:
        ended, status = posix.waitpid(child, posix.WNOHANG)
        if ended:
            return posix.waitstatus_to_exitcode(status) != DOES_NOT_FIT
        time.sleep(0.01)
    posix.kill(child, 9)
    posix.waitpid(child, 0)
    return True


def check(body: int, words: list[bytes]) -> None:
    """Becomes the process that reads the condition; it has no more to do with the agent's pipes."""
    try:
        null = posix.open(b"/dev/null", posix.O_RDWR)
        for fd, source in enumerate((body, null, null)):
            posix.dup2(source, fd)
        environ = {name: value for name, value in posix.environ.items() if name in KEPT_ENV}
        house = __file__.rpartition("/")[0].rpartition("/")[0].rpartition("/")[0]
        command: list[str | bytes] = [sys.executable, "-I", "-c", CHECK, "", house, *words]
        posix.execve(sys.executable, command, environ)
    finally:
        posix._exit(1)  # noqa: SLF001 - its name in every Python; what the agent holds must not be flushed twice


def read(path: str) -> bytes:
    """The file's bytes; empty if there is none, or it cannot be read."""
    try:
        with open(path, "rb", 0) as file:
            return file.readall()
    except OSError:
        return b""
