"""Webhooks the simple way: one RQ job for each delivery, a client for each call, and retries that sleep inside the job.

httpx posts where it is installed, else http.client. RQ's own worker forks for each job; its children's CPU counts too.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import logging
import os
import resource
import sys
import time
from typing import Final
from urllib.parse import urlsplit

from bus.http.signing import generate_secret
from bus.http.signing import headers as signed
from bus.ids import event_id

QUEUE: Final = "bench-plain"
CLIENT: Final = "httpx" if importlib.util.find_spec("httpx") else "http.client"


def deliver(url: str, body: str, secret: str, name: str) -> int:
    """The job: sign, post, sleep, post again; returns the status."""
    import tenacity

    raw = body.encode()
    for attempt in tenacity.Retrying(
        stop=tenacity.stop_after_attempt(4), wait=tenacity.wait_exponential(), reraise=True
    ):
        with attempt:
            headers = signed([secret], name, int(time.time()), raw) | {"Content-Type": "application/json"}
            status = _post(url, raw, headers)
            if status >= 300:
                raise RuntimeError(f"receiver answered {status}")
    return status


def _post(url: str, body: bytes, headers: dict[str, str]) -> int:
    if CLIENT == "httpx":
        import httpx

        return int(httpx.post(url, content=body, headers=headers, timeout=15).status_code)
    from http.client import HTTPConnection

    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=15)
    try:
        connection.request("POST", parts.path, body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


async def deliver_simply(url: str, port: int, count: int) -> float:
    """Deliveries per CPU-second of one RQ worker and its forks, without the cost of queueing."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "workers.bench.simple_webhooks",
        str(port),
        str(count),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "FLEETHOOK_REDIS_URL": url},
    )
    out, _ = await child.communicate()
    done, seconds = out.split()
    if int(done) != count:
        raise RuntimeError(f"{done!r} plain deliveries instead of {count}")
    return count / float(seconds)


def _be_worker(url: str, port: int, count: int) -> None:
    from rq import Queue, Worker
    from rq.serializers import JSONSerializer

    from bus.wire.connections import sync_client

    if CLIENT == "httpx":
        import httpx  # noqa: F401 - its import is no delivery's cost: each fork would pay for it
    import tenacity  # noqa: F401 - likewise

    importlib.import_module("workers.bench.simple_webhooks")  # likewise; in this process the module is __main__
    logging.disable(logging.WARNING)
    client = sync_client(url, seconds=60)
    queue = Queue(QUEUE, connection=client, serializer=JSONSerializer)
    secret, body = generate_secret(), "x" * 1024
    for n in range(count):
        args = (f"http://127.0.0.1:{port}/{n % 10}", body, secret, event_id())
        queue.enqueue("workers.bench.simple_webhooks.deliver", args=args, result_ttl=60)
    before = _cpu()
    worker = Worker([queue], connection=client, serializer=JSONSerializer, log_job_description=False)
    worker.work(burst=True, logging_level="CRITICAL")
    print(count - queue.failed_job_registry.count - queue.count, _cpu() - before, flush=True)  # noqa: T201 - it is read
    client.close()


def _cpu() -> float:
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in both)


if __name__ == "__main__":
    _be_worker(os.environ["FLEETHOOK_REDIS_URL"], int(sys.argv[1]), int(sys.argv[2]))
