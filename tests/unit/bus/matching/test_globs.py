"""Several path patterns at once say what each of them says alone; so do conditions grouped by program."""

from __future__ import annotations

from itertools import combinations

import pytest
import re2

from bus.errors import PatternError
from bus.hooksets.guards import load_pack, packs
from bus.matching.command_facts import CommandFacts
from bus.matching.command_match import CommandMatch
from bus.matching.command_rules import command_matcher, compile_command_match, marks_of
from bus.matching.globs import PathIndex, compile_path_glob, compile_path_globs, compile_text_glob
from bus.matching.paths import place_of
from bus.matching.regexes import compile_alternatives, compile_regex
from bus.shell import commands
from tests.support.rows import rows

PLACE = place_of("/home/dev/app", here=False)
GLOBS = (
    "/etc/**",
    "~/.ssh/*",
    "*.pem",
    ".git",
    "**/secrets/**",
    "src/**",
    "~",
    "~/",
    "/a[bc]?",
    "./x",
    "/",
    "/[*]",
    "~/[*]",
    "/home/*",
    "/etc/passwd",
    "**/s?crets-*.d/**",
    "(?i)**/.Claude/settings*",
    "(?i)/Library/X/hooks.json",
    "(?i)FleetHook.yaml",
)
PATHS = (
    "/home/dev/.claude/settings.json",
    "/home/Dev/.CLAUDE/Settings.json",
    "/library/x/Hooks.json",
    "/home/dev/app/fleethook.YAML",
    "/home/dev/app/SRC/a.PEM",
    "/etc",
    "/etc/passwd",
    "/home/dev/.ssh/id",
    "/home/dev/.ssh/a/b",
    "/x/y.pem",
    "/home/dev/app/.git",
    "/home/dev",
    "/home/dev/app/secrets/a",
    "/home/dev/app/src/a.py",
    "/src/a.py",
    "/abx",
    "/ab",
    "/home/dev/app/x",
    "/x",
    "/",
    "/*",
    "/home/dev/*",
    "/srv/secrets-1.d",
    "/srv/secrets-1.d/a",
)


@pytest.mark.req("X-07")
@rows("some", [(), *[(one,) for one in GLOBS], *combinations(GLOBS, 2), GLOBS], ids=str)
def test_patterns_together_fit_what_each_of_them_fits(some: tuple[str, ...]) -> None:
    together = compile_path_globs(some)
    for path in PATHS:
        assert together(path, PLACE) == any(compile_path_glob(one)(path, PLACE) for one in some), path


@pytest.mark.req("X-07")
def test_an_index_finds_the_sets_with_a_pattern_that_fits() -> None:
    sets = {str(number): some for number, some in enumerate([*combinations(GLOBS, 2), GLOBS, ()])}
    index = PathIndex(sets)
    for path in PATHS:
        fitting = {key for key, some in sets.items() if any(compile_path_glob(one)(path, PLACE) for one in some)}
        assert index.find(path, PLACE) == fitting, path


def test_a_wrong_pattern_among_several_is_named() -> None:
    with pytest.raises(PatternError, match="empty or holds a NUL"):
        compile_path_globs(["/etc/**", ""])


@pytest.mark.parametrize(
    ("glob", "fits", "misses"),
    [
        ("mkfs*", ("mkfs", "mkfs.ext4", "mkfs\n/x"), ("xmkfs", "mkf")),
        ("*", ("", "x", "a\nb"), ()),
        ("a*b", ("ab", "a/b"), ("a", "abc")),
        ("[*]", ("*",), ("x",)),
        ("?*", ("x", "xy"), ("",)),
    ],
)
def test_a_text_pattern_fits_the_whole_text(glob: str, fits: tuple[str, ...], misses: tuple[str, ...]) -> None:
    matches = compile_text_glob(glob)
    assert [text for text in (*fits, *misses) if matches(text)] == list(fits)


