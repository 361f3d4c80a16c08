"""With the credentials of an agent's hook command: what crafted entries can do to the whole bus, and what they cannot.

What the server itself refuses is tests/live/bus/wire/test_acl.py; here everything is let through that the role may send,
and the workers have to see what it is worth. An event's and a reply's name are the secrets (80 and 128 random bits):
who knows one may read what was answered, which is what a client does whose reply was lost on the wire.
"""

from __future__ import annotations

import json
import subprocess
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from redis.exceptions import ResponseError

from bus.events import Event
from bus.ids import event_id, reply_token
from bus.shim.spool import append, drain
from bus.verdicts import Part, Verdict
from bus.wire.codec import encode_event, encode_payload, encode_verdict
from bus.wire.connections import sync_client
from bus.wire.keys import declared
from tests.support.fleet import Agent, Fleet, fleet
from tests.support.waiting import PATIENCE, wait_until
from workers.jobs import ALLOWED

pytestmark = [pytest.mark.flow, pytest.mark.req("B-01", "B-02", "F-17")]

HOOKS = """
hooks:
  - id: guard
    on: tool:pre_execute:bash
    command: |
      cat > "$LAB/asked-$FLEETHOOK_EVENT_ID"
      if [ "$FLEETHOOK_SESSION" = slow ]; then until [ -e "$LAB/go" ]; do sleep 0.02; done; fi
      ! grep -q 'rm -rf' "$LAB/asked-$FLEETHOOK_EVENT_ID" || { echo "never that" >&2; exit 2; }
    env: {LAB: LABORATORY}
  - id: frozen
    on: tool:pre_execute:write
    rule: {decision: deny, reason: The tree is frozen}
  - id: audit
    on: tool:post_execute
    blocking: false
    command: echo "$FLEETHOOK_EVENT_ID" >> "$LAB/audit"
    env: {LAB: LABORATORY}
  - id: alarm
    on: tool:pre_execute:read
    when: verdict.decision == "deny"
    blocking: false
    command: echo "$FLEETHOOK_EVENT_ID" >> "$LAB/alarm"
    env: {LAB: LABORATORY}
"""

Fields = Mapping[str, str | bytes]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("rights")
    (folder / "lab").mkdir()
    hooks = HOOKS.replace("LABORATORY", json.dumps(str(folder / "lab")))
    with fleet(folder, "evaluator", "dispatcher", "carrier", "chores", hooks=hooks) as one:
        yield one


@pytest.fixture(scope="module")
def agent(world: Fleet) -> Agent:
    return world.agent()


@pytest.fixture(scope="module")
def admin(world: Fleet) -> Iterator[Any]:
    with sync_client(world.url("admin")) as client:
        yield client


@pytest.fixture
def thief(world: Fleet) -> Iterator[Any]:
    """A bare connection with the credentials that stand in the agent's answer file."""
    with sync_client(world.url("shim"), seconds=40) as client:
        yield client


@pytest.fixture(autouse=True)
def unharmed(world: Fleet, agent: Agent, admin: Any) -> Iterator[None]:
    """After every attack: the hooks stand, no foreign job waits, every key is one of ours, and agents are served."""
    before = {name: admin.dump(name) for name in admin.scan_iter(world.keys("hookset", "*"))}
    yield
    assert {name: admin.dump(name) for name in admin.scan_iter(world.keys("hookset", "*"))} == before
    names = [name.decode() for name in admin.scan_iter("*", count=1000)]
    assert [name for name in names if not name.startswith("rq:") and not ours(world, name)] == []
    jobs = [admin.hget(name, "data") for name in names if name.startswith("rq:job:")]
    assert {json.loads(zlib.decompress(job))[0] for job in jobs if job} <= set(ALLOWED)
    assert all(worker.runs() for worker in world.workers)
    assert denied(agent.hook("PreToolUse", bash("rm -rf /")).stdout)


def ours(world: Fleet, name: str) -> bool:
    return name.startswith(world.keys.prefix) and declared(name.removeprefix(world.keys.prefix)) is not None


