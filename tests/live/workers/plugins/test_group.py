"""One process of plugins: what handlers answer, what breaks it, and how it comes back."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent, indent

import pytest

from bus.errors import FleethookError
from bus.hooks import Hook
from bus.hooksets.hookfile import HookFile
from bus.plugins.messages import VerdictSummary
from tests.support.plugins import DENIES, enabled, handler, plugin, read, running, tool_call
from tests.support.running import until_true
from tests.support.waiting import PATIENCE, until, wait_until
from workers.plugins.group import PluginGroup

ROOT = Path(__file__).parents[4]

ANSWERS = """
def on_load(self, config):
    self.seen = []
    self.log_file = config["log"]
    print("loaded, and printed")

def on_unload(self):
    with open(self.log_file, "a") as file:
        file.write("unloaded\\n")

@hook_handler(HookEventType.BEFORE_TOOL, priority=1)
def ask(self, event):
    return HookResponse(decision="ask", reason="really?", context="mind the gap", system_message="careful")

@hook_handler("before-tool", priority=2)
async def change(self, event):
    return HookResponse(decision="modify", modify_args={"command": "ls -la"})

@hook_handler(HookEventType.PRE_TOOL_CALL, 3)
def block(self, event: HookEvent):
    assert (event.event_type, event.source, event.session_id) == (HookEventType.BEFORE_TOOL, "claude", "s1")
    assert event.data["tool_name"] == "Bash" and event.data["tool_input"] == {"command": "ls"}
    return HookResponse("block", reason="no")

@hook_handler(HookEventType.AFTER_TOOL, priority=60)
def report(self, event, core_response):
    with open(self.log_file, "a") as file:
        file.write(f"{core_response.decision} {core_response.reason}\\n")

@hook_handler(HookEventType.AFTER_TOOL)
def with_one_argument(self, event):
    with open(self.log_file, "a") as file:
        file.write(f"failed: {event.metadata.get('is_failure')}\\n")

@hook_handler("tool:*:write", priority=4)
def garbage(self, event):
    return "deny"

@hook_handler("tool:*:write", priority=5)
def raises(self, event):
    raise KeyError("gone")

@hook_handler("tool:*:write", priority=6)
def exits(self, event):
    raise SystemExit(3)

@hook_handler("tool:*:write", priority=7)
async def raises_later(self, event):
    raise ValueError("later")

@hook_handler("tool:*:write", priority=8)
def nonsense(self, event):
    return HookResponse(decision="perhaps")

@hook_handler("tool:*:write", priority=9)
def unwritable(self, event):
    return HookResponse(modify_args={"x": object()})

@hook_handler("tool:*:write", priority=13)
def takes_nothing():
    return None

@hook_handler("tool:*:write", priority=14)
def without_self(event):
    return None

@hook_handler("tool:*:write", priority=10)
def huge(self, event):
    return HookResponse(decision="deny", reason="x" * (20 << 20))

@hook_handler("tool:*:write", priority=11)
def forks(self, event):
    import os
    child = os.fork()
    if child == 0:
        return HookResponse(decision="deny", reason="the copy answers")
    os.waitpid(child, 0)
    return HookResponse(decision="deny", reason="ended its copy")

@hook_handler("tool:*:write", priority=12)
async def waits(self, event):
    import asyncio
    await asyncio.sleep(3600)
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> HookFile:
    folder = tmp_path_factory.mktemp("answers")
    return read(enabled(folder, {"tested": plugin(ANSWERS)}, config={"log": str(folder / "log")}))


