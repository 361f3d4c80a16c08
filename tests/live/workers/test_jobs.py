"""RQ's workers as we run them, against jobs as somebody else may queue them and a server that goes away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rq import Callback, Queue, Repeat, Retry, Webhook, Worker
from rq.job import Job
from rq.serializers import JSONSerializer

from bus.config.settings import Settings
from bus.errors import Unreachable
from bus.wire.connections import Connections, sync_client
from bus.wire.keys import Keys
from tests.cli_kit import namespace
from tests.support.delivering import dispatch_event, settled, turn_end
from tests.support.forked import Snippet
from tests.support.proxy import Proxy
from tests.support.receivers import receiving
from tests.support.running import HOST, do, publish_hooks
from tests.support.servers import Server
from tests.support.waiting import PATIENCE, until, wait_until
from workers.jobs import CARRIER, CHORES, enqueue, queue, queue_name

PROGRAM = """
import sys
from bus.hooksets.settings_files import load_settings
from workers import jobs
from workers.roles import run_role
jobs._WORKER_TTL, jobs._BEAT_SECONDS = 16, 0.1  # RQ waits for a job for one second at a time
run_role(sys.argv[1], load_settings().settings)
"""


@contextmanager
def rq_process(kind: str, keys: Keys, url: str, tmp_path: Path, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A real worker process of this kind, ended by SIGTERM."""
    log = tmp_path / f"{kind}.log"
    env = {
        **os.environ,
        "FLEETHOOK_REDIS_URL": url,
        "FLEETHOOK_NAMESPACE": namespace(keys),
        "FLEETHOOK_HOST": HOST,
        "CANARY": str(tmp_path / "canary"),
        **more,
    }
    with log.open("wb") as output:
        process = Snippet(PROGRAM, kind, env=env, stdout=output, stderr=output)
    try:
        wait_until(lambda: b"ready" in log.read_bytes(), f"the {kind} is ready")
        yield process
        assert process.poll() is None, log.read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in log.read_text(), log.read_text()


@pytest.fixture
def on(server: Server, keys: Keys) -> Iterator[Callable[[str], Queue]]:
    """RQ's queues of a kind as an attacker makes them; afterwards RQ has forgotten this namespace."""
    client = sync_client(server.url)
    yield lambda kind: Queue(
        queue_name(Settings(namespace=namespace(keys)), kind), connection=client, serializer=JSONSerializer
    )
    left = [key for key in client.scan_iter("rq:*", count=1000) if b":job:" in key or namespace(keys).encode() in key]
    for key in left:
        client.delete(key)
    client.close()


@pytest.mark.req("B-03", "B-05")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_nothing_but_our_own_functions_is_ever_called(
    server: Server, keys: Keys, connections: Connections, on: Callable[[str], Queue], tmp_path: Path
) -> None:
    chores, touch = on(CHORES), "tests.support.canary.touch"
    ours = "workers.jobs.tidy"
    async with receiving() as receiver:
        with rq_process(CHORES, keys, server.url, tmp_path):
            told = Webhook(receiver.url(), "finished")
            failed_one = Webhook(receiver.url(), "failed")
            pickled = Queue(chores.name, connection=chores.connection)
            bad: list[Job] = [
                chores.enqueue("os.system", f"touch {tmp_path}/canary"),
                chores.enqueue(touch, retry=Retry(max=3), on_failure=Callback(touch), webhooks=[failed_one]),
                pickled.enqueue(touch),
                pickled.enqueue(touch, on_failure=Callback(touch)),
                chores.enqueue(touch, on_failure=Callback(touch), failure_ttl=-1),
                chores.enqueue("workers.jobs.ALLOWED.clear"),
                chores.enqueue("workers.jobs.rq_worker"),
            ]
            good: list[Job] = [
                chores.enqueue(ours, on_success=Callback(touch), webhooks=[told], result_ttl=-1),
                chores.enqueue(ours, repeat=Repeat(times=3, interval=0), on_stopped=Callback(touch)),
                chores.enqueue(ours, repeat=Repeat(times=3, interval=60), retry=Retry(max=2, interval=60)),
                chores.enqueue(ours, job_timeout=1),
            ]
            await until(lambda: _gone(good), "what may run has run and left nothing")
            failed = set(chores.failed_job_registry.get_job_ids(cleanup=False))
            assert failed == {job.id for job in bad}
            assert chores.connection.zcard(chores.finished_job_registry.key) == 0
            assert chores.scheduled_job_registry.get_job_ids(cleanup=False) == []
            for job in bad:
                assert 0 < chores.connection.ttl(job.key) <= 3_600, "a failed one is kept for an hour"
        assert not (tmp_path / "canary").exists()
        assert receiver.got == []


