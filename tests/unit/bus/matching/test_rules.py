"""Rules: what each condition means, where paths lie, and that a rule that cannot be judged is a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from bus.errors import PatternError
from bus.events import Event
from bus.hooks import Hook
from bus.matching.regexes import compile_regex
from bus.matching.rules import CANNOT_BE_READ, TOO_LARGE, CommandMatch, Match, Rule, check_rule, judge, unread_notes
from bus.outcomes import Outcome
from bus.runners.rule import RuleRunner
from bus.shell import MAX_LENGTH
from tests.support.rows import rows


def bash(command: str, *, cwd: str = "/home/dev/app", **more: Any) -> Event:
    return Event(type="tool:pre_execute", tool="bash", cwd=cwd, input={"command": command, **more})


def write(path: str, cwd: str = "/home/dev/app", **more: Any) -> Event:
    return Event(type="tool:pre_execute", tool="write", cwd=cwd, input={"path": path, **more})


def fits(match: CommandMatch, command: str, cwd: str = "/home/dev/app") -> bool:
    return judge(Rule(commands=(match,)), bash(command, cwd=cwd)) is not None


@pytest.mark.req("X-07")
def test_a_rule_without_conditions_fits_whatever_its_hook_lets_through() -> None:
    assert judge(Rule(), Event(type="notification")) is not None


@pytest.mark.req("X-07")
def test_all_conditions_that_are_given_have_to_hold() -> None:
    rule = Rule(command=("--force",), commands=(CommandMatch(program=("git",), subcommand=("push",)),))
    assert judge(rule, bash("git push --force")) is not None
    assert judge(rule, bash("git push")) is None
    assert judge(rule, bash("echo git push --force")) is None


@pytest.mark.req("X-09")
def test_a_text_is_also_found_behind_quotes_unless_the_rule_allows() -> None:
    """Issue 10, A7: names are read after unquoting."""
    any_program = (CommandMatch(program_none=("none",)),)
    for line in ('fle""ethook x', "f\\leethook x", "f''leethook x", "bash -c 'fle\"\"ethook x'", 'cat "fle"ethook'):
        assert judge(Rule(command=("fleethook",)), bash(line)) is not None, line
        assert judge(Rule(command=("fleethook",), commands=any_program), bash(line)) is not None, line
        assert judge(Rule(decision="allow", command=("fleethook",)), bash(line)) is None, line
    assert judge(Rule(command=("fleethook",), commands=any_program), bash("a=fleet; ${a}hook x")) is not None
    assert judge(Rule(command=("^rm ",)), bash("cd x && rm y")) is None


@pytest.mark.req("X-01")
def test_a_rule_asks_for_what_the_event_does_not_have_and_does_not_fit() -> None:
    for rule in (
        Rule(command=("x",)),
        Rule(path=("**",)),
        Rule(outside_project=True),
        Rule(commands=(CommandMatch(program=("rm",)),)),
    ):
        for given in ({}, {"command": None, "path": 3, "paths": "x"}, {"command": ["rm"], "paths": [None, 1]}):
            assert judge(rule, Event(type="tool:pre_execute", input=given)) is None


def test_what_matched_is_told_and_cut() -> None:
    rule = Rule(commands=(CommandMatch(program=("rm",)),))
    assert judge(rule, bash("ls; sudo   rm  -rf  'x y'")) == Match("rm -rf x y")
    match = judge(rule, bash("rm " + "x" * 500))
    assert match is not None
    assert len(match.what) == 120


def named(value: object) -> str:
    return ",".join(name for name in CommandMatch.__struct_fields__ if getattr(value, name, None))


@rows(
    ("match", "yes", "no"),
    [
        (CommandMatch(program=("mkfs*",)), ["mkfs.ext4 x", "/sbin/mkfs x"], ["echo mkfs"]),
        (
            CommandMatch(flags_all=("-r|-R|--recursive", "-f|--force")),
            ["rm -rf", "rm -fR", "rm -r x --force", "rm --recursive=x -f"],
            ["rm -r", "rm -- -rf", "rm --recursively -f"],
        ),
        (
            CommandMatch(flags_any=("--force",)),
            ["rm --forc x", "git push --force=yes", "git push --forc", "rm --fo x"],
            ["npm x --forc", "rm -- --force"],
        ),
        (CommandMatch(flags_any=("-delete",)), ["find . -delete"], ["find . -d -e"]),
        (
            CommandMatch(program=("git",), flags_none=("-n", "--dry-run")),
            ["git x"],
            ["git x -n", "git x -vn", "git --dry-run x"],
        ),
        (
            CommandMatch(subcommand=("push", "remote add")),
            ["git push x", "git -C d -c a=b push", "git --no-pager remote -v add x"],
            ["git pull push", "git remote show add"],
        ),
        (CommandMatch(args=("+*", "x?")), ["git push +a/b", "a b xy"], ["git push a+b", "xy", "a x"]),
        (CommandMatch(line=("^kill .*-1$",)), ["sudo kill -9   -1"], ["kill -1 5"]),
        (
            CommandMatch(redirects_to=("/etc/**", "*.log")),
            ["a > /etc/x", "a >> b/c.log", "cd /etc && a > x"],
            ["a < /etc/x", "cat /etc/x"],
        ),
        (
            CommandMatch(changes=("~/.ssh/**",)),
            ["tee ~/.ssh/x", "cp a ~/.ssh", "mv -t ~/.ssh a", "sed -i s/a/b/ ~/.ssh/x", "cd && rm .ssh/x"],
            ["cp ~/.ssh/x .", "sed s/a/b/ ~/.ssh/x", "cat ~/.ssh/x"],
        ),
        (CommandMatch(paths=("src/**",)), ["rm src/a/b", "cat ./src", "cd src && cat x"], ["rm a/src/b", "rm /src/x"]),
        (
            CommandMatch(program=("rm",), touches=("outside_project",)),
            ["rm ../x", "rm ~/x", "rm a /etc/x", "cd .. && rm x"],
            ["rm x", "rm ~/app/x", "rm /tmp/x", "rm $X", "cd $D && rm x"],
        ),
        (
            CommandMatch(touches=("whole_project",)),
            ["rm -r .", "rm -r *", "rm -r ~/app", "cd a && rm -r .."],
            ["rm -r a", "rm -r .."],
        ),
        (
            CommandMatch(touches=("unset_variable",)),
            ["rm -r $X/*", 'rm "$X/"'],
            ["X=a; rm $X/*", "rm ${X:?}/*", "rm $X/a"],
        ),
        (CommandMatch(piped_from=("curl",)), ["curl x | a | b", "curl x | sudo b"], ["curl x; b", "b | curl x"]),
        (CommandMatch(code_from=("curl",)), ["curl x | sh", "sh <(curl x)"], ["curl x | jq"]),
        (CommandMatch(fork_bomb=True), [":(){ :|:& };:"], ["f() { f; }; f"]),
    ],
    ids=named,
)
def test_conditions_on_commands(match: CommandMatch, yes: list[str], no: list[str]) -> None:
    assert [command for command in yes if not fits(match, command)] == []
    assert [command for command in no if fits(match, command)] == []


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("/etc/**", ["/etc/passwd", "/etc/a/b", "/etc", "../../../etc/x"], ["/etcetera", "etc/x", "/home/etc/x"]),
        ("~/.ssh/*", ["~/.ssh/id", "/home/dev/.ssh/id", "../.ssh/id"], ["~/.ssh/a/b", "/home/eve/.ssh/id", ".ssh/id"]),
        ("*.pem", ["a.pem", "/x/y/a.pem", "d/a.pem"], ["a.pem.txt", "a.pem/b"]),
        (".env", [".env", "a/.env"], [".envrc", "a.env"]),
        ("src/**", ["src/a", "./src/a/b", "/home/dev/app/src", "x/../src/a"], ["a/src/b", "srcs/a"]),
        ("src/*.py", ["src/a.py"], ["src/b/a.py", "src/a.pyc"]),
        ("**/secrets/**", ["a/b/secrets/c", "/secrets/x", "secrets"], ["a/secretsx"]),
        ("file[0-9]", ["file3"], ["filex", "file33"]),
        ("file[!0-9]", ["filex"], ["file3"]),
        ("~", ["~", "/home/dev"], ["~/x"]),
        ("a(b", ["a(b"], ["ab"]),
    ],
)
def test_path_patterns(glob: str, yes: list[str], no: list[str]) -> None:
    rule = Rule(path=(glob,))
    assert [path for path in yes if judge(rule, write(path)) is None] == []
    assert [path for path in no if judge(rule, write(path)) is not None] == []


def test_paths_are_seen_with_links_resolved_and_as_they_are_written(tmp_path: Path) -> None:
    project, secret = tmp_path / "project", tmp_path / "secret"
    (project / ".git").mkdir(parents=True)
    (project / "deep").mkdir()
    secret.mkdir()
    (project / "link").symlink_to(secret)
    for rule in (Rule(path=(f"{secret}/**",)), Rule(path=("link/**",))):
        assert judge(rule, write("link/key", str(project))) is not None
        assert judge(rule, write("../link/key", str(project / "deep"))) is not None
        assert judge(rule, write("other/key", str(project))) is None
    # A call with several files: any of them.
    assert judge(Rule(path=("link/**",)), write("a", str(project), paths=["a", "link/b"])) is not None


@pytest.mark.req("X-07")
def test_the_project_is_where_git_is_and_links_out_of_it_are_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Temporary directories count as inside, and this test has no other place to make links in.
    monkeypatch.setattr("bus.matching.paths._TEMPORARY", ())
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "deep").mkdir()
    (tmp_path / "other").mkdir()
    (project / "link").symlink_to(tmp_path / "other")
    rule, cwd = Rule(outside_project=True), str(project / "deep")
    for inside in ("x", "../x", "../deep/../y", str(project / "a" / "b")):
        assert judge(rule, write(inside, cwd)) is None, inside
    for outside in ("../../x", "../link/x", "/etc/passwd", "~/x", str(tmp_path / "other")):
        assert judge(rule, write(outside, cwd)) is not None, outside
    remove = Rule(commands=(CommandMatch(program=("rm",), touches=("outside_project",)),))
    assert judge(remove, bash("rm -rf ../link", cwd=cwd)) is None  # removes the link itself
    assert judge(remove, bash("rm -rf ../link/", cwd=cwd)) is not None
    assert judge(remove, bash("rm -rf ../link/*", cwd=cwd)) is not None


@rows(
    ("path", "cwd", "outside"),
    [
        ("/home/dev/app/x", "/home/dev/app", False),
        ("/home/dev/application", "/home/dev/app", True),
        ("/tmp/x", "/home/dev/app", False),
        ("/tmp", "/home/dev/app", True),
        ("/dev/null", "/home/dev/app", False),
        ("/dev/sda", "/home/dev/app", True),
        ("~/app/x", "/home/dev/app", False),
        ("~/x", "/home/dev/app", True),
        ("~eve/x", "/home/dev/app", True),
        ("x", "", False),
        ("../x", "", True),
        ("/etc/x", "", True),
        ("x", "/", False),
        ("/etc/x", "/", True),
        ("/", "/", True),
        ("/home/dev/x", "/home/dev", False),
        ("/home/dev", "/home/dev", True),
        ("/home", "/home/dev", True),
    ],
)
def test_what_lies_outside(path: str, cwd: str, outside: bool) -> None:
    assert (judge(Rule(outside_project=True), write(path, cwd)) is not None) is outside


def test_a_tool_that_names_its_directory_runs_there() -> None:
    rule = Rule(commands=(CommandMatch(program=("rm",), touches=("outside_project",)),))
    assert judge(rule, bash("rm x")) is None
    event = Event(type="tool:pre_execute", cwd="/home/dev/app", input={"command": "rm ../x", "cwd": "src"})
    assert judge(rule, event) is None
    assert judge(rule, msgspec.structs.replace(event, input={"command": "rm x", "cwd": "/opt"})) is not None


@pytest.mark.parametrize(
    "rule",
    [
        Rule(command=("(",)),
        Rule(command=("a(?=b)",)),
        Rule(path=("",)),
        Rule(commands=(CommandMatch(),)),
        Rule(commands=(CommandMatch(line=("[",)),)),
        Rule(commands=(CommandMatch(flags_any=("force",)),)),
    ],
)
def test_a_bad_pattern_is_refused_when_the_rule_is_checked(rule: Rule, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PatternError):
        check_rule(rule)
    assert capfd.readouterr() == ("", "")  # RE2 likes to talk on stderr, which is the agent's


def test_look_ahead_is_only_for_those_who_ask_for_it() -> None:
    assert compile_regex("^(?!mcp).*", allow_backtracking=True).search("bash") is not None
    with pytest.raises(PatternError, match="two rules"):
        compile_regex("^(?!mcp).*")
    with pytest.raises(PatternError):
        compile_regex("(", allow_backtracking=True)
    assert compile_regex("rm .*/").search("\ud800 rm \udfff /") is not None


def test_unknown_fields_are_refused() -> None:
    for plain in ({"decsion": "deny"}, {"commands": [{"programme": ["rm"]}]}, {"decision": "never"}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(plain, Rule)


HOOK = Hook(id="h", on=("tool:*",), rule=Rule(command=("rm",), reason="No deletes.", instead="Move it."))


async def run(hook: Hook, event: Event) -> Outcome:
    return await RuleRunner().run(hook, event, 1.0)


async def test_the_runner_gives_decision_reason_and_what_to_do_instead() -> None:
    outcome = await run(HOOK, bash("rm x"))
    assert outcome == Outcome(decision="deny", reason="No deletes (matched: `rm x`)", instead="Move it.")
    assert await run(HOOK, bash("ls")) == Outcome()


@pytest.mark.parametrize(
    "hook",
    [
        msgspec.structs.replace(HOOK, rule=None),
        msgspec.structs.replace(HOOK, rule=Rule(command=("(",))),
    ],
)
async def test_a_rule_that_cannot_be_judged_is_a_failure_and_raises_nothing(hook: Hook) -> None:
    outcome = await run(hook, bash("echo " + "x" * MAX_LENGTH))
    assert outcome.failure
    assert outcome.decision == "abstain"


RM = Rule(commands=(CommandMatch(program=("rm",)),))
BRACES = " b{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    "command",
    [
        "echo " + "x" * MAX_LENGTH + "; rm x",
        "#" * MAX_LENGTH + "\nrm x",
        "echo" + BRACES * 700 + "; sudo /bin/rm x",
        "echo b" + "{a,b}" * 40 + "; r''m x",
        "echo {" + "a," * 2000 + "b}; \\rm x",
        "eval " * 50 + "rm x",
        "(" * 500 + "rm x" + ")" * 500,
    ],
)
def test_a_command_over_the_budget_is_judged_by_the_programs_that_it_names(command: str) -> None:
    match = judge(RM, bash(command))
    assert match is not None
    assert match.what == "rm"
    assert match.doubt == TOO_LARGE
    assert judge(Rule(commands=(CommandMatch(program=("dd", "mkfs*")),)), bash(command)) is None
    assert judge(msgspec.structs.replace(RM, decision="allow"), bash(command)) is None, "in doubt nothing is allowed"
    assert unread_notes([RM], bash(command))


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("rm x )", True),
        ("ls; if true; then case x in; rm x", True),
        ("ls 'a; rm x", True),
        ("ls )", False),
        ("echo 'rm x'; (ls", False),
        ("git commit -m 'no rm'; ls )", False),
    ],
)
def test_what_cannot_be_parsed_is_judged_by_the_programs_that_it_names(command: str, named: bool) -> None:
    match = judge(RM, bash(command))
    assert (match is not None) is named
    assert unread_notes([RM], bash(command))


@pytest.mark.req("X-09")
def test_code_from_the_network_is_found_in_a_line_that_cannot_be_read() -> None:
    rule = Rule(commands=(CommandMatch(code_from=("curl",)),))
    assert judge(rule, bash("curl x | sh )")) is not None
    assert judge(rule, bash("ls ) ( curl x | bash")) is not None
    assert judge(rule, bash("ls ) ( curl x")) is not None, "what runs it may be in the part that was not read"
    assert judge(rule, bash("ls ) ( wget x | bash")) is None


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    "condition",
    [
        CommandMatch(program=("git",), subcommand=("push",), flags_any=("--force",)),
        CommandMatch(program=("git",), args=("*hard*",), loses=("uncommitted",)),
        CommandMatch(program=("g?t",), line=("clean -f",)),
        CommandMatch(program=("git",), destroys=("table",), piped_from=("cat",)),
    ],
)
def test_of_a_line_that_is_read_only_in_part_the_program_alone_counts(condition: CommandMatch) -> None:
    """Issue 10, item A2: a rule's program among the raw words is a match, whatever else the rule asks for."""
    rule = Rule(commands=(condition,))
    match = judge(rule, bash("(git $OPTIONS; ls"))
    assert match == Match("git", CANNOT_BE_READ)
    assert judge(rule, bash("(git $OPTIONS; ls)")) is None, "this is read as a whole"
    assert judge(rule, bash("(hg $OPTIONS; ls")) is None