def bash(command: str, **more: object) -> dict[str, Any]:
    """Claude Code's payload for a command."""
    return {"session_id": "s", "cwd": "/", "tool_name": "Bash", "tool_input": {"command": command}, **more}


def denied(stdout: bytes) -> bool:
    return bool(json.loads(stdout or b"{}").get("hookSpecificOutput", {}).get("permissionDecision") == "deny")


def ask(world: Fleet, thief: Any, **fields: str | bytes) -> bytes:
    """A crafted request with a reply key of one's own, and its answer."""
    reply = world.keys("reply", reply_token())
    whole: dict[Any, Any] = {
        "id": event_id(),
        "reply": reply,
        "budget": "30000",
        "source": "claude",
        "event": "PreToolUse",
        "host": "h",
        **fields,
    }
    thief.xadd(world.keys("requests"), whole)
    raw: bytes = thief.execute_command("BLMOVE", reply, reply, "LEFT", "LEFT", "30")
    return raw


def announce(world: Fleet, thief: Any, **fields: str | bytes) -> str:
    """A crafted event; returns its id."""
    body = encode_payload(json.dumps(bash("ls")).encode())
    whole: dict[Any, Any] = {
        "id": event_id(),
        "source": "claude",
        "event": "PostToolUse",
        "host": "h",
        "body": body,
        **fields,
    }
    thief.xadd(world.keys("events"), whole)
    return str(whole["id"])


def lines(world: Fleet, name: str) -> list[str]:
    path = world.folder / "lab" / name
    return path.read_text().split() if path.exists() else []


def settled(world: Fleet, thief: Any) -> None:
    """Returns when everything announced so far has been dispatched (which is done in order) and carried."""
    last = announce(world, thief)
    wait_until(lambda: last in lines(world, "audit"), "the last event is carried")
    done = {"delivered", "dead"}
    wait_until(lambda: {one.state for one in world.deliveries()} <= done, "all of them are carried")


@pytest.mark.req("B-03", "B-05")
def test_the_whole_path_works_with_the_roles(world: Fleet, agent: Agent) -> None:
    assert denied(agent.hook("PreToolUse", bash("rm -rf x")).stdout)
    assert agent.hook("PreToolUse", bash("ls")).stdout == b""
    assert agent.hook("PostToolUse", bash("ls")).stdout == b"", "a request without blocking hooks"
    with world.bus().sync() as bus:  # a program with the role `agent`
        assert bus.request(Event(type="tool:pre_execute", tool="write")).reason == "The tree is frozen"
        published = bus.publish(Event(type="tool:post_execute", tool="bash"))
    wait_until(lambda: published in lines(world, "audit"), "the background hook has run")
    assert [one.state for one in world.delivered(published)] == ["delivered"]


def test_nobody_answers_for_the_workers_or_listens_in(world: Fleet, agent: Agent, thief: Any, admin: Any) -> None:
    with agent.start("PreToolUse") as victim:
        assert victim.stdin is not None
        assert victim.stdout is not None
        victim.stdin.write(json.dumps(bash("rm -rf /home", session_id="slow")).encode())
        victim.stdin.close()
        wait_until(lambda: any((world.folder / "lab").glob("asked-*")) and _waiting(world, admin)[0], "its hook runs")
        name, reply = _waiting(world, admin)

        for command in ("LPUSH", "RPUSH"):
            with pytest.raises(ResponseError):
                thief.execute_command(command, reply, b"FH1 0 0 0\n")
        for key in ("requests", "events"):
            with pytest.raises(ResponseError):
                thief.xrange(world.keys(key))
            with pytest.raises(ResponseError):
                thief.xreadgroup("evaluators", "me", {world.keys(key): ">"})
        # Names that only look like the request: each is a request of its own, and is answered on its own.
        harmless = encode_payload(json.dumps(bash("ls")).encode())
        for odd in (name[:-1], f"{name}\n", f"{name} ", name.upper(), f"{name}:", f"*{name[1:]}", "*", ""):
            assert ask(world, thief, id=odd, body=harmless) == b"FH1 0 0 0\n"
        assert victim.poll() is None, "nothing of it answered the victim"

        (world.folder / "lab" / "go").touch()
        told = victim.stdout.read()
        assert victim.wait(PATIENCE) == 0
    assert denied(told)
    assert b"never that" in told
    (verdict,) = [seen.verdict for seen in world.events() if seen.id == name]
    assert verdict is not None
    assert (verdict.decision, [part.hook for part in verdict.parts]) == ("deny", ["guard"])


