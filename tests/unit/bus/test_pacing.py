"""How an endpoint's rate, order and batches are written, and what is refused with its place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.errors import ConfigError
from bus.hooksets.hookfile import from_document, parse_hook_file, to_document
from bus.pacing import Batch, parse_rate
from tests.support.rows import rows
from workers.delivery.batch_bodies import batch_body, batch_id
from workers.delivery.formats import MOST_BODY

URL = "url: https://a.example"


@pytest.mark.req("B-06", "G-22")
@pytest.mark.parametrize(
    ("text", "speed", "most"),
    [
        ("10/s", 10, 10),
        ("600/min", 10, 10),
        ("1/min", 1 / 60, 1),
        ("0.5/s", 0.5, 1),
        ("20/h", 20 / 3600, 1),
        ("100000/s", 100_000, 100_000),
        ("86400/d", 1, 1),
    ],
)
def test_a_rate_is_a_bucket_of_a_seconds_worth(text: str, speed: float, most: float) -> None:
    assert parse_rate(text) == pytest.approx((speed, most))


@rows(
    "text",
    [
        "",
        "10",
        "10/",
        "/s",
        "0/s",
        "0.0/min",
        "10/w",
        "-1/s",
        "1e3/s",
        "10 /s",
        "10/s ",
        "100001/s",
        "\u0661/s",
        "10/S",
        "9" * 40 + "/s",
    ],
)
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_rate(text)


@given(st.text(max_size=30))
def test_any_text_is_a_rate_or_a_config_error(text: str) -> None:
    try:
        rate = parse_rate(text)
    except ConfigError:
        return
    assert rate.speed > 0
    assert rate.most >= 1


@pytest.mark.req("B-06", "G-22")
@pytest.mark.parametrize(
    ("more", "message", "place"),
    [
        ("rate: fast", "the rate 'fast' cannot be read", "rate"),
        ("rate: 10", "", "rate"),
        ("order: lifo", "", "order"),
        ("batch: {max_events: 1}", "", "max_events"),
        ("batch: {max_events: 5, max_wait: 0}", "", "max_wait"),
        ("batch: {size: 5}", "", "size"),
        ("order: fifo, batch: {max_events: 5}", "batch and order exclude each other", "batch"),
        ("format: slack, batch: {max_events: 5}", "format slack has no batches", "batch"),
        ("can_block: true, batch: {max_events: 5}", "an endpoint with can_block is asked about each event", "batch"),
    ],
)
def test_a_mistake_is_shown_where_it_stands(more: str, message: str, place: str) -> None:
    file = parse_hook_file(f"endpoints:\n  - {{id: a, {URL}, {more}}}\n", "fleet")
    assert file.endpoints == ()
    (problem,) = file.problems
    assert message in problem.message
    assert place in problem.path
    assert problem.line == 2


@pytest.mark.req("B-06", "G-22")
def test_the_fields_survive_publishing_and_a_published_mistake_is_refused() -> None:
    file = parse_hook_file(
        f"endpoints:\n  - {{id: a, {URL}, rate: 10/s, batch: {{max_events: 5}}}}\n  - {{id: b, {URL}, order: fifo}}\n",
        "fleet",
    )
    assert not file.problems
    plain = json.loads(json.dumps(to_document(file)))
    a, b = from_document(plain).endpoints
    assert (a.rate, a.order, a.batch) == ("10/s", "none", Batch(max_events=5, max_wait=1.0))
    assert (b.rate, b.order, b.batch) == ("", "fifo", None)
    for name, wrong in (("rate", "soon"), ("order", "sometimes"), ("batch", {"max_events": 0})):
        broken = json.loads(json.dumps(plain))
        broken["endpoints"][0][name] = wrong
        with pytest.raises(ConfigError):
            from_document(broken)


@pytest.mark.req("G-22")
def test_a_batch_is_a_list_of_bodies_and_goes_thin_where_it_is_too_large() -> None:
    def thin() -> list[bytes]:
        return [b'{"thin":1}', b'{"thin":2}']

    small = [b'{"a":1}', b'{"b":2}']
    assert json.loads(batch_body("fleethook", small, thin)) == {"type": "batch", "events": [{"a": 1}, {"b": 2}]}
    assert json.loads(batch_body("cloudevents", small, thin)) == [{"a": 1}, {"b": 2}]
    large = json.dumps({"a": "x" * (MOST_BODY // 2)}).encode()
    assert json.loads(batch_body("fleethook", [large, large], thin))["events"] == [{"thin": 1}, {"thin": 2}]


def test_a_batchs_id_is_that_of_its_deliveries_and_has_no_dot() -> None:
    name = batch_id(["e1.a", "e2.a"])
    assert name == batch_id(["e1.a", "e2.a"])
    assert name not in {batch_id(["e1.a"]), batch_id(["e2.a", "e1.a"])}
    assert "." not in name
