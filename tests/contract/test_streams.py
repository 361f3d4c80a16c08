"""The verbs of the request side, each a hand-over in Redis that happens once: on fakeredis and on a real server."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from redis.exceptions import OutOfMemoryError, ReadOnlyError, ResponseError

from bus.errors import FleethookError, Unreachable
from bus.events import Event
from bus.requests import Request, call_key, defer_call, read_request
from bus.wire.codec import decode_verdict, encode_event
from bus.wire.keys import HEARTBEAT_MS, KEPT_MS, Keys
from bus.wire.streams import StreamEntry, call, checked
from tests.support.places import GROUP, Place
from tests.support.running import bash, do, put, stream
from workers.delivery.dead_letters import poison_call
from workers.runtime.hook_loops import MOST_STEPS, Chain, read_lineage

# --- answer


@pytest.mark.req("B-02")
async def test_an_answer_is_given_once_and_leaves_nothing_behind(place: Place) -> None:
    request = await place.one(parent="e0")
    verdict: dict[str, Any] = {"decision": "deny", "reason": "no"}
    assert await place.run(place.answer(request, **verdict), place.answer(request, b"late")) == [1, 0]
    assert await place.replies(request) == [b"said"]
    assert 0 < int(await do(place.connections, "PTTL", request.reply)) <= KEPT_MS
    assert await place.lengths() == [0, 0, 1, 0, 0]
    (event,) = await stream(place.connections, place.keys)
    assert {name: event.fields[name] for name in (b"id", b"source", b"event", b"host", b"parent", b"body")} == {
        b"id": request.id.encode(),
        b"source": b"generic",
        b"event": b"tool:pre_execute",
        b"host": b"test-host",
        b"parent": b"e0",
        b"body": encode_event(bash()),
    }
    assert decode_verdict(event.fields[b"verdict"]).reason == "no"


@pytest.mark.req("B-02")
@pytest.mark.parametrize(
    "bad",
    [
        "",
        "requests",
        "fh:other:{0}:reply:" + "a" * 32,
        "§reply:short",
        "§hookset:" + "a" * 32,
        "§reply:" + "A" * 32,
        "§reply:" + "a" * 32 + "\n",
        "§reply:" + "a" * 33,
    ],
)
async def test_a_reply_name_outside_the_prefix_is_never_written(place: Place, bad: str) -> None:
    name = bad.replace("§", place.keys.prefix)
    request = await place.one(reply=name or " ")
    assert request.reply == ""
    assert await place.run(place.answer(request)) == [1]
    for written in (name or " ", place.keys("reply", "nobody")):
        assert written == "requests" or int(await do(place.connections, "EXISTS", written)) == 0
    assert (await place.lengths())[2] == 1, "it stands in the record all the same"


@pytest.mark.req("B-02")
async def test_a_repeated_id_gets_the_kept_answer_and_stands_once(place: Place) -> None:
    first = await place.one()
    await place.run(place.answer(first, b"first"))
    again = await place.one(id=first.id)
    same_key = await place.one(id=first.id, reply=first.reply)
    assert await place.run(place.answer(again, b"second"), place.answer(same_key, b"third")) == [1, 1]
    assert await place.replies(again) == [b"first"]
    assert await place.replies(first) == [b"first"], "the same reply key is not given the same answer twice"
    assert await place.lengths() == [0, 0, 1, 0, 0]


async def test_a_fallback_that_was_spooled_is_news_where_the_event_stands_already(place: Place) -> None:
    first = await place.one()
    spooled = await place.one(id=first.id, reply=" ", fallback="redis away")
    await place.run(place.answer(first), place.answer(spooled))
    event, report = await stream(place.connections, place.keys)
    assert b"verdict" in event.fields
    assert (report.fields[b"of"], report.fields[b"fallback"]) == (first.id.encode(), b"redis away")
    assert report.fields[b"id"] != first.id.encode()
    assert b"body" not in report.fields
    alone = await place.one(reply=" ", fallback="redis away")
    await place.run(place.answer(alone))
    (_, _, event) = await stream(place.connections, place.keys)
    assert (event.fields[b"id"], event.fields[b"fallback"]) == (alone.id.encode(), b"redis away")
    assert b"body" in event.fields


async def test_the_same_hook_call_is_marked_and_its_verdict_kept(place: Place) -> None:
    event = bash(source="cursor", session="s", call="c1")
    name = call_key(event, place.keys)
    first, second = await place.one(), await place.one()
    assert await place.claim(first, name=name) == ["run"]
    await place.run(place.answer(first, name=name, decision="deny", reason="no"))
    word, kept = await place.claim(second, name=name)
    assert (word, decode_verdict(kept).reason) == ("same", "no")
    await place.run(place.answer(second, b"rendered anew", name=name))
    assert await place.replies(second) == [b"rendered anew"]
    assert [b"same" in entry.fields for entry in await stream(place.connections, place.keys)] == [False, True]
    assert int(await do(place.connections, "EXISTS", place.keys("call", "none"))) == 0
    assert 0 < int(await do(place.connections, "PTTL", name)) <= 60_000


# --- claim, defer, claim from the dead


@pytest.mark.req("B-02", "B-05")
async def test_a_repeated_id_joins_the_running_evaluation(place: Place) -> None:
    first = await place.one("one")
    assert await place.claim(first, "one") == ["run"]
    second = await place.one("two", id=first.id)
    assert await place.claim(second, "two") == ["joined"]
    assert await place.replies(second) == []
    await place.run(place.answer(first))
    assert await place.replies(first) == await place.replies(second) == [b"said"]
    third = await place.one("two", id=first.id)
    assert await place.claim(third, "two") == ["done"]
    assert await place.replies(third) == [b"said"]
    assert await place.lengths() == [0, 0, 1, 0, 0]
    assert int(await do(place.connections, "EXISTS", place.keys("join", first.id))) == 0


async def test_who_repeats_a_request_that_nobody_waited_for_is_answered(place: Place) -> None:
    """No answer was kept, and no evaluation runs that could be joined."""
    nobody = await place.one(reply=" ")
    assert await place.claim(nobody) == ["run"]
    await place.run(place.answer(nobody))
    again = await place.one(id=nobody.id)
    assert await place.claim(again) == ["run"]
    await place.run(place.answer(again, b"anew"))
    assert await place.replies(again) == [b"anew"]
    assert await place.lengths() == [0, 0, 1, 0, 0]


@pytest.mark.req("B-05")
async def test_only_the_entries_of_the_dead_are_taken_over(place: Place) -> None:
    request = await place.one("one")
    assert await place.claim(request, "one") == ["run"]
    assert await place.claim(request, "one") == ["run"], "who asks twice since our word was lost has begun nothing"
    assert await place.claim(request, "two") == ["lost"], "not his entry"
    await place.read("two")
    assert await place.member("two").claim_from_dead() == [], "one that lives may be slow"
    await place.die("one")
    place.member("two")._claimed_at = 0.0
    (taken,) = await place.member("two").claim_from_dead()
    assert (taken.id, taken.delivered, taken.fields[b"id"]) == (request.entry.id, 2, request.id.encode())
    adopted = read_request(taken, place.keys)
    assert await place.claim(adopted, "two") == ["again"], "a dead evaluator had begun"
    assert await place.claim(request, "one") == ["lost"], "it wakes up and may not begin"
    assert await place.run(place.answer(adopted), place.answer(request)) == [1, 0]
    assert await place.replies(request) == [b"said"]


@pytest.mark.req("B-05")
async def test_after_an_outage_that_ended_all_heartbeats_the_others_get_time_to_write_theirs(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.one("one")
    await place.read("two")
    await place.die("one")  # or it has not been back yet
    two = place.member("two")
    two._beat_at -= HEARTBEAT_MS / 1000
    assert await two.pending_to_resume() == []
    await two.beat()
    two._claimed_at = 0.0
    assert await two.pending_to_resume() == []
    two._beat_at -= HEARTBEAT_MS / 1000
    monkeypatch.setattr("bus.wire.consumer.OUTAGE_SECONDS", 0.0)
    assert len(await two.pending_to_resume()) == 1, "a machine on which it lapses all the time claims too"


async def test_the_dead_are_forgotten_when_nothing_of_theirs_is_left(place: Place) -> None:
    for _ in range(3):
        await put(place.connections, place.keys, bash())
    entries = await place.read("one")
    await do(place.connections, "XDEL", place.keys("requests"), entries[0].entry.id)  # trimmed away under it
    await place.die("one")
    taken: list[StreamEntry] = []
    for left in (2, 1, 0):
        place.member("two")._claimed_at = 0.0
        taken += await place.member("two").claim_from_dead(most=1)
        pending = await do(place.connections, "XPENDING", place.keys("requests"), GROUP, "-", "+", 9, "one")
        assert len(pending) == left
    assert [entry.id for entry in taken] == [one.entry.id for one in entries[1:]]
    place.member("two")._claimed_at = 0.0
    await place.member("two").claim_from_dead(most=1)
    rows = await do(place.connections, "XINFO", "CONSUMERS", place.keys("requests"), GROUP)
    assert [row[1] for row in rows] == [b"two"]


@pytest.mark.req("B-05")
async def test_what_is_put_aside_keeps_its_deadline_its_count_and_its_claim(place: Place) -> None:
    request = await place.one("one", parent="e7")
    await place.claim(request, "one")
    await place.die("one")
    (taken,) = await place.member("two").claim_from_dead()
    adopted = read_request(taken, place.keys)
    assert await place.run(*[defer_call(adopted, place.keys, GROUP)] * 2) == [1, 0]
    assert await place.lengths() == [0, 1, 0, 0, 0]
    (aside,) = await place.read("three")
    assert aside.entry.stream == place.keys("waiting")
    kept = msgspec.structs.replace(request, entry=aside.entry, added=aside.added, handed=aside.handed)
    assert aside == kept, "every field, the deadline included"
    assert (request.handed, adopted.handed, aside.handed) == (1, 2, 2), "who puts it aside has not died of it"
    again = await place.one("four", id=request.id)
    assert await place.claim(again, "four") == ["joined"], "the claim went along"
    assert await place.claim(aside, "three") == ["again"], "and with it that it may have begun"
    await place.run(place.answer(aside))
    assert await place.replies(request) == await place.replies(again) == [b"said"]


async def test_an_agents_own_deadline_is_not_believed(place: Place) -> None:
    request = await place.one(deadline="999999999999999", handed="9", budget=50)
    assert (request.deadline, request.handed) == (request.entry.ms + 50, 1)
    assert (await place.one(budget=10**12)).deadline < request.deadline + 700_000


async def test_an_id_that_cannot_be_used_is_replaced_by_one_that_stays(place: Place) -> None:
    request = await place.one(id="a:b/../c")
    assert request.id.startswith("e")
    assert read_request(request.entry, place.keys).id == request.id
    assert (await place.one(id="a:b/../c")).id != request.id


# --- lineage


async def test_a_lineage_is_followed_upward_and_ends(place: Place) -> None:
    """The chain of events by FLEETHOOK_PARENT; what is not known ends it, and so does a circle."""
    parent = ""
    requests: list[Request] = []
    for n in range(3):
        requests.append(await place.one(parent=parent) if parent else await place.one())
        await place.claim(requests[n], hooks=(f"a{n}", f"b{n}"))
        parent = requests[n].id

    async def chain(name: str, ms: int) -> Chain:
        args = (place.keys("lineage", ""), MOST_STEPS, ms)
        return read_lineage(await call(place.connections, "lineage", (place.keys("lineage", name),), args))

    running = [(requests[n].id, frozenset({f"a{n}", f"b{n}"})) for n in (2, 1, 0)]
    assert await chain(parent, requests[2].entry.ms) == running
    assert await chain("unknown", 1) == []
    await place.run(place.answer(requests[2]))
    assert await chain(parent, requests[2].entry.ms) == running, "what was added while they ran is below them"
    assert await chain(parent, requests[2].entry.ms + 60_000) == [(parent, frozenset()), *running[1:]], "later is not"
    for one, other in (("x", "y"), ("y", "x")):
        await do(place.connections, "HSET", place.keys("lineage", one), "parent", other, "hook:h", "1")
        await do(place.connections, "PEXPIRE", place.keys("lineage", one), 60_000)
    assert len(await chain("x", 1)) == MOST_STEPS


# --- bury


async def test_a_poison_entry_is_kept_and_let_go_of_once(place: Place) -> None:
    request = await place.one(body=b"\xc1")
    keep = poison_call(place.keys, request.entry, "unreadable", acknowledge="")
    assert await place.run(keep, keep) == [1, 1]
    assert (await place.lengths())[3] == 1, "without a group's name it stays pending: its answer acknowledges it"
    let_go = poison_call(place.keys, request.entry, "unreadable", acknowledge=GROUP)
    assert await place.run(let_go, let_go) == [1, 0]
    assert await place.lengths() == [0, 0, 0, 0, 0]
    name = f"requests-{request.entry.id}"
    assert await do(place.connections, "ZRANGE", place.keys("dead"), 0, -1) == [name.encode()]
    assert await do(place.connections, "HGET", place.keys("deadletter", name), "reason") == b"unreadable"
    assert int(await do(place.connections, "PTTL", place.keys("deadletter", name))) > 0


# --- reading

only_real = pytest.mark.parametrize("place", ["real"], indirect=True)
"""fakeredis says NOGROUP in words of its own, and drops the connection where a script fails."""


@only_real
async def test_a_group_that_is_gone_is_made_anew(place: Place) -> None:
    await do(place.connections, "DEL", place.keys("requests"), place.keys("waiting"))
    assert await place.read() == []
    name, _ = await put(place.connections, place.keys, bash())
    assert [one.id for one in await place.read()] == [name]


@only_real
async def test_answers_go_out_with_the_next_read_even_where_the_server_forgot_the_scripts(place: Place) -> None:
    first = await place.one()
    await put(place.connections, place.keys, bash())
    await do(place.connections, "SCRIPT", "FLUSH")
    (second,) = await place.read("one", 10, place.answer(first), place.answer(first))
    assert await place.replies(first) == [b"said"]
    assert second.id != first.id
    why = "one of them counted for nothing: its entry may have another id since a repair"
    assert place.member().must_recheck_pending, why
    assert (await place.lengths())[2] == 1


async def test_what_was_handed_out_unseen_is_found_again(place: Place) -> None:
    """A reply that was lost on the wire: Redis holds the entries for us, and nobody adopts them while we live."""
    for _ in range(4):
        await put(place.connections, place.keys, bash())
    requests = await place.read()
    member = place.member()
    assert await member.own_pending() == [], "without doubt nobody looks"
    member.must_recheck_pending = True
    held = {(place.keys("requests"), requests[1].entry.id)}
    await do(place.connections, "XDEL", place.keys("requests"), requests[2].entry.id)
    found = await member.own_pending(held)
    assert [entry.id for entry in found] == [requests[0].entry.id, requests[3].entry.id]
    assert found[0].fields == requests[0].entry.fields
    assert found[0].delivered == 1, "looking is not handing out"
    assert not member.must_recheck_pending
    pending = await do(place.connections, "XPENDING", place.keys("requests"), GROUP)
    assert int(pending[0]) == 3, "what is gone from the stream is let go of"


@only_real
async def test_a_refused_answer_is_doubted(place: Place) -> None:
    request = await place.one()
    await do(place.connections, "SET", request.reply, "no list")
    await place.read("one", 10, place.answer(request))
    assert place.member().must_recheck_pending
    await do(place.connections, "DEL", request.reply)


async def test_the_last_one_takes_the_roles_heartbeat_along(place: Place) -> None:
    alive, beat = place.keys("alive", "evaluator"), place.keys("beat", "one")
    await place.read("one")
    await place.read("two")
    await place.member("two").leave()
    assert int(await do(place.connections, "EXISTS", alive)) == 1, "another one lives"
    await place.one("one")
    await place.member("one").leave()
    assert int(await do(place.connections, "EXISTS", alive, beat)) == 0
    rows = await do(place.connections, "XINFO", "CONSUMERS", place.keys("requests"), GROUP)
    assert [row[1] for row in rows] == [b"one"], "it has an entry, which somebody must claim"


async def test_a_script_fails_as_an_error_of_ours(place: Place) -> None:
    with pytest.raises(FleethookError, match="script lease"):
        await call(place.connections, "lease", (place.keys("requests"),), ("me", "not a number"))


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), Unreachable),
        (ReadOnlyError("You can't write against a read only replica."), Unreachable),
        (ResponseError("MISCONF Redis is configured to save RDB snapshots"), Unreachable),
        (ResponseError("WRONGTYPE Operation against a key"), FleethookError),
    ],
)
def test_a_full_server_is_as_good_as_away(reply: Exception, error: type[FleethookError]) -> None:
    with pytest.raises(FleethookError) as caught:
        checked(reply, "adding")
    assert type(caught.value) is error


# --- names of calls


def test_a_call_is_the_same_only_with_the_same_input() -> None:
    """Some agents number their calls anew in each turn: `call_0` with another command is another call."""
    keys = Keys("t")
    one = Event(
        type="tool:pre_execute", source="gemini", session="s", call="call_0", tool="bash", input={"command": "ls"}
    )
    assert call_key(one, keys) == call_key(one, keys)

    for change in (
        {"input": {"command": "rm -rf /"}},
        {"session": "t"},
        {"type": "tool:post_execute"},
        {"call": "call_1"},
        {"tool": "write"},
        {"source": "codex"},
    ):
        assert call_key(msgspec.structs.replace(one, **change), keys) != call_key(one, keys)
    assert call_key(msgspec.structs.replace(one, call=""), keys) == ""
    assert call_key(None, keys) == ""
