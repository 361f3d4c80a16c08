"""Replays over HTTP, and the maintenance jobs that do them: as `fleethook replay` and `fleethook jobs`."""

from __future__ import annotations

import logging
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from bus.errors import ConfigError, NotFound
from bus.events import Event
from bus.hooksets.in_force import Watcher
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.admin.hook_findings import check_condition
from workers.gateway.access import CALLER
from workers.gateway.api_path import ApiPath, Content
from workers.gateway.problems import Problem
from workers.gateway.records.list_responses import json_response, list_response
from workers.gateway.records.operations import read_fields
from workers.gateway.records.queries import ListQuery, NoQuery, read_query
from workers.records.bulk_jobs import BulkJob, begin, job, jobs, shown, stop_job
from workers.records.events import find_event
from workers.records.id_prefixes import whole_event_id
from workers.records.moments import parse_moment
from workers.records.replay import ReplaySpec, count_replay, watched

log = logging.getLogger("fleethook.gateway")

_COUNT_SECONDS: Final = 5.0
_TIME: Final = "a length of time ago (90s, 12h, 7d), a date (2026-11-21T14:30:00Z), or milliseconds since 1970"


class Replay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which past events to send to endpoints again."""

    since: Annotated[str, Meta(min_length=1, max_length=64, description=f"From then on: {_TIME}.")]
    until: Annotated[str, Meta(max_length=64, description="Until then; without it, until now.")] = ""
    where: Annotated[str, Meta(max_length=4_000, description="A CEL condition, as a hook's `when`.")] = ""
    endpoint: Annotated[str, Meta(max_length=200)] = ""
    """To this endpoint only; without it, to all that match now."""
    rate: Annotated[float, Meta(ge=0, le=100_000)] = 50.0
    """The most deliveries a second; 0: no limit."""
    dry_run: bool = False
    """Count what would be sent, and send nothing."""


class OneReplay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to send one event again."""

    endpoint: Annotated[str, Meta(max_length=200)] = ""
    """To this endpoint only; without it, to all that match now."""
    dry_run: bool = False
    """Count what would be sent, and send nothing."""


class ReplayStarted(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay will send, or would send."""

    job: str
    """The job that sends it, for `/v1/jobs/{id}`; empty for a dry run, and if nothing matches."""
    events: int
    matching: int
    """How many deliveries that are."""
    endpoints: dict[str, int]
    """How many of them each endpoint gets."""
    left_out: int
    """Events for which `where` cannot be evaluated."""
    complete: bool
    """False if the count ended after five seconds; a job goes on to the end nevertheless."""


class Replays:
    """The replays of one gateway. A chores worker does them, so they outlive the gateway."""

    def __init__(self, connections: Connections, keys: Keys, watcher: Watcher) -> None:
        self._connections, self._keys, self._watcher = connections, keys, watcher

    async def replay(self, request: Request) -> Response:
        """Send past events to endpoints again, as new deliveries, by the hooks that are in force now."""
        asked = await read_fields(request, Replay)
        try:
            since, until = parse_moment(asked.since), parse_moment(asked.until) if asked.until else 0
            if asked.where:
                check_condition(asked.where)
        except ConfigError as error:
            raise Problem(400, "replay-invalid", str(error)) from error
        spec = ReplaySpec(since=since, until=until, where=asked.where, endpoint=asked.endpoint, rate=asked.rate)
        return await self._start(request, spec, is_dry=asked.dry_run)

    async def replay_one(self, request: Request) -> Response:
        """Send one event to endpoints again, by its id or the beginning of it."""
        asked = await read_fields(request, OneReplay)
        name = await whole_event_id(self._connections, self._keys, request.path_params["id"])
        at = (await find_event(self._connections, self._keys, name)).ms
        spec = ReplaySpec(since=at, until=at, event=name, endpoint=asked.endpoint)
        return await self._start(request, spec, is_dry=asked.dry_run)

    async def _start(self, request: Request, spec: ReplaySpec, *, is_dry: bool) -> Response:
        await self._watcher.refresh()
        known = self._watcher.for_event(Event(type="", host=self._watcher.host)).endpoints
        if spec.endpoint and spec.endpoint not in known:
            raise NotFound(f"no endpoint is called {spec.endpoint[:80]!r} here; GET /v1/endpoints lists them")
        found = await count_replay(self._connections, self._keys, spec, watched(self._watcher), seconds=_COUNT_SECONDS)
        count, name = found.endpoints.total(), ""
        if not is_dry and (count or not found.complete):
            name = await begin(self._connections, self._keys, "replay", spec, count if found.complete else 0)
            log.info("token %s began the replay %s", request.scope[CALLER], name)
        said = ReplayStarted(
            job=name,
            events=found.events,
            matching=count,
            endpoints=dict(found.endpoints),
            left_out=found.condition_errors.total(),
            complete=found.complete,
        )
        return json_response(msgspec.to_builtins(said))

    async def jobs(self, request: Request) -> Response:
        """The maintenance jobs of the last seven days, newest first."""
        query = read_query(request, ListQuery)
        found = await jobs(self._connections, self._keys)
        plain = [msgspec.to_builtins(shown(one)) for one in found]
        return list_response(request, query, plain, ("created", "id"), newest_first=True)

    async def job(self, request: Request) -> Response:
        """One maintenance job and its progress."""
        read_query(request, NoQuery)
        return json_response(
            msgspec.to_builtins(shown(await job(self._connections, self._keys, request.path_params["id"])))
        )

    async def stop(self, request: Request) -> Response:
        """Stop a job; what it has done stays done."""
        name = request.path_params["id"]
        if not await stop_job(self._connections, self._keys, name):
            raise Problem(409, "job-ended", f"the job {name[:80]} has ended already")
        log.info("token %s stopped the job %s", request.scope[CALLER], name)
        return json_response(msgspec.to_builtins(shown(await job(self._connections, self._keys, name))))

    def paths(self) -> tuple[ApiPath, ...]:
        """The paths of replays and jobs."""
        started = (Content(ReplayStarted),)
        return (
            ApiPath("POST", "/v1/replays", "operate", self.replay, started, body=(Content(Replay),), refusals=(404,)),
            ApiPath("POST", "/v1/events/{id}/replay", "operate", self.replay_one, started, body=(Content(OneReplay),)),
            ApiPath("GET", "/v1/jobs", "observe", self.jobs, (), item=BulkJob, query=ListQuery),
            ApiPath("GET", "/v1/jobs/{id}", "observe", self.job, (Content(BulkJob),), query=NoQuery),
            ApiPath("POST", "/v1/jobs/{id}/stop", "operate", self.stop, (Content(BulkJob),), refusals=(409,)),
        )
