"""What the hook command does while Redis is away: the mark, the server's address, the spool, and its drainer.

`bus/shim/main.py` loads this file only then, so a normal call does not take time for it. Both import nothing of bus and only
C-level modules. The answer file names the spool; the mark is beside it.
"""

import posix
import sys
import time

TYPE_CHECKING = False  # typing costs 7 ms, and type checkers know this name without it
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SPOOL_LIMIT = 64 * 1024 * 1024
KEPT_ENV = (b"PATH", b"HOME", b"LANG", b"LD_LIBRARY_PATH", b"DYLD_LIBRARY_PATH")
DRAINER = "import sys;sys.path.insert(0,sys.argv[2]);from bus.shim.spool import main;sys.exit(main(sys.argv[1:2]))"
"""Makes `bus` importable from the folder of this file, however it was installed."""


MARKED_S = 0.25
"""How long a call tries if the mark says that the server did not answer the last call, but for one in RETRY_S."""
RETRY_S = 10.0
"""After so many seconds one call gives a marked server the full time again: else a host that is farther from it than the
moment which a mark leaves would never find it again."""
RETURNS = (
    *("LOADING", "BUSY", "MASTERDOWN", "OOM", "EXHAUSTED", "UNBLOCKED", "READONLY"),
    *("NOREPLICAS", "CLUSTERDOWN", "MISCONF", "MAXCLIENTS"),
)
"""Errors of a server that may answer soon. EXHAUSTED is a stream with the highest id, which the workers repair. UNBLOCKED and
READONLY come from a server that has become a replica, until the name or the proxy in front of it leads to the new primary;
NOREPLICAS and CLUSTERDOWN while replicas come back, MISCONF after a save that failed, MAXCLIENTS for want of connections."""


def wait_for_return(call: "Any", error: Exception, connected: bool) -> None:
    """Waits until a `HookCall` whose try failed is tried again; raises `error` if it is not.

    A server that was lost may come back without its data, and its evaluators need a moment to come back to it. So the request
    is added again, and a fleet without an evaluator is part of the outage: it has as long as the server had.
    """
    broke, now = connected and isinstance(error, (ConnectionError, TimeoutError)), time.monotonic()
    if broke and (call.acked or (call.plan.gateway and not call.broken)):
        call.until = now + call.window
    if is_unserved(error) and call.away and not call.unserved:
        call.until, call.unserved = max(call.until, now + call.window), True
    if call.provisional:
        call.until = call.soft  # a person's answer may come until the deadline
    at_once = broke and not (call.broken or call.publish or call.marked)  # only what was under way may be lost
    if not at_once and (not may_return(call, error, connected) or now + call.pause >= min(call.until, call.soft)):
        raise error
    call.away, call.had = True, call.had or (broke and call.acked)
    # A server that was restarted may have lost the request; an id that arrives twice is evaluated once.
    call.acked = call.acked and (is_unserved(error) or now >= call.soft)
    if at_once:
        call.broken = True
        return
    if call.plan.name and isinstance(error, OSError):
        seconds = min(call.until, call.soft) - time.monotonic()
        call.plan.server = resolve(call.plan.server, call.plan.name, seconds)
    time.sleep(call.pause)
    call.pause = min(0.5 if call.provisional else 0.1, call.pause * 2)


def may_return(call: "Any", error: Exception, connected: bool) -> bool:
    """Whether an error may be over soon: nothing listens, the connection broke, or the server is still reading its data.

    A call that waits for a person is tried again after any error: its question goes on, and the answer may still come.
    """
    if call.provisional:
        return True
    if call.publish and not call.marked:
        return False  # no agent waits for its answer: it goes to the spool at once, which marks it for the workers
    if is_no_answer(error):
        return str(error).endswith(RETURNS) or (is_unserved(error) and bool(call.away or call.empty))
    call.away = isinstance(error, (ConnectionError, FileNotFoundError)) or (
        isinstance(error, TimeoutError) and not connected
    )  # neither a wrong certificate nor a late reply
    return bool(call.away)


def is_unserved(error: Exception) -> bool:
    """Whether the server answers, and no evaluator of the fleet is there."""
    return is_no_answer(error) and str(error) == "no evaluator"