async def _gone(jobs: list[Job]) -> bool:
    return not any(Job.exists(job.id, connection=job.connection) for job in jobs)


async def test_a_worker_that_is_idle_says_that_it_lives_and_still_works(
    server: Server, keys: Keys, connections: Connections, on: Callable[[str], Queue], tmp_path: Path
) -> None:
    chores = on(CHORES)
    with rq_process(CHORES, keys, server.url, tmp_path):
        (worker,) = await do(connections, "SMEMBERS", f"rq:workers:{chores.name}")
        beats: set[bytes] = set()

        async def beaten(times: int) -> bool:
            beats.add(await do(connections, "HGET", worker, "last_heartbeat"))
            return len(beats) >= times

        await until(lambda: beaten(3), "it waits in vain more than once")
        assert enqueue(queue(Settings(namespace=namespace(keys)), server.url, CHORES), "tidy") == 1
        await until(lambda: _empty(chores), "the job has run")
        assert chores.failed_job_registry.get_job_ids(cleanup=False) == []


async def _empty(one: Queue) -> bool:
    return (
        one.count == 0 and one.connection.llen(one.intermediate_queue_key) == 0 and not one.started_job_registry.count
    )


async def test_a_worker_is_found_again_on_a_server_that_lost_its_data(
    server: Server, connections: Connections, keys: Keys, on: Callable[[str], Queue], tmp_path: Path
) -> None:
    """B12: it was missing in `status` until its next start."""
    name = f"rq:workers:{on(CHORES).name}"
    with rq_process(CHORES, keys, server.url, tmp_path):
        (worker,) = await do(connections, "SMEMBERS", name)
        await do(connections, "DEL", name, worker, "rq:workers")

        async def found() -> bool:
            return bool(await do(connections, "SMEMBERS", name) == [worker] and await do(connections, "EXISTS", worker))

        await until(found, "it is there again")


@pytest.mark.req("B-05")
async def test_a_carrier_job_beats_drains_at_sigterm_and_ends_its_job(
    server: Server, keys: Keys, connections: Connections, on: Callable[[str], Queue], tmp_path: Path
) -> None:
    carrier = on(CARRIER)
    async with receiving() as receiver:
        receiver.hold()
        await publish_hooks(
            connections,
            keys,
            f"""
network: {{allow: ["127.0.0.1:{receiver.port}"]}}
endpoints:
  - {{id: one, url: "{receiver.url()}"}}
""",
        )
        name = await dispatch_event(connections, keys, turn_end())
        with rq_process(CARRIER, keys, server.url, tmp_path) as process:
            assert enqueue(queue(Settings(namespace=namespace(keys)), server.url, CARRIER), "carry") == 1
            await until(lambda: _flying(receiver.in_flight), "it is under way")
            (worker,) = await do(connections, "SMEMBERS", f"rq:workers:{carrier.name}")
            beats: set[bytes] = set()

            async def beaten() -> bool:
                beats.add(await do(connections, "HGET", worker, "last_heartbeat"))
                return len(beats) >= 3

            await until(beaten, "RQ is told that the job lives")
            process.send_signal(signal.SIGTERM)
            await until(lambda: _draining(connections, keys, name), "it drains")
            receiver.release()
            await settled(connections, keys, name, "delivered")
            assert process.wait(PATIENCE) == 0
            process.poll = lambda: None  # type: ignore[method-assign]  # it has ended as it should
        assert receiver.ids == {f"{name}_one": 1}
        assert await _empty(carrier)
        assert await do(connections, "EXISTS", worker) == 0 or await do(connections, "HGET", worker, "death")


