"""W3C trace context: what is valid, what is dropped, and what is passed on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.tracing.context import MOST_STATE, NO_CONTEXT, TraceContext, derived_trace_id, read_context
from tests.support.rows import rows

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.req("X-05")
@rows(
    "text",
    [
        "",
        "00",
        GOOD[:-1],
        f"{GOOD}-more",  # version 00 has four fields
        f"{GOOD} ",
        f" {GOOD}",
        GOOD.upper(),
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-0g",
        f"00_{TRACE}_{SPAN}_01",
        f"0x-{TRACE}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01.future",  # what follows the flags of a later version begins with a hyphen
        GOOD.replace("0", "\u0660", 1),
    ],
)
def test_a_bad_traceparent_is_dropped_with_its_state(text: str) -> None:
    """Nothing of it is passed on (W3C Trace Context, "A vendor receiving ...")."""
    assert read_context(text, "vendor=1") is NO_CONTEXT
    assert NO_CONTEXT.headers() == NO_CONTEXT.variables() == {}


@pytest.mark.req("X-05")
def test_a_good_traceparent_is_passed_on_unchanged() -> None:
    """Also with flags that version 00 does not define."""
    for flags in ("00", "01", "02", "03", "ff"):
        text = f"00-{TRACE}-{SPAN}-{flags}"
        assert read_context(text) == TraceContext(text)
    context = read_context(GOOD, "vendor=1")
    assert (context.trace_id, context.span_id, context.flags) == (TRACE, SPAN, 1)
    assert context.headers() == {"traceparent": GOOD, "tracestate": "vendor=1"}
    assert context.variables() == {"TRACEPARENT": GOOD, "TRACESTATE": "vendor=1"}
    assert context.pairs() == ("traceparent", GOOD, "tracestate", "vendor=1")


@pytest.mark.req("X-05")
def test_a_later_version_is_read_as_far_as_ours_goes() -> None:
    """It is written as version 00, with the flags that 00 has."""
    assert read_context(f"cc-{TRACE}-{SPAN}-01").traceparent == GOOD
    assert read_context(f"cc-{TRACE}-{SPAN}-09-what-the-future-brings").traceparent == GOOD


@pytest.mark.req("X-05")
@rows(
    ("text", "kept"),
    [
        ("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
        ("a=1 ,\t b=2,,", "a=1,b=2"),
        ("tenant@system=1", "tenant@system=1"),
        ("a=b=c", ""),
        ("a=1,a=2", ""),
        ("A=1", ""),
        ("a", ""),
        ("=1", ""),
        ("a=", ""),
        ("a=1\x002", ""),
        ("a=é", ""),
        (",".join(f"k{n}=1" for n in range(32)), ",".join(f"k{n}=1" for n in range(32))),
        (",".join(f"k{n}=1" for n in range(33)), ""),
        (f"big={'x' * 200},a=1,more={'x' * 256},b=2,c={'x' * 100}", f"a=1,b=2,c={'x' * 100}"),
    ],
)
def test_a_state_is_checked_and_cut(text: str, kept: str) -> None:
    """A bad one is dropped alone; of a long one whole members are left out, the longest first."""
    assert read_context(GOOD, text) == TraceContext(GOOD, kept)


@pytest.mark.req("X-05")
@given(st.text(max_size=80), st.text(max_size=700))
def test_no_text_breaks_the_reader(parent: str, state: str) -> None:
    """Whatever agents send."""
    assert read_context(parent, state) is NO_CONTEXT
    assert len(read_context(GOOD, state).tracestate) <= MOST_STATE


@pytest.mark.req("X-05")
def test_the_trace_id_of_an_event_is_the_same_everywhere() -> None:
    """Processes that never talk to each other find one trace for one event."""
    assert derived_trace_id("e1") == derived_trace_id("e1") != derived_trace_id("e2")
    assert read_context(f"00-{derived_trace_id('e1')}-{SPAN}-01") is not NO_CONTEXT
