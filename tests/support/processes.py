"""A run in several processes: this process collects the tests once and then forks; each process takes one file after the other.

The processes of pytest-xdist begin empty, so each of them collects all tests for itself: six times 15 seconds of a core and
350 MB. A forked process has the collected tests, and shares the memory that they are in.
"""

from __future__ import annotations

import atexit
import os
import random
import signal
import sys
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import groupby
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from types import SimpleNamespace
from typing import Any, Final, NoReturn

import pytest

_LOOK_SECONDS: Final = 1.0
"""How often to look whether a process has died while a process that it started still holds its end of the pipe."""

_QUICK_SECONDS: Final = 0.005
"""What `--durations` does not show."""


class Member:
    """One forked process, as the process sees it that collected the tests."""

    def __init__(self, number: int, pid: int, connection: Connection) -> None:
        self.number, self.pid, self.connection = number, pid, connection
        self.tests: deque[int] = deque()
        """The tests that it was given and has not finished, as places among all; the first one runs."""
        self.told_to_end = self.has_ended = False
        name = f"p{number}"
        about = {
            "id": name,
            "sysplatform": sys.platform,
            "version_info": sys.version_info,
            "executable": sys.executable,
        }
        # As reports name the process of pytest-xdist that they came from.
        self.node = SimpleNamespace(gateway=SimpleNamespace(id=name), workerinfo=about)

    def tell(self, tests: Sequence[int]) -> None:
        """Give it tests, or none: then it ends."""
        if self.told_to_end:
            return
        self.told_to_end = not tests
        self.tests.extend(tests)
        try:
            self.connection.send(list(tests))
        except OSError:  # it has died, which its end of the pipe says too
            self.told_to_end = True


def by_file(items: Iterable[pytest.Item]) -> deque[list[int]]:
    """The places of the tests, those of one file together."""
    numbered = groupby(enumerate(items), key=lambda pair: pair[1].path)
    return deque([place for place, _ in pairs] for _, pairs in numbered)