@pytest.mark.req("G-11", "G-12")
async def test_handlers_answer_observe_and_fail_alone(answers: HookFile, tmp_path: Path) -> None:
    """Every form of answer, sync and async; what is no answer is a failure of this call, and the process goes on."""
    log = Path(answers.plugins[0].config["log"])

    def hook(method: str) -> Hook:
        return handler(answers, method)

    async with running(answers) as group:
        asked = await group.run(hook("ask"), tool_call(), PATIENCE)
        assert (asked.decision, asked.reason, asked.contexts, asked.note) == (
            "ask",
            "really?",
            ("mind the gap",),
            "careful",
        )
        changed = await group.run(hook("change"), tool_call(), PATIENCE)
        assert (changed.decision, changed.updated_input) == ("abstain", {"command": "ls -la"})
        refused = await group.run(hook("block"), tool_call(), PATIENCE)
        assert (refused.decision, refused.reason, refused.failure) == ("deny", "no", "")
        group.observe(hook("report"), tool_call(type="tool:post_execute"), VerdictSummary("deny", "guarded"))
        group.observe(hook("with_one_argument"), tool_call(type="tool:error"), VerdictSummary())
        await until_true(lambda: log.exists() and "failed" in log.read_text(), "the observers wrote")
        assert log.read_text() == "deny guarded\nfailed: True\n"
        forked = await group.run(hook("forks"), tool_call(), PATIENCE)
        assert (forked.decision, forked.reason) == ("deny", "ended its copy")
        failures = {
            method: (await group.run(hook(method), tool_call(), 1.0 if method == "waits" else PATIENCE)).failure
            for method in (
                *("garbage", "raises", "exits", "raises_later", "nonsense", "unwritable", "huge", "waits"),
                *("takes_nothing", "without_self"),
            )
        }
        assert "returned a str" in failures["garbage"]
        assert "KeyError: 'gone'" in failures["raises"]
        assert "tested.py:" in failures["raises"]
        assert "SystemExit: 3" in failures["exits"]
        assert "takes 0 positional arguments" in failures["takes_nothing"]
        assert "takes 1 positional argument" in failures["without_self"]
        old = await group.run(hook("ask"), tool_call(time=10**18), PATIENCE)
        assert (old.decision, old.failure) == ("ask", ""), "a time that Python does not have is no way past a guard"
        assert "ValueError: later" in failures["raises_later"]
        assert "'perhaps'" in failures["nonsense"]
        assert "cannot be written" in failures["unwritable"]
        assert "returned 20971" in failures["huge"]
        assert "did not answer within 1 s" in failures["waits"]
        (state,) = group.states()
        assert (state.state, state.restarts, state.calls, state.failures) == ("running", 0, 17, 10)
        assert 0 < state.p50_ms <= state.p99_ms
        assert [name for name, _, _ in state.handlers][:3] == ["ask", "change", "block"]
    assert log.read_text().endswith("unloaded\n")


BREAKS = {
    "segfault": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "exit": "import os; os._exit(0)",
    "leaves a copy": """
        import os, signal, time
        if os.fork() == 0:
            time.sleep(3600)  # it holds the pipes of the process that ends
        os.kill(os.getpid(), signal.SIGSEGV)
        """,
    "endless": "while True: pass",
    "leak": """
        kept = []
        while True:
            kept.append(bytearray(1 << 20))
        """,
    "answers_by_hand": """
        import os
        for number in range(3, 30):
            try:
                os.write(number, b"garbage!" * 9)
            except OSError:
                pass
        """,
}


@pytest.mark.req("G-14")
@pytest.mark.parametrize("how", BREAKS)
async def test_what_ends_a_plugin_ends_its_process_alone_which_comes_back(tmp_path: Path, how: str) -> None:
    head = DENIES + '@hook_handler("tool:*:write", priority=10)\ndef breaks(self, event):\n'
    source = plugin(head + indent(dedent(BREAKS[how]), "    "))
    file = read(enabled(tmp_path, {"tested": source}, memory=64))
    async with running(file) as group:
        seconds = 0.5 if how == "endless" else PATIENCE
        broken = await group.run(handler(file, "breaks"), tool_call(), seconds)
        assert broken.failure.startswith("plugin 'tested' (breaks) "), broken
        if how in {"segfault", "leaves a copy"}:
            assert "SIGSEGV" in broken.failure
        if how == "endless":
            assert "did not answer within 0.5 s" in broken.failure
            await until_true(lambda: "did not end within" in group.states()[0].problem, "it is killed")
        await until_true(lambda: group.states()[0].state == "running" and group.states()[0].restarts, "it comes back")
        assert group.states()[0].breaker == "half-open"
        refused = await group.run(handler(file, "check"), tool_call("forbidden"), PATIENCE)
        assert (refused.decision, refused.reason) == ("deny", "the plugin says no")
        assert group.states()[0].breaker == "closed"


