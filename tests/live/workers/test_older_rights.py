"""Workers of this version with the server's users of an older one, as in the middle of an upgrade: docs/upgrade.md."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bus.events import Event
from bus.verdicts import Verdict
from bus.wire.acl import roles
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.running import bash, dispatching, do, evaluating, happened, publish_hooks, put, verdict
from tests.support.servers import Server
from tests.support.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.req("X-03", "X-13", "G-16")]

KEYS = Keys("fleet")
MEMORY = ("limit:*", "limits", "counted:*", "spent:*", "facts:*", "repeats:*", "family:*")
WORKFLOWS = ("flow:*", "flowed:*", "flowvars:*", "flowlog:*", "flows")
HOOKS = """
hooks:
  - {id: no-rm, on: tool:pre_execute, rule: {commands: [{program: [rm]}], reason: no rm}}
  - {id: once, on: tool:pre_execute:write, on_failure: deny, rule: {decision: deny, limit: 1 per hour, reason: once}}
  - id: tested
    on: agent:stop
    when: '!session.ran("pytest").ok'
    rule: {decision: deny, reason: no tests}
workflows:
  - name: plan
    on_failure: deny
    sources: [gemini]
    start: {on: user:prompt_submit}
    steps: [{name: think, allowed_tools: [read], on_enter: [{action: context, text: think}]}]
"""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server whose user `worker` has the rights of before limits, facts and workflows."""
    rules = f"{' '.join(roles('fleet')['worker'])} "
    for name in (*MEMORY, *WORKFLOWS):
        assert f" ~fh:fleet:{{*}}:{name} " in rules, f"`fleethook acl` names {name}"
        rules = rules.replace(f" ~fh:fleet:{{*}}:{name} ", " ")
    one = Server(acl=f"user default on nopass ~* &* +@all\nuser worker reset on nopass {rules}".rstrip() + "\n")
    one.start()
    yield one
    one.stop()


async def asked(connections: Connections, event: Event) -> Verdict:
    _, reply = await put(connections, KEYS, event, event=event.type, source=event.source)
    return await verdict(connections, reply)


async def test_everything_else_goes_on_without_the_new_rights_and_all_of_it_with_them(server: Server) -> None:
    admin, url = Connections(server.url), f"unix://worker:any@{server.socket}?db=0"
    ls, write = (
        bash("ls", session="s", source="claude"),
        Event(type="tool:pre_execute", tool="write", input={"path": "a"}),
    )
    stop = Event(type="agent:stop", source="claude", session="s")
    prompt = Event(type="user:prompt_submit", source="gemini", session="p", data={"prompt": "hi"})
    tests = Event(
        type="tool:post_execute",
        source="claude",
        session="s",
        tool="bash",
        input={"command": "pytest"},
        output={"stdout": "ok"},
    )
    try:
        await publish_hooks(admin, KEYS, HOOKS)
        async with evaluating(url, KEYS), dispatching(url, KEYS):
            await happened(admin, KEYS, tests)
            assert (await asked(admin, ls)).decision == "abstain"
            assert (await asked(admin, bash("rm x"))).reason.startswith("no rm"), "hooks that need none of it decide"
            limited = await asked(admin, write)
            assert limited.decision == "deny"
            assert "its failure policy is deny" in limited.reason
            assert "of an older version; `fleethook acl` prints the rights of this one" in limited.reason
            stopped = await asked(admin, stop)
            (note,) = stopped.notes
            assert note.startswith("facts of the session may be missing: the record of sessions cannot be read: ")
            assert "lacks access to ~fh:fleet:{*}:facts:*" in note, "the rule decides as for a session without a record"
            workflow = await asked(admin, prompt)
            assert workflow.decision == "deny"
            assert "~fh:fleet:{*}:flow" in workflow.reason

            await do(admin, "ACL", "SETUSER", "worker", *roles("fleet")["worker"])
            assert (await asked(admin, write)).decision == "abstain"
            assert (await asked(admin, write)).reason.startswith("once (1 of 1 call")
            assert (await asked(admin, prompt)).contexts == ("think",)
            await happened(admin, KEYS, tests)

            async def knows() -> bool:
                return (await asked(admin, stop)).decision == "abstain"

            await until(knows, "the record of sessions goes on")
    finally:
        await admin.close()