@pytest.mark.req("B-05")
@pytest.mark.parametrize("kind", [CARRIER, CHORES])
def test_who_is_ready_ends_in_order_by_a_signal(
    server: Server, keys: Keys, tmp_path: Path, on: Callable[[str], Queue], kind: str
) -> None:
    """Also by one in the very moment in which it says so: exit 0, and RQ has forgotten the worker."""
    program = f"""
import os, signal
from workers.runtime.process import Process
Process.report_ready = lambda self: (print("ready", flush=True), os.kill(os.getpid(), signal.SIGTERM))
{PROGRAM}"""
    env = {**os.environ, "FLEETHOOK_REDIS_URL": server.url, "FLEETHOOK_NAMESPACE": namespace(keys)}
    command = [sys.executable, "-c", program, kind]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (0, "ready\n"), done.stderr
    assert Worker.count(queue=on(kind)) == 0


async def _flying(in_flight: Any) -> bool:
    return bool(sum(in_flight.values()))


async def _draining(connections: Connections, keys: Keys, name: str) -> bool:
    return bool(await do(connections, "HGET", keys("delivery", f"{name}.one"), "state") == b"running")


@pytest.mark.req("B-05")
async def test_rqs_server_may_go_away_at_any_time(
    server: Server, keys: Keys, connections: Connections, on: Callable[[str], Queue], tmp_path: Path
) -> None:
    """While the worker waits, and while a job is under way: it comes back by itself and goes on."""
    carrier = on(CARRIER)
    async with Proxy(server.url) as proxy, receiving() as receiver:
        await publish_hooks(
            connections,
            keys,
            f"""
network: {{allow: ["127.0.0.1:{receiver.port}"]}}
endpoints:
  - {{id: one, url: "{receiver.url()}"}}
""",
        )
        asking = queue(Settings(namespace=namespace(keys)), server.url, CARRIER)
        async with _process(keys, server, tmp_path, proxy):
            proxy.away()
            name = await dispatch_event(connections, keys, turn_end())
            enqueue(asking, "carry")
            proxy.back()
            await settled(connections, keys, name, "delivered")
            receiver.hold()
            name = await dispatch_event(connections, keys, turn_end())
            enqueue(asking, "carry")
            await until(lambda: _flying(receiver.in_flight), "it is under way")
            proxy.away()
            receiver.release()
            await settled(connections, keys, name, "delivered")
            await until(lambda: do(connections, "EXISTS", keys("alive", "carrier")), "it still carries", 1)
            await until(lambda: _absent(connections, keys), "the job has ended")
            proxy.back()
            name = await dispatch_event(connections, keys, turn_end())
            enqueue(asking, "carry")
            await settled(connections, keys, name, "delivered")
        for failed in map(carrier.fetch_job, carrier.failed_job_registry.get_job_ids(cleanup=False)):
            result = failed.latest_result() if failed is not None else None
            assert result is not None
            assert "redis.exceptions.ConnectionError" in (result.exc_string or ""), "only RQ's own note may have failed"


async def _absent(connections: Connections, keys: Keys) -> bool:
    return not await do(connections, "EXISTS", keys("alive", "carrier"))


def _process(keys: Keys, server: Server, tmp_path: Path, proxy: Proxy) -> Any:
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def whole() -> Any:
        import asyncio

        context = rq_process(CARRIER, keys, server.url, tmp_path, FLEETHOOK_RQ_URL=proxy.url)
        process = await asyncio.to_thread(context.__enter__)
        try:
            yield process
        finally:
            await asyncio.to_thread(context.__exit__, None, None, None)

    return whole()


def test_no_more_jobs_wait_than_there_are_workers(server: Server, keys: Keys, on: Callable[[str], Queue]) -> None:
    chores = on(CHORES)
    ours = queue(Settings(namespace=namespace(keys)), server.url, CHORES)
    assert [enqueue(ours, "tidy") for _ in range(5)] == [0] * 5
    assert chores.count == 1
    (job,) = chores.jobs
    assert 0 < chores.connection.ttl(job.key) <= 60
    ours.connection.close()


def test_rqs_server_away_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="RQ"):
        enqueue(queue(Settings(), f"unix://{tmp_path}/none.sock", CHORES), "tidy")