def after_failure(call: "Any", error: Exception) -> "tuple[int, bytes, bytes] | None":
    """Notes why there is no answer, and whether the server is away.

    Returns the answer of a stop that has reached this host, or the one that an evaluator left for a call that waits for a
    person; None without both.
    """
    call.why, known = reason(call, error), isinstance(error, TimeoutError if call.publish else OSError)
    # A publish is not tried again, so the next call that waits for an answer may.
    call.empty = call.empty and is_unserved(error)
    call.away = not call.acked and bool(call.body) and (known or call.empty or str(error).endswith(RETURNS))
    if call.returned and is_unserved(error) and not call.empty and not call.plan.gateway:
        remove_mark(call.plan.spool)  # the server has its data, and a fleet without evaluators is no outage
    if _stat(call.flag_file):
        from bus.shim.stop_flag import answer_of

        answer = answer_of(call.flag_file, call)
        if answer:
            call.why += "; denied by the stop that this host keeps"
            return answer
    if call.provisional:
        call.why += "; the call waits for a person"
        left: tuple[int, bytes, bytes] = call.unpack(call.provisional)
        call.answered = False  # it says nothing of a stop
        return left
    return None


def is_no_answer(error: Exception) -> bool:
    """Whether the error is `main`'s NoAnswer, which this file cannot import: the launcher has loaded `main` by itself."""
    return type(error).__name__ == "NoAnswer"


def reason(call: "Any", error: Exception) -> str:
    """Why a `HookCall` has no answer, for the record."""
    if call.acked and isinstance(error, TimeoutError):
        return "no answer in time"  # the server's own error comes up to 100 ms late (measured on Valkey 9.1)
    if isinstance(error, OSError):
        server = "gateway" if call.plan.gateway else "redis"
        return server + " away: " + (error.strerror or str(error) or type(error).__name__)
    if is_no_answer(error):
        return str(error)
    return "shim failed: " + type(error).__name__


def record(
    call: "Any", open_link: "Callable[..., Any]", pack: "Callable[..., bytes]", new_id: bytes, causes: "list[bytes]"
) -> None:
    """Reports that the agent fell back: to the server if it has the request, else in the spool. Then sets the mark.

    `call` is a `HookCall`, the others are what `main` has.
    """
    if not _reported(call, open_link, pack, new_id, causes) and call.away and not call.marked and not call.reached:
        set_mark(call.plan.spool + b".away", empty=call.empty)


def _reported(
    call: "Any", open_link: "Callable[..., Any]", pack: "Callable[..., bytes]", new_id: bytes, causes: "list[bytes]"
) -> bool:
    """Whether the server has the report; else the spool keeps it."""
    fallback = [b"fallback", call.why.encode("utf-8", "replace")]
    fields = [*call.fields, *([] if call.publish else fallback), b"body", call.body, *causes]
    if call.acked or not call.body:
        fields, now = [b"id", new_id, b"of", call.id, *fallback, *call.fields[2:]], time.monotonic()
        try:
            # On a connection of its own: the first one still waits for the answer. Marked as one of which a copy
            # may be spooled, since the server's word may come too late.
            link = open_link(call.plan, now + (call.end - now) / 2)
            link.add(call.plan.prefix, [*fields, b"spooled", b"1"])
            call.reached = True
        except Exception:  # noqa: BLE001 - whatever it was, the spool keeps the report
            call.away = call.end - now > 0.05  # otherwise it had no time to answer
        else:
            return True
    keep(call.plan.spool, pack(b"events", *fields), call.end)
    return False


def set_mark(path: bytes, *, empty: bool = False) -> None:
    """Writes the mark that Redis did not answer: a file (0600); its time is that of the last call with its full time.

    It has no bytes, and one if Redis answered and was `empty`: no fleet came to it while a call waited.
    """
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_CLOEXEC | posix.O_NOFOLLOW
    for _ in range(2):
        try:
            fd = posix.open(path, flags, 0o600)
            try:
                posix.write(fd, b"0" if empty else b"")
            finally:
                posix.close(fd)
        except FileNotFoundError:
            _make_folder(path)
        except OSError:
            return  # a full disk: the next call tries for its full time again
        else:
            return


def marked_window(call: "Any", window: float) -> float:
    """How long a `HookCall` tries where there is a mark: `window`, its full time, if no other call has done so just now."""
    mark = call.plan.spool + b".away"
    found = _stat(mark)
    if call.publish or not found or 0 <= time.time() - found.st_mtime < RETRY_S:
        return MARKED_S
    try:
        posix.utime(mark)
    except OSError:
        return MARKED_S  # another call removed it
    return window


def look(call: "Any", ping: "Callable[[float], None]") -> None:
    """Checks whether a server that did not answer the last call answers now; then the call goes on.

    The mark stays until an evaluator is there too: after an outage of the server, calls wait for it as long as for a server.
    """
    ping(call.until - time.monotonic())
    known = _stat(call.plan.spool + b".away")
    call.marked, call.returned, call.unserved = False, True, known is not None and known.st_size > 0
    call.away = not call.unserved


def remove_mark(spool: bytes) -> None:
    """Removes the mark, unless another call has done it."""
    try:
        posix.unlink(spool + b".away")
    except FileNotFoundError:
        pass


