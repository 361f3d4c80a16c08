"""`/v1/hookset`: the published hook set; publish a file and roll back, as `fleethook hooks apply` and `rollback` do."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from bus.config.documents import loads
from bus.errors import ConfigError, NotFound, Unreachable
from bus.hooksets.guard_changes import GuardChange, Loss
from bus.hooksets.hookfile import HookFile, read_hook_document
from bus.hooksets.plugins.missing_files import not_published
from bus.hooksets.published import SetChange, SetMoved, apply, current_version, diff, history, load_version, rollback
from bus.ids import host_name
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.admin.published_changes import guard_losses, redacted_diff
from workers.gateway.access import CALLER
from workers.gateway.api_path import JSON, ApiPath, Content
from workers.gateway.bodies import read_body
from workers.gateway.hooksets.operator import Operator
from workers.gateway.problems import Problem
from workers.gateway.records.list_responses import json_response, list_response
from workers.gateway.records.operations import read_fields
from workers.gateway.records.queries import ListQuery, NoQuery, read_query

log = logging.getLogger("fleethook.gateway")

MOST_BYTES: Final = 2 * 1024 * 1024
"""The most bytes of a file; ten thousand hooks are 2 MB. Reading such a file takes seconds of a core."""

_YAML: Final = "application/yaml"
_VERSION: Final = re.compile(r'(?:W/)?"?([0-9]{1,15})"?')
_KEPT: Final = 1_000
_MOST_PROBLEMS: Final = 20
_IF_MATCH: Final = ("If-Match", 'The version in force that the change is made against, as in `ETag`: `"3"`.')
_FILE: Final = "the body"

Publish = Callable[[GuardChange | None], Awaitable[int]]
"""Publishes, announces the guards that are lost, and returns the new version."""


class ApplyQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of a publication."""

    dry_run: Annotated[bool, Meta(description="`true`: say what would change, and change nothing.")] = False
    message: Annotated[str, Meta(max_length=500, description="Why, for the history.")] = ""


class DryRunQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of a rollback."""

    dry_run: Annotated[bool, Meta(description="`true`: say what would change, and change nothing.")] = False


class RollBack(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which version to put in force again."""

    to: Annotated[int, Meta(ge=1, le=10**15)] | None = None
    """Without it, the version before the current one."""