def _waiting(world: Fleet, admin: Any) -> tuple[str, str]:
    """Id and reply key of the slow request, as only an administrator sees them."""
    for _, fields in admin.xrange(world.keys("requests")):
        if b'"slow"' in fields[b"body"]:
            return fields[b"id"].decode(), fields[b"reply"].decode()
    return "", ""


def test_a_reply_goes_to_reply_keys_only(world: Fleet, thief: Any, admin: Any) -> None:
    keys = world.keys
    queue = "rq:queue:fleethook-fleet-carrier"
    token = reply_token()
    wrong = [
        keys("hookset", "current"),
        keys("hookset", "2"),
        keys("events"),
        keys("requests"),
        keys("deliveries"),
        keys("due"),
        keys("alive", "evaluator"),
        keys("verdict", "e1"),
        queue,
        "rq:queues",
        "",
        "x",
        "*",
        keys("reply", ""),
        keys("reply", "x"),
        keys("reply", token.upper()),
        keys("reply", token + "0"),
        keys("reply", token[:-1]),
        keys("reply", f"{token}\n"),
        f"{keys('reply', token)}:x",
        token,
        f"fh:other:{{0}}:reply:{token}",
        keys("reply", token).replace("{0}", "{1}"),
        keys("reply", "../" + token[3:]),
        keys("reply", f"{token[:-1]}\u0661"),
    ]
    there = {name.decode(): admin.type(name) for name in admin.scan_iter("*")}
    body = encode_payload(json.dumps(bash("rm -rf /")).encode())
    ids = [event_id() for _ in wrong]
    for name, reply in zip(ids, wrong, strict=True):
        thief.xadd(
            keys("requests"),
            {"id": name, "reply": reply, "budget": "9000", "source": "claude", "event": "PreToolUse", "body": body},
        )
    wait_until(lambda: set(ids) <= {seen.id for seen in world.events()}, "all of them are judged")
    now = {name.decode(): admin.type(name) for name in admin.scan_iter("*")}
    assert {name: now.get(name) for name in there if name in wrong} == {
        name: there[name] for name in there if name in wrong
    }
    assert [name for name in now if token in name.lower()] == [], "no reply key was made, in whatever spelling"
    assert set(wrong) & (set(now) - set(there)) == set()


ODD = [
    "../../etc/passwd",
    "a.b",
    "*",
    "{0}",
    "x:y",
    "\r\nFLUSHALL\r\n",
    "e" * 65,
    "\0",
    "$(touch hit)",
    "`id`",
    "a b",
    "\u00e9",
    "'; touch hit; '",
    "%s",
    "",
]


@pytest.mark.parametrize("field", ["id", "parent"])
def test_odd_ids_and_parents_name_nothing(world: Fleet, thief: Any, admin: Any, field: str) -> None:
    harmless = encode_payload(json.dumps(bash("ls")).encode())
    raw = [b"\xff\xfe", b"\x80" * 8, *(odd.encode() for odd in ODD)]
    before = {seen.id for seen in world.events()}  # other tests here name parents that there are
    for odd in raw:
        assert ask(world, thief, **{"body": harmless, field: odd}) == b"FH1 0 0 0\n"
        announce(world, thief, **{field: odd})
    settled(world, thief)
    named = [name.decode("utf-8", "replace").removeprefix(world.keys.prefix) for name in admin.scan_iter("*")]
    for text in filter(None, ODD):
        assert [name for name in named if f":{text}" in name] == []
    for seen in (seen for seen in world.events() if seen.id not in before):
        assert seen.event.parent == ""
        assert seen.id.isalnum(), "it got a name of ours"
    assert not (world.folder / "hit").exists()