def resolve(server: list[bytes], name: bytes, seconds: float) -> list[bytes]:
    """The server's line with another address of its name, if there is one; else the line unchanged. Waits at most `seconds`."""
    import _socket
    import _thread

    found: list[bytes] = []
    done = _thread.allocate_lock()
    done.acquire()

    def ask() -> None:
        try:
            rows = _socket.getaddrinfo(name, int(server[2]), 0, _socket.SOCK_STREAM)
            found.extend(str(row[4][0]).encode() for row in rows)
        except (OSError, ValueError):
            pass  # no address: try the old one again
        done.release()

    # The resolver has no time limit, so it runs in a thread, which ends with the process.
    _thread.start_new_thread(ask, ())
    done.acquire(timeout=max(0.0, seconds))
    new = next((address for address in found if address != server[1]), server[1])
    return [server[0], new, *server[2:]]


def keep(path: bytes, record: bytes, until: float) -> bool:
    """Appends a record to the spool under its lock; False if it was dropped (full, no space), which is counted."""
    fd, kept = -1, False
    try:
        fd = lock(path, until)
        size = posix.fstat(fd).st_size
        if size + len(record) <= SPOOL_LIMIT:
            try:
                kept = posix.write(fd, record) == len(record)
            finally:
                if not kept:
                    posix.ftruncate(fd, size)  # no space: remove the half record
    except OSError:
        pass  # counted below
    if not kept:
        count_dropped(path)
    if fd >= 0:
        posix.close(fd)
    return kept


def lock(path: bytes, until: float) -> int:
    """The spool, open to append and locked; creates it and its directory. Raises OSError."""
    import fcntl

    flags = posix.O_RDWR | posix.O_APPEND | posix.O_CREAT | posix.O_CLOEXEC | posix.O_NOFOLLOW
    while True:
        try:
            fd = posix.open(path, flags, 0o600)
        except FileNotFoundError:
            if not _make_folder(path):
                _left(until)  # another hook has just made it
            continue
        try:
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(min(0.001, _left(until)))
            mine, there = posix.fstat(fd), posix.stat(path)
            if (mine.st_ino, mine.st_dev) == (there.st_ino, there.st_dev):
                return fd
        except FileNotFoundError:
            pass  # a drainer renamed the file while this process waited for its lock
        except BaseException:
            posix.close(fd)
            raise
        posix.close(fd)


def count_dropped(path: bytes, more: int = 1, name: bytes = b".dropped") -> None:
    """Counts lost records beside the spool: a decimal in the file `name`; if that fails, as the length of `.dropped.full`.

    A full disk has no room for a number, but it still lets a file without any blocks become longer.
    """
    import fcntl

    flags = posix.O_RDWR | posix.O_CREAT | posix.O_CLOEXEC | posix.O_NOFOLLOW
    for end in (name, b".dropped.full"):
        try:
            fd = posix.open(path + end, flags, 0o600)
        except OSError:
            continue  # not even an empty file can be made
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if end == name:
                total = b"%d\n" % (int(posix.read(fd, 32) or b"0") + more)
                if posix.pwrite(fd, total, 0) != len(total):
                    continue
            else:
                posix.ftruncate(fd, posix.fstat(fd).st_size + more)
        except (OSError, ValueError):
            continue
        finally:
            posix.close(fd)
        return


def drain_later(spool: bytes, answers: str) -> None:
    """Starts a drainer if something is spooled: in a session of its own, without the agent's pipes and environment."""
    kept, draining, last = [_stat(spool + name) for name in (b"", b".draining", b".drain.lock")]
    # The lock file's time is when a drain may be tried: later than now after one that failed.
    if not ((kept and kept.st_size) or draining) or (last and last.st_mtime > time.time()) or posix.fork():
        return
    try:
        null = posix.open(b"/dev/null", posix.O_RDWR)
        for fd in (0, 1, 2):
            posix.dup2(null, fd)
        posix.closerange(3, 65536)
        posix.setsid()
        if posix.fork() == 0:
            environ = {name: value for name, value in posix.environ.items() if name in KEPT_ENV}
            house = __file__.rpartition("/")[0].rpartition("/")[0].rpartition("/")[0]
            posix.execve(sys.executable, [sys.executable, "-I", "-S", "-c", DRAINER, answers, house], environ)
    finally:
        posix._exit(0)  # noqa: SLF001 - its name in every Python; what the agent holds must not be flushed twice


def _make_folder(path: bytes) -> bool:
    """Makes the spool's folder; False if it exists."""
    try:
        posix.mkdir(path.rpartition(b"/")[0], 0o700)
    except FileExistsError:
        return False
    return True


def _left(until: float) -> float:
    seconds = until - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _stat(path: "bytes | str") -> "posix.stat_result | None":
    try:
        return posix.stat(path)
    except FileNotFoundError:
        return None