@pytest.mark.req("G-14")
async def test_a_plugin_that_cannot_be_loaded_fails_at_once_and_says_why(tmp_path: Path) -> None:
    good = plugin(DENIES, "good")
    bad = plugin(DENIES, "bad", head="import no_such_module")
    needs = plugin("requires = ['good']\n" + DENIES, "needs")
    file = read(enabled(tmp_path, {"good": good, "bad": bad, "needs": needs}))
    async with running(file) as group:
        states = {state.name: state for state in group.states()}
        assert "ModuleNotFoundError: No module named 'no_such_module'" in states["bad"].problem
        assert (states["good"].state, states["bad"].state, states["needs"].state) == ("running", "failed", "running")
        failed = await group.run(handler(file, "check", "bad"), tool_call("forbidden"), PATIENCE)
        assert "is not loaded: ModuleNotFoundError" in failed.failure
        assert (await group.run(handler(file, "check", "good"), tool_call("forbidden"), PATIENCE)).decision == "deny"


@pytest.mark.req("G-15")
async def test_a_reload_swaps_processes_without_losing_a_call(tmp_path: Path) -> None:
    """Calls go on while the new process loads; the old one ends what it has, and unloads. A broken source changes nothing."""
    body = """
    def on_unload(self):
        open({log!r}, "a").write("unloaded {version}\\n")

    @hook_handler(HookEventType.BEFORE_TOOL, priority=10)
    async def check(self, event):
        import asyncio
        await asyncio.sleep(0.2 if "slow" in event.data["tool_input"]["command"] else 0)
        return HookResponse(decision="deny", reason="{version}")
    """
    log = tmp_path / "log"
    one, two = (plugin(body.replace("{log!r}", repr(str(log))).replace("{version}", name)) for name in ("one", "two"))
    file = read(enabled(tmp_path, {"tested": one}))
    hook = handler(file, "check")
    async with running(file) as group:
        slow = asyncio.create_task(group.run(hook, tool_call("slow"), PATIENCE))
        (tmp_path / "tested.py").write_text(two)
        reload = asyncio.create_task(group.replace(group.plugins, 7))
        reasons = []
        while not reload.done():
            reasons.append((await group.run(hook, tool_call(), PATIENCE)).reason)
        assert await reload == {}
        assert set(reasons) <= {"one", "two"}
        assert (await slow).reason == "one"
        assert (await group.run(hook, tool_call(), PATIENCE)).reason == "two"
        await until_true(lambda: log.exists() and log.read_text() == "unloaded one\n", "the old one is unloaded")
        (tmp_path / "tested.py").write_text("raise RuntimeError('half saved')")
        wrong = await group.replace(group.plugins, 8)
        assert "RuntimeError: half saved" in wrong["tested"]
        assert (await group.run(hook, tool_call(), PATIENCE)).reason == "two"
        (state,) = group.states()
        assert (state.reloaded, state.state, "half saved" in state.problem) == (8, "running", True)


ACTIONS = """
def on_load(self, config):
    self.register_action("greet", self.greet)
    self.register_workflow_action("post", {"required": ["url"], "properties": {"url": {"type": "string"}}}, self.post)
    self.register_condition("is_calm", lambda level=0: level < 3)

async def greet(self, context, **kwargs):
    return {"session": context.session_id, **kwargs}

def post(self, context, url):
    raise RuntimeError("no network")
"""


@pytest.mark.req("G-16")
async def test_actions_and_conditions_are_called_by_the_same_protocol(tmp_path: Path) -> None:
    file = read(enabled(tmp_path, {"tested": plugin(ACTIONS)}))
    async with running(file) as group:
        (state,) = group.states()
        assert (state.actions, state.conditions) == (("greet", "post"), ("is_calm",))
        context = {"session_id": "s1"}
        greeted = await group.invoke("tested", "action", "greet", {"a": [1]}, PATIENCE, context=context)
        assert greeted == {"session": "s1", "a": [1]}
        assert (
            "Schema validation failed: Missing required field: url"
            in (await group.invoke("tested", "action", "post", {}, PATIENCE))["error"]
        )
        assert await group.invoke("tested", "condition", "is_calm", {}, PATIENCE, 2) is True
        assert await group.invoke("tested", "condition", "is_calm", {"level": 7}, PATIENCE) is False
        with pytest.raises(FleethookError, match="RuntimeError: no network"):
            await group.invoke("tested", "action", "post", {"url": "x"}, PATIENCE)
        with pytest.raises(FleethookError, match="has no condition 'other'"):
            await group.invoke("tested", "condition", "other", {}, PATIENCE)


