"""Lists over HTTP: a long one is compressed for callers that take it, and all have pages."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from typing import Any

import pytest
from starlette.requests import Request

from workers.gateway.problems import Problem
from workers.gateway.records.list_responses import list_response
from workers.gateway.records.queries import ListQuery

pytestmark = pytest.mark.req("G-19")

MANY = [{"id": f"hook-{number}", "text": "x" * 40} for number in range(1000)]


def asked(**headers: str) -> Request:
    given = [(name.encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "GET", "path": "/v1/hooks", "headers": given})


def test_a_long_list_is_compressed_for_a_caller_that_takes_it() -> None:
    response = list_response(asked(**{"accept-encoding": "gzip, br"}), ListQuery(), MANY, ("id",))
    assert (response.headers["content-encoding"], response.headers["vary"]) == ("gzip", "Accept-Encoding")
    assert int(response.headers["content-length"]) == len(response.body) < 10_000
    assert json.loads(gzip.decompress(response.body)) == {"items": MANY, "next": None}


def test_another_caller_and_a_short_list_get_plain_json() -> None:
    for response, items in (
        (list_response(asked(), ListQuery(), MANY, ("id",)), MANY),
        (list_response(asked(**{"accept-encoding": "gzip"}), ListQuery(), MANY[:3], ("id",)), MANY[:3]),
    ):
        assert "content-encoding" not in response.headers
        assert json.loads(bytes(response.body))["items"] == items


def page(items: Sequence[dict[str, Any]], limit: int | None, cursor: str = "", *key: str, newest: bool = False) -> Any:
    query = ListQuery(limit=limit, cursor=cursor)
    return json.loads(bytes(list_response(asked(), query, items, key or ("id",), newest_first=newest).body))


def ids(*names: str) -> list[dict[str, Any]]:
    return [{"id": name} for name in names]


def test_pages_neither_repeat_nor_hide_what_stays_while_other_items_come_and_go() -> None:
    first = page(ids("d", "b", "f", "a"), 2)
    assert first["items"] == ids("a", "b")
    # The last item of the page is gone, one came before it and one after it, and the order is another.
    second = page(ids("f", "a", "0", "d", "e"), 2, first["next"])
    assert second["items"] == ids("d", "e")
    last = page(ids("f"), 2, second["next"])
    assert (last["items"], last["next"]) == (ids("f"), None)
    assert page([], 2, second["next"]) == {"items": [], "next": None}
    assert page(ids("f", "a", "c"), None, first["next"])["items"] == ids("c", "f")


def test_without_limit_and_cursor_a_list_is_whole_and_in_its_own_order() -> None:
    assert page(ids("b", "a"), None) == {"items": ids("b", "a"), "next": None}


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_items_with_equal_keys_are_all_on_some_page(limit: int) -> None:
    """Two sessions whose redacted ids are equal."""
    items: list[dict[str, Any]] = [{"id": "[redacted]", "n": n} for n in range(4)] + [{"id": "", "n": 4}]
    seen: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        got = page(items, limit, cursor)
        assert 0 < len(got["items"]) <= limit
        seen += [one["n"] for one in got["items"]]
        cursor = got["next"]
    assert seen == [4, 0, 1, 2, 3]


def test_newest_first_goes_on_after_what_came_in_between() -> None:
    items: list[dict[str, Any]] = [{"at": at, "id": "x"} for at in (1_000, 999, 20)]
    first = page(items, 2, "", "at", "id", newest=True)
    assert [one["at"] for one in first["items"]] == [1_000, 999]
    later = [{"at": 2_000, "id": "x"}, *items]
    second = page(later, 2, first["next"], "at", "id", newest=True)
    assert ([one["at"] for one in second["items"]], second["next"]) == ([20], None)


def test_lines_are_all_after_the_cursor() -> None:
    query = ListQuery(limit=1, cursor=page(ids("a", "b", "c"), 1)["next"])
    lines = list_response(asked(accept="application/x-ndjson"), query, ids("c", "b", "a"), ("id",))
    assert [json.loads(line) for line in bytes(lines.body).splitlines()] == ids("b", "c")


@pytest.mark.parametrize("cursor", ["abc", "!", "L3YxL2hvc3RzAGEAMDAwMDAw"])  # the last one is of /v1/hosts
def test_a_cursor_of_another_list_is_refused(cursor: str) -> None:
    with pytest.raises(Problem, match="no cursor of this list"):
        page(ids("a"), 1, cursor)