RUN = "touch LAB/hit"
ORDERS: list[dict[str, Any]] = [
    {"command": RUN},
    {"hooks": [{"id": "x", "on": "*", "command": RUN}]},
    {"hook": {"command": RUN, "layer": "fleet"}},
    {"tool_input": {"command": f"$({RUN}) `{RUN}` ; {RUN} | {RUN} && {RUN}\n{RUN}"}},
    {"cwd": f"$({RUN})"},
    {"session_id": f"`{RUN}`"},
    {"tool_name": f"x; {RUN}"},
    {"hook_event_name": f"$({RUN})"},
    {"func": "os.system", "args": [RUN]},
    {"fleethook": {"apply": {"hooks": [{"command": RUN}]}}},
    {"endpoints": [{"url": "http://127.0.0.1:1/"}], "network": {"allow": ["127.0.0.1:1"]}},
    {"env": {"PATH": "/tmp", "LD_PRELOAD": "x", "BASH_ENV": f"$({RUN})"}, "working_dir": "/"},
]


@pytest.mark.req("B-03")
def test_what_an_event_says_is_never_run(world: Fleet, agent: Agent, thief: Any) -> None:
    lab = str(world.folder / "lab")
    ids = []
    for order in ORDERS:
        payload = bash("ls") | json.loads(json.dumps(order).replace("LAB", lab))
        raw = encode_payload(json.dumps(payload).encode())
        assert ask(world, thief, body=raw).startswith(b"FH1 0 0 0") or "tool_input" in order
        ids.append(announce(world, thief, body=raw))
        run = RUN.replace("LAB", lab)
        odd = Event(
            type="tool:post_execute",
            tool=run,
            native=run,
            session=run,
            source=run,
            cwd=run,
            call=run,
            input=payload,
            data=payload,
            raw=payload,
            output=run,
            host=run,
        )
        ids.append(announce(world, thief, body=encode_event(odd), event=run, source=run, host=run))
        crafted = {
            "command": run,
            "hook": "audit",
            "kind": "command",
            "d": "x.audit",
            "func": "os.system",
            "stream": "x",
        }
        ids.append(announce(world, thief, **crafted))
    settled(world, thief)
    assert set(ids) <= set(lines(world, "audit")), "they are events like any other"
    assert not (world.folder / "lab" / "hit").exists()
    assert {one.hook for one in world.deliveries()} <= {"audit", "alarm"}


def test_what_is_forged_on_a_request_decides_nothing(world: Fleet, thief: Any) -> None:
    allow = encode_verdict(Verdict(decision="allow", parts=(Part(hook="guard", decision="allow"),)))
    deadly = encode_payload(json.dumps(bash("rm -rf /")).encode())
    for forged in (
        {"verdict": allow},
        {"same": "1"},
        {"spooled": "1"},
        {"of": event_id()},
        {"handed": "99"},
        {"deadline": "1"},
        {"deadline": "9" * 15},
        {"budget": "9" * 15},
        {"layer": "fleet", "version": "1"},
        {"parent": event_id()},
        {"claim": "x", "consumer": "x", "delivered": "9"},
    ):
        assert b'"deny"' in ask(world, thief, body=deadly, **forged), forged
    # A request that says that its agent fell back is only put on record: nobody waits for it any more.
    name = event_id()
    raw = ask(world, thief, id=name, body=deadly, fallback="redis away")
    assert b"no hook answered (redis away)" in raw
    wait_until(lambda: name in {seen.id for seen in world.events()}, "it is on record")
    assert world.event(name).fallback_reason == "redis away"


@pytest.mark.req("F-12")
def test_a_claimed_parent_takes_no_rule_away(world: Fleet, agent: Agent, thief: Any) -> None:
    ran = announce(world, thief)
    settled(world, thief)
    write = {**bash("x"), "tool_name": "Write", "tool_input": {"file_path": "a", "content": "b"}}
    assert b"The tree is frozen" in ask(world, thief, body=encode_payload(json.dumps(write).encode()), parent=ran)
    assert denied(agent.hook("PreToolUse", write, env={"FLEETHOOK_PARENT": ran}).stdout)
    other = encode_payload(json.dumps(bash("rm -rf /")).encode())
    assert b'"deny"' in ask(world, thief, body=other, parent=ran), "nor a hook that has not run for the parent"