class SetState(msgspec.Struct, frozen=True, kw_only=True):
    """The published hook set in force; version 0 if none was ever published."""

    version: int
    hooks: int
    endpoints: int
    guards: tuple[str, ...]


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What a publication or a rollback changed, or would change."""

    version: int
    """The version in force after the call."""
    before: int
    published: bool
    """False for a dry run, and if nothing would change."""
    hooks: int
    endpoints: int
    diff: str
    """A unified diff without secrets; empty if nothing changes."""
    weakened: tuple[str, ...]
    """The guards that are missing or weaker in the new version, and how."""
    warnings: tuple[str, ...]


class Publishing:
    """The hook set's paths; reads and reports go over `connections`, publications over `operator`."""

    def __init__(self, connections: Connections, keys: Keys, operator: Operator) -> None:
        self._connections, self._keys, self._operator = connections, keys, operator

    async def state(self, request: Request) -> Response:
        """The published hook set in force; its version is in `ETag` too."""
        read_query(request, NoQuery)
        version = await current_version(self._connections, self._keys)
        file = await load_version(self._connections, self._keys, version)
        found = SetState(
            version=version, hooks=len(file.hooks), endpoints=len(file.endpoints), guards=tuple(sorted(file.guards))
        )
        return _tagged(found, version)

    async def history(self, request: Request) -> Response:
        """The versions that were put in force: when, by whom, why; newest first."""
        query = read_query(request, ListQuery)
        changes = await history(self._connections, self._keys, _KEPT)
        plain = [msgspec.to_builtins(change) for change in changes]
        return list_response(request, query, plain, ("ms", "version"), newest_first=True)

    async def apply(self, request: Request) -> Response:
        """Publish a hook file to the whole fleet as a new version, or say what it would change."""
        query = read_query(request, ApplyQuery)
        before, old = await self._current(request, is_dry=query.dry_run)
        file = await asyncio.to_thread(read_sent_file, await read_body(request, MOST_BYTES))

        async def publish(lost: GuardChange | None) -> int:
            connections, by = self._operator.connections(), _who(request)
            return await apply(
                connections, self._keys, file, message=query.message, expected=before, by=by, change=lost
            )

        changes = diff(old, file, (f"version {before}", "new"))
        return await self._change(
            request, "hooks apply", before, old, file, changes, None if query.dry_run else publish
        )

    async def roll_back(self, request: Request) -> Response:
        """Put an earlier version in force again, as a new one, or say what that would change."""
        query = read_query(request, DryRunQuery)
        wanted = (await read_fields(request, RollBack)).to
        before, old = await self._current(request, is_dry=query.dry_run)
        target = before - 1 if wanted is None else wanted
        if target < 1:
            raise NotFound(f"there is no version before {before} to roll back to")
        file = await load_version(self._connections, self._keys, target)

        async def publish(lost: GuardChange | None) -> int:
            connections, by = self._operator.connections(), _who(request)
            return await rollback(connections, self._keys, target, expected=before, by=by, change=lost)

        changes = diff(old, file, (f"version {before}", f"version {target}"))
        return await self._change(
            request, "hooks rollback", before, old, file, changes, None if query.dry_run else publish, always=True
        )

    async def _current(self, request: Request, *, is_dry: bool) -> tuple[int, HookFile]:
        """The version in force and its content; raises Problem if the caller saw another one."""
        wanted = request.headers.get("if-match", "")
        matched = _VERSION.fullmatch(wanted.strip())
        if wanted and matched is None:
            raise Problem(400, "version-invalid", 'If-Match has one version, as in the ETag of GET /v1/hookset: "3"')
        if matched is None and not is_dry:
            detail = 'send If-Match with the version that you saw: the ETag of GET /v1/hookset, such as "3"'
            raise Problem(428, "version-missing", detail)
        version = await current_version(self._connections, self._keys)
        if matched is not None and int(matched[1]) != version:
            raise _moved(version)
        return version, await load_version(self._connections, self._keys, version)

    async def _change(
        self,
        request: Request,
        command: str,
        before: int,
        old: HookFile,
        new: HookFile,
        changes: str,
        publish: Publish | None,
        *,
        always: bool = False,
    ) -> Response:
        losses = await asyncio.to_thread(guard_losses, old, new)
        warnings = [*new.warnings, *not_published(new)]
        version, published = before, False
        if publish is not None and (changes or always):
            try:
                version, published = await publish(_lost(request, command, losses)), True
            except SetMoved as error:
                raise _moved(await current_version(self._connections, self._keys)) from error
            except Unreachable as error:
                raise self._operator.refused(error) from error
            except ConfigError as error:
                raise Problem(400, "set-invalid", str(error)) from error
            log.info("%s published version %d (%s)", _who(request), version, command)
        said = Published(
            version=version,
            before=before,
            published=published,
            hooks=len(new.hooks),
            endpoints=len(new.endpoints),
            diff=redacted_diff(changes),
            weakened=tuple(f"{loss.guard} {loss.how}" for loss in losses),
            warnings=tuple(warnings),
        )
        return _tagged(said, version)

    def paths(self) -> tuple[ApiPath, ...]:
        """The paths of the hook set."""
        changed = (Content(Published),)
        file = (Content(None, (_YAML, JSON, "text/plain")),)
        refusals = (409, 412, 428)
        headers = (_IF_MATCH,)
        return (
            ApiPath("GET", "/v1/hookset", "observe", self.state, (Content(SetState),), query=NoQuery),
            ApiPath("GET", "/v1/hookset/history", "observe", self.history, (), item=SetChange, query=ListQuery),
            ApiPath(
                "POST",
                "/v1/hookset/apply",
                "admin",
                self.apply,
                changed,
                query=ApplyQuery,
                headers=headers,
                body=file,
                refusals=refusals,
            ),
            ApiPath(
                "POST",
                "/v1/hookset/rollback",
                "admin",
                self.roll_back,
                changed,
                query=DryRunQuery,
                headers=headers,
                body=(Content(RollBack),),
                refusals=(404, *refusals),
            ),
        )


def read_sent_file(raw: bytes) -> HookFile:
    """The hook file in a body. Raises Problem with its problems; an import is one, since it would read this machine's files."""
    if not raw.strip():  # what a script sends whose own file is missing; it would remove every hook of the fleet
        raise Problem(400, "set-invalid", "the body is empty; a set without hooks is `version: 1`")
    try:
        document = loads(raw.decode(), file=_FILE)
        if isinstance(document.value, dict) and "import" in document.value:
            detail = "the file imports others, which the gateway's machine does not have; write their hooks into it"
            raise Problem(400, "set-invalid", detail)
        file = read_hook_document(document, "fleet")
    except UnicodeDecodeError as error:
        raise Problem(400, "set-invalid", f"the body is not UTF-8: {error}") from error
    except ConfigError as error:
        raise Problem(400, "set-invalid", str(error)) from error
    if file.problems:
        more = len(file.problems) - _MOST_PROBLEMS
        texts = [str(problem) for problem in file.problems[:_MOST_PROBLEMS]] + (
            [f"and {more} more"] if more > 0 else []
        )
        raise Problem(400, "set-invalid", "; ".join(texts))
    return file


def _who(request: Request) -> str:
    return f"token {request.scope[CALLER]}"


def _lost(request: Request, command: str, losses: tuple[Loss, ...]) -> GuardChange | None:
    """The change of the guards that this request makes; None if it weakens none."""
    if not losses:
        return None
    return GuardChange(
        how=f"{command} over HTTP",
        where="",
        losses=losses,
        by=_who(request),
        host=host_name(),
        ms=time.time_ns() // 10**6,
    )


def _moved(version: int) -> Problem:
    detail = f"version {version} is in force by now; look at what it changed, and send your change against it"
    return Problem(412, "version-moved", detail, {"ETag": f'"{version}"'})


def _tagged(value: msgspec.Struct, version: int) -> Response:
    response = json_response(msgspec.to_builtins(value))
    response.headers["ETag"] = f'"{version}"'
    return response
