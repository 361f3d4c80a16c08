"""Guard packs and rules switched on and off: everything else of the file stays as it was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.config.file_types import GuardSettings
from bus.errors import ConfigError, NotFound
from bus.hooksets.guards import load_pack, packs
from bus.hooksets.hookfile import HookFile, guard_packs, parse_hook_file
from bus.hooksets.layers import Layered, guard_hooks
from tests.cli_kit import fleethook
from workers.admin.guard_switches import Chosen, Switch, file_switched, find_switch, is_on, set_switched

PACK = "destructive-commands"
RULE = Switch(PACK, "recursive-delete")
OTHER = Switch(PACK, "force-push")


def test_the_packs_of_hook_files_are_those_that_ship() -> None:
    assert guard_packs() == packs()


def test_a_rule_is_found_by_its_id_with_or_without_its_pack() -> None:
    assert find_switch(PACK) == Switch(PACK)
    assert find_switch(RULE.name) == RULE
    assert find_switch("recursive-delete") == RULE
    with pytest.raises(NotFound, match="recursive-delete"):
        find_switch("recursive-delet")


@pytest.mark.req("X-07")
@pytest.mark.parametrize(
    ("before", "switch", "on", "after"),
    [
        ("", Switch(PACK), True, f"guards:\n  {PACK}: true\n"),
        ("# mine\n", Switch(PACK), True, f"# mine\n\nguards:\n  {PACK}: true\n"),
        ("hooks: []", Switch(PACK), True, f"hooks: []\n\nguards:\n  {PACK}: true\n"),
        ("guards:\n", Switch(PACK), True, f"guards: {{{PACK}: true}}\n"),
        ("guards: {}  # none\n", Switch(PACK), True, f"guards: {{{PACK}: true}}  # none\n"),
        (f"guards: {{{PACK}: false}} # x\n", Switch(PACK), True, f"guards: {{{PACK}: true}} # x\n"),
        (
            f"guards:\n  {PACK}: true  # why\nhooks: []\n",
            Switch(PACK),
            False,
            f"guards:\n  {PACK}: false  # why\nhooks: []\n",
        ),
        (
            f"guards:\n  {PACK}:\n    observe: true  # first\n",
            Switch(PACK),
            False,
            f"guards:\n  {PACK}:\n    observe: true  # first\n    enabled: false\n",
        ),
        (
            f"guards:\n  {PACK}:\n    enabled: false\n    observe: true\n",
            Switch(PACK),
            True,
            f"guards:\n  {PACK}:\n    enabled: true\n    observe: true\n",
        ),
        (f"guards:\n  {PACK}: true\n", RULE, False, f"guards:\n  {PACK}: {{disable: [recursive-delete]}}\n"),
        (
            f"guards:\n  {PACK}:\n    decision: ask  # softer\n",
            RULE,
            False,
            f"guards:\n  {PACK}:\n    decision: ask  # softer\n    disable: [recursive-delete]\n",
        ),
        (
            f"guards:\n  {PACK}:\n    disable:\n      - force-push  # we rebase\n",
            RULE,
            False,
            f"guards:\n  {PACK}:\n    disable:\n      - force-push  # we rebase\n      - recursive-delete\n",
        ),
        (
            f"guards:\n  {PACK}: {{disable: [force-push]}}\n",
            RULE,
            False,
            f"guards:\n  {PACK}: {{disable: [force-push, recursive-delete]}}\n",
        ),
        (f"guards:\n  {PACK}: {{disable: []}}\n", RULE, False, f"guards:\n  {PACK}: {{disable: [recursive-delete]}}\n"),
        (
            f"guards:\n  {PACK}:\n    disable:\n      - force-push  # we rebase\n      - recursive-delete\n",
            RULE,
            True,
            f"guards:\n  {PACK}:\n    disable:\n      - force-push  # we rebase\n",
        ),
        (
            f"guards:\n  {PACK}: {{disable: [{RULE.name}, force-push]}}\n",
            RULE,
            True,
            f"guards:\n  {PACK}: {{disable: [force-push]}}\n",
        ),
        (
            f"guards:\n  {PACK}: {{disable: [recursive-delete]}}   # most of it\n",
            RULE,
            True,
            f"guards:\n  {PACK}: true   # most of it\n",
        ),
        (
            f"guards:\n  {PACK}:\n    disable:\n      - recursive-delete\n    decision: ask  # softer\n",
            RULE,
            True,
            f"guards:\n  {PACK}:\n    decision: ask  # softer\n",
        ),
        (
            f"guards: {{{PACK}: {{disable: [recursive-delete], decision: ask}}}}\n",
            RULE,
            True,
            f"guards: {{{PACK}: {{decision: ask}}}}\n",
        ),
        (
            f"guards:\n  {PACK}:\n    disable: [recursive-delete]\n",
            Switch(PACK),
            False,
            f"guards:\n  {PACK}:\n    disable: [recursive-delete]\n    enabled: false\n",
        ),
        (
            f"guards:\r\n  {PACK}:\r\n    disable:\r\n    - a\r\n",
            RULE,
            False,
            f"guards:\r\n  {PACK}:\r\n    disable:\r\n    - a\r\n    - recursive-delete\r\n",
        ),
        (
            f'{{"guards": {{"{PACK}": true}}}}',
            RULE,
            False,
            f'{{"guards": {{"{PACK}": {{"disable": ["recursive-delete"]}}}}}}',
        ),
    ],
)
def test_a_switch_changes_what_it_is_about_and_nothing_else(
    tmp_path: Path, before: str, switch: Switch, on: bool, after: str
) -> None:
    path = tmp_path / "fleethook.yaml"
    path.write_bytes(before.encode())
    edited = file_switched(path, "user", switch, on)
    assert edited.after == after
    assert is_on(edited.read.guards, switch) is on
    path.write_bytes(after.encode())
    assert file_switched(path, "user", switch, on).after == after, "said twice it changes nothing more"


@pytest.mark.req("X-07")
def test_a_pack_that_an_imported_file_switches_on_is_switched_off_in_ones_own(tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text(f"guards: {{{PACK}: {{decision: ask}}}}\n")
    path = tmp_path / "fleethook.yaml"
    path.write_text("import: [{path: more.yaml, dialect: fleethook}]\n")
    edited = file_switched(path, "user", Switch(PACK), False)
    assert not is_on(edited.read.guards, Switch(PACK))
    one = file_switched(path, "user", RULE, False).read.guards[PACK]
    assert (one.decision, one.disable) == ("ask", ("recursive-delete",))


@pytest.mark.req("X-07")
def test_a_rule_of_a_pack_that_is_off_is_not_switched(tmp_path: Path) -> None:
    path = tmp_path / "fleethook.yaml"
    with pytest.raises(ConfigError, match=r"is not enabled in .*fleethook\.yaml"):
        file_switched(path, "user", RULE, True)
    path.write_text(f"guards: {{{PACK}: false}}\n")
    with pytest.raises(ConfigError, match="guards enable"):
        file_switched(path, "user", RULE, False)
    assert file_switched(path, "user", Switch(PACK), False).after == path.read_text()


@pytest.mark.req("X-07")
def test_a_published_set_is_switched_as_a_value() -> None:
    empty = HookFile().with_digest()
    on = set_switched(empty, Switch(PACK), True)
    off = set_switched(on, RULE, False)
    assert on.guards == {PACK: GuardSettings()}
    assert (is_on(off.guards, RULE), is_on(off.guards, OTHER)) == (False, True)
    assert set_switched(off, RULE, True).guards == on.guards
    assert set_switched(empty, Switch(PACK), False).digest == empty.digest
    assert len({empty.digest, on.digest, off.digest}) == 3


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository to work in, without a server; the user's own file."""
    (tmp_path / "project" / ".git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "home" / "config" / "fleethook.yaml"


@pytest.mark.req("X-07", "G-17")
def test_guards_are_listed_shown_and_switched_without_a_server(here: Path) -> None:
    listed = fleethook("guards", "list", "--json")
    assert listed.code == 0
    assert [one["id"] for one in listed.lines] == [rule.id for name in packs() for rule in load_pack(name).rules]

    def rule() -> dict[str, object]:
        return next(one for one in fleethook("guards", "list", "--json").lines if one["id"] == RULE.name)

    planned = fleethook("guards", "enable", PACK, "--dry-run")
    assert (planned.code, f"+  {PACK}: true" in planned.out, here.exists()) == (0, True, False)
    assert fleethook("guards", "enable", PACK).code == 2, "nobody can be asked here"
    assert fleethook("guards", "enable", PACK, "--yes", "--json").json["written"] is True
    assert (rule()["on"], rule()["decision"]) == (True, "deny")
    assert [one["layer"] for one in rule()["layers"]] == ["user"]  # type: ignore[attr-defined]  # a list of mappings

    off = fleethook("guards", "disable", "recursive-delete", "--yes")
    assert (off.code, f"{RULE.name} is off" in off.out) == (0, True)
    assert parse_hook_file(here.read_text(), "user", file="x").guards[PACK].disable == ("recursive-delete",)
    assert rule()["on"] is False
    again = fleethook("guards", "disable", "recursive-delete", "--yes")
    assert (again.code, "nothing to change" in again.err) == (0, True)

    here.write_text(f"guards: {{{PACK}: {{decision: ask, observe: true}}}}\n")
    shown = fleethook("guards", "show", "recursive-delete")
    assert (shown.code, "observe" in shown.out, "instead" in shown.out) == (0, True, True)
    told = fleethook("guards", "show", RULE.name, "--json").json
    assert told["observe"] is True
    assert {one["expect"] for one in told["tests"]} == {"deny", "allow"}
    whole = fleethook("guards", "show", PACK, "--json").json
    assert (whole["pack"], len(whole["rules"])) == (PACK, len(load_pack(PACK).rules))
    assert fleethook("guards", "show", "no-such-guard").code == 1


@pytest.mark.req("X-07")
def test_what_another_layer_has_on_stays_on_and_is_said(here: Path) -> None:
    here.parent.mkdir(parents=True)
    here.write_text(f"guards: {{{PACK}: true}}\n")
    assert fleethook("guards", "enable", PACK, "--layer", "project", "--yes").code == 0
    assert Path("fleethook.yaml").read_text() == f"guards:\n  {PACK}: true\n"
    off = fleethook("guards", "disable", PACK, "--layer", "project", "--yes")
    assert (off.code, "stays on in another layer: user" in off.err, "trust" in off.err) == (0, True, True)


@pytest.mark.req("X-09")
def test_an_agent_may_not_switch_a_guard_off(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.delenv("FLEETHOOK_TEST_CONFIRMS")
    here.parent.mkdir(parents=True)
    here.write_text(f"guards: {{{PACK}: true}}\n")
    for name in (PACK, "recursive-delete"):
        refused = fleethook("guards", "disable", name, "--yes")
        assert (refused.code, "A person has to run it" in refused.err) == (1, True)
    assert here.read_text() == f"guards: {{{PACK}: true}}\n"


@pytest.mark.req("X-07")
@pytest.mark.parametrize("comment", ["", "  # why"])
@pytest.mark.parametrize(
    "value",
    [
        "true",
        "{}",
        "{decision: ask}",
        "{disable: [force-push]}",
        "\n    decision: ask",
        "\n    disable:\n    - force-push\n    observe: false",
        "\n    observe: false\n    disable: [ force-push ]",
    ],
)
@pytest.mark.parametrize("after", ["", "\n\nhooks: []\n", "\n# the end\n"])
def test_off_and_on_again_says_what_it_said_before(tmp_path: Path, value: str, comment: str, after: str) -> None:
    path = tmp_path / "fleethook.yaml"
    path.write_text(f"# mine\nguards:\n  {PACK}: {value}{comment}{after}")
    before = parse_hook_file(path.read_text(), "user", file="x").guards
    for switch in (RULE, Switch(PACK)):
        for on in (False, True):
            edited = file_switched(path, "user", switch, on)
            assert is_on(edited.read.guards, switch) is on
            path.write_text(edited.after)
    assert edited.read.guards == before
    assert ("# why" in edited.after) == bool(comment)
    assert edited.after.startswith("# mine\n")
    assert edited.after.rstrip().endswith(after.strip())


@pytest.mark.req("X-07")
@pytest.mark.parametrize(
    ("before", "switch", "decision", "after"),
    [
        (f"guards:\n  {PACK}: true  # why\n", OTHER, "ask", f"guards:\n  {PACK}: {{decisions: {{force-push: ask}}}}"),
        (
            f"guards:\n  {PACK}:\n    disable: [force-push, users]  # why\n",
            OTHER,
            "ask",
            f"guards:\n  {PACK}:\n    disable: [users]  # why\n    decisions: {{force-push: ask}}\n",
        ),
        (
            f"guards:\n  {PACK}:\n    decisions: {{force-push: ask}}\n    decision: deny\n",
            OTHER,
            "own",
            f"guards:\n  {PACK}:\n    decision: deny\n",
        ),
        (f"guards:\n  {PACK}: {{observe: true}}\n", Switch(PACK), "ask", "{observe: true, decision: ask}"),
        ("", Switch(PACK), "ask", f"{PACK}: {{decision: ask}}\n"),
    ],
)
def test_a_rule_or_a_pack_gets_a_decision_of_its_own(
    tmp_path: Path, before: str, switch: Switch, decision: Chosen, after: str
) -> None:
    path = tmp_path / "fleethook.yaml"
    path.write_text(before)
    edited = file_switched(path, "user", switch, True, decision)
    assert after in edited.after
    path.write_text(edited.after)
    assert file_switched(path, "user", switch, True, decision).after == edited.after, "said twice it changes no more"


@pytest.mark.req("X-07")
def test_the_decision_of_a_rule_comes_before_that_of_its_pack() -> None:
    settings = GuardSettings(decision="ask", decisions={"force-push": "deny", RULE.name: "deny"})
    layered = Layered("user", "1", HookFile(guards={PACK: settings}))
    decisions = {hook.id: hook.rule.decision for hook in guard_hooks(layered) if hook.rule is not None}
    denying = {name for name, decision in decisions.items() if decision == "deny"}
    assert denying == {OTHER.name, RULE.name}


@pytest.mark.req("X-07")
def test_a_rule_is_told_to_ask_by_a_command(here: Path) -> None:
    assert fleethook("guards", "enable", PACK, "--yes").code == 0
    assert fleethook("guards", "enable", "force-push", "--decision", "ask", "--yes").code == 0
    assert "decisions: {force-push: ask}" in here.read_text()
    shown = fleethook("guards", "show", "force-push", "--json").json
    assert (shown["on"], shown["decision"], shown["layers"][0]["decision"]) == (True, "ask", "ask")
    assert fleethook("guards", "enable", "force-push", "--decision", "own", "--yes").code == 0
    assert fleethook("guards", "show", "force-push", "--json").json["decision"] == "deny"