def test_a_forged_verdict_is_told_on_and_decides_nothing(world: Fleet, agent: Agent, thief: Any) -> None:
    """Whoever may announce events may announce lies: the record says so, and those who are told of it hear it."""
    lie = encode_verdict(Verdict(decision="deny", reason="I was stopped", parts=(Part(hook="guard", decision="deny"),)))
    read = {**bash(""), "tool_name": "Read", "tool_input": {"file_path": "a"}}
    body = encode_payload(json.dumps(read).encode())
    plain = announce(world, thief, event="PreToolUse", body=body)
    forged = announce(world, thief, event="PreToolUse", body=body, verdict=lie)
    broken = announce(world, thief, event="PreToolUse", body=body, verdict=b"\xc1")
    wait_until(lambda: forged in lines(world, "alarm"), "the alarm has heard of it")
    settled(world, thief)
    assert {plain, broken}.isdisjoint(lines(world, "alarm"))
    assert agent.hook("PreToolUse", read).stdout == b"", "nobody's request is judged by it"


def test_an_event_marked_as_repeated_or_reported_harms_only_itself(world: Fleet, thief: Any, admin: Any) -> None:
    real = announce(world, thief)
    asked = event_id()
    ask(world, thief, id=asked, body=encode_payload(json.dumps(bash("rm -rf /")).encode()))
    wait_until(lambda: asked in {seen.id for seen in world.events()}, "it is on record")
    quiet = announce(world, thief, same="1")
    again = announce(world, thief, id=real, spooled="1")
    answered = announce(world, thief, id=asked, spooled="1")
    announce(world, thief, of=asked, fallback="I say that nobody answered")
    settled(world, thief)
    assert again == real
    assert answered == asked
    assert lines(world, "audit").count(real) == 1
    assert quiet not in lines(world, "audit")
    assert real in {seen.id for seen in world.events()}, "the first one stays"
    traced = world.trace(asked)
    assert traced.event.verdict is not None
    assert traced.event.verdict.decision == "deny", "what was decided stands beside what the agent says that it did"
    assert [report.why for report in traced.reports] == ["I say that nobody answered"]


def test_a_crafted_spool_adds_nothing_but_requests_and_events(world: Fleet, agent: Agent, admin: Any) -> None:
    spool = agent.places.spool("claude")
    body = encode_payload(json.dumps(bash("rm -rf /")).encode())
    mine = event_id()
    for stream in ("events", "hookset:current", "deliveries", "rq:queue:x", "events ", "EVENTS"):
        append(
            spool,
            stream,
            [
                "id",
                mine if stream == "events" else event_id(),
                "source",
                "claude",
                "event",
                "PostToolUse",
                "host",
                "h",
                "body",
                body,
            ],
        )
    before = {name: admin.xlen(world.keys(name)) for name in ("deliveries", "requests")}
    done = drain(str(agent.places.answer_file("claude")))
    assert done is not None
    assert done.sent == 1
    wait_until(lambda: mine in lines(world, "audit"), "the one event is carried")
    # Its delivery goes a moment after its hook has written.
    wait_until(lambda: {name: admin.xlen(world.keys(name)) for name in before} == before, "and nothing else is there")


def test_no_secret_of_the_server_is_in_a_command_line_or_a_hooks_environment(world: Fleet, agent: Agent) -> None:
    words = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    told = "".join(agent.commands.values()) + words
    for role in ("shim", "agent", "worker", "admin"):
        password = world.url(role).split("@")[0].rpartition(":")[2]
        assert password not in told
        assert password not in "".join(worker.log.read_text() for worker in world.workers)
    assert agent.places.answer_file("claude").stat().st_mode & 0o777 == 0o600
