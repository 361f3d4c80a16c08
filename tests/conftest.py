"""Fixtures of all tests: a clean environment, folders of their own, one real server, and a check for leaked keys."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import shutil
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings, strategies

from bus.shim import native
from bus.system.directories import directories
from bus.wire.connections import Connections, sync_client
from bus.wire.keys import Keys, declared
from tests.support import chosen_shim
from tests.support.examples import examples
from tests.support.processes import Processes
from tests.support.requirements import Requirements
from tests.support.schedule import longest_first
from tests.support.servers import Server
from tests.support.waiting import CONNECT
from workers.runtime.process import SELDOM_THRESHOLDS, fast_loop

# The same examples in every run, however busy the machine; `--hypothesis-profile=default` looks for new ones. The health
# check is about time alone: drawing ten examples took more than its limit in CI.
settings.register_profile(
    "same", max_examples=examples(100), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")

# Without bytecode files each of the some thousand processes of a run compiles the whole program again, and each worker
# rewrites the asserts of every test file: half of the run's time.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# pyenv's `python3` is a shell script that takes 0.1 s to find the interpreter, and hooks of tests start it hundreds of times.
if "/shims/" in (shutil.which("python3") or ""):
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(os.path.realpath(sys.executable)), os.environ["PATH"]])

_ON_BOTH_LOOPS = {
    "test_connections.py",
    "test_http_client.py",
    "test_http_connector.py",
    "test_processes.py",
    "test_proxied.py",
}
_LIVE = re.compile(r"/tests/(live|flow|chaos|contract)/")


@pytest.fixture(autouse=True)
def clean_environment(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """No FLEETHOOK_* of the developer's own reaches a test; everything that it writes is in its own folder."""
    for name in list(os.environ):
        if name.startswith("FLEETHOOK_"):
            monkeypatch.delenv(name)
    if "tmp_path" in request.fixturenames:
        home = request.getfixturevalue("tmp_path") / "home"
    else:  # most tests write nothing, and a folder for each of thousands takes longer than they do
        home = tmp_path_factory.getbasetemp() / f"home-{uuid.uuid4().hex[:12]}"
    monkeypatch.setenv("FLEETHOOK_HOME", str(home))
    monkeypatch.setenv("FLEETHOOK_HOST", "test-host")
    # Agents run these tests too; the way in works for temporary folders alone (workers/admin/person.py).
    monkeypatch.setenv("FLEETHOOK_TEST_CONFIRMS", "1")
    yield
    runtime = directories({"FLEETHOOK_HOME": str(home)}, create=False).runtime
    if home not in runtime.parents:  # the home's path is too long for a socket, and its runtime directory is in /tmp
        shutil.rmtree(runtime, ignore_errors=True)


@pytest.fixture(scope="session")
def native_hook() -> str:
    """The native hook command of this checkout, built if it is not there."""
    made = native.prepare(native.FOLDER)
    if not made.path:
        assert not made.why, made.why
        pytest.skip("there is no C compiler, so there is no native hook command")
    return made.path


@pytest.fixture(scope="module", params=["python", "native"])
def each_shim(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs the tests of a file with the hook command in Python, and again with the native one."""
    kind: str = request.param
    chosen_shim.native = request.getfixturevalue("native_hook") if kind == "native" else ""
    yield kind
    chosen_shim.native = ""


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One real server for the whole run; every test has a namespace of its own on it."""
    one = Server()
    one.start()
    yield one
    one.stop()


@pytest.fixture
def keys(server: Server) -> Iterator[Keys]:
    """Key names of a namespace of this test's own; afterwards every key left is declared and has its promised end."""
    names = Keys(f"t-{uuid.uuid4().hex[:12]}")
    yield names
    client = sync_client(server.url)
    left = [name.decode() for name in client.scan_iter(match=f"{_escaped(names.prefix)}*", count=1000)]
    problems = []
    for name in left:
        key = declared(name.removeprefix(names.prefix))
        kind = str(client.type(name), "ascii")  # type: ignore[arg-type]  # bytes: nothing is decoded
        if key is None:
            problems.append(f"{name} is not declared in bus/wire/keys.py")
        elif kind not in {key.kind, "none"}:
            problems.append(f"{name} is a {kind}, declared as {key.kind}")
        elif isinstance(key.ttl, int) and key.kind in {"string", "list"} and client.pttl(name) == -1:
            problems.append(f"{name} has no TTL; {key.ttl} ms were promised")
    for start in range(0, len(left), 1_000):  # to free 100,000 at once takes a server longer than a client waits
        client.unlink(*left[start : start + 1_000])
    client.close()
    assert not problems, "\n".join(problems)


def _escaped(prefix: str) -> str:
    return prefix.replace("{", "\\{").replace("}", "\\}")


@pytest.fixture
async def connections(server: Server) -> AsyncIterator[Connections]:
    """Connections to the server."""
    made = Connections(server.url, connect=CONNECT)
    yield made
    await made.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--processes 6`: the tests run in so many forked processes."""
    parser.addoption("--processes", type=int, default=0, help="run in so many forked processes (Linux)")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Thousands of tests are half a million objects that stay: looking for garbage among them took a third of this.

    Tests then look for garbage as seldom as workers do. What each forked process would work out for itself is worked out here.
    """
    gc.disable()
    try:
        found = yield
        if session.config.option.processes:
            strategies.text().validate()  # the table of all characters, which takes 0.2 s, and 2.4 s in a new checkout
        return found
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(*SELDOM_THRESHOLDS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by their folder and hook command; in a process of several, put the longest files first."""
    for item in items:
        found = _LIVE.search(str(item.path))
        if found and found[1] in {"live", "flow", "chaos"}:
            item.add_marker(found[1])
        if item.get_closest_marker("one_shim") and _shim_of(item) not in {"", chosen_shim.USUAL}:
            item.add_marker("slow")
    if hasattr(config, "workerinput") or config.option.processes:
        items[:] = longest_first(items)


def _shim_of(item: pytest.Item) -> str:
    """The hook command that a test runs, `python` or `native`; empty if it does not have both."""
    case = getattr(item, "callspec", None)
    return str(case.params.get("each_shim", "")) if case else ""


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """What workers do with the loop itself is shown on theirs too; everything else runs on asyncio's, as agents do."""
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    fast = fast_loop()
    if fast is not None and item.path.name in _ON_BOTH_LOOPS:
        loops["uvloop"] = fast
    return loops


def pytest_configure(config: pytest.Config) -> None:
    """Report the requirements at the end, and let files start in our order.

    Signals reach the processes of a run that `nohup` or `&` made deaf to them.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:  # a child inherits that, but not a handler
            signal.signal(number, lambda *_: None)
    if hasattr(config.option, "loadscopereorder"):  # pytest-xdist is there
        config.option.loadscopereorder = False
    config.pluginmanager.register(Requirements(), "requirements")
    if config.option.processes:
        config.pluginmanager.register(Processes(config.option.processes), "processes")
