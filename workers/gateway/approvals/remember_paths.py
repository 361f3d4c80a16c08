"""`/v1/approvals/{id}/remember`: an approved call as an exception to the rules that asked, proposed and published (X-03)."""

from __future__ import annotations

import asyncio
import difflib
import time
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bus.errors import FleethookError, NotFound, Unreachable
from bus.hooks import Hook, Layer
from bus.hooksets.guard_changes import GuardChange, weakened
from bus.hooksets.hookfile import HookFile
from bus.hooksets.in_force import HookSet, Layered, Watcher
from bus.hooksets.published import apply, current_version, diff, load_version
from bus.secrets.redaction import redact_text
from bus.system.directories import CONFIG_NAMES
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.admin.endpoint_edit import Edited
from workers.admin.rule_exceptions import Plan, planned
from workers.approvals.questions import read_question, whole_question_id
from workers.approvals.remembered_calls import check_approved, read_remembered
from workers.gateway.access import CALLER
from workers.gateway.api_path import ApiPath, Content
from workers.gateway.hooksets.operator import Operator
from workers.gateway.problems import Problem
from workers.gateway.records.list_responses import json_response
from workers.gateway.records.queries import NoQuery, read_query


class LayerChange(msgspec.Struct, frozen=True, kw_only=True):
    """The change of one layer; its diff is redacted."""

    layer: Layer
    where: str
    """The file, or the version that the diff is against."""
    diff: str
    """A unified diff; empty if the exception is there already."""
    written: bool
    """Whether this call made the change."""


class Remembering(msgspec.Struct, frozen=True, kw_only=True):
    """What remembering a call changes, in the layers of the rules that asked."""

    id: str
    changes: tuple[LayerChange, ...]
    version: int
    """The version of the published set that is in force now."""


class RememberingCalls:
    """Proposals of one gateway; it publishes with the rights of `operator`."""

    def __init__(self, connections: Connections, keys: Keys, watcher: Watcher, operator: Operator) -> None:
        self._connections, self._keys, self._watcher, self._operator = connections, keys, watcher, operator

    async def propose(self, request: Request) -> Response:
        """Show what remembering a call would change. Nothing is changed."""
        read_query(request, NoQuery)
        plan, version, published = await self._plan(request)
        return _said(plan, version, _changes(plan, version, published, written=False))

    async def publish(self, request: Request) -> Response:
        """Remember an approved call in the published set. Files are changed by `fleethook approvals remember` on their host."""
        plan, version, published = await self._plan(request)
        changes = _changes(plan, version, published, written=True)
        if not plan.published:
            files = ", ".join(change.where for change in changes)
            raise _refused(f"the rule is in {files}: say `fleethook approvals remember` there")
        try:
            check_approved(plan.remembered.question)
            if changes[-1].diff:
                version = await self._put(plan, version, published, request.scope[CALLER])
        except (Problem, Unreachable):
            raise
        except FleethookError as error:
            raise _refused(str(error)) from error
        return _said(plan, version, changes)

    async def _put(self, plan: Plan, version: int, before: HookFile, caller: str) -> int:
        after, by = plan.change_set(before), f"token {caller}"
        message = f"{plan.message}; by {by}"
        change = GuardChange(
            how="approvals remember",
            where="",
            losses=weakened(_guards(before), _guards(after)),
            by=by,
            host=self._watcher.host,
            ms=time.time_ns() // 10**6,
        )
        connections = self._operator.connections()
        try:
            return await apply(connections, self._keys, after, message=message, expected=version, change=change)
        except Unreachable as error:
            raise self._operator.refused(error) from error

    async def _plan(self, request: Request) -> tuple[Plan, int, HookFile]:
        name = await whole_question_id(self._connections, self._keys, request.path_params["id"])
        question = await read_question(self._connections, self._keys, name)
        version = await current_version(self._connections, self._keys)
        published = await load_version(self._connections, self._keys, version)
        user = self._watcher.user_file or Path(CONFIG_NAMES[0])
        try:
            found = await read_remembered(self._connections, self._keys, question)
            plan = await asyncio.to_thread(planned, found, published, user, self._watcher.host)
        except (NotFound, Unreachable):
            raise
        except FleethookError as error:
            raise _refused(str(error)) from error
        return plan, version, published


def remember_paths(connections: Connections, keys: Keys, watcher: Watcher, operator: Operator) -> tuple[ApiPath, ...]:
    """The paths of proposals."""
    here = RememberingCalls(connections, keys, watcher, operator)
    path, answer = "/v1/approvals/{id}/remember", Content(Remembering)
    return (
        ApiPath("GET", path, "operate", here.propose, (answer,), query=NoQuery, refusals=(409,)),
        ApiPath("POST", path, "admin", here.publish, (answer,), refusals=(409,)),
    )


def _changes(plan: Plan, version: int, published: HookFile, *, written: bool) -> tuple[LayerChange, ...]:
    files = [LayerChange(layer=layer, where=str(one.file), diff=_diff(one), written=False) for layer, one in plan.files]
    if not plan.published:
        return tuple(files)
    text = redact_text(diff(published, plan.change_set(published), (f"version {version}", "new")))
    return (*files, LayerChange(layer="fleet", where=f"version {version}", diff=text, written=written and bool(text)))


def _diff(edited: Edited) -> str:
    before, after, name = edited.before.splitlines(), edited.after.splitlines(), str(edited.file)
    return redact_text("\n".join(difflib.unified_diff(before, after, name, name, lineterm="")))


def _guards(file: HookFile) -> dict[str, Hook]:
    return HookSet([Layered("fleet", "1", file)]).hooks


def _refused(text: str) -> Problem:
    return Problem(409, "not-remembered", text)


def _said(plan: Plan, version: int, changes: tuple[LayerChange, ...]) -> Response:
    value = Remembering(id=plan.remembered.question.id, changes=changes, version=version)
    return json_response(msgspec.to_builtins(value))