@pytest.mark.req("X-09")
async def test_the_reason_says_why_a_rule_fits_in_doubt() -> None:
    hook = msgspec.structs.replace(HOOK, rule=msgspec.structs.replace(RM, decision="ask", reason="no"))
    outcome = await run(hook, bash("echo" + BRACES * 700 + "; rm x"))
    assert outcome.decision == "ask"
    assert "too large to be checked; split it" in outcome.reason
    assert "`rm`" in outcome.reason


def test_a_rule_about_other_programs_still_sees_every_command_of_a_line() -> None:
    rule = Rule(commands=(CommandMatch(program=("rm", "mkfs*")), CommandMatch(program=("dd",))))
    for line in ("ls; rm x", "true && sudo mkfs.ext4 /dev/sda", "x=$(dd if=/dev/zero)", "ls | xargs rm"):
        assert judge(rule, bash(line)) is not None, line
    named = Rule(commands=(CommandMatch(program=("rm",)), CommandMatch(program=("dd",))))
    assert [judge(named, bash(line)) is not None for line in ("ls; rm x", "sh -c 'dd of=x'", "ls -la")] == [
        True,
        True,
        False,
    ]
    half = Rule(commands=(CommandMatch(program=("rm",)), CommandMatch(args=("*.sql",))))
    assert judge(half, bash("cat dump.sql")) is not None, "one condition names no program"


@pytest.mark.parametrize(
    "text", ["\ud800", "a\0b", "x" * 100_000, "/" * 5000, "~" * 300, "a/../" * 3000, "$(", "'", "\n"]
)
@pytest.mark.parametrize("cwd", ["/home/dev/app", "", "relative", "\ud800/x", "/a\0b", "/" + "x" * 5000])
async def test_strange_text_in_an_event_breaks_nothing(text: str, cwd: str) -> None:
    rule = Rule(
        command=(".",),
        path=("/etc/**", "~/x", "a/b", "*.c"),
        outside_project=True,
        commands=(CommandMatch(paths=("/etc/**",)), CommandMatch(touches=("outside_project", "whole_project"))),
    )
    hook = msgspec.structs.replace(HOOK, rule=rule)
    event = Event(type="tool:pre_execute", cwd=cwd, input={"command": f"rm {text}", "path": text, "cwd": text})
    outcome = await run(hook, event)
    assert "broke" not in outcome.failure
    for part in (Rule(path=rule.path), Rule(outside_project=True), Rule(commands=rule.commands)):
        outcome = await run(msgspec.structs.replace(HOOK, rule=part), event)
        assert "broke" not in outcome.failure