class Processes:
    """The pytest plugin of a run in `count` processes."""

    def __init__(self, count: int) -> None:
        self._count, self._forked = count, 0
        self._members: list[Member] = []
        self._waiting: deque[list[int]] = deque()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run the tests in forked processes, and report what they report."""
        if session.testsfailed or session.config.option.collectonly:
            return None
        session.config.pluginmanager.getplugin("terminalreporter").showfspath = False
        self._waiting = by_file(session.items)
        for _ in range(min(self._count, len(self._waiting))):
            self._fork(session)
        try:
            while self._members:
                self._listen(session)
        finally:
            self._end()
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _fork(self, session: pytest.Session) -> None:
        ours, theirs = Pipe()
        number = self._forked
        self._forked += 1
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            for connection in (ours, *(one.connection for one in self._members)):
                connection.close()
            _Forked(session, theirs, number).run()
        theirs.close()
        self._members.append(Member(number, pid, ours))

    def _listen(self, session: pytest.Session) -> None:
        """Take a message of each process that has one."""
        ready, lost = wait([one.connection for one in self._members], _LOOK_SECONDS), []
        for one in list(self._members):
            try:
                if one.connection in ready or (_has_ended(one) and one.connection.poll()):
                    self._take(session, one, *one.connection.recv())
                elif one.has_ended:
                    raise EOFError
            except (EOFError, OSError):
                lost.append(one)
        for one in lost:
            self._lost(session, one)
        if session.shouldfail or session.shouldstop:
            for one in self._members:
                one.tell(())

    def _take(self, session: pytest.Session, one: Member, kind: str, value: Any) -> None:
        hook = session.config.hook
        if kind == "next":
            one.tell(self._waiting.popleft() if self._waiting else ())
        elif kind == "report":
            report = hook.pytest_report_from_serializable(config=session.config, data=value)
            report.node = one.node
            hook.pytest_runtest_logreport(report=report)
        elif kind == "finished":
            one.tests.popleft()
        elif kind == "warning":
            hook.pytest_warning_recorded.call_historic(kwargs=value)
        elif kind == "error":
            raise RuntimeError(f"process p{one.number} of the run failed:\n{value}")
        else:
            self._leave(one)

    def _lost(self, session: pytest.Session, one: Member) -> None:
        """A process has died: the test that it ran has failed, and another process runs what it was to run then."""
        self._leave(one)
        if not one.tests:
            return
        item = session.items[one.tests.popleft()]
        text = f"process p{one.number} of the run died while it ran this test"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
        report.user_properties = list(item.user_properties)
        session.config.hook.pytest_runtest_logreport(report=report)
        if one.tests:
            self._waiting.appendleft(list(one.tests))
        self._fork(session)

    def _leave(self, one: Member) -> None:
        self._members.remove(one)
        one.connection.close()
        if not one.has_ended:
            os.waitpid(one.pid, 0)

    def _end(self) -> None:
        """Interrupt what still runs, so that it takes down what it started, and wait for it."""
        for one in self._members:
            if not _has_ended(one):
                os.kill(one.pid, signal.SIGINT)
        for one in list(self._members):
            self._leave(one)


def _has_ended(one: Member) -> bool:
    if not one.has_ended:
        one.has_ended = os.waitpid(one.pid, os.WNOHANG) != (0, 0)
    return one.has_ended


class _Forked:
    """A forked process: the plugin that sends what happens in it."""

    def __init__(self, session: pytest.Session, connection: Connection, number: int) -> None:
        self._session, self._config, self._connection = session, session.config, connection
        self._number, self._has_begun = number, False

    def run(self) -> NoReturn:
        """Run what the other process gives, and end."""
        atexit._clear()  # what was registered so far is for the other process to do
        code = 1
        try:
            self._begin()
            self._run_tests()
            self._send("done")
            code = 0
        except (KeyboardInterrupt, EOFError, BrokenPipeError, pytest.exit.Exception):
            pass
        except BaseException:  # noqa: BLE001  (whatever it is, it has to be told)
            self._send("error", traceback.format_exc())
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            try:
                self._session._setupstate.teardown_exact(None)
            finally:
                threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter does first at its end
                atexit._run_exitfuncs()
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)

    def _begin(self) -> None:
        """Take a folder, an input, an output and random numbers of its own."""
        random.seed()
        capture = self._config.pluginmanager.getplugin("capturemanager")
        # Its files stay open: a module that was imported while tests were collected may hold them, as the MCP client does.
        self._capture_of_collection, capture._global_capturing = capture._global_capturing, None
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1) if capture.is_globally_capturing() else (0,):
            os.dup2(nothing, number)
        os.close(nothing)
        capture.start_global_capturing()
        capture.suspend_global_capture()
        factory = self._config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = factory.getbasetemp() / f"p{self._number}"
        factory._basetemp.mkdir(mode=0o700)
        manager = self._config.pluginmanager
        manager.unregister(manager.getplugin("terminalreporter"))
        manager.register(self)  # which tells of the warnings so far, that the other process has told
        self._has_begun = True

    def _run_tests(self) -> None:
        tests = deque(self._ask())
        while tests:
            item = self._session.items[tests.popleft()]
            if not tests:  # ask early: what the next file shares with this one stays
                tests.extend(self._ask())
            following = self._session.items[tests[0]] if tests else None
            self._config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self._send("finished")
            if (
                self._session.shouldfail or self._session.shouldstop or self._connection.poll()
            ):  # nothing more is wanted
                break

    def _ask(self) -> list[int]:
        self._send("next")
        given: list[int] = self._connection.recv()
        return given

    def _send(self, kind: str, value: Any = None) -> None:
        self._connection.send((kind, value))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a report; what passed quickly beside a test tells nothing, and is two thirds of all."""
        if report.when != "call" and report.passed and report.duration < _QUICK_SECONDS and not report.sections:
            return
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._send("report", data)

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        """Send a warning, as text: its own type may not be one that can be sent."""
        if not self._has_begun:
            return
        text = UserWarning(f"{warning_message.category.__name__}: {warning_message.message}")
        plain = warnings.WarningMessage(text, UserWarning, warning_message.filename, warning_message.lineno)
        self._send("warning", {"warning_message": plain, "when": when, "nodeid": nodeid, "location": location})