@pytest.mark.req("X-07")
def test_conditions_grouped_by_program_fit_the_same_commands() -> None:
    read = [command for name in packs() for case in load_pack(name).tests for command in commands(case.command).items]
    for rule in (hook.rule for name in packs() for hook in load_pack(name).rules):
        if rule is None or not rule.commands:
            continue
        grouped, each = command_matcher(rule.commands), [compile_command_match(one) for one in rule.commands]
        for command in read[::7]:
            facts = CommandFacts(command, lambda: PLACE)
            assert grouped(facts) == any(fits(facts) for fits in each), command.line


def test_alternatives_find_what_each_finds_and_name_the_wrong_one() -> None:
    patterns = ["^a+$", "(?i)drop table", "x|y", r"\bz\b", *(f"w{number}{'q' * 150}" for number in range(40))]
    together = compile_alternatives(patterns)
    assert 1 < len(together) < 10, "few, and none is longer than a pattern may be"
    for text in ("aaa", "aab", "DROP TABLE x", "y", "a z b", "az", "", f"w7{'q' * 150}", f"w7{'q' * 149}"):
        found = any(regex.search(text) is not None for regex in together)
        assert found == any(compile_regex(one).search(text) is not None for one in patterns), text
    assert compile_alternatives([]) == ()
    with pytest.raises(PatternError, match="bad regular expression '\\("):
        compile_alternatives(["a", "("])


def test_an_expression_finds_what_the_library_finds() -> None:
    pattern = r"(?i)\brm( -\S+)* /(etc|usr)?$|é"
    ours, theirs = compile_regex(pattern), re2.compile(pattern)
    for text in ("rm /", "sudo RM -rf /etc", "rm /etc x", "", "é", "xéy", "a\0rm /", "\n rm /"):
        assert (ours.search(text) is None) == (theirs.search(text) is None), text
        assert (ours.fullmatch(text) is None) == (theirs.fullmatch(text) is None), text


@pytest.mark.req("X-07", "F-05")
def test_a_family_of_programs_is_told_from_the_marks_of_a_command() -> None:
    match = CommandMatch(program=("mkfs.*", "mke2fs"))
    assert marks_of(match) == {"mkfs.*", "mke2fs"}
    for text, marked in (
        ("mkfs.ext4 /dev/sdb", True),
        ("sudo mkfs.x.y z", True),
        ("mkfs /dev/sdb", False),
        ("ls", False),
    ):
        line = commands(text)
        fits = any(compile_command_match(match)(CommandFacts(command, lambda: PLACE)) for command in line.items)
        assert not fits or marked
        assert marks_of(match).isdisjoint(line.marks) is not marked, text
    assert marks_of(CommandMatch(program=("python3*", "perl"))) == frozenset()


def test_a_pattern_for_any_letter_case_fits_paths_in_any_case_and_others_do_not() -> None:
    for glob in ("(?i)**/.claude/settings*", "(?i)**/.Claude/Settings*"):
        fits = compile_path_glob(glob)
        index = PathIndex({"it": [glob]})
        for path in ("/home/Dev/.claude/settings.json", "/home/Dev/.Claude/SETTINGS.json"):
            assert fits(path, PLACE)
            assert compile_path_globs([glob, "*.pem"])(path, PLACE)
            assert index.find(path, PLACE) == {"it"}
        assert not fits("/home/Dev/.claud/settings.json", PLACE)
    assert not compile_path_glob("**/.claude/settings*")("/home/Dev/.Claude/settings.json", PLACE)
    assert not compile_path_globs(["(?i)*.key", "*.pem"])("/home/dev/app/A.PEM", PLACE)


@pytest.mark.parametrize("glob", ["(?i)src/**", "(?i)~/.ssh/*", "(?i)"])
def test_a_pattern_for_any_letter_case_has_to_mean_the_same_everywhere(glob: str) -> None:
    for compiled in (compile_path_glob, lambda one: compile_path_globs([one]), lambda one: PathIndex({"it": [one]})):
        with pytest.raises(PatternError, match=r"\(\?i\)"):
            compiled(glob)