@pytest.mark.req("G-11", "G-15")
async def test_processes_of_one_plugin_share_what_it_keeps_in_shared(tmp_path: Path) -> None:
    """As of two evaluators of a machine; what a plugin keeps on itself is that of one process."""
    body = """
    def on_load(self, config):
        self.own = 0

    @hook_handler(HookEventType.BEFORE_TOOL, priority=1)
    def third(self, event):
        self.own += 1
        count = self.shared.add(event.session_id)
        return HookResponse(decision="deny", reason=f"call {count}, {self.own} here") if count > 2 else None
    """
    file = read(enabled(tmp_path, {"tested": plugin(body)}))
    hook, state = handler(file, "third"), tmp_path / "state"
    state.mkdir()
    groups = [PluginGroup(file.plugins, "user", "/", str(state)) for _ in range(2)]
    try:
        for group in groups:
            await group.settled()
        reasons = [(await group.run(hook, tool_call(), PATIENCE)).reason for group in (*groups, *groups)]
        assert reasons == ["", "", "call 3, 2 here", "call 4, 2 here"]
        assert await groups[0].replace(file.plugins) == {}
        assert (await groups[0].run(hook, tool_call(), PATIENCE)).reason == "call 5, 1 here", "it outlives a reload"
    finally:
        for group in groups:
            await group.close()


ORPHAN = """
import asyncio, sys
from pathlib import Path
from tests.support.plugins import handler, read, tool_call
from workers.plugins.group import PluginGroup

async def main():
    file = read(Path(sys.argv[1]))
    group = PluginGroup(file.plugins, "user", "/")
    await group.settled()
    print(group.states()[0].pid, flush=True)
    await group.run(handler(file, "spins"), tool_call(), 3600)

asyncio.run(main())
"""


@pytest.mark.req("G-14")
def test_a_plugin_in_an_endless_loop_ends_with_its_killed_worker(tmp_path: Path) -> None:
    spins = """
    @hook_handler(HookEventType.BEFORE_TOOL, priority=1)
    def spins(self, event):
        open(MARK, "w").close()
        while True:
            pass
    """
    mark = tmp_path / "spinning"
    file = enabled(tmp_path, {"tested": plugin(spins, head=f"MARK = {str(mark)!r}")})
    with subprocess.Popen(
        [sys.executable, "-c", ORPHAN, str(file)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as worker:
        assert worker.stdout is not None
        pid = int(worker.stdout.readline())
        wait_until(mark.exists, "the handler spins")
        worker.kill()
    wait_until(lambda: not _runs(pid), "the plugin's process is gone")


@pytest.mark.req("G-14")
@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="the kernel groups no sessions")
async def test_a_plugins_process_has_a_lower_priority_than_the_worker(tmp_path: Path) -> None:
    """Sessions are scheduled as groups: niceness alone would only count among the plugin's own processes."""
    async with running(read(enabled(tmp_path, {"tested": plugin(DENIES)}))) as group:
        pid = group.states()[0].pid
        assert os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0)
        place = Path(f"/proc/{pid}/autogroup")
        await until_true(lambda: int(place.read_text().split()[-1]) > 0, "its group is lower too")


def _runs(pid: int) -> bool:
    try:
        return "(python" in Path(f"/proc/{pid}/stat").read_text() and " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


@pytest.mark.req("G-14")
async def test_an_endless_loop_is_ended_though_calls_come_one_after_the_other(tmp_path: Path) -> None:
    body = """
    @hook_handler(HookEventType.BEFORE_TOOL, priority=10)
    def check(self, event):
        while True:
            pass
    """
    file = read(enabled(tmp_path, {"tested": plugin(body)}))
    async with running(file) as group:
        (first,) = group.states()

        async def is_ended() -> bool:
            await group.run(handler(file, "check"), tool_call(), 0.3)
            return group.states()[0].pid != first.pid

        await until(is_ended, "its process was ended")
